"""Rays against planes, boxes, spheres, capsules: closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.geometry_scenes import (
    box,
    box_primitive,
    floor,
    floor_asset,
    human,
    place,
    posed,
    primitive,
    scene_of,
    sphere_primitive,
    thing,
)
from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform, q_exp, q_to_matrix
from vil_renderer.embedded.assets.model import Asset, Node
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.geometry.surfaces import TriangleSurface
from vil_renderer.embedded.optional_imports import load_native


def unit(v: np.ndarray) -> np.ndarray:
    of_length_1: np.ndarray = v / np.linalg.norm(v, axis=-1, keepdims=True)
    return of_length_1


def test_tilted_plane() -> None:
    rotation = q_to_matrix(q_exp(np.array([0.4, -0.3, 0.2])))
    world = RayWorld(
        scene_of(thing("plane", floor_asset(50.0), place((0.0, 0.0, 1.0), rotation), semantic=4))
    )
    rng = np.random.default_rng(1)
    o = rng.uniform(-2.0, 2.0, (500, 3)) + np.array([0.0, 0.0, 8.0])
    d = unit(rng.normal(size=(500, 3)) * 0.5 + (0.0, 0.0, -1.0))
    n = rotation[:, 2]
    expected = ((np.array([0.0, 0.0, 1.0]) - o) @ n) / (d @ n)
    hits = world.cast(o, d)
    on = np.flatnonzero((expected > 0.0) & (expected < 30.0))
    assert len(on) > 300
    np.testing.assert_allclose(hits.distance_m[on], expected[on], rtol=1e-5)
    np.testing.assert_allclose(hits.normal_world[on], np.tile(n, (len(on), 1)), atol=1e-5)
    assert set(hits.semantic[on]) == {4}


def test_sphere_within_its_tessellation_and_smooth_normals() -> None:
    world = RayWorld(
        scene_of(thing("ball", Asset.of("ball", [sphere_primitive(1.0)]), place((3.0, 0.0, 0.0)))),
        drawn=True,
    )
    rng = np.random.default_rng(2)
    o = np.tile((0.0, 0.0, 0.0), (400, 1))
    aim = np.array([3.0, 0.0, 0.0]) + rng.uniform(-0.5, 0.5, (400, 3))
    d = unit(aim)
    b = d @ np.array([3.0, 0.0, 0.0])
    expected = b - np.sqrt(b * b - 8.0)
    hits = world.cast(o, d, smooth=True)
    sagitta = 1.0 - np.cos(np.pi / 48)
    assert np.all(hits.distance_m - expected > -1e-5)
    assert np.all(hits.distance_m - expected < 2.0 * sagitta)
    true_normal = expected[:, None] * d - (3.0, 0.0, 0.0)
    assert (
        np.degrees(np.arccos(np.clip((hits.normal_world * true_normal).sum(1), -1, 1))).max() < 0.2
    )
    flat = world.cast(o, d)
    assert (
        np.degrees(np.arccos(np.clip((flat.normal_world * true_normal).sum(1), -1, 1))).max() > 0.5
    )


def test_normals_face_the_ray_on_both_sides() -> None:
    world = RayWorld(scene_of(floor()))
    hits = world.cast(np.array([[0, 0, 2.0], [0, 0, -2.0]]), np.array([[0, 0, -1.0], [0, 0, 1.0]]))
    np.testing.assert_allclose(hits.normal_world, [[0, 0, 1], [0, 0, -1]], atol=1e-7)


def test_misses_say_nothing_and_far_ends_the_ray() -> None:
    world = RayWorld(scene_of(floor()))
    hits = world.cast(
        np.array([[0, 0, 2.0], [0, 0, 2.0]]), np.array([[0, 0, 1.0], [0, 0, -1.0]]), 1.5
    )
    assert np.isinf(hits.distance_m).all()
    assert hits.owner.tolist() == hits.part.tolist() == [-1, -1]
    assert not hits.semantic.any()
    assert not hits.instance.any()
    assert not hits.normal_world.any()


def test_distance_counts_in_lengths_of_the_direction() -> None:
    world = RayWorld(scene_of(floor()))
    hits = world.cast(np.array([[0, 0, 6.0]]), np.array([[1.0, 0.0, -2.0]]), 3.5)
    np.testing.assert_allclose(hits.distance_m, [3.0], rtol=1e-6)


def test_ids_names_and_solidity() -> None:
    scene = scene_of(
        floor(), box("crate", (1, 1, 1), (0, 0, 1)), box("ghost", (1, 1, 1), (5, 0, 1), solid=False)
    )
    down, o = np.tile((0, 0, -1.0), (2, 1)), np.array([[0.2, 0.1, 5], [5.2, 0.1, 5]])
    hits, drawn = RayWorld(scene).cast(o, down), RayWorld(scene, drawn=True).cast(o, down)
    np.testing.assert_allclose(hits.distance_m, [3, 5], rtol=1e-6)
    assert [RayWorld(scene).names[i] for i in hits.owner] == ["crate", "floor"]
    assert (hits.semantic.tolist(), hits.instance.tolist()) == ([6, 1], [20, 10])
    np.testing.assert_allclose(drawn.distance_m, [3, 3], rtol=1e-6)


def test_movable_object_rests_until_its_actor_comes() -> None:
    asset = Asset.of("gate", [box_primitive((1, 1, 1))])
    scene = scene_of(
        floor(), thing("gate", asset, place((0, 0, 1)), semantic=9, instance=30, movable=True)
    )
    world = RayWorld(scene)
    o, down = np.array([[0, 0, 5.0], [4, 0, 5.0]]), np.tile((0, 0, -1.0), (2, 1))
    np.testing.assert_allclose(world.cast(o, down).distance_m, [3, 5], rtol=1e-6)
    world.update([posed("gate", asset, Transform.of((4, 0, 1)))])
    moved = world.cast(o, down)
    np.testing.assert_allclose(moved.distance_m, [5, 3], rtol=1e-6)
    assert moved.instance.tolist() == [10, 77]
    np.testing.assert_allclose(
        world.cast(o, down, hide=frozenset({"gate"})).distance_m, [5, 5], rtol=1e-6
    )
    world.update(())
    np.testing.assert_allclose(world.cast(o, down).distance_m, [3, 5], rtol=1e-6)


def test_nodes_turn_and_scale_on_their_own() -> None:
    """A body and an arm whose node is turned, moved and stretched.

    Hits and normals in closed form.
    """
    arm = Node("arm", parent=0, primitives=(box_primitive((1, 0.1, 0.1)),))
    asset = Asset("vehicle", (Node("body", primitives=(box_primitive((0.2, 0.2, 0.2)),)), arm))
    turned = q_to_matrix(q_exp(np.array([0, 0, 0.5 * np.pi])))
    m = np.stack((place((0, 0, 2)), place((0, 0, 3), turned @ np.diag((1, 2, 3)))))
    world = RayWorld(scene_of(floor()))
    actor = posed("v", asset, Transform.identity())
    world.update([type(actor)("v", asset, m, 41, 77, Transform.identity(), (1, 1, 1))])
    o = np.array([[0, 0.9, 9], [0.9, 0, 9], [5, 0.3, 3]])
    d = np.array([[0, 0, -1.0], [0, 0, -1.0], [-1.0, 0, 0]])
    hits = world.cast(o, d)
    np.testing.assert_allclose(hits.distance_m, [9 - 3.3, 9.0, 5 - 0.2], rtol=1e-6)
    np.testing.assert_allclose(hits.normal_world, [[0, 0, 1], [0, 0, 1], [1, 0, 0]], atol=1e-6)
    assert [world.parts[i].node for i in hits.part] == [1, -1, 1]


@pytest.mark.parametrize("radii", [(0.2, 0.2), (0.3, 0.1), (0.1, 0.3), (0.6, 0.05)])
def test_capsules_by_marching_along_their_distance(radii: tuple[float, float]) -> None:
    """The closed form agrees with sphere tracing of the distance to the union of all spheres."""
    a, b = np.array([0.0, 0.0, 0.5]), np.array([0.3, 0.2, 1.0])
    world = RayWorld(scene_of())
    world.update([human("h", [*a, *b, *radii])])
    rng = np.random.default_rng(3)
    o = 3.0 * unit(rng.normal(size=(120, 3))) + (0, 0, 0.7)
    d = unit(np.array([0.1, 0.1, 0.7]) + rng.uniform(-0.6, 0.6, (120, 3)) - o)
    s = np.linspace(0.0, 1.0, 401)
    centres, radius = a + s[:, None] * (b - a), radii[0] + s * (radii[1] - radii[0])
    t = np.zeros(120)
    for _ in range(40):
        gap = (np.linalg.norm((o + t[:, None] * d)[:, None] - centres, axis=2) - radius).min(axis=1)
        t += gap
    struck = gap < 1e-5
    assert 25 < struck.sum() < 118
    hits = world.cast(o, d)
    clear = struck | (gap > 0.02)
    assert np.array_equal(np.isfinite(hits.distance_m)[clear], struck[clear])
    np.testing.assert_allclose(hits.distance_m[struck], t[struck], atol=2e-3)
    p = o[struck] + hits.distance_m[struck, None] * d[struck]
    nearest = (np.linalg.norm(p[:, None] - centres, axis=2) - radius).argmin(axis=1)
    assert ((hits.normal_world[struck] * unit(p - centres[nearest])).sum(1)).min() > 0.9999


def test_a_ray_from_within_a_capsule_leaves_it() -> None:
    world = RayWorld(scene_of(floor()))
    world.update([human("h", [0, 0, 1, 0, 0, 2, 0.3, 0.2])])
    hits = world.cast(np.array([[0.1, 0, 1.5]]), np.array([[0.0, 0, -1]]))
    assert hits.semantic.tolist() == [1]


def test_occlusion_and_who_is_hidden() -> None:
    asset = Asset.of("v", [box_primitive((0.5, 0.5, 0.5))])
    world = RayWorld(scene_of(floor()))
    world.update(
        [posed("v", asset, Transform.of((0, 0, 2))), human("h", [4, 0, 1, 4, 0, 2, 0.2, 0.2])]
    )
    o = np.array([[-3, 0, 2], [-3, 2, 2], [3, 0, 1.5], [0, 0, 1.0], [6, 6, 0.0]])
    to = np.array([[3, 0, 2], [3, 2, 2], [5, 0, 1.5], [0, 0, -1.0], [6, 6, 3.0]])
    assert world.occluded(o, to).tolist() == [True, False, True, True, False]
    assert world.occluded(o, to, frozenset({"v", "h"})).tolist() == [
        False,
        False,
        False,
        True,
        False,
    ]


def test_an_empty_scene_is_hit_nowhere() -> None:
    world = RayWorld(scene_of())
    o, d = np.zeros((3, 3)), np.eye(3)
    assert np.isinf(world.cast(o, d).distance_m).all()
    assert not world.occluded(o, d).any()


def test_a_mirrored_object_has_its_outside_outside() -> None:
    world = RayWorld(
        scene_of(
            thing("b", Asset.of("b", [box_primitive((1, 1, 1))]), np.diag([-1.0, 1.0, 1.0, 1.0]))
        ),
        drawn=True,
    )
    hits = world.cast(np.array([[5.0, 0.2, 0.1]]), np.array([[-1.0, 0, 0]]), smooth=True)
    np.testing.assert_allclose(hits.normal_world, [[1, 0, 0]], atol=1e-6)


def test_degenerate_triangles_are_harmless() -> None:
    flat = primitive([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]])
    hits = RayWorld(scene_of(thing("t", Asset.of("t", [flat])))).cast(
        np.array([[0.4, 0.2, 1]]), np.array([[0, 0, -1.0]])
    )
    np.testing.assert_allclose(hits.distance_m, [1.0])


def test_missing_package_is_told_with_its_extra() -> None:
    with pytest.raises(
        RendererError, match=r"rays need the package embreex of the extra gl .*no wheel"
    ):
        load_native("embreex_that_is_not_there", "embreex", "rays")


def test_parts_are_those_of_each_model_with_a_ball_around_them() -> None:
    pair = Asset(
        "pair",
        (Node("a", primitives=(box_primitive((0.2, 0.3, 0.4)),)), Node("b", 0, p=np.ones(3))),
    )
    pair = replace(
        pair, nodes=(pair.nodes[0], replace(pair.nodes[1], primitives=(sphere_primitive(0.5, 8),)))
    )
    crate = box("crate", (1, 1, 1), (0, 0, 0), movable=True, collider="box")
    ghost = box("ghost", (1, 1, 1), (0, 0, 0), movable=True, solid=False)
    world = RayWorld(scene_of(floor(), crate, ghost, thing("door", pair, movable=True)))
    rng = np.random.default_rng(7)
    spread = [
        posed(f"p{i}", pair, Transform.of(rng.normal(size=3), q_exp(rng.normal(size=3))))
        for i in range(3)
    ]
    driven = [
        posed("ghost", ghost.asset, Transform.identity()),
        posed("crate", crate.asset, Transform.of((5, 5, 5))),
    ]
    world.update([*driven, *spread, human("h", [0, 0, 1, 0, 0, 2, 0.2, 0.2])])
    parts = world.parts
    assert sorted((part.name, part.node) for part in parts) == sorted(
        [
            ("", -1),
            ("crate", -1),
            ("h", -1),
            *((name, node) for name in ("door", "p0", "p1", "p2") for node in (0, 1)),
        ]
    )
    assert parts[0].owner == -1
    assert parts[-1] is parts[len(parts) - 1]
    for part in parts[1:]:
        assert world.names[part.owner] == part.name
        if isinstance(part.shape, TriangleSurface):
            corners = part.shape.p_m @ part.world_from_part[:3, :3].T + part.world_from_part[:3, 3]
            away = np.linalg.norm(corners - part.centre, axis=1)
            assert 0.7 * part.radius < away.max() < part.radius + 1e-9
    with pytest.raises(IndexError):
        parts[len(parts)]
