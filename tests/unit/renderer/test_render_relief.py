"""Normal maps: bumps are lit from the side where the light is, on whatever is turned however.

Painted relief.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.render import (
    Renderers,
    at,
    camera,
    facing,
    plate,
    scene_of,
    shot,
    srgb,
    texture,
    thing,
    turn,
)
from vil_bridge.core.types import FloatArray, ImageArray
from vil_renderer.embedded.assets.model import Material
from vil_renderer.embedded.scene import Scene, Sun
from vil_renderer.embedded.scenes.paint import Canvas
from vil_renderer.embedded.scenes.surfaces import SURFACES, material

CAMERA = camera("relief", (96, 96), 50.0)
SLOPE, SUN = math.radians(25.0), math.radians(40.0)
RIGHT, LEFT, UP, DOWN = (1, 0), (-1, 0), (0, 1), (0, -1)
SIDES = (RIGHT, LEFT, UP, DOWN)


def sunlit(*parts: object, side: tuple[int, int], ambient: float = 0.2) -> Scene:
    """A sun before the wall, 40 degrees to one side of the picture: (to the right, up)."""
    s, c = math.sin(SUN), math.cos(SUN)
    return scene_of(
        *parts,  # type: ignore[arg-type]
        ambient=ambient,
        sun=Sun(np.array([side[0] * s, -side[1] * s, -c]), np.full(3, 0.6)),
    )


def encoded(normal: FloatArray) -> npt.NDArray[np.uint8]:
    return np.rint(127.5 + 127.5 * normal).astype(np.uint8)


def sloped(side: tuple[int, int]) -> Material:
    """A flat map whose whole surface faces to one side of the texture's upright picture."""
    normal = np.array([side[0] * math.sin(SLOPE), side[1] * math.sin(SLOPE), math.cos(SLOPE)])
    use = texture(np.tile(encoded(normal), (4, 4, 1)))
    return Material(base_colour=(0.5, 0.5, 0.5, 1.0), normal=use)


def middle(picture: ImageArray) -> float:
    return float(picture[44:52, 44:52].mean())


@pytest.mark.gl
@pytest.mark.parametrize("light", SIDES)
def test_slopes_are_lit_as_their_normals_say(renderers: Renderers, light: tuple[int, int]) -> None:
    """A row of what stands still above a row of what moves, each piece with another slope."""
    places = [(x, y) for y in (-0.4, 0.4) for x in (-0.6, -0.2, 0.2, 0.6)]
    pieces = [
        thing(f"{x}{y}", facing(2.0, 0.18, sloped(slope), at_m=(x, y)), movable=y > 0.0)
        for (x, y), slope in zip(places, 2 * SIDES, strict=True)
    ]
    picture = shot(renderers.of(sunlit(*pieces, side=light), "high"), CAMERA).astype(float)
    f = CAMERA.intrinsics_px[0]
    for (x, y), slope in zip(places, 2 * SIDES, strict=True):
        along = slope[0] * light[0] + slope[1] * light[1]
        cosine = math.cos(SUN - along * SLOPE) if along else math.cos(SLOPE) * math.cos(SUN)
        seen = strip(picture, 47.5 + f * x / 2.0, 47.5 + f * y / 2.0)
        np.testing.assert_allclose(seen, srgb(0.5 * (0.2 + 0.6 * cosine)), atol=1.5)


@pytest.mark.gl
def test_a_turned_or_mirrored_texture_turns_its_slopes(renderers: Renderers) -> None:
    """The map's x runs along the plate's own right: up in the picture, or to the left."""
    bright, dark = (srgb(0.5 * (0.2 + 0.6 * math.cos(SUN + a))) for a in (-SLOPE, SLOPE))
    turned = thing("wall", plate((0, 0, 2), (0, -2, 0), (-2, 0, 0), sloped(RIGHT)))
    assert middle(shot(renderers.of(sunlit(turned, side=UP), "high"), CAMERA)) == pytest.approx(
        bright, abs=1.5
    )
    assert middle(shot(renderers.of(sunlit(turned, side=DOWN), "high"), CAMERA)) == pytest.approx(
        dark, abs=1.5
    )
    wall = facing(2.0, 2.0, sloped(RIGHT))
    mirrored = thing("wall", replace(wall, uv=wall.uv * (-1, 1) + (1, 0)))
    assert middle(shot(renderers.of(sunlit(mirrored, side=LEFT), "high"), CAMERA)) == pytest.approx(
        bright, abs=1.5
    )


@pytest.mark.gl
def test_plainer_profiles_know_no_normal_maps(renderers: Renderers) -> None:
    wall, flat = (
        thing("wall", facing(2.0, 2.0, m))
        for m in (sloped(LEFT), replace(sloped(LEFT), normal=None))
    )
    for profile in ("low", "medium"):
        pictures = [
            shot(renderers.of(sunlit(one, side=RIGHT), profile), CAMERA) for one in (wall, flat)
        ]
        assert np.array_equal(pictures[0], pictures[1])


@pytest.mark.gl
def test_light_from_all_around_follows_slopes_too(renderers: Renderers) -> None:
    """Sky above (the world's z, ahead here), ground below.

    A slope sees more of one and less of the other.
    """
    scene = scene_of(thing("wall", plate((0, 2, 2), (2, 0, 0), (0, 0, 2), sloped(UP))))
    sky, ground = 0.8, 0.2
    lit = replace(
        scene,
        environment=replace(scene.environment, sky=np.full(3, sky), ground=np.full(3, ground)),
    )
    seen = middle(
        shot(
            renderers.of(lit, "high"), CAMERA, T_world_camera=at((0, 0, 2), turn((1, 0, 0), -90.0))
        )
    )
    expected = srgb(0.5 * (ground + (sky - ground) * (0.5 + 0.5 * math.sin(SLOPE))))
    assert seen == pytest.approx(expected, abs=1.5)


@pytest.mark.gl
@pytest.mark.parametrize("light", SIDES)
def test_a_painted_bump_is_bright_where_it_faces_the_light(
    renderers: Renderers, light: tuple[int, int]
) -> None:
    canvas = Canvas(np.random.default_rng(1), (128, 128, 128), 0.0, 256)
    canvas.level(64, 64, 128, 128, 6.0)
    use = texture(canvas.normals(0.0))
    wall = thing("wall", facing(2.0, 0.8, Material(base_colour=(0.5, 0.5, 0.5, 1.0), normal=use)))
    picture = shot(renderers.of(sunlit(wall, side=light), "high"), CAMERA)[..., 1].astype(float)
    f = CAMERA.intrinsics_px[0]
    c, edge = 47.5, f * 0.4 / 2.0
    rim = {side: strip(picture, c + edge * side[0], c - edge * side[1]) for side in SIDES}
    flat = strip(picture, c, c)
    assert rim[light].max() > flat.mean() + 8
    assert rim[(-light[0], -light[1])].min() < flat.mean() - 8
    assert np.ptp(flat) <= 1.0


def strip(picture: FloatArray, u: float, v: float) -> FloatArray:
    """Pixels (5, 5) about a place."""
    x, y = round(u), round(v)
    return picture[y - 2 : y + 3, x - 2 : x + 3]


@pytest.mark.gl
@pytest.mark.parametrize("movable", [False, True])
def test_a_sheet_does_not_shade_the_side_that_is_lit(renderers: Renderers, movable: bool) -> None:
    """Its normal points away from whoever looks and from the sun."""
    sheet = Material(base_colour=(0.5, 0.5, 0.5, 1.0), double_sided=True)
    tilt = plate((0, 0, 2), (-1, 0, 0.3), (0, -1, 0.2), sheet)
    assert tilt.normal[0, 2] > 0.0
    scene = sunlit(thing("sheet", tilt, movable=movable), side=UP)
    assert scene.environment.sun is not None
    cosine = float(-tilt.normal[0] @ scene.environment.sun.to_sun)
    seen = shot(renderers.of(scene, "ultra"), CAMERA)[40:56, 40:56]
    assert np.abs(seen - srgb(0.5 * (0.2 + 0.6 * cosine))).max() <= 2.0


def test_relief_is_painted_when_it_is_looked_at_and_flat_where_nothing_is() -> None:
    use = material("wall_brick").normal
    assert use is not None
    normal = use.texture.pixels / 127.5 - 1.0
    assert normal.shape == (512, 512, 3)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=-1), 1.0, atol=0.02)
    # On the whole flat, standing out here and there, never steeper than 60 degrees.
    np.testing.assert_allclose(normal.mean(axis=(0, 1)), (0.0, 0.0, 1.0), atol=0.06)
    assert 0.5 < normal[..., 2].min() < 0.95
    assert np.array_equal(use.texture.pixels, use.texture.pixels)
    # The upper edge of a row of bricks looks up, the lower one down: rows are 32 px, of which the
    # map has half.
    rows = normal[..., 1].mean(axis=1).reshape(-1, 16).mean(axis=0)
    assert rows[1:4].mean() > 0.05 and rows[-4:-1].mean() < -0.05
    assert material("screen_code").normal is None


@pytest.mark.parametrize(
    "name", sorted(name for name, surface in SURFACES.items() if surface.bump_px is not None)
)
def test_every_relief_is_gentle(name: str) -> None:
    use = material(name).normal
    assert use is not None
    steepness = np.degrees(np.arccos(np.clip(use.texture.pixels[..., 2] / 127.5 - 1.0, -1.0, 1.0)))
    assert 1.0 < np.sqrt((steepness**2).mean()) < 25.0
    assert np.percentile(steepness, 99.5) < 60.0
