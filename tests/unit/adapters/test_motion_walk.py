"""The procedural walk: a rigid skeleton, feet that stand still, and a circle."""

from __future__ import annotations

import numpy as np
import pytest

from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.core.geometry import q_conj, q_log, q_mul, q_rotate
from vil_bridge.core.types import FloatArray

S = 1_000_000_000
STEP_NS = S // 100


@pytest.fixture(scope="module")
def walk() -> WalkMotion:
    return WalkMotion("Actor")


@pytest.fixture(scope="module")
def poses(walk: WalkMotion) -> tuple[FloatArray, FloatArray]:
    """Ten seconds at 100 Hz: origins (n, m, 3) and attitudes (n, m, 4)."""
    skeletons = [walk.at(i * STEP_NS).skeletons[0] for i in range(1000)]
    return np.array([s.p_m for s in skeletons]), np.array([s.q_xyzw for s in skeletons])


def test_the_skeleton_is_a_tree_of_21_named_bones_of_an_adult(walk: WalkMotion) -> None:
    (model,) = walk.skeleton_models
    assert model.name == "Actor"
    assert len(model.bones) == len(set(model.bones)) == len(model.parents) == 21
    assert {"Hip", "Chest", "Head", "LUArm", "RHand", "LThigh", "RShin", "LFoot", "RToe"} <= set(
        model.bones
    )
    assert model.parents[0] == -1
    assert all(0 <= parent < i for i, parent in enumerate(model.parents[1:], start=1))
    rest_m = np.zeros((21, 3))
    for i, parent in enumerate(model.parents):
        rest_m[i] = model.offsets_m[i] + (rest_m[parent] if parent >= 0 else 0.0)
    bone = dict(zip(model.bones, rest_m, strict=True))
    assert bone["Head"][2] == pytest.approx(1.55)
    assert bone["LFoot"][2] == pytest.approx(0.08)
    assert bone["LHand"][1] == pytest.approx(-bone["RHand"][1]) == pytest.approx(0.73)


def test_a_frame_holds_the_skeleton_and_no_rigid_body(walk: WalkMotion) -> None:
    frame = walk.at(0)
    assert walk.subjects == frame.subjects == ()
    assert (
        frame.p_m.shape == (0, 3) and frame.q_xyzw.shape == (0, 4) and frame.tracked.shape == (0,)
    )
    (skeleton,) = frame.skeletons
    assert skeleton.model is walk.skeleton_models[0]
    assert skeleton.tracked.all() and skeleton.p_m.shape == (21, 3)


def test_every_bone_follows_from_its_parent(
    walk: WalkMotion, poses: tuple[FloatArray, FloatArray]
) -> None:
    p_m, q_xyzw = poses
    model = walk.skeleton_models[0]
    np.testing.assert_allclose(np.linalg.norm(q_xyzw, axis=-1), 1.0, atol=1e-12)
    for i, parent in enumerate(model.parents[1:], start=1):
        expected_m = p_m[:, parent] + q_rotate(q_xyzw[:, parent], model.offsets_m[i])
        np.testing.assert_allclose(p_m[:, i], expected_m, atol=1e-12, err_msg=model.bones[i])


def test_a_foot_stands_still_on_the_floor_for_more_than_half_of_each_stride(
    walk: WalkMotion, poses: tuple[FloatArray, FloatArray]
) -> None:
    bones = walk.skeleton_models[0].bones
    for side in "LR":
        toe_m = poses[0][:, bones.index(side + "Toe")]
        still = np.linalg.norm(np.diff(toe_m, axis=0), axis=1) < 1e-9
        assert 0.5 < still.mean() < 0.7
        np.testing.assert_allclose(toe_m[1:][still, 2], 0.02, atol=1e-9)
        assert toe_m[:, 2].min() > 0.0 and 0.05 < toe_m[:, 2].max() < 0.15
        # Ten strides in ten seconds, each onto a new place about 1.1 m further on.
        landings = np.flatnonzero(np.diff(still.astype(int)) == 1)
        prints_m = toe_m[landings + 2]
        assert 9 <= len(prints_m) <= 11
        steps_m = np.linalg.norm(np.diff(prints_m, axis=0), axis=1)
        assert (steps_m > 0.9).all() and (steps_m < 1.2).all()
    assert poses[0][:, :, 2].min() >= 0.0199


def test_legs_never_over_stretch_and_knees_bend_forward(
    walk: WalkMotion, poses: tuple[FloatArray, FloatArray]
) -> None:
    bones = walk.skeleton_models[0].bones
    p_m, q_xyzw = poses
    for side in "LR":
        hip, knee, ankle = (p_m[:, bones.index(side + b)] for b in ("Thigh", "Shin", "Foot"))
        reach_m = np.linalg.norm(ankle - hip, axis=1)
        assert reach_m.min() > 0.6 and reach_m.max() < 0.83 - 1e-4
        forward = q_rotate(q_xyzw[:, bones.index("Hip")], np.array([1.0, 0.0, 0.0]))
        assert (((knee - 0.5 * (hip + ankle)) * forward).sum(-1) > 0.0).all()


def test_the_walk_is_smooth(walk: WalkMotion, poses: tuple[FloatArray, FloatArray]) -> None:
    p_m, q_xyzw = poses
    speed_mps = np.linalg.norm(np.diff(p_m, axis=0), axis=-1) / (STEP_NS * 1e-9)
    assert speed_mps[:, 0].max() < 1.25 and speed_mps.max() < 5.0
    turned_rad = np.linalg.norm(q_log(q_mul(q_conj(q_xyzw[:-1]), q_xyzw[1:])), axis=-1)
    assert turned_rad.max() < 0.15


def test_the_hip_walks_a_circle_facing_along_it(walk: WalkMotion) -> None:
    motion = WalkMotion("Actor", center_m=(2.0, -1.0), radius_m=2.0, speed_mps=1.0)
    for t_ns in range(0, 12 * S, S // 3):
        skeleton = motion.at(t_ns).skeletons[0]
        outwards = skeleton.p_m[0, :2] - (2.0, -1.0)
        assert np.linalg.norm(outwards) == pytest.approx(2.0, abs=0.03)
        assert 0.85 < skeleton.p_m[0, 2] < 0.95
        forward = q_rotate(skeleton.q_xyzw[0], np.array([1.0, 0.0, 0.0]))
        along = np.array([-outwards[1], outwards[0]]) / np.linalg.norm(outwards)
        assert forward[:2] @ along > np.cos(0.15)


def test_arms_swing_against_the_legs(
    walk: WalkMotion, poses: tuple[FloatArray, FloatArray]
) -> None:
    bones = walk.skeleton_models[0].bones
    p_m, q_xyzw = poses
    forward = q_rotate(q_xyzw[:, 0], np.array([1.0, 0.0, 0.0]))
    ahead = {
        b: ((p_m[:, bones.index(b)] - p_m[:, 0]) * forward).sum(-1)
        for b in ("LHand", "RHand", "LFoot", "RFoot")
    }
    assert np.corrcoef(ahead["LHand"], ahead["LFoot"])[0, 1] < -0.7
    assert np.corrcoef(ahead["RHand"], ahead["RFoot"])[0, 1] < -0.7
