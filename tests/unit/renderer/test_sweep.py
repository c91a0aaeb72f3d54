"""Contacts of moving spheres against closed forms, and the solid parts of a scene."""

from __future__ import annotations

import gc
import math
import os

import msgspec
import numpy as np
import pytest

from tests.support.geometry_scenes import box, floor, scene_of
from tests.support.harness import rss_mb
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.solid_world import SceneEdit
from vil_renderer.embedded.geometry.separation import closest_on_triangles
from vil_renderer.embedded.geometry.sweep import Impact, first_impact, reference_impact
from vil_renderer.embedded.solid_world import SceneSolids

TRIANGLE = np.array([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])


def passes(start: list[float], way: list[float], radius_m: float = 0.1) -> Impact | None:
    """The answer of both implementations."""
    found, reference = (
        f(np.array(start), np.array(way), radius_m, TRIANGLE)
        for f in (first_impact, reference_impact)
    )
    assert_same(found, reference)
    return found


def impact(start: list[float], way: list[float], radius_m: float = 0.1) -> Impact:
    found = passes(start, way, radius_m)
    assert found is not None
    return found


def assert_same(found: Impact | None, reference: Impact | None) -> None:
    assert (found is None) == (reference is None)
    if found is not None and reference is not None:
        assert found.share == pytest.approx(reference.share, abs=1e-9)
        assert found.p_m == pytest.approx(reference.p_m, abs=1e-7)
        assert found.normal == pytest.approx(reference.normal, abs=1e-6)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_sphere_meets_both_sides_of_a_face(side: float) -> None:
    found = impact([0.2, 0.2, side * 1.1], [0.1, 0.0, -side * 2.0])
    assert found.share == pytest.approx(0.5)
    assert found.p_m == pytest.approx([0.25, 0.2, 0.0])
    assert found.normal == pytest.approx([0.0, 0.0, side])


def test_a_sphere_meets_an_edge_and_a_corner() -> None:
    edge = impact([0.5, -0.06, 1.0], [0.0, 0.0, -2.0])
    assert edge.share == pytest.approx((1.0 - 0.08) / 2.0)
    assert edge.p_m == pytest.approx([0.5, 0.0, 0.0], abs=1e-9)
    assert edge.normal == pytest.approx([0.0, -0.6, 0.8])
    corner = impact([-1.0, -1.0, 0.0], [2.0, 2.0, 0.0])
    assert corner.share == pytest.approx((math.sqrt(2.0) - 0.1) / math.sqrt(8.0))
    assert corner.normal == pytest.approx([-math.sqrt(0.5), -math.sqrt(0.5), 0.0])


@pytest.mark.parametrize(
    ("start", "way"),
    [
        ([0.2, 0.2, 0.5], [0.0, 0.0, -0.39]),  # too short
        ([0.2, 0.2, 0.5], [0.3, 0.0, 0.1]),  # away
        ([0.2, 0.2, 0.1], [0.2, 0.0, 0.0]),  # touches and slides
        ([0.2, 0.2, 0.05], [0.1, 0.0, 0.2]),  # overlaps and leaves
        ([0.5, -0.11, 1.0], [0.0, 0.0, -2.0]),  # passes
    ],
)
def test_a_sphere_passes(start: list[float], way: list[float]) -> None:
    assert passes(start, way) is None


def test_a_sphere_that_touches_or_overlaps_is_stopped_only_on_its_way_in() -> None:
    for height in (0.1, 0.04):
        found = impact([0.2, 0.2, height], [0.3, 0.0, -0.01])
        assert found.share == 0.0
        assert found.normal == pytest.approx([0.0, 0.0, 1.0])
    centred = impact([0.2, 0.2, 0.0], [0.0, 0.0, -0.5])
    assert centred.normal == pytest.approx([0.0, 0.0, 1.0])


def test_no_way_among_many_triangles_ends_inside_one() -> None:
    rng = np.random.default_rng(3)
    corners = rng.uniform(-1.0, 1.0, (30, 1, 3)) + rng.normal(scale=0.2, size=(30, 3, 3))
    hits = 0
    for _ in range(300):
        start, way = rng.uniform(-1.5, 1.5, 3), rng.normal(size=3)
        if _gap(start, corners) < 0.1:
            continue
        found = first_impact(start, way, 0.1, corners)
        assert_same(found, reference_impact(start, way, 0.1, corners))
        share = 1.0 if found is None else found.share
        assert _gap(start + np.linspace(0.0, share, 30)[:, None] * way, corners) > 0.1 - 1e-9
        if found is not None:
            hits += 1
            assert _gap(start + share * way, corners) == pytest.approx(0.1, abs=1e-9)
            assert start + share * way - 0.1 * found.normal == pytest.approx(found.p_m, abs=1e-9)
    assert hits > 30


def _gap(places: FloatArray, corners: FloatArray) -> float:
    """The least distance of triangles from any of the places, (3,) or (n, 3)."""
    around = corners - places.reshape(-1, 1, 1, 3)
    return float(
        np.linalg.norm(closest_on_triangles(np.zeros(3), around.reshape(-1, 3, 3)), axis=1).min()
    )


def test_the_solids_of_a_scene_answer_how_far_and_where() -> None:
    scene = scene_of(floor(), box("crate", (1.0, 2.0, 3.0), (5.0, 0.0, 1.5)))
    whole, without_floor = SceneSolids(scene, None), SceneSolids(scene, 0.0)
    place = np.array([0.0, 0.0, 1.0])
    assert whole.clearance_m(place) == pytest.approx(1.0)
    assert without_floor.clearance_m(place) == pytest.approx(4.0)
    hit = without_floor.first_contact(place, np.array([200.0, 0.0, 1.0]), 0.2)
    assert hit is not None
    assert hit.other == "crate" and hit.share == pytest.approx(3.8 / 200.0)
    assert hit.point_world_m == pytest.approx([4.0, 0.0, 1.0], abs=1e-6)
    assert hit.normal_world == pytest.approx([-1.0, 0.0, 0.0])
    assert without_floor.first_contact(place, np.array([3.79, 0.0, 1.0]), 0.2) is None
    assert SceneSolids(scene_of(floor()), 0.0).clearance_m(place) == math.inf
    assert SceneSolids(scene_of(floor()), 0.0).first_contact(place, -place, 0.2) is None


def test_a_spawned_object_that_is_gone_leaves_nothing_behind() -> None:
    solids = SceneSolids(scene_of(floor()), None)
    place, free_m = np.array([0.0, 0.0, 5.0]), 5.0

    def searched() -> int:
        gc.collect()
        return sum(type(found).__name__ == "_Surfaces" for found in gc.get_objects())

    before = searched()
    for number in range(20):
        there = SceneEdit(
            f"box{number}", "Cube", (0.0, 0.0, 3.0), (0.0, 0.0, 0.0, 1.0), (1.0, 1.0, 1.0)
        )
        solids.edit(there)
        assert solids.clearance_m(place) < 2.0
        solids.edit(msgspec.structs.replace(there, gone=True))
        assert solids.clearance_m(place) == pytest.approx(free_m, abs=1e-3)
    assert searched() == before


@pytest.mark.parametrize("floor_m", [None, 0.0])
def test_a_moved_object_is_where_one_that_was_built_there_is(floor_m: float | None) -> None:
    rng = np.random.default_rng(3)
    moved, scene = SceneSolids(scene_of(floor()), floor_m), scene_of(floor())
    heights = [3.0, 4.0, 0.5, 0.5, 2.0]  # a cube at 0.5 stands on the floor
    for height in heights:
        q = rng.normal(size=4)
        q = np.array([0.0, 0.0, 0.0, 1.0]) if height == 0.5 else q / np.linalg.norm(q)
        place = (float(rng.uniform(-1, 1)), float(rng.uniform(-1, 1)), height)
        edit = SceneEdit("thing", "Cube", place, (q[0], q[1], q[2], q[3]), (1.0, 1.0, 1.0))
        moved.edit(edit)
        built = SceneSolids(scene, floor_m)
        built.edit(edit)
        for p_m in rng.uniform((-2.0, -2.0, 0.1), (2.0, 2.0, 5.0), (40, 3)):
            goal = rng.uniform(-2.0, 2.0, 3)
            assert moved.clearance_m(p_m) == pytest.approx(built.clearance_m(p_m), abs=1e-9)
            found, wanted = (solids.first_contact(p_m, goal, 0.1) for solids in (moved, built))
            assert (found is None) == (wanted is None)
            if found is not None and wanted is not None:
                assert found.share == pytest.approx(wanted.share, abs=1e-9)
                assert found.normal_world == pytest.approx(wanted.normal_world, abs=1e-6)


def test_questions_leave_no_memory_behind() -> None:
    solids = SceneSolids(scene_of(box("wall", (0.0, 0.0, 1.0), (1.0, 1.0, 1.0))), None)
    places = np.random.default_rng(5).uniform(-3.0, 3.0, (60_000, 3))
    for p_m in places[:2000]:
        solids.clearance_m(p_m)
    before_mb = rss_mb(os.getpid())
    for p_m in places:
        solids.clearance_m(p_m)
    assert rss_mb(os.getpid()) - before_mb < 1.0
