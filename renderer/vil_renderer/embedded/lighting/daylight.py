"""Daylight by the hour, and a scene's light as it was changed at run time.

The sun takes the path of an equinox: it rises in the east at 6 h, stands highest at 12 h (local
solar time) and sets in the west at 18 h. Colours are those of a clear sky.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray, Lighting
from vil_renderer.embedded.scene import Environment, Lamp, Sun

_SUN: Final = np.array([1.05, 1.03, 1.00])
_OPTICAL_DEPTH: Final = np.array([0.13, 0.19, 0.32])
"""Of a clear sky for red, green and blue light from the zenith: air and a little haze."""

_LONGEST_TEXT: Final = 4096
_TWILIGHT_DEG: Final = -12.0
_BRIGHT_DEG: Final = 30.0
_GLOW_DEG: Final = 6.0

_SKY: Final = (np.array([0.012, 0.014, 0.022]), np.array([0.40, 0.46, 0.56]))
_GROUND: Final = (np.array([0.006, 0.007, 0.010]), np.array([0.24, 0.23, 0.21]))
_ZENITH: Final = (np.array([0.004, 0.006, 0.014]), np.array([0.15, 0.34, 0.71]))
_HORIZON: Final = (np.array([0.010, 0.013, 0.022]), np.array([0.67, 0.77, 0.84]))
"""At night and in full daylight, linear RGB."""
_GLOW: Final = np.array([0.85, 0.40, 0.15])


def sun_direction(time_of_day_h: float, latitude_deg: float) -> FloatArray:
    """Return the unit vector towards the sun in the world (ENU), shape (3,).

    It may point below the horizon.

    Args:
        time_of_day_h: local solar time, hours.
        latitude_deg: north positive.
    """
    hour_angle = math.radians(15.0 * (time_of_day_h - 12.0))
    latitude = math.radians(latitude_deg)
    return np.array(
        [
            -math.sin(hour_angle),
            -math.sin(latitude) * math.cos(hour_angle),
            math.cos(latitude) * math.cos(hour_angle),
        ]
    )


def to_sun(azimuth_deg: float, elevation_deg: float) -> FloatArray:
    """Return a unit vector, shape (3,), from compass bearing (0 = north, 90 = east) and height
    above the horizon.
    """
    azimuth = math.radians(azimuth_deg)
    elevation = math.radians(elevation_deg)
    level = math.cos(elevation)
    return np.array([level * math.sin(azimuth), level * math.cos(azimuth), math.sin(elevation)])


def sun_at(time_of_day_h: float, latitude_deg: float) -> Sun | None:
    """Return the sun at an hour; None below the horizon.

    Its light is dimmed and reddened by the air on the way: exp(-depth x air mass), with the air
    mass of Kasten and Young (1989).
    """
    direction = sun_direction(time_of_day_h, latitude_deg)
    elevation_deg = _elevation_deg(direction)
    if elevation_deg <= 0.0:
        return None
    air_mass = 1.0 / (direction[2] + 0.50572 * (elevation_deg + 6.07995) ** -1.6364)
    return Sun(direction, _SUN * np.exp(-_OPTICAL_DEPTH * air_mass))


def daylight(time_of_day_h: float, latitude_deg: float) -> Environment:
    """Return sun, ambient light and sky of an hour, at exposure 1."""
    elevation_deg = _elevation_deg(sun_direction(time_of_day_h, latitude_deg))
    t = min(max((elevation_deg - _TWILIGHT_DEG) / (_BRIGHT_DEG - _TWILIGHT_DEG), 0.0), 1.0)
    day = t * t * (3.0 - 2.0 * t)
    sky, ground, zenith, horizon = (
        night + day * (full - night) for night, full in (_SKY, _GROUND, _ZENITH, _HORIZON)
    )
    horizon = horizon + math.exp(-((elevation_deg / _GLOW_DEG) ** 2)) * (_GLOW - horizon)
    return Environment(
        sky,
        ground,
        sun_at(time_of_day_h, latitude_deg),
        (float(zenith[0]), float(zenith[1]), float(zenith[2])),
        (float(horizon[0]), float(horizon[1]), float(horizon[2])),
        latitude_deg,
    )


def _elevation_deg(direction: FloatArray) -> float:
    return math.degrees(math.asin(min(max(float(direction[2]), -1.0), 1.0)))


def lit(
    environment: Environment, lamps: Sequence[Lamp], lighting: Lighting | None
) -> tuple[Environment, tuple[Lamp, ...]]:
    """Return a scene's light after changes.

    Daylight of the hour, lamps switched, dimmed and coloured.

    The exposure stays the scene's own. A lamp without power is left out.
    """
    if lighting is None:
        return environment, tuple(lamps)
    if lighting.time_of_day_h is not None:
        now = daylight(lighting.time_of_day_h, environment.latitude_deg)
        environment = replace(now, exposure=environment.exposure)
    switched = []
    for lamp in lamps:
        state = lighting.lamps.get(lamp.name)
        if state is None:
            switched.append(lamp)
        elif state.power > 0.0:
            light = lamp.light * state.power * np.array(state.colour)
            switched.append(replace(lamp, light=light))
    return environment, tuple(switched)


def lamps_text(lamps: Sequence[Lamp]) -> str | None:
    """Return the lamps for the bridge.

    JSON of place (m, world) and light (linear RGB at 1 m) by name.

    It goes with every answer, so a text of more than 4096 characters is left out (None).
    """
    values = {}
    for lamp in lamps:
        numbers = (*lamp.p_m, *lamp.light)
        values[lamp.name] = [round(float(number), 3) for number in numbers]
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False)
    return text if len(text) <= _LONGEST_TEXT else None
