"""The QTM emulator streams frames as datagrams, read here from real sockets without a library."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from tests.support.events import until
from tests.support.motions import Dance
from vil_adapters.qualisys.codec import Framing, PacketType, decode_data, encode_text
from vil_adapters.qualisys.config import QtmEmulatorConfig
from vil_adapters.qualisys.emulator import QtmEmulator
from vil_bridge.core.clock import now_ns
from vil_bridge.interfaces.faults import Faults

pytestmark = pytest.mark.wire


HEADER_BYTES: Final = 8


def emulated(motion: Dance | None = None, faults: str = "", **config: float) -> QtmEmulator:
    settings = QtmEmulatorConfig(**{"port": 0, "discovery_port": 0, **config})
    return QtmEmulator(settings, motion or Dance(), now_ns(), Faults.parse(faults))


class Client(asyncio.Protocol):
    """One TCP connection and one UDP socket, with every packet that came by each."""

    def __init__(self) -> None:
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.udp.setblocking(False)
        self.port: int = self.udp.getsockname()[1]
        self.packets: list[bytes] = []
        self.datagrams: list[bytes] = []
        self._framing = Framing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        asyncio.get_running_loop().add_reader(self.udp, self.drained)

    def data_received(self, data: bytes) -> None:
        self.packets += [packet for _, packet in self._framing.feed(data)]

    def drained(self) -> int:
        """Number of datagrams so far, those that wait in the socket included."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.datagrams.append(self.udp.recv(1 << 16))
        return len(self.datagrams)

    @property
    def frames(self) -> list[bytes]:
        return [packet for packet in self.packets if packet[4] == PacketType.DATA]

    def command(self, text: str) -> None:
        self.transport.write(encode_text(PacketType.COMMAND, text))

    async def reply(self, text: str) -> bytes:
        """Body of what is sent by TCP after a command, in a connection without frames."""
        before = len(self.packets)
        self.command(text)
        await until(lambda: len(self.packets) > before)
        return self.packets[-1][HEADER_BYTES:]

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.udp)
        self.transport.abort()
        self.udp.close()


@asynccontextmanager
async def connected(qtm: QtmEmulator) -> AsyncIterator[Client]:
    _, client = await asyncio.get_running_loop().create_connection(Client, "127.0.0.1", qtm.port)
    try:
        await until(lambda: len(client.packets) == 2)  # greeting and event
        yield client
    finally:
        client.close()


@pytest.mark.parametrize("to", ["UDP:{port}", "udp:127.0.0.1:{port}"])
async def test_datagrams_hold_the_bytes_of_tcp(to: str) -> None:
    async with emulated() as qtm, connected(qtm) as by_tcp, connected(qtm) as by_udp:
        by_tcp.command("StreamFrames AllFrames 6D Skeleton:global")
        by_udp.command(f"StreamFrames AllFrames {to.format(port=by_udp.port)} 6D Skeleton:global")
        await until(lambda: len(set(by_tcp.frames) & set(by_udp.datagrams)) >= 10)
        numbers = {decode_data(frame[HEADER_BYTES:]).number: frame for frame in by_tcp.frames}
        for datagram in by_udp.datagrams:
            number = decode_data(datagram[HEADER_BYTES:]).number
            assert numbers.get(number, datagram) == datagram
        assert not by_udp.frames and not by_tcp.datagrams


async def test_a_stopped_stream_sends_nothing_and_begins_again_by_tcp() -> None:
    async with emulated(latency_ms=200.0) as qtm, connected(qtm) as client:
        client.command(f"streamframes allframes udp:{client.port} 6d")
        await until(lambda: client.datagrams)
        client.command("streamframes stop")
        assert b"little endian" in await client.reply("byteorder")
        stopped, filmed = client.drained(), qtm.counters["frames"]
        await until(lambda: qtm.counters["frames"] > filmed + 30)
        client.command("streamframes allframes 6d")
        await until(lambda: len(client.frames) > 3)
        assert client.drained() == stopped


async def test_datagrams_end_with_the_connection() -> None:
    """Frames that wait for their latency when the connection ends are not sent either."""
    async with (
        emulated(latency_ms=200.0) as qtm,
        connected(qtm) as witness,
        connected(qtm) as client,
    ):
        client.command(f"streamframes allframes udp:{client.port} 6d")
        await until(lambda: client.datagrams)
        client.transport.abort()
        for _ in range(2):  # the second command leaves after the connection has ended
            await witness.reply("byteorder")
        ended, filmed = client.drained(), qtm.counters["frames"]
        await until(lambda: qtm.counters["frames"] > filmed + 30)
        assert client.drained() == ended


@pytest.mark.parametrize(
    "to",
    [
        "udp",
        "udp:",
        "udp:1022",
        "udp:65536",
        "udp:-1",
        "udp:+5000",
        "udp::5000",
        "udp:localhost:5000",
        "udp:1:2:3:4",
        "tcp:5000",
    ],
)
async def test_a_destination_that_cannot_be_read_is_a_parse_error(to: str) -> None:
    async with emulated() as qtm, connected(qtm) as client:
        assert await client.reply(f"streamframes allframes {to} 6d") == b"Parse error\0"


@pytest.mark.parametrize("address", ["192.0.2.7", "224.0.0.1", "255.255.255.255", "0.0.0.0"])
async def test_a_third_party_gets_no_datagrams(address: str) -> None:
    async with emulated() as qtm, connected(qtm) as client:
        reply = await client.reply(f"streamframes allframes udp:{address}:5000 6d")
        assert (
            reply
            == f"UDP address {address} is not the client's. Leave the address out: "
            "UDP:5000\0".encode()
        )
        filmed = qtm.counters["frames"]
        await until(lambda: qtm.counters["frames"] > filmed + 3)
        assert qtm.counters["refused"] == 1 and not qtm.counters["offered"]


async def test_components_that_fill_no_datagram_together_come_apart() -> None:
    bodies = tuple(f"b{i}" for i in range(1363))  # 65,424 bytes; the skeleton has 176
    async with emulated(Dance(bodies), rate_hz=5.0) as qtm, connected(qtm) as client:
        client.command(f"streamframes allframes udp:{client.port} 6d skeleton:global")
        await until(lambda: len(client.datagrams) >= 4)
    first, second = (decode_data(datagram[HEADER_BYTES:]) for datagram in client.datagrams[:2])
    assert (first.number, first.t_us) == (second.number, second.t_us)
    assert first.bodies is not None and len(first.bodies) == len(bodies) and first.skeletons is None
    assert second.bodies is None and second.skeletons is not None
    assert not qtm.counters["oversized"]


async def test_a_component_beyond_a_datagram_is_counted() -> None:
    bodies = tuple(f"b{i}" for i in range(1364))
    async with emulated(Dance(bodies), rate_hz=5.0) as qtm, connected(qtm) as client:
        client.command(f"streamframes allframes udp:{client.port} 6d skeleton:global")
        await until(lambda: len(client.datagrams) >= 2 and qtm.counters["oversized"] >= 2)
    assert all(decode_data(datagram[HEADER_BYTES:]).bodies is None for datagram in client.datagrams)


async def test_datagrams_are_lost_and_overtaken_as_the_faults_say() -> None:
    async with (
        emulated(faults="jitter=40ms,seed=2", rate_hz=200.0) as qtm,
        connected(qtm) as client,
    ):
        client.command(f"streamframes allframes udp:{client.port} 6d")
        await until(lambda: len(client.datagrams) > 40)
    numbers = [decode_data(datagram[HEADER_BYTES:]).number for datagram in client.datagrams]
    assert numbers != sorted(numbers)
