"""Baking: the light of every source on all receivers of a static mesh, once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_bridge.optics.tone_curve import linear
from vil_renderer.embedded.assets.model import Float32Array, Material
from vil_renderer.embedded.engine.light import lamp_light
from vil_renderer.embedded.engine.vertices import StaticMesh
from vil_renderer.embedded.lighting.baked.baked_light import BakedLight, LightSource
from vil_renderer.embedded.lighting.baked.charts import ChartLayout, lay_out
from vil_renderer.embedded.lighting.baked.denoise import smoothed
from vil_renderer.embedded.lighting.baked.exposure import gain_of
from vil_renderer.embedded.lighting.baked.probes import probes_of
from vil_renderer.embedded.lighting.baked.receivers import Receivers, receivers_of, sun_light
from vil_renderer.embedded.lighting.baked.solid_sides import SolidSides, lifted
from vil_renderer.embedded.lighting.baked.transport import LightTransport, RowStore, look_around
from vil_renderer.embedded.lighting.baked.windows import window_light
from vil_renderer.embedded.lighting.daylight import sun_direction
from vil_renderer.embedded.scene import Scene

Progress = Callable[[str, float], object]
"""Gets a step's name and the share of it that is done."""

RECEIVERS: Final = 250_000
"""Texels, about, where a scene has more area than this many of the least size."""
RAYS: Final = 128
_LEAST_TEXEL_M: Final = 0.04
_HOURS: Final = (7.0, 9.5, 12.0, 14.5, 17.0)
_WHITE: Final = np.ones(3)


def bake(
    scene: Scene,
    mesh: StaticMesh,
    progress: Progress,
    *,
    receivers: int = RECEIVERS,
    rays: int = RAYS,
    rows: RowStore | None = None,
) -> BakedLight:
    """Return the light on a scene's static mesh.

    Args:
        scene: the scene, its light included.
        mesh: its static mesh.
        progress: is called from time to time.
        receivers: texels, about.
        rays: of each receiver.
        rows: stores what takes longest, so that a run that was ended goes on where it was.

    Raises:
        RendererError: embreex is not installed.
    """
    p_m = mesh.vertices["p"]
    normal = mesh.vertices["normal"]
    layout = lay_out(
        p_m.astype(np.float64),
        mesh.triangles.astype(np.intp),
        _texel_m(p_m, mesh.triangles, receivers),
    )
    solid = SolidSides(mesh)
    places = receivers_of(layout, p_m, normal, solid)
    seen = look_around(
        solid, layout, places, rays, lambda share: progress("looking around", share), rows
    )
    transport = LightTransport(seen, albedo_of(mesh, layout, places, mean_colours(mesh)))
    sources = sources_of(scene)
    windows = window_light(mesh, layout, places, transport.albedo)
    direct = np.zeros((len(places.p_m), len(sources), 3), np.float32)
    for index, half in enumerate(transport.sky()):
        direct[:, index] = half[:, None] + np.float32(0.5) * windows
    unhidden = SolidSides(mesh, frozenset(lamp.name for lamp in scene.lamps))
    for index, source in enumerate(sources[2:], 2):
        direct[:, index] = _straight(source, places, unhidden)[:, None]
        progress("lights", (index + 1) / len(sources))
    light = transport.all_bounces(direct, lambda share: progress("bounces", share))
    around = probes_of(
        p_m,
        solid,
        layout,
        places,
        transport.leaving(light),
        lambda share: progress("probes", share),
    )
    light[:, 2:] -= direct[:, 2:]
    light = smoothed(light, layout, places)
    lamps = [index for index, source in enumerate(sources) if source.lamp is not None]
    straight = direct[:, lamps, 0].astype(np.float16)
    made = BakedLight(sources, layout, places, light.astype(np.float16), straight, around)
    return replace(made, gain=gain_of(made, scene, solid, transport.albedo))


def _straight(source: LightSource, places: Receivers, solid: SolidSides) -> Float32Array:
    """Return what receivers get straight from a lamp or a sun of white light 1, (r,)."""
    if source.to_sun is not None:
        return sun_light(source.to_sun, places, solid)
    assert source.lamp is not None
    strength = lamp_light(
        source.lamp, places.p_m.astype(np.float64), places.normal.astype(np.float64)
    )
    near = np.flatnonzero(strength > 0.0)
    p_m = lifted(places.p_m[near], places.normal[near])
    strength[near] *= solid.sees(p_m, source.lamp.p_m)
    return strength.astype(np.float32)


def sources_of(scene: Scene) -> tuple[LightSource, ...]:
    """Return the halves of the sky, the lamps, and suns.

    The scene's own and those of some hours.
    """
    white = [replace(lamp, light=_WHITE) for lamp in scene.lamps]
    lamps = [LightSource(lamp.name, lamp=lamp) for lamp in white]
    latitude = scene.environment.latitude_deg
    suns = [
        LightSource(f"sun at {hour:g} h", to_sun=sun_direction(hour, latitude)) for hour in _HOURS
    ]
    if scene.environment.sun is not None:
        suns.append(LightSource("sun", to_sun=scene.environment.sun.to_sun))
    return LightSource("upper sky"), LightSource("lower sky"), *lamps, *suns


def _texel_m(p_m: Float32Array, triangles: npt.NDArray[np.uint32], receivers: int) -> float:
    a, b, c = (p_m[triangles[:, k]].astype(np.float64) for k in range(3))
    area_m2 = 0.5 * float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum())
    return max(_LEAST_TEXEL_M, math.sqrt(area_m2 / receivers))


def albedo_of(
    mesh: StaticMesh, layout: ChartLayout, places: Receivers, materials: FloatArray
) -> Float32Array:
    """Return the share of light that receivers give back, linear RGB, (r, 3), by the
    :func:`mean_colours`.
    """
    chunk = np.searchsorted(mesh.chunks.stop, places.triangle, side="right")
    colour = materials.astype(np.float32)[mesh.chunks.material[chunk]]
    painted = mesh.vertices["colour"][layout.vertex[layout.triangles[places.triangle, 0]], :3]
    coloured = np.array([bool(colours) for _, colours in mesh.materials])[
        mesh.chunks.material[chunk]
    ]
    colour[coloured] *= painted[coloured].astype(np.float32) / np.float32(255.0)
    return colour


def mean_colours(mesh: StaticMesh) -> FloatArray:
    """Return the mean albedo of each material, linear RGB, (m, 3)."""
    return np.array([_mean_colour(material) for material, _ in mesh.materials]).reshape(-1, 3)


def _mean_colour(material: Material) -> FloatArray:
    """Return a material's mean albedo, linear RGB, (3,)."""
    mean: FloatArray = np.ones(3)
    if material.base is not None:
        pixels = material.base.texture.pixels
        seen = pixels
        if pixels.shape[-1] == 4 and (pixels[..., 3] > 0).any():
            seen = pixels[pixels[..., 3] > 0]
        levels = seen.reshape(-1, seen.shape[-1])[:, :3]
        shares = np.array([np.bincount(channel, minlength=256) for channel in levels.T]) / len(
            levels
        )
        mean = shares @ linear(np.arange(256) / 255.0)
    albedo: FloatArray = np.clip(
        mean * np.array(material.base_colour[:3]) * (1.0 - material.metallic), 0.0, 0.95
    )
    return albedo
