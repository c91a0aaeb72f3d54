"""Poses that repeat to the bit, or that the IMU contradicts, are frozen; bodies at rest are not."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from tests.support.common import ROOT
from vil_bridge import registry
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import (
    ActorKind,
    ImuSample,
    SkeletonFrame,
    SkeletonModel,
    SourceFrame,
    SourceReset,
    TrackingState,
)
from vil_bridge.protocols.federation.messages import ActorPose, records_of
from vil_bridge.world import world as world_module
from vil_bridge.world.actors import Actor, TrackingLimits
from vil_bridge.world.world import World

NOISY = TrackingLimits(frozen_after_ns=200 * NS_PER_MS)
EXACT = TrackingLimits()
SOURCES = {"mocap": Transform.identity()}
STILL_Q = np.array([0.0, 0.0, 0.0, 1.0])


class Room:
    """A world whose time the test holds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *actors: Actor) -> None:
        self.t_ns = 100 * NS_PER_S
        monkeypatch.setattr(world_module, "now_ns", lambda: self.t_ns)
        self.world = World(SOURCES, actors)
        self._number = 0
        self._random = np.random.default_rng(3)

    def film(
        self, seconds: float, rate_hz: float = 100.0, *, noise_m: float = 0.0, p_m: float = 1.0
    ) -> None:
        """Frames of one body called ``cf1`` that stands there."""
        for _ in range(round(seconds * rate_hz)):
            self.t_ns += round(NS_PER_S / rate_hz)
            self.pose(np.full(3, p_m) + self._random.normal(0.0, 1.0, 3) * noise_m)

    def pose(self, p_m: np.ndarray[tuple[int], np.dtype[np.float64]], tracked: bool = True) -> None:
        """One frame."""
        self._number += 1
        seen = np.array([tracked])
        self.world.ingest(
            SourceFrame(
                "mocap", self._number, None, self.t_ns, ("cf1",), p_m[None], STILL_Q[None], seen
            )
        )

    def state(self) -> TrackingState:
        return self.world.state_of("drone")


def drone(limits: TrackingLimits, imu: str | None = None) -> Actor:
    return Actor("drone", ActorKind.VEHICLE, "mocap", "cf1", limits=limits, imu=imu)


@pytest.mark.parametrize("rate_hz", [30.0, 100.0, 1000.0])
def test_a_pose_that_repeats_is_found_within_half_a_second(
    monkeypatch: pytest.MonkeyPatch, rate_hz: float
) -> None:
    room = Room(monkeypatch, drone(NOISY))
    room.film(1.0, rate_hz, noise_m=1e-4)
    assert room.state() is TrackingState.TRACKED
    room.film(0.15, rate_hz)
    assert room.state() is TrackingState.TRACKED, "a server may send a pose several times"
    room.film(0.15, rate_hz)
    assert room.state() is TrackingState.FROZEN
    assert "repeated to the bit for 0." in room.world.freeze_of("drone")
    room.film(2.0 / rate_hz, rate_hz, noise_m=1e-4)
    assert room.state() is TrackingState.TRACKED
    assert room.world.transitions["drone"][TrackingState.FROZEN] == 1


def test_a_slow_source_needs_three_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(
        monkeypatch, drone(replace(NOISY, coast_after_ns=NS_PER_S, stale_after_ns=2 * NS_PER_S))
    )
    room.film(1.0, 4.0, noise_m=1e-4)
    states = []
    for _ in range(4):  # the first of equal poses, and three that repeat it
        room.film(0.25, 4.0)
        states.append(room.state())
    assert states == [TrackingState.TRACKED] * 3 + [TrackingState.FROZEN]


def test_a_body_at_rest_is_not_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(monkeypatch, drone(NOISY))
    room.film(5.0, noise_m=1e-6)  # a fiftieth of a good system's noise
    assert room.state() is TrackingState.TRACKED


def test_the_first_poses_of_a_body_are_not_frozen_before_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = Room(monkeypatch, drone(NOISY))
    for _ in range(6):  # 60 ms of the pose that the bank begins with
        room.film(0.01, p_m=0.0)
        assert room.state() is TrackingState.TRACKED, room.world.freeze_of("drone")
    room.world.ingest(SourceReset("mocap", "restarted"))
    for _ in range(6):
        room.film(0.01, p_m=0.0)
        assert room.state() is TrackingState.TRACKED, room.world.freeze_of("drone")


def test_an_exact_source_may_repeat_its_poses(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(monkeypatch, drone(EXACT))
    room.film(5.0)
    assert room.state() is TrackingState.TRACKED and room.world.freeze_of("drone") == ""


def test_a_frozen_body_that_is_no_longer_sent_becomes_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(monkeypatch, drone(NOISY))
    room.film(1.0)
    assert room.state() is TrackingState.FROZEN
    room.t_ns += 300 * NS_PER_MS
    assert room.state() is TrackingState.STALE
    room.t_ns += NS_PER_S
    assert room.state() is TrackingState.LOST


@pytest.mark.parametrize(("rate_radps", "state"), [(1.0, "frozen"), (0.02, "tracked")])
def test_an_imu_that_turns_contradicts_a_pose_that_stands(
    monkeypatch: pytest.MonkeyPatch, rate_radps: float, state: str
) -> None:
    room = Room(monkeypatch, drone(EXACT, imu="imu"))
    up = np.array([0.0, 0.0, 9.81])
    for tick in range(100):
        room.t_ns += 5 * NS_PER_MS
        w_radps = np.array([0.0, 0.0, rate_radps])
        room.world.ingest(ImuSample("imu", None, room.t_ns, w_radps, up))
        if tick % 2:
            room.pose(np.full(3, 1.0) + 1e-4 * math.sin(tick))
    assert room.state() == state
    assert ("IMU" in room.world.freeze_of("drone")) is (state == "frozen")


def test_a_human_whose_hips_repeat_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    model = SkeletonModel(
        "Actor", ("Hip", "Head"), (-1, 0), np.array([[0.0, 0.0, 0.9], [0.0, 0.0, 0.7]])
    )
    human = Actor("drone", ActorKind.HUMAN, "mocap", "Actor", limits=NOISY)
    room = Room(monkeypatch, human)
    nobody = np.empty((0, 3)), np.empty((0, 4)), np.empty(0, dtype=np.bool_)
    seen = []
    for tick in range(100):
        room.t_ns += 10 * NS_PER_MS
        x_m = min(tick, 50) * 1e-4
        bones = SkeletonFrame(
            model,
            np.array([[x_m, 0.0, 0.9], [x_m, 0.0, 1.6]]),
            np.tile(STILL_Q, (2, 1)),
            np.ones(2, dtype=np.bool_),
        )
        room.world.ingest(SourceFrame("mocap", tick, None, room.t_ns, (), *nobody, (bones,)))
        seen.append(room.state())
    assert seen[50] is TrackingState.TRACKED and seen[-1] is TrackingState.FROZEN


def test_other_bridges_get_a_frozen_actor_as_lost() -> None:
    pose = np.zeros(3), q_from_euler_zyx(0.0, 0.0, 0.0)
    frozen, _ = records_of([ActorPose(0, TrackingState.FROZEN, *pose)])
    lost, _ = records_of([ActorPose(0, TrackingState.LOST, *pose)])
    assert frozen.tobytes() == lost.tobytes(), "subscribers of version 1 know no other code"


def test_the_sources_that_measure_are_those_that_the_docs_name() -> None:
    """One that is left out flies green with a frozen pose."""
    models = {name: resolve() for name, resolve in registry.resolve("sources").items()}
    measure = {name for name, model in models.items() if getattr(model, "poses_carry_noise", False)}
    assert measure == {"optitrack", "optitrack-legacy", "vicon", "vicon-native", "vrpn", "qualisys"}
    said = (
        (ROOT / "docs" / "concepts" / "prediction.md")
        .read_text()
        .partition("sources that measure:")[2]
        .partition(".")[0]
    )
    assert set(re.findall(r"`([a-z-]+)`", said)) == measure | {"tracker-udp"}, (
        "which has a rule of its own"
    )
