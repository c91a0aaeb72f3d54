"""A running bridge records, plays back in place of its live source, and survives what happens to
recordings.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import yaml
from mcap.exceptions import EndOfFile
from mcap.records import Chunk
from mcap.stream_reader import StreamReader

from tests.support.bridge_rig import build, drawn_bridge, recordings_of, running
from tests.support.events import receiving, until
from tests.support.programs import VIL_BRIDGE, Program
from tests.support.record import record, some_events
from vil_bridge.assembly.recorded import replay_config
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import ClockExchange, ImuSample, RenderedImage, SourceFrame, View
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.offline.report_input import recorded_report
from vil_bridge.recording.config import McapConfig
from vil_bridge.recording.reader import Recording
from vil_bridge.recording.source import McapSource
from vil_renderer.flightgoggles.convert_renderer import RenderedRequest

CONFIG = """
version: 1
name: flight
rooms: {{lab: {{T_world_room: {{p_m: [10.0, 0.0, 0.0]}}}}}}
sources:
  mocap: {{type: motion-file, room: lab, path: {folder}/flight.txt, format: tum, subject: body,
      loop: true}}
actors: {{drone: {{kind: vehicle, source: mocap, subject: body}}}}
{cameras}
stream: {{bind: "tcp://127.0.0.1:0"}}
http: {{port: 0}}
record: {{folder: {folder}/recordings}}
realtime: {{fifo_priority: 0}}
"""
CAMERAS = """
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {actor: drone, renderer: drawn, width_px: 32, height_px: 24, rate_hz: 40,
    plane_depth_m: 5}}
"""


def written(folder: Path, cameras: str = "") -> Path:
    """A bridge whose only source plays a circle of 4 s, 100 poses a second."""
    rows = []
    for i in range(400):
        a = 2 * math.pi * i / 400
        rows.append(
            f"{i / 100:.3f} {math.cos(a)} {math.sin(a)} 1 0 0 {math.sin(a / 2)} {math.cos(a / 2)}"
        )
    (folder / "flight.txt").write_text("\n".join(rows) + "\n")
    path = folder / "bridge.yaml"
    path.write_text(CONFIG.format(folder=folder, cameras=cameras))
    return path


def grey(views: tuple[View, ...], _world: object) -> RenderedRequest:
    def picture(view: View) -> RenderedImage:
        return RenderedImage(
            view, np.full((view.camera.height_px, view.camera.width_px, 3), 90, np.uint8)
        )

    return RenderedRequest(tuple(picture(view) for view in views))


async def asked(web: httpx.AsyncClient, method: str, path: str, **body: Any) -> Any:
    answer = await web.request(method, f"/api/v1/{path}", json=body or None)
    return answer.raise_for_status().json()


@pytest.mark.wire
async def test_record_and_replay_over_rest(tmp_path: Path) -> None:
    async with (
        drawn_bridge(written(tmp_path, CAMERAS), grey) as bridge,
        httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web,
    ):
        assert (await asked(web, "GET", "recording"))["state"] == "idle"
        begun = await asked(web, "PUT", "recording", name="one")
        assert (begun["state"], begun["file"]) == ("recording", "one.mcap")
        refused = await web.put("/api/v1/recording", json={})
        assert refused.status_code == 409
        assert "one.mcap is being recorded" in refused.json()["detail"]
        assert (await web.get("/api/v1/recordings/one.mcap")).status_code == 409
        relay = bridge.context.cameras["front"].relay
        await until(lambda: relay.delivered["rgb/compensated"] > 20)
        told = await asked(web, "DELETE", "recording")
        assert (told["state"], told["lost"]) == ("idle", {})
        (stored,) = await asked(web, "GET", "recordings")
        assert stored["readable"]
        assert not stored["truncated"]
        fetched = await web.get("/api/v1/recordings/one.mcap")
        assert fetched.content == (tmp_path / "recordings" / "one.mcap").read_bytes()
        assert not relay._sink.wanted("rgb", "compensated")  # nobody reads any more

        for bad in ({"name": "two"}, {"name": "../one"}, {"name": "one", "rate": 0}):
            assert (await web.put("/api/v1/replay", json=bad)).status_code in (404, 422)
        await asked(web, "PUT", "replay", name="one", loop=True)
        line = bridge.context.sources["mocap"]
        await until(lambda: line.status.counters["held_back"] > 20)
        playing = await asked(web, "GET", "replay")
        assert (playing["state"], playing["file"]) == ("playing", "one.mcap")
        assert playing["held_back"]["mocap"] > 20
        assert (await asked(web, "GET", "sources"))["mocap"]["report"]["facts"][
            "replay"
        ] == "one.mcap"
        assert (await asked(web, "DELETE", "replay"))["state"] == "idle"
        held = line.status.counters["held_back"]
        before = line.meter.count
        await until(lambda: line.meter.count > before + 10)
        assert line.status.counters["held_back"] == held
        assert "replay" not in line.status.facts
        check_recording(tmp_path / "recordings" / "one.mcap")


@pytest.mark.wire
async def test_what_is_changed_while_it_records_is_in_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        drawn_bridge(written(tmp_path, CAMERAS), grey) as bridge,
        httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web,
    ):
        # Is in force at the start.
        (await web.put("/api/v1/lighting", json={"time_of_day_h": 7.5})).raise_for_status()
        await asked(web, "PUT", "recording", name="one")
        mount = await asked(web, "GET", "cameras/front/mount")
        moved = [0.25, *mount["p_m"][1:]]
        await asked(web, "PUT", "cameras/front/mount", **{**mount, "p_m": moved})
        await until(
            lambda: b"changed_utc_ns" in (tmp_path / "recordings" / "one.mcap").read_bytes()
        )
        await asked(web, "DELETE", "recording")
    with Recording(tmp_path / "recordings" / "one.mcap") as recording:
        assert "time_of_day_h: 7.5" in recording.config_text
        ((t_utc_ns, text),) = recording.changes
        assert 0 <= t_utc_ns - recording.started_utc_ns < 30 * NS_PER_S
        places = [
            yaml.safe_load(t)["cameras"]["front"]["T_body_camera"]["p_m"]
            for t in (recording.config_text, text)
        ]
        assert places == [mount["p_m"], moved]
        replay_config(recording, rate=1.0, loop=False)
    assert "changed 1 times while it recorded" in caplog.text


def check_recording(path: Path) -> None:
    with Recording(path) as recording:
        frames = [e for e in recording.events() if isinstance(e, SourceFrame)]
        pictures = list(recording.pictures("front"))
        assert "lab" in recording.config_text
    assert len(frames) > 20
    assert [f.frame_number for f in frames] == sorted({f.frame_number for f in frames})
    assert len(pictures) > 20
    assert {header["variant"] for header, _ in pictures} == {"compensated"}
    ledgers, errors = recorded_report(path)
    # A rendering that is shown again, since the next one is late, has no row.
    rendered = [header["frame_id"] for header, _ in pictures if "render_age_ns" not in header]
    assert len(ledgers[0].rows) >= len(rendered) - 1
    assert {row.frame_id for row in ledgers[0].rows} >= set(rendered[:-2])
    assert float(np.median(errors["front"].position_mm)) < 300.0


@pytest.mark.wire
async def test_a_recorded_bridge_is_built_again_and_its_world_moves_as_it_did(
    tmp_path: Path,
) -> None:
    bridge = build(written(tmp_path), record=tmp_path / "a.mcap")
    async with running(bridge):
        await until(lambda: bridge.context.sources["mocap"].meter.count > 60)
    with Recording(tmp_path / "a.mcap") as recording:
        config = replay_config(recording, rate=1.0, loop=False)
        frames = [e for e in recording.events() if isinstance(e, SourceFrame)]
    assert config.sources["mocap"].type == "replay"
    again = Bridge(config.model_copy(update={"http": config.http.model_copy(update={"port": 0})}))
    seen: list[SourceFrame] = []
    recordings_of(again).record = lambda event: (  # type: ignore[method-assign]
        seen.append(event) if isinstance(event, SourceFrame) else None
    )
    async with running(again):
        await until(lambda: len(seen) == len(frames))
        newest = again.context.world.newest("drone")
    assert newest is not None
    np.testing.assert_allclose(newest[0].p_m, frames[-1].p_m[0] + (10.0, 0.0, 0.0))
    steps = np.diff([f.t_arrival_ns for f in frames])
    np.testing.assert_array_equal(np.diff([f.t_arrival_ns for f in seen]), steps)


async def test_a_source_tells_again_what_was_recorded_with_the_spacing_it_had(
    tmp_path: Path,
) -> None:
    events = some_events(30)
    record(tmp_path / "a.mcap", events)
    own = [e for e in events if e.source == "mocap"]
    source = McapSource("again", McapConfig(path=tmp_path / "a.mcap", source="mocap", loop=True))
    async with receiving(source) as received:
        await received.until(lambda: received.resets and len(received.frames) > 30)
        assert received.status.facts["recorded_by"] == "test"
    first = received.events[: len(own)]
    assert {e.source for e in received.events} == {"again"}
    shift_ns = {e.t_arrival_ns - r.t_arrival_ns for e, r in zip(of(first), of(own), strict=True)}
    assert len(shift_ns) == 1
    (shift,) = shift_ns
    for told, was in zip(first, own, strict=True):
        if isinstance(told, ClockExchange):
            assert isinstance(was, ClockExchange)
            assert (told.t_sent_ns - was.t_sent_ns, told.t_foreign_ns) == (shift, was.t_foreign_ns)
        elif isinstance(told, SourceFrame):
            assert isinstance(was, SourceFrame)
            assert told.t_foreign_ns == was.t_foreign_ns
            assert np.array_equal(told.p_m, was.p_m)
            assert told.t_arrival_ns <= now_ns()


def of(events: list[Any]) -> list[SourceFrame]:
    return [e for e in events if isinstance(e, SourceFrame)]


async def test_another_rate_scales_both_clocks_and_leaves_out_what_is_felt(tmp_path: Path) -> None:
    events = some_events(30)
    record(tmp_path / "a.mcap", events)
    mocap = McapSource("mocap", McapConfig(path=tmp_path / "a.mcap", rate=0.5))
    async with receiving(mocap) as received:
        await received.until(lambda: len(received.frames) == 30)
    own = of(events)
    was = np.diff([f.t_arrival_ns for f in own])
    np.testing.assert_allclose(np.diff([f.t_arrival_ns for f in received.frames]), 2 * was, atol=1)
    np.testing.assert_allclose(
        np.diff([f.t_foreign_ns or 0 for f in received.frames]), 2 * was, atol=1
    )
    imu = McapSource("imu", McapConfig(path=tmp_path / "a.mcap", rate=0.5))
    async with receiving(imu) as felt:
        await felt.until(lambda: "has ended" in felt.status.report().reason)
    assert not felt.of(ImuSample)


async def test_a_loop_resets_sources_that_tell_no_time_and_ends_when_nothing_was_recorded(
    tmp_path: Path,
) -> None:
    unstamped = [e for e in some_events(20) if isinstance(e, ImuSample) and e.t_foreign_ns is None]
    record(tmp_path / "a.mcap", [e for e in unstamped if e.source == "imu"])
    async with receiving(McapSource("imu", McapConfig(path=tmp_path / "a.mcap", loop=True))) as imu:
        await imu.until(lambda: len(imu.of(ImuSample)) > len(unstamped) and imu.resets)
    async with receiving(
        McapSource("mocap", McapConfig(path=tmp_path / "a.mcap", loop=True))
    ) as silent:
        await silent.until(lambda: "has ended" in silent.status.report().reason)


@pytest.mark.wire
async def test_the_last_of_two_that_ask_for_a_replay_at_once_has_it(tmp_path: Path) -> None:
    bridge = build(written(tmp_path), record=tmp_path / "a.mcap")
    async with running(bridge):
        await until(lambda: bridge.context.sources["mocap"].meter.count > 20)
        await asyncio.to_thread(recordings_of(bridge).stop)
        player = recordings_of(bridge).player
        path = tmp_path / "a.mcap"
        await asyncio.to_thread(player.play, path, path.open("rb"), 1.0, True)
        begun = (
            player._begin(Recording(path), frozenset({"mocap"}), rate, True) for rate in (0.5, 0.25)
        )
        await asyncio.gather(*begun)
        replays = [task for task in asyncio.all_tasks() if task.get_name() == "replay"]
        assert (len(replays), player.view().state, player.view().rate) == (1, "playing", 0.25)
        begun = (player._begin(Recording(path), frozenset({"mocap"}), 1.0, True), player.end())  # type: ignore[assignment]
        await asyncio.gather(*begun)
        assert player.view().state == "idle"


def test_a_source_that_was_not_recorded_is_named(tmp_path: Path) -> None:
    record(tmp_path / "a.mcap", some_events(1))
    with pytest.raises(ConfigError, match="no source 'vicon'; it has: mocap, imu"):
        McapSource("vicon", McapConfig(path=tmp_path / "a.mcap"))


def test_sources_of_one_recording_keep_their_common_time(tmp_path: Path) -> None:
    events = some_events(20)
    record(tmp_path / "a.mcap", events)

    async def together() -> tuple[list[Any], list[Any]]:
        config = {"path": tmp_path / "a.mcap"}
        async with receiving(McapSource("mocap", McapConfig(**config))) as mocap:
            await asyncio.sleep(0.05)
            async with receiving(McapSource("imu", McapConfig(**config))) as imu:
                await imu.until(lambda: len(imu.of(ImuSample)) == 20 and len(mocap.frames) == 20)
        return mocap.frames, imu.of(ImuSample)

    frames, samples = asyncio.run(together())
    was = [e.t_arrival_ns for e in events if isinstance(e, ImuSample)]
    shift = frames[0].t_arrival_ns - of(events)[0].t_arrival_ns
    assert [s.t_arrival_ns - shift for s in samples] == was


@pytest.mark.process
def test_a_killed_bridge_loses_the_last_second_at_most(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with Program(*VIL_BRIDGE, "run", written(tmp_path), "--record", path) as bridge:
        bridge.await_that(lambda: path.exists() and len(chunks_s(path)) >= 8, "poses in the file")
        on_disk = arrivals_in(path)
        bridge.kill()
    with Recording(path) as recording:
        assert recording.truncated
    arrivals = arrivals_in(path)
    assert arrivals == sorted(set(arrivals))
    assert len(on_disk) > 100 and arrivals[: len(on_disk)] == on_disk, "what was written stays"
    assert np.median(chunks_s(path)) < 1.0, "what is not written yet is of a second at most"


def arrivals_in(path: Path) -> list[int]:
    with Recording(path) as recording:
        return [e.t_arrival_ns for e in recording.events() if isinstance(e, SourceFrame)]


def chunks_s(path: Path) -> list[float]:
    """Time from the first to the last message of each chunk in a file that may not be complete."""
    found = []
    with path.open("rb") as file, suppress(EndOfFile):
        for record in StreamReader(file, emit_chunks=True).records:
            if isinstance(record, Chunk):
                found.append((record.message_end_time - record.message_start_time) / NS_PER_S)
    return found
