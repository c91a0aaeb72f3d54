"""Motors and remote control of vehicles that autopilots' programs fly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from vil_adapters.simulated.mode_fleets import ModeFleets
from vil_adapters.simulated.model_factory import ModelFactory
from vil_adapters.simulated.vehicle_config import AutopilotProgramConfig, Vehicle


class ProgramPilot:
    """Commands of programs to the vehicles of a group.

    Attributes:
        mode: of the model, that the motors' commands are for. rc_us: remote control of each vehicle, None = no pilot.
        states: of the links, in words.
    """

    def __init__(self, factory: ModelFactory, fleets: ModeFleets, vehicles: int, program: str) -> None:
        self.mode: Final = factory.motor_mode
        self.rc_us: Final[list[tuple[int, ...] | None]] = [None] * vehicles
        self.states: Final = [f"{program} absent"] * vehicles
        self._fleets = fleets
        self._full = factory.full_motors

    def steer(self, row: int, values: Sequence[float]) -> None:
        """Set the remote control's channels."""
        self.rc_us[row] = tuple(min(max(round(value), 0), 65_535) for value in values)

    def drive(self, row: int, motors: Sequence[float], *, armed: bool) -> None:
        """Command the motors, each 0 to 1; those of a disarmed vehicle stand."""
        share = np.array(motors[: len(self._full)]) if armed else np.zeros(len(self._full))
        self._fleets.of(self.mode, row).fleet.command(share * self._full, row)


def program_pilot_of(factory: ModelFactory, fleets: ModeFleets, vehicles: Sequence[Vehicle]) -> ProgramPilot | None:
    """Return the pilot of a group, None where no program flies it."""
    config = vehicles[0].config.autopilot
    if not isinstance(config, AutopilotProgramConfig):
        return None
    return ProgramPilot(factory, fleets, len(vehicles), config.kind)
