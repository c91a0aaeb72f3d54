"""Bones that are lost, bodies that are no human's, capsules, and the shipped human's mesh."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.support.actors import human, model_of, points, pose_one, posed_by, scene
from tests.support.embedded import person, rotation
from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.core.geometry import q_from_matrix, q_rotate
from vil_bridge.core.types import (
    ActorState,
    FloatArray,
    SkeletonFrame,
    SkeletonModel,
    WorldSnapshot,
)
from vil_renderer.embedded.actors import ActorModels
from vil_renderer.embedded.actors.figure import figure
from vil_renderer.embedded.actors.retarget import UNSEEN_LIGHT
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.scene import Posed, Prefab

HEXAPOD = SkeletonModel(
    "beast",
    ("Thorax0", "Thorax1", "L1", "L2", "L3", "Tail"),
    (-1, 0, 0, 2, 3, 1),
    np.array(
        [(0.0, 0, 0.4), (0.3, 0, 0), (0, 0.1, 0), (0, 0.2, 0.1), (0, 0.1, -0.3), (0.25, 0, 0)]
    ),
)


def lost(skeleton: SkeletonFrame, *bones: str, at_origin: bool) -> SkeletonFrame:
    gone = np.isin(skeleton.model.bones, bones)
    p_m = np.where(gone[:, None] & at_origin, 0.0, skeleton.p_m)
    return replace(skeleton, p_m=p_m, tracked=skeleton.tracked & ~gone)


def standing(*bones: str, at_origin: bool = False) -> ActorState:
    skeleton = person("p", (4.0, 0.0, 0.0)).skeleton
    assert skeleton is not None
    return human(lost(skeleton, *bones, at_origin=at_origin))


def light_of(posed: Posed, node: str) -> float:
    return (
        1.0 if posed.joint_light is None else float(posed.joint_light[posed.asset.node_named(node)])
    )


def test_what_is_not_tracked_stays_in_place_and_is_darker() -> None:
    whole, part = (
        pose_one(ActorModels(scene()), standing(*bones)) for bones in ((), ("LUArm", "LHand"))
    )
    assert np.array_equal(whole.world_from_node, part.world_from_node)
    assert whole.joint_light is None
    assert [light_of(part, name) for name in ("LeftArm", "LeftForeArm", "LeftHand")] == [
        UNSEEN_LIGHT
    ] * 3
    assert [light_of(part, name) for name in ("RightArm", "Chest", "Head", "LeftLeg")] == [1.0] * 4


@pytest.mark.parametrize(
    "gone", [("LHand",), ("LUArm",), ("Head",), ("LThigh", "LFoot"), ("Hip",), ("Hip", "Chest")]
)
def test_no_limb_reaches_to_the_origin(gone: tuple[str, ...]) -> None:
    whole, part = (
        pose_one(ActorModels(scene()), standing(*bones, at_origin=True)) for bones in ((), gone)
    )
    low, high = (f(points(whole), axis=0) for f in (np.min, np.max))
    now = points(part)
    assert np.all(now > low - 1e-9)
    assert np.all(now < high + 1e-9)
    ends = part.capsules[:, :6].reshape(-1, 3)
    assert np.all(ends[:, 0] > 3.5)
    still_there = np.abs(now - points(whole)).max(axis=1) < 1e-9
    corners = figure().nodes[-1].primitives[0].triangles
    a, b, c = (points(whole)[corners[:, k]] for k in range(3))
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    assert np.average(still_there[corners].all(axis=1), weights=areas) > 0.7


def test_a_bone_that_is_not_a_number_is_as_good_as_lost() -> None:
    actor = standing("LHand", at_origin=True)
    assert actor.skeleton is not None
    q = np.where(
        np.isin(actor.skeleton.model.bones, ["LHand"])[:, None], np.nan, actor.skeleton.q_xyzw
    )
    p = np.where(
        np.isin(actor.skeleton.model.bones, ["LHand"])[:, None], np.inf, actor.skeleton.p_m
    )
    broken = replace(actor, skeleton=replace(actor.skeleton, p_m=p, q_xyzw=q))
    first, second = (pose_one(ActorModels(scene()), a) for a in (actor, broken))
    assert np.array_equal(first.world_from_node, second.world_from_node)


def test_a_human_of_whom_nothing_is_seen_is_not_drawn_when_its_bones_are_not_numbers() -> None:
    actor = standing()
    assert actor.skeleton is not None
    gone = replace(actor.skeleton, p_m=np.full_like(actor.skeleton.p_m, np.nan))
    assert not ActorModels(scene()).pose(WorldSnapshot(0, (replace(actor, skeleton=gone),)))


@pytest.mark.parametrize(
    "bones", list(itertools.combinations(("Hip", "Chest", "Head", "LUArm", "RThigh", "LFoot"), 2))
)
def test_whatever_is_lost_what_remains_is_finite(bones: tuple[str, str]) -> None:
    for actor in (standing(*bones, at_origin=True), standing(*bones)):
        posed = pose_one(ActorModels(scene()), actor)
        assert np.isfinite(posed.world_from_node).all()
        assert np.isfinite(posed.capsules).all()
        assert np.isfinite(posed.half_size_m).all()


# --- capsules ------------------------------------------------------------------------------------


def distance_to_capsules(p_m: FloatArray, capsules: FloatArray) -> FloatArray:
    """Signed distance (n,) of points to the nearest tapered capsule, its radius taken at the
    foot of the point.
    """
    nearest = np.full(len(p_m), np.inf)
    for row in capsules:
        a, b, (ra, rb) = row[:3], row[3:6], row[6:]
        along = b - a
        t = np.clip((p_m - a) @ along / max(along @ along, 1e-12), 0.0, 1.0)
        nearest = np.minimum(
            nearest, np.linalg.norm(p_m - a - t[:, None] * along, axis=1) - (ra + t * (rb - ra))
        )
    return nearest


def test_capsules_follow_the_mesh() -> None:
    posed = pose_one(ActorModels(scene()), human(WalkMotion().at(400_000_000).skeletons[0]))
    off = np.abs(distance_to_capsules(points(posed), posed.capsules))
    assert np.median(off) < 0.02
    assert np.quantile(off, 0.95) < 0.08
    half = np.array(posed.half_size_m)
    inside = posed.T_world_body.inverse().apply(points(posed))
    assert np.all(np.abs(inside) < half + 0.05)
    assert half[2] < 1.2


# --- what is no human ----------------------------------------------------------------------------


def test_a_beast_is_drawn_as_its_own_bones() -> None:
    turn = rotation(30.0, 10.0, -20.0)
    cast, skeleton = ActorModels(scene()), posed_by(HEXAPOD, {"L2": turn})
    posed = pose_one(cast, human(skeleton))
    assert posed.asset.name == "beast"
    assert posed.semantic == 42
    for i in range(len(HEXAPOD.bones)):
        assert posed.world_from_node[i, :3, 3] == pytest.approx(skeleton.p_m[i])
    # Each bone's capsule lies between its joint and its child's.
    off = distance_to_capsules(skeleton.p_m, posed.capsules)
    assert np.all(off < 0.0)
    assert distance_to_capsules(points(posed), posed.capsules).max() < 1e-6
    mesh = posed.asset.nodes[-1].primitives[0]
    assert mesh.joints is not None
    rest, now = mesh.p_m.astype(np.float64), points(posed)
    shin = mesh.joints[:, 0] == HEXAPOD.bones.index("L2")
    centre = skeleton.p_m[HEXAPOD.bones.index("L2")]
    assert np.abs(now[shin] - ((rest[shin] - centre) @ turn.T + centre)).max() < 2e-6


def test_a_beasts_lost_bone_is_not_drawn() -> None:
    skeleton = posed_by(HEXAPOD)
    skeleton = replace(skeleton, p_m=skeleton.p_m + np.array([4.0, 0.0, 0.0]))
    posed = pose_one(ActorModels(scene()), human(lost(skeleton, "L3", at_origin=True)))
    assert points(posed)[:, 0].min() > 3.8
    assert light_of(posed, "L3") == UNSEEN_LIGHT
    whole = pose_one(ActorModels(scene()), human(skeleton))
    assert len(posed.capsules) == len(whole.capsules) - 1


def test_many_bones_are_split_over_skins() -> None:
    count = 300
    chain = SkeletonModel(
        "snake",
        tuple(f"b{i}" for i in range(count)),
        tuple(range(-1, count - 1)),
        np.full((count, 3), 0.02),
    )
    posed = pose_one(ActorModels(scene()), human(posed_by(chain)))
    skins = [node.skin for node in posed.asset.nodes if node.skin is not None]
    assert max(len(skin.joints) for skin in skins) <= 128
    assert sorted(j for skin in skins for j in skin.joints) == list(range(count))
    assert np.abs(points(posed) - np.array([0.0, 0.0, 0.0])).max() < 0.02 * count + 0.1


def test_a_model_that_no_skeleton_can_move_gives_way_to_the_bones() -> None:
    box = ActorModels(scene(statue=Prefab(Asset.of("statue", ()), 7)))
    posed = pose_one(box, human(WalkMotion().at(0).skeletons[0], "statue"))
    assert posed.asset.name == "Actor"
    assert box.missing_prefabs == {"statue"}


# --- the shipped human ---------------------------------------------------------------------------


def test_the_shipped_humans_joints_mirror_each_other() -> None:
    place = figure().asset_from_node()[:, :3, 3]
    for node in figure().nodes:
        if node.name.startswith("Left"):
            left, right = (
                place[figure().node_named(side + node.name[4:])] for side in ("Left", "Right")
            )
            assert left == pytest.approx(right * (1.0, -1.0, 1.0), abs=1e-9)


def test_the_shipped_humans_clothes_have_corners_to_track() -> None:
    mesh = figure().nodes[-1].primitives[0]
    assert mesh.material.base is not None
    grey = mesh.material.base.texture.pixels.astype(float).mean(axis=2)
    cells = grey.reshape(32, 32, 32, 32).transpose(0, 2, 1, 3).reshape(1024, -1)
    assert np.median(cells.std(axis=1)) > 5.0


def test_a_human_without_skeleton_stands_at_its_pose() -> None:
    actor = replace(human(posed_by(model_of(figure()))), skeleton=None)
    R = rotation(50.0)
    pose = replace(actor.T_world_body, p_m=np.array([1.0, 2.0, 0.0]), q_xyzw=q_from_matrix(R))
    posed = pose_one(ActorModels(scene()), replace(actor, T_world_body=pose))
    mesh = figure().nodes[-1].primitives[0]
    expected = q_rotate(pose.q_xyzw, mesh.p_m.astype(np.float64)) + pose.p_m
    assert np.abs(points(posed) - expected).max() < 1e-6
