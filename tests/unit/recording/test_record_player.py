"""Replays of a recording.

The spacing that the events had, once, or again and again after a reset.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.events import receiving
from tests.support.record import record, some_events
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.sensor_readings import SensorReadings
from vil_bridge.core.types import ImuSample, SourceEvent, SourceFrame, SourceReset
from vil_bridge.recording.config import McapConfig
from vil_bridge.recording.player import LEAD_NS, Player
from vil_bridge.recording.reader import Recording
from vil_bridge.recording.source import McapSource, _Timelines


class EnoughError(Exception):
    """The receiver has all that it waits for."""


class Receiver:
    """Takes some events of a replay and fails at the next one."""

    def __init__(self, count: int) -> None:
        self.count, self.events = count, list[SourceEvent]()

    def take(self, event: SourceEvent) -> None:
        if len(self.events) == self.count:
            raise EnoughError
        self.events.append(event)


def arrivals_ns(events: list[SourceEvent]) -> list[int]:
    return [event.t_arrival_ns for event in events if isinstance(event, SourceFrame)]


async def test_a_replay_begins_when_it_shall_keeps_the_spacing_and_ends(tmp_path: Path) -> None:
    events, start_ns = some_events(3), -now_ns()  # so long ago that all events are due at once
    record(tmp_path / "a.mcap", events)
    receiver = Receiver(len(events))
    with Recording(tmp_path / "a.mcap") as recording:
        player = Player(recording, None, receiver.take, start_ns=start_ns)
        assert player.position_s == 0.0
        await player.play()
        begin_ns = recording.started_utc_ns - recording.utc_offset_ns
        *_, last = recording.stamped_events()
    assert len(receiver.events) == len(events)
    assert arrivals_ns(receiver.events) == [
        t_ns - begin_ns + start_ns for t_ns in arrivals_ns(events)
    ]
    assert player.position_s == pytest.approx((last.t_ns - begin_ns) / 1e9)


async def test_another_rate_leaves_out_readings_of_sensors_alone(tmp_path: Path) -> None:
    t_ns = now_ns()
    sensor = SensorReadings("sim", "baro", "barometer", t_ns, t_ns, ("a",), np.zeros((1, 3)))
    events = [*some_events(3), sensor]
    record(tmp_path / "a.mcap", events)
    receiver = Receiver(len(events))
    with Recording(tmp_path / "a.mcap") as recording:
        await Player(recording, None, receiver.take, rate=2.0, start_ns=-now_ns()).play()
    assert [type(event) for event in receiver.events] == [
        type(e) for e in events if not isinstance(e, ImuSample | SensorReadings)
    ]


async def test_a_loop_resets_each_source_and_begins_after_the_end(tmp_path: Path) -> None:
    events = some_events(3)
    record(tmp_path / "a.mcap", events)
    receiver = Receiver(2 * len(events) + 2)
    with Recording(tmp_path / "a.mcap") as recording:
        player = Player(recording, None, receiver.take, start_ns=-now_ns())
        with pytest.raises(EnoughError):
            await player.play(loop=True)
        period_ns = round(recording.duration_s * 1e9) + LEAD_NS
    first, second = receiver.events[: len(events)], receiver.events[-len(events) :]
    resets = [SourceReset(source, "the recording begins again") for source in ("imu", "mocap")]
    assert receiver.events[len(events) : -len(events)] == resets
    assert arrivals_ns(second) == [t_ns + period_ns for t_ns in arrivals_ns(first)]


async def test_a_source_plays_once_by_default_and_tells_its_restart(tmp_path: Path) -> None:
    record(tmp_path / "a.mcap", some_events(3))
    source = McapSource("mocap", McapConfig(path=tmp_path / "a.mcap"))
    for again in (False, True):
        async with receiving(source) as received:
            await received.until(
                lambda: "has ended" in received.status.report().reason or len(received.frames) > 3
            )
        assert len(received.frames) == 3
        assert isinstance(received.events[0], SourceReset) is again


def test_sources_that_start_within_a_second_have_one_start_also_where_time_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    t_ns, timelines = 0, _Timelines()
    monkeypatch.setattr("vil_bridge.recording.source.now_ns", lambda: t_ns)
    begun = {name: timelines.start_ns(Path(name), 1.0) for name in ("a.mcap", "b.mcap")}
    assert set(begun.values()) == {LEAD_NS}
    t_ns = NS_PER_S - 1
    assert {name: timelines.start_ns(Path(name), 1.0) for name in begun} == begun
    t_ns = NS_PER_S
    assert timelines.start_ns(Path("a.mcap"), 1.0) == NS_PER_S + LEAD_NS
