"""Rooms, actors, tracks and prediction, fed with the events that sources emit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from tests.support.world import MS, ROOM, _arrays, angle, frame, vehicle, world_of
from tests.unit.world.test_world_mistakes import flight
from vil_adapters.motions.drone import DroneMotion, ImuErrors
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import Transform, q_exp, q_from_euler_zyx, q_rotate
from vil_bridge.core.types import (
    ClockExchange,
    ImuSample,
    SourceFrame,
    SourceReset,
    TrackingState,
)
from vil_bridge.world.actors import TrackingLimits
from vil_bridge.world.world import World

MARKERS = Transform.of((0.02, 0.01, 0.05), q_from_euler_zyx(0.3, -0.1, 0.2))


def test_markers_in_the_room_become_the_body_in_the_world() -> None:
    patient = TrackingLimits(
        coast_after_ns=3600 * 10**9, stale_after_ns=3600 * 10**9, lost_after_ns=3600 * 10**9
    )
    world = world_of(vehicle("other"), vehicle(T_body_markers=MARKERS, limits=patient))
    T_room_markers = Transform.of((1.0, 2.0, 1.5), q_from_euler_zyx(0.5, 0.2, -0.4))
    t = now_ns()
    world.ingest(frame(t, {"unbound": Transform.identity(), "drone": T_room_markers}))
    state = world.snapshot(t).actors[1]
    expected = ROOM @ T_room_markers @ MARKERS.inverse()
    np.testing.assert_allclose(state.T_world_body.p_m, expected.p_m, atol=1e-12)
    assert angle(state.T_world_body, expected) < 1e-9
    assert state.state is TrackingState.TRACKED
    assert world.snapshot(t).actors[0].age_ns is None


def test_constant_twist_is_predicted_and_the_past_is_interpolated() -> None:
    world = world_of(vehicle())
    v, w = np.array([1.0, -0.5, 0.2]), np.array([0.1, 0.3, -0.8])
    t0 = now_ns() - 200 * MS

    def pose(t_ns: int) -> Transform:
        s = 1e-9 * (t_ns - t0)
        return Transform(v * s, q_exp(w * s))

    for k in range(21):
        world.ingest(frame(t0 + 10 * k * MS, {"drone": pose(t0 + 10 * k * MS)}))
    for ahead_ms in (60, -33, -105):
        t = t0 + (200 + ahead_ms) * MS
        predicted = world.pose_at("drone", t)
        expected = ROOM @ pose(t)
        np.testing.assert_allclose(predicted.T_world_body.p_m, expected.p_m, atol=1e-6)
        assert angle(predicted.T_world_body, expected) < 1e-4
    assert world.pose_at("drone", t0 + 260 * MS).method == "constant-twist"
    assert world.pose_at("drone", t0 + 100 * MS).method == "interpolated"
    assert world.speed_mps("drone") == pytest.approx(np.linalg.norm(v), rel=1e-6)


def test_silence_and_lost_flags_walk_through_the_states_and_never_look_new() -> None:
    limits = TrackingLimits(30 * MS, 250 * MS, 1000 * MS)
    assert limits.state(None, True) is TrackingState.LOST
    assert limits.state(29 * MS, True) is TrackingState.TRACKED
    assert limits.state(29 * MS, False) is TrackingState.COASTING
    assert limits.state(31 * MS, True) is TrackingState.COASTING
    assert limits.state(251 * MS, True) is TrackingState.STALE
    assert limits.state(1001 * MS, True) is TrackingState.LOST
    world = world_of(vehicle())
    t = now_ns()
    world.ingest(frame(t - 300 * MS, {"drone": Transform.identity()}))
    world.ingest(frame(t, {"drone": Transform.identity()}, tracked=False))
    state = world.snapshot(t).actors[0]
    assert (state.state, state.age_ns) == (TrackingState.STALE, 300 * MS)
    assert world.transitions["drone"][TrackingState.STALE] == 1


def test_prediction_stops_where_the_pose_becomes_stale() -> None:
    world = world_of(vehicle(limits=TrackingLimits(30 * MS, 100 * MS, 1000 * MS)))
    t0 = now_ns()
    for k in range(6):
        world.ingest(frame(t0 + 10 * k * MS, {"drone": Transform.of((0.01 * k, 0, 0))}))
    at_limit = world.pose_at("drone", t0 + 150 * MS).T_world_body.p_m
    much_later = world.pose_at("drone", t0 + 5000 * MS).T_world_body.p_m
    np.testing.assert_allclose(much_later, at_limit)
    assert np.linalg.norm(at_limit - ROOM.p_m) == pytest.approx(0.15, abs=1e-6)


def test_late_and_repeated_frames_are_counted_and_jumps_start_over() -> None:
    world = world_of(vehicle())
    t = now_ns()
    for k in range(5):
        world.ingest(frame(t + 10 * k * MS, {"drone": Transform.of((0.01 * k, 0, 0))}))
    world.ingest(frame(t + 40 * MS, {"drone": Transform.of((9.0, 9, 9))}))
    world.ingest(frame(t + 20 * MS, {"drone": Transform.of((9.0, 9, 9))}))
    assert world.counters()["out_of_order"] == 2
    for k in range(5, 10):
        world.ingest(frame(t + 10 * k * MS, {"drone": Transform.of((5.0, 0, 0))}))
    assert (world.counters()["rejected"], world.counters()["jumps"]) == (4, 1)
    np.testing.assert_allclose(
        world.pose_at("drone", t + 100 * MS).T_world_body.p_m, ROOM.apply(np.array([5.0, 0, 0]))
    )


def test_a_reset_forgets_poses_and_clock() -> None:
    world = world_of(vehicle())
    world.ingest(frame(now_ns(), {"drone": Transform.identity()}))
    world.ingest(SourceReset("mocap", "restarted"))
    assert world.newest("drone") is None
    assert world.clocks["mocap"].epoch == 1
    assert world.state_of("drone") is TrackingState.LOST


def test_bursts_of_arrival_do_not_change_the_velocity() -> None:
    """Capture stamps carry the velocity, whenever the datagrams come in."""
    world = world_of(vehicle())
    t0 = now_ns()
    for k in range(40):
        t_capture, t_arrival = t0 + 10 * k * MS, t0 + 10 * (k + 3 - k % 4) * MS
        sample = frame(t_arrival, {"drone": Transform.of((0.02 * k, 0, 0))})
        world.ingest(
            SourceFrame("mocap", k, t_capture + 77, max(t_arrival, t_capture), *_arrays(sample))
        )
    speed = world.speed_mps("drone")
    assert speed == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize(("latency_ms", "transit_ms"), [(0, 2), (12, 2), (20, 0)])
def test_the_latency_that_a_source_states_is_no_age_of_its_stamps(
    latency_ms: int, transit_ms: int
) -> None:
    """One-way stamps: a pose is as old as its latency, beyond the quickest transit, which nobody
    can see.
    """
    world = world_of(vehicle())
    t0 = now_ns()
    for k in range(60):
        t_capture = t0 + 10 * k * MS
        t_arrival = t_capture + (latency_ms + transit_ms) * MS
        sample = _arrays(frame(t_arrival, {"drone": Transform.identity()}))
        world.ingest(
            SourceFrame(
                "mocap", k, t_capture + 10**12, t_arrival, *sample, latency_ns=latency_ms * MS
            )
        )
    newest = world.newest("drone")
    assert newest is not None
    _, t_captured, t_arrival = newest
    assert t_arrival - t_captured == pytest.approx(latency_ms * MS, abs=1000)


def test_the_velocity_is_that_of_an_even_acceleration_at_the_newest_pose() -> None:
    world = world_of(vehicle())
    t0, v, a, turn = (
        now_ns(),
        np.array([0.4, -0.2, 0.1]),
        np.array([-3.0, 5.0, 2.0]),
        np.array([0.0, 0.0, 4.0]),
    )
    for k in range(20):
        s = 0.01 * k
        world.ingest(
            frame(
                t0 + 10 * k * MS, {"drone": Transform(v * s + a * s**2 / 2, q_exp(turn * s**2 / 2))}
            )
        )
    velocity, rate = world.twist_at("drone", t0 + 190 * MS)
    np.testing.assert_allclose(velocity, q_rotate(ROOM.q_xyzw, v + a * 0.19), atol=1e-6)
    np.testing.assert_allclose(rate, turn * 0.19, atol=1e-6)


AHEAD_MS = (20, 56, 90)


FLOWN = DroneMotion("drone", imu=ImuErrors(gyro_bias_radps=(0.05, -0.08, 0.03)))


def flying(*worlds: World) -> Iterator[tuple[int, int, int]]:
    """A simulated flight with a real IMU's and a real mocap's errors, 8 ms late.

    Frame, motion's and bridge's time.
    """
    rng = np.random.default_rng(4)
    t0 = now_ns()
    for k in range(1200):
        t = 5 * k * MS
        noise = Transform(rng.normal(0.0, 3e-4, 3), q_exp(rng.normal(0.0, 1e-3, 3)))
        seen = frame(t0 + t, {"drone": FLOWN.truth(t) @ noise}, number=k)
        felt = [
            ImuSample("imu", None, t0 + t_imu, w, f)
            for t_imu, w, f in FLOWN.imu_between(t + 3 * MS, t + 8 * MS)
        ]
        for world in worlds:
            world.ingest(seen)
            for sample in felt:
                world.ingest(sample)
        yield k, t, t0 + t


@cache
def flown() -> tuple[dict[tuple[str, int], np.ndarray], np.ndarray]:
    """Median errors (rad, m) with and without an IMU for each horizon, and the bias that was
    learnt.
    """
    worlds = {"imu": world_of(vehicle(imu="imu")), "plain": world_of(vehicle())}
    errors: dict[tuple[str, int], list[tuple[float, float]]] = {
        (n, a): [] for n in worlds for a in AHEAD_MS
    }
    for k, t, t_ns in flying(*worlds.values()):
        if k > 800 and k % 10 == 0:
            for (name, ahead_ms), listed in errors.items():
                late_ns = (8 + ahead_ms) * MS
                expected = ROOM @ FLOWN.truth(t + late_ns)
                predicted = worlds[name].pose_at("drone", t_ns + late_ns).T_world_body
                listed.append(
                    (
                        angle(predicted, expected),
                        float(np.linalg.norm(predicted.p_m - expected.p_m)),
                    )
                )
    predictor = worlds["imu"].predictor("drone")
    assert predictor is not None
    return {
        key: np.median(values, axis=0) for key, values in errors.items()
    }, predictor.body.sensors.gyro_bias_radps


def test_a_quick_look_at_the_world_shows_the_same() -> None:
    """Without the IMU just after mocap, and exactly what the IMU tells later on."""
    world = world_of(vehicle(imu="imu"))
    for k, _, t_ns in flying(world):
        if k > 800 and k % 10 == 0:
            for late_ns, apart_m in ((12 * MS, 0.01), (30 * MS, 0.0)):
                exact, quick = (
                    world.snapshot(t_ns + late_ns, quick=q).actors[0].T_world_body
                    for q in (False, True)
                )
                assert np.linalg.norm(exact.p_m - quick.p_m) <= apart_m
                assert (exact.p_m == quick.p_m).all() == (apart_m == 0.0)


@pytest.mark.parametrize(
    ("ahead_ms", "turned", "moved"), [(20, 0.7, 0.65), (56, 0.9, 0.7), (90, 1.05, 0.8)]
)
def test_an_imu_predicts_better_than_a_constant_twist(
    ahead_ms: int, turned: float, moved: float
) -> None:
    """Errors of attitude and position with the IMU, over those without.

    Of 90 ms it has measured eight.
    """
    median, bias_radps = flown()
    assert median["imu", ahead_ms][0] < turned * median["plain", ahead_ms][0]
    assert median["imu", ahead_ms][1] < moved * median["plain", ahead_ms][1]
    assert median["imu", 90][0] < 0.015 and median["plain", 90][0] < 0.015
    assert median["imu", ahead_ms][1] < 0.01
    np.testing.assert_allclose(bias_radps, (0.05, -0.08, 0.03), atol=0.01)


def test_duplicates_and_bursts_leave_the_velocity_alone() -> None:
    """Each frame comes twice, in bursts of five, some of the copies late."""
    world = world_of(vehicle())
    t0 = now_ns()
    for burst in range(12):
        arrival = t0 + (50 * burst + 60) * MS
        for k in (5 * burst + i for i in (0, 1, 0, 2, 2, 1, 3, 4, 3, 4)):
            sample = frame(arrival, {"drone": flight(t0, k)})
            world.ingest(
                SourceFrame("mocap", k, t0 + 10 * k * MS - 10**9, arrival, *_arrays(sample))
            )
            arrival += 20_000
        speed = world.speed_mps("drone")
        assert speed == pytest.approx(2.0, rel=1e-3) or (burst == 0 and speed == 0.0)
    assert world.counters()["out_of_order"] >= 44


def test_a_clock_that_is_set_leaves_no_false_velocity() -> None:
    """A stepped clock: the frames before and after it are never differenced.

    Every pose stays in use.
    """
    world = world_of(vehicle())
    t0 = now_ns()
    for k in range(60):
        t_ns = t0 + 10 * k * MS
        step_ns = 100 * MS if k >= 30 else 0
        if k % 5 == 0:
            world.ingest(
                ClockExchange("mocap", t_ns - 200_000, t_ns - 100_000 + 10**12 + step_ns, t_ns)
            )
        sample = frame(t_ns + 5 * MS, {"drone": flight(t0, k)})
        world.ingest(
            SourceFrame("mocap", k, t_ns + 10**12 + step_ns, t_ns + 5 * MS, *_arrays(sample))
        )
        newest = world.newest("drone")
        assert newest is not None
        assert newest[2] == t_ns + 5 * MS
        assert (world.speed_mps("drone") or 0.0) < 2.4
        assert k < 50 or abs(newest[1] - t_ns) < 100_000
    assert world.clocks["mocap"].epoch == 1
    assert world.speed_mps("drone") == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_histories_follow_their_clock_as_it_becomes_known(seed: int) -> None:
    """From the first frame on, 2 ms of jitter and no echo.

    The line moves all the time, the velocity does not.
    """
    world = world_of(vehicle())
    rng, t0 = np.random.default_rng(seed), now_ns()
    arrival = t0
    for k in range(60):
        t_ns = t0 + 10 * k * MS
        arrival = max(arrival + 1, t_ns + int(rng.exponential(2 * MS)))
        world.ingest(
            SourceFrame(
                "mocap",
                k,
                t_ns + 10**12,
                arrival,
                *_arrays(frame(arrival, {"drone": flight(t0, k)})),
            )
        )
        assert world.speed_mps("drone") == pytest.approx(2.0 if k else 0.0, rel=2e-3)
    newest = world.newest("drone")
    assert newest is not None
    assert abs(newest[1] - (t0 + 590 * MS)) < 500_000
    assert world.counters() == {}


def test_a_reset_that_is_not_the_clocks_keeps_the_clock() -> None:
    world = world_of(vehicle())
    for k in range(3):
        world.ingest(ClockExchange("mocap", k * MS, 10**12 + k * MS, k * MS))
    world.ingest(SourceReset("mocap", "described anew", clock=False))
    assert world.clocks["mocap"].line is not None
    world.ingest(SourceReset("mocap", "restarted"))
    assert world.clocks["mocap"].line is None


def test_a_fresh_imu_predicts_as_far_as_the_limit_allows() -> None:
    motion = DroneMotion("drone")
    world = world_of(vehicle(imu="imu"))
    t0 = now_ns()
    for k in range(40):
        t = 5 * k * MS
        world.ingest(frame(t0 + t, {"drone": motion.truth(t)}))
        for t_imu, w, f in motion.imu_between(t - 5 * MS, t):
            world.ingest(ImuSample("imu", None, t0 + t_imu, w, f))
    for ahead_ms in (99, 112, 224):
        assert world.pose_at("drone", t0 + (195 + ahead_ms) * MS).method == "inertial"


def test_the_rate_is_the_gyroscopes() -> None:
    motion = DroneMotion("drone")
    world = world_of(vehicle(imu="imu"))
    t0 = now_ns()
    for k in range(40):
        t = 5 * k * MS
        world.ingest(frame(t0 + t, {"drone": motion.truth(t)}))
        for t_imu, w, f in motion.imu_between(t - 5 * MS, t):
            world.ingest(ImuSample("imu", None, t0 + t_imu, w, f))
    np.testing.assert_allclose(world.twist_at("drone", t0 + 195 * MS)[1], w, atol=0.05)


def test_a_silent_imu_falls_back_to_the_twist_and_says_so() -> None:
    motion = DroneMotion("drone")
    world = world_of(vehicle(imu="imu"))
    t0 = now_ns()
    for k in range(40):
        t = 5 * k * MS
        world.ingest(frame(t0 + t, {"drone": motion.truth(t)}))
        if k < 10:
            for t_imu, w, f in motion.imu_between(t - 5 * MS, t):
                world.ingest(ImuSample("imu", None, t0 + t_imu, w, f))
    assert world.pose_at("drone", t0 + 210 * MS).method == "constant-twist"
