"""GPS receivers: latency, low rate, and accuracy that improves after the start."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.elementary import exp
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.environment.earth import Compat
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.sensor import Sensor

_STREAM: Final = 1300


class Fix(IntEnum):
    """Kind of a receiver's position fix."""

    NONE = 0
    FIX_2D = 2
    FIX_3D = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GpsParameters:
    """The values are AirSim's, whose position and velocity have no noise.

    Attributes:
        accuracy_first_m, accuracy_last_m: reported accuracies at the start and in the end.
        accuracy_s: time constant from one to the other.
        fix_2d_m, fix_3d_m: horizontal accuracies from which there is a fix.
        noise_horizontal_m, noise_vertical_m, noise_mps: deviations of white noise per sample and
            axis.

    Raises:
        ValueError: the time constant is not positive.
    """

    accuracy_first_m: float = 100.0
    accuracy_last_m: float = 0.1
    accuracy_s: float = 0.9
    fix_2d_m: float = 4.0
    fix_3d_m: float = 3.0
    noise_horizontal_m: float = 0.0
    noise_vertical_m: float = 0.0
    noise_mps: float = 0.0
    rate_hz: float | None = 50.0
    latency_s: float = 0.2
    startup_s: float = 1.0

    def __post_init__(self) -> None:
        if not self.accuracy_s > 0.0:
            raise ValueError(f"accuracy_s must be positive, got {self.accuracy_s}")


class FleetGpsReading(NamedTuple):
    """Reading of the receivers, which were all switched on together.

    Attributes:
        t_ns: when it was measured, not when it came out.
        lat_deg, lon_deg, h_m: (n,). v_world_mps: (n, 3), ENU.
        horizontal_m, vertical_m: reported accuracies (eph, epv).
    """

    t_ns: int
    lat_deg: FloatArray
    lon_deg: FloatArray
    h_m: FloatArray
    v_world_mps: FloatArray
    horizontal_m: float
    vertical_m: float
    fix: Fix


class Gps(Sensor[FleetGpsReading]):
    """A receiver on each vehicle.

    Args:
        vehicles: see :class:`~vil_simulation.vehicles.sensors.sensor.Sensor`; seed, stream and
            compat too.
        origin: where the world's origin is.
    """

    def __init__(
        self,
        vehicles: int | npt.ArrayLike,
        origin: GeoOrigin,
        parameters: GpsParameters = GpsParameters(),
        *,
        seed: int = 0,
        stream: int = _STREAM,
        compat: Compat = None,
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

    def measure(self, truth: TrueState) -> FleetGpsReading:
        """Read all vehicles now."""
        parameters = self.parameters
        normals = self.normals(6)
        spread = (
            parameters.noise_horizontal_m,
            parameters.noise_horizontal_m,
            parameters.noise_vertical_m,
        )
        lat_deg, lon_deg, h_m = self.origin.to_geodetic(
            truth.p_world_m + normals[:, :3] * np.array(spread)
        )
        v_world = truth.v_world_mps + parameters.noise_mps * normals[:, 3:]
        accuracy_m = self.accuracy_m((truth.t_ns - self.t_start_ns) / NS_PER_S)
        fix = Fix.NONE
        if accuracy_m <= parameters.fix_2d_m:
            fix = Fix.FIX_3D if accuracy_m <= parameters.fix_3d_m else Fix.FIX_2D
        return FleetGpsReading(
            truth.t_ns, lat_deg, lon_deg, h_m, v_world, accuracy_m, accuracy_m, fix
        )

    def accuracy_m(self, elapsed_s: float) -> float:
        """Return accuracy reported some time after the start."""
        first_m = self.parameters.accuracy_first_m
        last_m = self.parameters.accuracy_last_m
        return last_m + (first_m - last_m) * float(exp(-elapsed_s / self.parameters.accuracy_s))
