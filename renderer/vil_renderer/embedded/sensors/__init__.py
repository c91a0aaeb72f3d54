"""Sensors that measure a scene with rays."""

from __future__ import annotations

from vil_renderer.embedded.sensors.beacons import visible_beacons
from vil_renderer.embedded.sensors.lidar import POINT, SpinningLidar, planar_fan
from vil_renderer.embedded.sensors.rangefinder import (
    RangeFinder,
    RangeNoise,
    beam_cone,
    beam_grid,
    range_below_m,
)

__all__ = [
    "POINT",
    "RangeFinder",
    "RangeNoise",
    "SpinningLidar",
    "beam_cone",
    "beam_grid",
    "planar_fan",
    "range_below_m",
    "visible_beacons",
]
