"""Set-points for actors, given to the simulated vehicles that they are."""

from __future__ import annotations

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.setpoints import Setpoint, command_of
from vil_bridge.core.vehicle_commands import VehicleCommandBus


class ActorCommands:
    """Way of set-points from outputs to the bus of vehicles; any thread.

    Args:
        config: of the bridge, whose actors are meant. vehicles: its simulated vehicles.
    """

    def __init__(self, config: BridgeConfig, vehicles: VehicleCommandBus) -> None:
        rooms = {name: room.T_world_room.transform() for name, room in config.rooms.items()}
        room_of = {name: rooms[room] for name, s in config.sources.items() if (room := getattr(s, "room", None))}
        self._actors = {
            name: (actor.source, actor.subject, room_of[actor.source])
            for name, actor in config.actors.items()
            if actor.source in room_of
        }
        self._vehicles = vehicles

    def fly(self, actor: str, setpoint: Setpoint) -> None:
        """Give a set-point to the vehicle that an actor is.

        Raises:
            ValueRefused: the actor is not a simulated vehicle, or its model cannot hold the set-point.
            ValueError: it cannot do that now.
        """
        source, subject, T_world_room = self._actors.get(actor, ("", "", None))
        try:
            state = self._vehicles.state(subject)
            if state.source != source or T_world_room is None:
                raise KeyError(subject)
            self._vehicles.command(command_of(state, setpoint, T_world_room))
        except KeyError:
            raise ValueRefused(
                f"{actor} is not a simulated vehicle that flies now; name an actor of a source of type simulated"
            ) from None
