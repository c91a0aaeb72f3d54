"""Stamps of an IMU that are late by a constant: found while the body turns, and taken out of everything."""

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
from vil_bridge.world.inertial.bias import GyroBias
from vil_bridge.world.world import World

MS = 1_000_000
T0_NS = 10**12
MOCAP_NS = 16 * MS
TRACKED = np.ones(1, dtype=np.bool_)
NOISE_RAD = np.radians(0.1)


def flown(late_ms: float, seconds: float, start_s: float = 4.0) -> Iterator[tuple[World, DroneMotion, int]]:
    """A brisk flight, mocap with 0.1 degrees of noise; yields after each frame. The IMU's stamps are late."""
    motion, rng = DroneMotion(path=BRISK, imu_rate_hz=250), np.random.default_rng(2)
    world = World({"mocap": Transform.identity()}, [Actor("drone", ActorKind.VEHICLE, "mocap", "drone", imu="imu")])
    start_ns, late_ns = round(start_s * 1e9), round(late_ms * MS)
    told_ns = start_ns - 100 * MS
    for t_ns in range(start_ns, start_ns + round(seconds * 1e9), MOCAP_NS):
        for sample_ns, w_radps, f_mps2 in motion.imu_between(told_ns, t_ns):
            world.ingest(ImuSample("imu", None, T0_NS + sample_ns + late_ns, w_radps, f_mps2))
        told_ns = t_ns
        pose = motion.truth(t_ns)
        q_xyzw = q_mul(pose.q_xyzw, q_exp(NOISE_RAD * rng.standard_normal(3)))
        frame = SourceFrame("mocap", t_ns, None, T0_NS + t_ns, ("drone",), pose.p_m[None], q_xyzw[None], TRACKED)
        world.ingest(frame)
        yield world, motion, t_ns


def bias_of(world: World) -> GyroBias:
    predictor = world.predictor("drone")
    assert predictor is not None
    return predictor.bias


@cache
def landed(late_ms: float) -> tuple[World, int, float]:
    """The world after 15 s, the newest frame's time, and how well the last second's rotations were told 48 ms ahead."""
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


@pytest.mark.parametrize("late_ms", [-6.0, 0.0, 6.0])
def test_lateness_is_found_in_flight(late_ms: float) -> None:
    bias = bias_of(landed(late_ms)[0])
    assert 1e3 * bias.late_s == pytest.approx(late_ms, abs=1.0)
    np.testing.assert_allclose(bias.bias_radps, (0.01, -0.02, 0.015), atol=5e-3)
    assert bias.rejected == 0


def test_a_late_imu_tells_as_much_as_one_in_time() -> None:
    assert landed(-6.0)[2] < 1.2 * landed(0.0)[2]


def test_samples_are_told_at_mocaps_times() -> None:
    world, t_ns, _ = landed(6.0)
    late_ns, newest_ns = bias_of(world).late_ns, T0_NS + t_ns + 6 * MS
    samples = world.imu_since("drone", newest_ns - 50 * MS)
    assert samples is not None
    assert samples.t_ns[-1] == newest_ns - late_ns
    assert samples.t_ns[0] > newest_ns - 50 * MS
    assert world.motion_at("drone", newest_ns + 20 * MS).imu_age_ns == 20 * MS + late_ns


def test_nothing_is_guessed_at_rest() -> None:
    *_, (world, _, _) = flown(6.0, 0.9, start_s=0.1)
    assert abs(bias_of(world).late_s) < 1e-5


def test_lateness_has_bounds() -> None:
    for world, _, _ in flown(60.0, 5.0):
        assert abs(bias_of(world).late_s) <= 0.02


def test_a_new_clock_is_learnt_anew() -> None:
    *_, (world, _, _) = flown(0.0, 5.0)
    bias = bias_of(world)
    sure_s, std_radps = np.sqrt(bias._P[3, 3]), bias.std_radps
    bias.reset_clock()
    assert np.sqrt(bias._P[3, 3]) == pytest.approx(5e-3)
    assert sure_s < 3e-3
    np.testing.assert_allclose(bias.std_radps, std_radps)
