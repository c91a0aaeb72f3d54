"""Faults injected into the events of a source: what passes, when, and that all of it is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace

import numpy as np
import pytest

from tests.support.events import until
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.sensor_readings import SensorReadings
from vil_bridge.core.types import (
    ActorKind,
    ClockExchange,
    ImuSample,
    SkeletonFrame,
    SkeletonModel,
    SourceEvent,
    SourceFrame,
    SourceReset,
)
from vil_bridge.daemon.fault_injection import EventFaultStage, FaultInjector
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

MS = 1_000_000
ACTOR = SkeletonModel("Actor", ("hip",), (-1,), np.zeros((1, 3)))


def frame(number: int = 1) -> SourceFrame:
    t_ns = now_ns()
    q = np.array([[0.0, 0.0, 0.0, 1.0]])
    seen = np.ones(2, dtype=np.bool_)
    hip = SkeletonFrame(ACTOR, np.ones((1, 3)), q, seen[:1])
    p_m = np.array([[0.001 * number, 0.0, 1.0], [0.0, 2.0, 1.0]])
    return SourceFrame(
        "lab", number, t_ns + 10**12, t_ns, ("drone", "gate"), p_m, np.tile(q, (2, 1)), seen, (hip,)
    )


def imu() -> ImuSample:
    return ImuSample("lab", now_ns(), now_ns(), np.zeros(3), np.array([0.0, 0.0, 9.8]))


def stamp(event: SourceEvent) -> int:
    assert not isinstance(event, SourceReset | SensorReadings)
    assert event.t_foreign_ns is not None
    return event.t_foreign_ns


class Listener:
    """Collects what came through, with the status that it was told to."""

    def __init__(self) -> None:
        self.events: list[SourceEvent] = []
        self.at_ns: list[int] = []
        self.status = Status("lab")

    def emit(self, event: SourceEvent) -> None:
        self.events.append(event)
        self.at_ns.append(now_ns())

    @property
    def frames(self) -> list[SourceFrame]:
        return [event for event in self.events if isinstance(event, SourceFrame)]

    def count(self, name: str) -> int:
        return self.status.counters[f"injected_{name}"]


@asynccontextmanager
async def listening(text: str) -> AsyncIterator[tuple[EventFaultStage, Listener]]:
    listener = Listener()
    faults = EventFaultStage(text, listener.emit, listener.status)
    try:
        yield faults, listener
    finally:
        faults.close()


async def test_faults_come_and_go_while_events_pass(caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener()
    with closing(FaultInjector("", listener.emit, listener.status)) as injector:
        injector.emit(frame(1))
        assert len(listener.events) == 1
        injector.change("loss=100%")
        injector.emit(frame(2))
        assert len(listener.events) == 1
        assert listener.status.report().facts["injected"] == "loss=100%"
        assert "source lab: faults are injected: loss=100%" in caplog.text
        with pytest.raises(ConfigError):
            injector.change("loss=5")
        assert injector.text == "loss=100%"
        injector.change("")
        injector.emit(frame(3))
    assert len(listener.events) == 2
    assert "injected" not in listener.status.report().facts
    assert listener.count("lost") == 1


async def test_counters_grow_over_every_change_and_reconcile() -> None:
    """Frames under way at a change are dropped and counted.

    Before and after, all that was offered has a fate.
    """
    listener = Listener()
    with closing(
        FaultInjector("loss=30%,delay=10s,seed=1", listener.emit, listener.status)
    ) as injector:
        for text in ("loss=100%", "duplicate=50%,seed=2", "", "loss=20%,garbage=20%,seed=3"):
            before = dict(listener.status.counters)
            for number in range(50):
                injector.emit(frame(number))
            injector.change(text)
            after = listener.status.counters
            assert all(after[name] >= count for name, count in before.items())
        for number in range(50):
            injector.emit(frame(number))
    n = listener.count
    assert n("offered") == 200, "without faults nothing is offered to them"
    assert n("lost") > 50 and n("undelivered") > 0
    assert n("offered") + n("duplicated") + n("garbage") == n("lost") + n("delivered") + n(
        "undelivered"
    )
    assert len(listener.events) == n("delivered") + 50


async def test_lost_frames_and_samples_are_counted_apart_from_lost_exchanges() -> None:
    async with listening("loss=100%") as (faults, listener):
        for event in (frame(1), imu(), ClockExchange("lab", 1, 2, 3), frame(2)):
            faults.emit(event)
    assert listener.count("lost") == 4
    assert listener.count("data_lost") == 3


async def test_delayed_and_silenced_events_are_counted_as_what_they_are() -> None:
    """A source that is silent has lost nothing on the way; what comes late is not lost."""
    async with listening("delay=10s") as (faults, listener):
        faults.emit(frame(1))
    assert listener.count("data_lost") == 0
    async with listening("halfopen=10s@0s") as (faults, listener):
        faults.emit(frame(1))
    assert listener.count("silenced") == 1
    assert listener.count("data_lost") == 0


async def test_wrong_faults_are_refused() -> None:
    with pytest.raises(ConfigError, match="write a share"):
        EventFaultStage("loss=5", lambda _: None, Status("lab"))


async def test_every_event_is_accounted_for() -> None:
    async with listening("loss=20%,duplicate=20%,reorder=10%,garbage=10%,jitter=1ms,seed=3") as (
        faults,
        listener,
    ):
        for number in range(500):
            faults.emit(frame(number))
            if number % 20 == 0:
                await asyncio.sleep(0)
        handed = (
            500 - listener.count("lost") + listener.count("duplicated") + listener.count("garbage")
        )
        await until(lambda: len(listener.events) == handed)
        faults.emit(SourceReset("lab", "told"))
        assert listener.count("offered") == 500
        assert listener.count("delivered") == handed
        assert listener.count("undelivered") == listener.count("overflow") == 0
        numbers = [f.frame_number for f in listener.frames]
        assert len(set(numbers)) >= 500 - listener.count("lost")
        assert numbers != sorted(numbers), "reordered"


async def test_a_delay_moves_the_arrival_stamps_along() -> None:
    async with listening("delay=30ms") as (faults, listener):
        t_ns = now_ns()
        sent: list[SourceEvent] = [frame(), imu(), ClockExchange("lab", t_ns, t_ns + 5, t_ns + 10)]
        for event in sent:
            faults.emit(event)
        assert listener.events == []
        await until(lambda: len(listener.events) == 3)
        for event, at_ns in zip(listener.events, listener.at_ns, strict=True):
            assert not isinstance(event, SourceReset)
            arrived_ns = (
                event.t_received_ns if isinstance(event, ClockExchange) else event.t_arrival_ns
            )
            assert t_ns + 30 * MS <= arrived_ns <= at_ns
        assert [stamp(event) for event in listener.events] == [stamp(event) for event in sent]


async def test_without_delay_the_source_s_own_stamp_stays() -> None:
    async with listening("drift=0ppm") as (faults, listener):
        given = frame()
        faults.emit(given)
        assert listener.frames[0].t_arrival_ns == given.t_arrival_ns


async def test_the_clock_drifts_and_steps_in_stamps_and_exchanges() -> None:
    async with listening("step=100ms@0s,drift=1000ppm") as (faults, listener):
        begun_ns = faults._started_ns
        await asyncio.sleep(0.02)
        unstamped = replace(frame(), t_foreign_ns=None)
        events: list[SourceEvent] = [frame(), imu(), ClockExchange("lab", 1, 2, 3), unstamped]
        for event in events:
            faults.emit(event)
        elapsed_ns = now_ns() - begun_ns
        for before, after in zip(events[:3], listener.events[:3], strict=True):
            error_ns = stamp(after) - stamp(before)
            assert 100 * MS + 20_000 <= error_ns <= 100 * MS + elapsed_ns // 1000
        assert listener.frames[1].t_foreign_ns is None


async def test_subjects_are_occluded_and_swapped() -> None:
    async with listening("occlude=Actor:1s@0s,occlude=gate:1s@0s,swap=drone+gate:1s@0s") as (
        faults,
        listener,
    ):
        given = frame(7)
        faults.emit(given)
        (seen,) = listener.frames
        assert seen.tracked.tolist() == [True, False]
        assert not seen.skeletons[0].tracked.any()
        assert seen.p_m.tolist() == given.p_m[::-1].tolist()
        assert given.tracked.all(), "the source's own values are left alone"
        assert (listener.count("occluded"), listener.count("swapped")) == (2, 1)


async def test_a_half_open_source_is_silent() -> None:
    async with listening("halfopen=1min@0s") as (faults, listener):
        for _ in range(5):
            faults.emit(frame())
        assert listener.events == []
        assert listener.count("silenced") == 5


async def test_a_reset_comes_at_once_and_forgets_what_was_on_its_way() -> None:
    async with listening("delay=10s") as (faults, listener):
        faults.emit(frame())
        faults.emit(SourceReset("lab", "restarted"))
        assert listener.events == [SourceReset("lab", "restarted")]
        assert listener.count("undelivered") == 1


async def test_the_end_of_the_block_forgets_and_counts_the_rest() -> None:
    async with listening("delay=10s") as (faults, listener):
        faults.emit(frame())
    assert listener.events == []
    assert listener.count("undelivered") == 1


async def test_a_bug_behind_a_delay_is_not_swallowed() -> None:
    def broken(_: SourceEvent) -> None:
        raise ValueError("bug")

    faults = EventFaultStage("delay=1ms", broken, Status("lab"))
    try:
        faults.emit(frame())
        await asyncio.sleep(0.05)
        with pytest.raises(ValueError, match="bug"):
            faults.emit(frame())
    finally:
        faults.close()


async def test_the_world_survives_nonsense() -> None:
    actors = [
        Actor("drone", ActorKind.VEHICLE, "lab", "drone", imu="lab"),
        Actor("human", ActorKind.HUMAN, "lab", "Actor"),
    ]
    world = World({"lab": Transform.of((4.0, 1.0, 0.0), (0.0, 0.0, 0.6, 0.8))}, actors)
    listener = Listener()
    faults = EventFaultStage("garbage=100%,seed=1", world.ingest, listener.status)
    try:
        for number in range(60):
            faults.emit(frame(number))
            faults.emit(
                ImuSample(
                    "lab", None, now_ns(), np.array([0.1, 0.0, 0.0]), np.array([0.0, 0.0, 9.8])
                )
            )
            await asyncio.sleep(0.001)
            for actor in world.snapshot(now_ns()).actors:
                poses = [actor.T_world_body.p_m, actor.T_world_body.q_xyzw]
                poses += (
                    [actor.skeleton.p_m, actor.skeleton.q_xyzw]
                    if actor.skeleton is not None
                    else []
                )
                assert all(
                    np.isfinite(pose).all() and np.abs(pose).max() < 100.0 for pose in poses
                ), actor
    finally:
        faults.close()
    assert listener.count("garbage") == 120
    assert world.counters()["imu_rejected/drone"] == 60
