"""Live distances between tracked vehicles and their twins, over a window, with an alarm."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.world.twin.metrics import delay_of, hausdorff_m, rms
from vil_bridge.world.twin.pose_series import PoseSeries, paired
from vil_bridge.world.world import World

logger = logging.getLogger(__name__)

_CLOSEST_NS: Final = 4 * NS_PER_MS
_PERIOD_NS: Final = NS_PER_S
_STEP_S: Final = 0.02
_LEAST_PAIRS: Final = 50
CALM_SHARE: Final = 0.8
"""An alarm ends below this share of its threshold."""


@dataclass(frozen=True, slots=True)
class TwinPair:
    """A vehicle, its twin, and when to warn; two actors of the world."""

    name: str
    vehicle: str
    twin: str
    window_s: float = 10.0
    alarm_m: float = 0.5


class TwinDistances(NamedTuple):
    """Distances of a twin over the window.

    Attributes:
        compared_s: time in which both were seen. now_m: at the newest instant.
        delay_s: of the twin; None where it is not known.
    """

    compared_s: float
    now_m: float
    position_rms_m: float
    attitude_rms_rad: float
    hausdorff_m: float
    delay_s: float | None


class _Poses:
    """Newest measured poses of one actor; times are bridge time."""

    def __init__(self, window_s: float) -> None:
        self._window_ns = round(window_s * NS_PER_S)
        self._rows: deque[tuple[int, Transform]] = deque()

    def add(self, t_ns: int, pose: Transform) -> None:
        rows = self._rows
        if rows and t_ns < rows[-1][0]:
            rows.clear()  # the source began again with another clock
        if rows and t_ns - rows[-1][0] < _CLOSEST_NS:
            return
        rows.append((t_ns, pose))
        while rows[0][0] < t_ns - self._window_ns:
            rows.popleft()

    def series(self, origin_ns: int, since_ns: int) -> PoseSeries | None:
        rows = [row for row in self._rows if row[0] >= since_ns]
        if len(rows) < 2:
            return None
        t_s = np.array([(t_ns - origin_ns) / NS_PER_S for t_ns, _ in rows])
        return PoseSeries(
            t_s, np.array([p.p_m for _, p in rows]), np.array([p.q_xyzw for _, p in rows])
        )


class TwinMonitor:
    """Monitor of all twins: it takes the poses as they come, and compares them once a second.

    It logs a warning once per episode above the threshold.

    Attributes:
        pairs: in the order of the configuration.
        distances: by pair, of the last comparison; None where the two were not seen together.
        alarms: names of the pairs above their thresholds. episodes: alarms so far, by pair.
    """

    def __init__(self, world: World, pairs: Sequence[TwinPair]) -> None:
        self.pairs: Final = tuple(pairs)
        self.distances: dict[str, TwinDistances | None] = {pair.name: None for pair in pairs}
        self.alarms: frozenset[str] = frozenset()
        self.episodes: dict[str, int] = {pair.name: 0 for pair in pairs}
        self._world = world
        self._lock = threading.Lock()
        windows: dict[str, float] = {}
        for pair in pairs:
            for actor in (pair.vehicle, pair.twin):
                windows[actor] = max(pair.window_s, windows.get(actor, 0.0))
        self._poses = {actor: _Poses(window_s) for actor, window_s in windows.items()}
        self._checked_ns = 0
        if pairs:
            world.watch(self._on_frame)

    def _on_frame(self, _t_ns: int) -> None:
        with self._lock:
            for actor, poses in self._poses.items():
                newest = self._world.newest(actor)
                if newest is not None:
                    poses.add(newest[1], newest[0])

    def check(self) -> None:
        """Compare if a second has passed since the last time. Any thread, one at a time."""
        t_ns = now_ns()
        if not self.pairs or 0 <= t_ns - self._checked_ns < _PERIOD_NS:
            return
        self._checked_ns = t_ns
        self.distances = {pair.name: self._compared(pair, t_ns) for pair in self.pairs}
        self.alarms = frozenset(pair.name for pair in self.pairs if self._alarmed(pair))

    def _compared(self, pair: TwinPair, t_ns: int) -> TwinDistances | None:
        since_ns = t_ns - round(pair.window_s * NS_PER_S)
        with self._lock:
            a, b = (
                self._poses[actor].series(t_ns, since_ns) for actor in (pair.vehicle, pair.twin)
            )
        if a is None or b is None:
            return None
        poses = paired(a, b, _STEP_S)
        if len(poses.t_s) < _LEAST_PAIRS:
            return None
        delay = delay_of(a, b)
        return TwinDistances(
            _STEP_S * len(poses.t_s),
            float(poses.distance_m[-1]),
            rms(poses.distance_m),
            rms(poses.angle_rad),
            hausdorff_m(poses.a_m, poses.b_m),
            None if delay is None else delay.delay_s,
        )

    def _alarmed(self, pair: TwinPair) -> bool:
        found = self.distances[pair.name]
        before = pair.name in self.alarms
        if found is None:
            return False
        now = found.position_rms_m > pair.alarm_m * (CALM_SHARE if before else 1.0)
        if now and not before:
            self.episodes[pair.name] += 1
            logger.warning(
                "twin %s: %s is %.2f m from %s over %.0f s, more than %g m",
                pair.name,
                pair.twin,
                found.position_rms_m,
                pair.vehicle,
                found.compared_s,
                pair.alarm_m,
            )
        elif before and not now:
            logger.info("twin %s: %s is near %s again", pair.name, pair.twin, pair.vehicle)
        return now
