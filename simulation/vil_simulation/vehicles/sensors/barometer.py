"""Barometers and the altitude that they show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.environment.atmosphere import height_m, pressure_pa
from vil_simulation.vehicles.environment.earth import Compat
from vil_simulation.vehicles.environment.formulas import SEA_LEVEL_PRESSURE_PA
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.components import GaussMarkov
from vil_simulation.vehicles.sensors.sensor import Sensor, sensor_kernel

_STREAM: Final = 1100
_PA_PER_HPA: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BarometerParameters:
    """The values are AirSim's for an MS5611.

    Attributes:
        drift: deviation of the pressure's slow drift, relative. drift_s: how long it remembers.
        noise_pa: deviation of the white noise per sample.
        qnh_hpa: pressure at sea level today.
    """

    drift: float = 0.0365 / 20.0
    drift_s: float = 3600.0
    noise_pa: float = 2.7
    qnh_hpa: float = SEA_LEVEL_PRESSURE_PA / _PA_PER_HPA
    rate_hz: float | None = 50.0
    latency_s: float = 0.0
    startup_s: float = 0.0


class FleetBarometerReading(NamedTuple):
    """Pressure (n,) as reported, and the altitude (n,) above sea level that belongs to it on a
    standard day.
    """

    t_ns: int
    pressure_pa: FloatArray
    altitude_m: FloatArray


class Barometer(Sensor[FleetBarometerReading]):
    """A barometer on each vehicle.

    The drift is a Gauss-Markov process of the stated deviation, 185 Pa or 15 m.
    ``compat="airsim"``: its drift (0.1 to 2 Pa, by the step), its altimeter formula and its
    constants of the atmosphere.

    Args:
        vehicles: see :class:`~vil_simulation.vehicles.sensors.sensor.Sensor`; seed and stream too.
        origin: where the world's origin is.
        compiled: with numba where it is installed, except with compat; False = the reference of
            NumPy.
    """

    def __init__(
        self,
        vehicles: int | npt.ArrayLike,
        origin: GeoOrigin,
        parameters: BarometerParameters = BarometerParameters(),
        *,
        seed: int = 0,
        stream: int = _STREAM,
        compat: Compat = None,
        compiled: bool = True,
    ) -> None:
        super().__init__(
            vehicles,
            seed=seed,
            stream=stream,
            rate_hz=parameters.rate_hz,
            latency_s=parameters.latency_s,
            startup_s=parameters.startup_s,
            compat=compat,
        )
        self.parameters: Final = parameters
        self.origin: Final = origin
        self._compat: Compat = compat
        self._drift = GaussMarkov(parameters.drift_s, parameters.drift, (self.n,), compat)
        self._drift.start(self.constants(1)[:, 0])
        self._compiled = compiled and compat is None
        own = parameters
        self._packed = np.array((own.drift_s, own.drift, own.noise_pa, _PA_PER_HPA * own.qnh_hpa))

    def reset(self) -> None:
        """Start over, as switched on again."""
        super().reset()
        self._drift.start(self.constants(1)[:, 0])

    def measure(self, truth: TrueState) -> FleetBarometerReading:
        """Read all vehicles now."""
        kernel = sensor_kernel() if self._compiled else None
        if kernel is not None:
            reading = FleetBarometerReading(truth.t_ns, np.empty(self.n), np.empty(self.n))
            place = (truth.p_world_m, self.origin.p_ecef_m, self.origin.R_enu_ecef)
            results = (reading.pressure_pa, reading.altitude_m)
            kernel.barometer(
                *self.draw_of_kernel(), *place, self._packed, self._drift.x, self.dt_s, *results
            )
            return reading
        normals = self.normals(2)
        drift = self._drift.advance(self.dt_s, normals[:, 0])
        above_m = self.origin.to_geodetic(truth.p_world_m)[2]
        pressure = (
            pressure_pa(above_m, self._compat) * (1.0 + drift)
            + self.parameters.noise_pa * normals[:, 1]
        )
        reported = pressure - SEA_LEVEL_PRESSURE_PA + _PA_PER_HPA * self.parameters.qnh_hpa
        return FleetBarometerReading(truth.t_ns, reported, height_m(pressure, self._compat))
