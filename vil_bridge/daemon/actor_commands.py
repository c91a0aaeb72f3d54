"""Set-points for actors, given to the simulated vehicles that they are, and to their followers."""

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
        self._followers: dict[str, list[str]] = {}
        self._vehicles = vehicles

    def follow(self, actor: str, follower: str) -> None:
        """Let a second actor fly the set-points of a first one too, such as its twin."""
        self._followers.setdefault(actor, []).append(follower)

    def fly(self, actor: str, setpoint: Setpoint) -> None:
        """Give a set-point to the vehicle that an actor is, and to its followers.

        Raises:
            ValueRefused: neither the actor nor a follower is a simulated vehicle, or a model cannot
                hold the set-point.
            ValueError: it cannot do that now.
        """
        flown = [self._flown(name, setpoint) for name in (actor, *self._followers.get(actor, ()))]
        if not any(flown):
            raise ValueRefused(
                f"{actor} is not a simulated vehicle that flies now; name an actor of a "
                "source of type simulated"
            )

    def is_simulated(self, actor: str) -> bool:
        """Return True if an actor is a simulated vehicle that flies now, followers apart."""
        source, subject, _ = self._actors.get(actor, ("", "", None))
        try:
            return self._vehicles.of(subject).state(subject).source == source
        except KeyError:
            return False

    def _flown(self, actor: str, setpoint: Setpoint) -> bool:
        """Return False if the actor is not a simulated vehicle that flies now."""
        source, subject, T_world_room = self._actors.get(actor, ("", "", None))
        try:
            state = self._vehicles.of(subject).state(subject)
            if state.source != source or T_world_room is None:
                return False
            self._vehicles.send(subject, command_of(state, setpoint, T_world_room))
        except KeyError:
            return False
        return True
