"""Windows of a room with baked light, against the integral over their area."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.geometry_scenes import box_primitive, primitive, scene_of, thing
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset, Material, Primitive
from vil_renderer.embedded.engine.vertices import static_mesh
from vil_renderer.embedded.lighting.baked import store
from vil_renderer.embedded.lighting.baked.bake import bake
from vil_renderer.embedded.scene import Environment, Scene
from vil_renderer.embedded.scenes.surfaces import material

HALF_M = np.array((2.0, 1.5, 1.0))
SKY, GROUND = np.array((0.4, 0.5, 0.6)), np.array((0.2, 0.1, 0.0))
OUTSIDE = 2.0
GLASS = (0.1, 0.1, 0.9, 0.6)
"""Part of the wall at x = 2 m: y from -1.2 to 1.2 m, z from -0.2 to 0.8 m."""


def room(*windows: tuple[float, float, float, float]) -> Scene:
    """Return a black room whose grey wall at +x has windows."""
    whole = box_primitive(tuple(HALF_M))
    parts = []
    for side in range(6):
        rows = slice(4 * side, 4 * side + 4)
        part = primitive(whole.p_m[rows], [(0, 2, 1), (0, 3, 2)], -whole.normal[rows])
        parts.append(_glazed(part, windows) if part.normal[0, 0] == -1.0 else _painted(part, 0.0))
    environment = Environment(SKY, GROUND)
    return replace(scene_of(thing("room", Asset.of("room", parts))), environment=environment)


def _painted(part: Primitive, grey: float) -> Primitive:
    return replace(part, material=Material(base_colour=(grey, grey, grey, 1.0)))


def _glazed(part: Primitive, windows: tuple[tuple[float, float, float, float], ...]) -> Primitive:
    uv = np.stack((0.5 + part.p_m[:, 1] / 3.0, 0.5 - part.p_m[:, 2] / 2.0), axis=1).astype(
        np.float32
    )
    return replace(
        part, uv=uv, material=Material(base_colour=(0.5, 0.5, 0.5, 1.0), windows=windows)
    )


def from_window(p_m: FloatArray, normal: FloatArray) -> FloatArray:
    """Return the light at a point of a matt lamp as large as the window, as bright as half of
    each half of the sky.
    """
    y, z = np.meshgrid(np.arange(-1.195, 1.2, 0.01), np.arange(-0.195, 0.8, 0.01))
    to = np.stack((np.full(y.size, 2.0), y.ravel(), z.ravel()), axis=1) - p_m
    r2 = (to**2).sum(axis=1)
    form = np.maximum(to @ normal, 0.0) * to[:, 0] / (np.pi * r2**2)
    shape: FloatArray = form.sum() * 0.01**2 * OUTSIDE * 0.5 * (SKY + GROUND)
    return shape


def test_a_window_lights_a_room_as_a_matt_lamp_of_the_skys_brightness() -> None:
    scene = room(GLASS)
    made = bake(scene, static_mesh(scene), lambda _step, _share: None, receivers=40_000, rays=64)
    light = made.mixed(scene.environment, ())
    up = np.array((0.0, 0.0, 1.0))
    for x, y in ((1.0, 0.0), (0.0, 0.5), (-1.2, -0.8)):
        near = np.linalg.norm(made.receivers.p_m - (x, y, -1.0), axis=1) < 0.2
        got = light[near & (made.receivers.normal @ up > 0.9)].mean(axis=0)
        np.testing.assert_allclose(got, from_window(np.array((x, y, -1.0)), up), rtol=0.04)
    on_wall = made.receivers.normal[:, 0] < -0.9
    _, across, high = made.receivers.p_m.T
    glass = on_wall & (np.abs(across) < 1.1) & (high > -0.1) & (high < 0.7)
    shown = np.broadcast_to(OUTSIDE * 0.5 * (SKY + GROUND), (glass.sum(), 3))
    np.testing.assert_allclose(0.5 * light[glass], shown, rtol=0.01)
    beyond = on_wall & ((np.abs(across) > 1.3) | (high < -0.3) | (high > 0.9))
    assert light[beyond].max() < 1e-3, "a wall does not see itself"


def test_windows_follow_the_sky_and_are_part_of_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIL_BRIDGE_CACHE", str(tmp_path))
    monkeypatch.setattr(store, "RECEIVERS", 500)
    with_one, without = (
        store.stored_light(scene, static_mesh(scene)) for scene in (room(GLASS), room())
    )
    evening = Environment(0.25 * SKY, 0.25 * GROUND)
    day, dusk = (with_one.mixed(e, ()).max(axis=0) for e in (Environment(SKY, GROUND), evening))
    np.testing.assert_allclose(dusk, 0.25 * day, rtol=1e-3)
    assert without.mixed(evening, ()).max() == 0.0, "a closed room"
    assert len(list((tmp_path / "baked_light").glob("*.npz"))) == 2


@pytest.mark.parametrize("name", ["wall_window", "lab_window"])
def test_the_glass_of_our_scenes_is_where_it_is_painted(name: str) -> None:
    """Panes are brighter than what is around them."""
    made = material(name)
    assert made.base is not None
    grey = made.base.texture.pixels.mean(axis=2)
    glass = np.zeros(grey.shape, bool)
    for low_u, low_v, high_u, high_v in made.windows:
        rows, columns = (
            np.rint(np.multiply(size, ends)).astype(int)
            for size, ends in zip(grey.shape, ((low_v, high_v), (low_u, high_u)), strict=True)
        )
        glass[rows[0] : rows[1], columns[0] : columns[1]] = True
    assert np.median(grey[glass]) > 1.2 * np.median(grey[~glass])
