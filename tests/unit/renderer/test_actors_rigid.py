"""Vehicles, props and scene objects that actors drive.

Where they are, what they are called, how they turn.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.actors import points, pose_one, prop, scene
from tests.support.embedded import drone, rotation
from vil_bridge.core.geometry import Transform, q_from_matrix, q_normalize, q_to_matrix
from vil_bridge.core.types import ActorKind, TrackingState, WorldSnapshot
from vil_renderer.embedded.actors import FIRST_INSTANCE, ActorModels
from vil_renderer.embedded.actors.aeroplane import PROPELLER_REV_PER_S
from vil_renderer.embedded.actors.multirotor import multirotor, spin_rev_per_s
from vil_renderer.embedded.actors.prefabs import VEHICLES, built_in
from vil_renderer.embedded.actors.rigid import RigidModel
from vil_renderer.embedded.assets.model import Asset, Node
from vil_renderer.embedded.scene import CLASSES, Prefab, SceneObject
from vil_renderer.embedded.scenes.builder import Thing
from vil_renderer.embedded.scenes.car import car
from vil_renderer.embedded.scenes.shapes import bevelled, box

TURNED = rotation(30.0, 20.0, -50.0)


def brick() -> Asset:
    """A box of 1 x 2 x 3 m that stands on its origin."""
    return Thing().add(box((1.0, 2.0, 3.0)), "plain").asset("brick")


def test_a_prop_fills_its_size_about_its_pose() -> None:
    posed = pose_one(ActorModels(scene()), prop("p", (1.0, 2.0, 3.0), q_from_matrix(TURNED)))
    in_body = (points(posed) - (1.0, 2.0, 3.0)) @ TURNED
    assert in_body.min(axis=0) == pytest.approx([-0.1, -0.2, -0.3], abs=1e-6)
    assert in_body.max(axis=0) == pytest.approx([0.1, 0.2, 0.3], abs=1e-6)
    assert posed.half_size_m == pytest.approx((0.1, 0.2, 0.3))


@pytest.mark.parametrize("fit", ["size", "none"])
def test_a_scenes_own_prefab_is_used(fit: str) -> None:
    quarter = np.eye(4)
    quarter[:3, :3] = rotation(90.0)
    prefab = Prefab(brick(), 77, "size" if fit == "size" else "none", asset_from_body=quarter)
    posed = pose_one(ActorModels(scene(brick=prefab)), prop("p", (5.0, 0.0, 0.0), prefab="brick"))
    low, high = points(posed).min(axis=0) - (5, 0, 0), points(posed).max(axis=0) - (5, 0, 0)
    if fit == "size":
        assert [*low, *high] == pytest.approx([-0.1, -0.2, -0.3, 0.1, 0.2, 0.3], abs=1e-6)
    else:  # turned by a quarter, it is 2 m long and 1 m wide, and still stands on its origin
        assert [*low, *high] == pytest.approx([-1.0, -0.5, 0.0, 1.0, 0.5, 3.0], abs=1e-6)
        assert posed.half_size_m == pytest.approx((1.0, 0.5, 3.0))
    assert posed.semantic == 77


def test_a_gate_has_an_opening_along_x() -> None:
    actor = replace(prop("g", (0.0, 0.0, 0.0), prefab="Big_Gate_3"), size_m=(0.2, 2.0, 2.0))
    cast = ActorModels(scene())
    posed = pose_one(cast, actor)
    p = points(posed)
    assert [*p.min(axis=0), *p.max(axis=0)] == pytest.approx([-0.1, -1, -1, 0.1, 1, 1], abs=1e-6)
    assert np.abs(p[:, 1:]).max(axis=1).min() == pytest.approx(0.76, abs=1e-6)
    assert posed.semantic == CLASSES["gate"]
    assert cast.missing_prefabs == set()


def test_blades_turn_with_the_instant() -> None:
    cast, quad = ActorModels(scene()), multirotor("quadrotor", 4)
    still, later = (pose_one(cast, drone("d", (0.0, 0.0, 1.0)), t_ns) for t_ns in (0, 10_000_000))
    again = pose_one(ActorModels(scene()), drone("d", (0.0, 0.0, 1.0)), 10_000_000)
    assert np.array_equal(later.world_from_node, again.world_from_node)
    senses = []
    for k in range(4):
        node = quad.node_named(f"rotor{k}")
        ratio = np.linalg.inv(still.world_from_node[node]) @ later.world_from_node[node]
        rev = 0.01 * spin_rev_per_s(4)[f"rotor{k}"]
        assert math.atan2(ratio[1, 0], ratio[0, 0]) == pytest.approx(2 * math.pi * rev)
        assert ratio[:3, 3] == pytest.approx(np.zeros(3), abs=1e-9)
        senses.append(math.copysign(1.0, rev))
    assert senses == [1.0, -1.0, 1.0, -1.0]
    assert np.array_equal(still.world_from_node[0], later.world_from_node[0])


def test_the_quadrotor_has_everything() -> None:
    quad = multirotor("quadrotor", 4)
    surfaces = {part.material.name for node in quad.nodes for part in node.primitives}
    assert {"lamp_light", "beacon"} <= surfaces, "front and rear lights"
    triangles = sum(len(part.triangles) for node in quad.nodes for part in node.primitives)
    assert 1000 < triangles < 4000
    hubs = np.array([quad.nodes[quad.node_named(f"rotor{k}")].p for k in range(4)])
    assert np.linalg.norm(hubs[:, :2], axis=1) == pytest.approx(np.full(4, 0.125))
    _check_outsides(quad)


def _check_outsides(asset: Asset) -> None:
    """Normals point to the side from which a triangle turns left."""
    for node in asset.nodes:
        for part in node.primitives:
            a, b, c = (part.p_m[part.triangles[:, k]] for k in range(3))
            out = (np.cross(b - a, c - a) * part.normal[part.triangles].mean(axis=1)).sum(axis=1)
            # Around the tips of thin blades the rounded normals lean over.
            assert np.mean(out > 0.0) > (0.9 if "rotor" in node.name else 0.999)


@pytest.mark.parametrize(
    ("name", "rotors", "reach_m"), [("hexarotor", 6, 0.150), ("octorotor", 8, 0.185)]
)
def test_larger_multirotors(name: str, rotors: int, reach_m: float) -> None:
    """Rotors on a ring, the front two at the same angle to x, blades that never touch.

    Neighbours turn apart.
    """
    cast = ActorModels(scene())
    still, later = (
        pose_one(cast, replace(drone("d", (0, 0, 1)), prefab=name), t) for t in (0, 10_000_000)
    )
    made = still.asset
    hubs = np.array([made.nodes[made.node_named(f"rotor{k}")].p for k in range(rotors)])
    assert np.linalg.norm(hubs[:, :2], axis=1) == pytest.approx(np.full(rotors, reach_m))
    assert math.atan2(hubs[0, 1], hubs[0, 0]) == pytest.approx(math.pi / rotors)
    assert np.linalg.norm(hubs[0] - hubs[1]) > 2 * 0.064, "blades are 64 mm long"
    senses = []
    for k in range(rotors):
        node = made.node_named(f"rotor{k}")
        ratio = np.linalg.inv(still.world_from_node[node]) @ later.world_from_node[node]
        senses.append(math.copysign(1.0, ratio[1, 0]))
    assert senses == [1.0, -1.0] * (rotors // 2)
    _check_outsides(made)
    assert sum(len(part.triangles) for node in made.nodes for part in node.primitives) < 5000


def test_an_aeroplane_fills_its_size_and_turns_its_propeller() -> None:
    cast = ActorModels(scene())
    actor = replace(drone("a", (3.0, 0.0, 2.0)), prefab="fixed_wing", size_m=(1.2, 1.6, 0.4))
    still, later = (pose_one(cast, actor, t_ns) for t_ns in (0, 10_000_000))
    assert cast.missing_prefabs == set()
    assert still.semantic == CLASSES["vehicle"]
    p = points(still)
    assert [*p.min(axis=0), *p.max(axis=0)] == pytest.approx(
        [2.4, -0.8, 1.8, 3.6, 0.8, 2.2], abs=1e-5
    )
    propeller = still.asset.node_named("propeller")
    place = still.world_from_node[propeller]
    assert place[0, 3] > 3.5, "at the nose"
    ratio = np.linalg.inv(place) @ later.world_from_node[propeller]
    assert math.atan2(ratio[2, 1], ratio[1, 1]) == pytest.approx(
        2 * math.pi * 0.01 * PROPELLER_REV_PER_S["propeller"]
    )
    assert np.array_equal(still.world_from_node[0], later.world_from_node[0])
    # Left and right wing mirror each other, apart from pitot tube, aerial and the colours of the
    # lights.
    wings = np.abs(p[:, 1]) > 0.66
    left, right = (p[wings & (sign * p[:, 1] > 0.0)] * (1.0, sign, 1.0) for sign in (1.0, -1.0))
    assert left.min(axis=0) == pytest.approx(right.min(axis=0), abs=1e-3)
    assert left.max(axis=0) == pytest.approx(right.max(axis=0), abs=1e-3)
    _check_outsides(still.asset)
    assert (
        4000
        < sum(len(part.triangles) for node in still.asset.nodes for part in node.primitives)
        < 10000
    )


def test_a_rover_stands_on_four_wheels() -> None:
    cast = ActorModels(scene())
    posed = pose_one(
        cast, replace(drone("r", (3.0, 0.0, 0.5)), prefab="rover", size_m=(0.6, 0.53, 0.53))
    )
    p = points(posed)
    assert [*p.min(axis=0), *p.max(axis=0)] == pytest.approx(
        [2.7, -0.265, 0.5, 3.3, 0.265, 1.03], abs=1e-5
    )
    low = p[p[:, 2] < 0.52]
    corners = {(x > 3.0, y > 0.0) for x, y in low[:, :2].tolist()}
    assert len(corners) == 4
    assert (np.abs(low[:, 1]) > 0.18).all(), "nothing but wheels comes near the ground"
    _check_outsides(posed.asset)
    assert (
        4000
        < sum(len(part.triangles) for node in posed.asset.nodes for part in node.primitives)
        < 10000
    )


def test_the_documentation_lists_vehicles_with_their_sizes() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "humans_rendered.md").read_text()
    rows = re.findall(r"^\| `(\w+)`[^|]* \| ([\d.]+) x ([\d.]+) x ([\d.]+) \|", page, re.MULTILINE)
    assert [name for name, *_ in rows] == list(VEHICLES)
    for name, *size_m in rows:
        model = RigidModel(built_in(name, ActorKind.VEHICLE)[1])
        assert model.size_m == pytest.approx([float(m) for m in size_m], abs=0.0051)


@pytest.mark.parametrize("bevel_m", [0.0, 0.1])
def test_a_bevelled_box(bevel_m: float) -> None:
    """It fills its size, is closed, and loses at each edge a prism, with the corners counted
    once.
    """
    made = bevelled((1.0, 2.0, 3.0), bevel_m)
    assert [*made.p_m.min(axis=0), *made.p_m.max(axis=0)] == pytest.approx(
        [-0.5, -1.0, 0.0, 0.5, 1.0, 3.0]
    )
    a, b, c = (made.p_m[made.triangles[:, k]] for k in range(3))
    volume = float((np.cross(b, c) * a).sum()) / 6.0
    cut = 4 * 0.5 * bevel_m**2 * (1.0 + 2.0 + 3.0 - 6.0 * bevel_m) + 8 * (5.0 / 6.0) * bevel_m**3
    assert volume == pytest.approx(6.0 - cut)


def test_a_car_stands_on_its_wheels() -> None:
    made = car()
    triangles = sum(len(part.triangles) for node in made.nodes for part in node.primitives)
    assert 500 < triangles < 2500
    cast = ActorModels(scene())
    posed = pose_one(
        cast, replace(drone("c", (3.0, 0.0, 0.5)), prefab="car", size_m=(4.3, 2.0, 1.5))
    )
    p = points(posed)
    assert [*p.min(axis=0), *p.max(axis=0)] == pytest.approx(
        [0.85, -1.0, 0.5, 5.15, 1.0, 2.0], abs=1e-5
    )
    assert posed.half_size_m == pytest.approx((2.15, 1.0, 1.5))
    _check_outsides(made)


def test_ids_are_given_in_order_of_appearance_and_stay() -> None:
    cast = ActorModels(scene())
    first = cast.pose(WorldSnapshot(0, (prop("b", (0, 0, 0)), drone("a", (1, 0, 0)))))
    assert cast.instances == {"b": FIRST_INSTANCE, "a": FIRST_INSTANCE + 1}
    assert {p.name: p.semantic for p in first} == {"b": CLASSES["prop"], "a": CLASSES["vehicle"]}
    second = cast.pose(WorldSnapshot(1, (prop("new", (0, 0, 0)), drone("a", (1, 0, 0)))))
    assert {p.name: p.instance for p in second} == {
        "new": FIRST_INSTANCE + 2,
        "a": FIRST_INSTANCE + 1,
    }
    assert all(p.layer == "actors" for p in first)


def test_an_unknown_prefab_is_told_and_drawn_as_its_kind() -> None:
    cast = ActorModels(scene())
    pose_one(cast, replace(drone("d", (0, 0, 0)), prefab="Ferrari"))
    posed = pose_one(cast, replace(drone("d", (0, 0, 0)), prefab="Ferrari"))
    assert posed.asset is quadrotor_of(cast)
    assert cast.missing_prefabs == {"Ferrari"}
    pose_one(cast, prop("q", (0, 0, 0), prefab="quadrotor"))
    assert cast.missing_prefabs == {"Ferrari"}


def quadrotor_of(cast: ActorModels) -> Asset:
    return pose_one(cast, drone("plain", (0, 0, 0))).asset


@pytest.mark.parametrize("kind", list(ActorKind))
@pytest.mark.parametrize("fault", ["lost", "position", "attitude"])
def test_what_has_no_pose_is_left_out(fault: str, kind: ActorKind) -> None:
    good = replace(drone("good", (1.0, 0.0, 0.0)), kind=kind)
    T = {
        "lost": good.T_world_body,
        "position": Transform(np.array([np.nan, 0, 0]), good.T_world_body.q_xyzw),
        "attitude": Transform(good.T_world_body.p_m, np.full(4, np.inf)),
    }[fault]
    state = TrackingState.LOST if fault == "lost" else TrackingState.TRACKED
    ghost = replace(good, name="ghost", state=state, T_world_body=T)
    posed = ActorModels(scene()).pose(WorldSnapshot(0, (ghost, good)))
    assert [p.name for p in posed] == ["good"]


def test_an_actor_drives_the_movable_object_of_its_name() -> None:
    place = np.diag([2.0, 2.0, 0.5, 1.0])
    place[:3, :3] = TURNED @ place[:3, :3]
    place[:3, 3] = 9.0
    door = SceneObject("door", brick(), place, semantic=16, instance=5, layer="doors", movable=True)
    cast = ActorModels(scene(door))
    posed = pose_one(cast, prop("door", (1.0, 2.0, 3.0), q_from_matrix(rotation(90.0))))
    low, high = points(posed).min(axis=0), points(posed).max(axis=0)
    assert [*low, *high] == pytest.approx([1 - 2.0, 2 - 1.0, 3.0, 1 + 2.0, 2 + 1.0, 4.5], abs=1e-6)
    assert (posed.semantic, posed.instance, posed.layer) == (16, 5, "doors")
    assert cast.instances == {"door": 5}
    pose_one(cast, prop("other", (0, 0, 0)))
    assert cast.instances["other"] == FIRST_INSTANCE


def test_a_scenes_prefab_goes_before_a_shipped_one_of_its_name() -> None:
    cast = ActorModels(scene(crate=Prefab(brick(), 77)))
    assert pose_one(cast, prop("p", (0, 0, 0), prefab="crate")).asset.name == "brick"
    assert pose_one(cast, prop("q", (0, 0, 0))).asset.name == "crate"


def test_names_without_end_do_not_fill_the_memory() -> None:
    cast = ActorModels(scene())
    template = prop("p", (0, 0, 0))
    for start in range(0, 40_000, 8_000):
        cast.pose(
            WorldSnapshot(0, tuple(replace(template, name=f"p{start + i}") for i in range(8_000)))
        )
    assert len(cast.instances) < 32_769
    assert all(FIRST_INSTANCE <= instance <= 65_535 for instance in cast.instances.values())


def test_many_are_posed_as_one_by_one() -> None:
    rng = np.random.default_rng(3)
    actors = tuple(
        replace(
            prop(f"p{i}", rng.normal(size=3), rng.normal(size=4)),
            size_m=tuple(rng.uniform(0.1, 2.0, 3)),
        )
        for i in range(50)
    )
    together = {
        p.name: p.world_from_node for p in ActorModels(scene()).pose(WorldSnapshot(0, actors))
    }
    for actor in actors:
        alone = pose_one(ActorModels(scene()), actor).world_from_node
        assert together[actor.name] == pytest.approx(alone, abs=1e-12)
        unit = alone[0, :3, :3] / np.array(actor.size_m)
        R = q_to_matrix(q_normalize(actor.T_world_body.q_xyzw))
        assert unit == pytest.approx(R, abs=1e-12), "attitudes are normalised"


def test_a_pose_may_be_a_part_of_a_table_and_in_single_floats() -> None:
    table = np.array([[1.0, 9.0], [2.0, 9.0], [3.0, 9.0]])
    places: tuple[Any, ...] = (
        table[:, 0],
        np.array([1.0, 2.0, 3.0], np.float32),
        np.array([1, 2, 3]),
    )
    level = np.array([0.0, 0.0, 0.0, 1.0])
    expected = pose_one(ActorModels(scene()), prop("a", (1.0, 2.0, 3.0))).world_from_node
    for p_m in places:
        pair = tuple(
            replace(prop(name, (0.0, 0.0, 0.0)), T_world_body=Transform(p_m, level))
            for name in ("a", "b")
        )
        for posed in ActorModels(scene()).pose(WorldSnapshot(0, pair)):
            assert posed.T_world_body.p_m.tolist() == [1.0, 2.0, 3.0]
            assert posed.world_from_node == pytest.approx(expected, abs=1e-12)


def test_an_attitude_of_zeros_is_level() -> None:
    zero = replace(prop("p", (0.0, 0.0, 0.0)), T_world_body=Transform(np.zeros(3), np.zeros(4)))
    turned = pose_one(ActorModels(scene()), zero).world_from_node
    level = pose_one(ActorModels(scene()), prop("p", (0.0, 0.0, 0.0))).world_from_node
    assert turned == pytest.approx(level, abs=1e-12)


def test_an_empty_model_and_an_empty_room_do_no_harm() -> None:
    nothing = Prefab(Asset("nothing", (Node("n"),)), 1, "size")
    posed = pose_one(ActorModels(scene(nothing=nothing)), prop("p", (0, 0, 0), prefab="nothing"))
    assert np.isfinite(posed.world_from_node).all()
    assert not ActorModels(scene()).pose(WorldSnapshot(0, ()))
