"""Stamps of an IMU that are late by a constant.

Found while the body turns, and taken out of everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from vil_adapters.motions.drone import BRISK, DroneMotion
from vil_bridge.core.geometry import Transform, q_conj, q_exp, q_log, q_mul
from vil_bridge.core.types import ActorKind, ImuSample, SourceFrame
from vil_bridge.world.actors import Actor
from vil_bridge.world.inertial.body_filter import BodyFilter
from vil_bridge.world.inertial.error_state import LATE
from vil_bridge.world.world import World

MS = 1_000_000
T0_NS = 10**12
MOCAP_NS = 16 * MS
TRACKED = np.ones(1, dtype=np.bool_)
NOISE_RAD = np.radians(0.1)


def flown(
    late_ms: float, seconds: float, start_s: float = 4.0
) -> Iterator[tuple[World, DroneMotion, int]]:
    """A brisk flight, mocap with 0.1 degrees of noise; yields after each frame.

    The IMU's stamps are late.
    """
    motion, rng = DroneMotion(path=BRISK, imu_rate_hz=250), np.random.default_rng(2)
    world = World(
        {"mocap": Transform.identity()},
        [Actor("drone", ActorKind.VEHICLE, "mocap", "drone", imu="imu")],
    )
    start_ns, late_ns = round(start_s * 1e9), round(late_ms * MS)
    given_ns = start_ns - 100 * MS
    for t_ns in range(start_ns, start_ns + round(seconds * 1e9), MOCAP_NS):
        for sample_ns, w_radps, f_mps2 in motion.imu_between(given_ns, t_ns):
            world.ingest(ImuSample("imu", None, T0_NS + sample_ns + late_ns, w_radps, f_mps2))
        given_ns = t_ns
        pose = motion.truth(t_ns)
        q_xyzw = q_mul(pose.q_xyzw, q_exp(NOISE_RAD * rng.standard_normal(3)))
        frame = SourceFrame(
            "mocap", t_ns, None, T0_NS + t_ns, ("drone",), pose.p_m[None], q_xyzw[None], TRACKED
        )
        world.ingest(frame)
        yield world, motion, t_ns


def body_of(world: World) -> BodyFilter:
    predictor = world.predictor("drone")
    assert predictor is not None
    return predictor.body


@cache
def landed(late_ms: float) -> tuple[World, int, float]:
    """The world after 15 s, the newest frame's time, and the median error of the last second's
    rotations at 48 ms.
    """
    errors = []
    asked: deque[tuple[int, Transform]] = deque()
    end: tuple[World, int] | None = None
    for world, motion, t_ns in flown(late_ms, 15.0):
        end = world, t_ns
        if t_ns < 18_000 * MS:
            continue
        asked.append((t_ns + 48 * MS, world.pose_at("drone", T0_NS + t_ns + 48 * MS).T_world_body))
        if asked[0][0] == t_ns:
            truth, shown = motion.truth(t_ns), asked.popleft()[1]
            errors.append(float(np.linalg.norm(q_log(q_mul(q_conj(truth.q_xyzw), shown.q_xyzw)))))
    assert end is not None
    return *end, float(np.median(errors))


@pytest.mark.parametrize("late_ms", [-6.0, 0.0, 6.0, 30.0])
def test_lateness_is_found_in_flight(late_ms: float) -> None:
    world, _, _ = landed(late_ms)
    body = body_of(world)
    std_ms = 1e3 * np.sqrt(body.sensors.P[LATE, LATE])
    assert 1e3 * body.sensors.late_s == pytest.approx(late_ms, abs=2.5 * std_ms)
    assert std_ms < 0.5
    np.testing.assert_allclose(body.sensors.gyro_bias_radps, (0.01, -0.02, 0.015), atol=5e-3)
    assert body.rejected == 0


def test_a_late_imu_is_as_good_as_one_in_time() -> None:
    assert landed(-6.0)[2] < 1.2 * landed(0.0)[2]


def test_samples_come_at_mocaps_times() -> None:
    world, t_ns, _ = landed(6.0)
    late_ns, newest_ns = body_of(world).sensors.late_ns, T0_NS + t_ns + 6 * MS
    samples = world.imu_since("drone", newest_ns - 50 * MS)
    assert samples is not None
    assert samples.t_ns[-1] == newest_ns - late_ns
    assert samples.t_ns[0] > newest_ns - 50 * MS
    assert world.motion_at("drone", newest_ns + 20 * MS).imu_age_ns == 20 * MS + late_ns


def test_nothing_is_guessed_at_rest() -> None:
    *_, (world, _, _) = flown(6.0, 0.9, start_s=0.1)
    assert abs(body_of(world).sensors.late_s) < 1e-3


def test_lateness_has_bounds() -> None:
    for world, _, _ in flown(300.0, 5.0):
        assert abs(body_of(world).sensors.late_s) <= 0.1


@pytest.mark.parametrize("clock", ["mocap", "imu"])
def test_a_clock_that_is_known_better_moves_the_lateness(clock: str) -> None:
    """A shift of one system's stamps shifts the lateness by as much, and nothing else."""
    *_, (world, _, _) = flown(0.0, 5.0)
    body = body_of(world)
    assert body.state is not None
    before, p_m = body.sensors, body.state.p_world_m
    if clock == "mocap":
        body.shift_poses(2 * MS)
    else:
        body.shift_imu(2 * MS)
    sign = -1 if clock == "mocap" else 1
    assert body.sensors.late_s - before.late_s == pytest.approx(sign * 2e-3)
    assert body.sensors.P[LATE, LATE] == pytest.approx(before.P[LATE, LATE] + 2e-3**2)
    assert body.state is not None and body.state.p_world_m is p_m
    assert body.state.t_ns - before.t_ns == (0 if clock == "mocap" else 2 * MS)
