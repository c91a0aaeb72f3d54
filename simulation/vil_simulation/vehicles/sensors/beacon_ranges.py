"""Receivers of radio beacons.

Ranges to fixed points, as ultra-wideband ones measure by times of flight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.sensor import CENTRE, Sensor, SensorMount

MOST_BEACONS: Final = 64
_STREAM: Final = 1600


@dataclass(frozen=True, slots=True, kw_only=True)
class BeaconParameters:
    """A receiver without errors.

    Attributes:
        beacons: their positions in the vehicle's world by name, m.
        max_m: beacons farther away are not heard. Walls do not stop them.
        noise_m: deviation of the white noise of each range. bias_m: added to each.

    Raises:
        ValueError: too many beacons, or a value out of its range.
    """

    beacons: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    max_m: float = 50.0
    noise_m: float = 0.0
    bias_m: float = 0.0
    rate_hz: float | None = 10.0
    latency_s: float = 0.0
    mounting: SensorMount = CENTRE

    def __post_init__(self) -> None:
        if len(self.beacons) > MOST_BEACONS:
            raise ValueError(f"beacons must be at most {MOST_BEACONS}, not {len(self.beacons)}")
        for name, p_m in self.beacons.items():
            if not name or "," in name or not np.isfinite(p_m).all():
                raise ValueError(
                    f"beacon {name!r} must have a name without commas, and a finite position"
                )
        if not (self.max_m > 0.0 and self.noise_m >= 0.0 and np.isfinite(self.bias_m)):
            raise ValueError("max_m must be positive, noise_m not negative, and bias_m finite")


class FleetBeaconReading(NamedTuple):
    """Ranges (n, beacons), NaN = not heard."""

    t_ns: int
    ranges_m: FloatArray


class BeaconReceiver(Sensor[FleetBeaconReading]):
    """A receiver on each vehicle.

    Args:
        vehicles: see :class:`~vil_simulation.vehicles.sensors.sensor.Sensor`; seed and stream too.
        parameters: beacons and errors.

    Attributes:
        parameters: as given. places_m: of the beacons, (beacons, 3).

    Raises:
        ValueError: there are no beacons.
    """

    def __init__(
        self,
        vehicles: int | npt.ArrayLike,
        parameters: BeaconParameters,
        *,
        seed: int = 0,
        stream: int = _STREAM,
    ) -> None:
        if not parameters.beacons:
            raise ValueError(
                "a receiver of beacons needs some; set beacons: {NAME: [x, y, z]} of its parameters"
            )
        super().__init__(
            vehicles,
            seed=seed,
            stream=stream,
            rate_hz=parameters.rate_hz,
            latency_s=parameters.latency_s,
        )
        self.parameters: Final = parameters
        self.places_m: Final = np.array(list(parameters.beacons.values()), dtype=np.float64)

    def measure(self, truth: TrueState) -> FleetBeaconReading:
        """Measure all ranges now; none is negative."""
        p = self.parameters
        here, _ = p.mounting.pose(truth)
        ranges = np.linalg.norm(here[:, None] - self.places_m, axis=2)
        noise = p.noise_m * self.normals(len(self.places_m)) if p.noise_m else 0.0
        return FleetBeaconReading(
            truth.t_ns,
            np.where(ranges <= p.max_m, np.maximum(ranges + p.bias_m + noise, 0.0), np.nan),
        )
