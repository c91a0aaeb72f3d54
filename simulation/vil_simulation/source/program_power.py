"""Batteries of vehicles that autopilots' programs fly."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import FloatArray
from vil_simulation.autopilots.links.link import BatteryState
from vil_simulation.source.autopilot_parts import AutopilotBattery
from vil_simulation.source.mode_fleets import ModeFleets
from vil_simulation.vehicles.disturbances import ENVIRONMENT
from vil_simulation.vehicles.sensors.components import SampleSchedule

_S_PER_H: Final = 3600.0
_RATE_HZ: Final = 100.0


class Batteries:
    """A battery of each of some vehicles.

    Open voltage by charge, less the current's drop over its resistance.

    The rotors take the power of ideal ones of the same thrust, T^1.5 / sqrt(2 rho A), over their
    efficiency. It does not follow from a model's torques: FlightGoggles' constants ask for 1.5 kW
    at hover.

    Args:
        config: theirs. vehicles: how many. rotor_radius_m: of each rotor.

    Attributes:
        voltage_v, current_a, charge: now, (n,). supply: share of the highest rotor speeds that the
            voltage gives, (n,); 0 once a battery is empty.
    """

    def __init__(self, config: AutopilotBattery, vehicles: int, rotor_radius_m: float) -> None:
        self._config = config
        self._disc_m2 = math.pi * rotor_radius_m**2
        self._t_ns = 0
        self.charge = np.full(vehicles, config.charge)
        self.current_a = np.zeros(vehicles)
        self.voltage_v = self._open_v()
        self._full_v = config.cells * config.cell_full_v
        self.supply = self.voltage_v / self._full_v
        self._schedule = SampleSchedule(_RATE_HZ)
        self._states: list[BatteryState] = []

    def states(self, t_ns: int, fleets: ModeFleets) -> list[BatteryState]:
        """Return the state of each at a time, a hundredth of a second old at most."""
        if self._schedule.due(t_ns):
            density_kgpm3 = fleets.around()[:, ENVIRONMENT["density_kgpm3"]][:, 0]
            self._update(t_ns, fleets.rotor_outputs()[:, :, 0], density_kgpm3)
        return self._states

    def _update(self, t_ns: int, thrusts_n: FloatArray, density_kgpm3: FloatArray) -> None:
        """Go on to a time, with the thrusts (n, rotors) in air of a density (n,)."""
        config = self._config
        self.charge -= (
            self.current_a * (t_ns - self._t_ns) / (NS_PER_S * _S_PER_H * config.capacity_ah)
        )
        np.maximum(self.charge, 0.0, out=self.charge)
        self._t_ns = t_ns
        ideal_w = (np.maximum(thrusts_n, 0.0) ** 1.5).sum(axis=1) / np.sqrt(
            2.0 * density_kgpm3 * self._disc_m2
        )
        power_w = ideal_w / config.efficiency + config.load_w
        open_v = self._open_v()
        # V (V_open - V) / R = P; more power than it can give halves the voltage.
        self.voltage_v = 0.5 * (
            open_v + np.sqrt(np.maximum(open_v**2 - 4.0 * config.resistance_ohm * power_w, 0.0))
        )
        self.current_a = np.minimum(
            power_w / self.voltage_v, _most_a(open_v, config.resistance_ohm)
        )
        self.supply = np.where(self.charge > 0.0, self.voltage_v / self._full_v, 0.0)
        columns = zip(
            self.voltage_v.tolist(), self.current_a.tolist(), self.charge.tolist(), strict=True
        )
        self._states = [BatteryState(*row) for row in columns]

    def _open_v(self) -> FloatArray:
        config = self._config
        return config.cells * (
            config.cell_empty_v + (config.cell_full_v - config.cell_empty_v) * self.charge
        )


def _most_a(open_v: FloatArray, resistance_ohm: float) -> FloatArray | float:
    """Return the current at which a battery gives its most power."""
    return open_v / (2.0 * resistance_ohm) if resistance_ohm else math.inf
