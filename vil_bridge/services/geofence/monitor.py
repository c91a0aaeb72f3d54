"""Warnings of actors that are about to leave their room, or to meet actors of another room in
the virtual world.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.world.geofence import RoomVolume, RoomWarning, room_warnings
from vil_bridge.world.world import World

logger = logging.getLogger(__name__)

_VELOCITY_NS: Final = 50 * NS_PER_MS
_EPISODE_END_NS: Final = NS_PER_S


class GeofenceMonitor:
    """Monitor that looks ahead at every check; it logs a warning once per episode.

    Attributes:
        warnings: those of the last check.
        episodes: how many began so far, by kind.
    """

    def __init__(
        self, world: World, rooms: tuple[RoomVolume, ...], room_of: dict[str, str]
    ) -> None:
        self.warnings: tuple[RoomWarning, ...] = ()
        self.episodes: Counter[str] = Counter()
        self._world = world
        self._rooms = rooms
        self._room_of = room_of
        self._needed = len(set(room_of.values())) > 1 or any(
            room.walls is not None for room in rooms
        )
        self._last_ns: dict[tuple[str, tuple[str, ...]], int] = {}

    def check(self) -> None:
        """Find the warnings of now. Any thread, one at a time."""
        if not self._needed:
            return
        t_ns = now_ns()
        now = self._world.snapshot(t_ns)
        later = self._world.snapshot(t_ns + _VELOCITY_NS)
        self.warnings = room_warnings(now, later, self._rooms, self._room_of)
        for warning in self.warnings:
            key = (warning.kind, warning.actors)
            if t_ns - self._last_ns.get(key, -_EPISODE_END_NS) >= _EPISODE_END_NS:
                self.episodes[warning.kind] += 1
                logger.warning("%s", warning_text(warning))
            self._last_ns[key] = t_ns


def warning_text(warning: RoomWarning) -> str:
    """Return a warning as a sentence."""
    if warning.kind == "leaving":
        return (
            f"{warning.actors[0]} is about to leave room {warning.rooms[0]} (in "
            f"{warning.in_s:.1f} s)"
        )
    (one, other), (room, other_room) = warning.actors, warning.rooms
    return (
        f"{one} (room {room}) and {other} (room {other_room}) come within "
        f"{warning.distance_m:.2f} m"
        f" of each other in the virtual world (in {warning.in_s:.1f} s)"
    )
