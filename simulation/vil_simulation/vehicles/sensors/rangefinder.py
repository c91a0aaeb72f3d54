"""Range finders: one ray along the sensor's x axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import q_rotate
from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.sensor import CENTRE, Sensor, SensorMount

Cast = Callable[[FloatArray, FloatArray], FloatArray]
"""``cast(p_world_m, direction_world)``: distances (n,) along unit vectors (n, 3) from points (n,
3), inf = nothing.
"""

RangeCompat = Literal["airsim", "flightgoggles"] | None
"""``airsim``: noise on everything, nothing clamped.

``flightgoggles``: the same, ``max_m`` + 1 where nothing was hit, and the sign turned.
"""

DOWNWARDS: Final = SensorMount(q_body_sensor=(0.0, math.sqrt(0.5), 0.0, math.sqrt(0.5)))

_STREAM: Final = 1400
_FORWARD: Final = np.array([1.0, 0.0, 0.0])


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeParameters:
    """The values are AirSim's.

    Attributes:
        noise_m: deviation of the white noise per sample.

    Raises:
        ValueError: bounds that leave nothing.
    """

    min_m: float = 0.2
    max_m: float = 40.0
    noise_m: float = 0.2
    rate_hz: float | None = 50.0
    latency_s: float = 0.0
    mounting: SensorMount = CENTRE

    def __post_init__(self) -> None:
        if not 0.0 <= self.min_m < self.max_m:
            raise ValueError(
                f"min_m must be at least 0 and less than max_m, got {self.min_m} and {self.max_m}"
            )


class RangeReading(NamedTuple):
    """Distances (n,), and whether there was something within reach (n,)."""

    t_ns: int
    distance_m: FloatArray
    hit: BoolArray


class RangeSensor(Sensor[RangeReading]):
    """A range finder on each vehicle.

    It reads ``max_m`` where nothing is within reach, and never less than ``min_m`` or more than
    ``max_m``.

    Args:
        vehicles: see :class:`~vil_simulation.vehicles.sensors.sensor.Sensor`; seed and stream too.
        cast: what rays meet: a scene's ray caster, or :func:`to_floor`.
    """

    def __init__(
        self,
        vehicles: int | npt.ArrayLike,
        cast: Cast,
        parameters: RangeParameters = RangeParameters(),
        *,
        seed: int = 0,
        stream: int = _STREAM,
        compat: RangeCompat = None,
    ) -> None:
        super().__init__(
            vehicles,
            seed=seed,
            stream=stream,
            rate_hz=parameters.rate_hz,
            latency_s=parameters.latency_s,
            compat="airsim" if compat == "airsim" else None,
        )
        self.parameters: Final = parameters
        self._cast = cast
        self._compat = compat

    def measure(self, truth: TrueState) -> RangeReading:
        """Read all vehicles now."""
        parameters = self.parameters
        p_world, q_world = parameters.mounting.pose(truth)
        distance = self._cast(p_world, q_rotate(q_world, np.broadcast_to(_FORWARD, p_world.shape)))
        noise = parameters.noise_m * self.normals(1)[:, 0]
        hit = distance <= parameters.max_m
        if self._compat == "flightgoggles":
            return RangeReading(
                truth.t_ns, -(np.where(hit, distance, parameters.max_m + 1.0) + noise), hit
            )
        if self._compat == "airsim":
            return RangeReading(truth.t_ns, np.where(hit, distance, parameters.max_m) + noise, hit)
        read = np.where(
            hit, np.clip(distance + noise, parameters.min_m, parameters.max_m), parameters.max_m
        )
        return RangeReading(truth.t_ns, read, hit)


def to_floor(p_world_m: FloatArray, direction_world: FloatArray) -> FloatArray:
    """Return distances to the plane z = 0 (:data:`Cast`)."""
    fall = -direction_world[:, 2]
    above = p_world_m[:, 2]
    return np.where((fall > 0.0) & (above >= 0.0), above / np.where(fall > 0.0, fall, 1.0), np.inf)
