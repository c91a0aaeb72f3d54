"""From the vehicle's own samples to a camera's motion.

Golden value G9, and every reason to fall back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support import onboard as rig
from tests.support.onboard import T0_NS
from vil_bridge import client
from vil_bridge.client import MeasuredBody, Motion
from vil_bridge.client_warp import (
    ImuRing,
    LateWarper,
    Plane,
    Pose,
    Warped,
    homography,
    q_to_matrix,
    rotation_translation,
)
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray

MS = 1_000_000
DT_NS = 56 * MS
SMALL = np.zeros((768, 1024), np.uint8)
R_G9 = [
    [0.997602076, -0.039537776, -0.056805482],
    [0.037931284, 0.998856953, -0.029086183],
    [0.057890553, 0.026861732, 0.997961488],
]
DP_G9_M = (0.110725745, -0.012043031, 0.052686902)
IMAGES_G9 = {
    2.0: [(512.267381, 402.832281), (11.413813, 55.248158), (1094.609713, 806.968263)],
    5.0: [(531.070228, 400.063817), (35.517512, 57.250498), (1106.016760, 797.800167)],
    1e9: [(543.312541, 398.261302), (51.236847, 58.556333), (1113.429662, 791.842253)],
}


def moved(late: Warped) -> tuple[FloatArray, FloatArray]:
    """R_rn and dp that a warp found."""
    pose = late.frame.pose_display
    assert late.pose_display is not None
    return rotation_translation(Pose(pose.p_m, pose.q_xyzw), late.pose_display)


def warped(
    imu: ImuRing, t_ns: int = T0_NS + DT_NS, info: dict[str, Any] | None = None, **changes: Any
) -> Warped:
    return LateWarper(imu).warp(rig.frame(SMALL, **changes), info or rig.INFO, t_ns)


def error_px(late: Warped) -> float:
    """Of the picture's centre, far away."""
    R, _ = moved(late)
    at = late.K @ R.T @ np.array([0.0, 0.0, 1.0])
    return float(np.linalg.norm(at[:2] / at[2] - np.array(IMAGES_G9[1e9][0])))


def test_inertial_samples_to_homography() -> None:
    late = warped(rig.ring())
    assert (late.motion, late.problem, late.t_ns, late.imu_age_ns) == (
        "inertial",
        "",
        T0_NS + DT_NS,
        0,
    )
    R, dp_m = moved(late)
    np.testing.assert_allclose(R, R_G9, atol=1e-8)
    np.testing.assert_allclose(dp_m, DP_G9_M, atol=1e-8)
    corners = np.array([(511.5, 383.5, 1), (0, 0, 1), (1023, 767, 1)])
    for d_m, images in IMAGES_G9.items():
        at = corners @ homography(late.K, R, dp_m, Plane(d_m)).T
        np.testing.assert_allclose(at[:, :2] / at[:, 2:], images, atol=2e-5)


def test_wrong_variants_of_the_samples_show() -> None:
    """Raw bias, missing mounting, no lever arm, no gravity: each moves the picture elsewhere."""
    right = warped(rig.ring())
    assert error_px(right) < 1e-4
    motion = right_motion()
    assert error_px(warped(rig.ring(), motion=replace(motion, gyro_bias_radps=None))) > 1.0
    straight = {"p_m": [0, 0, 0], "ypr_deg": [0, 0, 0]}
    assert error_px(warped(rig.ring(), info={**rig.INFO, "T_body_imu": straight})) > 10.0
    no_lever = {**rig.INFO, "T_body_imu": {**rig.INFO["T_body_imu"], "p_m": [0, 0, 0]}}
    assert np.linalg.norm(moved(warped(rig.ring(), info=no_lever))[1] - DP_G9_M) > 1e-4
    still = warped(rig.ring(), motion=replace(motion, v_world_mps=np.zeros(3)))
    assert np.linalg.norm(moved(still)[1] - DP_G9_M) == pytest.approx(
        np.linalg.norm(rig.V_MPS) * 0.056, rel=1e-6
    )


def test_what_the_bridge_foretold_is_left_out() -> None:
    """The samples go on from the newest instant that was measured, however wrong the bridge's
    forecast from there.
    """
    begun = rig.truth(0)
    pose = client.Pose(begun.T_world_body.p_m, begun.T_world_body.q_xyzw)
    measured = MeasuredBody(T0_NS, pose, begun.v_world_mps, rig.W_RADPS)
    foretold = replace(
        right_motion(),
        v_world_mps=np.ones(3),
        w_body_radps=np.ones(3),
        measured=measured,
        imu_late_ns=0,
    )
    wrong = client.Pose(np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]))
    late = warped(rig.ring(), motion=foretold, pose_display=wrong, t_ns=T0_NS + DT_NS)
    now = rig.truth(DT_NS)
    assert (
        late.pose_display is not None
        and late.v_world_mps is not None
        and late.w_body_radps is not None
    )
    camera = now.T_world_body @ rig.T_BODY_OPTICAL
    np.testing.assert_allclose(late.pose_display.p_m, camera.p_m, atol=1e-8)
    np.testing.assert_allclose(q_to_matrix(late.pose_display.q_xyzw), camera.rotation(), atol=1e-8)
    np.testing.assert_allclose(late.v_world_mps, now.v_world_mps, atol=1e-8)
    np.testing.assert_allclose(late.w_body_radps, rig.W_RADPS, atol=1e-12)


def test_accelerometer_bias_gyroscope_gain_and_lateness_are_taken_out() -> None:
    bias_mps2, scale = np.array([0.3, -0.2, 0.1]), np.array([0.02, -0.01, 0.03])
    imu, late_ns = ImuRing(), 4 * MS
    for t_ns in range(T0_NS - 10 * MS, T0_NS + DT_NS + 1, rig.STEP_NS):
        w_radps, f_mps2 = rig.sample()
        w_radps = rig.BIAS_RADPS + (w_radps - rig.BIAS_RADPS) / (1.0 + scale)
        imu.append(
            t_ns + late_ns, w_radps * (1.0 if t_ns >= T0_NS - 2 * MS else 5.0), f_mps2 + bias_mps2
        )
    motion = replace(
        right_motion(), accel_bias_mps2=bias_mps2, gyro_scale=scale, imu_late_ns=late_ns
    )
    late = warped(imu, motion=motion)
    assert (late.motion, late.imu_age_ns) == ("inertial", 0)
    np.testing.assert_allclose(moved(late)[1], DP_G9_M, atol=1e-8)
    assert error_px(late) < 1e-4
    unsynchronised = rig.frame(SMALL, motion=replace(motion, imu_late_ns=-30 * MS))
    told = LateWarper(imu, imu_late_ns=late_ns).warp(unsynchronised, rig.INFO, T0_NS + DT_NS)
    np.testing.assert_array_equal(moved(told)[1], moved(late)[1])
    unaware = warped(imu, motion=replace(motion, accel_bias_mps2=None))
    assert np.linalg.norm(moved(unaware)[1] - DP_G9_M) == pytest.approx(
        0.5 * 0.056**2 * 0.374, rel=0.01
    )


def right_motion() -> Motion:
    motion = rig.frame(SMALL).motion
    assert motion is not None
    return motion


def test_what_the_vehicle_knows_itself_comes_first() -> None:
    motion = replace(right_motion(), gyro_bias_radps=np.ones(3))
    unknown = {**rig.INFO, "T_body_imu": None}
    warper = LateWarper(
        rig.ring(), T_body_imu=rig.INFO["T_body_imu"], gyro_bias_radps=rig.BIAS_RADPS
    )
    assert error_px(warper.warp(rig.frame(SMALL, motion=motion), unknown, T0_NS + DT_NS)) < 1e-4


def test_backwards_is_the_inverse_of_forwards() -> None:
    late = LateWarper(rig.ring()).warp(rig.frame(SMALL, dt_ns=DT_NS), rig.INFO, T0_NS)
    assert (late.motion, late.t_ns) == ("inertial", T0_NS)
    begun = rig.truth(0).T_world_body @ rig.T_BODY_OPTICAL
    assert late.pose_display is not None
    np.testing.assert_allclose(late.pose_display.p_m, begun.p_m, atol=1e-9)
    np.testing.assert_allclose(late.pose_display.q_xyzw, begun.q_xyzw, atol=1e-9)


@pytest.mark.parametrize("age_ms", [2, 10, 30])
def test_the_newest_sample_is_held_for_a_moment(age_ms: int) -> None:
    late = warped(rig.ring(last_ns=T0_NS + DT_NS - age_ms * MS))
    assert (late.motion, late.imu_age_ns) == ("inertial", age_ms * MS)
    assert error_px(late) < 1e-4  # the rate is constant here


def jumped(by_ns: int) -> ImuRing:
    """Samples whose stamps jump 20 ms after the frame."""
    imu = rig.ring(last_ns=T0_NS + 20 * MS)
    for i in range(1, 15):
        imu.append(T0_NS + 20 * MS + by_ns + i * rig.STEP_NS, *rig.sample())
    return imu


@pytest.mark.parametrize(
    ("imu", "problem"),
    [
        (ImuRing(), "reach back"),
        (rig.ring(first_ns=T0_NS + MS), "reach back"),
        (rig.ring(last_ns=T0_NS + 10 * MS), "46 ms old"),
        (jumped(300 * MS), "gap of 302 ms"),
        (jumped(5_000 * MS), "reach back"),
        (jumped(-5_000 * MS), "old"),
    ],
    ids=["none", "too new", "stale", "gap", "jump ahead", "jump back"],
)
def test_without_good_samples_the_rate_is_held_and_it_says_why(imu: ImuRing, problem: str) -> None:
    late = warped(imu)
    assert late.motion == "constant-rate" and problem in late.problem and late.imu_age_ns is None
    assert late.t_ns == T0_NS + DT_NS
    R, _ = moved(late)
    np.testing.assert_allclose(R, R_G9, atol=1e-8)  # of a constant rate
    assert late.pose_display is not None
    body = Transform(rig.START.p_m + 0.056 * rig.V_MPS, rig.truth(DT_NS).T_world_body.q_xyzw)
    np.testing.assert_allclose(late.pose_display.p_m, (body @ rig.T_BODY_OPTICAL).p_m, atol=1e-9)


def test_without_a_mounting_the_rate_is_held() -> None:
    late = warped(rig.ring(), info={**rig.INFO, "T_body_imu": None})
    assert (late.motion, late.problem) == ("constant-rate", "T_body_imu is not known")


def test_what_the_bridge_measured_long_ago_is_no_beginning() -> None:
    long_ago = MeasuredBody(
        T0_NS - 450 * MS, client.Pose(np.zeros(3), np.array([0, 0, 0, 1.0])), *np.zeros((2, 3))
    )
    motion = replace(right_motion(), measured=long_ago)
    late = warped(rig.ring(first_ns=T0_NS - 600 * MS), motion=motion)
    assert (late.motion, late.problem) == (
        "constant-rate",
        "the bridge measured the vehicle 506 ms before",
    )


def test_too_far_ahead_the_picture_stays_and_so_does_its_stamp() -> None:
    late = warped(ImuRing(), t_ns=T0_NS + 400 * MS)
    assert (late.motion, late.method, late.t_ns) == ("none", "none", T0_NS)
    assert "too far to extrapolate: 400 ms" in late.problem
    assert late.image is late.frame.image and late.valid.all() and late.valid_fraction == 1.0


def test_a_fixed_camera_is_left_alone() -> None:
    late = warped(rig.ring(), motion=None)
    assert (late.motion, late.method, late.t_ns) == ("none", "none", T0_NS)
    assert "no motion" in late.problem


def test_samples_that_come_in_bursts_are_held_and_have_no_trend() -> None:
    """Of two that are 20 us apart the slope is that of their noise.

    9 ms later it would be hundreds of times that.
    """
    imu, rng = ImuRing(), np.random.default_rng(1)
    for burst_ns in range(0, 60 * MS, 12 * MS):
        for sample_ns in (burst_ns, burst_ns + MS // 50):
            assert imu.append(sample_ns, (0, 0, rng.uniform(-0.01, 0.01)), (0, 0, 9.8))
    newest_ns = 48 * MS + MS // 50
    t_ns, w, _, held_ns = imu.between(newest_ns, newest_ns + 9 * MS)
    assert held_ns == 9 * MS and t_ns[-1] == newest_ns + 9 * MS
    assert w[-1, 2] == w[0, 2]


def test_the_ring_keeps_the_newest_and_counts_the_rest() -> None:
    imu = ImuRing(capacity=4)
    for i in range(10):
        assert imu.append(2 * i * MS, (i, 0, 0), (0, 0, 9.8))
    assert not imu.append(18 * MS, (0, 0, 0), (0, 0, 9.8))
    assert not imu.append(16 * MS, (0, 0, 0), (0, 0, 9.8))
    for bad in (float("nan"), float("inf"), 1e4):
        assert not imu.append(20 * MS, (bad, 0, 0), (0, 0, 9.8))
    assert not imu.append(20 * MS, (0, 0), (0, 0, 9.8))
    assert imu.counters == {"rejected": 4, "out_of_order": 2, "resets": 0}
    t_ns, w, f, held_ns = imu.between(13 * MS, 22 * MS)
    assert t_ns.tolist() == [13 * MS, 14 * MS, 16 * MS, 18 * MS, 22 * MS]
    np.testing.assert_allclose(w[:, 0], [6.5, 7, 8, 9, 11], atol=1e-9)
    np.testing.assert_allclose(f[:, 2], 9.8, atol=1e-9)
    assert held_ns == 4 * MS
    t_ns, w, _, held_ns = imu.between(16 * MS, 38 * MS)
    assert t_ns.tolist() == [16 * MS, 18 * MS, 28 * MS, 38 * MS] and held_ns == 20 * MS
    np.testing.assert_allclose(w[:, 0], [8, 9, 14, 14], atol=1e-9)  # the trend goes on for 10 ms
    with pytest.raises(LookupError, match="reach back"):
        imu.between(10 * MS, 18 * MS)
    assert imu.append(5_000 * MS, (0, 0, 0), (0, 0, 9.8))
    assert imu.counters["resets"] == 1
    with pytest.raises(LookupError, match="reach back"):
        imu.between(16 * MS, 5_000 * MS)
