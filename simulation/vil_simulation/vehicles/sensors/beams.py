"""Distance sensors with several beams, and lidars: their directions and what they make of ranges.

The rays are cast by others: a scene's ray caster knows what they meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.random.noise import NoiseStream
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.sensors.sensor import CENTRE, SensorMount

MOST_BEAMS: Final = 64
MOST_POINTS: Final = 100_000
_MOST_CHANNELS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamParameters:
    """A distance sensor without errors that looks ahead; ranges as of AirSim's.

    Attributes:
        beams_deg: azimuth (to the left) and elevation (up) of each beam in the sensor's axes.
        noise_m: deviation of the white noise per sample.

    Raises:
        ValueError: bounds that leave nothing, or too few or many beams.
    """

    min_m: float = 0.2
    max_m: float = 40.0
    noise_m: float = 0.0
    beams_deg: tuple[tuple[float, float], ...] = ((0.0, 0.0),)
    rate_hz: float | None = 50.0
    latency_s: float = 0.0
    mounting: SensorMount = CENTRE

    def __post_init__(self) -> None:
        if not 0.0 <= self.min_m < self.max_m:
            raise ValueError(
                f"min_m must be at least 0 and less than max_m, got {self.min_m} and {self.max_m}"
            )
        if not self.noise_m >= 0.0:
            raise ValueError(f"noise_m must not be negative, got {self.noise_m}")
        if not 0 < len(self.beams_deg) <= MOST_BEAMS:
            raise ValueError(
                f"beams_deg must have 1 to {MOST_BEAMS} beams, got {len(self.beams_deg)}"
            )

    @property
    def reach_m(self) -> float:
        """Longest range."""
        return self.max_m

    def directions(self) -> FloatArray:
        """Return the unit directions of the beams in the sensor's axes (FLU), (beams, 3)."""
        azimuth, elevation = np.radians(np.array(self.beams_deg, dtype=np.float64)).T
        return _directions(azimuth, elevation)

    def row(
        self, ranges_m: FloatArray, _instances: npt.NDArray[np.uint32], normals: FloatArray
    ) -> FloatArray:
        """Return a reading as numbers.

        min_m, max_m, position, then direction (body) and range of each beam.

        Args:
            ranges_m: of the beams, (beams,), infinity = nothing.
            normals: standard normal numbers, (beams,).
        """
        hit = ranges_m <= self.max_m
        noisy = np.clip(ranges_m + self.noise_m * normals, self.min_m, self.max_m)
        directions = self.mounting.in_body(self.directions())
        beams = np.column_stack((directions, np.where(hit, noisy, self.max_m)))
        return np.concatenate(((self.min_m, self.max_m), self.mounting.p_body_m, beams.ravel()))


@dataclass(frozen=True, slots=True, kw_only=True)
class LidarParameters:
    """A lidar without errors; angles and counts as of AirSim's, with a tenth of its points.

    Attributes:
        channels: rings, from ``upper_deg`` to ``lower_deg``. points_per_turn: of all rings.
        start_deg, end_deg: of a turn, clockwise from ahead. max_m: farther points are left out.
        noise_m: deviation of the white noise of each range.
        rate_hz: turns per second; all points of one are of the same instant.

    Raises:
        ValueError: a count, a range or a deviation out of its bounds.
    """

    channels: int = 16
    points_per_turn: int = 1024
    upper_deg: float = -15.0
    lower_deg: float = -45.0
    start_deg: float = 0.0
    end_deg: float = 360.0
    max_m: float = 100.0
    noise_m: float = 0.0
    rate_hz: float | None = 10.0
    latency_s: float = 0.0
    mounting: SensorMount = CENTRE

    def __post_init__(self) -> None:
        if not 0 < self.channels <= _MOST_CHANNELS:
            raise ValueError(f"channels must be from 1 to {_MOST_CHANNELS}, got {self.channels}")
        if not self.channels <= self.points_per_turn <= MOST_POINTS:
            raise ValueError(
                f"points_per_turn must be from {self.channels} to {MOST_POINTS}, not "
                f"{self.points_per_turn}"
            )
        if not self.max_m > 0.0:
            raise ValueError(f"max_m must be positive, got {self.max_m}")
        if not self.noise_m >= 0.0:
            raise ValueError(f"noise_m must not be negative, got {self.noise_m}")

    @property
    def reach_m(self) -> float:
        """Longest range."""
        return self.max_m

    def directions(self) -> FloatArray:
        """Return the unit directions of a turn in the sensor's axes (FLU), (points, 3)."""
        columns = self.points_per_turn // self.channels
        rings = (self.channels, self.upper_deg, self.lower_deg)
        return turn_directions(rings, (columns, self.start_deg, self.end_deg))

    def row(
        self, ranges_m: FloatArray, instances: npt.NDArray[np.uint32], normals: FloatArray
    ) -> FloatArray:
        """Return a reading as numbers.

        Position and attitude on the body, then x, y, z, instance of each point.

        Args:
            ranges_m: of the rays, (points,), infinity = nothing.
            instances: of what was hit, (points,).
            normals: standard normal numbers, (points,).
        """
        seen = ranges_m <= self.max_m
        ranges = np.maximum(ranges_m[seen] + self.noise_m * normals[seen], 0.0)
        points = np.column_stack((ranges[:, None] * self.directions()[seen], instances[seen]))
        return np.concatenate((self.mounting.p_body_m, self.mounting.q_body_sensor, points.ravel()))


def noise_of(
    parameters: BeamParameters | LidarParameters, stream: NoiseStream, step: int, vehicle: int
) -> FloatArray:
    """Return the standard normal numbers of one measurement of one vehicle, one for each ray."""
    rays = len(parameters.directions())
    if parameters.noise_m == 0.0:
        return np.zeros(rays)
    (normals,) = stream.normals(step, [vehicle], rays)
    return np.asarray(normals)


def turn_directions(rings: tuple[int, float, float], turn: tuple[int, float, float]) -> FloatArray:
    """Return the unit directions of a lidar's turn (FLU), (points, 3).

    Args:
        rings: how many, elevation of the first and of the last one, degrees.
        turn: how many points of each ring, azimuth of the first one and the end of the turn,
            degrees clockwise.
    """
    elevation = np.radians(np.linspace(rings[1], rings[2], rings[0]))[:, None]
    azimuth = -np.radians(np.linspace(turn[1], turn[2], turn[0], endpoint=False))[None, :]
    return _directions(*np.broadcast_arrays(azimuth, elevation))


def _directions(azimuth_rad: FloatArray, elevation_rad: FloatArray) -> FloatArray:
    flat = np.cos(elevation_rad)
    parts = flat * np.cos(azimuth_rad), flat * np.sin(azimuth_rad), np.sin(elevation_rad)
    return np.stack(parts, axis=-1).reshape(-1, 3)
