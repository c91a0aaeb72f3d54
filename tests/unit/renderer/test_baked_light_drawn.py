"""Baked light in the picture.

As the formula where nothing hides anything, and changed with the light of now.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.geometry_scenes import box, floor_asset, scene_of, thing
from tests.support.opengl import drawing
from tests.support.render import camera, shot
from tests.unit.renderer.test_baked_light import WHITE, inside_out, painted
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    LampState,
    Lighting,
    TrackingState,
    WorldSnapshot,
)
from vil_bridge.optics.tone_curve import TONE_CURVE, light_of_levels, toned, untoned
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.lighting.baked import store
from vil_renderer.embedded.scene import Environment, Lamp, Scene, Sun

pytestmark = pytest.mark.gl

DOWN = Transform.of((0.0, 0.0, 2.0), (1.0, 0.0, 0.0, 0.0))
"""A camera that looks down: its optical axis is -z."""
SKY = Environment(np.array((0.5, 0.4, 0.3)), np.array((0.2, 0.2, 0.2)))


@pytest.fixture(autouse=True)
def small(run_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIL_BRIDGE_CACHE", str(run_cache))
    monkeypatch.setattr(store, "RECEIVERS", 6000)
    monkeypatch.setattr(store, "RAYS", 64)


def picture(
    scene: Scene, profile: str, *, baked: bool, lighting: Lighting | None = None
) -> np.ndarray:
    snapshot = WorldSnapshot(0, (), lighting)
    with drawing(scene, profile, baked=baked) as renderer:
        return np.asarray(
            shot(renderer, camera(size=(96, 72)), T_world_camera=DOWN, snapshot=snapshot)
        ).astype(int)


def ground(**light: object) -> Scene:
    grey = replace(floor_asset(4.0, 8), nodes=floor_asset(4.0, 8).nodes)
    (part,) = grey.nodes[0].primitives
    return replace(
        scene_of(thing("floor", Asset.of("floor", [painted(part, (0.5, 0.5, 0.5))]))),
        **light,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("profile", ["low", "medium", "high"])
def test_open_ground_looks_the_same_baked_or_not(profile: str) -> None:
    lamp = Lamp("lamp", np.array((0.5, 0.0, 3.0)), np.array((2.0, 1.5, 1.0)))
    sun = Sun.towards((0.3, 0.2, 0.9), (0.3, 0.25, 0.2))
    scene = ground(environment=replace(SKY, sun=sun), lamps=(lamp,))
    plain, with_bake = picture(scene, profile, baked=False), picture(scene, profile, baked=True)
    assert np.abs(255.0 * toned(plain / 255.0) - with_bake).max() <= 3


@pytest.mark.parametrize("profile", ["low", "medium"])
def test_lamps_of_a_room_are_dimmed_with_all_their_bounces(profile: str) -> None:
    lamp = Lamp("lamp", np.array((0.5, 0.0, 1.5)), np.ones(3))
    room = thing("room", inside_out((2.0, 2.0, 2.5), [WHITE] * 6))
    scene = replace(
        scene_of(room), environment=Environment(np.zeros(3), np.zeros(3)), lamps=(lamp,)
    )
    full = picture(scene, profile, baked=True)
    half = picture(scene, profile, baked=True, lighting=Lighting(lamps={"lamp": LampState(0.5)}))
    off = picture(scene, profile, baked=True, lighting=Lighting(lamps={"lamp": LampState(0.0)}))
    assert off.max() == 0
    if profile == "low":
        ratio = (untoned(half / 255.0) / untoned(full / 255.0)) ** 2.2
    else:
        levels = light_of_levels(tone_curve=True)
        ratio = levels[half] / levels[full]
    assert np.median(ratio) == pytest.approx(0.5, abs=0.02)


def test_it_is_darker_below_a_crate() -> None:
    crate = box("crate", (0.3, 0.3, 0.3), (0.0, 0.0, 0.4))
    scene = ground(environment=SKY)
    scene = replace(scene, objects=(*scene.objects, crate))
    with drawing(scene, "low", baked=True) as renderer:
        side = Transform.of((-3.0, 0.0, 0.2), (0.5, -0.5, 0.5, -0.5))
        seen = np.asarray(shot(renderer, camera(size=(320, 240)), T_world_camera=side)).astype(int)
    below, open_ground = seen[130:133, 155:165].mean(), seen[130:133, 5:25].mean()
    assert below < 0.85 * open_ground


def test_a_model_in_a_dark_room_is_dark() -> None:
    room = thing("room", inside_out((2.0, 2.0, 2.5), [WHITE] * 6))
    sun = Sun.towards((0.1, 0.1, 1.0), (1.0, 1.0, 1.0))
    scene = replace(scene_of(room), environment=replace(SKY, sun=sun))
    drone = ActorState(
        "d",
        ActorKind.VEHICLE,
        TrackingState.TRACKED,
        0,
        Transform.of((0.0, 0.0, 1.0), (0, 0, 0, 1.0)),
    )
    with drawing(scene, "low", baked=True) as renderer:
        seen = shot(
            renderer,
            camera(size=(96, 72)),
            T_world_camera=DOWN,
            snapshot=WorldSnapshot(0, (drone,)),
        )
    assert np.asarray(seen).max() <= 2


@pytest.mark.parametrize("profile", ["low", "medium", "high"])
def test_bright_places_roll_off_with_baked_light_alone(profile: str) -> None:
    """One ground at four brightnesses.

    Without baked light it is cut off at white, with it it has the tone curve.
    """
    for brightness in (0.03, 0.5, 1.5, 2.4):
        scene = ground(environment=Environment(np.full(3, brightness), np.full(3, brightness)))
        plain, shown = (picture(scene, profile, baked=baked)[36, 48, 0] for baked in (False, True))
        light = 0.5 * brightness
        display = light ** (1.0 / 2.2) if profile == "low" else 1.055 * light ** (1.0 / 2.4) - 0.055
        assert plain == pytest.approx(min(255.0, 255.0 * display), abs=2.5)
        assert shown == pytest.approx(255.0 * toned(np.array(display)), abs=2.5)


def test_the_sky_has_the_same_curve_and_the_renderer_says_so() -> None:
    scene = ground(environment=replace(SKY, exposure=1.2))
    up = Transform.of((0.0, 0.0, 2.0), (0.0, 0.0, 0.0, 1.0))
    with drawing(scene, "medium", baked=True) as renderer:
        assert renderer.info[TONE_CURVE] is True
        seen = np.asarray(shot(renderer, camera(size=(96, 72)), T_world_camera=up))[36, 48] / 255.0
    with drawing(scene, "medium") as renderer:
        assert TONE_CURVE not in renderer.info
        plain = np.asarray(shot(renderer, camera(size=(96, 72)), T_world_camera=up))[36, 48] / 255.0
    np.testing.assert_allclose(seen, toned(plain), atol=0.012)
