"""Newest readings of the actors' sensors."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Final

from vil_bridge.core.clock import WallClock
from vil_bridge.core.geometry import Transform
from vil_bridge.core.sensor_readings import ActorReading, SensorDescription, SensorReadings
from vil_bridge.world.actors import Actor

_MOST_EVENTS: Final = 4096
"""Of all sources together: four seconds of five sensors at 200 Hz."""
_MOST_BYTES: Final = 64 << 20
"""Numbers of all events together: lidars have many."""


class SensorHistory:
    """Readings as sources emitted them, numbered from 1 in the order in which they came.

    Any thread.

    Args:
        actors: whose they are.
        T_world_room_of: source name to the frame of its room in the world.

    Attributes:
        newest: number of the newest event; 0 = there was none.
    """

    def __init__(self, actors: Sequence[Actor], T_world_room_of: Mapping[str, Transform]) -> None:
        self.newest = 0
        self._actor_of = {(a.source, a.subject): a.name for a in actors}
        self._descriptions = {a.name: a.sensors for a in actors}
        self._rooms = dict(T_world_room_of)
        self._source_of = {a.name: a.source for a in actors}
        self._lock = threading.Lock()
        self._bytes = 0
        self._events: deque[SensorReadings] = deque(maxlen=_MOST_EVENTS)

    def add(self, event: SensorReadings) -> None:
        """Store an event of a source."""
        with self._lock:
            self.newest += 1
            if len(self._events) == _MOST_EVENTS:
                self._bytes -= self._events[0].values.nbytes
            self._events.append(event)
            self._bytes += event.values.nbytes
            while self._bytes > _MOST_BYTES and len(self._events) > 1:
                self._bytes -= self._events.popleft().values.nbytes

    def descriptions(self, actor: str) -> Mapping[str, SensorDescription]:
        """Return an actor's sensors by name, as configured."""
        return self._descriptions[actor]

    def room_of(self, actor: str) -> Transform:
        """Return T_world_room of the source that an actor comes from.

        The identity where it has no room.
        """
        return self._rooms.get(self._source_of[actor], Transform.identity())

    def since(self, number: int, actors: Collection[str]) -> tuple[int, list[ActorReading]]:
        """Return the number of the newest event, and the readings of some actors since an event,
        oldest first.

        Args:
            number: of the last event that is known already.
            actors: names of those whose readings to return.
        """
        with self._lock:
            newest = self.newest
            events = list(islice(reversed(self._events), max(0, newest - number)))
        found: list[ActorReading] = []
        offset_ns = WallClock.of_run().offset_ns
        for event in reversed(events):
            names = [self._actor_of.get((event.source, subject)) for subject in event.subjects]
            mine = [
                (row, name) for row, name in enumerate(names) if name in actors and name is not None
            ]
            if mine:
                room = self._rooms.get(event.source)
                turned = event if room is None else event.in_world(room)
                found += [
                    ActorReading(name, event.sensor, turned.reading(row, offset_ns))
                    for row, name in mine
                ]
        return newest, found
