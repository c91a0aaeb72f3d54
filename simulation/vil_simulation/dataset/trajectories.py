"""The flight of a data set's body.

Smooth motion with all its derivatives, from a curve or from a recording.

Pictures, IMU and ground truth are all taken from this one motion, so that they agree exactly.
"""

from __future__ import annotations

import math
from typing import Final, Protocol

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import GRAVITY_MPS2, q_conj, q_rotate
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import Trajectory
from vil_simulation.dataset.plan import CirclePath, RacePath, WaypointsPath
from vil_simulation.vehicles.control.airframe import RotorAirframe
from vil_simulation.vehicles.control.flatness import flat
from vil_simulation.vehicles.control.limits import Limits, fastest
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.trajectories import circle, minimum_snap

_START_NS: Final = NS_PER_S
"""Time of the first frame of a generated flight: some programs take 0 for unknown."""
_ENDLESS_NS: Final = 1 << 60
_TURNS: Final = 2.0
_DRONE: Final = RotorAirframe(1.0, np.eye(3), np.eye(4), 0.0, 1.0, gravity_mps2=GRAVITY_MPS2)


class Flight(Protocol):
    """Motion of a body over its own time.

    Attributes:
        start_ns, duration_ns: of the time in which it is known.
        ends: why it is not longer; empty = no reason.
    """

    start_ns: int
    duration_ns: int
    ends: str

    def motion(self, t_ns: list[int]) -> TrueState:
        """Return the body at n instants, one row each; its ``t_ns`` is that of the first."""
        ...


class FlownCurve:
    """A curve as a multicopter without drag flies it: banked as its acceleration asks."""

    def __init__(self, curve: Trajectory) -> None:
        self.start_ns = _START_NS
        self.ends = ""
        if curve.repeat_s:
            self.duration_ns = _ENDLESS_NS
        else:
            self.duration_ns = math.floor(curve.duration_s * NS_PER_S)
        self._curve = curve

    def motion(self, t_ns: list[int]) -> TrueState:
        """See :class:`Flight`."""
        reference = self._curve.at([1e-9 * (t - self.start_ns) for t in t_ns])
        wanted = flat(_DRONE, reference)
        return true_state(
            t_ns[0],
            (reference.p_world_m, reference.v_world_mps, reference.a_world_mps2),
            (wanted.q_world_body, wanted.w_body_radps, wanted.alpha_body_radps2),
        )


def true_state(
    t_ns: int,
    moved: tuple[FloatArray, FloatArray, FloatArray],
    turned: tuple[FloatArray, FloatArray, FloatArray],
) -> TrueState:
    """Return a motion with the specific force that sensors measure.

    Args:
        t_ns: of its first row.
        moved: position, velocity, acceleration, (n, 3) each, world.
        turned: attitude (n, 4), angular rate and acceleration (n, 3), body.
    """
    q_world_body, w_body_radps, alpha_body_radps2 = turned
    force = q_rotate(q_conj(q_world_body), moved[2] + np.array([0.0, 0.0, GRAVITY_MPS2]))
    none = np.zeros((len(force), 0))
    return TrueState(t_ns, *moved, q_world_body, w_body_radps, alpha_body_radps2, force, none)


def truth_row(truth: TrueState, row: int, t_ns: int) -> TrueState:
    """Return one instant of a motion."""
    return TrueState(t_ns, *(column[row : row + 1] for column in truth[1:]))


def curve_of(
    path: CirclePath | WaypointsPath | RacePath, gates_m: FloatArray, *, endless: bool
) -> Trajectory:
    """Return the curve that a plan asks for.

    Args:
        path: what shall be flown.
        gates_m: centres of the scene's gates in their order, (n, 3).
        endless: a circle of no given turns goes on and on.

    Raises:
        ConfigError: it cannot be flown; the message says why.
    """
    try:
        if isinstance(path, CirclePath):
            turns = path.turns if path.turns or endless else _TURNS
            return circle(path.radius_m, path.speed_mps, center_m=path.center_m, turns=turns)
        if isinstance(path, WaypointsPath):
            yaw = "along" if path.yaw_deg == "along" else math.radians(path.yaw_deg)
            points = np.array(path.points_m)
            curve = minimum_snap(points, speed_mps=path.speed_mps, yaw_rad=yaw)
        else:
            if len(gates_m) < 2:
                raise ConfigError(
                    f"a race needs a scene with gates, this one has {len(gates_m)}: try `course`"
                )
            curve = minimum_snap(
                np.tile(gates_m, (path.laps, 1)), speed_mps=path.speed_mps, yaw_rad="along"
            )
        return fastest(
            curve, Limits(speed_mps=path.speed_mps, acceleration_mps2=path.acceleration_mps2)
        )
    except ValueError as exc:
        raise ConfigError(f"trajectory: {exc}") from exc
