"""Hand-eye calibration on a real recording and on a motion whose truth is known."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.support.align import GRAVITY, Shaken
from tests.support.common import data_dir
from vil_bridge.core.geometry import (
    Transform,
    q_conj,
    q_exp,
    q_from_euler_zyx,
    q_log,
    q_mul,
    q_rotate,
)
from vil_bridge.core.types import FloatArray
from vil_bridge.setup.align.hand_eye import HandEye, calibrate
from vil_bridge.setup.align.segmentation import CalibrationError, ImuTrack, PoseTrack

MS = 1_000_000
S = 1_000_000_000


def angle_deg(a: FloatArray, b: FloatArray) -> float:
    return float(np.degrees(np.linalg.norm(q_log(q_mul(q_conj(a), b)))))


def mounted(poses: PoseTrack, T_body_markers: Transform) -> PoseTrack:
    """Poses of the markers of a body whose poses are given."""
    p = poses.p_room_m + q_rotate(poses.q_room_markers, T_body_markers.p_m)
    return PoseTrack(poses.t_ns, p, q_mul(poses.q_room_markers, T_body_markers.q_xyzw))


def random_mounting(seed: int) -> Transform:
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=3)
    turn = rng.uniform(0.2, 3.0) * direction / np.linalg.norm(direction)
    return Transform(rng.uniform(-0.15, 0.15, 3), q_exp(turn))


# --- a real one -----------------------------------------------------------------------------------


@cache
def broad() -> tuple[PoseTrack, ImuTrack]:
    mav0 = data_dir("broad_07_fast_rotation") / "mav0"

    def read(sensor: str, columns: int) -> tuple[np.ndarray, FloatArray]:
        path = mav0 / sensor / "data.csv"
        t_ns = np.loadtxt(path, delimiter=",", usecols=0, dtype=np.int64)
        return t_ns, np.loadtxt(path, delimiter=",", usecols=range(1, columns))

    (t_ns, mocap), (imu_ns, imu) = read("mocap0", 8), read("imu0", 7)
    poses = PoseTrack(t_ns, mocap[:, :3], mocap[:, [4, 5, 6, 3]])
    return poses, ImuTrack(imu_ns, imu[:, :3], imu[:, 3:])


@cache
def as_recorded() -> HandEye:
    return calibrate(*broad())


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_a_random_mounting_of_a_real_body_comes_back(seed: int) -> None:
    poses, imu = broad()
    true = random_mounting(seed)
    late_ns = 37 * MS * (seed - 3)
    found = calibrate(mounted(PoseTrack(poses.t_ns - late_ns, *rest(poses)), true), imu)
    assert angle_deg(found.T_imu_markers.q_xyzw, true.q_xyzw) < 0.5
    assert np.linalg.norm(found.T_imu_markers.p_m - true.p_m) < 0.010
    # Most of that is the recording's own: it takes the origin of its poses for the IMU's. The same
    # is found whatever the mounting.
    own = as_recorded().T_imu_markers @ true
    assert angle_deg(found.T_imu_markers.q_xyzw, own.q_xyzw) < 0.01
    assert np.linalg.norm(found.T_imu_markers.p_m - own.p_m) < 0.0002
    assert found.offset_ns - as_recorded().offset_ns == pytest.approx(late_ns, abs=0.05 * MS)


def rest(poses: PoseTrack) -> tuple[FloatArray, FloatArray]:
    return poses.p_room_m, poses.q_room_markers


def test_a_real_body_has_small_uncertainties_and_a_level_room() -> None:
    found = as_recorded()
    assert np.degrees(found.sd_rad) < 0.1 and found.sd_m < 0.001
    assert found.room_tilt_deg < 0.5
    assert np.linalg.norm(found.gravity_room_mps2) == pytest.approx(9.81, abs=0.05)
    assert np.linalg.norm(found.gyro_bias_radps) < 0.02


def test_half_of_the_recording_says_the_same() -> None:
    poses, imu = broad()
    half = len(poses) // 2
    first, second = (
        calibrate(part, imu) for part in (poses.part(0, half), poses.part(half, len(poses)))
    )
    assert angle_deg(first.T_imu_markers.q_xyzw, second.T_imu_markers.q_xyzw) < 0.15
    assert np.linalg.norm(first.T_imu_markers.p_m - second.T_imu_markers.p_m) < 0.002


# --- one with a known truth -----------------------------------------------------------------------


def shaken(
    T_imu_markers: Transform,
    size_rad: tuple[float, float, float],
    *,
    seconds: float = 30.0,
    late_ns: int = 0,
) -> tuple[PoseTrack, ImuTrack]:
    """A body shaken by hand, seen by a noisy system (0.3 mm, 0.1 degrees) and felt by a noisy,
    biased IMU.
    """
    rng = np.random.default_rng(0)
    motion = Shaken(T_imu_markers, size_rad)
    imu_s = np.arange(0.0, seconds, 1 / 250)
    w, f = motion.felt(imu_s)
    w = w + rng.normal(0.0, 0.02, w.shape)
    f = f + rng.normal(0.0, 0.1, f.shape)
    pose_s = np.arange(0.7, seconds - 0.7, 1 / 120)
    body = PoseTrack((pose_s * S).astype(np.int64), motion.place(pose_s), motion.attitude(pose_s))
    markers = mounted(body, T_imu_markers)
    p = markers.p_room_m + rng.normal(0.0, 0.0003, markers.p_room_m.shape)
    q = q_mul(markers.q_room_markers, q_exp(rng.normal(0.0, 0.0017, p.shape)))
    return PoseTrack(markers.t_ns, p, q), ImuTrack((imu_s * S).astype(np.int64) + late_ns, w, f)


def test_a_known_mounting_bias_and_offset_come_back_within_the_stated_uncertainty() -> None:
    true = Transform.of((0.04, -0.03, 0.08), q_from_euler_zyx(2.0, 0.3, -1.0))
    found = calibrate(*shaken(true, (0.7, 0.6, 0.8), late_ns=12 * MS))
    error_deg = angle_deg(found.T_imu_markers.q_xyzw, true.q_xyzw)
    error_m = float(np.linalg.norm(found.T_imu_markers.p_m - true.p_m))
    assert error_deg < 0.1 and error_m < 0.002
    assert error_deg < 4 * np.degrees(found.sd_rad) and error_m < 4 * found.sd_m
    assert found.offset_ns == pytest.approx(12 * MS, abs=0.3 * MS)
    np.testing.assert_allclose(found.gyro_bias_radps, Shaken.bias_w_radps, atol=0.003)
    np.testing.assert_allclose(found.accel_bias_mps2, Shaken.bias_f_mps2, atol=0.03)
    np.testing.assert_allclose(found.gravity_room_mps2, GRAVITY, atol=0.05)


def test_a_gap_and_a_label_swap_do_no_harm() -> None:
    true = Transform.of((0.04, -0.03, 0.08), q_from_euler_zyx(2.0, 0.3, -1.0))
    poses, imu = shaken(true, (0.7, 0.6, 0.8))
    p, q = poses.p_room_m.copy(), poses.q_room_markers.copy()
    p[1000:1012] += [0.3, 0.1, 0.0]
    q[1000:1012] = q_mul(q[1000:1012], np.array([0.0, 0.0, 1.0, 0.0]))
    seen = np.r_[0:500, 620 : len(poses)]
    found = calibrate(PoseTrack(poses.t_ns[seen], p[seen], q[seen]), imu)
    assert angle_deg(found.T_imu_markers.q_xyzw, true.q_xyzw) < 0.15
    assert np.linalg.norm(found.T_imu_markers.p_m - true.p_m) < 0.004


def test_motion_that_does_not_tell_is_refused() -> None:
    true = Transform.of((0.04, -0.03, 0.08))
    with pytest.raises(CalibrationError, match=r"about one axis and at 0\.0 about the next"):
        calibrate(*shaken(true, (0.0, 0.0, 0.8)))
    with pytest.raises(
        CalibrationError,
        match=r"rotation is known to .* only|translation is known to .* only|about one axis",
    ):
        calibrate(*shaken(true, (0.06, 0.06, 0.06)))
    with pytest.raises(CalibrationError, match=r"only \d s of uninterrupted poses"):
        calibrate(*shaken(true, (0.7, 0.6, 0.8), seconds=5.0))
    nothing = np.empty(0, np.int64)
    with pytest.raises(CalibrationError, match="no inertial samples"):
        calibrate(
            shaken(true, (0.7, 0.6, 0.8))[0], ImuTrack(nothing, np.empty((0, 3)), np.empty((0, 3)))
        )
