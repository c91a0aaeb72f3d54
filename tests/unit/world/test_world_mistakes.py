"""What a motion-capture system gets wrong never becomes a place, an attitude or a velocity."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.world import MS, ROOM, angle, frame, vehicle, world_of
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import Transform, q_exp
from vil_bridge.core.types import SourceReset
from vil_bridge.world.actors import TrackingLimits


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
    [
        Transform.of((3.0, 1.0, 0.0)),
        Transform.of((0.4, 0.0, 0.0), q_exp(np.array([0.0, 0.0, np.pi - 0.2]))),
    ],
    ids=["swapped-label", "flip"],
)
@pytest.mark.parametrize("frames", [1, 2, 4])
def test_a_passing_mistake_of_the_mocap_system_leaves_no_trace(
    mistake: Transform, frames: int
) -> None:
    """The neighbour in the same frames, and the history, are as if nothing had been."""
    world = world_of(vehicle(), vehicle("other"))
    t0 = now_ns()
    for k in range(40):
        wrong = 20 <= k < 20 + frames
        pose = flight(t0, k)
        world.ingest(
            frame(t0 + 10 * k * MS, {"drone": pose @ mistake if wrong else pose, "other": pose})
        )
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
        world.ingest(
            frame(
                t0 + 10 * k * MS,
                {"drone": hop if k % 4 in (1, 2) and k > 10 else pose, "other": pose},
            )
        )
    counters = world.counters()
    assert counters.get("jumps", 0) == 0
    assert counters["rejected"] == 24
    assert world.speed_mps("drone") == pytest.approx(2.0, abs=1e-6)


def test_a_body_that_was_put_elsewhere_is_there_at_once_and_its_neighbour_flies_on() -> None:
    world = world_of(vehicle(), vehicle("other"))
    t0 = now_ns()
    for k in range(40):
        world.ingest(frame(t0 + 10 * k * MS, {"drone": flight(t0, k), "other": flight(t0, k)}))
    world.ingest(
        SourceReset("mocap", "vehicles were put elsewhere", clock=False, subjects=("drone",))
    )
    there = Transform.of((30.0, 20.0, 10.0))
    world.ingest(frame(t0 + 390 * MS, {"drone": there}))  # time stands
    assert angle(world.pose_at("drone", t0 + 390 * MS).T_world_body, ROOM) < 1e-6
    np.testing.assert_allclose(
        world.pose_at("drone", t0 + 390 * MS).T_world_body.p_m, (ROOM @ there).p_m
    )
    assert world.speed_mps("drone") == 0.0
    assert world.speed_mps("other") == pytest.approx(2.0, abs=1e-6)
    counters = world.counters()
    assert [counters.get(name, 0) for name in ("jumps", "rejected", "out_of_order")] == [0, 0, 0]


def test_limits_are_each_actors_own() -> None:
    slow = TrackingLimits(max_speed_mps=1.0)
    world = world_of(vehicle("slow", limits=slow), vehicle("fast"))
    t0 = now_ns()
    for k, x_m in ((0, 0.0), (1, 0.2)):
        world.ingest(
            frame(t0 + 10 * k * MS, dict.fromkeys(("slow", "fast"), Transform.of((x_m, 0, 0))))
        )
    moved_m = [
        world.pose_at(name, t0 + 10 * MS).T_world_body.p_m[0] - ROOM.p_m[0]
        for name in ("slow", "fast")
    ]
    assert moved_m == pytest.approx([0.0, 0.2 * np.cos(0.7)])
    assert world.counters()["rejected"] == 1


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
        sample.t_foreign_ns = (
            nonsense_ns if i == (0 if first else 700) else sample.t_arrival_ns + 5_000_000_000
        )
        world.ingest(sample)
    newest = world.newest("drone")
    assert newest is not None
    assert newest[1] == pytest.approx(newest[2], abs=1_000_000)
    assert newest[2] == 10_000_000_000 + 1499 * 10_000_000
