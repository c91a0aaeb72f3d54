"""Measurements of each actor in a recording, in the world and in Unix time."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import q_conj, q_log, q_mul
from vil_bridge.core.motion import BodyMotion
from vil_bridge.core.sensor_readings import SensorKind, SensorReading, SensorReadings
from vil_bridge.core.types import FloatArray, ImuSample, SkeletonFrame, SourceFrame
from vil_bridge.recording.actor_poses import Placing, RecordedPose
from vil_bridge.recording.metadata import RecordedActor, RecordingFacts
from vil_bridge.recording.reader import Recording

_LONGEST_SPAN_NS: Final = NS_PER_S // 2
"""Over a longer gap the speed of a body is unknown."""
_SHORTEST_SPAN_NS: Final = 15 * NS_PER_MS
"""Over a shorter one a difference shows the noise of poses and stamps.

Neighbours at 120 Hz are farther apart.
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """A measured pose of an actor. ``t_utc_ns`` is its capture."""

    t_utc_ns: int
    placed: RecordedPose

    @property
    def skeleton(self) -> SkeletonFrame | None:
        """A human's bones in the world."""
        return self.placed.skeleton


@dataclass(frozen=True, slots=True)
class ImuMeasurement:
    """An inertial sample. ``t_utc_ns`` is its capture; shapes (3,), the IMU's axes."""

    t_utc_ns: int
    w_radps: FloatArray
    f_mps2: FloatArray


class ExportedReading(NamedTuple):
    """A reading of an actor's sensor. ``t_utc_ns`` is the instant of the measurement."""

    t_utc_ns: int
    actor: RecordedActor
    sensor: str
    kind: SensorKind
    reading: SensorReading


def sightings(recording: Recording, facts: RecordingFacts) -> Iterator[Seen]:
    """Yield every measured pose.

    The captures of an actor strictly increase, what came late is left out.
    """
    placing = Placing(facts.actors)
    last_ns = dict.fromkeys((a.name for a in facts.actors), -1)
    for event, _, t_capture_ns in recording.stamped_events():
        if not isinstance(event, SourceFrame) or t_capture_ns is None:
            continue
        t_utc_ns = t_capture_ns + recording.utc_offset_ns
        for placed in placing.placed(event):
            if t_utc_ns > last_ns[placed.actor]:
                last_ns[placed.actor] = t_utc_ns
                yield Seen(t_utc_ns, placed)


def motions(recording: Recording, facts: RecordingFacts) -> Iterator[tuple[str, BodyMotion]]:
    """Yield the measured poses of rigid actors with twists, Unix time.

    None at the ends and next to gaps.

    A twist is the central difference of neighbours, of farther ones where those are less than 15 ms
    apart.
    """
    windows: dict[str, _Window] = defaultdict(_Window)
    for seen in sightings(recording, facts):
        if seen.skeleton is None:
            for motion in windows[seen.placed.actor].add(seen):
                yield seen.placed.actor, motion


class _Window:
    """The poses around those whose twist is not known yet."""

    def __init__(self) -> None:
        self._seen: deque[Seen] = deque()
        self._next = 0  # of them, the first whose twist is not known

    def add(self, newest: Seen) -> Iterator[BodyMotion]:
        """Motions that are known with one pose more."""
        seen = self._seen
        seen.append(newest)
        while (reach := self._reach()) is not None:
            here = seen[self._next]
            if reach:
                before = seen[self._next - reach]
                after = seen[self._next + reach]
                if after.t_utc_ns - before.t_utc_ns < _LONGEST_SPAN_NS:
                    yield _motion(before, here, after)
            self._next += 1
            while self._next > 1 and here.t_utc_ns - seen[1].t_utc_ns >= _SHORTEST_SPAN_NS:
                seen.popleft()
                self._next -= 1

    def _reach(self) -> int | None:
        """Poses to either side that the next twist needs.

        0 = there are not enough before it, None = not yet after.
        """
        seen = self._seen
        here = self._next
        for reach in range(1, len(seen)):
            if here - reach < 0:
                return 0
            if here + reach >= len(seen):
                return None
            if seen[here + reach].t_utc_ns - seen[here - reach].t_utc_ns >= _SHORTEST_SPAN_NS:
                return reach
        return None


def samples(recording: Recording) -> Iterator[tuple[str, ImuMeasurement]]:
    """Yield inertial samples and their sources (``SOURCE/SUBJECT`` of those with several).

    Captures of one increase.
    """
    last_ns: dict[str, int] = {}
    for event, _, t_capture_ns in recording.stamped_events():
        if isinstance(event, ImuSample) and t_capture_ns is not None:
            t_utc_ns = t_capture_ns + recording.utc_offset_ns
            if t_utc_ns > last_ns.get(event.source, -1):
                last_ns[event.source] = t_utc_ns
                yield event.source, ImuMeasurement(t_utc_ns, event.w_radps, event.f_mps2)


def readings(recording: Recording, facts: RecordingFacts) -> Iterator[ExportedReading]:
    """Yield the readings of the actors' sensors, in the world's axes.

    The instants of one sensor strictly increase.
    """
    actors = {(actor.source, actor.subject): actor for actor in facts.actors}
    last_ns: dict[tuple[str, str], int] = {}
    for event, *_ in recording.stamped_events():
        if not isinstance(event, SensorReadings):
            continue
        for row, subject in enumerate(event.subjects):
            actor = actors.get((event.source, subject))
            if actor is None or event.t_ns <= last_ns.get((actor.name, event.sensor), -1):
                continue
            last_ns[actor.name, event.sensor] = event.t_ns
            reading = event.in_world(actor.T_world_room).reading(row, recording.utc_offset_ns)
            yield ExportedReading(
                event.t_ns + recording.utc_offset_ns, actor, event.sensor, event.kind, reading
            )


def _motion(before: Seen, here: Seen, after: Seen) -> BodyMotion:
    dt_s = (after.t_utc_ns - before.t_utc_ns) / NS_PER_S
    a = before.placed.T_world_body
    b = after.placed.T_world_body
    w_body_radps = q_log(q_mul(q_conj(a.q_xyzw), b.q_xyzw)) / dt_s
    v_world_mps = np.asarray((b.p_m - a.p_m) / dt_s)
    return BodyMotion(
        here.t_utc_ns, here.placed.T_world_body, v_world_mps, w_body_radps, "measured"
    )
