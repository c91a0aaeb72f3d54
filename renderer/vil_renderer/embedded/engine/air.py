"""The air of a weather: its extinction, and the light that it scatters towards a camera.

Airlight is that of single scattering in all directions alike: the mean of the ambient light, a
quarter of the sun's and of each lamp's, since a white matt surface that faces a light of 1 shows 1,
which is 1 / pi of what it receives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_bridge.core.weather import Weather, extinction_per_m
from vil_bridge.optics.tone_curve import linear, toned, untoned
from vil_renderer.embedded.engine.light import lamp_light
from vil_renderer.embedded.engine.materials import GAMMA
from vil_renderer.embedded.scene import Environment, Lamp

LAYER_M: Final = 250.0
"""Height of the layer of air above the camera that holds the weather.

The sky is seen through it.
"""
_SCATTERED: Final = 0.25
_INDOORS: Final = 0.4
"""Share of the light on walls and floors that they send back: common reflectance of rooms."""
_WHITEST: Final = 0.8
_SNOW_ALBEDO: Final = 0.9
_NEAREST_M: Final = 2.0
_WATER: Final = np.ones(3)
_DUST: Final = np.array([0.80, 0.62, 0.40])
"""Shares of light that are scattered and not absorbed, linear RGB."""


@dataclass(frozen=True, slots=True, eq=False)
class Air:
    """The air before a camera, for colours that are not drawn by the shaders.

    Attributes:
        extinction_per_m: of light. light: its own, times the camera's factor, linear RGB (3,).
        srgb: display values are those of sRGB; else powers of 1 / 2.2, as those of profile low.
        tone_curve: pictures have it.
    """

    extinction_per_m: float
    light: FloatArray
    srgb: bool
    tone_curve: bool = False

    def linear(self, c: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Return the linear light of display values from 0 to 1."""
        if self.tone_curve:
            c = untoned(np.clip(c, 0.0, 1.0))
        if self.srgb:
            return linear(c)
        return c**GAMMA

    def display(self, c: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Return the display values, from 0 to 1, of linear light."""
        c = np.clip(c, 0.0, None if self.tone_curve else 1.0)
        shown: npt.NDArray[np.floating]
        if self.srgb:
            shown = np.where(c <= 0.0031308, 12.92 * c, 1.055 * c ** (1.0 / 2.4) - 0.055)
        else:
            shown = c ** (1.0 / GAMMA)
        if self.tone_curve:
            return toned(shown)
        return shown


def air_of(weather: Weather) -> tuple[float, FloatArray]:
    """Return the extinction in 1/m, and the share of it that scatters, linear RGB (3,)."""
    parts = extinction_per_m(weather)
    total = sum(parts)
    dusty = parts.dust / total if total > 0.0 else 0.0
    return total, _WATER + dusty * (_DUST - _WATER)


def falling_share(weather: Weather) -> float:
    """Return the share of the extinction that is of rain and snow, which stop below roofs."""
    parts = extinction_per_m(weather)
    total = sum(parts)
    return (parts.rain + parts.snow) / total if total > 0.0 else 0.0


def airlight(
    environment: Environment,
    lamps: Sequence[Lamp],
    eye_m: FloatArray,
    roofed: FloatArray | None = None,
) -> FloatArray:
    """Return the light that white particles scatter at points, linear RGB (c, 3), exposure
    included.

    Args:
        environment: ambient light and sun.
        lamps: all of them.
        eye_m: (c, 3).
        roofed: share of the sky that a roof hides there, (c,): walls send back a part of the light,
            and no sun.
    """
    under = np.zeros((len(eye_m), 1)) if roofed is None else roofed[:, None]
    light = (
        0.5
        * (np.asarray(environment.sky) + np.asarray(environment.ground))
        * (1.0 - (1.0 - _INDOORS) * under)
    )
    if environment.sun is not None:
        light += _SCATTERED * environment.sun.light * (1.0 - under)
    for lamp in lamps:
        to = lamp.p_m - eye_m
        away = np.linalg.norm(to, axis=1, keepdims=True)
        facing = np.where(away > 0.0, to / np.maximum(away, 1e-9), (0.0, 0.0, 1.0))
        at_m = np.where(away < _NEAREST_M, lamp.p_m - _NEAREST_M * facing, eye_m)
        light += _SCATTERED * lamp_light(lamp, at_m, facing)[:, None] * lamp.light
    return light * environment.exposure


def snow_gain(environment: Environment, weather: Weather, roofed: FloatArray) -> FloatArray:
    """Return the factor on all light of cameras that are set for the snow on the ground, (c,).

    Closed snow shows at most 0.8 of white where it lies in the open; between no snow and that in
    proportion.

    Args:
        environment: ambient light and sun.
        weather: snow on the ground.
        roofed: share of the sky that a roof hides, (c,).
    """
    light = np.asarray(environment.sky, np.float64)
    if environment.sun is not None:
        light = light + environment.sun.light * max(float(environment.sun.to_sun[2]), 0.0)
    brightest = _SNOW_ALBEDO * environment.exposure * float(light.max())
    share = weather.ground_snow * (1.0 - roofed)
    return np.asarray(1.0 - share * (1.0 - min(1.0, _WHITEST / max(brightest, 1e-9))))
