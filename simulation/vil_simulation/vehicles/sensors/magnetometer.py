"""Magnetometers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import q_conj, q_rotate
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.environment.earth import Compat
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.sensor import CENTRE, Sensor, SensorMount, sensor_kernel

TESLA_PER_GAUSS: Final = 1e-4

_STREAM: Final = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class MagnetometerParameters:
    """The values are AirSim's.

    Attributes:
        noise_t: deviation of the white noise per sample and axis, tesla.
        bias_t: largest constant error of an axis, drawn evenly up to it.
        scale: factor on the field.
    """

    noise_t: float = 0.005 * TESLA_PER_GAUSS
    bias_t: float = 0.0
    scale: float = 1.0
    rate_hz: float | None = 50.0
    latency_s: float = 0.0
    startup_s: float = 0.0
    mounting: SensorMount = CENTRE


class FleetMagnetometerReading(NamedTuple):
    """The field in the sensor's axes, (n, 3), tesla."""

    t_ns: int
    field_sensor_t: FloatArray


class Magnetometer(Sensor[FleetMagnetometerReading]):
    """A magnetometer on each vehicle.

    Args:
        vehicles: see :class:`~vil_simulation.vehicles.sensors.sensor.Sensor`; seed and stream too.
        field_enu_t: the field at points (n, 3) of the world, in its axes, tesla: for example
            ``LocalField(origin, dipole_ned_t).enu_t`` of
            :mod:`vil_simulation.vehicles.environment.geomagnetism`.
        compat: ``airsim`` = its way to count time; its field is ``airsim_dipole_ned_t``.
        compiled: with numba where it is installed; False = the reference of NumPy.
    """

    def __init__(
        self,
        vehicles: int | npt.ArrayLike,
        field_enu_t: Callable[[FloatArray], FloatArray],
        parameters: MagnetometerParameters = MagnetometerParameters(),
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
        self._field_enu_t = field_enu_t
        self._bias_t = parameters.bias_t * (2.0 * self.constant_uniforms(3) - 1.0)
        self._compiled = compiled
        self._packed = np.array((parameters.scale, parameters.noise_t))

    def measure(self, truth: TrueState) -> FleetMagnetometerReading:
        """Read all vehicles now."""
        parameters = self.parameters
        field = self._field_enu_t(truth.p_world_m)
        kernel = sensor_kernel() if self._compiled else None
        if kernel is not None:
            _, q = parameters.mounting.pose(truth)
            out = np.empty((self.n, 3))
            kernel.magnetometer(*self.draw_of_kernel(), q, field, self._packed, self._bias_t, out)
            return FleetMagnetometerReading(truth.t_ns, out)
        body = q_rotate(q_conj(truth.q_world_body), field)
        ideal = parameters.scale * parameters.mounting.turned(body)
        return FleetMagnetometerReading(
            truth.t_ns, ideal + parameters.noise_t * self.normals(3) + self._bias_t
        )
