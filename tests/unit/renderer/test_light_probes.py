"""Light around models that move.

Against a path tracer, on the way from light to dark, and in the picture.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.geometry_scenes import box, box_primitive, place, scene_of, thing
from tests.support.opengl import drawing
from tests.support.path_tracer import Surfaces, traced_around
from tests.support.render import camera, shot
from tests.unit.renderer.test_baked_light import DARK, GREEN, RED, WHITE, baked, inside_out, painted
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    FloatArray,
    LampState,
    Lighting,
    TrackingState,
    WorldSnapshot,
)
from vil_bridge.optics.tone_curve import linear, untoned
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.engine.model_light import LightField
from vil_renderer.embedded.engine.vertices import static_mesh
from vil_renderer.embedded.lighting.baked import store
from vil_renderer.embedded.lighting.baked.baked_light import BakedLight
from vil_renderer.embedded.lighting.baked.solid_sides import SolidSides
from vil_renderer.embedded.scene import Environment, Lamp, Scene, Sun

LAMP = Lamp("lamp", np.array((-1.2, 0.1, 0.6)), np.array((1.0, 0.9, 0.8)))
SKY = Environment(np.array((0.5, 0.5, 0.5)), np.array((0.2, 0.2, 0.2)))
AXES = np.concatenate((np.eye(3), -np.eye(3)))


@pytest.fixture(autouse=True)
def small(run_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIL_BRIDGE_CACHE", str(run_cache))
    monkeypatch.setattr(store, "RECEIVERS", 6000)
    monkeypatch.setattr(store, "RAYS", 64)


def light_at(levels: FloatArray) -> FloatArray:
    """Linear light of levels 0 to 255 in a picture with the tone curve."""
    return linear(untoned(levels / 255.0))


def two_halves(*, lamps: tuple[Lamp, ...] = (LAMP,)) -> Scene:
    """A room of 4 m by 2 m by 2 m, its lamp in one half.

    A wall between them leaves a gap below the ceiling.
    """
    room = thing("room", inside_out((2.0, 1.0, 1.0), [RED, GREEN, WHITE, WHITE, WHITE, WHITE]))
    wall = thing(
        "wall",
        Asset.of("wall", [painted(box_primitive((0.05, 1.0, 0.6)), WHITE)]),
        place((0, 0, -0.4)),
    )
    return replace(scene_of(room, wall), environment=DARK, lamps=lamps)


def around(
    made: BakedLight, environment: Environment = DARK, lamps: tuple[Lamp, ...] = (LAMP,)
) -> LightField:
    return made.probes.field(made.colours(environment, lamps), np.float32(1.0))


def on_surface(terms: FloatArray, normal: FloatArray) -> FloatArray:
    """Return what a surface gets: the sum in the shader, from terms (9, 4)."""
    x, y, z = normal
    return np.asarray(np.array((x * x, y * y, z * z, x, y, z, x * y, y * z, z * x)) @ terms[:, :3])


def test_probes_in_both_halves_of_a_box_have_the_light_of_a_path_tracer() -> None:
    scene = two_halves()
    field = around(baked(scene, receivers=20_000, rays=128))
    surfaces = Surfaces.of(scene)
    assert field.shape == (4, 2, 2)
    means = []
    for p_m in field.low_m + field.step_m * np.array([(0, 1, 1), (3, 0, 0)]):
        terms = field.at(p_m[None])[0].astype(float)
        want = traced_around(surfaces, p_m, AXES, LAMP, paths=200_000)
        got = np.array([on_surface(terms, n) for n in AXES])
        np.testing.assert_allclose(got.mean(axis=0), want.mean(axis=0), rtol=0.02)  # a sphere
        np.testing.assert_allclose(got, want, rtol=0.02, atol=0.02 * want.mean())  # cards
        means.append(want.mean())
    assert means[0] > 4.0 * means[1]


def test_light_changes_step_by_step_on_the_way_into_the_dark() -> None:
    field = around(baked(two_halves()))
    way = np.column_stack((np.linspace(-1.9, 1.9, 381), np.full(381, 0.2), np.full(381, 0.8)))
    light = field.at(way)[:, :3, :3].mean(axis=(1, 2))
    assert light[0] > 4.0 * light[-1]
    assert np.abs(np.diff(light)).max() < 0.02 * np.ptp(light)


def test_the_light_of_probes_is_that_of_the_lamps_of_now() -> None:
    lamps = (LAMP, replace(LAMP, name="other", p_m=np.array((1.2, 0.0, 0.6))))
    made = baked(two_halves(lamps=lamps), receivers=3000, rays=64)
    p_m = np.array([(1.5, 0.5, 0.5), (-1.5, 0.5, 0.5)])
    both, one, none = (around(made, lamps=lit).at(p_m)[:, :3, :3] for lit in (lamps, lamps[:1], ()))
    assert none.max() == 0.0
    assert (one[0] < 0.5 * both[0]).all()
    dimmed = around(made, lamps=(lamps[0], replace(lamps[1], light=0.5 * lamps[1].light))).at(p_m)[
        :, :3, :3
    ]
    np.testing.assert_allclose(dimmed, one + 0.5 * (both - one), rtol=2e-3)


def test_points_inside_of_something_do_not_count() -> None:
    block = box("block", (1.2, 3.0, 1.5), (2.8, 0.0, 1.5))
    made = baked(replace(scene_of(box("floor", (4, 3, 0.1), (0, 0, -0.1)), block), environment=SKY))
    assert not made.probes.free.all()
    light = around(made, SKY, ()).at(np.array([(1.5, 0.0, 2.5), (-3.0, 0.0, 2.5)]))[:, 2, 0]
    assert light[0] > 0.8 * light[1]  # by the block, as bright as where nothing is


def test_a_model_below_a_roof_gets_less_of_the_sun_the_farther_in_it_is() -> None:
    scene = scene_of(box("floor", (6, 6, 0.1), (0, 0, -0.1)), box("roof", (3, 6, 0.1), (3, 0, 4.0)))
    made = baked(replace(scene, environment=SKY), receivers=3000, rays=32)
    share = made.probes.sun_share(np.array((0.0, 0.0, 1.0)), SolidSides(static_mesh(scene)))
    field = made.probes.field(made.colours(SKY, ()), share)
    way = field.at(np.column_stack((np.linspace(-3, 3, 61), np.zeros(61), np.ones(61))))[:, 0, 3]
    assert way[0] == 1.0
    assert way[-1] == 0.0
    assert (np.diff(way) < 1e-6).all()
    assert np.diff(way).min() > -0.15


DOWN = Transform.of((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))


def seen_from_above(
    renderer: EmbeddedRenderer, x_m: float, lighting: Lighting | None = None
) -> FloatArray:
    """Return the mean colour of a white prop in the middle of a picture from 0.5 m above it."""
    body = Transform.of((x_m, 0.0, 0.4), (0, 0, 0, 1.0))
    prop = ActorState("p", ActorKind.PROP, TrackingState.TRACKED, 0, body, size_m=(0.4, 0.4, 0.2))
    eye = replace(DOWN, p_m=np.array((x_m, 0.0, 1.0)))
    snapshot = WorldSnapshot(0, (prop,), lighting)
    seen = shot(renderer, camera(size=(96, 72)), T_world_camera=eye, snapshot=snapshot)
    mean: FloatArray = np.asarray(seen)[30:42, 42:54].astype(float).mean(axis=(0, 1))
    return mean


@pytest.mark.gl
@pytest.mark.parametrize("profile", ["low", "medium", "high"])
def test_a_prop_is_drawn_in_the_light_at_its_place(profile: str) -> None:
    """One half of a shed is open to the sky; nobody else lights it."""
    roof = box("roof", (2.0, 2.0, 0.05), (2.0, 0.0, 2.0))
    walls = (
        box("back", (0.05, 2.0, 1.0), (4.0, 0.0, 1.0)),
        box("side", (2.0, 0.05, 1.0), (2.0, 2.0, 1.0)),
    )
    other = box("other", (2.0, 0.05, 1.0), (2.0, -2.0, 1.0))
    scene = replace(
        scene_of(box("floor", (4, 2, 0.1), (0, 0, -0.1)), roof, *walls, other), environment=SKY
    )
    with drawing(scene, profile, baked=True) as renderer:
        colours = np.array([seen_from_above(renderer, x_m) for x_m in np.linspace(-3.0, 3.5, 14)])
        made = store.stored_light(scene, static_mesh(scene))
    grey = colours.mean(axis=1)
    assert (np.diff(grey) < 1.5).all()
    light = (
        untoned(colours / 255.0).mean(axis=1) ** 2.2
        if profile == "low"
        else light_at(colours).mean(axis=1)
    )
    p_m = np.column_stack((np.linspace(-3.0, 3.5, 14), np.zeros(14), np.full(14, 0.4)))
    want = np.array(
        [on_surface(terms, np.array((0, 0, 1.0))).mean() for terms in around(made, SKY, ()).at(p_m)]
    )
    assert light[-1] < 0.6 * light[0]
    if profile != "high":  # there is a mirror in it
        np.testing.assert_allclose(light / light[0], want / want[0], atol=0.03)


@pytest.mark.gl
@pytest.mark.parametrize("profile", ["low", "medium"])
def test_a_prop_in_a_room_follows_the_lamps_of_now(profile: str) -> None:
    with drawing(two_halves(), profile, baked=True) as renderer:
        full, half, off = (
            seen_from_above(renderer, 1.0, Lighting(lamps={"lamp": LampState(level)}))
            for level in (1.0, 0.5, 0.0)
        )
    assert off.max() == 0.0
    if profile == "low":
        ratio = (untoned(half / 255.0) / untoned(full / 255.0)) ** 2.2
    else:
        ratio = light_at(half) / light_at(full)
    assert ratio == pytest.approx(np.full(3, 0.5), abs=0.03)


@pytest.mark.gl
def test_the_floor_of_a_hall_with_a_roof_gets_all_of_the_sun_that_comes_in() -> None:
    """The sun of static surfaces is not weakened by the shade of the rest of the scene."""
    sun = Sun.towards((0.0, 0.0, 1.0), (0.4, 0.4, 0.4))
    open_scene = scene_of(box("floor", (4, 2, 0.1), (0, 0, -0.1)))
    roofed = scene_of(*open_scene.objects, box("roof", (1.9, 2.0, 0.05), (2.1, 0.0, 3.0)))
    places = []
    for scene in (open_scene, roofed):
        lit = replace(scene, environment=Environment(np.zeros(3), np.zeros(3), sun=sun))
        with drawing(lit, "medium", baked=True) as renderer:
            eye = replace(DOWN, p_m=np.array((-3.0, 0.0, 1.0)))
            seen = np.asarray(shot(renderer, camera(size=(96, 72)), T_world_camera=eye)).astype(
                float
            )
            gain = store.stored_light(lit, static_mesh(lit)).gain
        places.append(light_at(seen[30:42, 42:54]).mean() / gain)
    assert places[1] == pytest.approx(places[0], rel=0.03)
