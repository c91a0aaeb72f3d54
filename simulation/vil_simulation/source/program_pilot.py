"""Motors and remote control of vehicles that autopilots' programs fly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.source.autopilot_parts import AutopilotMotors
from vil_simulation.source.mode_fleets import ModeFleets
from vil_simulation.source.model_factory import ModelFactory
from vil_simulation.source.vehicle_config import AutopilotProgramConfig, Vehicle

_SLOW: Final = 0.2
"""Mean output of motors that idle: 0.055 of Betaflight, 0.15 of ArduPilot."""
_STILL: Final = 0.08
_MOVING: Final = 0.2
"""Velocities (m/s) and rates (rad/s) of a vehicle that stands, and of one that has left the
ground.
"""
_STANDS_S: Final = 0.2


class ProgramPilot:
    """Commands of programs to the vehicles of a group.

    Attributes:
        mode: of the model, that the motors' commands are for. rc_us: remote control of each
            vehicle, None = no pilot.
        states: of the links, in words. armed: which programs say that they are.
        supply: share of the highest rotor speeds that each battery gives, (n,).
    """

    def __init__(
        self,
        factory: ModelFactory,
        fleets: ModeFleets,
        vehicles: int,
        config: AutopilotProgramConfig,
    ) -> None:
        self.mode: Final = factory.motor_mode
        self.rc_us: Final[list[tuple[int, ...] | None]] = [None] * vehicles
        self.states: Final = [f"{config.kind} absent"] * vehicles
        self.armed: Final = [False] * vehicles
        self._slow = np.ones(vehicles, dtype=np.bool_)
        self._moved_s = np.zeros(vehicles)
        self._fleets = fleets
        self._full = factory.full_motors
        self._curve = config.motors
        self._is_linear = config.motors == AutopilotMotors()
        self.supply: Final = np.ones(vehicles)
        self._power = 1 if factory.airsim is None else 2  # its commands are squares of speeds

    def steer(self, row: int, values: Sequence[float]) -> None:
        """Set the remote control's channels."""
        self.rc_us[row] = tuple(min(max(round(value), 0), 65_535) for value in values)

    def drive(self, row: int, motors: Sequence[float], *, armed: bool) -> None:
        """Command the motors, each 0 to 1; those of a disarmed vehicle stand."""
        outputs = motors[: len(self._full)] if armed else (0.0,) * len(self._full)
        self._slow[row] = sum(outputs) <= _SLOW * len(self._full)
        shares = outputs if self._is_linear else [self._curve.share(output) for output in outputs]
        top = self._full * self.supply[row] ** self._power
        self._fleets.of(self.mode, row).fleet.command(np.array(shares) * top, row)

    def landed_after(self, landed: BoolArray, bodies: FloatArray, t_s: float) -> BoolArray:
        """Return which vehicles stand on the ground, (n,), from which did before.

        A standing one has landed until it moves. A moving one has once it has stood for a while
        with slow motors: at the top of a throw it stands for an instant too.

        Args:
            landed: before, (n,).
            bodies: positions, velocities, attitudes and rates, (n, 13).
            t_s: simulated time.
        """
        fastest = np.maximum(
            np.abs(bodies[:, 3:6]).max(axis=1), np.abs(bodies[:, 10:13]).max(axis=1)
        )
        self._moved_s[fastest > _STILL] = t_s
        stood = self._slow & (t_s - self._moved_s >= _STANDS_S)
        after: BoolArray = np.where(landed, fastest <= _MOVING, stood)
        return after


def program_pilot_of(
    factory: ModelFactory, fleets: ModeFleets, vehicles: Sequence[Vehicle]
) -> ProgramPilot | None:
    """Return the pilot of a group, None where no program flies it."""
    config = vehicles[0].config.autopilot
    if not isinstance(config, AutopilotProgramConfig):
        return None
    return ProgramPilot(factory, fleets, len(vehicles), config)
