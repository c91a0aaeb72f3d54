"""A captured tracking system plays again at the wire: an ordinary source gets the same frames."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.bridge_rig import running
from tests.support.common import PATIENCE_S, needs_program
from tests.support.events import Received, receiving, until
from tests.support.motions import Dance
from tests.support.optitrack import SpinMotion, client, emulated
from tests.support.pcap_by_hand import packets_by_hand
from tests.support.playback import (
    HeldClock,
    begin_ns,
    came,
    capture_in,
    frame_datagrams,
    in_common,
    replayed,
)
from tests.support.programs import VIL_BRIDGE, Program
from vil_adapters.emulation.capture_playback import CapturedStream
from vil_adapters.lab.captures import CaptureSpec
from vil_adapters.optitrack.config import OptitrackConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.source import OptitrackSource
from vil_adapters.vicon.config import TrackerUdpConfig, TrackerUdpEmulatorConfig
from vil_adapters.vicon.udp_emulator import TrackerUdpEmulator
from vil_adapters.vicon.udp_source import TrackerUdpSource
from vil_bridge.cli.main import main
from vil_bridge.core.clock import NS_PER_MS, now_ns
from vil_bridge.core.types import SkeletonFrame, SourceFrame
from vil_bridge.interfaces.ports import PoseSource
from vil_bridge.protocols.natnet.codec import MessageId, encode
from vil_bridge.protocols.pcap.pcap import PREAMBLE, encode_datagram, read_capture
from vil_bridge.recording.packet_capture import capturing
from vil_bridge.runtime.supervisor import Status
from vil_simulation.demo.child_processes import free_ports

pytestmark = pytest.mark.wire


_RATE_HZ = 100.0
_END = encode(MessageId.KEEPALIVE, b"the end of the capture")


@contextlib.asynccontextmanager
async def captured(source: PoseSource, folder: Path) -> AsyncIterator[Received]:
    """A source at work whose datagrams are kept."""
    with capturing(folder, [(source, Status("lab"))]):
        async with receiving(source) as received:
            yield received


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HeldClock:
    return HeldClock(monkeypatch)


def following(motive: MotiveEmulator) -> OptitrackSource:
    return OptitrackSource("lab", client(motive))


def assert_same(a: SourceFrame, b: SourceFrame) -> None:
    """But for the arrival."""
    assert (a.frame_number, a.t_foreign_ns, a.subjects) == (
        b.frame_number,
        b.t_foreign_ns,
        b.subjects,
    )
    skeletons = zip(a.skeletons, b.skeletons, strict=True)
    tracked: list[tuple[SourceFrame | SkeletonFrame, SourceFrame | SkeletonFrame]] = [
        (a, b),
        *skeletons,
    ]
    for one, other in tracked:
        assert np.array_equal(one.p_m, other.p_m)
        assert np.array_equal(one.q_xyzw, other.q_xyzw)
        assert np.array_equal(one.tracked, other.tracked)


def clock_offsets_ns(received: Received) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the offset of the server's clock from this computer's, by each exchange."""
    return np.array(
        [e.t_foreign_ns - (e.t_sent_ns + e.t_received_ns) // 2 for e in received.exchanges]
    )


@pytest.mark.parametrize("transport", ["unicast", "multicast"])
async def test_frames_are_the_same_again(tmp_path: Path, transport: str, clock: HeldClock) -> None:
    async with (
        emulated(transport=transport) as motive,
        captured(following(motive), tmp_path) as first,
    ):
        await first.more_frames(100)
    path = capture_in(tmp_path)
    sent = frame_datagrams(path)
    async with replayed(path) as again:
        await clock.play(sent, begin_ns(path), again)
    assert came(again) == len(sent) >= 100
    for reason in ("malformed", "resets"):
        assert again.status.counters[reason] == first.status.counters[reason], (
            again.status.facts.get("last_reset")
        )
    numbers = {int.from_bytes(frame.payload[4:8], "little") for frame in sent}
    # Overtaken on the loopback of a busy machine: lost at first.
    late = again.status.counters["reordered"]
    assert again.status.counters["lost"] - late == max(numbers) - min(numbers) + 1 - len(numbers)
    pairs = in_common(first.frames, again.frames)
    assert len(pairs) >= 30
    for a, b in pairs:
        assert_same(a, b)
    later_ns = np.array([b.t_arrival_ns - a.t_arrival_ns for a, b in pairs])
    assert np.ptp(later_ns) < 10_000, "the spacing is what it was"
    # Exchanges are answered by the clock of the nearest echo in the capture, so that frames are as
    # old as they were.
    apart_ns = np.abs(clock_offsets_ns(again)[:, None] + later_ns[0] - clock_offsets_ns(first))
    assert np.median(apart_ns.min(axis=1)) < NS_PER_MS


async def test_what_changed_then_changes_again(tmp_path: Path, clock: HeldClock) -> None:
    """Descriptions are those of the same time; nobody knows the third body before it was there."""
    async with emulated() as motive, captured(following(motive), tmp_path) as first:
        await first.more_frames(100)
        motive.set_motion(SpinMotion(("drone", "gate", "third")))
        await first.until(lambda: "third" in first.frames[-1].subjects)
        await first.more_frames(30)
    path = capture_in(tmp_path)
    async with replayed(path) as again:
        await clock.play(frame_datagrams(path), begin_ns(path), again)
    assert again.frames[0].subjects == ("drone", "gate")
    settled = [(a, b) for a, b in in_common(first.frames, again.frames) if a.subjects == b.subjects]
    assert {a.subjects for a, _ in settled} == {("drone", "gate"), ("drone", "gate", "third")}
    for a, b in settled:
        assert_same(a, b)


@pytest.mark.parametrize("transport", ["unicast", "multicast"])
async def test_of_two_servers_on_one_computer_the_first_plays_alone(
    tmp_path: Path, transport: str, clock: HeldClock
) -> None:
    """A capture of loopback, where a lab emulates two rooms.

    Answers, descriptions and frames of both are in it.
    """
    others = SpinMotion(("other", "third"))
    async with (
        emulated(transport=transport) as motive,
        emulated(others, transport=transport) as second,
        captured(following(motive), tmp_path) as first,
    ):
        await first.more_frames(10)
        async with captured(following(second), tmp_path / "second") as other:
            await other.more_frames(30)
            await first.more_frames(30)
    path = capture_in(tmp_path)
    sent = frame_datagrams(path)
    both = [*read_capture(path), *read_capture(capture_in(tmp_path / "second"))]
    mixed = sorted(both, key=lambda datagram: datagram.t_ns)
    path.write_bytes(PREAMBLE + b"".join(map(encode_datagram, mixed)))
    async with replayed(path) as again:
        await clock.play(sent, begin_ns(path), again)
    assert came(again) == len(sent)
    assert {frame.subjects for frame in again.frames} == {("drone", "gate")}


async def test_what_was_refused_then_is_refused_again(tmp_path: Path) -> None:
    async with (
        emulated(faults="garbage=20%") as motive,
        captured(following(motive), tmp_path) as first,
    ):
        await first.until(lambda: first.status.counters["malformed"] > 5)
        await first.more_frames(3)
    async with replayed(capture_in(tmp_path)) as again:
        await again.until(lambda: again.status.counters["malformed"] > 3)


async def test_tracker_s_objects_are_the_same_again(tmp_path: Path, clock: HeldClock) -> None:
    config = TrackerUdpEmulatorConfig(port=0, rate_hz=_RATE_HZ)
    async with TrackerUdpEmulator(config, Dance(skeleton_models=()), now_ns()) as tracker:
        listening = TrackerUdpConfig(port=tracker.port, rate_hz=_RATE_HZ)
        async with captured(TrackerUdpSource("lab", listening), tmp_path) as first:
            await first.more_frames(30)
    player = CaptureSpec(capture_in(tmp_path), port=tracker.port).open()
    assert isinstance(player, CapturedStream)
    async with receiving(TrackerUdpSource("again", listening)) as again:
        await again.until(lambda: "port" in again.status.facts)
        sent = list(read_capture(capture_in(tmp_path)))
        playing = asyncio.create_task(player.run())
        await clock.play(sent, sent[0].t_ns, again)
        await asyncio.wait_for(playing, PATIENCE_S)
    assert came(again) == len(again.frames) == len(sent) >= 30
    pairs = in_common(first.frames, again.frames)
    assert len(pairs) == len(first.frames)
    for a, b in pairs:
        assert_same(a, b)


@contextlib.asynccontextmanager
async def sniffing(
    tool: str, device: str, path: Path, motive: MotiveEmulator
) -> AsyncIterator[None]:
    """A foreign program that captures what an emulator sends and gets, on a device of this
    computer.
    """
    needs_program(tool, {"dumpcap": "wireshark-common"}.get(tool, tool))
    wanted = f"udp and (port {motive.command_port} or port {motive.data_port})"
    arguments = ["-U", wanted] if tool == "tcpdump" else ["-q", "-f", wanted]
    with (
        Program(tool, "-i", device, "-w", "-", *arguments, log=path, split=True) as child,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe,
    ):

        def begun() -> bool:
            probe.sendto(encode(MessageId.KEEPALIVE), ("127.0.0.1", motive.command_port))
            return child.poll() is not None or path.stat().st_size > 400

        await until(begun)
        if child.returncode is not None:
            pytest.skip(f"{tool} may not capture here: {child.error_text().strip()}")
        yield

        def complete() -> bool:
            """Return True once it has written what it held back.

            A datagram that came after all others.
            """
            probe.sendto(_END, ("127.0.0.1", motive.command_port))
            return _END in path.read_bytes()

        await until(complete)
        await asyncio.to_thread(child.end, signal.SIGINT)


@pytest.mark.process
@pytest.mark.parametrize(
    ("tool", "device"), [("tcpdump", "lo"), ("tcpdump", "any"), ("dumpcap", "lo")]
)
async def test_what_foreign_programs_captured_plays_again(
    tmp_path: Path, tool: str, device: str, clock: HeldClock
) -> None:
    path = tmp_path / "foreign.pcapng"
    async with (
        emulated() as motive,
        sniffing(tool, device, path, motive),
        receiving(following(motive)) as first,
    ):
        await first.more_frames(60)
    async with replayed(path) as again:
        await clock.play(frame_datagrams(path), begin_ns(path), again)
    assert again.status.counters["malformed"] == again.status.counters["duplicates"] == 0
    pairs = in_common(first.frames, again.frames)
    assert len(pairs) >= 20
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
debug: {{packet_capture: {folder}}}
"""


async def test_a_bridge_keeps_what_its_configuration_asks_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "captures"
    async with (
        emulated() as motive,
        running(_BRIDGE.format(port=motive.command_port, folder=folder)) as bridge,
    ):
        status = bridge.context.sources["mocap"].status
        await until(lambda: status.state == "running")
        kept = Path(status.facts["capture"])
    assert "no datagrams of other: not received over UDP" in caplog.text
    assert list(folder.iterdir()) == [kept]
    packets = await asyncio.to_thread(lambda: packets_by_hand(kept.read_bytes()))
    (_, here, server, _), *_ = packets
    assert server == ("127.0.0.1", motive.command_port)
    assert {p[1:3] for p in packets} == {
        (here, server),
        (server, here),
        (("127.0.0.1", motive.data_port), here),
    }


@pytest.mark.process
@pytest.mark.long
async def test_the_capture_of_a_killed_bridge_plays_in_the_lab_up_to_its_end(
    tmp_path: Path,
) -> None:
    config = tmp_path / "bridge.yaml"
    async with emulated() as motive:
        config.write_text(_BRIDGE.format(port=motive.command_port, folder=tmp_path / "captures"))
        with Program(*VIL_BRIDGE, "run", config) as bridge:
            captures = tmp_path / "captures"
            await bridge.until(
                lambda: any(f.stat().st_size > 50_000 for f in captures.glob("*")), "a capture"
            )
            bridge.kill()
    path = cut(tmp_path)
    sent = frame_datagrams(path)
    (port,) = free_ports(1, socket.SOCK_DGRAM)
    words = ("--imu", tmp_path / "imu", "--replay-capture", f"{port}={path}")
    last = int.from_bytes(sent[-1].payload[4:8], "little")  # the frame number follows the header
    with Program(*VIL_BRIDGE, "lab", *words, split=True) as lab:
        patient = OptitrackConfig(command_port=port, max_age_ms=60_000)
        async with receiving(OptitrackSource("again", patient)) as again:
            await lab.until(lambda: lab.text().endswith("has ended\n"), "the end of the capture")
            told = lab.text().splitlines()
            await again.until(lambda: again.frames and again.frames[-1].frame_number == last)
            assert 50 <= came(again) <= len(sent)
        assert lab.end(signal.SIGINT) == 0
    assert f"capture: {path} at 127.0.0.1:{port}" in told
    assert told[-1] == f"{path} at 127.0.0.1:{port}: the capture has ended"


def cut(folder: Path) -> Path:
    """The only capture there, in the middle of a datagram."""
    (path,) = folder.glob("captures/*")
    path.write_bytes(path.read_bytes()[:-7])
    return path


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("capture.pcap", "write [ADDRESS:]PORT=FILE"),
        ("99999=capture.pcap", "write [ADDRESS:]PORT=FILE"),
        ("1.2.3.999:1510=capture.pcap", "write [ADDRESS:]PORT=FILE"),
        ("0={folder}/absent.pcap", "absent.pcap: cannot be read: No such file"),
        ("0={folder}/text.pcap", "text.pcap: not a capture"),
        ("0={folder}/empty.pcap", "empty.pcap: there is no datagram in it"),
        ("0={folder}/silent.pcap", "silent.pcap: no NatNet server announces itself in it"),
    ],
)
def test_what_cannot_be_played_is_refused(
    argument: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
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
    """One that is no capture, one in which nothing happened, one of a source whose server was
    off.
    """
    (folder / "text.pcap").write_text("not a capture, whatever its name says")
    (folder / "silent").mkdir()
    (port,) = free_ports(1, socket.SOCK_DGRAM)
    async with captured(
        OptitrackSource("lab", OptitrackConfig(command_port=port)), folder / "silent"
    ) as received:
        await received.until(lambda: capture_in(folder / "silent").stat().st_size > len(PREAMBLE))
    silent = capture_in(folder / "silent")
    silent.rename(folder / "silent.pcap")
    (folder / "empty.pcap").write_bytes((folder / "silent.pcap").read_bytes()[: len(PREAMBLE)])
