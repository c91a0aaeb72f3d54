"""Weather in pictures.

Extinction over depth, drops as functions of time, and what weather does not touch.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.common import needs_gl
from tests.support.embedded import looking
from tests.support.render import (
    Renderers,
    camera,
    everybody,
    facing,
    linear,
    moved,
    plate,
    projected,
    rays,
    scene_of,
    shot,
    shots,
    srgb,
    thing,
)
from vil_bridge.core.camera_model import Effects
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    FloatArray,
    ImageArray,
    Lighting,
    Modality,
    RenderedImage,
    WorldSnapshot,
)
from vil_bridge.core.weather import Weather, extinction_per_m
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.assets.model import Material, Primitive
from vil_renderer.embedded.engine.particles import (
    CUBES_M,
    RAIN,
    Particles,
    drop_speed_mps,
    particles_at,
)
from vil_renderer.embedded.scene import CLASSES, Scene, Sun

pytestmark = pytest.mark.gl

CAMERA = camera()
AMBIENT = 0.5
DARK = Material(base_colour=(0.0, 0.0, 0.0, 1.0), unlit=True)
BRIGHT = Material(base_colour=(0.8, 0.8, 0.8, 1.0), unlit=True)
STAMP_NS = 123_456_789_012_345
TRUTH = (
    Modality.DEPTH,
    Modality.DEPTH32,
    Modality.NORMALS,
    Modality.SEMANTIC,
    Modality.INSTANCE,
    Modality.FLOW,
)
EVERYTHING = Weather(1.0, 1.0, 1.0, 0.5, 0.5, 1.0, 0.5, 1.0)


LEVEL = looking((0.0, 0.0, 0.0))


def across(distance_m: float, half_m: float, material: Material) -> Primitive:
    """Return an upright square across the axis of LEVEL."""
    return plate((distance_m, 0.0, 0.0), (0.0, -half_m, 0.0), (0.0, 0.0, half_m), material)


def wall(distance_m: float, material: Material) -> Scene:
    return scene_of(thing("wall", across(distance_m, 3.0 * distance_m, material)), ambient=AMBIENT)


def ahead(renderer: EmbeddedRenderer, snapshot: WorldSnapshot) -> ImageArray:
    return shot(renderer, CAMERA, T_world_camera=LEVEL, snapshot=snapshot)


def weathered(weather: Weather | None, t_ns: int = 0) -> WorldSnapshot:
    return WorldSnapshot(t_ns, (), None if weather is None else Lighting(weather=weather))


def levels(light: FloatArray, profile: str) -> FloatArray:
    """Return the display levels of linear light at a profile."""
    shown: FloatArray = (
        255.0 * np.clip(light, 0.0, 1.0) ** (1.0 / 2.2) if profile == "low" else srgb(light)
    )
    return shown


# --- extinction ----------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["low", "medium", "high"])
@pytest.mark.parametrize("material", [DARK, BRIGHT], ids=["dark", "bright"])
@pytest.mark.parametrize(
    ("weather", "distance_m"),
    [
        (Weather(fog=0.3), 20.0),
        (Weather(fog=0.3), 200.0),
        (Weather(fog=1.0), 10.0),
        (Weather(fog=0.2, ground_wetness=1.0), 60.0),
    ],
)
def test_fog_takes_light_and_adds_its_own_by_koschmieders_law(
    renderers: Renderers, profile: str, material: Material, weather: Weather, distance_m: float
) -> None:
    seen = ahead(renderers.of(wall(distance_m, material), profile), weathered(weather))
    away_m = distance_m * np.linalg.norm(rays(CAMERA), axis=-1)
    left = np.exp(-extinction_per_m(weather).fog * away_m)
    light = material.base_colour[0] * left + AMBIENT * (1.0 - left)
    assert np.abs(seen - levels(light, profile)[..., None]).max() < 1.3


def test_at_the_visibility_two_percent_of_a_contrast_are_left(renderers: Renderers) -> None:
    fog = weathered(Weather(fog=0.3))
    centre = CAMERA.height_px // 2, CAMERA.width_px // 2
    dark, bright = (
        linear(ahead(renderers.of(wall(3.0 / 0.3 * 30.0 / 0.9, m), "medium"), fog)[centre]).mean()
        for m in (DARK, BRIGHT)
    )
    assert (bright - dark) / 0.8 == pytest.approx(0.02, abs=0.008)  # a level of 255 is 0.006 here


@pytest.mark.parametrize(
    ("weather", "share"),
    [(Weather(rain=1.0), 0.365e-3 * 50.0**0.63), (Weather(snow=1.0), 11.73e-3)],
)
def test_rain_and_snow_take_light_over_depth(
    renderers: Renderers, weather: Weather, share: float
) -> None:
    """Most pixels have no drop in front: their median is the air's."""
    for distance_m in (30.0, 90.0):
        seen = ahead(renderers.of(wall(distance_m, DARK), "medium"), weathered(weather))
        away_m = distance_m * np.linalg.norm(rays(CAMERA), axis=-1)
        error = seen[..., 0] - srgb(AMBIENT * (1.0 - np.exp(-share * away_m)))
        assert abs(np.median(error)) < 1.0


def test_dust_is_brown_and_fog_is_gray(renderers: Renderers) -> None:
    scene = wall(100.0, DARK)
    for weather, least in ((Weather(dust=1.0), 15), (Weather(fog=1.0), 0)):
        red, green, blue = ahead(renderers.of(scene, "medium"), weathered(weather))[
            120, 160
        ].tolist()
        assert red - green >= least and green - blue >= least and red - blue <= 4 * least


def test_the_sky_fades_into_the_fog_at_the_horizon_and_shines_through_a_thin_one_above(
    renderers: Renderers,
) -> None:
    renderer = renderers.of(scene_of(ambient=AMBIENT), "medium")
    level, up = looking((0.0, 0.0, 2.0)), looking((0.0, 0.0, 2.0), pitch_deg=-88.0)
    thin = weathered(Weather(fog=0.1))
    above, blue = (
        shot(renderer, CAMERA, T_world_camera=up, snapshot=s)[120, 160]
        for s in (thin, weathered(None))
    )
    left = math.exp(-extinction_per_m(Weather(fog=0.1)).fog * 250.0)
    assert np.abs(linear(above) - (left * linear(blue) + (1.0 - left) * AMBIENT)).max() < 0.02
    horizon = shot(renderer, CAMERA, T_world_camera=level, snapshot=weathered(Weather(fog=0.5)))[
        118:122
    ]
    assert np.abs(horizon - srgb(AMBIENT)).max() < 2.0


def test_the_airs_light_is_that_of_ambient_light_and_sun(renderers: Renderers) -> None:
    sun = Sun.towards((0.3, 0.2, 1.0), (0.8, 0.4, 0.2))
    scene = scene_of(thing("wall", across(400.0, 2000.0, DARK)), ambient=0.2, sun=sun)
    seen = ahead(renderers.of(scene, "medium"), weathered(Weather(fog=1.0)))[120, 160]
    assert np.abs(seen - srgb(0.2 + 0.25 * np.array((0.8, 0.4, 0.2)))).max() < 1.5


# --- drops ---------------------------------------------------------------------------------------


ROOM = scene_of(thing("wall", across(8.0, 60.0, DARK)), ambient=AMBIENT)
"""A dark wall beyond all drops that are drawn."""
DRIZZLE = Weather(rain=0.03)
SHARP = camera("sharp", (640, 480), effects=Effects(shutter=0.004 / 0.02, frame_ns=20_000_000))


def drops(
    renderers: Renderers, T: Transform, t_ns: int, effects: Effects = SHARP.effects
) -> FloatArray:
    """Return the levels (h, w) that drops add to the wall."""
    model = replace(SHARP, effects=effects)
    seen = shot(
        renderers.of(ROOM, "medium"),
        model,
        T_world_camera=T,
        snapshot=weathered(DRIZZLE, t_ns),
        t_ns=t_ns,
    )
    away = np.linalg.norm(rays(SHARP), axis=-1) * 8.0
    air = srgb(AMBIENT * (1.0 - np.exp(-sum(extinction_per_m(DRIZZLE)) * away)))
    added: FloatArray = seen[..., 0] - air
    return added


def near_ones(
    T: Transform, t_ns: int, within_m: float = 3.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return places in optical axes (k, 3), speeds (k,) and diameters (k,) of the drops well
    within the picture.
    """
    found = particles_at(DRIZZLE, t_ns)
    assert found is not None
    rows = found.around(T.p_m, T.rotation()[:, 2], 0.5).astype(np.float64)
    p = rows[:, :3] @ T.rotation()
    pixels = projected(SHARP, p)
    inside = (p[:, 2] > 0.6) & (p[:, 2] < within_m)
    inside &= (pixels > 25.0).all(axis=1) & (pixels[:, 0] < 615.0) & (pixels[:, 1] < 455.0)
    return p[inside], -rows[inside, 5], rows[inside, 6]


def test_drops_are_where_their_fall_says_and_nowhere_else(renderers: Renderers) -> None:
    added = drops(renderers, LEVEL, STAMP_NS)
    places, _, _ = near_ones(LEVEL, STAMP_NS)
    assert len(places) >= 5
    for u, v in projected(SHARP, places):
        assert added[round(v) - 1 : round(v) + 2, round(u) - 1 : round(u) + 2].max() > 4.0
    everywhere, _, _ = near_ones(LEVEL, STAMP_NS, within_m=5.0)
    assert (
        0.0 < (added > 2.0).mean() < 0.01
        and np.median(np.abs(added)) < 1.0
        and len(everywhere) > len(places)
    )


def test_the_same_stamp_gives_the_same_picture_in_any_renderer() -> None:
    # No picture before, whose time would be that of the shutter.
    one, other = Renderers(), Renderers()
    first = drops(one, LEVEL, STAMP_NS)
    assert not np.array_equal(drops(one, LEVEL, STAMP_NS + 20_000_000), first)
    assert np.array_equal(drops(one, LEVEL, STAMP_NS), first)
    assert np.array_equal(drops(other, LEVEL, STAMP_NS), first)
    one.close()
    other.close()


def test_two_cameras_see_the_same_drops_with_the_parallax_of_their_depth(
    renderers: Renderers,
) -> None:
    beside = LEVEL @ Transform.of((0.12, 0.0, 0.0))  # to the right
    added = drops(renderers, beside, STAMP_NS)
    places, _, _ = near_ones(LEVEL, STAMP_NS)
    moved_px = projected(SHARP, places - (0.12, 0.0, 0.0))
    fx = SHARP.intrinsics_px[0]
    assert moved_px[:, 0] == pytest.approx(
        projected(SHARP, places)[:, 0] - fx * 0.12 / places[:, 2]
    )
    inside = (moved_px[:, 0] > 5.0) & (moved_px[:, 0] < 630.0)
    assert inside.sum() >= 4
    for u, v in moved_px[inside]:
        assert added[round(v) - 1 : round(v) + 2, round(u) - 1 : round(u) + 2].max() > 4.0


def test_drops_fall_from_picture_to_picture_with_their_own_speed(renderers: Renderers) -> None:
    step_ns = 5_000_000
    places, speeds, diameters = near_ones(LEVEL, STAMP_NS)
    assert speeds == pytest.approx(drop_speed_mps(1e3 * diameters), abs=1e-5)
    added = drops(renderers, LEVEL, STAMP_NS + step_ns)
    below = places + np.array([0.0, 1.0, 0.0]) * (1e-9 * step_ns * speeds)[:, None]
    for u, v in projected(SHARP, below):
        assert added[round(v) - 1 : round(v) + 2, round(u) - 1 : round(u) + 2].max() > 4.0


@pytest.mark.parametrize("open_s", [0.002, 0.004, 0.010])
def test_a_streak_is_as_long_as_the_drop_falls_while_the_shutter_is_open(
    renderers: Renderers, open_s: float
) -> None:
    added = drops(renderers, LEVEL, STAMP_NS, Effects(shutter=open_s / 0.02, frame_ns=20_000_000))
    places, speeds, diameters = near_ones(LEVEL, STAMP_NS, within_m=3.0)
    everyone, _, _ = near_ones(LEVEL, STAMP_NS, within_m=5.0)
    all_px, f_px, measured = projected(SHARP, everyone), SHARP.f_px, 0
    for p, speed, diameter, (u, v) in zip(
        places, speeds, diameters, projected(SHARP, places), strict=True
    ):
        length_px = f_px * (speed * open_s + diameter) / p[2]
        if (np.abs(all_px[:, 0] - u) < 6.0).sum() > 1 or not length_px < v < 479.0 - length_px:
            continue  # another one is near, or it leaves the picture
        column = added[:, round(u) - 1 : round(u) + 2].max(axis=1)
        reach = np.flatnonzero(column > 0.4 * column[round(v) - 1 : round(v) + 2].max())
        assert reach[-1] - reach[0] + 1 == pytest.approx(length_px, abs=3.0)
        measured += 1
    assert measured >= 1


@pytest.mark.parametrize(("mm", "mps"), [(1.0, 4.0), (2.0, 6.55), (3.0, 7.95), (5.0, 9.14)])
def test_drops_fall_as_fast_as_was_measured(mm: float, mps: float) -> None:
    assert float(drop_speed_mps(np.array(mm))) == pytest.approx(
        mps, abs=0.02
    )  # Gunn and Kinzer: 4.03, 6.49, 8.06, 9.09


def test_drops_are_hidden_by_what_is_nearer(renderers: Renderers) -> None:
    near = thing("near", plate((0.4, 0.0, 0.0), (0.0, -3.0, 0.0), (0.0, 0.0, 3.0), DARK))
    renderer = renderers.of(scene_of(near, ambient=AMBIENT), "medium")
    seen = shot(
        renderer, SHARP, T_world_camera=LEVEL, snapshot=weathered(Weather(rain=0.3), 5), t_ns=5
    )
    assert seen.max() < 60  # of that nearer than 0.4 m, faded out, little is left


def test_nothing_pops_where_the_cube_of_drops_repeats() -> None:
    found = particles_at(Weather(rain=1.0), 77)
    assert isinstance(found, Particles)
    forward = np.array([1.0, 0.0, 0.0])
    here, there = (found.around(np.array([x, 0.0, 0.0]), forward, -1.0) for x in (0.0, 0.01))
    for rows in (here, there):
        assert np.linalg.norm(rows[:, :3], axis=1).max() <= 0.5 * CUBES_M[RAIN]
    was, now = ({float(row[9]): row[:3] for row in rows} for rows in (here, there))
    same = was.keys() & now.keys()
    jumps = np.array([now[key] + (0.01, 0.0, 0.0) - was[key] for key in same])
    stayed = np.abs(jumps).max(axis=1) < 1e-5
    assert stayed.mean() > 0.999 and len(same) > 0.99 * len(here)
    # The others come and go at the edge, where all are faded out.
    others = [was[key] for key in was.keys() - now.keys()] + [
        now[key] for key in now.keys() - was.keys()
    ]
    assert np.linalg.norm(others, axis=1).min() > 0.499 * CUBES_M[RAIN] - 0.01


# --- the ground, trees, and what stays -----------------------------------------------------------

GRAY = Material(base_colour=(0.3, 0.3, 0.3, 1.0))
FLOOR = thing("floor", plate((0.0, 0.0, 0.0), (40.0, 0.0, 0.0), (0.0, 40.0, 0.0), GRAY))
UPRIGHT = thing(
    "upright", plate((6.0, 0.0, 1.0), (0.0, -1.0, 0.0), (0.0, 0.0, 1.0), GRAY), instance=9
)
OUTSIDE = scene_of(FLOOR, UPRIGHT, ambient=0.8)
DOWN = looking((0.0, 0.0, 2.0), pitch_deg=13.0)


def lying(kind: str, amount: float) -> Weather:
    amounts: dict[str, Any] = {kind: amount}
    return Weather(**amounts)


@pytest.mark.parametrize("profile", ["low", "medium", "high"])
@pytest.mark.parametrize("kind", ["ground_snow", "ground_wetness", "ground_leaves"])
def test_what_lies_on_the_ground_lies_on_what_faces_up(
    renderers: Renderers, profile: str, kind: str
) -> None:
    renderer = renderers.of(OUTSIDE, profile)
    ids = shot(renderer, CAMERA, Modality.INSTANCE, DOWN)
    clear, some, full = (
        linear(shot(renderer, CAMERA, T_world_camera=DOWN, snapshot=weathered(lying(kind, amount))))
        for amount in (0.0, 0.4, 1.0)
    )
    changed = [np.abs(p - clear).mean(axis=-1) for p in (some, full)]
    inner = np.asarray(ids == 9)
    inner[1:] &= inner[:-1]
    inner[:-1] &= inner[1:]
    inner[:, 1:] &= inner[:, :-1]
    inner[:, :-1] &= inner[:, 1:]
    assert max(c[inner].max() for c in changed) < 0.004
    floor = ids == 1
    assert changed[1][floor].mean() > 1.5 * changed[0][floor].mean() > 0.0
    if kind == "ground_snow":
        assert full[floor].mean() == pytest.approx(0.8 * 0.88, abs=0.03)
    if kind == "ground_wetness":
        # Darker near by.
        assert full[floor & (np.indices(ids.shape)[0] > 200)].mean() < 0.75 * clear[floor].mean()


@pytest.mark.parametrize("profile", ["low", "high"])
def test_ground_truth_is_untouched(renderers: Renderers, profile: str) -> None:
    ball = thing("ball", facing(0.0, 0.3), instance=77, movable=True)
    scene = scene_of(FLOOR, UPRIGHT, ball, ambient=0.8)
    before = {}
    for number, weather in enumerate((None, EVERYTHING)):
        renderer = renderers.of(scene, profile)
        model = replace(CAMERA, name=f"c{number}")

        def pictures(t_ns: int) -> tuple[RenderedImage, ...]:
            actors = everybody(moved("ball", (4.0, 5e-9 * t_ns, 1.0)), t_ns=t_ns)
            snapshot = replace(actors, lighting=weathered(weather).lighting)  # noqa: B023 - called at once
            return shots(renderer, model, (*TRUTH, Modality.RGB), DOWN, snapshot, t_ns=t_ns)  # noqa: B023 - likewise

        pictures(0)
        before[number] = [(p.pixels.copy(), p.valid) for p in pictures(20_000_000)]
    for (clear, valid), (wet, known) in zip(before[0][:-1], before[1][:-1], strict=True):
        assert np.array_equal(clear, wet)
        assert (valid is None) == (known is None)
        assert valid is None or known is None or np.array_equal(valid, known)
    assert np.abs(before[0][-1][0].astype(int) - before[1][-1][0]).mean() > 10.0


def test_a_layer_alone_has_no_weather(renderers: Renderers) -> None:
    renderer = renderers.of(OUTSIDE, "low")
    clear, wet = (
        shot(renderer, CAMERA, Modality.RGBA, DOWN, weathered(w), layer="scene")
        for w in (None, EVERYTHING)
    )
    assert np.array_equal(clear, wet)


def test_fine_weather_is_drawn_by_the_programs_of_before() -> None:
    needs_gl()
    with EmbeddedRenderer(scene_of(FLOOR, UPRIGHT, ambient=0.8), "medium") as renderer:
        clear = shot(renderer, CAMERA, T_world_camera=DOWN)
        programs = renderer._scene_pass()._programs._built
        assert not any({"AIR", "GROUND", "WIND"} & dict(key[1]).keys() for key in programs)
        assert not any(key[0] == "particles" for key in programs)
        shot(renderer, CAMERA, T_world_camera=DOWN, snapshot=weathered(EVERYTHING))
        assert any(key[0] == "particles" for key in programs)
        assert np.array_equal(shot(renderer, CAMERA, T_world_camera=DOWN), clear)
        assert np.array_equal(
            shot(renderer, CAMERA, T_world_camera=DOWN, snapshot=weathered(Weather())), clear
        )


def test_wind_moves_trees_and_their_flow_says_so(renderers: Renderers) -> None:
    parts = [
        thing(
            what,
            plate((9.0, y, 5.0), (0.0, -1.0, 0.0), (0.0, 0.0, 5.0), cells=10),
            instance=i,
            semantic=CLASSES[what],
        )
        for i, (what, y) in enumerate((("vegetation", 2.5), ("pole", -2.5)), 1)
    ]
    renderer = renderers.of(scene_of(*parts), "low")
    above = looking((0.0, 0.0, 6.0))
    storm = Weather(wind_mps=(0.0, 15.0, 0.0))
    asked = (Modality.INSTANCE, Modality.FLOW, Modality.DEPTH32)
    seen = [
        [
            p.pixels.copy()
            for p in shots(renderer, CAMERA, asked, above, weathered(storm, t), t_ns=t)
        ]
        for t in (400_000_000, 1_100_000_000)
    ]
    (was, _, _), (now, flow, depth) = seen
    still = shot(renderer, CAMERA, Modality.INSTANCE, above)
    assert np.array_equal(now == 2, still == 2) and not np.array_equal(now == 1, still == 1)
    u, v = np.indices(now.shape)[::-1]
    row = v == 60  # near the top
    shift_px = u[row & (now == 1)].mean() - u[row & (was == 1)].mean()
    assert abs(shift_px) > 2.0
    assert flow[row & (now == 1), 0].mean() == pytest.approx(shift_px, abs=0.7)
    assert np.all(flow[now == 2] == 0.0)
    assert depth[now == 1] == pytest.approx(9.0, abs=1e-4)  # the wind blows across the view


def test_a_scenes_own_weather_holds_until_another_is_set(renderers: Renderers) -> None:
    scene = replace(wall(50.0, DARK), weather=Weather(fog=0.5))
    renderer = renderers.of(scene, "medium")
    assert renderer.info["weather"]["fog"] == 0.5
    foggy = ahead(renderer, WorldSnapshot(0, ()))[120, 160]
    assert (
        np.abs(
            foggy - srgb(AMBIENT * (1.0 - math.exp(-extinction_per_m(scene.weather).fog * 50.0)))
        ).max()
        < 1.5
    )
    assert ahead(renderer, weathered(Weather())).max() == 0
    assert np.array_equal(ahead(renderer, WorldSnapshot(0, (), Lighting()))[120, 160], foggy)
