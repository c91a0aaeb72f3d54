"""The air of a weather: its extinction, and the light that it scatters towards a camera.

Airlight is that of single scattering in all directions alike: the mean of the ambient light, a quarter of the sun's
and of each lamp's, since a white matt surface that faces a light of 1 shows 1, which is 1 / pi of what it receives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.core.weather import Weather, extinction_per_m
from vil_renderer.embedded.engine.light import lamp_light
from vil_renderer.embedded.scene import Environment, Lamp

LAYER_M: Final = 250.0
"""Height of the layer of air above the camera that holds the weather; the sky is seen through it."""
_SCATTERED: Final = 0.25
_NEAREST_M: Final = 2.0
_WATER: Final = np.ones(3)
_DUST: Final = np.array([0.80, 0.62, 0.40])
"""Shares of light that are scattered and not absorbed, linear RGB."""


def air_of(weather: Weather) -> tuple[float, FloatArray]:
    """Return the extinction in 1/m, and the share of it that scatters, linear RGB (3,)."""
    parts = extinction_per_m(weather)
    total = sum(parts)
    dusty = parts.dust / total if total > 0.0 else 0.0
    return total, _WATER + dusty * (_DUST - _WATER)


def airlight(environment: Environment, lamps: Sequence[Lamp], eye_m: FloatArray) -> FloatArray:
    """Return the light that white particles scatter at points (c, 3), linear RGB (c, 3), exposure included."""
    light = np.tile(0.5 * (np.asarray(environment.sky) + np.asarray(environment.ground)), (len(eye_m), 1))
    if environment.sun is not None:
        light += _SCATTERED * environment.sun.light
    for lamp in lamps:
        to = lamp.p_m - eye_m
        away = np.linalg.norm(to, axis=1, keepdims=True)
        facing = np.where(away > 0.0, to / np.maximum(away, 1e-9), (0.0, 0.0, 1.0))
        at_m = np.where(away < _NEAREST_M, lamp.p_m - _NEAREST_M * facing, eye_m)
        light += _SCATTERED * lamp_light(lamp, at_m, facing)[:, None] * lamp.light
    return light * environment.exposure
