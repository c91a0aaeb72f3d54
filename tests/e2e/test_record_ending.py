"""Recordings at the end of the bridge, on a disk that stalls, and what others log into them."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from foxglove_schemas_protobuf.Log_pb2 import Log
from mcap.reader import make_reader

from tests.support.bridge_rig import build, recordings_of, running
from tests.support.common import wait_until
from vil_bridge.core.errors import RecordingError
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.recording.reader import Recording
from vil_bridge.recording.recorder import Recorder

pytestmark = pytest.mark.wire


_CONFIG = """
version: 1
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
record: {folder: %s}
realtime: {fifo_priority: 0}
"""
_LONG_S = 60.0
"""Nobody waits that long: a test that does fails for it."""


def bridge_that_records_into(folder: Path) -> Bridge:
    return build(_CONFIG % folder)


async def test_a_bridge_of_any_name_records_into_its_folder(tmp_path: Path) -> None:
    name = "../Hall A / 北 north"
    bridge = build(f"name: {name}{_CONFIG % (tmp_path / 'kept')}")
    async with running(bridge), httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web:
        file = (await web.put("/api/v1/recording", json={})).json()["file"]
        assert file.startswith("Hall-A-north-")
        await web.delete("/api/v1/recording")
        (stored,) = (await web.get("/api/v1/recordings")).json()
        assert stored["name"] == file
        assert (await web.get(f"/api/v1/recordings/{file}")).content == (
            tmp_path / "kept" / file
        ).read_bytes()


def takes_more(bridge: Bridge, name: str) -> bool:
    try:
        recordings_of(bridge).opened(name).close()
    except RecordingError:
        return True
    return False


class Disk:
    """Its writes stall on demand."""

    def __init__(self) -> None:
        self.works, self.waiting = threading.Event(), threading.Event()
        self.works.set()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk, sync = Disk(), os.fdatasync

    def wait(file: int) -> None:
        if not disk.works.is_set():
            disk.waiting.set()
            disk.works.wait(_LONG_S)
            disk.works.set()  # so that a program that waits for it goes on some day
        sync(file)

    monkeypatch.setattr(os, "fdatasync", wait)
    yield disk
    disk.works.set()


async def test_a_bridge_that_has_ended_begins_no_recording(tmp_path: Path) -> None:
    bridge = bridge_that_records_into(tmp_path)
    async with running(bridge):
        pass
    with pytest.raises(RecordingError, match="the bridge is ending"):
        recordings_of(bridge).start("late")
    assert not recordings_of(bridge).stored()


async def test_a_bridge_ends_while_somebody_waits_for_a_recording_on_a_stalled_disk(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vil_bridge.services.recording.service._PATIENCE_S", 2 * _LONG_S)
    bridge = bridge_that_records_into(tmp_path)
    stopper = threading.Thread(target=recordings_of(bridge).stop)
    async with running(bridge):
        await asyncio.to_thread(recordings_of(bridge).start, "a")
        disk.works.clear()
        await asyncio.to_thread(disk.waiting.wait, _LONG_S)
        stopper.start()
        await asyncio.to_thread(
            wait_until, lambda: not takes_more(bridge, "a"), what="nothing more goes into it"
        )
    assert stopper.is_alive()
    assert [thread.daemon for thread in threading.enumerate() if thread.name == "recorder"] == [
        True
    ]
    disk.works.set()
    stopper.join(_LONG_S)
    assert not stopper.is_alive()
    with Recording(tmp_path / "a.mcap") as recording:
        assert not recording.truncated


async def test_a_recording_that_a_stalled_disk_begins_too_late_is_refused_and_has_an_end(
    tmp_path: Path, disk: Disk
) -> None:
    bridge = bridge_that_records_into(tmp_path)
    told: list[str] = []

    def start() -> None:
        try:
            recordings_of(bridge).start("a")
        except RecordingError as exc:
            told.append(str(exc))

    starter = threading.Thread(target=start)
    async with running(bridge):
        disk.works.clear()
        starter.start()
        await asyncio.to_thread(disk.waiting.wait, _LONG_S)
    assert starter.is_alive()
    disk.works.set()
    starter.join(_LONG_S)
    assert len(told) == 1
    assert "the bridge is ending" in told[0]
    with Recording(tmp_path / "a.mcap") as recording:
        assert not recording.truncated


def told_of(
    stop: Callable[[Recorder, float], None], begun: threading.Semaphore
) -> Callable[[Recorder, float], None]:
    def stop_and_tell(recorder: Recorder, patience_s: float) -> None:
        begun.release()
        stop(recorder, patience_s)

    return stop_and_tell


async def test_two_that_stop_a_recording_both_wait_for_its_end(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = bridge_that_records_into(tmp_path)
    async with running(bridge), httpx.AsyncClient(base_url=bridge.http.url, timeout=_LONG_S) as web:
        (await web.put("/api/v1/recording", json={"name": "a"})).raise_for_status()
        disk.works.clear()
        await asyncio.to_thread(disk.waiting.wait, _LONG_S)
        waiting = threading.Semaphore(0)
        monkeypatch.setattr(Recorder, "stop", told_of(Recorder.stop, waiting))
        both = [asyncio.create_task(web.delete("/api/v1/recording")) for _ in range(2)]
        for _ in both:
            assert await asyncio.to_thread(waiting.acquire, timeout=_LONG_S)
        disk.works.set()
        assert [answer.json()["state"] for answer in await asyncio.gather(*both)] == [
            "idle",
            "idle",
        ]


async def test_what_is_freed_in_the_inbox_may_log_while_another_thread_logs(tmp_path: Path) -> None:
    """A thread that logs holds no lock of the handler's while it waits for the inbox, or each
    would wait for the other.
    """
    bridge, before = bridge_that_records_into(tmp_path), set(logging.getLogger().handlers)
    async with running(bridge):
        await asyncio.to_thread(recordings_of(bridge).start, "a")
        (tap,) = set(logging.getLogger().handlers) - before - {bridge.log}
        assert tap.lock is not None
        with tap.lock:
            other = threading.Thread(
                target=logging.getLogger("some.library").warning, args=("freed",), daemon=True
            )
            other.start()
            await asyncio.to_thread(other.join, _LONG_S)
            assert not other.is_alive()
        await asyncio.to_thread(recordings_of(bridge).stop)


async def test_a_line_that_is_no_text_does_not_harm_who_logs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Pytest's own raise what is wrong with a line.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    bridge, library = bridge_that_records_into(tmp_path), logging.getLogger("some.library")
    async with running(bridge):
        await asyncio.to_thread(recordings_of(bridge).start, "a")
        library.warning("took %d ms", "long")
        library.warning("%(what)s", {"who": "nobody"})
        library.warning("took %d ms", 3)
        await asyncio.to_thread(recordings_of(bridge).stop)
    with (tmp_path / "a.mcap").open("rb") as file:
        lines = [
            Log.FromString(message.data)
            for _, _, message in make_reader(file).iter_messages(topics="/log")
        ]
    assert [line.message for line in lines if line.name == "some.library"] == ["took 3 ms"]
    assert "took %d ms" in capsys.readouterr().err
