"""The vision pilot's filter: derivatives, a case by hand, consistency; its path and its heading."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.config.course import load_course
from vil_bridge.core.geometry import Transform, q_conj, q_exp, q_log, q_mul, q_rotate
from vil_bridge.core.types import FloatArray
from vil_simulation.race.vision.gate_filter import BODY, GateFilter
from vil_simulation.race.vision.gate_map import GateMap
from vil_simulation.race.vision.gate_path import GatePath, HeadingControl
from vil_simulation.race.vision.readings import PilotEquipment

COURSE = load_course("alphapilot")
GATES = GateMap.of(COURSE)
EQUIPMENT = PilotEquipment()
HERE = Transform(COURSE.start.p_m, COURSE.start.q_xyzw)
DT_NS = 4_000_000
GRAVITY = np.array([0.0, 0.0, 9.80665])


def filter_at(pose: Transform = HERE) -> GateFilter:
    return GateFilter(GATES, pose, np.zeros(3), EQUIPMENT.camera, EQUIPMENT.T_body_camera)


def segments(lines: FloatArray, corners_px: FloatArray) -> FloatArray:
    """Return a piece of each side, (4, 2, 2), from the corners of an opening."""
    return (
        np.stack([corners_px, np.roll(corners_px, -1, axis=0)], axis=1) + 0.0 * lines[:, :1, None]
    )


def test_an_opening_measures_what_its_derivatives_say() -> None:
    one = filter_at()
    seen = one.sides(0)
    ends = segments(seen.lines, seen.corners_px) + np.random.default_rng(1).normal(
        0.0, 2.0, (4, 2, 2)
    )
    H, distance = one._opening(0, ends, np.zeros(len(one.P)))
    step = 1e-6
    for column in (*range(3), *range(6, 9), *range(BODY, BODY + 4)):
        error = np.zeros(len(one.P))
        error[column] = step
        _, after = one._opening(0, ends, error)
        assert H[:, column] == pytest.approx((after - distance) / step, rel=1e-3, abs=1e-2)
    assert not H[:, 3:6].any() and not H[:, BODY + 4 :].any()


def test_a_range_above_the_floor_is_the_scalar_kalman_filter() -> None:
    one = filter_at()
    before = one.P[8, 8]
    assert one.add_range(float(HERE.p_m[2]) + 0.02, 0.1, 9.0)
    gain = before / (before + 0.1**2)
    one.add_imu(0, np.zeros(3), GRAVITY)
    assert one.state()[2] - HERE.p_m[2] == pytest.approx(0.02 * gain, rel=1e-6)
    assert one.P[8, 8] == pytest.approx(before * (1.0 - gain), rel=1e-6)
    assert not one.add_range(float(HERE.p_m[2]) - 2.0, 0.1, 9.0)  # the sill of a gate


def test_an_opening_moves_the_estimate_of_its_gate_and_no_other() -> None:
    moved = np.array([0.6, -0.4, 0.0, 0.03])
    truth, one = filter_at(), filter_at()
    truth.shifts[0] = moved
    for _ in range(60):
        seen = truth.sides(0)
        assert one.add_opening(0, segments(seen.lines, seen.corners_px), 1.0, 9.0) is not None
    assert one.shifts[0][:3] == pytest.approx(moved[:3], abs=0.1)
    assert np.abs(one.shifts[1:]).max() < 1e-6
    assert one.std_m(0) < 0.25  # at 27 m
    one.doubt(0)
    assert one.std_m(0) == pytest.approx(1.0 / math.sqrt(3.0))


def test_a_wrong_side_does_not_count_and_a_wrong_opening_is_refused() -> None:
    one = filter_at()
    seen = one.sides(1)  # its place is known to 2 cm
    ends = segments(seen.lines, seen.corners_px)
    ends[1] += (25.0, 0.0)
    assert one.add_opening(1, ends, 1.5, 4.5) is not None
    assert np.abs(one.shifts[1]).max() < 0.01
    assert one.add_opening(1, ends + 60.0, 1.5, 4.5) is None


def test_the_filter_is_consistent() -> None:
    """Normalized squared errors of position and velocity, 6 numbers, over runs with all errors
    drawn from the model.
    """
    squares = [_run(seed) for seed in range(12)]
    assert 0.3 * 6.0 < float(np.mean(squares)) < 1.7 * 6.0


def _run(seed: int) -> float:
    rng = np.random.default_rng(seed)
    one = filter_at()
    drawn = rng.normal(0.0, np.sqrt(np.diag(one.P)))
    truth = filter_at(one._moved(drawn))
    truth.shifts = drawn[BODY:].reshape(-1, 4)
    v, pose = drawn[3:6].copy(), truth._nav.T_world_body
    w_bias, f_bias = drawn[9:12], drawn[12:15]
    dt_s = 1e-9 * DT_NS
    w, a = np.array([0.1, -0.05, 0.05]), np.array([-0.4, 0.3, 0.1])
    for k in range(501):
        f = q_rotate(q_conj(pose.q_xyzw), a + GRAVITY)
        noise = rng.normal(0.0, 1.0, 6) / math.sqrt(dt_s)
        one.add_imu(k * DT_NS, w + w_bias + 2e-3 * noise[:3], f + f_bias + 1e-2 * noise[3:])
        if k % 8 == 0:
            one.advance()
            truth._nav = truth._nav.__class__(k * DT_NS, pose, v)
            seen = truth.sides(0)
            ends = segments(seen.lines, seen.corners_px)
            one.add_opening(0, ends + rng.normal(0.0, 3.0, ends.shape), 1.5, 50.0)
            one.add_range(
                float(pose.p_m[2] / pose.rotation()[2, 2]) + rng.normal(0.0, 0.1), 0.1, 50.0
            )
        pose = Transform(
            pose.p_m + v * dt_s + 0.5 * a * dt_s**2, q_mul(pose.q_xyzw, q_exp(w * dt_s))
        )
        v = v + a * dt_s
    one.advance()
    x = one._nav
    pose_then, v_then = (
        Transform(pose.p_m - v * dt_s + 0.5 * a * dt_s**2, pose.q_xyzw),
        v - a * dt_s,
    )
    error = np.concatenate((v_then - x.v_world_mps, pose_then.p_m - x.T_world_body.p_m))
    turned = q_log(q_mul(q_conj(x.T_world_body.q_xyzw), q_mul(pose.q_xyzw, q_exp(-w * dt_s))))
    assert float(np.linalg.norm(turned)) < 0.03
    return float(error @ np.linalg.solve(one.P[3:9, 3:9], error))


def test_the_path_leads_through_the_gates_and_follows_them() -> None:
    path = GatePath(GATES, COURSE.order, COURSE.start.p_m)
    times = np.linspace(0.0, path.duration_s, 6000)
    shifts = np.zeros((11, 4))
    shifts[:, 0] = 1.0
    for moved in (np.zeros((11, 4)), shifts):
        for _ in range(60):
            path.follow(moved, 0.1)
        rows = path._curve.derivatives(times)
        for gate, centre in enumerate(GATES.centres_m + moved[:, :3]):
            away = np.linalg.norm(rows[:, 0, :3] - centre, axis=1)
            nearest = int(away.argmin())
            assert away[nearest] < 0.05
            forward = rows[nearest, 1, :3] / np.linalg.norm(rows[nearest, 1, :3])
            assert forward @ GATES.axes[gate, :, 0] > 0.9


def test_the_heading_turns_the_short_way_without_a_jump() -> None:
    heading = HeadingControl(3.0)
    rates = []
    for _ in range(1500):
        heading.turn(-3.0, 1.0 / 240.0)
        rates.append(heading.yaw_radps)
    assert heading.yaw_rad == pytest.approx(2.0 * math.pi - 3.0, abs=1e-3)
    assert max(rates) <= 1.5 and np.abs(np.diff(rates)).max() <= 4.0 / 240.0 + 1e-9
