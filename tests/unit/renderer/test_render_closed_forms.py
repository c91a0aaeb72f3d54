"""Depth, normals, ids, layers and grey of the drawn picture against closed forms, at every
quality.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.geometry_scenes import sphere_primitive
from tests.support.render import (
    AHEAD,
    LSB_PER_M,
    Renderers,
    at,
    camera,
    everybody,
    facing,
    moved,
    pixels_of,
    plate,
    projected,
    rays,
    scene_of,
    shot,
    shots,
    thing,
    turn,
)
from vil_bridge.core.types import BoolArray, Modality
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.engine.profiles import PROFILES
from vil_renderer.embedded.scene import Scene, SceneObject

pytestmark = pytest.mark.gl

CAMERA = camera()
OFFSET = camera("offset", (333, 201), pinhole_px=(281.0, 275.5, 150.25, 110.75))
# Rounding of single floats on top of the half unit that encoding costs.
HALF_LSB = 0.5 + 0.02
BALL_RADIUS_M = 0.5
BALL_RINGS = 64
SIDE_M = 0.31
LARGE_ID = 65535

WALL = scene_of(thing("wall", plate((0, 0, 0), (90, 0, 0), (0, -90, 0)), instance=5, semantic=2))


def _ball() -> SceneObject:
    asset = Asset.of("ball", [sphere_primitive(BALL_RADIUS_M, BALL_RINGS)])
    return SceneObject("ball", asset, np.eye(4), 6, 7, movable=True)


BALL = scene_of(_ball())


def _grid() -> Scene:
    """Twelve squares 2 m ahead, side by side; one behind a big one.

    One beyond the picture's edge.
    """
    squares = [
        thing(
            f"s{row}{column}",
            facing(2.0, 0.5 * SIDE_M, at_m=(0.4 * column - 0.6, 0.4 * row - 0.4)),
            instance=1 + 1000 * (4 * row + column),
            semantic=300 + row,
        )
        for row in range(3)
        for column in range(4)
    ]
    hidden = thing("hidden", facing(3.0, 0.2, at_m=(0.3, 0.0)), instance=40_000)
    cover = thing("cover", facing(2.5, 0.3, at_m=(0.25, 0.0)), instance=LARGE_ID, semantic=LARGE_ID)
    outside = thing("outside", facing(2.0, 0.1, at_m=(5.0, 0.0)), instance=50_000)
    return scene_of(*squares, hidden, cover, outside)


GRID = _grid()


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("distance_m", [0.6, 7.3456, 31.7])
def test_a_wall_across_the_view_has_one_depth_in_every_pixel(
    renderers: Renderers, profile: str, distance_m: float
) -> None:
    for model in (CAMERA, OFFSET):
        renderer = renderers.of(WALL, profile)
        asked = (
            Modality.DEPTH,
            Modality.DEPTH32,
            Modality.NORMALS,
            Modality.INSTANCE,
            Modality.SEMANTIC,
        )
        pictures = shots(renderer, model, asked, at((1.5, -0.7, -distance_m)))
        depth, metres, normals, ids, classes = (p.pixels for p in pictures)
        assert np.abs(depth - distance_m * LSB_PER_M).max() <= HALF_LSB
        assert np.abs(metres - distance_m).max() <= 2e-6 * distance_m
        assert np.all(normals == (0.0, 0.0, -1.0))
        assert np.all(ids == 5)
        assert np.all(classes == 2)


@pytest.mark.parametrize("profile", ["low", "high"])
@pytest.mark.parametrize(
    ("axis", "angle_deg"), [((0, 1, 0), 40.0), ((1, 0.3, 0), -25.0), ((0.2, 1, 1), 35.0)]
)
def test_a_tilted_plane_follows_its_formula(
    renderers: Renderers, profile: str, axis: tuple[float, float, float], angle_deg: float
) -> None:
    R_world_camera = turn(axis, angle_deg)
    for model in (CAMERA, OFFSET):
        asked = (Modality.DEPTH, Modality.NORMALS)
        depth, normals = (
            p.pixels
            for p in shots(
                renderers.of(WALL, profile), model, asked, at((2, 1, -4), R_world_camera)
            )
        )
        n_camera = R_world_camera.T @ (0.0, 0.0, 1.0)
        z_m = 4.0 / (rays(model) @ n_camera)
        near = z_m < 60.0
        assert near.mean() > 0.9
        # Steep parts add the rounding of a pixel's place to that of its depth.
        assert (
            np.abs(depth - z_m * LSB_PER_M)[near].max()
            <= HALF_LSB + 2e-6 * z_m[near].max() ** 2 * LSB_PER_M
        )
        assert np.abs(normals.astype(float) + n_camera).max() < 1e-3


@pytest.mark.parametrize("profile", ["low", "medium", "high"])
@pytest.mark.parametrize("centre", [(0.0, 0.0, 2.0), (0.9, -0.6, 2.4), (-0.7, 0.3, 1.3)])
def test_a_ball_is_the_root_of_the_ray_and_shows_its_normals(
    renderers: Renderers, profile: str, centre: tuple[float, float, float]
) -> None:
    actors = everybody(moved("ball", centre, turn((1, 2, 3), 50.0)))
    pictures = shots(
        renderers.of(BALL, profile), CAMERA, (Modality.DEPTH, Modality.NORMALS), AHEAD, actors
    )
    depth, normals = (p.pixels for p in pictures)
    d, c = rays(CAMERA), np.array(centre)
    square, along = (d * d).sum(axis=-1), d @ c
    root = along**2 - square * (c @ c - BALL_RADIUS_M**2)
    z_m = (along - np.sqrt(np.maximum(root, 0.0))) / square
    n = (d * z_m[..., None] - c) / BALL_RADIUS_M
    steepness = -(n * d).sum(axis=-1) / np.sqrt(square)
    inside = (root > 0.0) & (steepness > 0.3)
    assert inside.sum() > 3000
    # Facets lie below the ball by r (1 - cos(step / 2)) in each of two directions, more along a
    # slanting ray.
    sagitta_m = 2.0 * BALL_RADIUS_M * (1.0 - np.cos(0.5 * np.pi / BALL_RINGS))
    error = depth[inside] / LSB_PER_M - z_m[inside]
    assert error.min() >= -HALF_LSB / LSB_PER_M
    assert np.all(error <= sagitta_m / steepness[inside] + HALF_LSB / LSB_PER_M)
    drawn = normals.astype(float)[inside]
    assert np.abs(np.linalg.norm(drawn, axis=1) - 1.0).max() < 1e-3
    # A point that lies so much deeper lies aside by the tangent of the ray's slant.
    aside = sagitta_m / steepness[inside] / BALL_RADIUS_M
    assert np.all(np.linalg.norm(drawn - n[inside], axis=1) <= aside + 1e-3)
    assert np.all(depth[root < -0.002 * square] == 65535)


@pytest.mark.parametrize("profile", PROFILES)
def test_ids_are_those_of_what_is_seen_and_nothing_else(renderers: Renderers, profile: str) -> None:
    renderer = renderers.of(GRID, profile)
    asked = (Modality.INSTANCE, Modality.SEMANTIC, Modality.RGB)
    ids, classes, _ = (p.pixels for p in shots(renderer, CAMERA, asked))
    squares = {1 + 1000 * i for i in range(12)}
    assert set(np.unique(ids).tolist()) == squares | {0, LARGE_ID}
    assert set(np.unique(classes).tolist()) == {300, 301, 302, 0, LARGE_ID}
    assert np.array_equal(ids == LARGE_ID, classes == LARGE_ID)
    side_px = SIDE_M / 2.0 * CAMERA.f_px
    for i in range(12):
        row, column = divmod(i, 4)
        mask = ids == 1 + 1000 * i
        assert abs(mask.sum() - side_px**2) <= 2.0 * side_px
        v, u = np.nonzero(mask)
        expected = projected(CAMERA, np.array([0.4 * column - 0.6, 0.4 * row - 0.4, 2.0]))
        assert (u.mean(), v.mean()) == pytest.approx(tuple(expected), abs=0.5)
        assert np.all(classes[mask] == 300 + row)


def test_a_pixel_is_what_its_centre_sees(renderers: Renderers) -> None:
    """Rasterisation without a half-pixel shift.

    Exactly the pixels whose centres lie in the square.
    """
    ids = shot(renderers.of(GRID), CAMERA, Modality.INSTANCE)
    p = pixels_of(CAMERA)
    low, high = (
        projected(CAMERA, np.array([-0.6 + s, -0.4 + s, 2.0]))
        for s in (-0.5 * SIDE_M, 0.5 * SIDE_M)
    )
    assert np.array_equal(ids == 1, np.all((p > low) & (p < high), axis=-1))


@pytest.mark.parametrize("profile", PROFILES)
def test_where_nothing_is_every_modality_says_so(renderers: Renderers, profile: str) -> None:
    renderer = renderers.of(BALL, profile)
    asked = [m for m in Modality if m not in (Modality.RGB, Modality.GRAY, Modality.RGBA)]
    beside = everybody(moved("ball", (0.0, 0.0, -3.0)))
    for number in range(2):  # the second has a picture to move from
        made = shots(renderer, CAMERA, asked, AHEAD, beside, t_ns=number)
        for image in made:
            empty = {Modality.DEPTH: 65535, Modality.DEPTH32: 100.0}.get(image.view.modality, 0)
            assert np.all(image.pixels == empty), image.view.modality
            assert (image.valid is not None) == (image.view.modality is Modality.FLOW)
            assert image.valid is None or not image.valid.any()


def test_beyond_full_scale_depth_is_full_scale(renderers: Renderers) -> None:
    renderer = renderers.of(WALL)
    for distance_m, level, metres in (
        (99.99, 65528, 99.99),
        (100.01, 65535, 100.0),
        (300.0, 65535, 100.0),
    ):
        depth, exact = (
            p.pixels
            for p in shots(
                renderer,
                camera(fov_deg=20),
                (Modality.DEPTH, Modality.DEPTH32),
                at((0, 0, -distance_m)),
            )
        )
        assert abs(int(depth[120, 160]) - level) <= 1
        assert exact[120, 160] == pytest.approx(metres, abs=2e-3)


@pytest.mark.parametrize("profile", ["low", "high"])
def test_grey_is_the_weighted_sum_of_the_colours_beside_it(
    renderers: Renderers, profile: str
) -> None:
    grey, rgb = (
        p.pixels for p in shots(renderers.of(GRID, profile), CAMERA, (Modality.GRAY, Modality.RGB))
    )
    wide = rgb.astype(int)
    assert np.array_equal(grey, (77 * wide[..., 0] + 150 * wide[..., 1] + 29 * wide[..., 2]) // 256)
    assert np.ptp(grey) > 50


LAYERS = scene_of(
    thing("back", facing(5.0, 20.0), instance=1),
    thing("left", facing(2.0, 0.3, at_m=(-0.5, 0.0)), instance=2, layer="augmented"),
    SceneObject(
        "right",
        Asset.of("right", [facing(0.0, 0.3)]),
        np.eye(4),
        6,
        3,
        layer="augmented",
        movable=True,
    ),
    thing("before", facing(1.0, 0.08, at_m=(-0.25, 0.0)), instance=4),
)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_layer_holds_its_own_things_over_nothing(renderers: Renderers, profile: str) -> None:
    renderer = renderers.of(LAYERS, profile)
    snapshot = everybody(moved("right", (0.5, 0.0, 2.0)))
    asked = (Modality.RGBA, Modality.INSTANCE, Modality.DEPTH)
    rgba, ids, depth = (
        p.pixels for p in shots(renderer, CAMERA, asked, AHEAD, snapshot, layer="augmented")
    )
    everything = shot(renderer, CAMERA, Modality.INSTANCE, AHEAD, snapshot)
    assert set(np.unique(everything).tolist()) == {1, 2, 3, 4}
    assert set(np.unique(ids).tolist()) == {0, 2, 3}
    side_px = 0.6 / 2.0 * CAMERA.f_px
    for instance in (2, 3):
        assert abs((ids == instance).sum() - side_px**2) <= 2.0 * side_px
    edges = np.abs(np.diff(np.pad((ids > 0).astype(int), 1), axis=0))[:, 1:-1]
    border = _widened((edges[:-1] + edges[1:]) > 0) | _widened(
        np.pad(np.diff((ids > 0).astype(int)), ((0, 0), (0, 1))) != 0
    )
    assert np.all(rgba[(ids == 0) & ~border] == 0)
    assert np.all(rgba[(ids > 0) & ~border] == 255)
    # Over an edge colours are premultiplied: white things are as bright as they are opaque.
    assert np.abs(rgba[..., :3].astype(int) - rgba[..., 3:]).max() <= (
        0 if profile in ("low", "medium") else 1
    )
    assert np.array_equal(depth == 65535, ids == 0)


def _widened(mask: BoolArray) -> BoolArray:
    padded = np.pad(mask, 1)
    h, w = mask.shape
    near: BoolArray = np.any(
        [padded[i : i + h, j : j + w] for i in range(3) for j in range(3)], axis=0
    )
    return near
