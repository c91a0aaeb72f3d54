"""Coarser meshes: what they keep, when they are drawn, and how little of the picture changes."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest

from tests.support.embedded import looking, person
from tests.support.geometry_scenes import box_primitive, sphere_primitive
from tests.support.render import AHEAD, Renderers, camera, everybody, moved, scene_of, shots, thing
from vil_bridge.core.types import ActorKind, ImageArray, Modality
from vil_renderer.embedded.actors.prefabs import built_in
from vil_renderer.embedded.assets.lod import simplified
from vil_renderer.embedded.assets.model import Asset, Node, Primitive
from vil_renderer.embedded.engine.detail import (
    CLOSEST,
    DetailMemory,
    ViewPoints,
    details_of,
    extent_of,
    simpler,
)
from vil_renderer.embedded.engine.profiles import PROFILES
from vil_renderer.embedded.scene import SceneObject

BALL = sphere_primitive(0.5, 96)
LIMITS_PX = (40.0, 10.0)


def _human() -> Asset:
    known, prefab = built_in("", ActorKind.HUMAN)
    assert known or prefab is not None
    return prefab.asset


def _skin() -> Primitive:
    return next(p for n in _human().nodes for p in n.primitives if p.joints is not None)


def test_a_simplified_ball_is_a_ball_of_fewer_triangles() -> None:
    made = simplified(BALL, 0.05)
    assert len(made.triangles) < len(BALL.triangles) / 6
    assert made.material is BALL.material
    # Its vertices are vertices of the ball, each with the place and the normal of its
    # neighbourhood.
    assert np.abs(np.linalg.norm(made.p_m, axis=1) - 0.5).max() < 1e-6
    used = np.unique(made.triangles)
    assert np.linalg.norm(made.p_m[used] - 0.5 * made.normal[used], axis=1).max() <= 0.05 * np.sqrt(
        3
    )
    # Closed, without a hole: each edge is there both ways. Where normals differ, vertices share one
    # place.
    _, place = np.unique(made.p_m, axis=0, return_inverse=True)
    corners = place.reshape(-1)[made.triangles]
    edges = {
        (int(a), int(b)) for t in corners for a, b in ((t[0], t[1]), (t[1], t[2]), (t[2], t[0]))
    }
    assert all((b, a) in edges for a, b in edges)
    assert _volume(made) == pytest.approx(4 / 3 * np.pi * 0.5**3, rel=0.03)


def _volume(part: Primitive) -> float:
    a, b, c = (part.p_m[part.triangles[:, i]].astype(float) for i in range(3))
    return float(np.einsum("ni,ni->n", a, np.cross(b, c)).sum() / 6.0)


def test_a_box_keeps_its_sides_however_coarse() -> None:
    box = box_primitive((0.5, 0.4, 0.3))
    made = simplified(box, 0.2)
    assert len(made.triangles) == 12
    assert _volume(made) == pytest.approx(0.5 * 0.4 * 0.3 * 8)
    a, b, c = (made.p_m[made.triangles[:, i]] for i in range(3))
    flat = np.cross(b - a, c - a)
    flat /= np.linalg.norm(flat, axis=1, keepdims=True)
    assert np.allclose(made.normal[made.triangles], flat[:, None], atol=1e-6)


def test_what_hangs_on_different_joints_is_never_merged() -> None:
    skin = _skin()
    made = simplified(skin, 0.3)
    assert made.joints is not None
    assert made.weights is not None
    assert skin.joints is not None
    assert skin.weights is not None
    assert len(made.triangles) < len(skin.triangles) / 4
    assert np.allclose(made.weights.sum(axis=1), 1.0, atol=1e-5)
    originals = {
        row.tobytes()
        for row in np.column_stack((skin.p_m, skin.joints, skin.weights)).astype(np.float64)
    }
    assert all(
        r.tobytes() in originals
        for r in np.column_stack((made.p_m, made.joints, made.weights)).astype(np.float64)
    )


def test_nothing_is_simplified_to_nothing() -> None:
    empty = replace(BALL, triangles=BALL.triangles[:0])
    assert simplified(empty, 0.1) is empty
    assert len(simplified(BALL, 10.0).triangles) < 20


def test_detail_follows_the_size_in_the_picture() -> None:
    asset, m = Asset.of("ball", [BALL]), np.eye(4)
    extent = extent_of(asset)
    radius_m = 0.5 * np.sqrt(3)  # of the box around it
    assert extent.radius == pytest.approx(radius_m, rel=1e-3)
    for scale in (1.0, 3.0):
        m[:3, :3] = scale * np.eye(3)
        for radius_px, level in ((41.0, 0), (39.0, 1), (10.5, 1), (9.5, 2), (0.5, 2)):
            m[2, 3] = 300.0 * scale * radius_m / radius_px + scale * radius_m
            placed = (m @ asset.asset_from_node())[None]
            views = ViewPoints(np.zeros((2, 3)), np.array([300.0, 30000.0]), np.zeros((2, 3)))
            assert details_of(placed, extent, views, LIMITS_PX).tolist() == [[level], [0]], (
                "each view has its own"
            )
            assert details_of(placed, extent, CLOSEST, LIMITS_PX).tolist() == [[0]]


def test_levels_change_once_where_the_size_goes_to_and_fro() -> None:
    asset, extent = Asset.of("ball", [BALL]), extent_of(Asset.of("ball", [BALL]))

    def level(radius_px: float, before: int) -> int:
        m = np.eye(4)
        m[2, 3] = extent.radius * (1.0 + 300.0 / radius_px)
        views = ViewPoints(np.zeros((1, 3)), np.array([300.0]), np.zeros((1, 3)))
        found = details_of(
            (m @ asset.asset_from_node())[None], extent, views, LIMITS_PX, np.array([[before]])
        )
        return int(found[0, 0])

    # Never coarser than is right for the size, and finer only until it is smaller by a seventh.
    for radius_px, before, after in (
        (39.0, -1, 1), (39.0, 0, 0), (35.0, 0, 0), (34.5, 0, 1), (39.0, 1, 1), (40.5, 1, 0),
        (9.5, 1, 1), (8.6, 1, 2), (8.6, 0, 2), (10.5, 2, 1), (300.0, 2, 0), (39.0, 9, 1),
    ):  # fmt: skip
        assert level(radius_px, before) == after, (radius_px, before)
    drawn, changes = -1, 0
    for step in range(200):
        found = level(40.0 + 2.0 * np.sin(0.7 * step), drawn)
        changes += step > 0 and found != drawn
        drawn = found
    assert changes <= 1


def test_each_camera_remembers_its_own_levels() -> None:
    asset, other, memory = Asset.of("ball", [BALL]), Asset.of("other", [BALL]), DetailMemory()
    memory.record("left", asset, ("a", "b"), np.array([1, 2]))
    memory.record("right", asset, ("a",), np.array([0]))
    assert memory.of("left", asset, ("b", "a", "new")) == (2, 1, -1)
    assert memory.of("right", asset, ("a", "b")) == (0, -1)
    assert memory.of("left", other, ("a",)) == (-1,)
    memory.record("left", asset, ("b",), np.array([0]))
    assert memory.of("left", asset, ("a", "b")) == (-1, 0), "models that are gone are forgotten"


def test_a_node_of_another_scale_gets_cells_of_its_own_size() -> None:
    small = Asset(
        "small",
        (
            Node("root"),
            Node("ball", 0, scale=np.full(3, 0.01), primitives=(simplified(BALL, 1e-6),)),
        ),
    )
    large = Asset.of("ball", [BALL])
    (one,) = simpler(large, extent_of(large), 1, 40.0).nodes[0].primitives
    (other,) = simpler(small, extent_of(small), 1, 40.0).nodes[1].primitives
    assert len(other.triangles) == pytest.approx(len(one.triangles), rel=0.1)


# --- in the picture ----------------------------------------------------------------------------

SCENE = scene_of(thing("ball", BALL, instance=5, movable=True))
ASKED = (Modality.INSTANCE, Modality.DEPTH32)


def _near_edge(ids: ImageArray) -> ImageArray:
    kernel = np.ones((3, 3), np.uint8)
    there = (ids > 0).astype(np.uint8)
    near: ImageArray = cv2.dilate(there, kernel) != cv2.erode(there, kernel)
    return near


@pytest.mark.gl
@pytest.mark.parametrize("distance_m", [9.0, 25.0])
def test_a_far_ball_looks_the_same_but_for_a_pixel_at_its_edge(
    renderers: Renderers, distance_m: float
) -> None:
    model = camera(size=(640, 480))
    asked = everybody(moved("ball", (0.4, -0.3, distance_m)))
    (ids, depth), (full_ids, full_depth) = (
        tuple(i.pixels for i in shots(renderers.of(SCENE, profile), model, ASKED, AHEAD, asked))
        for profile in ("low", "ultra")
    )
    assert PROFILES["ultra"].lod_px == 0.0
    differs = ids != full_ids
    assert not np.array_equal(depth, full_depth), "the coarse ball was not drawn"
    assert not (differs & ~_near_edge(full_ids)).any()
    inside = (ids == 5) & (full_ids == 5) & ~_near_edge(full_ids)
    # Less than two pixels are wide.
    assert np.abs(depth - full_depth)[inside].max() < 2.0 * distance_m / model.f_px


@pytest.mark.gl
def test_a_near_ball_is_drawn_in_full(renderers: Renderers) -> None:
    asked = everybody(moved("ball", (0.4, -0.3, 3.0)))
    near, full = (
        shots(renderers.of(SCENE, p), camera(size=(640, 480)), ASKED, AHEAD, asked)
        for p in ("low", "ultra")
    )
    for one, other in zip(near, full, strict=True):
        assert np.array_equal(one.pixels, other.pixels)


@pytest.mark.gl
@pytest.mark.parametrize("distance_m", [1.2, 2.4, 4.0, 7.0])
def test_a_human_looks_the_same_at_every_level(renderers: Renderers, distance_m: float) -> None:
    model, pose = camera(size=(640, 480)), looking((-distance_m, 0.0, 1.2))
    asked, modalities = (
        everybody(person("p", (0.0, 0.0, 0.0))),
        (Modality.RGB, Modality.INSTANCE, Modality.DEPTH32),
    )
    (rgb, ids, depth), (full_rgb, full_ids, full_depth) = (
        tuple(i.pixels for i in shots(renderers.of(SCENE, p), model, modalities, pose, asked))
        for p in (
            replace(PROFILES["low"], name=f"lod{lod_px}", lod_px=lod_px) for lod_px in (40.0, 0.0)
        )
    )
    human = full_ids >= 32768
    assert human.sum() > 1000
    if distance_m < 1.5:
        assert np.array_equal(rgb, full_rgb)
        assert np.array_equal(depth, full_depth)
        return
    assert not np.array_equal(depth, full_depth), "the simpler human was not drawn"
    differs = (ids >= 32768) != human
    assert not (differs & ~_near_edge(full_ids)).any()
    assert differs.sum() < 0.04 * human.sum()
    inside = human & ~_near_edge(full_ids)
    assert np.abs(rgb.astype(float) - full_rgb)[inside].mean() < 4.0
    # A pixel, but where an arm hangs before the trunk and its outline is another by a fraction of
    # one.
    assert (np.abs(depth - full_depth)[inside] < distance_m / model.f_px).mean() > 0.97


@pytest.mark.gl
def test_a_far_human_keeps_its_outline(renderers: Renderers) -> None:
    scene = scene_of(SceneObject("ball", Asset.of("ball", [BALL]), np.eye(4), 6, 5, movable=True))
    model, pose = camera(size=(640, 480)), looking((-14.0, 0.0, 1.2))
    asked = everybody(person("p", (0.0, 0.0, 0.0)), moved("ball", (-30.0, 0.0, 0.0)))
    ids, full = (
        shots(renderers.of(scene, p), model, ASKED, pose, asked)[0].pixels for p in ("low", "ultra")
    )
    assert full.max() >= 32768
    assert (full > 0).sum() > 300
    differs = (ids > 0) != (full > 0)
    assert differs.any(), "the coarse human was not drawn"
    assert (differs & ~_near_edge(full)).sum() <= 0.02 * (full > 0).sum()
    assert (ids > 0).sum() == pytest.approx((full > 0).sum(), rel=0.1)
