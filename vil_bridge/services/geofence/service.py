"""Virtual walls as a service of a running bridge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vil_bridge.config.root import BridgeConfig, RoomConfig
from vil_bridge.services.geofence.monitor import GeofenceMonitor, warning_text
from vil_bridge.services.geofence.view import View, WarningView
from vil_bridge.services.service import Service, ServiceHost
from vil_bridge.world.geofence import RoomVolume, Walls
from vil_bridge.world.world import World

__all__ = ["GeofenceService"]


class GeofenceService(Service):
    """Watch over the walls of all rooms, which may move while the bridge runs."""

    def __init__(self, section: Mapping[str, RoomConfig], host: ServiceHost) -> None:
        self._rooms = section
        self._world = host.world
        self._monitor = _monitor(host.config, host.world)

    def check(self) -> Sequence[str]:
        """Look ahead; a warning degrades nothing."""
        self._monitor.check()
        return ()

    def adopt(self, config: BridgeConfig) -> None:
        """Take over rooms that were moved, their walls and margins."""
        if config.rooms != self._rooms:
            self._rooms = config.rooms
            self._monitor = _monitor(config, self._world)

    def view(self) -> View:
        """Return the warnings of the last check. Any thread."""
        return tuple(
            WarningView(w.kind, w.actors, w.rooms, w.distance_m, w.in_s, warning_text(w))
            for w in self._monitor.warnings
        )


def _monitor(config: BridgeConfig, world: World) -> GeofenceMonitor:
    """Return the monitor of all rooms of a configuration."""
    rooms = tuple(
        RoomVolume(
            name,
            room.T_world_room.transform(),
            None if room.walls is None else Walls(room.walls.min_m, room.walls.max_m),
            room.margin_m,
        )
        for name, room in config.rooms.items()
    )
    room_of = {
        name: getattr(config.sources[actor.source], "room", None)
        for name, actor in config.actors.items()
    }
    tracked = {name: room for name, room in room_of.items() if room is not None}
    return GeofenceMonitor(world, rooms, tracked)
