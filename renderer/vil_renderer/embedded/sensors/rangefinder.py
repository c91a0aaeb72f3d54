"""Time-of-flight range finders with one beam or many, and the errors of range sensors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_bridge.core.weather import FINE, Weather
from vil_bridge.interfaces.weather_returns import returns_in
from vil_renderer.embedded.geometry.ray_world import NOTHING, RayWorld


@dataclass(frozen=True, slots=True)
class RangeNoise:
    """Normal noise of standard deviation hypot(sigma_m, sigma_share x range), and beams without
    return.

    Attributes:
        sigma_share: part of the noise that grows with the range, metres per metre.
        drop_out: share of the beams that return nothing, 0..1.
    """

    sigma_m: float = 0.0
    sigma_share: float = 0.0
    drop_out: float = 0.0

    def on(self, true_m: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Add noise to true ranges (n,); infinity = nothing.

        Draws 2 n numbers whatever the parameters.
        """
        sigma = np.hypot(
            self.sigma_m, self.sigma_share * np.where(np.isfinite(true_m), true_m, 0.0)
        )
        noisy = true_m + sigma * rng.standard_normal(len(true_m))
        return np.where(rng.random(len(true_m)) < self.drop_out, np.inf, noisy)


RANGE_LIMIT_M: Final = 20.0
_FORWARD: Final = np.array([[1.0, 0.0, 0.0]])
_UP: Final = np.array([[0.0, 0.0, 1.0]])
_DOWN: Final = np.array([[0.0, 1.0, 0.0]])
_GOLDEN_ANGLE: Final = math.pi * (3.0 - math.sqrt(5.0))


class RangeFinder:
    """A range finder on a body.

    Args:
        T_body_sensor: where it sits; it looks along its x axis (z up).
        beams: unit directions (n, 3) in its axes; by default a single one along x.
        min_m: nearer surfaces are reported as -infinity (REP 117).
        max_m: farther surfaces are not seen.
        noise: its errors.
        seed: of the noise; two of the same seed measure the same.
    """

    def __init__(
        self,
        T_body_sensor: Transform,
        beams: FloatArray = _FORWARD,
        *,
        min_m: float = 0.0,
        max_m: float = RANGE_LIMIT_M,
        noise: RangeNoise = RangeNoise(),
        seed: int = 0,
    ) -> None:
        self._T_body_sensor = T_body_sensor
        self._beams = beams
        self._min_m = min_m
        self._max_m = max_m
        self._noise = noise
        self._rng = np.random.default_rng(seed)

    def measure(
        self,
        world: RayWorld,
        T_world_body: Transform,
        hide: frozenset[str] = NOTHING,
        *,
        weather: Weather = FINE,
    ) -> FloatArray:
        """Return ranges (n,) of the beams, metres.

        Infinity = nothing within reach or dropped, -infinity = too near.
        """
        T = T_world_body @ self._T_body_sensor
        origins = np.broadcast_to(T.p_m, self._beams.shape)
        hits = world.cast(origins, self._beams @ T.rotation().T, self._max_m, hide)
        true_m = hits.distance_m.astype(np.float64)
        weather = weather_below_roofs(weather, world, T.p_m, self._max_m, hide)
        if weather != FINE:
            true_m = returns_in(weather, true_m, self._max_m, self._rng).range_m
        noisy = self._noise.on(true_m, self._rng)
        return np.where(noisy < self._min_m, -np.inf, np.where(noisy > self._max_m, np.inf, noisy))


def beam_grid(width_rad: float, height_rad: float, columns: int, rows: int) -> FloatArray:
    """Return directions (rows * columns, 3) of a zone sensor.

    The middle of each zone, top left first.

    Args:
        width_rad: full field of view across.
        height_rad: full field of view up and down.
        columns: zones across.
        rows: zones up and down.
    """
    left = width_rad * (0.5 - (np.arange(columns) + 0.5) / columns)
    up = height_rad * (0.5 - (np.arange(rows) + 0.5) / rows)
    elevation, azimuth = (a.ravel() for a in np.meshgrid(up, left, indexing="ij"))
    return directions(azimuth, elevation)


def beam_cone(half_angle_rad: float, count: int) -> FloatArray:
    """Return directions (count, 3) that fill a cone about x evenly.

    A spiral of equal solid angles.
    """
    along = 1.0 - (np.arange(count) + 0.5) / count * (1.0 - math.cos(half_angle_rad))
    aside = np.sqrt(1.0 - along * along)
    turn = np.arange(count) * _GOLDEN_ANGLE
    return np.stack((along, aside * np.cos(turn), aside * np.sin(turn)), axis=1)


def directions(azimuth_rad: FloatArray, elevation_rad: FloatArray) -> FloatArray:
    """Return unit vectors (n, 3).

    Azimuth counter-clockwise from x, elevation up from the x-y plane.
    """
    level = np.cos(elevation_rad)
    return np.stack(
        (level * np.cos(azimuth_rad), level * np.sin(azimuth_rad), np.sin(elevation_rad)), axis=1
    )


def weather_below_roofs(
    weather: Weather,
    world: RayWorld,
    p_m: FloatArray,
    reach_m: float,
    hide: frozenset[str] = NOTHING,
) -> Weather:
    """Return the weather of a laser at a place (3,).

    Without rain and snow if something is above it, in its reach.
    """
    if not weather.falls:
        return weather
    roofed = np.isfinite(world.cast(p_m[None], _UP, reach_m, hide).distance_m[0])
    return weather.under_roof() if roofed else weather


def range_below_m(
    world: RayWorld,
    T_world_camera: Transform,
    hide: frozenset[str] = NOTHING,
    *,
    weather: Weather = FINE,
    t_ns: int = 0,
) -> float | None:
    """Return FlightGoggles' range along the camera's down axis; None beyond 20 m.

    The time seeds the weather.
    """
    hits = world.cast(
        T_world_camera.p_m[None], _DOWN @ T_world_camera.rotation().T, RANGE_LIMIT_M, hide
    )
    weather = weather_below_roofs(weather, world, T_world_camera.p_m, RANGE_LIMIT_M, hide)
    rng = np.random.default_rng(t_ns & (2**63 - 1))
    true_m = hits.distance_m.astype(np.float64)
    distance = float(true_m[0])
    if weather != FINE:
        distance = float(returns_in(weather, true_m, RANGE_LIMIT_M, rng).range_m[0])
    return distance if distance <= RANGE_LIMIT_M else None
