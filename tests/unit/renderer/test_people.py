"""Shipped humans: meshes, feet on the floor and untwisted limbs for every human and every
convention of skeletons.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tests.support.actors import human, points, pose_one, posed_by, scene
from tests.support.embedded import rotation
from tests.support.skeleton_trees import CONVENTIONS, tree_of
from vil_bridge.bodies.skeleton import canonical_bones
from vil_bridge.core.types import BoolArray, FloatArray, SkeletonFrame
from vil_renderer.embedded.actors import ActorModels
from vil_renderer.embedded.actors.figure import figure
from vil_renderer.embedded.actors.people.builds import BUILDS
from vil_renderer.embedded.actors.prefabs import built_in_names
from vil_renderer.embedded.actors.turning import twist_rad
from vil_renderer.embedded.assets.model import Primitive
from vil_renderer.embedded.scene import Posed

MOST_TRIANGLES = 27_000
"""Those of the walker of ``bench render``."""

CHAINS = {
    "upper arm": ("Chest", "Arm", "ForeArm"),
    "forearm": ("Arm", "ForeArm", "Hand"),
    "hand": ("ForeArm", "Hand", ""),
    "thigh": ("Hips", "UpLeg", "Leg"),
    "shin": ("UpLeg", "Leg", "Foot"),
    "foot": ("Leg", "Foot", ""),
}
"""Joint above, joint, joint at the bone's other end.

Hands and feet turn about the bone above them.
"""

MOST_DEG = {
    "upper arm": 90.0,
    "forearm": 20.0,
    "hand": 90.0,
    "thigh": 45.0,
    "shin": 30.0,
    "foot": 30.0,
}
"""Twists of a human.

Rotation of the shoulder and of the hip, pronation, rotation of a bent knee, of an ankle.
"""


def mesh_of(name: str) -> Primitive:
    (mesh,) = (part for node in figure(name).nodes for part in node.primitives)
    return mesh


@cache
def models() -> ActorModels:
    return ActorModels(scene())


def posed_as(name: str, skeleton: SkeletonFrame) -> Posed:
    return pose_one(models(), human(skeleton, name))


# --- meshes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILDS)
def test_every_human_is_well_made(name: str) -> None:
    mesh, build = mesh_of(name), BUILDS[name]
    assert mesh.weights is not None
    assert mesh.joints is not None
    assert 12_000 <= len(mesh.triangles) <= MOST_TRIANGLES
    assert mesh.p_m[:, 2].min() == pytest.approx(0.0, abs=1e-3)
    assert 0.0 < mesh.p_m[:, 2].max() - build.stature_m < 0.04, "hair or helmet"
    np.testing.assert_allclose(mesh.weights.sum(axis=1), 1.0, rtol=0.0, atol=1e-6)
    assert mesh.joints.max() < len(figure(name).nodes) - 1
    assert mesh.uv.min() >= 0.0
    assert mesh.uv.max() <= 1.0
    a, b, c = (mesh.p_m[mesh.triangles[:, k]].astype(np.float64) for k in range(3))
    faces = np.cross(b - a, c - a)
    outward = (faces * mesh.normal[mesh.triangles].mean(axis=1)).sum(axis=1) > 0.0
    assert outward.all()
    most_m3 = 0.12 if name == "human" else 0.14  # the others are taller, or heavy
    assert 0.06 < float((a * np.cross(b, c)).sum()) / 6.0 < most_m3, "normals point outwards"


def test_statures_and_builds_differ() -> None:
    assert {name.split("_")[0] for name in BUILDS} == {"human", "man", "woman"}
    statures = [build.stature_m for build in BUILDS.values()]
    assert max(statures) - min(statures) > 0.2
    waists = {name: wide_at(name, 1.06 * BUILDS[name].size) for name in BUILDS}
    assert waists["man_heavy"] > 1.25 * waists["woman_slim"]


def wide_at(name: str, z_m: float) -> float:
    p_m = mesh_of(name).p_m
    ring = p_m[(np.abs(p_m[:, 2] - z_m) < 0.02) & (np.abs(p_m[:, 1]) < 0.30)]
    return float(np.ptp(ring[:, 1]))


@pytest.mark.parametrize("name", BUILDS)
def test_a_face_looks_forward_and_hands_have_five_fingers(name: str) -> None:
    p_m = mesh_of(name).p_m / BUILDS[name].size
    nose, cheek = (
        p_m[(np.abs(p_m[:, 2] - z) < 0.006) & (np.abs(p_m[:, 1]) < y)]
        for z, y in ((1.600, 0.01), (1.57, 0.02))
    )
    assert nose[:, 0].max() > cheek[:, 0].max() + 0.008, "the nose stands out"
    joints = mesh_of(name).joints
    assert joints is not None
    for side in ("Left", "Right"):
        hand = joints[:, 0] == figure(name).node_named(f"{side}Hand")
        assert solids(mesh_of(name), hand) == 6, "a palm and five fingers"


def solids(mesh: Primitive, which: BoolArray) -> int:
    """Number of closed solids of which all vertices are chosen, (n,)."""
    a, b, c = mesh.triangles.T
    count = len(mesh.p_m)
    sides = coo_array(
        (np.ones(2 * len(a)), (np.concatenate((a, b)), np.concatenate((b, c)))),
        shape=(count, count),
    )
    solid = connected_components(sides, directed=False)[1]
    drawn = np.isin(np.arange(count), mesh.triangles)
    return len(set(solid[which & drawn]) - set(solid[~which & drawn]))


# --- any skeleton --------------------------------------------------------------------------------


def test_every_human_can_be_named_as_a_prefab() -> None:
    assert set(BUILDS) <= set(built_in_names())
    fresh = ActorModels(scene())
    skeleton = posed_by(tree_of("motive"))
    for name in BUILDS:
        assert pose_one(fresh, human(skeleton, name)).asset is figure(name)
    assert pose_one(fresh, human(skeleton)).asset is figure("human")
    assert not fresh.missing_prefabs


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_feet_meet_the_floor_in_stance(convention: str, name: str) -> None:
    posed = posed_as(name, posed_by(tree_of(convention)))
    p_m = points(posed)
    assert abs(float(p_m[:, 2].min())) < 0.02
    for sign in (1.0, -1.0):
        assert abs(float(p_m[sign * p_m[:, 1] > 0.02, 2].min())) < 0.02, "each foot"
    assert 1.65 < float(p_m[:, 2].max()) < 1.87, "of the skeleton's stature"


@cache
def stances(convention: str) -> dict[str, SkeletonFrame]:
    """The skeleton standing, with hanging arms, and with bent elbows and turned palms."""
    model = tree_of(convention)
    parts = {part: model.bones[bone] for part, bone in canonical_bones(model).items()}
    hang = {
        parts["left_upper_arm"]: rotation(0.0, 0.0, -80.0),
        parts["right_upper_arm"]: rotation(0.0, 0.0, 80.0),
    }
    bent = {
        **hang,
        parts["left_lower_arm"]: rotation(-90.0),
        parts["right_lower_arm"]: rotation(90.0),
        parts["left_hand"]: rotation(0.0, 80.0),
        parts["right_hand"]: rotation(0.0, 80.0),
        parts["left_upper_leg"]: rotation(0.0, -60.0),
        parts["left_lower_leg"]: rotation(0.0, 70.0),
    }
    return {
        "standing": posed_by(model),
        "hanging": posed_by(model, hang),
        "bent": posed_by(model, bent),
    }


def turns_of(posed: Posed) -> FloatArray:
    """Rotations (n, 3, 3) of all nodes from their rest, without scale."""
    u, _, v = np.linalg.svd(posed.world_from_node[:, :3, :3])
    return np.asarray(u @ v)


def twists_deg(posed: Posed) -> dict[str, float]:
    """The largest twist of each kind of joint, degrees."""
    turns, rest = turns_of(posed), posed.asset.asset_from_node()[:, :3, 3]
    found: dict[str, float] = {}
    for side in ("Left", "Right"):
        for kind, names in CHAINS.items():
            above, joint, end = (
                posed.asset.node_named(n if n in ("Chest", "Hips") else side + n) for n in names
            )
            bone = rest[end] - rest[joint] if names[2] else rest[joint] - rest[above]
            angle = twist_rad(turns[above].T @ turns[joint], bone / np.linalg.norm(bone))
            found[kind] = max(found.get(kind, 0.0), abs(math.degrees(float(angle))))
    return found


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_no_limb_is_twisted_more_than_anatomy_allows(convention: str, name: str) -> None:
    for stance, skeleton in stances(convention).items():
        for kind, twist in twists_deg(posed_as(name, skeleton)).items():
            assert twist <= MOST_DEG[kind], f"{stance}: {kind}"


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_no_part_of_the_mesh_is_torn_or_collapses(convention: str, name: str) -> None:
    """Edges of limbs keep their length, except a few in the bends."""
    for skeleton in stances(convention).values():
        ratio = edge_ratios(name, points(posed_as(name, skeleton)))
        assert np.quantile(ratio, 0.01) > 0.5
        assert np.quantile(ratio, 0.99) < 2.0
        assert ratio.max() < 6.0


def edge_ratios(name: str, now_m: FloatArray) -> FloatArray:
    """Lengths of the mesh's edges over those at rest, the median being 1."""
    pairs, was = long_edges(name)
    ratio = np.linalg.norm(now_m[pairs[:, 1]] - now_m[pairs[:, 0]], axis=1) / was
    return np.asarray(ratio / np.median(ratio))


@cache
def long_edges(name: str) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Ends (n, 2) and lengths (n,) at rest of the mesh's edges beyond 2 mm."""
    mesh = mesh_of(name)
    sides = np.sort(
        np.concatenate([mesh.triangles[:, pair] for pair in ([0, 1], [1, 2], [2, 0])]), axis=1
    )
    pairs: npt.NDArray[np.intp] = np.unique(sides, axis=0).astype(np.intp)
    was = np.linalg.norm(np.diff(mesh.p_m[pairs].astype(np.float64), axis=1)[:, 0], axis=1)
    long = was > 0.002
    return pairs[long], was[long]


def test_a_turned_palm_twists_the_forearm_evenly() -> None:
    """Half of the hand's turn reaches the middle of the forearm, and none the elbow."""
    model = tree_of("motive")
    palms = {"LHand": rotation(0.0, 80.0), "RHand": rotation(0.0, -80.0)}
    posed = posed_as("human", posed_by(model, palms))
    for side, sign in (("Left", 1.0), ("Right", -1.0)):
        turns = turns_of(posed)
        rest = figure().asset_from_node()[:, :3, 3]
        joints = [
            figure().node_named(f"{side}ForeArm{end}")
            for end in ("", "Twist0", "Twist50", "Twist100")
        ]
        bone = rest[figure().node_named(f"{side}Hand")] - rest[joints[0]]
        along = bone / np.linalg.norm(bone)
        angles = [
            math.degrees(float(twist_rad(turns[joints[0]].T @ turns[joint], along)))
            for joint in joints[1:]
        ]
        assert angles == pytest.approx([0.0, 0.5 * angles[2], angles[2]], abs=1.0)
        assert abs(angles[2]) == pytest.approx(80.0, abs=3.0), sign


def test_a_shoulder_that_turns_an_arm_does_not_wring_it() -> None:
    """The arm's upper end stays with the chest, its lower end turns with the bone."""
    model = tree_of("motive")
    posed = posed_as("human", posed_by(model, {"LUArm": rotation(0.0, 70.0)}))
    turns, rest = turns_of(posed), figure().asset_from_node()[:, :3, 3]
    chest, arm, low, middle = (
        figure().node_named(n) for n in ("Chest", "LeftArm", "LeftArmTwist0", "LeftArmTwist50")
    )
    bone = rest[figure().node_named("LeftForeArm")] - rest[arm]
    along = bone / np.linalg.norm(bone)
    angles = [
        math.degrees(float(twist_rad(turns[chest].T @ turns[node], along)))
        for node in (low, middle, arm)
    ]
    assert angles[0] == pytest.approx(0.0, abs=1e-6)
    assert angles[1] == pytest.approx(0.5 * angles[2], abs=0.5)
    assert abs(angles[2]) > 50.0
