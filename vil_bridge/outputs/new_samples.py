"""Measurements that are new since the last call, for outputs that send each once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from vil_bridge.core.clock import now_ns
from vil_bridge.core.motion import BodyMotion, ImuWindow
from vil_bridge.core.sensor_readings import ActorReading
from vil_bridge.core.types import ActorKind, SkeletonFrame, TrackingState
from vil_bridge.interfaces.ports import WorldView
from vil_bridge.runtime.pacing import SlotTimer

LOOKS_HZ: Final = 100.0
"""Least looks a second at what is new.

Inertial samples and readings wait 10 ms, and none is lost from memory.
"""


class PosePacing:
    """Decision at which looks poses are sent, for rates below that of the looks.

    Attributes:
        looks_hz: looks per second.
    """

    def __init__(self, rate_hz: float) -> None:
        self.looks_hz: Final = max(rate_hz, LOOKS_HZ)
        self._timer = SlotTimer(rate_hz) if rate_hz < LOOKS_HZ else None

    def due(self) -> bool:
        """Return True when poses are sent at this look."""
        if self._timer is None:
            return True
        if not self._timer.due():
            return False
        self._timer.passed()
        return True


class WorldNews:
    """Measured poses, inertial samples and readings of some actors, each yielded once and stamped
    with its capture.

    A body that is lost or frozen has no news: its last pose is never yielded again, whatever stamps
    the source gives it. Stamps of an actor's poses, and of each of its sensors, strictly increase,
    also when its source's clock turns out to run differently.

    Attributes:
        rigid: names of those that have a single pose. humans: names of those that have a skeleton.
    """

    def __init__(self, world: WorldView, actors: Sequence[str]) -> None:
        start_ns = now_ns()
        humans = {a.name for a in world.snapshot(start_ns).actors if a.kind is ActorKind.HUMAN}
        self.rigid = tuple(actor for actor in actors if actor not in humans)
        self.humans = tuple(actor for actor in actors if actor in humans)
        self._world = world
        self._pose_ns = dict.fromkeys(self.rigid, start_ns)
        self._imu_ns = dict.fromkeys(self.rigid, start_ns)
        self._skeleton_ns = dict.fromkeys(self.humans, start_ns)
        self._reading = world.sensors.newest
        self._reading_ns: dict[tuple[str, str], int] = {}

    def motions(self) -> Iterator[tuple[str, BodyMotion]]:
        """Yield the newest measured poses with their twists, of those actors that have a newer
        one.
        """
        for actor, last_ns in self._pose_ns.items():
            newest = self._world.newest(actor)
            if newest is not None and newest[1] > last_ns and not self._is_frozen(actor):
                self._pose_ns[actor] = newest[1]
                yield actor, self._world.motion_at(actor, newest[1])

    def skeletons(self) -> Iterator[tuple[str, int, SkeletonFrame]]:
        """Yield the newest skeletons, each with its capture, of those humans that have a newer one.

        World poses.
        """
        for actor, last_ns in self._skeleton_ns.items():
            newest = self._world.newest_skeleton(actor)
            if newest is not None and newest[1] > last_ns and not self._is_frozen(actor):
                self._skeleton_ns[actor] = newest[1]
                yield actor, newest[1], newest[0]

    def inertial(self) -> Iterator[tuple[str, ImuWindow]]:
        """Yield all inertial samples since the last call, each in its IMU's axes."""
        for actor, last_ns in self._imu_ns.items():
            window = self._world.imu_since(actor, last_ns)
            if window is not None:
                self._imu_ns[actor] = int(window.t_ns[-1])
                yield actor, window

    def readings(self) -> Iterator[ActorReading]:
        """Yield all readings of sensors since the last call."""
        self._reading, found = self._world.sensors.since(self._reading, self._pose_ns.keys())
        for one in found:
            sensor = one.actor, one.sensor
            if one.reading.t_ns > self._reading_ns.get(sensor, 0):
                self._reading_ns[sensor] = one.reading.t_ns
                yield one

    def _is_frozen(self, actor: str) -> bool:
        return self._world.state_of(actor) is TrackingState.FROZEN
