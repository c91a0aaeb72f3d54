"""Real recordings of humans.

The CMU walk through forward kinematics, and names of bones everywhere.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.common import data_dir
from vil_adapters.recording.formats import open_recording
from vil_adapters.recording.model import MotionFile
from vil_bridge.bodies.skeleton import CANONICAL_BONES, canonical_bones, global_to_local
from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.core.types import SkeletonModel

CMU_UNIT_M = 0.0254 / 0.45


@pytest.fixture(scope="module")
def walk() -> MotionFile:
    return open_recording(data_dir("skeleton") / "cmu_12_01_walk.bvh", unit_m=CMU_UNIT_M)


def test_the_cmu_walk_has_constant_bones(walk: MotionFile) -> None:
    (track,) = walk.skeletons
    model, p_m = track.model, track.bones.p_m
    assert (
        len(model.bones) == 31
        and len(walk.t_ns) == 524
        and walk.rate_hz == pytest.approx(120.0, rel=1e-4)
    )
    parents = np.array(model.parents)
    child = parents >= 0
    lengths_m = np.linalg.norm(p_m[:, child] - p_m[:, parents[child]], axis=2)
    assert np.ptp(lengths_m, axis=0).max() < 1e-6
    assert lengths_m[0] == pytest.approx(np.linalg.norm(model.offsets_m[child], axis=1), abs=1e-9)


def test_the_cmu_walk_stands_on_the_floor(walk: MotionFile) -> None:
    """The lower foot's toe joint stays a few centimetres above the floor, the head high above
    it.
    """
    (track,) = walk.skeletons
    index = canonical_bones(track.model)
    p_m = track.bones.p_m
    toe_m = np.minimum(p_m[:, index["left_toe"], 2], p_m[:, index["right_toe"], 2])
    assert toe_m.min() > 0.0 and toe_m.max() < 0.1 and toe_m.std() < 0.015
    assert p_m[:, index["head"], 2].min() > 1.2
    assert np.linalg.norm(p_m[-1, 0, :2] - p_m[0, 0, :2]) > 2.0, "it walks, along the floor"
    assert np.ptp(p_m[:, 0, 2]) < 0.1
    standing = np.flatnonzero(p_m[:, index["left_toe"], 2] < toe_m.min() + 0.01)
    speed_mps = np.linalg.norm(np.diff(p_m[:, index["left_toe"]], axis=0), axis=1) * walk.rate_hz
    assert np.median(speed_mps[standing[standing < len(speed_mps)]]) < 0.3 * speed_mps.max(), (
        "a planted toe"
    )


def test_the_cmu_walk_is_a_motion(walk: MotionFile) -> None:
    (track,) = walk.skeletons
    for row in (0, 100, 523):
        (shown,) = walk.at(int(walk.t_ns[row])).skeletons
        assert shown.p_m.tolist() == track.bones.p_m[row].tolist() and shown.tracked.all()
    (between,) = walk.at((int(walk.t_ns[10]) + int(walk.t_ns[11])) // 2).skeletons
    middle_m = 0.5 * (track.bones.p_m[10] + track.bones.p_m[11])
    assert between.p_m == pytest.approx(middle_m, abs=1e-6)
    p_m, _ = global_to_local(between.p_m, between.q_xyzw, track.model.parents)
    assert p_m[1:] == pytest.approx(track.model.offsets_m[1:], abs=1e-3), (
        "interpolated joints stay together"
    )


@pytest.mark.parametrize(
    ("name", "joints", "frames", "period_ns"),
    [
        ("standard_skeleton", 24, 1, 1_000_000_000),
        ("full_precision_frame_time", 2, 3, 41_708_375),
        ("rotation_first_root", 4, 4, 40_000_000),
        ("sinusoidal", 4, 120, 16_666_667),
    ],
)
def test_parser_corner_cases(name: str, joints: int, frames: int, period_ns: int) -> None:
    recording = open_recording(data_dir("skeleton") / f"{name}.bvh", unit_m=0.01)
    (track,) = recording.skeletons
    assert (len(track.model.bones), len(recording.t_ns)) == (joints, frames)
    assert abs(recording.period_ns - period_ns) <= 1
    assert np.isfinite(track.bones.p_m).all() and track.bones.tracked.all()


def test_the_rotation_first_root_stands_where_its_channels_say() -> None:
    (track,) = open_recording(
        data_dir("skeleton") / "rotation_first_root.bvh", unit_m=1.0, up_axis="z"
    ).skeletons
    assert track.bones.p_m[:, 0].tolist() == [
        [10, 50, -20],
        [11, 51, -19],
        [12, 52, -18],
        [13, 53, -17],
    ]


def test_other_real_recordings_are_read() -> None:
    room = open_recording(data_dir("tumvi_room1") / "dataset-room1_512_16.csv.gz", subject="rig")
    assert room.rate_hz == pytest.approx(120.0, rel=1e-3)
    gaps_ns = np.diff(room.t_ns)[np.diff(room.t_ns) > 100_000_000]
    assert len(gaps_ns) == 5 and gaps_ns.max() > 1_000_000_000
    for start in room.t_ns[:-1][np.diff(room.t_ns) > 100_000_000]:
        assert not room.at(int(start - room.t_ns[0]) + 50_000_000).tracked.any()
    desk = open_recording(data_dir("trajectories") / "tum_freiburg1_xyz-groundtruth.txt")
    assert len(desk.t_ns) == 3000 and desk.rate_hz == pytest.approx(100.0, rel=0.01)


def test_the_same_capture_as_c3d_and_as_csv() -> None:
    pytest.importorskip("c3d", reason="the package is not installed (extra c3d)")
    binary = open_recording(data_dir("markers") / "markers_analogs.c3d").markers
    text = open_recording(data_dir("markers") / "markers.csv").markers
    assert binary is not None and text is not None
    assert binary.labels == text.labels
    assert (binary.tracked == text.tracked).all()
    np.testing.assert_allclose(
        binary.p_m[binary.tracked], text.p_m[text.tracked], rtol=0.0, atol=1e-5
    )
    trc = open_recording(data_dir("markers") / "markers.trc", up_axis="z").markers
    assert trc is not None and trc.labels[:2] == ("ASISl", "ASISr")


# --- names of bones -------------------------------------------------------------------------------

FBX = (
    "Hips Spine Spine1 Spine2 Neck Head LeftShoulder LeftArm LeftForeArm LeftHand "
    "RightShoulder RightArm RightForeArm"
)
FBX += (
    " RightHand LeftUpLeg LeftLeg LeftFoot LeftToeBase RightUpLeg RightLeg RightFoot RightToeBase"
)
VICON = (
    "Pelvis Thorax Head LClavicle LHumerus LRadius LHand RClavicle RHumerus RRadius RHand "
    "LFemur LTibia LFoot LToes"
)
VICON += " RFemur RTibia RFoot RToes"


def model_of(names: str, name: str = "Anna", prefix: str = "") -> SkeletonModel:
    bones = tuple(prefix + bone for bone in names.split())
    return SkeletonModel(name, bones, (-1, *[0] * (len(bones) - 1)), np.zeros((len(bones), 3)))


def named(model: SkeletonModel) -> dict[str, str]:
    return {part: model.bones[i] for part, i in canonical_bones(model).items()}


def test_motives_names() -> None:
    found = named(WalkMotion("Actor").skeleton_models[0])
    assert set(found) == set(CANONICAL_BONES)
    assert found["hips"] == "Hip" and found["spine"] == "Ab" and found["chest"] == "Chest"
    assert (
        found["left_upper_arm"] == "LUArm"
        and found["right_lower_leg"] == "RShin"
        and found["left_toe"] == "LToe"
    )


def test_cmu_names(walk: MotionFile) -> None:
    found = named(walk.skeleton_models[0])
    assert set(found) == set(CANONICAL_BONES)
    assert (found["spine"], found["chest"], found["neck"]) == ("LowerBack", "Spine1", "Neck")
    assert (found["left_upper_leg"], found["left_lower_leg"]) == ("LeftUpLeg", "LeftLeg")
    assert (found["right_upper_arm"], found["right_hand"]) == ("RightArm", "RightHand")


@pytest.mark.parametrize("prefix", ["", "mixamorig:", "Anna_", "Anna:"])
def test_fbx_and_qualisys_names(prefix: str) -> None:
    found = {
        part: bone.removeprefix(prefix)
        for part, bone in named(model_of(FBX, prefix=prefix)).items()
    }
    assert set(found) == set(CANONICAL_BONES)
    assert (found["spine"], found["chest"], found["left_lower_arm"]) == (
        "Spine",
        "Spine2",
        "LeftForeArm",
    )


def test_vicon_names() -> None:
    found = named(model_of(VICON))
    assert set(CANONICAL_BONES) - set(found) == {"spine", "neck"}
    assert (found["hips"], found["chest"], found["left_shoulder"]) == (
        "Pelvis",
        "Thorax",
        "LClavicle",
    )
    assert (found["right_upper_arm"], found["right_lower_arm"], found["left_foot"]) == (
        "RHumerus",
        "RRadius",
        "LFoot",
    )


def test_separators_and_sides_behind() -> None:
    found = named(
        model_of("pelvis spine_01 upper_arm.L upper_arm.R thigh_l thigh_r left_hand Right Hand")
    )
    assert found["left_upper_arm"] == "upper_arm.L" and found["right_upper_leg"] == "thigh_r"
    assert found["left_hand"] == "left_hand" and "head" not in found


def test_no_bone_is_two_parts(walk: MotionFile) -> None:
    for model in (
        walk.skeleton_models[0],
        model_of(FBX),
        model_of(VICON),
        model_of("Hips Spine1 Head"),
    ):
        bones = list(canonical_bones(model).values())
        assert len(bones) == len(set(bones))
