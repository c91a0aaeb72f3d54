"""Contacts against closed forms."""

from __future__ import annotations

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
    scene_of,
    thing,
)
from vil_bridge.core.geometry import Transform, q_exp, q_to_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.geometry.collision import CollisionWorld, Overlap, box_at
from vil_renderer.embedded.geometry.separation import OrientedBox, Sphere, closest_on_triangles
from vil_renderer.embedded.scene import SceneObject

DIAGONAL = q_exp(np.array([np.arctan(np.sqrt(2.0)), 0, 0])), q_exp(np.array([0, 0, 0.25 * np.pi]))


def only(contacts: list[Overlap]) -> Overlap:
    assert len(contacts) == 1, contacts
    return contacts[0]


def check(
    contact: Overlap, other: str, depth: float, normal: FloatArray | list[float], p: list[float]
) -> None:
    assert (contact.name, contact.other) == ("v", other)
    assert contact.depth_m == pytest.approx(depth, abs=1e-6)
    np.testing.assert_allclose(contact.normal_world, normal, atol=1e-5)
    np.testing.assert_allclose(contact.p_world_m, p, atol=1e-5)


@pytest.mark.parametrize("cells", [1, 7, 200])
def test_sphere_on_a_floor_however_fine(cells: int) -> None:
    world = CollisionWorld(scene_of(thing("floor", floor_asset(10.0, cells))))
    check(
        only(world.contacts("v", Sphere(np.array([0.31, 0.12, 0.27]), 0.3))),
        "floor",
        0.03,
        [0, 0, 1],
        [0.31, 0.12, 0],
    )
    assert not world.contacts("v", Sphere(np.array([0.31, 0.12, 0.31]), 0.3))


def test_sphere_on_a_tilted_plane() -> None:
    rotation = q_to_matrix(q_exp(np.array([0.5, 0.3, -0.1])))
    n = rotation[:, 2]
    world = CollisionWorld(scene_of(thing("ramp", floor_asset(), place((1, 2, 3), rotation))))
    p = np.array([1.2, 2.2, 3.0])
    p = p - ((p - (1, 2, 3)) @ n) * n
    check(only(world.contacts("v", Sphere(p + 0.35 * n, 0.4))), "ramp", 0.05, n, list(p))
    check(only(world.contacts("v", Sphere(p - 0.35 * n, 0.4))), "ramp", 0.05, -n, list(p))


@pytest.mark.parametrize("cells", [1, 9, 60])
def test_box_flat_on_a_floor_however_fine(cells: int) -> None:
    world = CollisionWorld(scene_of(thing("floor", floor_asset(10.0, cells))))
    body = Transform.of((0.4, 0.3, 0.09), q_exp(np.array([0, 0, 0.4])))
    check(
        only(world.contacts("v", box_at(body, (0.4, 0.3, 0.1)))),
        "floor",
        0.01,
        [0, 0, 1],
        [0.4, 0.3, 0.0],
    )


def test_box_on_its_corner() -> None:
    """A cube that stands on its corner, 2 cm into the floor."""
    world = CollisionWorld(scene_of(thing("floor", floor_asset(10.0, 9))))
    tilt = Transform.of((0, 0, 0), DIAGONAL[0]) @ Transform.of((0, 0, 0), DIAGONAL[1])
    low = (tilt.rotation() @ np.array(np.meshgrid(*3 * [(-0.5, 0.5)])).reshape(3, -1))[2].min()
    assert low == pytest.approx(-0.5 * np.sqrt(3.0))
    cube = box_at(Transform.of((0.2, 0.1, 0.5 * np.sqrt(3.0) - 0.02), tilt.q_xyzw), (0.5, 0.5, 0.5))
    check(only(world.contacts("v", cube)), "floor", 0.02, [0, 0, 1], [0.2, 0.1, 0.0])


def test_box_in_a_corner_has_two_contacts() -> None:
    wall = box("wall", (0.5, 5, 5), (3.5, 0, 0))
    world = CollisionWorld(scene_of(floor(), wall))
    contacts = world.contacts("v", box_at(Transform.of((2.82, 0, 0.19)), (0.2, 0.2, 0.2)))
    assert {c.other: (round(c.depth_m, 6), c.normal_world.round(5).tolist()) for c in contacts} == {
        "wall": (0.02, [-1, 0, 0]),
        "floor": (0.01, [0, 0, 1]),
    }


def test_box_against_the_side_of_a_table_is_pushed_sideways() -> None:
    """The table's top is cut too, half way up the box: the way out is the short one."""
    world = CollisionWorld(scene_of(box("table", (1, 1, 0.05), (0, 0, 1))))
    contact = only(world.contacts("v", box_at(Transform.of((1.17, 0.1, 1.0)), (0.2, 0.2, 0.3))))
    check(contact, "table", 0.03, [1, 0, 0], [1.0, 0.1, 1.0])


def test_corner_of_an_obstacle_in_the_face_of_a_box() -> None:
    """The face of the vehicle, not that of the obstacle, says the way out."""
    tilt = Transform.of((0, 0, 0), DIAGONAL[0]) @ Transform.of((0, 0, 0), DIAGONAL[1])
    crate = thing(
        "crate", Asset.of("c", [box_primitive((0.5, 0.5, 0.5))]), place((0, 0, 0), tilt.rotation())
    )
    top = 0.5 * np.sqrt(3.0)
    contact = only(
        CollisionWorld(scene_of(crate)).contacts(
            "v", box_at(Transform.of((0, 0, top + 0.19)), (1, 1, 0.2))
        )
    )
    assert contact.depth_m == pytest.approx(0.01, abs=1e-6)
    np.testing.assert_allclose(contact.normal_world, [0, 0, 1], atol=1e-5)


def test_moved_out_along_the_normal_it_only_touches() -> None:
    world = CollisionWorld(scene_of(box("crate", (0.5, 0.7, 0.3), (0, 0, 0))))
    rng = np.random.default_rng(5)
    tried = 0
    for _ in range(60):
        body = Transform.of(rng.uniform(-1, 1, 3), q_exp(rng.normal(size=3)))
        brick = box_at(body, (0.3, 0.2, 0.1))
        contacts = world.contacts("v", brick)
        if len(contacts) != 1 or contacts[0].depth_m > 0.1:
            continue
        tried += 1
        c = contacts[0]
        assert not world.contacts("v", brick.moved((c.depth_m + 1e-5) * c.normal_world))
        assert world.contacts("v", brick.moved((c.depth_m - 1e-3) * c.normal_world))
    assert tried >= 5


def test_vehicles_against_each_other() -> None:
    world = CollisionWorld(scene_of(floor()))
    asset = Asset.of("v", [box_primitive((0.5, 0.5, 0.5))])
    v, w = (
        posed(n, asset, Transform.of((x, 0, 2)), (0.5, 0.5, 0.5))
        for n, x in (("v", 0.0), ("w", 0.9))
    )
    world.update([v, w])
    contact = only(world.contacts("v", box_at(v.T_world_body, v.half_size_m)))
    check(contact, "w", 0.1, [-1, 0, 0], [0.4, 0.0, 2.0])
    ball = only(world.contacts("v", Sphere(np.array([0.2, 0.1, 2.0]), 0.25)))
    check(ball, "w", 0.05, [-1, 0, 0], [0.4, 0.1, 2.0])
    assert not world.contacts("v", Sphere(np.array([0.2, 0.1, 2.0]), 0.25), frozenset({"w"}))


@pytest.mark.parametrize("radii", [(0.2, 0.2), (0.3, 0.1)])
def test_sphere_and_box_against_a_human(radii: tuple[float, float]) -> None:
    """Depths against the distance to the union of all spheres between the ends."""
    world = CollisionWorld(scene_of())
    a, b = np.array([0, 0, 1.0]), np.array([0, 0.4, 1.8])
    world.update([human("h", [*a, *b, *radii])])
    s = np.linspace(0, 1, 20001)
    centres, radius = a + s[:, None] * (b - a), radii[0] + s * (radii[1] - radii[0])
    ball = Sphere(np.array([0.4, 0.25, 1.45]), 0.25)
    distance = np.linalg.norm(ball.centre - centres, axis=1) - radius
    contact = only(world.contacts("v", ball))
    assert contact.depth_m == pytest.approx(0.25 - distance.min(), abs=1e-6)
    nearest = ball.centre - centres[distance.argmin()]
    np.testing.assert_allclose(contact.normal_world, nearest / np.linalg.norm(nearest), atol=1e-3)
    brick = box_at(Transform.of((0.42, 0.2, 1.4), q_exp(np.array([0, 0.2, 0.3]))), (0.25, 0.2, 0.1))
    gap = brick.distance(centres)[0] - radius
    contact = only(world.contacts("v", brick))
    assert contact.depth_m == pytest.approx(-gap.min(), abs=1e-6)
    assert np.linalg.norm(contact.p_world_m - centres[gap.argmin()]) == pytest.approx(
        radius[gap.argmin()], abs=1e-3
    )


def test_a_movable_gate_is_its_mesh_where_its_actor_is() -> None:
    """A frame: what flies through the middle touches nothing, at rest and carried away."""
    sides = [box_primitive((0.1, 1.0, 0.1)), box_primitive((0.1, 0.1, 1.0))]
    asset = Asset.of(
        "gate",
        [
            type(s)(s.p_m + d, s.normal, s.uv, s.triangles, s.material)
            for s, d in zip(
                [sides[0], sides[0], sides[1], sides[1]],
                np.array([(0, 0, 1), (0, 0, -1), (0, 1, 0), (0, -1, 0)], np.float32),
                strict=True,
            )
        ],
    )
    gate = SceneObject("gate", asset, place((0, 0, 2)), movable=True)
    world = CollisionWorld(scene_of(gate))
    assert not world.contacts("v", Sphere(np.array([0, 0, 2.0]), 0.5))
    assert only(world.contacts("v", Sphere(np.array([0, 0, 3.2]), 0.15))).other == "gate"
    world.update(
        [posed("gate", asset, Transform.of((5, 0, 2), q_exp(np.array([0, 0, 0.5 * np.pi]))))]
    )
    assert not world.contacts("v", Sphere(np.array([0, 0, 3.2]), 0.15))
    assert not world.contacts("v", Sphere(np.array([5, 0, 2.0]), 0.5))
    contact = only(world.contacts("v", Sphere(np.array([5 + 1.2, 0, 2.0]), 0.15)))
    check(contact, "gate", 0.05, [1, 0, 0], [6.1, 0, 2.0])


def test_touches_sphere() -> None:
    world = CollisionWorld(scene_of(floor(), box("ghost", (1, 1, 1), (5, 0, 1), solid=False)))
    world.update([human("h", [2, 0, 1, 2, 0, 2, 0.2, 0.2])])
    assert world.touches_sphere(np.array([0, 0, 0.14]), 0.15)
    assert not world.touches_sphere(np.array([0, 0, 0.16]), 0.15)
    assert not world.touches_sphere(np.array([5, 0, 1.0]), 0.15)
    assert world.touches_sphere(np.array([2.3, 0, 1.5]), 0.15)
    assert not world.touches_sphere(np.array([2.3, 0, 1.5]), 0.15, frozenset({"h"}))


def test_an_empty_scene_touches_nothing() -> None:
    assert not CollisionWorld(scene_of()).contacts("v", Sphere(np.zeros(3), 1.0))


def test_closest_points_by_sampling() -> None:
    rng = np.random.default_rng(6)
    corners = rng.normal(size=(40, 3, 3))
    p = np.array([0.3, -0.2, 0.5])
    u, v = np.meshgrid(np.linspace(0, 1, 151), np.linspace(0, 1, 151))
    u, v = u[u + v <= 1.0], v[u + v <= 1.0]
    grid = (
        (1 - u - v)[:, None, None] * corners[:, 0]
        + u[:, None, None] * corners[:, 1]
        + v[:, None, None] * corners[:, 2]
    )
    sampled = np.linalg.norm(grid - p, axis=2).min(axis=0)
    exact = np.linalg.norm(closest_on_triangles(p, corners) - p, axis=1)
    assert np.all(exact <= sampled + 1e-9)
    np.testing.assert_allclose(exact, sampled, atol=0.02)


def test_box_matrix() -> None:
    body = Transform.of((1, 2, 3), q_exp(np.array([0.1, 0.2, 0.3])))
    brick = box_at(body, (1, 1, 1))
    assert isinstance(brick, OrientedBox)
    np.testing.assert_allclose(brick.axes.T, body.rotation())
