"""Prediction and bias on a real room's recordings: real mocap, real IMU."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.common import data_dir
from vil_bridge.core.geometry import Transform, q_conj, q_exp, q_log, q_mul
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.bias import GyroBias
from vil_bridge.world.inertial.imu_buffer import ImuBuffer
from vil_bridge.world.inertial.preintegration import NavState, preintegrate, propagate
from vil_bridge.world.inertial.velocity import FIT_WINDOW_NS, fit_velocity, inertial_displacement


class Recording(NamedTuple):
    """Stamps in nanoseconds, positions, attitudes (scalar last), rates and forces."""

    mocap_ns: npt.NDArray[np.int64]
    p_m: FloatArray
    q_xyzw: FloatArray
    imu_ns: npt.NDArray[np.int64]
    w_radps: FloatArray
    f_mps2: FloatArray


@cache
def load(name: str) -> Recording:
    mav0 = data_dir(name) / "mav0"

    def read(sensor: str, columns: int) -> tuple[npt.NDArray[np.int64], FloatArray]:
        path = mav0 / sensor / "data.csv"
        t_ns = np.loadtxt(path, delimiter=",", usecols=0, dtype=np.int64)
        return t_ns, np.loadtxt(path, delimiter=",", usecols=range(1, columns))

    mocap_ns, mocap = read("mocap0", 8)
    imu_ns, imu = read("imu0", 7)
    return Recording(mocap_ns, mocap[:, :3], mocap[:, [4, 5, 6, 3]], imu_ns, imu[:, :3], imu[:, 3:])


@pytest.mark.parametrize("name", ["broad_12_slow_translation", "broad_07_fast_rotation"])
def test_bias_agrees_with_the_rest_at_both_ends(name: str) -> None:
    r = load(name)
    estimate, imu, fed = GyroBias(), ImuBuffer(), 0
    during_motion = []
    for i in range(len(r.mocap_ns)):
        while r.imu_ns[fed] <= r.mocap_ns[i]:
            imu.append(int(r.imu_ns[fed]), r.w_radps[fed], r.f_mps2[fed])
            fed += 1
        if estimate.observe(int(r.mocap_ns[i]), r.p_m[i], r.q_xyzw[i], imu):
            during_motion.append(estimate.bias_radps)
    first = r.w_radps[r.imu_ns < r.mocap_ns[0] + 5_000_000_000].mean(axis=0)
    last = r.w_radps[r.imu_ns > r.mocap_ns[-1] - 5_000_000_000].mean(axis=0)
    np.testing.assert_allclose(estimate.bias_radps, last, atol=5e-4)
    np.testing.assert_allclose(during_motion, np.broadcast_to((first + last) / 2, (len(during_motion), 3)), atol=7e-3)
    assert estimate.rejected <= 0.01 * estimate.updates


class Errors(NamedTuple):
    """Distance and angle from the pose recorded at the target time."""

    distance_m: float
    angle_rad: float


def prediction_errors(r: Recording, i: int, horizon_ns: int, bias: FloatArray) -> tuple[Errors, Errors, Errors] | None:
    """Held pose, constant twist, inertial; None where tracking had a gap."""
    window = (r.mocap_ns >= r.mocap_ns[i] - FIT_WINDOW_NS) & (r.mocap_ns <= r.mocap_ns[i])
    j = int(np.searchsorted(r.mocap_ns, r.mocap_ns[i] + horizon_ns))
    if j >= len(r.mocap_ns) or r.mocap_ns[j] - r.mocap_ns[i] > horizon_ns + 8_000_000 or np.count_nonzero(window) < 8:
        return None
    t_ns, p, q = r.mocap_ns[window], r.p_m[window], r.q_xyzw[window]
    dt_s = float(r.mocap_ns[j] - r.mocap_ns[i]) * 1e-9
    imu = ImuBuffer()
    known = (r.imu_ns > t_ns[0] - 8_000_000) & (r.imu_ns <= t_ns[-1])  # nothing of the future
    for t, w, f in zip(r.imu_ns[known], r.w_radps[known] - bias, r.f_mps2[known], strict=True):
        imu.append(int(t), w, f)
    past = imu.between(int(t_ns[0]), int(t_ns[-1]))
    future = imu.between(int(t_ns[-1]), int(r.mocap_ns[j]))
    assert past is not None and future is not None
    t_s = (t_ns - t_ns[-1]) * 1e-9
    v_twist = np.polyfit(t_s, p, 2)[1]
    w_twist = np.polyfit(t_s, q_log(q_mul(q_conj(q[-1]), q)), 2)[1]
    v = fit_velocity(t_ns, p, inertial_displacement(t_ns, past, q[0]))
    assert v is not None
    held = Transform(p[-1], q[-1])
    twist = Transform(p[-1] + v_twist * dt_s, q_mul(q[-1], q_exp(w_twist * dt_s)))
    inertial = propagate(NavState(int(t_ns[-1]), held, v), preintegrate(*future)).T_world_body

    def error(pose: Transform) -> Errors:
        turn = q_log(q_mul(q_conj(r.q_xyzw[j]), pose.q_xyzw))
        return Errors(float(np.linalg.norm(pose.p_m - r.p_m[j])), float(np.linalg.norm(turn)))

    return error(held), error(twist), error(inertial)


@pytest.mark.parametrize("horizon_ms", [60, 90])
def test_predicted_pose_against_the_recorded_one(horizon_ms: int) -> None:
    r = load("broad_12_slow_translation")
    bias = r.w_radps[r.imu_ns < r.mocap_ns[0] + 5_000_000_000].mean(axis=0)
    picked = np.random.default_rng(0).choice(np.arange(100, len(r.mocap_ns) - 100), 300, replace=False)
    found = [e for i in picked if (e := prediction_errors(r, int(i), horizon_ms * 1_000_000, bias)) is not None]
    assert len(found) > 200
    errors = np.array(found)  # (n, method, distance or angle)
    table = {
        method: [
            round(float(np.percentile(errors[:, k, axis], p)) * unit, 2)
            for axis, unit in ((0, 1e3), (1, 57.3))
            for p in (50, 95)
        ]
        for k, method in enumerate(("held", "constant twist", "inertial"))
    }
    print(f"\n{horizon_ms} ms ahead, mm median, 95 %, degrees median, 95 %: {table}")
    held, twist, inertial = (table[method] for method in ("held", "constant twist", "inertial"))
    assert twist[0] < 0.2 * held[0]
    assert inertial[0] < 0.6 * twist[0]
    assert inertial[1] < 0.7 * twist[1]
    assert inertial[2] < twist[2]
