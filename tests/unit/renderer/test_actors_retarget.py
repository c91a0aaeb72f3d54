"""Skeletons that move skinned humans, against closed forms and against a real walk."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.support.actors import (
    RIGS,
    human,
    model_of,
    points,
    pose_one,
    posed_by,
    rig,
    scene,
    step_of,
    walk,
)
from tests.support.embedded import rotation
from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.core.geometry import q_from_matrix, q_mul
from vil_bridge.core.types import FloatArray, SkeletonFrame, SkeletonModel
from vil_renderer.embedded.actors import ActorModels
from vil_renderer.embedded.actors.anatomy import anatomy
from vil_renderer.embedded.actors.figure import figure
from vil_renderer.embedded.actors.prefabs import built_in
from vil_renderer.embedded.actors.turning import shortest_turn
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.scene import Posed, Prefab

LIMB_PARTS = ("upper_arm", "lower_arm", "hand", "upper_leg", "lower_leg", "foot")

FBX = {
    "Hip": "mixamorig:Hips", "Ab": "mixamorig:Spine", "Chest": "mixamorig:Spine1",
    "Neck": "mixamorig:Neck",
    "Head": "mixamorig:Head", "Shoulder": "Shoulder", "UArm": "Arm", "FArm": "ForeArm",
    "Hand": "Hand",
    "Thigh": "UpLeg", "Shin": "Leg", "Foot": "Foot", "Toe": "ToeBase",
}  # fmt: skip
VICON = {
    "Hip": "Pelvis", "Ab": "LowerTorso", "Chest": "Thorax", "Neck": "Neck", "Head": "Head",
    "Shoulder": "Clavicle",
    "UArm": "Humerus", "FArm": "Radius", "Hand": "Hand", "Thigh": "Femur", "Shin": "Tibia",
    "Foot": "Foot",
    "Toe": "Toes",
}  # fmt: skip


def own_cast(asset: Asset) -> ActorModels:
    return ActorModels(scene(model=Prefab(asset, 42)))


def joint(posed: Posed, part: str) -> FloatArray:
    """Matrix (4, 4) of the model's joint of a part."""
    names = tuple(node.name for node in posed.asset.nodes)
    parents = tuple(node.parent for node in posed.asset.nodes)
    found = anatomy(SkeletonModel("model", names, parents, np.zeros((len(names), 3))))
    matrix: FloatArray = posed.world_from_node[found[part]]
    return matrix


def model_for(name: str) -> Asset:
    return figure() if name == "human" else rig(name)


@pytest.mark.parametrize("name", ["human", "human_male_cmu", "human_male_fingers"])
def test_a_model_at_rest_is_its_rest_mesh(name: str) -> None:
    asset = model_for(name)
    posed = pose_one(own_cast(asset), human(posed_by(model_of(asset)), "model"))
    assert np.abs(posed.world_from_node - asset.asset_from_node()).max() < 1e-9
    (drawn,) = (part for node in asset.nodes for part in node.primitives)
    assert np.abs(points(posed) @ asset.root[:3, :3] - drawn.p_m).max() < 1e-5


@pytest.mark.parametrize("bone", ["LeftArm", "RightForeArm", "LeftUpLeg", "RightLeg", "Head"])
def test_a_turned_bone_turns_what_hangs_on_it_and_nothing_else(bone: str) -> None:
    asset, model = figure(), model_of(figure())
    cast, turn = own_cast(asset), swing(asset, bone, rotation(20.0, -35.0, 25.0))
    turned = pose_one(cast, human(posed_by(model, {bone: turn}), "model"))
    mesh = asset.nodes[-1].primitives[0]
    assert mesh.joints is not None
    assert mesh.weights is not None
    below = {i for i in range(len(model.bones)) if model.bones.index(bone) in up(model, i)}
    share = np.where(np.isin(mesh.joints, list(below)), mesh.weights, 0.0).sum(axis=1)
    rest, now = mesh.p_m.astype(np.float64), points(turned)
    centre = asset.asset_from_node()[model.bones.index(bone), :3, 3]
    whole, none = share > 1.0 - 1e-6, share < 1e-6
    if bone == "Head":
        none &= ~np.isin(mesh.joints[:, 0], [model.bones.index("Neck")])
    assert whole.sum() > 150
    assert none.sum() > 3000
    assert np.abs(now[whole] - ((rest[whole] - centre) @ turn.T + centre)).max() < 2e-6
    assert np.abs(now[none] - rest[none]).max() < 2e-6


def swing(asset: Asset, bone: str, turn: FloatArray) -> FloatArray:
    """The turn without its twist about a limb's bone, which the joints along the limb share."""
    following = {"Arm": "ForeArm", "ForeArm": "Hand", "UpLeg": "Leg", "Leg": "Foot"}
    side, part = (bone[:4], bone[4:]) if bone.startswith("Left") else (bone[:5], bone[5:])
    if part not in following:
        return turn
    place = asset.asset_from_node()[:, :3, 3]
    along = place[asset.node_named(side + following[part])] - place[asset.node_named(bone)]
    along = along / np.linalg.norm(along)
    return shortest_turn(along, turn @ along)


def up(model: SkeletonModel, bone: int) -> list[int]:
    chain = [bone]
    while model.parents[chain[-1]] >= 0:
        chain.append(model.parents[chain[-1]])
    return chain


@pytest.mark.parametrize("bones", [FBX, VICON], ids=["fbx", "vicon"])
def test_names_make_no_difference(bones: dict[str, str]) -> None:
    motive = WalkMotion().at(700_000_000).skeletons[0]
    sides = {"L": "Left", "R": "Right"} if bones is FBX else {"L": "L", "R": "R"}
    names = tuple(
        bones[n] if n in bones else sides[n[0]] + bones[n[1:]] for n in motive.model.bones
    )
    renamed = replace(motive, model=replace(motive.model, bones=names))
    first, second = (pose_one(ActorModels(scene()), human(s)) for s in (motive, renamed))
    assert np.array_equal(first.world_from_node, second.world_from_node)


@pytest.mark.parametrize(
    "axes", [rotation(-90.0), rotation(90.0, 90.0), rotation(180.0, 0.0, 90.0)]
)
def test_axes_of_bones_make_no_difference(axes: FloatArray) -> None:
    """Motive faces -y at rest once its y-up world is turned, Vicon has z along the body.

    Same human.
    """
    plain = WalkMotion().at(1_234_000_000).skeletons[0]
    model = replace(plain.model, offsets_m=plain.model.offsets_m @ axes)
    turned = SkeletonFrame(
        model, plain.p_m, q_mul(plain.q_xyzw, q_from_matrix(axes)), plain.tracked
    )
    first, second = (pose_one(ActorModels(scene()), human(s)) for s in (plain, turned))
    assert np.abs(first.world_from_node - second.world_from_node).max() < 1e-9


def test_bones_with_odd_axes_of_their_own_still_reach_their_places() -> None:
    """Feet whose axes point along them, as Plug-in Gait has it."""
    plain = WalkMotion().at(300_000_000).skeletons[0]
    model, q = plain.model, plain.q_xyzw.copy()
    offsets_m, odd = model.offsets_m.copy(), rotation(0.0, 90.0)
    for side in "LR":
        foot, toe = (model.bones.index(side + name) for name in ("Foot", "Toe"))
        q[foot] = q_mul(q[foot], q_from_matrix(odd))
        offsets_m[toe] = odd.T @ offsets_m[toe]
    turned = SkeletonFrame(replace(model, offsets_m=offsets_m), plain.p_m, q, plain.tracked)
    first, second = (pose_one(ActorModels(scene()), human(s)) for s in (plain, turned))
    for side in ("left", "right"):
        a, b = (joint(posed, f"{side}_foot") for posed in (first, second))
        assert a[:3, 3] == pytest.approx(b[:3, 3], abs=1e-9)
        between = np.arccos(
            np.clip(
                (np.trace(a[:3, :3].T @ b[:3, :3]) / np.cbrt(np.linalg.det(a[:3, :3])) ** 2 - 1)
                / 2,
                -1,
                1,
            )
        )
        assert math.degrees(between) < 20.0


@pytest.mark.parametrize("name", RIGS)
def test_a_real_walk_is_walked(name: str) -> None:
    """Joints where the recording has them, knees and toes forward, head up, left on the left,
    feet on the floor.
    """
    track, asset = walk(), model_for(name)
    bones = anatomy(track.model)
    cast = own_cast(asset)
    rest_up = np.linalg.inv(asset.asset_from_node())[:, :3, :3] @ (0.0, 0.0, 1.0)
    lowest = []
    for row in range(4, 520, 30):
        skeleton = step_of(track, row)
        posed = pose_one(cast, human(skeleton, "model"))
        for side in ("left", "right"):
            for part in LIMB_PARTS:
                there = skeleton.p_m[bones[f"{side}_{part}"]]
                assert joint(posed, f"{side}_{part}")[:3, 3] == pytest.approx(there, abs=1e-3)
            knee_is_forward(posed, side)
        body = body_axes(posed)
        assert (body.T @ (joint(posed, "left_hand") - joint(posed, "right_hand"))[:3, 3])[1] > 0.2
        head = posed.asset.node_named("Head" if posed.asset.node_named("Head") >= 0 else "head")
        upward = posed.world_from_node[head, :3, :3] @ rest_up[head]
        assert upward[2] / np.linalg.norm(upward) > math.cos(math.radians(25.0))
        lowest.append(points(posed)[:, 2].min() if name != "kaykit_rogue" else lowest_boot(posed))
    # The cartoon's boots hang on its stretched shins.
    deepest = -0.13 if name == "kaykit_rogue" else -0.05
    assert deepest < min(lowest)
    assert abs(float(np.median(lowest))) < (0.1 if name == "kaykit_rogue" else 0.03)


def lowest_boot(posed: Posed) -> float:
    return min(float(joint(posed, f"{side}_toe")[2, 3]) for side in ("left", "right"))


def body_axes(posed: Posed) -> FloatArray:
    """Columns forward, left, up, by the places of hips and neck."""
    left = (joint(posed, "left_upper_leg") - joint(posed, "right_upper_leg"))[:3, 3]
    left[2] = 0.0
    left /= np.linalg.norm(left)
    return np.stack((np.cross(left, (0.0, 0.0, 1.0)), left, (0.0, 0.0, 1.0)), axis=1)


def knee_is_forward(posed: Posed, side: str) -> None:
    hip, knee, ankle, toe = (
        joint(posed, f"{side}_{part}")[:3, 3] for part in ("upper_leg", "lower_leg", "foot", "toe")
    )
    forward = body_axes(posed)[:, 0]
    thigh, shin = knee - hip, ankle - knee
    straight = (thigh @ shin) / np.linalg.norm(thigh) / np.linalg.norm(shin)
    if straight < math.cos(math.radians(15.0)):
        assert (thigh / np.linalg.norm(thigh) - shin / np.linalg.norm(shin)) @ forward > 0.0, (
            "the knee bends forward"
        )
    if (toe - ankle)[2] > -0.6 * np.linalg.norm(toe - ankle):
        assert (toe - ankle) @ forward > 0.0, "unless it pushes off, the toes point forward"


def test_the_shipped_human_stands_on_the_floor_all_the_way() -> None:
    motion, cast = WalkMotion(), ActorModels(scene())
    lowest = [
        points(pose_one(cast, human(motion.at(k * 53_000_000).skeletons[0])))[:, 2].min()
        for k in range(20)
    ]
    assert max(map(abs, lowest)) < 0.01


def without_bones(frame: SkeletonFrame, *words: str) -> SkeletonFrame:
    """The skeleton of a system that has no such bones: their children hang on their parents."""
    model = frame.model
    keep = [i for i, bone in enumerate(model.bones) if not bone.endswith(words)]
    parents, offsets_m = [], []
    for i in keep:
        chain = up(model, i)
        above = next((k for k in chain[1:] if k in keep), -1)
        parents.append(keep.index(above) if above >= 0 else -1)
        offsets_m.append(
            model.offsets_m[chain[: chain.index(above) if above >= 0 else 1]].sum(axis=0)
        )
    less = SkeletonModel(
        "less", tuple(model.bones[i] for i in keep), tuple(parents), np.array(offsets_m)
    )
    return SkeletonFrame(less, frame.p_m[keep], frame.q_xyzw[keep], frame.tracked[keep])


def test_a_missing_elbow_and_knee_lie_on_the_way() -> None:
    frame = without_bones(WalkMotion().at(0).skeletons[0], "FArm", "Shin")
    posed = pose_one(ActorModels(scene()), human(frame))
    for side in ("left", "right"):
        for upper, lower, end in (
            ("upper_arm", "lower_arm", "hand"),
            ("upper_leg", "lower_leg", "foot"),
        ):
            a, b, c = (joint(posed, f"{side}_{part}")[:3, 3] for part in (upper, lower, end))
            assert c == pytest.approx(frame.p_m[anatomy(frame.model)[f"{side}_{end}"]], abs=1e-9)
            assert np.linalg.norm(b - a) + np.linalg.norm(c - b) == pytest.approx(
                np.linalg.norm(c - a)
            )


def test_a_skeleton_without_hands_and_neck_has_them_hang_straight_on() -> None:
    whole = WalkMotion().at(0).skeletons[0]
    frame = without_bones(whole, "Hand", "Neck", "Toe", "Shoulder")
    posed, as_is = (
        pose_one(ActorModels(scene()), human(frame)),
        pose_one(ActorModels(scene()), human(whole)),
    )
    for side in ("left", "right"):
        elbow, wrist = (joint(posed, f"{side}_{part}")[:3, 3] for part in ("lower_arm", "hand"))
        assert 0.2 < np.linalg.norm(wrist - elbow) < 0.3
        assert np.linalg.norm(wrist - joint(as_is, f"{side}_hand")[:3, 3]) < 0.06
    assert np.linalg.norm(points(posed).max(axis=0) - points(as_is).max(axis=0)) < 0.08


def test_a_twist_of_the_spine_is_spread() -> None:
    """A human whose chest is turned by 40 degrees.

    The spine's joint in between has turned by a part of it.
    """
    model = model_of(figure())
    _, prefab = built_in("human", human(posed_by(model)).kind)
    posed = pose_one(ActorModels(scene()), human(posed_by(model, {"Chest": rotation(40.0)})))
    yaws = []
    for name in ("Hips", "Spine", "Chest"):
        R = posed.world_from_node[prefab.asset.node_named(name), :3, :3]
        yaws.append(math.degrees(math.atan2(R[1, 0], R[0, 0])))
    assert yaws[0] == pytest.approx(0.0, abs=1e-6)
    assert 5.0 < yaws[1] < 35.0
    assert yaws[2] == pytest.approx(40.0, abs=1e-6)


def test_rotations_stay_rotations_at_the_subjects_scale() -> None:
    """Head, hands and feet are not stretched, whatever the proportions."""
    model = model_of(figure())
    wide = replace(model, offsets_m=model.offsets_m * (1.0, 1.2, 0.9))
    posed = pose_one(ActorModels(scene()), human(posed_by(wide)))
    for part in ("head", "left_hand", "right_foot"):
        gram = joint(posed, part)[:3, :3].T @ joint(posed, part)[:3, :3]
        assert np.abs(gram - gram[0, 0] * np.eye(3)).max() < 1e-9
        assert 0.85 < math.sqrt(gram[0, 0]) < 1.15
