"""Racers that are simulated vehicles: their contacts, and their places at the start."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.geometry import Transform
from vil_bridge.courses.course import Course
from vil_bridge.interfaces.vehicle_commands import VehicleCommand, VehicleCommandBus
from vil_bridge.interfaces.vehicle_moves import VehiclePlacement
from vil_bridge.world.race.live import Contacts

__all__ = ["SimulatedRacers"]

_BELOW: Final = 0.7
"""Least upward part of the normal of what a vehicle stands on."""
_SPACING_M: Final = 1.0
_PATIENCE_S: Final = 3.0
_LOOK_S: Final = 0.01


class SimulatedRacers:
    """Racers of which simulated vehicles are known by their sources; any thread.

    Args:
        racers: names of all actors that race.
        vehicles: takes commands to the simulated ones.
        config: of the bridge.

    Attributes:
        config: of the bridge now; replaced while it runs.
    """

    def __init__(
        self, racers: Sequence[str], vehicles: VehicleCommandBus, config: BridgeConfig
    ) -> None:
        self.config = config
        self._racers = racers
        self._vehicles = vehicles

    def contacts(self, actor: str) -> Contacts | None:
        """Return the contacts of a racer; None = another body is it."""
        subject = self._subject(actor)
        if subject is None:
            return None
        try:
            simulator = self._vehicles.of(subject)
            state = simulator.state(subject)
            newest = simulator.collision(subject, clear=False)
        except KeyError:
            return None
        if newest is None:
            return Contacts(state.collisions, state.t_ns, "something")
        below = newest.normal_world[2] > _BELOW
        return Contacts(
            state.collisions,
            newest.t_ns,
            newest.other or ("ground" if below else "something"),
            below,
        )

    def place(self, course: Course) -> int:
        """Put the simulated racers side by side at the start.

        Return the bridge time by which all are there, nanoseconds; -1 = none is simulated.

        Raises:
            ValueError: a vehicle does not reach the start.
        """
        after_ns = -1
        for index, actor in enumerate(self._racers):
            subject = self._subject(actor)
            if subject is None:
                continue
            aside_m = _SPACING_M * (0.5 * (len(self._racers) - 1) - index)
            place = course.start @ Transform.of((0.0, aside_m, 0.0), (0.0, 0.0, 0.0, 1.0))
            place = self._room_pose(actor).inverse() @ place
            before = self._vehicles.of(subject).state(subject).placements
            # Armed, without a pilot's last command.
            self._vehicles.send(subject, VehicleCommand("reset"))
            self._vehicles.send(
                subject,
                VehiclePlacement(tuple(place.p_m.tolist()), tuple(place.q_xyzw.tolist())),
            )
            after_ns = max(after_ns, self._await_placement(subject, before + 2))
        return after_ns

    def _subject(self, actor: str) -> str | None:
        """Return the name of the simulated vehicle that is an actor; None = another body is."""
        source = self.config.actors[actor].source
        subject = self.config.actors[actor].subject
        try:
            return subject if self._vehicles.of(subject).state(subject).source == source else None
        except KeyError:
            return None

    def _room_pose(self, actor: str) -> Transform:
        """Return T_world_room of an actor's source."""
        source = self.config.sources[self.config.actors[actor].source]
        return self.config.rooms[getattr(source, "room", "")].T_world_room.transform()

    def _await_placement(self, subject: str, placements: int) -> int:
        until_s = time.monotonic() + _PATIENCE_S
        while (state := self._vehicles.of(subject).state(subject)).placements < placements:
            if time.monotonic() > until_s:
                raise ValueError(
                    f"vehicle {subject!r} does not reach the start: its source simulates "
                    "nothing now"
                )
            time.sleep(_LOOK_S)
        return state.t_ns
