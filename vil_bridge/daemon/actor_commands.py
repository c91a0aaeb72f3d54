"""Set-points for actors, given to the simulated vehicles that they are, and to their twins."""

from __future__ import annotations

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ValueRefused
from vil_bridge.interfaces.setpoints import Setpoint, command_of
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus


class ActorCommands:
    """Way of set-points from outputs to the bus of vehicles; any thread.

    Args:
        config: of the bridge, whose actors are meant. vehicles: its simulated vehicles.
    """

    def __init__(self, config: BridgeConfig, vehicles: VehicleCommandBus) -> None:
        rooms = {name: room.T_world_room.transform() for name, room in config.rooms.items()}
        room_of = {
            name: rooms[room]
            for name, s in config.sources.items()
            if (room := getattr(s, "room", None))
        }
        self._actors = {
            name: (actor.source, actor.subject, room_of[actor.source])
            for name, actor in config.actors.items()
            if actor.source in room_of
        }
        self._twins: dict[str, list[str]] = {}
        for pair in config.twins.values():
            self._twins.setdefault(pair.vehicle, []).append(pair.twin)
        self._vehicles = vehicles

    def fly(self, actor: str, setpoint: Setpoint) -> None:
        """Give a set-point to the vehicle that an actor is, and to its twins.

        Raises:
            ValueRefused: neither the actor nor a twin is a simulated vehicle, or a model cannot
                hold the set-point.
            ValueError: it cannot do that now.
        """
        flown = [self._flown(name, setpoint) for name in (actor, *self._twins.get(actor, ()))]
        if not any(flown):
            raise ValueRefused(
                f"{actor} is not a simulated vehicle that flies now; name an actor of a "
                "source of type simulated"
            )

    def is_simulated(self, actor: str) -> bool:
        """Return True if an actor is a simulated vehicle that flies now; its twins do not count."""
        source, subject, _ = self._actors.get(actor, ("", "", None))
        try:
            return self._vehicles.state(subject).source == source
        except KeyError:
            return False

    def _flown(self, actor: str, setpoint: Setpoint) -> bool:
        """Return False if the actor is not a simulated vehicle that flies now."""
        source, subject, T_world_room = self._actors.get(actor, ("", "", None))
        try:
            state = self._vehicles.state(subject)
            if state.source != source or T_world_room is None:
                return False
            self._vehicles.command(command_of(state, setpoint, T_world_room))
        except KeyError:
            return False
        return True
