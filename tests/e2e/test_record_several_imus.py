"""Recordings of a source with an IMU for each of its vehicles, and of many vehicles.

Nothing is lost on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.support.bridge_rig import build, read, running
from tests.support.events import receiving, until
from tests.support.record import picture
from vil_bridge import registry
from vil_bridge.assembly.recorded import recording_metadata
from vil_bridge.assembly.world import build_world
from vil_bridge.config.load import load
from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import NS_PER_S, WallClock, now_ns
from vil_bridge.core.types import ImuSample, SourceEvent, SourceFrame, SourceReset
from vil_bridge.offline.export import export
from vil_bridge.offline.replay.replay import replay_offline
from vil_bridge.recording.config import McapConfig
from vil_bridge.recording.reader import Recording
from vil_bridge.recording.recorder import Recorder
from vil_bridge.recording.source import McapSource

CONFIG = """
version: 1
name: several
rooms: {hall: {}}
sources:
  sim: {type: simulated, room: hall, vehicles: {drone: {model: flightgoggles,
      imu: {preset: ideal}}}}
actors:
  drone: {kind: vehicle, source: sim, subject: drone, imu: sim/drone}
  swarm: {kind: vehicle, source: sim, subject: swarm, count: 110}
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {actor: drone, renderer: drawn, width_px: 32, height_px: 24}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""
COUNT = 100
PERIOD_NS = 10_000_000


def poses(
    number: int, t_ns: int, subjects: tuple[str, ...] = ("drone",), x_m: float | None = None
) -> SourceFrame:
    """All at 0.5 m/s unless told otherwise."""
    at_m = 0.5 * number * PERIOD_NS / NS_PER_S if x_m is None else x_m
    rows = len(subjects)
    p_m, q_xyzw = np.tile([at_m, 0.0, 1.0], (rows, 1)), np.tile([0.0, 0.0, 0.0, 1.0], (rows, 1))
    return SourceFrame("sim", number, None, t_ns, subjects, p_m, q_xyzw, np.ones(rows, dtype=bool))


def felt_and_seen() -> Iterator[SourceEvent]:
    t0_ns = now_ns() - COUNT * PERIOD_NS
    for i in range(COUNT):
        t_ns = t0_ns + i * PERIOD_NS
        yield poses(i, t_ns)
        yield ImuSample(
            "sim/drone", None, t_ns, np.array([0.0, 0.0, 0.1]), np.array([0.0, 0.0, 9.8])
        )


def recorded(
    folder: Path,
    *parts: Iterator[SourceEvent],
    apart_ns: int = 0,
    blank: bool = False,
    config: str = CONFIG,
) -> Path:
    """A recording of the parts, between which the recorder waited that long."""
    (folder / "bridge.yaml").write_text(config)
    loaded = load(folder / "bridge.yaml", env={}, resolve=registry.resolve)
    facts = recording_metadata(loaded, WallClock.of_run().offset_ns)
    recorder = Recorder(
        folder / "flight.mcap", facts, lambda event: getattr(event, "t_arrival_ns", None)
    )
    begun_ns = now_ns()
    for number, part in enumerate(parts):
        try:
            if number:
                bridge_clock().stand_at(begun_ns + number * apart_ns)
            for event in part:
                recorder.queue.enqueue_event(event)
        finally:
            bridge_clock().real()
    for i in range(3 if blank else 0):
        waiting = picture(i, "raw")
        waiting.header.width, waiting.header.height = 32, 24
        if i == 1:
            waiting.header.blank = True
        recorder.queue.enqueue_picture(waiting)
    recorder.stop(30.0)
    return folder / "flight.mcap"


def test_each_vehicles_samples_are_exported(tmp_path: Path) -> None:
    flight = recorded(tmp_path, felt_and_seen())
    euroc = export(flight, "euroc", tmp_path / "euroc")
    assert euroc == {"drone/state_groundtruth_estimate0": COUNT - 2, "drone/imu0": COUNT}
    assert (
        "rate_hz: 100.0"
        in (tmp_path / "euroc" / "drone" / "mav0" / "imu0" / "sensor.yaml").read_text()
    )
    assert [path.name for path in (tmp_path / "euroc").iterdir()] == ["drone"], (
        "nobody saw the swarm"
    )
    assert export(flight, "csv", tmp_path / "csv") == {
        "drone.csv": COUNT,
        "sim-drone.imu.csv": COUNT,
    }
    assert export(flight, "ros2", tmp_path / "bag")["/drone/imu/data_raw"] == COUNT


async def test_a_source_tells_them_again_under_its_own_name(tmp_path: Path) -> None:
    flight = recorded(tmp_path, felt_and_seen())
    async with receiving(
        McapSource("again", McapConfig(path=flight, source="sim", loop=True))
    ) as received:
        await received.until(lambda: len(received.of(ImuSample)) > COUNT)
    assert {event.source for event in received.of(ImuSample)} == {"again/drone"}
    assert {event.source for event in received.frames} == {"again"}
    assert {event.source for event in received.resets} == {"again", "again/drone"}


@pytest.mark.wire
async def test_a_replay_takes_the_place_of_its_live_samples_too(tmp_path: Path) -> None:
    flight = recorded(tmp_path, felt_and_seen())
    bridge = build(CONFIG + f"record: {{folder: {tmp_path}}}\n")

    def turning() -> bool:
        samples = bridge.context.world._predictors["drone"].body.imu.recent(NS_PER_S)
        return samples is not None and bool(np.any(samples.w_radps[:, 2] == 0.1))

    async with running(bridge), httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web:
        (
            await web.put("/api/v1/replay", json={"name": flight.stem, "loop": True})
        ).raise_for_status()
        await until(turning)


def test_a_source_that_begins_anew_takes_its_imus_along() -> None:
    world = build_world(read(CONFIG))
    for event in felt_and_seen():
        world.ingest(event)
    felt = world._predictors["drone"].body.imu
    assert felt.recent(NS_PER_S) is not None
    world.ingest(SourceReset("other", "not ours"))
    assert felt.recent(NS_PER_S) is not None
    world.ingest(SourceReset("sim", "the simulation ended"))
    assert felt.recent(NS_PER_S) is None


def test_speeds_do_not_explode_where_stamps_come_close_together(tmp_path: Path) -> None:
    t0_ns = now_ns() - 3 * NS_PER_S

    def bunched() -> Iterator[SourceEvent]:
        for i in range(200):
            # Three at once, in twenty.
            late_ns = {0: 20_000_000 - 200_000, 1: 10_000_000 - 100_000}.get(i % 20, 0)
            yield poses(i, t0_ns + i * PERIOD_NS + late_ns)

    export(recorded(tmp_path, bunched()), "euroc", tmp_path / "euroc")
    table = tmp_path / "euroc" / "drone" / "mav0" / "state_groundtruth_estimate0" / "data.csv"
    vx_mps = np.loadtxt(table, delimiter=",", skiprows=1)[:, 8]
    assert len(vx_mps) > 190
    assert vx_mps.min() > 0.2
    assert vx_mps.max() < 1.1
    assert np.median(vx_mps) == pytest.approx(0.5, abs=1e-6)


def test_a_swarm_is_read_a_few_times_and_not_once_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = tuple(f"swarm_{i}" for i in range(1, 111))
    t0_ns = now_ns() - NS_PER_S
    flight = recorded(tmp_path, (poses(i, t0_ns + i * PERIOD_NS, everybody) for i in range(6)))
    passes = 0
    events = Recording.stamped_events

    def counted(self: Recording) -> object:
        nonlocal passes
        passes += 1
        return events(self)

    monkeypatch.setattr(Recording, "stamped_events", counted)
    told = export(flight, "euroc", tmp_path / "euroc")
    assert told == {f"{name}/state_groundtruth_estimate0": 4 for name in everybody}
    assert passes <= 5


def test_black_pictures_of_a_lost_carrier_are_left_out_where_nothing_can_say_so(
    tmp_path: Path,
) -> None:
    flight = recorded(tmp_path, felt_and_seen(), blank=True)
    assert export(flight, "euroc", tmp_path / "euroc")["drone/cam0"] == 2
    assert export(flight, "ros2", tmp_path / "bag")["/front/image_raw/compressed"] == 2
    assert export(flight, "png", tmp_path / "png") == {"front-raw": 3}


def test_a_long_pause_is_no_damage(tmp_path: Path) -> None:
    pause_ns = 3700 * NS_PER_S
    t0_ns = now_ns()

    def after(begin_ns: int) -> Iterator[SourceEvent]:
        return (poses(i, begin_ns + i * PERIOD_NS) for i in range(20))

    alone = CONFIG.replace(", count: 110", "")
    flight = recorded(
        tmp_path, after(t0_ns), after(t0_ns + pause_ns), apart_ns=pause_ns, config=alone
    )
    done = replay_offline(flight, tmp_path / "out")
    assert (done.events, round(done.recorded_s)) == (40, 3700)
