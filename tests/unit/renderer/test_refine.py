"""Large triangles cut small: the same surface, with vertices where light may change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.render import Renderers, at, camera, scene_of, shot, thing, turn
from tests.support.scenefile import read
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset, Material, Primitive
from vil_renderer.embedded.assets.refine import refined
from vil_renderer.embedded.scene import Lamp


def strip(count: int = 6) -> Primitive:
    """A bent band of irregular triangles, 0.1 to 7 m long, whose vertices are shared."""
    rng = np.random.default_rng(3)
    p = rng.uniform(-3.5, 3.5, (count + 2, 3)).astype(np.float32)
    normal = np.tile(np.array([[0.0, 0.0, 1.0]], np.float32), (len(p), 1))
    uv = (p[:, :2] @ [[2.0, 0.5], [-1.0, 3.0]]).astype(np.float32)
    faces = np.array([(k, k + 1, k + 2) for k in range(count)], np.uint32)
    return Primitive(p, normal, uv, faces, Material(), colour=np.full((len(p), 4), 77, np.uint8))


def areas(part: Primitive) -> FloatArray:
    a, b, c = (part.p_m[part.triangles[:, k]].astype(float) for k in range(3))
    made: FloatArray = 0.5 * np.cross(b - a, c - a)
    return made


@pytest.mark.parametrize("limit_m", [0.3, 1.0, 2.5])
def test_edges_are_short_and_the_surface_is_the_same(limit_m: float) -> None:
    whole = strip()
    part = refined(Asset.of("a", [whole]), limit_m).nodes[0].primitives[0]
    corners = part.p_m[part.triangles].astype(float)
    assert np.linalg.norm(corners - corners[:, (1, 2, 0)], axis=-1).max() <= limit_m * (1 + 1e-6)
    assert len(part.triangles) > len(whole.triangles)
    # Vector areas add up: nothing is lost, doubled or turned over.
    np.testing.assert_allclose(areas(part).sum(axis=0), areas(whole).sum(axis=0), atol=1e-3)
    np.testing.assert_allclose(
        np.linalg.norm(areas(part), axis=1).sum(), np.linalg.norm(areas(whole), axis=1).sum()
    )
    np.testing.assert_allclose(part.uv, part.p_m[:, :2] @ [[2.0, 0.5], [-1.0, 3.0]], atol=1e-4)
    assert part.colour is not None and np.all(part.colour == 77)
    np.testing.assert_allclose(np.linalg.norm(part.normal, axis=1), 1.0, atol=1e-6)
    assert [a.dtype.str for a in (part.p_m, part.triangles, part.colour)] == ["<f4", "<u4", "|u1"]


def test_neighbours_still_meet_without_gaps() -> None:
    """Edges that two triangles share are shared by two pieces each; the rim's by one."""
    part = refined(Asset.of("a", [strip()]), 0.7).nodes[0].primitives[0]
    edges = np.sort(
        np.stack((part.triangles, part.triangles[:, (1, 2, 0)]), axis=-1).reshape(-1, 2), axis=1
    )
    _, shared = np.unique(edges, axis=0, return_counts=True)
    assert shared.max() == 2
    # Every piece of the rim lies on the rim of the whole: its length is unchanged.
    rim = strip()
    whole = np.sort(
        np.stack((rim.triangles, rim.triangles[:, (1, 2, 0)]), axis=-1).reshape(-1, 2), axis=1
    )
    long, times = np.unique(whole, axis=0, return_counts=True)
    lone = np.unique(edges, axis=0)[shared == 1]
    ends, pieces = rim.p_m.astype(float)[long[times == 1]], part.p_m.astype(float)[lone]
    assert np.linalg.norm(np.diff(pieces, axis=1), axis=-1).sum() == pytest.approx(
        np.linalg.norm(np.diff(ends, axis=1), axis=-1).sum(), abs=1e-4
    )


def test_scale_counts_and_small_or_bound_parts_stay() -> None:
    asset = Asset.of("a", [strip()])
    half = refined(asset, 1.0, np.diag([0.5, 0.5, 0.5, 1.0]))
    assert np.array_equal(
        half.nodes[0].primitives[0].p_m, refined(asset, 2.0).nodes[0].primitives[0].p_m
    )
    assert len(refined(asset, 20.0).nodes[0].primitives[0].triangles) == 6
    huge = refined(asset, 1.0, np.diag([1e4, 1e4, 1e4, 1.0]))
    assert len(huge.nodes[0].primitives[0].triangles) < 100_000


def test_scene_files_cut_models_that_stand_still(tmp_path: Path) -> None:
    (tmp_path / "hall.obj").write_text("v 0 0 0\nv 8 0 0\nv 8 6 0\nv 0 6 0\nf 1 2 3 4\n")
    still, moving = read(
        tmp_path,
        "scene: s\nobjects:\n  - {name: still, file: hall.obj}\n  - {name: moving, file: "
        "hall.obj, movable: true}\n",
    ).objects
    assert len(moving.asset.nodes[0].primitives[0].triangles) == 2
    p = still.asset.nodes[0].primitives[0].p_m
    assert (
        len(p) > 60 and p.min(axis=0).tolist() == [0, 0, 0] and p.max(axis=0).tolist() == [8, 6, 0]
    )


@pytest.mark.gl
def test_a_lamp_reaches_the_middle_of_a_large_floor() -> None:
    renderers = Renderers()
    floor = Primitive(
        np.array([[-8, -8, 0], [8, -8, 0], [8, 8, 0], [-8, 8, 0]], np.float32),
        np.tile(np.array([[0, 0, 1]], np.float32), (4, 1)),
        np.zeros((4, 2), np.float32),
        np.array([[0, 1, 2], [0, 2, 3]], np.uint32),
        Material(base_colour=(0.5, 0.5, 0.5, 1.0)),
    )
    lamp = Lamp("lamp", np.array([0.0, 0.0, 2.0]), np.full(3, 2.0))
    scene = scene_of(thing("floor", floor), ambient=0.05, lamps=(lamp,))
    lit = replace(
        scene, objects=(replace(scene.objects[0], asset=refined(scene.objects[0].asset, 0.5)),)
    )
    below = at((0, 0, 1.0), turn((1, 0, 0), 180.0))
    dark, bright = (
        float(
            shot(renderers.of(s, "medium"), camera(size=(64, 48)), T_world_camera=below)[24, 32, 0]
        )
        for s in (scene, lit)
    )
    renderers.close()
    assert dark < 80 < 120 < bright
