"""A captured tracking system plays again at the wire: an ordinary source gets the same frames."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from tests.bridge_rig import running
from tests.events import Received, receiving, until
from tests.motions import Dance
from tests.optitrack_support import SpinMotion, client, emulated
from tests.pcap_by_hand import packets_by_hand
from vil_adapters.captured import CapturedStream
from vil_adapters.optitrack.codec import MessageId, message_id
from vil_adapters.optitrack.config import OptitrackConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.replayed import ReplayedMotive
from vil_adapters.optitrack.source import OptitrackSource
from vil_adapters.vicon.config import TrackerUdpConfig, TrackerUdpEmulatorConfig
from vil_adapters.vicon.objects_emulator import TrackerUdpEmulator
from vil_adapters.vicon.objects_source import TrackerUdpSource
from vil_bridge import registry
from vil_bridge.app import Bridge
from vil_bridge.cli.main import main
from vil_bridge.config.load import load
from vil_bridge.core.clock import now_ns
from vil_bridge.core.datagrams import Datagram
from vil_bridge.core.ports import PoseSource
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import SkeletonFrame, SourceFrame
from vil_bridge.lab.captures import CaptureSpec
from vil_bridge.processes import free_ports
from vil_bridge.record.capture import capturing
from vil_bridge.record.pcap import PREAMBLE, read_capture

_RATE_HZ = 100.0


@contextlib.asynccontextmanager
async def captured(source: PoseSource, folder: Path) -> AsyncIterator[Received]:
    """A source at work whose datagrams are kept."""
    with capturing(folder, [(source, Status("lab"))]):
        async with receiving(source) as received:
            yield received


def capture_in(folder: Path) -> Path:
    (path,) = folder.glob("lab-*.pcap")
    return path


@contextlib.asynccontextmanager
async def replayed(path: Path) -> AsyncIterator[tuple[Received, asyncio.Task[None]]]:
    """A new source that follows a captured Motive, and the life of that."""
    server = CaptureSpec(path).open()
    assert isinstance(server, ReplayedMotive)
    playing = asyncio.create_task(server.run())
    try:
        async with receiving(OptitrackSource("again", OptitrackConfig(command_port=server.port))) as again:
            yield again, playing
    finally:
        playing.cancel()
        await asyncio.wait([playing])


def following(motive: MotiveEmulator) -> OptitrackSource:
    return OptitrackSource("lab", client(motive))


def came(received: Received) -> int:
    """Frames that reached a source, whatever became of them."""
    counters = received.status.counters
    return len(received.frames) + counters["superseded"] + counters["undescribed"] + counters["stale"]


def frame_datagrams(path: Path) -> list[Datagram]:
    return [d for d in read_capture(path) if message_id(d.payload) == MessageId.FRAMEOFDATA]


def assert_same(a: SourceFrame, b: SourceFrame) -> None:
    """But for the arrival."""
    assert (a.frame_number, a.t_foreign_ns, a.subjects) == (b.frame_number, b.t_foreign_ns, b.subjects)
    skeletons = zip(a.skeletons, b.skeletons, strict=True)
    tracked: list[tuple[SourceFrame | SkeletonFrame, SourceFrame | SkeletonFrame]] = [(a, b), *skeletons]
    for one, other in tracked:
        assert np.array_equal(one.p_m, other.p_m)
        assert np.array_equal(one.q_xyzw, other.q_xyzw)
        assert np.array_equal(one.tracked, other.tracked)


def in_common(first: list[SourceFrame], again: list[SourceFrame]) -> list[tuple[SourceFrame, SourceFrame]]:
    by_number = {frame.frame_number: frame for frame in first}
    return [(by_number[f.frame_number], f) for f in again if f.frame_number in by_number]


def latency_ns(received: Received, frames: list[SourceFrame]) -> float:
    """Median age of frames at their arrival, by the best of the clock exchanges."""
    best = min(received.exchanges, key=lambda e: e.t_received_ns - e.t_sent_ns)
    offset_ns = best.t_foreign_ns - (best.t_sent_ns + best.t_received_ns) // 2
    return float(np.median([f.t_arrival_ns + offset_ns - (f.t_foreign_ns or 0) for f in frames]))


@pytest.mark.parametrize("transport", ["unicast", "multicast"])
async def test_frames_are_the_same_again(tmp_path: Path, transport: str) -> None:
    async with emulated(transport=transport) as motive, captured(following(motive), tmp_path) as first:
        await first.more_frames(100)
    sent = frame_datagrams(capture_in(tmp_path))
    async with replayed(capture_in(tmp_path)) as (again, playing):
        await asyncio.wait_for(asyncio.shield(playing), 30.0)
        await again.until(lambda: again.frames and again.frames[-1].frame_number == first.frames[-1].frame_number)
        if transport == "unicast":  # who joins a group later than that day misses what was sent before
            await again.until(lambda: came(again) >= len(sent))
    if transport == "unicast":
        assert came(again) == len(sent) >= 100
        assert again.status.counters["lost"] == first.status.counters["lost"]
    for reason in ("malformed", "resets"):
        assert again.status.counters[reason] == first.status.counters[reason]
    pairs = in_common(first.frames, again.frames)
    assert len(pairs) >= 30
    for a, b in pairs:
        assert_same(a, b)
    later_ns = np.array([b.t_arrival_ns - a.t_arrival_ns for a, b in pairs])
    assert np.median(np.abs(later_ns - np.median(later_ns))) < 0.02e9
    ages_ns = latency_ns(first, [a for a, _ in pairs]), latency_ns(again, [b for _, b in pairs])
    assert ages_ns[1] == pytest.approx(ages_ns[0], abs=0.02e9)


async def test_what_changed_then_changes_again(tmp_path: Path) -> None:
    """Descriptions are those of the same time; nobody knows the third body before it was there."""
    async with emulated() as motive, captured(following(motive), tmp_path) as first:
        await first.more_frames(100)
        motive.film(SpinMotion(("drone", "gate", "third")))
        await first.until(lambda: "third" in first.frames[-1].subjects)
        await first.more_frames(30)
    async with replayed(capture_in(tmp_path)) as (again, _):
        await again.until(lambda: again.frames and "third" in again.frames[-1].subjects)
        await again.more_frames(10)
    assert again.frames[0].subjects == ("drone", "gate")
    settled = [(a, b) for a, b in in_common(first.frames, again.frames) if a.subjects == b.subjects]
    assert {a.subjects for a, _ in settled} == {("drone", "gate"), ("drone", "gate", "third")}
    for a, b in settled:
        assert_same(a, b)


async def test_what_was_refused_then_is_refused_again(tmp_path: Path) -> None:
    async with emulated(faults="garbage=20%") as motive, captured(following(motive), tmp_path) as first:
        await first.until(lambda: first.status.counters["malformed"] > 5)
        await first.more_frames(3)
    async with replayed(capture_in(tmp_path)) as (again, _):
        await again.until(lambda: again.status.counters["malformed"] > 3)


async def test_tracker_s_objects_are_the_same_again(tmp_path: Path) -> None:
    config = TrackerUdpEmulatorConfig(port=0, rate_hz=_RATE_HZ)
    async with TrackerUdpEmulator(config, Dance(skeleton_models=()), now_ns()) as tracker:
        listening = TrackerUdpConfig(port=tracker.port, rate_hz=_RATE_HZ)
        async with captured(TrackerUdpSource("lab", listening), tmp_path) as first:
            await first.more_frames(30)
    player = CaptureSpec(capture_in(tmp_path), port=tracker.port).open()
    assert isinstance(player, CapturedStream)
    async with receiving(TrackerUdpSource("again", listening)) as again:
        await again.until(lambda: "port" in again.status.facts)
        await player.run()
        sent = len(list(read_capture(capture_in(tmp_path))))
        await again.until(lambda: len(again.frames) + again.status.counters["superseded"] == sent >= 30)
    pairs = in_common(first.frames, again.frames)
    assert len(pairs) >= 15
    for a, b in pairs:
        assert_same(a, b)


_BRIDGE = """
version: 1
rooms: {{lab: {{}}}}
sources:
  mocap: {{type: optitrack, room: lab, command_port: {port}}}
  other: {{type: vicon, room: lab, port: 1}}
stream: {{bind: "tcp://127.0.0.1:0"}}
http: {{port: 0}}
realtime: {{fifo_priority: 0}}
debug: {{capture: {folder}}}
"""


async def test_a_bridge_keeps_what_its_configuration_asks_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "bridge.yaml"
    async with emulated() as motive:
        path.write_text(_BRIDGE.format(port=motive.command_port, folder=tmp_path / "captures"))
        bridge = Bridge(load(path, env={}, resolve=registry.resolve))
        async with running(bridge):
            status = bridge.sources["mocap"].status
            await until(lambda: status.state == "running")
            kept = Path(status.facts["capture"])
    assert "no datagrams of other: not received over UDP" in caplog.text
    assert list((tmp_path / "captures").iterdir()) == [kept]
    packets = await asyncio.to_thread(lambda: packets_by_hand(kept.read_bytes()))
    (_, here, server, _), *_ = packets
    assert server == ("127.0.0.1", motive.command_port)
    assert {p[1:3] for p in packets} == {
        (here, server),
        (server, here),
        (("127.0.0.1", motive.data_port), here),
    }


async def test_the_capture_of_a_killed_bridge_plays_in_the_lab_up_to_its_end(tmp_path: Path) -> None:
    config = tmp_path / "bridge.yaml"
    async with emulated() as motive:
        config.write_text(_BRIDGE.format(port=motive.command_port, folder=tmp_path / "captures"))
        bridge = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "vil_bridge", "run", str(config)), stderr=subprocess.DEVNULL, process_group=0
        )
        try:
            await until(lambda: any(f.stat().st_size > 50_000 for f in tmp_path.glob("captures/*")), 60.0)
        finally:
            os.killpg(bridge.pid, signal.SIGKILL)
            await bridge.wait()
    path = cut(tmp_path)
    sent = frame_datagrams(path)
    (port,) = free_ports(1, socket.SOCK_DGRAM)
    lab = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "vil_bridge", "lab", "--imu", str(tmp_path / "imu")),
        *("--replay-capture", f"{port}={path}"),
        stdout=subprocess.PIPE,
    )
    try:
        async with receiving(OptitrackSource("again", OptitrackConfig(command_port=port))) as again:
            told = await asyncio.wait_for(_until_line(lab, "has ended"), 60.0)
            await again.until(lambda: came(again) == len(sent) >= 50)
        lab.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(lab.wait(), 20.0) == 0
    finally:
        if lab.returncode is None:
            lab.kill()
            await lab.wait()
    assert f"capture: {path} at 127.0.0.1:{port}" in told
    assert told[-1] == f"{path} at 127.0.0.1:{port}: the capture has ended"


def cut(folder: Path) -> Path:
    """The only capture there, in the middle of a datagram."""
    (path,) = folder.glob("captures/*")
    path.write_bytes(path.read_bytes()[:-7])
    return path


async def _until_line(process: asyncio.subprocess.Process, end: str) -> list[str]:
    assert process.stdout is not None
    lines = []
    async for line in process.stdout:
        lines.append(line.decode().rstrip("\n"))
        if lines[-1].endswith(end):
            break
    return lines


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("capture.pcap", "write [ADDRESS:]PORT=FILE"),
        ("99999=capture.pcap", "write [ADDRESS:]PORT=FILE"),
        ("1.2.3.999:1510=capture.pcap", "write [ADDRESS:]PORT=FILE"),
        ("0={folder}/absent.pcap", "absent.pcap: cannot be read: No such file"),
        ("0={folder}/text.pcap", "text.pcap: no capture of the bridge"),
        ("0={folder}/empty.pcap", "empty.pcap: there is no datagram in it"),
        ("0={folder}/silent.pcap", "silent.pcap: no NatNet server announces itself in it"),
    ],
)
def test_what_cannot_be_played_is_refused(
    argument: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(_make_files(tmp_path))
    arguments = [
        "vil-bridge",
        "lab",
        "--imu",
        str(tmp_path / "imu"),
        "--replay-capture",
        argument.format(folder=tmp_path),
    ]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert said in capsys.readouterr().err


async def _make_files(folder: Path) -> None:
    """One that is no capture, one in which nothing happened, one of a source whose server was off."""
    (folder / "text.pcap").write_text("not a capture, whatever its name says")
    (folder / "silent").mkdir()
    (port,) = free_ports(1, socket.SOCK_DGRAM)
    async with captured(OptitrackSource("lab", OptitrackConfig(command_port=port)), folder / "silent") as received:
        await received.until(lambda: capture_in(folder / "silent").stat().st_size > len(PREAMBLE))
    silent = capture_in(folder / "silent")
    silent.rename(folder / "silent.pcap")
    (folder / "empty.pcap").write_bytes((folder / "silent.pcap").read_bytes()[: len(PREAMBLE)])
