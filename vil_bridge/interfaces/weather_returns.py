"""Ranges of lasers in weather: attenuated returns, noise, returns from particles, lost returns.

The model needs no data of a device. A sensor that sees a surface at its reach in clear air detects
every return that is as strong as that one. Its threshold therefore is the power from the reach.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray, WorldSnapshot
from vil_bridge.core.weather import FINE, LIDAR_NM, Weather, extinction_per_m
from vil_bridge.interfaces.scene_queries import RayHits

_LIDAR_RATIO_SR: Final = (18.8, 18.8, 25.0, 50.0)
"""Extinction over backscatter of water drops (O'Connor 2004), ice and mineral dust.

In the order of Extinction.
"""
_PULSE_M: Final = 0.75
"""Length of air that scatters at once: half of a pulse of 5 ns."""
_FAINTEST: Final = 0.1
"""Reflectance of the surface for which a reach is stated."""
_NOISE_M: Final = 0.03
"""Deviation of a range at the threshold of detection."""
_UP: Final = (0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class WeatherReturns:
    """Returns of n beams.

    Attributes:
        range_m: (n,), infinity = nothing. particle: (n,), the return is a particle's, not the
            surface's.
        strength: (n,), share of the power that arrives: of the surface's in clear air, or of that
            of a white one.
    """

    range_m: FloatArray
    particle: BoolArray
    strength: FloatArray


@dataclass(frozen=True, slots=True)
class LaserAir:
    """The air for a laser with a reach.

    Attributes:
        extinction: 1/m. soft_reflectance: of the particles within a pulse, as if they were a white
            surface's.
    """

    extinction: float
    soft_reflectance: float
    reach_m: float

    @classmethod
    def of(cls, weather: Weather, reach_m: float) -> LaserAir:
        """Return the air of a weather at 905 nm."""
        parts = extinction_per_m(weather, LIDAR_NM)
        backscatter = sum(part / ratio for part, ratio in zip(parts, _LIDAR_RATIO_SR, strict=True))
        return cls(sum(parts), math.pi * _PULSE_M * backscatter, reach_m)

    @property
    def surface_m(self) -> float:
        """Farthest surface that is detected: r exp(extinction r) = reach."""
        return self._range_of(self.reach_m)

    @property
    def particle_m(self) -> float:
        """Farthest particles that are detected.

        R exp(extinction r) = reach sqrt(soft reflectance / 0.1).
        """
        return self._range_of(self.reach_m * math.sqrt(self.soft_reflectance / _FAINTEST))

    def early_share(self, range_m: float) -> float:
        """Return the share of beams that a particle returns before a surface at a range."""
        return 1.0 - math.exp(-self.extinction * min(range_m, self.particle_m))

    def noise_m(self, range_m: FloatArray) -> FloatArray:
        """Return the deviation of ranges that the weather adds, (n,).

        It grows as the power falls.
        """
        share = (range_m / self.reach_m) ** 2
        return (
            _NOISE_M * share * np.sqrt(np.maximum(np.expm1(4.0 * self.extinction * range_m), 0.0))
        )

    def _range_of(self, length_m: float) -> float:
        """Solve r exp(extinction r) = length, by Newton's steps from above on its logarithm."""
        if self.extinction <= 0.0 or length_m <= 0.0:
            return length_m
        target = math.log(length_m * self.extinction)
        x = math.log1p(length_m * self.extinction)
        for _ in range(50):
            step = (math.log(x) + x - target) / (1.0 / x + 1.0)
            x = max(x - step, 0.1 * x)
            if abs(step) < 1e-12 * x:
                break
        return x / self.extinction


def returns_in(
    weather: Weather, true_m: FloatArray, reach_m: float, rng: np.random.Generator
) -> WeatherReturns:
    """Return what beams with true ranges (n,), infinity = nothing, return in a weather.

    Args:
        weather: the weather, the same along all beams.
        true_m: ranges in clear air.
        reach_m: of the sensor in clear air.
        rng: draws 2 n numbers whatever the weather.
    """
    air = LaserAir.of(weather, reach_m)
    depth = rng.exponential(size=len(true_m))
    normal = rng.standard_normal(len(true_m))
    if air.extinction <= 0.0:
        return WeatherReturns(true_m, np.zeros(len(true_m), np.bool_), np.ones(len(true_m)))
    met_m = depth / air.extinction  # the first particle: Beer and Lambert
    particle = met_m < np.minimum(true_m, air.particle_m)
    seen = true_m <= air.surface_m
    surface_m = np.where(seen, true_m, 0.0)
    surface_m = np.maximum(surface_m + air.noise_m(surface_m) * normal, 0.0)
    range_m = np.where(particle, met_m, np.where(seen, surface_m, np.inf))
    with np.errstate(invalid="ignore"):
        arriving = np.exp(-2.0 * air.extinction * np.where(particle, met_m, true_m))
    return WeatherReturns(
        range_m, particle, arriving * np.where(particle, air.soft_reflectance, 1.0)
    )


def weather_at(snapshot: WorldSnapshot, info: Mapping[str, object]) -> Weather:
    """Return the weather at a snapshot in a scene that describes itself in ``info``."""
    lighting = snapshot.lighting
    if lighting is not None and lighting.weather is not None:
        return lighting.weather
    return msgspec.convert(info["weather"], Weather) if "weather" in info else FINE


def rays_in(
    weather: Weather, origins_m: FloatArray, directions: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the rays (n, 3) to cast for a laser.

    In rain and snow with one more, up from the first: to a roof.
    """
    if not weather.falls or not len(origins_m):
        return origins_m, directions
    return np.concatenate((origins_m, origins_m[:1])), np.concatenate((directions, [_UP]))


def hits_in(weather: Weather, hits: RayHits, reach_m: float, sensor: str, t_ns: int) -> RayHits:
    """Return what a laser sees of the hits of its rays; the same for one sensor and time.

    Args:
        weather: rain and snow do not act below a roof.
        hits: of the rays of :func:`rays_in`.
        reach_m: of the sensor in clear air.
        sensor: its name.
        t_ns: of the measurement.
    """
    if weather == FINE:
        return hits
    if weather.falls and len(hits.range_m):
        roofed = bool(np.isfinite(hits.range_m[-1]))
        hits = RayHits(hits.range_m[:-1], hits.instance[:-1], hits.normal_world[:-1])
        weather = weather.under_roof() if roofed else weather
    rng = np.random.default_rng((zlib.crc32(sensor.encode()), t_ns & (2**63 - 1)))
    back = returns_in(weather, hits.range_m.astype(np.float64), reach_m, rng)
    surface = np.isfinite(back.range_m) & ~back.particle
    instance = np.where(surface, hits.instance, np.uint32(0))
    return RayHits(back.range_m, instance, np.where(surface[:, None], hits.normal_world, 0.0))
