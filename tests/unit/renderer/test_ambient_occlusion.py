"""Ambient occlusion against what the geometry says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.geometry_scenes import box, floor, scene_of
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.lighting.ambient_occlusion import DARKEST, bake_ao

UP = np.array([[0.0, 0.0, 1.0]], np.float32)


def on_floor(*xy: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    p = np.array([(x, y, 0.0) for x, y in xy], np.float32)
    return p, np.repeat(UP, len(p), axis=0)


def test_open_sky_leaves_everything() -> None:
    assert bake_ao(*on_floor((0, 0), (3, 3)), scene_of(floor())).tolist() == [1.0, 1.0]


def test_a_high_wall_takes_half_at_its_foot_and_less_farther_off() -> None:
    scene = scene_of(floor(), box("wall", (0.5, 9, 40), (5.5, 0, 0)))
    near, middle, far = bake_ao(
        *on_floor((4.98, 0), (4.0, 0), (2.0, 0)), scene, rays=4096, reach_m=2.5
    )
    assert near == pytest.approx(0.52, abs=0.03)
    assert near < middle < far == 1.0


def test_a_lid_takes_by_its_height() -> None:
    """Under a wide lid at h a cosine-weighted ray of slope c sees h / c of the reach.

    The mean of min(h / (c r), 1).
    """
    scene = scene_of(box("lid", (9, 9, 0.1), (0, 0, 1.1)))
    share = (0.99 / 2.5) / np.sqrt(np.random.default_rng(0).random(200000))
    got = bake_ao(*on_floor((0, 0)), scene, rays=4096, reach_m=2.5)
    assert got[0] == pytest.approx(np.minimum(share, 1.0).mean(), abs=0.01)


def test_buried_vertices_are_not_black() -> None:
    """A vertex within another thing, and one of the floor just below a crate."""
    scene = scene_of(floor(), box("crate", (0.5, 0.5, 0.5), (0, 0, 0.5)))
    p = np.array([[0, 0, 0.5], [0.1, 0.1, 0.0]], np.float32)
    ao = bake_ao(p, np.repeat(UP, 2, axis=0), scene)
    np.testing.assert_allclose(ao, 0.6, atol=1e-6)


def test_never_darker_than_the_limit() -> None:
    lid = scene_of(floor(), box("lid", (9, 9, 0.1), (0, 0, 0.13)))
    assert bake_ao(*on_floor((0, 0)), lid)[0] == pytest.approx(DARKEST)


def test_it_repeats_and_takes_a_ready_world() -> None:
    scene = scene_of(floor(), box("crate", (0.5, 0.5, 0.5), (0, 0, 0.5)))
    rng = np.random.default_rng(1)
    p = np.zeros((20000, 3), np.float32)
    p[:, :2] = rng.uniform(-2, 2, (20000, 2))
    n = np.repeat(UP, 20000, axis=0)
    first = bake_ao(p, n, scene)
    np.testing.assert_array_equal(first, bake_ao(p, n, RayWorld(scene)))
    np.testing.assert_array_equal(first[[5, 19000]], bake_ao(p[[5, 19000]], n[:2], scene))
    assert first.dtype == np.float32


def test_sideways_and_downward_normals() -> None:
    scene = scene_of(floor())
    p = np.array([[0, 0, 0.02], [0, 0, 1.0]], np.float32)
    n = np.array([[1, 0, 0], [0, 0, -1]], np.float32)
    side, down = bake_ao(p, n, scene, rays=4096, reach_m=2.5)
    assert side == pytest.approx(0.52, abs=0.03)
    share = (0.99 / 2.5) / np.sqrt(np.random.default_rng(0).random(200000))
    assert down == pytest.approx(np.minimum(share, 1.0).mean(), abs=0.01)


def test_nothing_to_bake() -> None:
    assert (
        len(bake_ao(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), scene_of(floor())))
        == 0
    )
