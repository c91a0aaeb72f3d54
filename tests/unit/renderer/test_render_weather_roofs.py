"""Roofs in weather.

Below them nothing falls or lies, fog has the light of the room, and snow does not burn out.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.support.embedded import looking
from tests.support.render import Renderers, camera, linear, plate, rays, scene_of, shot, srgb, thing
from tests.support.splat import Splat, write
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray, ImageArray, Lighting, Modality, WorldSnapshot
from vil_bridge.core.weather import Weather, extinction_per_m
from vil_renderer.embedded.assets.model import Material
from vil_renderer.embedded.engine.particles import particles_at
from vil_renderer.embedded.geometry.sky_cover import SkyCover
from vil_renderer.embedded.scene import CLASSES, Environment, Scene, SplatSet, Sun

pytestmark = pytest.mark.gl

CAMERA = camera()
GRAY = Material(base_colour=(0.3, 0.3, 0.3, 1.0))
DARK = Material(base_colour=(0.0, 0.0, 0.0, 1.0), unlit=True)
FLOOR = thing("floor", plate((0.0, 0.0, 0.0), (40.0, 0.0, 0.0), (0.0, 40.0, 0.0), GRAY))
ROOF = thing("roof", plate((10.0, 0.0, 5.0), (10.0, 0.0, 0.0), (0.0, 10.0, 0.0), GRAY), instance=2)
"""It covers x from 0 to 20 m and y from -10 to 10 m."""
TREE = thing(
    "tree",
    plate((-10.0, 0.0, 4.0), (4.0, 0.0, 0.0), (0.0, 4.0, 0.0)),
    instance=3,
    semantic=CLASSES["vegetation"],
)
CABLE = thing(
    "cable", plate((-20.0, 0.0, 4.0), (0.02, 0.0, 0.0), (0.0, 20.0, 0.0)), instance=4, semantic=1
)
SHED = scene_of(FLOOR, ROOF, TREE, CABLE, ambient=0.5)


def cover_of(scene: Scene) -> SkyCover:
    found = SkyCover.of(scene)
    assert found is not None
    return found


def weathered(weather: Weather) -> WorldSnapshot:
    return WorldSnapshot(0, (), Lighting(weather=weather))


def seen(
    renderers: Renderers, scene: Scene, pose: Transform, weather: Weather, profile: str = "medium"
) -> ImageArray:
    return shot(
        renderers.of(scene, profile), CAMERA, T_world_camera=pose, snapshot=weathered(weather)
    )


def test_roofs_cover_what_is_below_them_and_trees_and_cables_do_not() -> None:
    cover = cover_of(SHED)
    below = np.array([(10.0, 0.0, 1.0), (10.0, 0.0, 4.6), (0.4, 9.6, 0.0)])
    open_sky = np.array(
        [
            (10.0, 0.0, 5.1),
            (-0.4, 0.0, 1.0),
            (-10.0, 0.0, 1.0),
            (-20.0, 0.0, 1.0),
            (90.0, 0.0, -5.0),
        ]
    )
    assert cover.over(below).all() and not cover.over(open_sky).any()
    shares = cover.share_over(np.array([(10.0, 0.0, 1.0), (0.0, 0.0, 1.0), (-5.0, 0.0, 1.0)]))
    assert shares == pytest.approx([1.0, 0.5, 0.0], abs=0.1)
    assert SkyCover.of(scene_of(TREE)) is None


def test_steep_ground_of_a_wide_scene_is_in_the_open() -> None:
    side_m, slope = 500.0, 0.8
    ground = plate((0.0, 0.0, 0.0), (side_m, 0.0, slope * side_m), (0.0, side_m, 0.0), GRAY)
    x, y = np.random.default_rng(2).uniform(-0.95 * side_m, 0.95 * side_m, (2, 2000))
    places = np.column_stack((x, y, slope * x))
    assert not cover_of(scene_of(thing("hill", ground))).over(places).any()


def test_particles_fall_in_the_open_alone() -> None:
    cover = cover_of(SHED)
    everything = particles_at(Weather(rain=1.0, snow=1.0, leaves=1.0, dust=1.0), 7)
    assert everything is not None
    ahead = np.array([1.0, 0.0, 0.0])
    eye = np.array([0.0, 0.0, 2.0])
    rows = everything.around(eye, ahead, -1.0, cover)
    places, kind = rows[:, :3] + eye, np.floor(rows[:, 9])
    roofed = cover.over(places.astype(float))
    assert set(kind[roofed]) == {2.0} and set(kind[~roofed]) == {0.0, 1.0, 2.0, 3.0}
    assert len(rows) < len(everything.around(eye, ahead, -1.0))


@pytest.mark.parametrize("profile", ["low", "medium", "high"])
@pytest.mark.parametrize(
    "weather", [Weather(ground_snow=1.0), Weather(ground_wetness=1.0), Weather(ground_leaves=1.0)]
)
def test_nothing_lies_below_a_roof(renderers: Renderers, profile: str, weather: Weather) -> None:
    for x, changes in ((12.0, False), (-12.0, True)):
        down = looking((x, 0.0, 2.0), pitch_deg=89.0)
        clear, covered = (
            linear(seen(renderers, SHED, down, w, profile)) for w in (Weather(), weather)
        )
        assert bool(np.abs(covered - clear).max() > 0.02) == changes


def test_rain_takes_light_along_the_open_part_of_the_way(renderers: Renderers) -> None:
    far = thing(
        "far", plate((24.0, 0.0, 0.0), (0.0, -90.0, 0.0), (0.0, 0.0, 90.0), DARK), instance=5
    )
    scene = scene_of(FLOOR, ROOF, far, ambient=0.5)
    share = sum(extinction_per_m(Weather(rain=1.0)))
    for x, open_share in ((2.0, 0.25), (-16.0, 0.5), (21.0, 1.0)):
        pose = looking((x, 0.0, 2.0))
        away_m = (24.0 - x) * np.linalg.norm(rays(CAMERA), axis=-1)
        picture = seen(renderers, scene, pose, Weather(rain=1.0))
        glow = _glow(scene, x)
        expected = srgb(glow * (1.0 - np.exp(-share * open_share * away_m)))
        middle = slice(108, 118), slice(130, 190)  # between floor and roof
        assert abs(np.median((picture[..., 0] - expected)[middle])) < 1.3


def _glow(scene: Scene, x_m: float) -> float:
    """Return the air's light at a place.

    Of a closed room, walls send back 0.4 of the ambient light.
    """
    under = float(cover_of(scene).share_over(np.array([[x_m, 0.0, 2.0]]))[0])
    return 0.5 * (1.0 - 0.6 * under)


def test_fog_in_a_room_has_the_light_of_the_room(renderers: Renderers) -> None:
    sun = Sun.towards((0.0, 0.0, 1.0), (0.6, 0.6, 0.6))
    walls = [
        thing("far", plate((19.0, 0.0, 2.0), (0.0, -9.0, 0.0), (0.0, 0.0, 2.0), DARK), instance=5)
    ]
    scene = scene_of(FLOOR, ROOF, *walls, ambient=0.3, sun=sun)
    inside, outside = (
        seen(renderers, scene, looking((x, 0.0, 2.0)), Weather(fog=1.0))[118:122, 158:162].mean()
        for x in (10.0, -80.0)
    )
    air = 1.0 - math.exp(-extinction_per_m(Weather(fog=1.0)).fog * 9.0)
    assert inside == pytest.approx(float(srgb(0.4 * 0.3 * air)), abs=2.0)
    assert outside == pytest.approx(float(srgb(0.3 + 0.25 * 0.6)), abs=2.0)


@pytest.mark.parametrize("profile", ["low", "high"])
def test_snow_at_noon_is_exposed_for_and_has_grain(renderers: Renderers, profile: str) -> None:
    sun = Sun.towards((0.3, 0.2, 1.0), (1.0, 0.98, 0.95))
    scene = scene_of(FLOOR, ROOF, ambient=0.5, sun=sun)
    picture = seen(
        renderers,
        scene,
        looking((-12.0, 0.0, 2.0), pitch_deg=60.0),
        Weather(ground_snow=1.0),
        profile,
    )
    assert picture.max() < 255 and 200 < picture.mean() < 235
    assert picture.astype(float).std(axis=(0, 1)).min() > 1.5
    # Below the roof nothing is exposed for the snow outside.
    inside = looking((10.0, 0.0, 2.0), pitch_deg=60.0)
    clear, snowy = (
        seen(renderers, scene, inside, w, profile) for w in (Weather(), Weather(ground_snow=1.0))
    )
    assert np.array_equal(clear, snowy)


SPLAT = Splat((8.0, 0.0, 1.0), (0.05, 9.0, 9.0), (0.9, 0.3, 0.1), 0.999, (1.0, 0.0, 0.0, 0.0))


def scan(folder: Path) -> Scene:
    path = write(folder / "scan.ply", [SPLAT])
    board = plate((8.0, 0.0, 1.0), (0.0, -12.0, 0.0), (0.0, 0.0, 12.0))
    light = Environment(
        np.full(3, 0.5), np.full(3, 0.5), zenith=(0.2, 0.3, 0.5), horizon=(0.2, 0.3, 0.5)
    )
    return Scene(
        "scan", (thing("proxy", board),), light, splats=SplatSet(path, np.eye(4), ("proxy",))
    )


@pytest.mark.parametrize("profile", ["low", "high"])
def test_fog_takes_light_from_splats(renderers: Renderers, tmp_path: Path, profile: str) -> None:
    pytest.importorskip("numba", reason="numba (extra splat) is not installed")
    renderer, pose, fog = (
        renderers.of(scan(tmp_path), profile),
        looking((0.0, 0.0, 1.0)),
        Weather(fog=0.7),
    )
    clear, foggy = (
        shot(renderer, CAMERA, T_world_camera=pose, snapshot=weathered(w))[118:122, 158:162]
        .reshape(-1, 3)
        .mean(axis=0)
        for w in (Weather(), fog)
    )
    left = math.exp(-extinction_per_m(fog).fog * 8.0)
    light = left * _linear(clear, profile) + (1.0 - left) * 0.5
    shown = 255.0 * light ** (1.0 / 2.2) if profile == "low" else srgb(light)
    assert np.abs(foggy - shown).max() < 1.5


def _linear(levels: FloatArray, profile: str) -> FloatArray:
    return np.asarray((levels / 255.0) ** 2.2 if profile == "low" else linear(levels))


@pytest.mark.parametrize("profile", ["low", "high"])
def test_flakes_fall_before_splats_and_not_behind(
    renderers: Renderers, tmp_path: Path, profile: str
) -> None:
    pytest.importorskip("numba", reason="numba (extra splat) is not installed")
    renderer, snow = renderers.of(scan(tmp_path), profile), Weather(leaves=1.0)
    changed = {}
    for x in (0.0, 7.7):
        pose = looking((x, 0.0, 1.0))
        clear, falling, depth = (
            shot(renderer, CAMERA, modality, pose, weathered(w))
            for w, modality in (
                (Weather(), Modality.RGB),
                (snow, Modality.RGB),
                (snow, Modality.DEPTH32),
            )
        )
        assert np.isfinite(depth).all()
        changed[x] = (np.abs(falling.astype(float) - clear).max(axis=-1) > 25.0).mean()
    assert changed[0.0] > 0.001 and changed[7.7] == 0.0
