"""Judge of inertial samples.

Their sum against the change of velocity of true poses, by arithmetic of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vil_bridge.core.types import FloatArray

SHARE = 0.02
LEAST_MPS = 0.05
"""Distance of the sum from the change of velocity, at most."""


def matrix(q_xyzw: FloatArray) -> FloatArray:
    """Return the matrix of an attitude, body to world."""
    x, y, z, w = q_xyzw / np.sqrt((q_xyzw * q_xyzw).sum())
    return np.array(
        (
            (1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)),
            (2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)),
            (2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)),
        )
    )


class TruePoses:
    """True states of one vehicle at every step.

    Position, velocity, attitude, body rates, (13,) each.
    """

    def __init__(self, t_ns: int, state: FloatArray) -> None:
        self.times_ns = [t_ns]
        self.states = [state.copy()]

    def add(self, t_ns: int, state: FloatArray) -> None:
        """Add the state at the end of a step."""
        self.times_ns.append(t_ns)
        self.states.append(state.copy())

    def middle(self, begin_ns: int, end_ns: int) -> FloatArray:
        """Return the attitude half way between those at two instants."""
        begin = self.attitude(begin_ns)
        end = self.attitude(end_ns)
        mean: FloatArray = begin + end * np.sign((begin * end).sum())
        return mean

    def attitude(self, t_ns: int) -> FloatArray:
        """Return the attitude at an instant, on a straight line between its neighbours."""
        k = min(max(int(np.searchsorted(self.times_ns, t_ns)), 1), len(self.times_ns) - 1)
        before = self.states[k - 1][6:10]
        after = self.states[k][6:10]
        share = (t_ns - self.times_ns[k - 1]) / (self.times_ns[k] - self.times_ns[k - 1])
        mean: FloatArray = (1.0 - share) * before + share * after * np.sign((before * after).sum())
        return np.asarray(mean / np.sqrt((mean * mean).sum()))


def felt_change(
    poses: TruePoses, times_ns: Sequence[int], forces: Sequence[FloatArray], gravity_mps2: float
) -> FloatArray:
    """Return the change of velocity that samples of specific force add up to, each turned half
    way.
    """
    total = np.zeros(3)
    begin_ns = poses.times_ns[0]
    for end_ns, force in zip(times_ns, forces, strict=True):
        turned = matrix(poses.middle(begin_ns, end_ns)) @ force
        total += (turned - (0.0, 0.0, gravity_mps2)) * (end_ns - begin_ns) / 1e9
        begin_ns = end_ns
    return total


def assert_felt(
    poses: TruePoses, times_ns: Sequence[int], forces: Sequence[FloatArray], gravity_mps2: float
) -> None:
    """Assert that samples feel the change of velocity within 2 % of the fastest change and 0.05
    m/s.
    """
    speeds = np.array(poses.states)[:, 3:6]
    last = int(np.searchsorted(poses.times_ns, times_ns[-1]))
    change = speeds[last] - speeds[0]
    off = felt_change(poses, times_ns, forces, gravity_mps2) - change
    largest = float(np.abs(speeds - speeds[0]).max())
    assert np.abs(off).max() <= min(LEAST_MPS, max(SHARE * largest, 0.01)), (
        f"{off} of {change}, up to {largest}"
    )
