"""Recorded flights: a spline through tracked poses, and for our own recordings the other actors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_adapters.recording.formats import open_recording
from vil_bridge.assembly.world import build_world
from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_conj, q_mul, q_normalize
from vil_bridge.core.types import ActorKind, FloatArray, WorldSnapshot
from vil_bridge.offline.playback import Timeline, arrivals, config_of
from vil_bridge.recording.reader import Recording
from vil_bridge.world.world import World
from vil_simulation.dataset.plan import RecordedPath
from vil_simulation.dataset.trajectories import true_state
from vil_simulation.vehicles.model import TrueState

_DEGREE: Final = 5
_STIFFNESS: Final = 1e-3
"""Weight of the coefficients' third differences next to the poses.

It carries the spline over short gaps.
"""
_LONGEST_GAP_NS: Final = NS_PER_S // 2
_HINDSIGHT_NS: Final = 80 * NS_PER_MS
"""Everybody is asked for that much later, so that poses are interpolated between two that were
seen.
"""
MCAP: Final = ".mcap"


class SeenPoses(NamedTuple):
    """Poses of a body: times (n,), increasing, positions (n, 3) and attitudes (n, 4).

    And its name.
    """

    t_ns: npt.NDArray[np.int64]
    p_m: FloatArray
    q_xyzw: FloatArray
    name: str


class RecordedFlight:
    """Motion of a degree 5 spline through recorded poses.

    :class:`~vil_simulation.dataset.trajectories.Flight`.

    Attributes:
        ends: why it is not longer. off_m: root mean square distance of the poses from it.

    Raises:
        ConfigError: nothing is left to fly.
    """

    def __init__(self, seen: SeenPoses, start_s: float, smooth_s: float) -> None:
        wanted_ns = int(seen.t_ns[0]) + round(start_s * NS_PER_S)
        first = int(np.searchsorted(seen.t_ns, wanted_ns))
        if len(seen.t_ns) - first < 2:
            raise ConfigError(
                f"trajectory.recorded: start_s {start_s} is behind the end of the recording"
            )
        gaps = np.flatnonzero(np.diff(seen.t_ns) > _LONGEST_GAP_NS)
        before = gaps[gaps < first]
        after = gaps[gaps >= first]
        last = len(seen.t_ns) - 1
        if len(after):
            last = int(after[0])
        # What was seen on the other side of a gap says nothing about this stretch.
        stretch = slice(int(before[-1]) + 1 if len(before) else 0, last + 1)
        t_ns = seen.t_ns[stretch]
        p_m = seen.p_m[stretch]
        if len(t_ns) < 3:
            raise ConfigError(
                f"trajectory.recorded: about start_s {start_s} the body was seen "
                f"{len(t_ns)} times without a gap of "
                "half a second, a flight needs three: choose another start_s"
            )
        self.start_ns = max(wanted_ns, int(t_ns[0]))
        self.duration_ns = int(t_ns[-1]) - self.start_ns
        self.ends = ""
        if len(after):
            blind_s = (seen.t_ns[last + 1] - seen.t_ns[last]) / NS_PER_S
            self.ends = f"then it was not seen for {blind_s:.1f} s"
        self._origin_ns = int(t_ns[0])
        t_s = np.asarray(1e-9 * (t_ns - self._origin_ns), np.float64)
        self._spline = _smooth(
            t_s, np.column_stack((p_m, _continuous(seen.q_xyzw[stretch]))), smooth_s
        )
        flown = t_ns >= self.start_ns
        off = self._spline(t_s[flown])[:, :3] - p_m[flown]
        self.off_m = float(np.sqrt((off**2).sum(axis=1).mean()))

    def motion(self, t_ns: list[int]) -> TrueState:
        """See :class:`~vil_simulation.dataset.trajectories.Flight`."""
        t_s = 1e-9 * (np.array(t_ns) - self._origin_ns)
        rows, slopes, bends = (self._spline(t_s, order) for order in range(3))
        s = rows[:, 3:]
        ds = slopes[:, 3:]
        dds = bends[:, 3:]
        # The attitude is s / |s|: parts along s turn nothing.
        square = (s * s).sum(axis=1, keepdims=True)
        w = 2.0 * q_mul(q_conj(s), ds)[:, :3] / square
        alpha = (
            2.0 * q_mul(q_conj(s), dds)[:, :3] / square
            - 2.0 * (s * ds).sum(axis=1, keepdims=True) / square * w
        )
        return true_state(
            t_ns[0], (rows[:, :3], slopes[:, :3], bends[:, :3]), (q_normalize(s), w, alpha)
        )


def _continuous(q_xyzw: FloatArray) -> FloatArray:
    """Return the same attitudes (n, 4), each of the two signs that is nearer to the one before."""
    turned = np.where((q_xyzw[1:] * q_xyzw[:-1]).sum(axis=1) < 0.0, -1.0, 1.0)
    return np.asarray(q_xyzw * np.concatenate(([1.0], np.cumprod(turned)))[:, None])


def _smooth(t_s: FloatArray, values: FloatArray, spacing_s: float) -> Any:
    """Return the spline with knots so far apart that is nearest to values (n, k) in the sense of
    least squares.
    """
    from scipy.interpolate import BSpline
    from scipy.sparse import diags
    from scipy.sparse.linalg import spsolve

    pieces = max(1, round(float(t_s[-1]) / spacing_s))
    step = float(t_s[-1]) / pieces
    knots = step * np.arange(-_DEGREE, pieces + _DEGREE + 1)
    design: Any = BSpline.design_matrix(
        np.clip(t_s, 0.0, knots[-_DEGREE - 1]), knots, _DEGREE
    ).tocsc()
    size = int(design.shape[1])
    offsets: Any = [0, 1, 2, 3]
    third: Any = diags(
        [-1.0, 3.0, -3.0, 1.0], offsets, shape=(max(0, size - 3), size), format="csc"
    )
    weight = _STIFFNESS * max(1.0, len(t_s) / size)
    coefficients = spsolve(design.T @ design + weight * (third.T @ third), design.T @ values)
    return BSpline(knots, coefficients, _DEGREE)


def recorded_poses(path: RecordedPath) -> SeenPoses:
    """Return the poses at which the body of a recording was seen.

    Raises:
        ConfigError: the file cannot be read, or holds no such body, or never saw it twice.
        RecordingError: likewise, of our own recordings.
    """
    seen = _of_actor(path) if path.file.suffix == MCAP else _of_body(path)
    if len(seen.t_ns) < 2:
        raise ConfigError(
            f"{path.file}: {seen.name} was seen {len(seen.t_ns)} times, a flight needs two"
        )
    return seen


def _of_body(path: RecordedPath) -> SeenPoses:
    take = open_recording(path.file)
    if not take.subjects:
        raise ConfigError(f"{path.file} holds no rigid body")
    name = path.subject or take.subjects[0]
    if name not in take.subjects:
        raise ConfigError(
            f"{path.file} holds no body named {name!r}; it has {', '.join(take.subjects)}"
        )
    column = take.subjects.index(name)
    rows = take.bodies.tracked[:, column]
    return SeenPoses(
        take.t_ns[rows], take.bodies.p_m[rows, column], take.bodies.q_xyzw[rows, column], name
    )


def _of_actor(path: RecordedPath) -> SeenPoses:
    with Recording(path.file) as recording, Timeline().running():
        world = build_world(config_of(recording))
        rigid = [actor for actor in world.actors if actor.kind is not ActorKind.HUMAN]
        vehicles = [
            actor.name
            for actor in sorted(rigid, key=lambda actor: actor.kind is not ActorKind.VEHICLE)
        ]
        name = path.subject or next(iter(vehicles), "")
        if name not in vehicles:
            raise ConfigError(
                f"{path.file} has no rigid actor {name!r}; it has {', '.join(vehicles) or 'none'}"
            )
        times: list[int] = []
        poses: list[Transform] = []
        for _ in _played(recording, world):
            newest = world.newest(name)
            if newest is not None and (not times or newest[1] > times[-1]):
                times.append(newest[1])
                poses.append(newest[0])
        t_ns = np.array(times, dtype=np.int64) + recording.utc_offset_ns
    p_m = np.array([pose.p_m for pose in poses])
    q_xyzw = np.array([pose.q_xyzw for pose in poses])
    return SeenPoses(t_ns, p_m, q_xyzw, name)


def snapshots_at(file: Path, t_ns: Sequence[int]) -> list[WorldSnapshot]:
    """Return all actors of a recording of ours at instants that increase, Unix time.

    Raises:
        RecordingError: the file cannot be read.
    """
    found: list[WorldSnapshot] = []
    with Recording(file) as recording, Timeline().running():
        world = build_world(config_of(recording))

        def ask(until_ns: float) -> None:
            while len(found) < len(t_ns) and t_ns[len(found)] + _HINDSIGHT_NS <= until_ns:
                at_ns = t_ns[len(found)]
                found.append(replace(world.snapshot(at_ns - recording.utc_offset_ns), t_ns=at_ns))

        for now_ns in _played(recording, world):
            ask(now_ns + recording.utc_offset_ns)
        ask(np.inf)
    return found


def _played(recording: Recording, world: World) -> Iterator[int]:
    """Play a recording into a world; yield the bridge time after each event."""
    for t_ns, event in arrivals(recording):
        bridge_clock().stand_at(t_ns)
        world.ingest(event)
        yield t_ns
