"""Live race: all racers of a world on one course, each judged by its measured poses in its own
capture time.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from vil_bridge.core.clock import NS_PER_MS, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.courses.course import Course
from vil_bridge.world.race.events import (
    GateMissed,
    GatePassed,
    LapDone,
    RaceCollision,
    RaceEnded,
    RaceEvent,
    RaceStarted,
)
from vil_bridge.world.race.flown import FlownRace, RaceResults
from vil_bridge.world.race.standing import RacerStanding
from vil_bridge.world.world import World

logger = logging.getLogger(__name__)

_MOST_POSES: Final = 10_000
"""Of a racer that wait for the next check; older ones are lost."""
_LANDING_MPS: Final = 1.5
"""Downwards: who touches the ground faster has crashed."""
_PATIENCE_NS: Final = 1500 * NS_PER_MS
"""Poses say until then that a race has run out of time; a crossing may stay open for a second."""


class Contacts(NamedTuple):
    """Contacts of a simulated vehicle.

    Attributes:
        begun: how many. t_ns, other: time (bridge) and other side of the newest. below: the other
            side is below it.
    """

    begun: int
    t_ns: int
    other: str
    below: bool = False


class _Poses:
    """Measured poses of one racer that are not judged yet; one thread adds, another one takes."""

    def __init__(self) -> None:
        self._rows: deque[tuple[int, Transform]] = deque(maxlen=_MOST_POSES)
        self._newest_ns = (-1, -1)

    def add(self, pose: Transform, t_ns: int, t_arrival_ns: int) -> None:
        if t_ns > self._newest_ns[0] and t_arrival_ns != self._newest_ns[1]:
            self._newest_ns = t_ns, t_arrival_ns
            self._rows.append((t_ns, pose))

    def taken(self, after_ns: int) -> list[tuple[int, Transform]]:
        rows = (self._rows.popleft() for _ in range(len(self._rows)))
        return [row for row in rows if row[0] > after_ns]


class RaceMonitor:
    """Judge of a race.

    It takes the poses as they come, and judges those that came since the last check.

    The starting signal is the newest capture once each racer was seen. Events are lines of the log.

    Args:
        world: of the racers.
        course: with laps and rules.
        racers: radius in metres of each, by the actor's name.
        contacts: returns the contacts of an actor that is a simulated vehicle, None for others.

    Attributes:
        course: as given, or as set up last. racers: names of all.
    """

    def __init__(
        self,
        world: World,
        course: Course,
        racers: Mapping[str, float],
        contacts: Callable[[str], Contacts | None],
    ) -> None:
        self.racers: Final = tuple(racers)
        self.course = course
        self._world = world
        self._radii_m: Final = dict(racers)
        self._contacts = contacts
        self._lock = threading.Lock()
        self._poses: Final = {name: _Poses() for name in racers}
        self._begun: dict[str, int] = {}
        self._results: Final = RaceResults()
        self._standings = self._new_standings({})
        self._signal_ns: int | None = None
        self._after_ns = -1
        world.watch(self._on_frame)

    def _new_standings(self, pilots: Mapping[str, str]) -> dict[str, RacerStanding]:
        radii_m = self._radii_m.items()
        return {
            name: RacerStanding(name, self.course, m, pilots.get(name, "")) for name, m in radii_m
        }

    def _on_frame(self, _t_ns: int) -> None:
        for name, poses in self._poses.items():
            newest = self._world.newest(name)
            if newest is not None:
                poses.add(*newest)

    def reset(
        self,
        course: Course | None = None,
        pilots: Mapping[str, str] | None = None,
        after_ns: int = -1,
    ) -> None:
        """Set the race up again; the signal comes once each racer is seen after this. Any thread.

        Args:
            course: None = the same.
            pilots: names of who flies, by racer.
            after_ns: poses that were measured until then do not count.
        """
        with self._lock:
            for poses in self._poses.values():
                poses.taken(after_ns)
            self.course = course or self.course
            self._after_ns = after_ns
            self._standings = self._new_standings(pilots or {})
            self._signal_ns = None
        logger.info("race: set up again on %s", self.course.name)

    def standings(self) -> tuple[RacerStanding, ...]:
        """Return the racers, the leader first. Any thread."""
        with self._lock:
            return tuple(sorted(self._standings.values(), key=lambda one: one.place))

    def standing(self, racer: str) -> RacerStanding:
        """Return a racer. Any thread.

        Raises:
            KeyError: it does not race.
        """
        return self._standings[racer]

    def results(self) -> tuple[FlownRace, ...]:
        """Return the races that have ended, the oldest first. Any thread."""
        with self._lock:
            return self._results.races()

    def check(self) -> None:
        """Judge what came since the last time, and who ran out of time without poses.

        Any thread.
        """
        with self._lock:
            rows = {name: poses.taken(self._after_ns) for name, poses in self._poses.items()}
            self._give_signal(rows)
            events = [
                (event, name)
                for name in rows
                for event in self._judged(self._standings[name], rows[name])
            ]
            for one in self._standings.values():
                one.publish()
        for event, name in sorted(events, key=lambda one: one[0].t_ns):
            logger.info("race: %s %s", name, event_text(event))

    def _give_signal(self, rows: Mapping[str, list[tuple[int, Transform]]]) -> None:
        if self._signal_ns is not None:
            return
        for name, poses in rows.items():
            self._standings[name].seen |= bool(poses)
        if not all(one.seen for one in self._standings.values()):
            return
        self._signal_ns = max(poses[-1][0] for poses in rows.values() if poses)
        for one in self._standings.values():
            one.clock.signal(self._signal_ns)
            one.signalled = True
        course = self.course
        racers = ", ".join(self._standings)
        logger.info(
            "race: starting signal on %s, laps: %d, for %s", course.name, course.laps, racers
        )

    def _judged(self, one: RacerStanding, poses: list[tuple[int, Transform]]) -> list[RaceEvent]:
        self._report_contacts(one, poses)
        events: list[RaceEvent] = []
        for t_ns, pose in poses:
            events += one.feed(t_ns, pose)
        events += one.clock.expire(now_ns() - _PATIENCE_NS)
        for event in events:
            one.take(event)
        flown = (
            one.flown(self._results.next_number)
            if any(isinstance(event, RaceEnded) for event in events)
            else None
        )
        if flown is not None:
            self._results.add(flown)
        return events

    def _report_contacts(self, one: RacerStanding, poses: list[tuple[int, Transform]]) -> None:
        """Report a contact that began to the clock.

        Taking off from the ground and landing are none.
        """
        contacts = self._contacts(one.name)
        if contacts is None:
            return
        before = self._begun.get(one.name, contacts.begun)
        self._begun[one.name] = contacts.begun
        if contacts.begun > before and not (
            contacts.below and one.descent_mps(contacts.t_ns, poses) < _LANDING_MPS
        ):
            one.clock.collide(contacts.t_ns, contacts.other)


def event_text(event: RaceEvent) -> str:
    """Return an event as the end of a sentence that begins with the racer's name."""
    match event:
        case RaceStarted():
            return "starts"
        case GatePassed():
            return (
                f"passes {event.gate} (gate {event.number + 1}, lap {event.lap}) after "
                f"{event.race_s:.3f} s,"
                f" split {event.split_s:.3f} s, {event.speed_mps:.1f} m/s"
            )
        case GateMissed():
            return f"misses {event.gate} (gate {event.number + 1}){_penalty(event.penalty_s)}"
        case LapDone():
            return f"completes lap {event.lap} in {event.lap_s:.3f} s"
        case RaceCollision():
            return f"collides with {event.what}{_penalty(event.penalty_s)}"
        case RaceEnded():
            words = {
                "out_of_bounds": "is out of bounds",
                "timed_out": "timed out",
                "finished": "finishes",
            }
            text = words.get(event.outcome, f"is out by {event.outcome}")
            return (
                f"{text} after {event.race_s:.3f} s and {event.passed} "
                f"gates{_penalty(event.penalty_s)}"
            )


def _penalty(penalty_s: float) -> str:
    return f", penalty {penalty_s:g} s" if penalty_s else ""
