"""Rooms, actors, tracks and prediction, fed with the events that sources emit."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from vil_adapters.simulated.motion import DroneMotion, ImuErrors
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import Transform, q_conj, q_exp, q_from_euler_zyx, q_log, q_mul
from vil_bridge.core.types import (
    ActorKind,
    ClockExchange,
    ImuSample,
    SkeletonFrame,
    SkeletonModel,
    SourceFrame,
    SourceReset,
    TrackingState,
)
from vil_bridge.world.actors import Actor, TrackingLimits
from vil_bridge.world.world import World

MS = 1_000_000
ROOM = Transform.of((10.0, -2.0, 0.5), q_from_euler_zyx(0.7, 0.0, 0.0))
MARKERS = Transform.of((0.02, 0.01, 0.05), q_from_euler_zyx(0.3, -0.1, 0.2))


def world_of(*actors: Actor) -> World:
    return World({"mocap": ROOM}, actors)


def vehicle(name: str = "drone", **more: object) -> Actor:
    return Actor(name, ActorKind.VEHICLE, "mocap", name, **more)  # type: ignore[arg-type]


def frame(t_ns: int, poses: dict[str, Transform], tracked: bool = True, number: int = 0) -> SourceFrame:
    """A frame whose stamp is its arrival: capture time unknown."""
    return SourceFrame(
        "mocap",
        number,
        None,
        t_ns,
        tuple(poses),
        np.array([p.p_m for p in poses.values()]),
        np.array([p.q_xyzw for p in poses.values()]),
        np.full(len(poses), tracked),
    )


def angle(a: Transform, b: Transform) -> float:
    return float(np.linalg.norm(q_log(q_mul(q_conj(a.q_xyzw), b.q_xyzw))))


def test_markers_in_the_room_become_the_body_in_the_world() -> None:
    world = world_of(vehicle("other"), vehicle(T_body_markers=MARKERS))
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
    np.testing.assert_allclose(world.pose_at("drone", t + 100 * MS).T_world_body.p_m, ROOM.apply(np.array([5.0, 0, 0])))


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
        world.ingest(SourceFrame("mocap", k, t_capture + 77, max(t_arrival, t_capture), *_arrays(sample)))
    speed = world.speed_mps("drone")
    assert speed == pytest.approx(2.0, rel=1e-3)


def _arrays(f: SourceFrame) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, np.ndarray]:
    return f.subjects, f.p_m, f.q_xyzw, f.tracked


def test_skeletons_are_placed_in_the_world_and_predicted() -> None:
    human = Actor("human", ActorKind.HUMAN, "mocap", "Actor")
    world = world_of(human)
    model = SkeletonModel("Actor", ("Hip", "Chest"), (-1, 0), np.zeros((2, 3)))
    t0 = now_ns() - 100 * MS
    for k in range(11):
        p = np.array([[0.1 * k, 0.0, 1.0], [0.1 * k, 0.0, 1.4]])
        skeleton = SkeletonFrame(model, p, np.tile([0.0, 0, 0, 1], (2, 1)), np.ones(2, dtype=bool))
        empty = frame(t0 + 10 * k * MS, {})
        world.ingest(
            SourceFrame(
                "mocap", k, None, empty.t_arrival_ns, (), np.zeros((0, 3)), np.zeros((0, 4)), empty.tracked, (skeleton,)
            )
        )
    state = world.snapshot(t0 + 120 * MS).actors[0]
    assert state.skeleton is not None
    np.testing.assert_allclose(state.skeleton.p_m[1], ROOM.apply(np.array([1.2, 0.0, 1.4])), atol=1e-9)
    past = world.snapshot(t0 + 55 * MS).actors[0].skeleton
    assert past is not None
    np.testing.assert_allclose(past.p_m[0], ROOM.apply(np.array([0.55, 0.0, 1.0])), atol=1e-9)


AHEAD_MS = (20, 56, 90)


@cache
def flown() -> tuple[dict[tuple[str, int], np.ndarray], np.ndarray]:
    """Median errors (rad, m) with and without an IMU for each horizon, and the bias that was learnt.

    A simulated flight with a real IMU's and a real mocap's errors, 8 ms late.
    """
    rng = np.random.default_rng(4)
    motion = DroneMotion("drone", imu=ImuErrors(gyro_bias_radps=(0.05, -0.08, 0.03)))
    worlds = {"imu": world_of(vehicle(imu="imu")), "plain": world_of(vehicle())}
    errors: dict[tuple[str, int], list[tuple[float, float]]] = {(n, a): [] for n in worlds for a in AHEAD_MS}
    t0 = now_ns()
    for k in range(1200):
        t = 5 * k * MS
        noise = Transform(rng.normal(0.0, 3e-4, 3), q_exp(rng.normal(0.0, 1e-3, 3)))
        seen = frame(t0 + t, {"drone": motion.truth(t) @ noise}, number=k)
        felt = [ImuSample("imu", None, t0 + t_imu, w, f) for t_imu, w, f in motion.imu_between(t + 3 * MS, t + 8 * MS)]
        for world in worlds.values():
            world.ingest(seen)
            for sample in felt:
                world.ingest(sample)
        if k > 800 and k % 10 == 0:
            for (name, ahead_ms), listed in errors.items():
                target = t + (8 + ahead_ms) * MS
                expected = ROOM @ motion.truth(target)
                predicted = worlds[name].pose_at("drone", t0 + target).T_world_body
                listed.append((angle(predicted, expected), float(np.linalg.norm(predicted.p_m - expected.p_m))))
    predictor = worlds["imu"].predictor("drone")
    assert predictor is not None
    return {key: np.median(values, axis=0) for key, values in errors.items()}, predictor.bias.bias_radps


@pytest.mark.parametrize("ahead_ms", AHEAD_MS)
def test_an_imu_predicts_better_than_a_constant_twist(ahead_ms: int) -> None:
    median, bias_radps = flown()
    assert median["imu", ahead_ms][0] < median["plain", ahead_ms][0]
    assert median["imu", ahead_ms][1] < median["plain", ahead_ms][1]
    assert median["imu", ahead_ms][1] < 0.01
    np.testing.assert_allclose(bias_radps, (0.05, -0.08, 0.03), atol=0.01)


def test_a_flipped_attitude_starts_over_instead_of_spinning() -> None:
    world = world_of(vehicle())
    t = now_ns()
    for k in range(10):
        world.ingest(frame(t + 10 * k * MS, {"drone": Transform.identity()}))
    flipped = Transform.of((0, 0, 0), q_exp(np.array([0.0, 0.0, 3.0])))
    for k in range(10, 15):
        world.ingest(frame(t + 10 * k * MS, {"drone": flipped}))
    assert world.counters()["jumps"] == 1
    assert angle(world.pose_at("drone", t + 150 * MS).T_world_body, ROOM @ flipped) < 1e-6


def flight(t0: int, k: int) -> Transform:
    """At 2 m/s and 1 rad/s, a frame each 10 ms."""
    return Transform.of((0.02 * k, 0, 0), q_exp(np.array([0.0, 0.0, 0.01 * k])))


@pytest.mark.parametrize(
    "mistake",
    [Transform.of((3.0, 1.0, 0.0)), Transform.of((0.4, 0.0, 0.0), q_exp(np.array([0.0, 0.0, np.pi - 0.2])))],
    ids=["swapped-label", "flip"],
)
@pytest.mark.parametrize("frames", [1, 2, 4])
def test_a_passing_mistake_of_the_mocap_system_leaves_no_trace(mistake: Transform, frames: int) -> None:
    """The neighbour in the same frames, and the history, are as if nothing had been."""
    world = world_of(vehicle(), vehicle("other"))
    t0 = now_ns()
    for k in range(40):
        wrong = 20 <= k < 20 + frames
        pose = flight(t0, k)
        world.ingest(frame(t0 + 10 * k * MS, {"drone": pose @ mistake if wrong else pose, "other": pose}))
        assert world.speed_mps("drone") == pytest.approx(0.0 if k == 0 else 2.0, abs=1e-6)
    counters = world.counters()
    assert (counters["rejected"], counters.get("jumps", 0)) == (frames, 0)
    target = t0 + 420 * MS
    for name in ("drone", "other"):
        assert angle(world.pose_at(name, target).T_world_body, ROOM @ flight(t0, 42)) < 1e-6


def test_mistakes_that_contradict_each_other_never_become_a_place() -> None:
    """Labels that hop between two other bodies prove neither; old mistakes are not remembered."""
    world = world_of(vehicle(), vehicle("other"))
    t0 = now_ns()
    for k in range(60):
        pose = flight(t0, k)
        hop = Transform.of((4.0 * (k % 2) + 3.0, 5.0, 0.0))
        world.ingest(frame(t0 + 10 * k * MS, {"drone": hop if k % 4 in (1, 2) and k > 10 else pose, "other": pose}))
    counters = world.counters()
    assert counters.get("jumps", 0) == 0
    assert counters["rejected"] == 24
    assert world.speed_mps("drone") == pytest.approx(2.0, abs=1e-6)


def test_limits_are_each_actors_own() -> None:
    slow = TrackingLimits(max_speed_mps=1.0)
    world = world_of(vehicle("slow", limits=slow), vehicle("fast"))
    t0 = now_ns()
    for k, x_m in ((0, 0.0), (1, 0.2)):
        world.ingest(frame(t0 + 10 * k * MS, dict.fromkeys(("slow", "fast"), Transform.of((x_m, 0, 0)))))
    moved_m = [world.pose_at(name, t0 + 10 * MS).T_world_body.p_m[0] - ROOM.p_m[0] for name in ("slow", "fast")]
    assert moved_m == pytest.approx([0.0, 0.2 * np.cos(0.7)])
    assert world.counters()["rejected"] == 1


def test_duplicates_and_bursts_leave_the_velocity_alone() -> None:
    """Each frame comes twice, in bursts of five, some of the copies late."""
    world = world_of(vehicle())
    t0 = now_ns()
    for burst in range(12):
        arrival = t0 + (50 * burst + 60) * MS
        for k in (5 * burst + i for i in (0, 1, 0, 2, 2, 1, 3, 4, 3, 4)):
            sample = frame(arrival, {"drone": flight(t0, k)})
            world.ingest(SourceFrame("mocap", k, t0 + 10 * k * MS - 10**9, arrival, *_arrays(sample)))
            arrival += 20_000
        speed = world.speed_mps("drone")
        assert speed == pytest.approx(2.0, rel=1e-3) or (burst == 0 and speed == 0.0)
    assert world.counters()["out_of_order"] >= 44


def test_a_clock_that_is_set_leaves_no_false_velocity() -> None:
    """A stepped clock: the frames before and after it are never differenced; every pose stays in use."""
    world = world_of(vehicle())
    t0 = now_ns()
    for k in range(60):
        t_ns = t0 + 10 * k * MS
        step_ns = 100 * MS if k >= 30 else 0
        if k % 5 == 0:
            world.ingest(ClockExchange("mocap", t_ns - 200_000, t_ns - 100_000 + 10**12 + step_ns, t_ns))
        sample = frame(t_ns + 5 * MS, {"drone": flight(t0, k)})
        world.ingest(SourceFrame("mocap", k, t_ns + 10**12 + step_ns, t_ns + 5 * MS, *_arrays(sample)))
        newest = world.newest("drone")
        assert newest is not None
        assert newest[2] == t_ns + 5 * MS
        assert (world.speed_mps("drone") or 0.0) < 2.4
        assert k < 50 or abs(newest[1] - t_ns) < 100_000
    assert world.clocks["mocap"].epoch == 1
    assert world.speed_mps("drone") == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_histories_follow_their_clock_as_it_becomes_known(seed: int) -> None:
    """From the first frame on, 2 ms of jitter and no echo: the line moves all the time, the velocity does not."""
    world = world_of(vehicle())
    rng, t0 = np.random.default_rng(seed), now_ns()
    arrival = t0
    for k in range(60):
        t_ns = t0 + 10 * k * MS
        arrival = max(arrival + 1, t_ns + int(rng.exponential(2 * MS)))
        world.ingest(
            SourceFrame("mocap", k, t_ns + 10**12, arrival, *_arrays(frame(arrival, {"drone": flight(t0, k)})))
        )
        assert world.speed_mps("drone") == pytest.approx(2.0 if k else 0.0, rel=2e-3)
    newest = world.newest("drone")
    assert newest is not None
    assert abs(newest[1] - (t0 + 590 * MS)) < 500_000
    assert world.counters() == {}


def walker(k: int, *, x_m: float = 0.0, tracked: tuple[bool, ...] = (True, True, True)) -> SourceFrame:
    """Hip, chest above it, head above that, walking along x; untracked bones come as zeros."""
    p = np.array([[x_m + 0.01 * k, 0.0, 1.0], [x_m + 0.01 * k, 0.0, 1.4], [x_m + 0.01 * k, 0.1, 1.7]])
    seen = np.array(tracked)
    p[~seen] = 0.0
    skeleton = SkeletonFrame(WALKER, p, np.tile([0.0, 0, 0, 1], (3, 1)), seen)
    empty = frame(T_WALK + 10 * k * MS, {})
    return SourceFrame("mocap", k, None, empty.t_arrival_ns, *_arrays(empty), (skeleton,))


WALKER = SkeletonModel("Actor", ("Hip", "Chest", "Head"), (-1, 0, 1), np.array([[0, 0, 1.0], [0, 0, 0.5], [0, 0, 0.2]]))
T_WALK = now_ns()


def bones_of(world: World, k: float) -> np.ndarray:
    skeleton = world.snapshot(T_WALK + round(10 * k * MS)).actors[0].skeleton
    assert skeleton is not None
    return ROOM.inverse().apply(skeleton.p_m)


def test_an_unseen_bone_stays_where_it_was_on_its_parent() -> None:
    world = world_of(Actor("human", ActorKind.HUMAN, "mocap", "Actor"))
    world.ingest(walker(0, tracked=(True, True, False)))
    np.testing.assert_allclose(bones_of(world, 0)[2], (0.0, 0.0, 1.6), atol=1e-9)  # never seen: at rest
    for k in range(1, 10):
        world.ingest(walker(k))
    world.ingest(walker(10, tracked=(True, False, False)))
    np.testing.assert_allclose(bones_of(world, 10), [[0.1, 0, 1.0], [0.1, 0, 1.4], [0.1, 0.1, 1.7]], atol=1e-9)


def test_a_bone_that_is_no_number_is_one_unseen() -> None:
    world = world_of(Actor("human", ActorKind.HUMAN, "mocap", "Actor"))
    world.ingest(walker(0))
    broken = walker(1)
    broken.skeletons[0].q_xyzw[2, 1] = np.nan
    world.ingest(broken)
    np.testing.assert_allclose(bones_of(world, 1)[2], (0.01, 0.1, 1.7), atol=1e-9)
    skeleton = world.snapshot(T_WALK + 10 * MS).actors[0].skeleton
    assert skeleton is not None and skeleton.tracked.tolist() == [True, True, False]
    broken = walker(2)
    broken.skeletons[0].p_m[0, 0] = np.inf
    world.ingest(broken)
    assert np.isfinite(bones_of(world, 2)).all()
    assert world.snapshot(T_WALK + 20 * MS).actors[0].state is not TrackingState.TRACKED


def test_two_people_of_one_name_are_counted_apart() -> None:
    world = World(
        {"mocap": ROOM, "other": ROOM},
        [Actor("here", ActorKind.HUMAN, "mocap", "Actor"), Actor("there", ActorKind.HUMAN, "other", "Actor")],
    )
    for k in range(3):
        world.ingest(walker(k))
    world.ingest(walker(3, x_m=2.0))
    counters = world.counters()
    assert (counters["rejected/here"], counters["rejected/there"]) == (1, 0)


def test_a_skeleton_solved_elsewhere_starts_over() -> None:
    world = world_of(Actor("human", ActorKind.HUMAN, "mocap", "Actor"))
    for k in range(10):
        world.ingest(walker(k))
    world.ingest(walker(10, x_m=2.0))
    np.testing.assert_allclose(bones_of(world, 10)[0], (0.1, 0.0, 1.0), atol=1e-9)  # one frame says nothing
    for k in range(11, 15):
        world.ingest(walker(k, x_m=2.0))
    assert (world.counters()["rejected/human"], world.counters()["jumps/human"]) == (4, 1)
    np.testing.assert_allclose(bones_of(world, 18)[0], (2.14, 0.0, 1.0), atol=1e-9)


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


@pytest.mark.parametrize("nonsense", [np.nan, np.inf, 1e9, 1e200])
@pytest.mark.parametrize("when", ["first", "later"])
def test_what_is_no_attitude_never_becomes_one(nonsense: float, when: str) -> None:
    world = world_of(vehicle())
    told = Transform.of((1.0, 2.0, 0.5), (0.0, 0.0, 0.0, 1.0))
    samples = [frame(1_000_000_000 + i * 10_000_000, {"drone": told}, number=i) for i in range(12)]
    samples[0 if when == "first" else 6].q_xyzw[0, 3] = nonsense
    for sample in samples:
        world.ingest(sample)
        newest = world.newest("drone")
        assert newest is None or angle(newest[0], ROOM @ told) < 1e-6
    assert world.newest("drone") is not None


@pytest.mark.parametrize("nonsense", [np.nan, np.inf, 1e9, 1e200])
def test_a_place_out_of_reach_is_refused(nonsense: float) -> None:
    world = world_of(vehicle())
    told = Transform.of((1.0, 2.0, 0.5), (0.0, 0.0, 0.0, 1.0))
    samples = [frame(1_000_000_000 + i * 10_000_000, {"drone": told}, number=i) for i in range(12)]
    samples[6].p_m[0, 1] = nonsense
    for sample in samples:
        world.ingest(sample)
        newest = world.newest("drone")
        assert newest is not None
        np.testing.assert_allclose(newest[0].p_m, (ROOM @ told).p_m)
    assert world.counters()["rejected"] == 1


@pytest.mark.parametrize("nonsense_ns", [2**63, -(2**63), 10**21, -(10**21), 2**61, -(2**61)])
@pytest.mark.parametrize("first", [True, False])
def test_a_stamp_that_no_clock_shows_harms_nothing(nonsense_ns: int, first: bool) -> None:
    world = world_of(vehicle())
    told = Transform.of((1.0, 2.0, 0.5), (0.0, 0.0, 0.0, 1.0))
    for i in range(1500):
        sample = frame(10_000_000_000 + i * 10_000_000, {"drone": told}, number=i)
        sample.t_foreign_ns = nonsense_ns if i == (0 if first else 700) else sample.t_arrival_ns + 5_000_000_000
        world.ingest(sample)
    newest = world.newest("drone")
    assert newest is not None
    assert newest[1] == pytest.approx(newest[2], abs=1_000_000)
    assert newest[2] == 10_000_000_000 + 1499 * 10_000_000
