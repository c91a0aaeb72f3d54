"""Exposure of baked light: that of a camera that flies in the scene."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.engine.light import lamp_light
from vil_renderer.embedded.lighting.baked.baked_light import BakedLight
from vil_renderer.embedded.lighting.baked.receivers import Index32, Receivers, sun_light
from vil_renderer.embedded.lighting.baked.solid_sides import SolidSides, lifted
from vil_renderer.embedded.scene import Environment, Scene

_PLACES: Final = 4000
_RAYS: Final = 16
_EYE_M: Final = 1.5
"""Height of the places above what faces up."""
_LEVEL: Final = 0.7
_STEEPEST: Final = (-0.8, 0.5)
"""Vertical part of directions, down and up: a camera looks ahead and a little down."""
_SEEN: Final = 75.0
_BRIGHT: Final = 90.0
"""Percentiles."""
_MOST_LIGHT: Final = 1.6
"""Of the bright tenth of what is seen, 1 = white; the tone curve has room above it."""
_MOST_GAIN: Final = 8.0


def gain_of(made: BakedLight, scene: Scene, solid: SolidSides, albedo: Float32Array) -> float:
    """Return a factor on the exposure with which surfaces look as bright as with unhidden light.

    Rooms get less light from lamps than from an open sky and its sun; the camera would be opened as
    much, but no wider than what is bright in its pictures allows, the sky included.

    Args:
        made: the light.
        scene: with its own sun and lamps.
        solid: all that stops light.
        albedo: of the receivers, (r, 3).
    """
    environment = scene.environment
    shown, sky = _seen(made, solid, environment)
    if not len(shown):
        return 1.0
    places = replace(
        made.receivers, p_m=made.receivers.p_m[shown], normal=made.receivers.normal[shown]
    )
    up = 0.5 + 0.5 * places.normal[:, 2:]
    plain = environment.ground + up * (environment.sky - environment.ground)
    for lamp in scene.lamps:
        strength = lamp_light(lamp, places.p_m.astype(np.float64), places.normal.astype(np.float64))
        plain = plain + strength[:, None] * lamp.light
    light = made.mixed(environment, scene.lamps)[shown]
    if (sun := environment.sun) is not None:
        colour = np.asarray(sun.light, np.float32)
        plain = (
            plain + np.maximum(places.normal @ sun.to_sun.astype(np.float32), 0.0)[:, None] * colour
        )
        light = light + sun_light(sun.to_sun, places, solid)[:, None] * colour
    before, now = (
        float(np.percentile(albedo[shown] * received, _SEEN)) for received in (plain, light)
    )
    bright = (
        float(np.percentile(np.concatenate((albedo[shown] * light, sky)), _BRIGHT))
        * environment.exposure
    )
    most = min(_MOST_GAIN, _MOST_LIGHT / max(bright, 1e-6))
    return float(np.clip(before / max(now, 1e-6), 1.0 / _MOST_GAIN, most))


def _seen(
    made: BakedLight, solid: SolidSides, environment: Environment
) -> tuple[Index32, Float32Array]:
    """Return the receivers that rays from places of cameras meet, (n,), and the light of the sky
    in others, (k, 3).
    """
    rng = np.random.default_rng(7)
    eye = _eyes(made.receivers, solid, rng)
    ray = np.repeat(eye, _RAYS, axis=0)
    turn = rng.uniform(0.0, 2.0 * np.pi, len(ray))
    z = rng.uniform(*_STEEPEST, len(ray))
    level = np.sqrt(1.0 - z**2)
    d = np.stack((level * np.cos(turn), level * np.sin(turn), z), axis=1).astype(np.float32)
    triangle, hit, u, v = solid.strike(ray, d)
    met = np.flatnonzero(triangle >= 0)
    shown = made.receivers.at(made.layout, triangle[met], u[met], v[met])
    up = d[~hit, 2:]
    zenith, horizon, ground = (
        np.asarray(c) for c in (environment.zenith, environment.horizon, environment.ground)
    )
    colour = horizon + np.clip(1.8 * up, 0.0, 1.0) * (zenith - horizon)  # as the shader of the sky
    colour += np.clip(-6.0 * up, 0.0, 1.0) * (0.6 * ground - colour)
    return shown[shown >= 0], colour.astype(np.float32)


def _eyes(places: Receivers, solid: SolidSides, rng: np.random.Generator) -> Float32Array:
    """Return places above what faces up, and has room there, (n, 3).

    On all surfaces where there are none.
    """
    level = np.flatnonzero(places.normal[:, 2] > _LEVEL)
    if len(level):
        some = rng.choice(level, _PLACES)
        low = lifted(places.p_m[some], places.normal[some])
        high = (low + np.array((0.0, 0.0, _EYE_M))).astype(np.float32)
        free = solid.sees(low, high.astype(np.float64))
        if free.any():
            return np.asarray(high[free], np.float32)
    some = rng.choice(len(places.p_m), min(_PLACES, len(places.p_m)))
    return lifted(places.p_m[some], places.normal[some])
