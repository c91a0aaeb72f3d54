"""What NatNet carries beside poses, who finds a server, and the emulator's further ways."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import pytest

from tests.support.events import elapse, receiving
from tests.support.optitrack import SpinMotion, client, emulated, following
from vil_adapters.optitrack import source as source_module
from vil_adapters.optitrack.commands import Commands
from vil_adapters.optitrack.config import LegacyOptitrackConfig, OptitrackConfig
from vil_adapters.optitrack.discovery import discover
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.legacy import LegacyOptitrackSource
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.types import Markers, SourceEvent
from vil_bridge.interfaces.ports import SourceContext
from vil_bridge.protocols.natnet.codec import (
    Connect,
    MessageId,
    ServerInfo,
    encode,
    encode_connect,
    encode_server_info,
    encode_text,
    message_id,
)
from vil_bridge.protocols.natnet.frame import NatNetFrame, Suffix
from vil_bridge.protocols.natnet.frame_codec import decode_frame, encode_frame
from vil_bridge.runtime.supervisor import ComponentState, Status
from vil_simulation.demo.child_processes import free_ports

pytestmark = pytest.mark.wire


V41 = (4, 1, 0, 0)
LABELS = tuple(
    f"{body}/{corner}" for body in ("drone", "gate") for corner in ("tip", "left", "right")
)


def still(**changes: Any) -> SpinMotion:
    return SpinMotion(still_ns=987_654_321, marked=True, **changes)


# --- markers, trained sets, analog devices --------------------------------------------------------


@pytest.mark.parametrize("version", ["2.5", "2.9", "3.0", "4.0", "4.2"])
@pytest.mark.parametrize("wanted", ["labeled", "all"])
async def test_markers_have_names_and_true_places(version: str, wanted: str) -> None:
    """Names come from the body's description, before 4.0 from the marker set of the same name."""
    motion = still()
    async with (
        emulated(motion, version=version, units_to_millimeters=1.0) as motive,
        following(client(motive, transport="unicast", markers=wanted)) as lab,
    ):
        # Late from a server that stood still.
        await lab.until(lambda: lab.status.facts.get("units_mm") == 1.0)
        (frame, *_) = await lab.more_frames()
    markers, truth = frame.markers, motion.at(0).markers
    assert isinstance(markers, Markers)
    assert truth is not None
    assert markers.labels == (*LABELS, "Actor/LHEE", *([""] if wanted == "all" else []))
    count = len(markers.labels)
    assert markers.p_m == pytest.approx(truth.p_m[:count], abs=2e-6)
    flags = [True, version == "2.5", *[True] * (count - 2)]
    assert markers.tracked.tolist() == flags, "2.5 does not tell which are occluded"


async def test_no_markers_unless_wanted() -> None:
    async with emulated(still()) as motive, following(client(motive)) as lab:
        assert (await lab.more_frames())[0].markers is None


async def test_trained_sets_are_subjects() -> None:
    motion = still()
    options: dict[str, Any] = {"assets": ("gate",), "force_plates": 2, "devices": 1}
    async with (
        emulated(motion, **options) as motive,
        following(client(motive, markers="labeled")) as lab,
    ):
        (frame, *_) = await lab.more_frames()
        assert lab.status.facts["trained_marker_sets"] == ["gate"]
    truth = motion.at(0)
    assert frame.subjects == ("drone", "gate")
    assert frame.p_m == pytest.approx(truth.p_m, abs=1e-6)
    assert frame.markers is not None
    assert frame.markers.labels == (*LABELS[:3], "Actor/LHEE", *LABELS[3:])
    assert frame.markers.p_m[4:] == pytest.approx(
        truth.markers.p_m[3:6] if truth.markers else None, abs=1e-6
    )


async def test_force_plates_and_devices_are_streamed_and_described() -> None:
    async with emulated(still(), version="3.0", force_plates=2, devices=1) as motive:
        raw = await registered(motive)
        frame = decode_frame(await answer(raw, MessageId.FRAMEOFDATA), (3, 0, 0, 0))
        raw.close()
    assert [len(plate.channels) for plate in frame.force_plates] == [6, 6]
    assert [len(device.channels) for device in frame.devices] == [2]
    assert [markers.name for markers in frame.marker_sets] == ["drone", "gate", "Actor", "all"]
    assert len(frame.other_markers) == 1


@pytest.mark.parametrize("version", ["2.5", "2.6"])
async def test_old_servers_tell_of_loss_in_their_way(version: str) -> None:
    motion = still(occluded={"drone", "Actor"})
    async with (
        emulated(motion, version=version) as motive,
        following(client(motive, transport="unicast")) as lab,
    ):
        (frame, *_) = await lab.more_frames()
    assert frame.tracked.tolist() == [False, True]
    assert not frame.skeletons[0].tracked.any()
    assert lab.status.counters["nonfinite"] == 0
    assert (frame.t_foreign_ns is None) == (version == "2.5")


# --- commands and subscriptions -------------------------------------------------------------------


async def test_only_the_configured_subjects_are_sent() -> None:
    keys: dict[str, Any] = {"subscribe": True, "subjects": ("drone", "Actor"), "markers": "all"}
    async with emulated(still()) as motive, following(client(motive, **keys)) as lab:
        await lab.until(lambda: lab.frames and lab.frames[-1].subjects == ("drone",))
        await lab.until(lambda: len(lab.status.facts.get("subscribed", ())) == 3)
        frame = (await lab.more_frames())[-1]
        assert frame.subjects == ("drone",)
        assert [s.model.name for s in frame.skeletons] == ["Actor"]
        assert frame.markers is not None
        assert len(frame.markers.labels) == 8


class Asker:
    """Commands over a socket of their own."""

    def __init__(self, motive: MotiveEmulator) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.connect(("127.0.0.1", motive.command_port))
        self.sock.setblocking(False)
        self.sent = 0
        self.commands = Commands(self._send)
        asyncio.get_running_loop().add_reader(self.sock, self._on_readable)

    def _send(self, data: bytes) -> None:
        self.sent += 1
        self.sock.send(data)

    def _on_readable(self) -> None:
        data = self.sock.recv(65536)
        if message_id(data) in (MessageId.RESPONSE, MessageId.UNRECOGNIZED_REQUEST):
            self.commands.answer(data)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.sock)
        self.sock.close()


async def test_commands_are_answered_in_their_order() -> None:
    async with emulated(still(), rate_hz=120.0, version="4.2") as motive:
        asker = Asker(motive)
        asker.sock.send(encode_connect(Connect("asker")))
        ask = asker.commands
        units_mm, rate_hz = await asyncio.gather(ask.units_mm(), ask.frame_rate_hz())
        assert (units_mm, rate_hz) == (1000.0, 120.0)
        assert await ask.bitstream() == (4, 2, 0, 0)
        assert await ask.set_bitstream((4, 0, 0, 0))
        assert await ask.bitstream() == (4, 0, 0, 0)
        assert not await ask.set_bitstream((2, 9, 0, 0))
        assert await ask.subscribe("RigidBody", "drone")
        assert not await ask.subscribe("Cheese", "all")
        assert await ask.unsubscribe()
        asker.close()


async def test_questions_are_repeated_and_given_up() -> None:
    async with emulated(still(), faults="loss=100%") as motive:
        asker = Asker(motive)
        assert await asker.commands.units_mm() is None
        assert asker.sent == 10
        asker.close()
    async with emulated(still(), version="3.1") as motive:
        asker = Asker(motive)
        assert await asker.commands.bitstream() is None, "refused: only 4.0 and newer know it"
        assert asker.sent == 1
        asker.close()


# --- time -----------------------------------------------------------------------------------------


async def test_the_known_part_of_the_latency_is_told() -> None:
    async with (
        emulated(still(), latency_ms=20.0, latency_jitter_ms=0.0) as motive,
        following(client(motive)) as lab,
    ):
        frames = await lab.more_frames(5)
    assert min(frame.latency_ns for frame in frames) >= 20_000_000
    assert all(frame.latency_ns < frame.t_arrival_ns for frame in frames)


async def test_frames_that_are_too_old_are_dropped_and_the_status_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source_module, "_WAITING_NS", NS_PER_S)
    async with (
        emulated(still(), latency_ms=400.0) as motive,
        following(client(motive, max_age_ms=100.0)) as lab,
    ):
        await lab.until(lambda: lab.status.state is ComponentState.WAITING)
        reason = lab.status.report().reason
        await lab.until(lambda: lab.status.counters["stale"] > 20)
        assert "ms before they arrive, longer than max_age_ms" in reason


async def test_delay_of_the_network_does_not_bias_the_clock() -> None:
    """Requests travel as long as answers do, so the middle of an exchange is the server's
    instant.
    """
    async with (
        emulated(still(), faults="delay=20ms", clock_drift_ppm=0.0) as motive,
        following(client(motive)) as lab,
    ):
        await lab.until(lambda: len(lab.exchanges) >= 6)
    best = min(lab.exchanges, key=lambda e: e.t_received_ns - e.t_sent_ns)
    middle_ns = (best.t_sent_ns + best.t_received_ns) // 2
    spare_ns = best.t_received_ns - best.t_sent_ns - 40_000_000
    assert spare_ns >= 0
    assert abs(best.t_foreign_ns - motive.foreign_ns(middle_ns)) <= spare_ns // 2 + 1000


# --- bad days -------------------------------------------------------------------------------------


async def test_a_server_that_restarts_with_new_ids_is_resumed() -> None:
    motion = SpinMotion()
    async with (
        emulated(motion, faults="restart=1min@1min") as motive,
        following(client(motive)) as lab,
    ):
        before = (await lab.more_frames())[-1]
        elapse(motive, 1)
        await lab.until(lambda: motive.counters["restarts"] == 1)
        elapse(motive, 2)
        await lab.until(lambda: lab.resets)
        resumed = (await lab.more_frames())[-1]
    assert resumed.subjects == before.subjects
    assert [s.model.name for s in resumed.skeletons] == ["Actor"]
    assert resumed.tracked.all()


async def test_every_lost_frame_is_accounted_for() -> None:
    """From one frame to a later one, each number was handed on, overtaken or counted as lost."""
    faults = "loss=10%,duplicate=10%,reorder=5%,seed=3"
    async with emulated(SpinMotion(), faults=faults) as motive, following(client(motive)) as lab:
        await lab.more_frames(1)
        first, before = len(lab.frames) - 1, lab.status.counters.copy()
        await lab.more_frames(60)
        numbers = [frame.frame_number for frame in lab.frames[first:]]
        counters = lab.status.counters.copy()
    assert numbers == sorted(set(numbers))
    skipped = numbers[-1] - numbers[0] + 1 - len(numbers)
    counted = counters - before
    assert counted["superseded"] + counted["lost"] == skipped > 0
    assert counters["duplicates"] + counters["reordered"] > 0
    assert counters["malformed"] == 0


async def test_unread_bytes_of_newer_servers_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with emulated(still(), rate_hz=20.0) as motive, following(client(motive)) as lab:
        (frame, *_) = await lab.more_frames(1)
        ticks = motive.foreign_ns(now_ns()) // 100
        with caplog.at_level(logging.WARNING):
            for number in range(100, 103):
                newer = NatNetFrame(
                    frame.frame_number + number, suffix=Suffix(0.0, ticks), tail=bytes(16)
                )
                motive.inject(encode_frame(newer, V41))
            await lab.until(lambda: lab.status.facts.get("unread_bytes") == 16)
            await lab.more_frames(1)
    told = [
        record.getMessage() for record in caplog.records if "newer layout" in record.getMessage()
    ]
    assert told == ["lab: 16 bytes of each frame are of a newer layout and skipped"]


async def test_a_server_before_2_5_is_unavailable() -> None:
    info = encode_server_info(ServerInfo("Tracking Tools", (2, 4, 0, 0), (2, 4, 0, 0)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ancient:
        ancient.bind(("127.0.0.1", 0))
        ancient.setblocking(False)
        with pytest.raises(SourceUnavailable, match=r"speaks NatNet 2\.4: 2\.5 is needed"):
            async with following(OptitrackConfig(command_port=ancient.getsockname()[1])) as lab:
                _, address = await asyncio.get_running_loop().sock_recvfrom(ancient, 1000)
                ancient.sendto(info, address)
                await lab.until(lambda: lab.frames)


# --- finding servers ------------------------------------------------------------------------------


async def test_discovery_finds_a_server_and_measures_what_it_streams() -> None:
    motion = SpinMotion(occluded={"gate"})
    async with emulated(motion, version="3.1") as motive:
        asked = [
            f"127.0.0.1:{motive.command_port}",
            f"127.0.0.1:{free_ports(1, socket.SOCK_DGRAM)[0]}",
        ]
        (found,) = await discover(asked, 2.0)
    assert (found.type, found.title) == ("optitrack", "Motive 2.1, NatNet 3.1, unicast")
    assert OptitrackConfig(**found.config).command_port == motive.command_port
    assert dict(found.bodies) == {"drone": pytest.approx(100.0, abs=1.0), "gate": 0.0}
    assert dict(found.skeletons) == {"Actor": pytest.approx(100.0, abs=1.0)}


async def test_discovery_finds_nothing_where_nothing_is() -> None:
    assert (
        await discover(
            [f"127.0.0.1:{free_ports(1, socket.SOCK_DGRAM)[0]}", "no-such-host.invalid"], 0.2
        )
        == []
    )


# --- other clients --------------------------------------------------------------------------------


async def registered(motive: MotiveEmulator) -> socket.socket:
    """A client that does nothing but register."""
    raw = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    raw.bind(("127.0.0.1", 0))
    raw.setblocking(False)
    raw.sendto(encode(MessageId.CONNECT), ("127.0.0.1", motive.command_port))
    return raw


async def answer(raw: socket.socket, identity: MessageId) -> bytes:
    async with asyncio.timeout(60):
        while True:
            data = await asyncio.get_running_loop().sock_recv(raw, 65536)
            if message_id(data) == identity:
                return data


async def test_frames_may_go_to_one_port_of_every_client() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind(("127.0.0.1", 0))
        ear.setblocking(False)
        async with emulated(still(), client_port=ear.getsockname()[1]) as motive:
            raw = await registered(motive)
            assert await answer(ear, MessageId.FRAMEOFDATA)
            raw.sendto(
                encode_text(MessageId.REQUEST, "FrameRate"), ("127.0.0.1", motive.command_port)
            )
            assert await answer(raw, MessageId.RESPONSE)
            raw.close()


async def test_old_servers_answer_no_echo() -> None:
    async with emulated(still(), version="2.10") as motive:
        raw = await registered(motive)
        raw.sendto(encode(MessageId.ECHOREQUEST, bytes(8)), ("127.0.0.1", motive.command_port))
        assert await answer(raw, MessageId.UNRECOGNIZED_REQUEST)
        raw.close()


class Boneless(SpinMotion):
    """Without the human, whom the old client cannot read."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(skeleton_models=(), **changes)

    def at(self, t_ns: int) -> Any:
        seen = super().at(t_ns)
        return type(seen)(seen.subjects, seen.p_m, seen.q_xyzw, seen.tracked, (), seen.markers)


@pytest.mark.process
@pytest.mark.parametrize("version", ["2.6", "2.9", "2.10"])
async def test_natnetclient_reads_the_same_poses(version: str) -> None:
    pytest.importorskip("natnetclient", reason="the extra optitrack-legacy is not installed")
    motion, port = Boneless(still_ns=1, occluded={"gate"}), free_ports(1, socket.SOCK_DGRAM)[0]
    async with emulated(motion, version=version, client_port=port) as motive:
        config = LegacyOptitrackConfig(command_port=motive.command_port, data_port=port)
        # Again where natnetclient gives up.
        async with receiving(LegacyOptitrackSource("old", config)) as receiver:
            frames = await receiver.more_frames(3)
    truth = motion.at(0)
    assert (frames[-1].subjects, frames[-1].tracked.tolist()) == (("drone", "gate"), [True, False])
    assert frames[-1].p_m[0] == pytest.approx(truth.p_m[0], abs=1e-6)
    assert abs(float(frames[-1].q_xyzw[0] @ truth.q_xyzw[0])) == pytest.approx(1.0, abs=1e-9)
    assert frames[-1].t_foreign_ns is not None
    assert 0 < frames[-1].t_foreign_ns < 60 * NS_PER_S, "counted from the server's start"
    assert receiver.status.facts["version"] == version


@pytest.mark.process
async def test_natnetclient_gives_up_at_newer_servers_and_says_so() -> None:
    pytest.importorskip("natnetclient", reason="the extra optitrack-legacy is not installed")
    events: list[SourceEvent] = []
    async with emulated(still(), version="3.0") as motive:
        config = LegacyOptitrackConfig(
            command_port=motive.command_port, data_port=free_ports(1, socket.SOCK_DGRAM)[0]
        )
        source = LegacyOptitrackSource("old", config)
        with pytest.raises(SourceUnavailable, match=r"natnetclient gave up: struct\.error"):
            await asyncio.wait_for(source.run(events.append, Status("old"), SourceContext()), 60.0)
    assert events == []
