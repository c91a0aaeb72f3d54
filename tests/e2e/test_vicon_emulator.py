"""The emulated Vicon server towards strange clients, discovery, and the native back ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from tests.support.common import free_port
from tests.support.events import until
from tests.support.motions import Dance
from tests.support.vicon import golden
from vil_adapters.vicon import blocks, codec
from vil_adapters.vicon.config import TrackerEmulatorConfig, ViconConfig, ViconNativeConfig
from vil_adapters.vicon.discovery import discover
from vil_adapters.vicon.emulator import TrackerEmulator
from vil_adapters.vicon.native import ViconNativeSource
from vil_adapters.vicon.native_worker import NativeFrame, NativeSegment, encode_frame
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ConfigError

pytestmark = pytest.mark.wire


# --- the server -----------------------------------------------------------------------------------


class Peer:
    """A client written by hand."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._deframer = codec.Deframer()
        self._found: list[codec.Blocks] = []

    async def __aenter__(self) -> Peer:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    def send(self, *encoded: bytes) -> None:
        self.writer.write(codec.encode_packet(*encoded))

    async def packet(self) -> codec.Blocks:
        async with asyncio.timeout(60):
            while not self._found:
                self._deframer.feed(await self.reader.read(65536))
                self._found += [codec.split_packet(content) for content in self._deframer.packets()]
        return self._found.pop(0)

    async def packet_with(self, kind: int) -> codec.Blocks:
        while kind not in (packet := await self.packet()):
            pass
        return packet


async def test_the_server_is_strict() -> None:
    config = TrackerEmulatorConfig(port=0, rate_hz=100.0, latency_ms=1.0)
    async with TrackerEmulator(config, Dance(), now_ns()) as tracker, Peer(tracker.port) as peer:
        supported = codec.ENUMS.first(await peer.packet())
        assert supported is not None
        assert {
            1,
            2,
            5,
            6,
            7,
            8,
            9,
            23,
            26,
            28,
            28001,
            29,
            36,
            37,
            39,
            40,
            901,
            100004,
        } <= supported
        peer.send(codec.REQUEST_FRAME.encode(1))
        assert (await peer.packet()).keys() == {100004}, (
            "frames without wishes hold their contents alone"
        )
        peer.send(codec.ENUMS.encode({100004, 1, 2, 5, 9, 40}))
        first = await peer.packet_with(2)
        assert next(iter(first)) == 100004
        assert first.keys() == {100004, 1, 2, 5, 9, 40}
        contents = codec.CONTENTS.first(first)
        assert contents is not None
        assert contents.counts == {1: 1, 2: 3, 5: 1, 9: 3, 40: 2}
        later = await peer.packet()
        while 2 in later:
            later = await peer.packet()
        contents = codec.CONTENTS.first(later)
        assert contents is not None
        assert contents.counts.keys() == {5, 9, 40}
        assert contents.unchanged == {1, 2}, "not repeated, but listed"
        peer.send(codec.PING.encode(77))
        echoed = await peer.packet_with(42)
        assert codec.PING.all(echoed) == [77]
        assert 5 in echoed, "inside the next frame"
        contents = codec.CONTENTS.first(echoed)
        assert contents is not None
        assert contents.counts[42] == 1
        (subject, *_) = blocks.SUBJECT_INFO.all(first)
        peer.send(codec.FILTER.encode({9: {subject.id}}))
        while len((packet := await peer.packet_with(9))[9]) != 1:
            pass
        assert blocks.GLOBAL_SEGMENTS.all(packet)[0].subject == subject.id
        peer.send(codec.ENUMS.encode({100004, 2, 5}))
        assert (await peer.packet_with(2)).keys() == {100004, 2, 5}, (
            "descriptions again after new wishes"
        )


async def test_frames_are_sent_one_by_one_on_request_to_several_clients() -> None:
    config = TrackerEmulatorConfig(port=0, rate_hz=200.0, latency_ms=1.0)
    async with (
        TrackerEmulator(config, Dance(), now_ns()) as tracker,
        Peer(tracker.port) as a,
        Peer(tracker.port) as b,
    ):
        for peer in (a, b):
            assert 100001 in await peer.packet()
            peer.send(codec.ENUMS.encode({100004, 5}))
        a.send(codec.REQUEST_FRAME.encode(0))
        b.send(codec.NEXT_FRAME.encode(1), codec.NEXT_FRAME.encode(1))
        assert 5 in await a.packet()
        first, second = [blocks.FRAME_INFO.first(await b.packet()) for _ in range(2)]
        # A late loop leaves numbers out.
        assert first is not None and second is not None and first < second
        seen = tracker.counters["frames"]
        await until(lambda: tracker.counters["frames"] > seen + 5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await a.reader.read(1)
        assert tracker.clients == 2


async def test_a_slow_client_gets_the_newest_frame() -> None:
    """At most one packet waits for it; older ones are dropped."""
    config = TrackerEmulatorConfig(port=0, rate_hz=1000.0, latency_ms=0.0, latency_jitter_ms=0.0)
    motion = Dance(subjects=tuple(f"body{i}" for i in range(200)), skeleton_models=())
    async with TrackerEmulator(config, motion, now_ns()) as tracker:
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.connect(("127.0.0.1", tracker.port))
            wishes = codec.ENUMS.encode({100004, 2, 5, 9}), codec.REQUEST_FRAME.encode(1)
            lazy.sendall(codec.encode_packet(*wishes))
            await until(lambda: tracker.counters["superseded"] > 20)


async def test_a_client_that_sends_garbage_is_hung_up_on() -> None:
    config = TrackerEmulatorConfig(port=0)
    async with TrackerEmulator(config, Dance(), now_ns()) as tracker, Peer(tracker.port) as peer:
        await peer.packet()
        peer.writer.write(b"GET / HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(60):
            assert await peer.reader.read() == b""
        assert tracker.counters["malformed"] == 1
        assert tracker.clients == 0


# --- discovery and native back ends ---------------------------------------------------------------


async def test_discovery_lists_bodies_and_skeletons_with_their_rates() -> None:
    config = TrackerEmulatorConfig(port=0, rate_hz=100.0)
    async with TrackerEmulator(config, Dance(occluded={"gate"}), now_ns()) as tracker:
        absent = free_port(socket.SOCK_STREAM)
        targets = [f"127.0.0.1:{tracker.port}", f"127.0.0.1:{absent}"]
        (found,) = await discover(targets, 2.0)
    assert (found.type, found.config) == ("vicon", {"server": "127.0.0.1", "port": tracker.port})
    assert "DataStream" in found.title
    assert [name for name, _ in found.bodies] == ["drone", "gate"]
    rates = dict((*found.bodies, *found.skeletons))
    assert rates["gate"] == 0.0
    assert rates["drone"] == rates["Actor"]
    assert rates["drone"] is not None
    assert 10.0 < rates["drone"] < 130.0
    assert ViconConfig.model_validate({"type": found.type, **found.config})


def test_a_native_library_that_is_absent_is_named_with_its_cure() -> None:
    with pytest.raises(
        ConfigError, match=r"vicon_dssdk and pyvicon_datastream not installed\. Use type vicon"
    ):
        ViconNativeSource("lab", ViconNativeConfig())


def test_native_frames_travel_as_packets() -> None:
    identity = ((1000.0, 0.0, 1500.0), (0.0, 0.0, 0.0, 1.0))
    segments = (
        NativeSegment("cf7", "cf7", "", identity),
        NativeSegment("Actor", "Hip", "", identity),
        NativeSegment("Actor", "Head", "Hip", None),
    )
    packet = codec.split_datagram(encode_frame(NativeFrame(42, 100.0, 0.003, segments)))
    assert packet[9] == codec.split_datagram(golden("one_object"))[9] + [packet[9][1]]
    assert blocks.FRAME_INFO.first(packet) == 41
    assert blocks.STREAM_INFO.first(packet) == 1_350_000
    cf7, actor = blocks.SUBJECT_INFO.all(packet)
    assert cf7 == blocks.SUBJECT_INFO.first(codec.split_datagram(golden("one_object")))
    assert [(s.name, s.id, s.parent) for s in actor.segments] == [("Hip", 1, 0), ("Head", 2, 1)]
    assert len(packet[9]) == 2
    assert blocks.LATENCY_INFO.first(packet) == (blocks.LatencySample("Total", 0.003),)
