"""The link emulator between real programs.

What goes in comes out late, in part, or not at all, and all is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from tests.support.common import free_port
from tests.support.events import until
from vil_adapters.lab.link import LinkEmulator, LinkSpec
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ConfigError

pytestmark = pytest.mark.wire


class Udp:
    """A program with a UDP port; ``echo`` sends everything back."""

    def __init__(self, *, echo: bool = False) -> None:
        self.got: list[bytes] = []
        self.arrived_ns: list[int] = []
        self.senders: set[tuple[str, int]] = set()
        self._echo = echo
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.socket.getsockname()

    def receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                data, sender = self.socket.recvfrom(65536)
                self.got.append(data)
                self.arrived_ns.append(now_ns())
                self.senders.add(sender)
                if self._echo:
                    self.send(data, sender)

    def send(self, data: bytes, to: tuple[str, int]) -> None:
        self.socket.sendto(data, to)


@contextlib.asynccontextmanager
async def udp(*, echo: bool = False) -> AsyncIterator[Udp]:
    loop = asyncio.get_running_loop()
    program = Udp(echo=echo)
    loop.add_reader(program.socket, program.receive)
    try:
        yield program
    finally:
        loop.remove_reader(program.socket)
        program.socket.close()


@contextlib.asynccontextmanager
async def tcp_echo() -> AsyncIterator[int]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def link(port: int, faults: str = "", protocol: str = "udp") -> LinkEmulator:
    return LinkEmulator(LinkSpec.parse(f"{protocol}:0=127.0.0.1:{port}:{faults}"))


# --- UDP ----------------------------------------------------------------------------------------


async def test_datagrams_pass_unchanged_both_ways_and_clients_are_told_apart() -> None:
    sizes = [0, 1, 1400, 60_000]
    async with (
        udp(echo=True) as server,
        udp() as one,
        udp() as two,
        link(server.address[1]) as road,
    ):
        for program, byte in ((one, b"1"), (two, b"2")):
            for size in sizes:
                program.send(byte * size, road.address)
        await until(lambda: len(one.got) == len(two.got) == len(sizes))
        assert one.got == [b"1" * size for size in sizes]
        assert two.got == [b"2" * size for size in sizes]
        assert len(server.senders) == 2
        assert one.senders == {road.address}
        total = sum(sizes)
        assert road.counters["up_bytes"] == road.counters["down_bytes"] == 2 * total


async def test_every_datagram_is_accounted_for() -> None:
    faults = "loss=20%,duplicate=10%,reorder=5%,garbage=5%,jitter=1ms,seed=7"
    async with udp() as server, udp() as client, link(server.address[1], faults) as road:
        for number in range(1000):
            client.send(number.to_bytes(2, "big") * 10, road.address)
            if number % 50 == 49:
                await asyncio.sleep(0)
        counters = road.up.counters
        await until(lambda: counters["offered"] == 1000)
        sent = 1000 - counters["lost"] + counters["duplicated"] + counters["garbage"]
        await until(lambda: counters["delivered"] == sent)
        await until(lambda: len(server.got) == sent)
        assert 150 < counters["lost"] < 250
        assert 60 < counters["duplicated"] < 140
        assert 15 < counters["reordered"] < 80
        assert 20 < counters["garbage"] < 80
        assert counters["overflow"] == counters["unsent"] == 0
        intact = [data for data in server.got if len(data) == 20 and data == data[:2] * 10]
        assert len(set(intact)) >= 1000 - counters["lost"]
        assert intact != sorted(intact), "jitter and reordering changed the order"


async def test_delay_is_of_one_direction_when_asked_so() -> None:
    async with (
        udp(echo=True) as server,
        udp() as client,
        link(server.address[1], "up.delay=60ms") as road,
    ):
        sent_ns = []
        for count in range(1, 6):
            sent_ns.append(now_ns())
            client.send(b"x", road.address)
            await until(lambda count=count: len(client.got) == count)  # type: ignore[misc]
        assert all(
            there - sent >= 60e6 for there, sent in zip(server.arrived_ns, sent_ns, strict=True)
        )
        back_ns = [
            back - there for back, there in zip(client.arrived_ns, server.arrived_ns, strict=True)
        ]
        assert min(back_ns) < 55e6, "the way back is quick"


async def test_a_rate_limit_spaces_datagrams_and_drops_what_the_queue_cannot_hold() -> None:
    async with udp() as server, udp() as client, link(server.address[1], "up.rate=1Mbit") as road:
        begun_ns = now_ns()
        for _ in range(20):
            client.send(bytes(1250), road.address)  # 10 ms each
        await until(lambda: len(server.got) == 20)
        assert (server.arrived_ns[-1] - begun_ns) / 1e6 >= 200.0
        for number in range(50):  # half a second each: 256 KiB wait at most
            client.send(bytes(60_000), road.address)
            await until(
                lambda number=number: road.up.counters["offered"] == 21 + number,  # type: ignore[misc]
            )
            if road.up.counters["overflow"] >= 6:
                break
        else:
            raise AssertionError(road.up.counters)


async def test_a_cut_silences_and_a_restored_link_goes_on() -> None:
    async with udp(echo=True) as server, udp() as client, link(server.address[1]) as road:
        client.send(b"before", road.address)
        await until(lambda: client.got == [b"before"])
        road.cut()
        client.send(b"during", road.address)
        await until(lambda: road.up.counters["silenced"] == 1)
        road.restore()
        client.send(b"after", road.address)
        await until(lambda: client.got == [b"before", b"after"])


async def test_a_cut_of_the_text_ends_by_itself() -> None:
    async with udp() as server, udp() as client, link(server.address[1], "cut=1min@0s") as road:
        client.send(b"?", road.address)
        await until(lambda: road.up.counters["silenced"] == 1)
        road.up.started_ns -= 60 * NS_PER_S  # that minute is over
        client.send(b"!", road.address)
        await until(lambda: server.got == [b"!"])


async def test_other_senders_do_not_reach_the_client() -> None:
    async with udp(echo=True) as server, udp() as client, link(server.address[1]) as road:
        client.send(b"hello", road.address)
        await until(lambda: client.got)
        (port_of_client,) = server.senders
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.bind(("127.0.0.2", 0))
            stranger.sendto(b"evil", port_of_client)
            client.send(b"again", road.address)
            await until(lambda: len(client.got) == 2)
        assert client.got == [b"hello", b"again"]


async def test_a_missing_target_is_merely_silent() -> None:
    port = free_port(socket.SOCK_DGRAM)
    async with udp() as client, link(port) as road:
        for _ in range(3):
            client.send(b"anybody?", road.address)
        await until(lambda: road.up.counters["offered"] == 3)
    assert client.got == []


# --- TCP ----------------------------------------------------------------------------------------


async def test_bytes_of_a_connection_survive_a_bad_network_in_order() -> None:
    data = bytes(range(256)) * 800
    faults = "loss=10%,reorder=10%,delay=2ms±2,jitter=1ms,seed=3"
    async with tcp_echo() as port, link(port, faults, "tcp") as road:
        reader, writer = await asyncio.open_connection(*road.address)
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(60):
            assert await reader.read(-1) == data
        writer.close()
        assert road.counters["up_bytes"] == road.counters["down_bytes"] == len(data)
        assert road.counters["up_connections"] == 1


async def test_a_rate_limit_slows_a_sender_down() -> None:
    async with tcp_echo() as port, link(port, "up.rate=8Mbit", "tcp") as road:
        reader, writer = await asyncio.open_connection(*road.address)
        begun_ns = now_ns()
        writer.write(bytes(300_000))
        async with asyncio.timeout(60):
            await reader.readexactly(300_000)
        assert (now_ns() - begun_ns) / 1e6 >= 300.0
        writer.close()


async def test_a_cut_freezes_a_connection_that_then_goes_on() -> None:
    async with tcp_echo() as port, link(port, "", "tcp") as road:
        reader, writer = await asyncio.open_connection(*road.address)
        writer.write(b"before")
        assert await reader.readexactly(6) == b"before"
        road.cut(0.3)
        begun_ns = now_ns()
        writer.write(b"during")
        async with asyncio.timeout(60):
            assert await reader.readexactly(6) == b"during"
        assert (now_ns() - begun_ns) / 1e6 >= 290.0
        writer.close()


async def test_a_reset_kills_connections_and_lets_new_ones_through() -> None:
    async with tcp_echo() as port, link(port, "", "tcp") as road:
        reader, writer = await asyncio.open_connection(*road.address)
        writer.write(b"x")
        await reader.readexactly(1)
        road.reset()
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        writer.close()
        reader, writer = await asyncio.open_connection(*road.address)
        writer.write(b"y")
        assert await reader.readexactly(1) == b"y"
        writer.close()


async def test_no_connection_lives_during_a_reset_episode() -> None:
    async with tcp_echo() as port, link(port, "reset=1min@0s", "tcp") as road:
        reader, writer = await asyncio.open_connection(*road.address)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read(1) == b""
        writer.close()
        for way in (road.up, road.down):
            way.started_ns -= 60 * NS_PER_S  # that minute is over
        reader, writer = await asyncio.open_connection(*road.address)
        writer.write(b"y")
        assert await reader.readexactly(1) == b"y"
        writer.close()


async def test_a_refusing_target_ends_the_clients_connection() -> None:
    port = free_port(socket.SOCK_STREAM)
    async with link(port, "", "tcp") as road:
        reader, writer = await asyncio.open_connection(*road.address)
        async with asyncio.timeout(60):
            assert await reader.read(1) == b""
        writer.close()
        assert road.counters["up_refused"] == 1


async def test_closing_with_open_connections_leaves_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with tcp_echo() as port:
        async with link(port, "delay=10s", "tcp") as road:
            _, writer = await asyncio.open_connection(*road.address)
            writer.write(b"never arrives")
            await until(lambda: road.up.counters["offered"] == 1)
        await until(lambda: writer.transport.is_closing())
        writer.close()
        async with link(port, "", "tcp") as again:  # the port of a closed link is free at once
            assert again.port
        await until(lambda: len(asyncio.all_tasks()) == 1)
    assert not caplog.records


# --- the text -----------------------------------------------------------------------------------


def test_a_link_is_written_in_one_line() -> None:
    spec = LinkSpec.parse(
        "tcp:10.0.0.1:7100=192.0.2.7:7000:delay=20ms±5,up.rate=2Mbit,down.cut=1s@10s/30s,seed=4"
    )
    assert (spec.protocol, spec.listen, spec.target) == (
        "tcp",
        ("10.0.0.1", 7100),
        ("192.0.2.7", 7000),
    )
    assert (spec.up.rate_bps, spec.down.rate_bps) == (2e6, 0.0)
    assert spec.up.faults.delay_ns == spec.down.faults.delay_ns == 20_000_000
    assert spec.up.faults.delay_sd_ns == 5_000_000
    assert not spec.up.faults.halfopen
    assert spec.down.faults.halfopen[0].period_ns == 30_000_000_000
    plain = LinkSpec.parse("7100=7000")
    assert (plain.listen, plain.target, plain.protocol) == (
        ("127.0.0.1", 7100),
        ("127.0.0.1", 7000),
        "udp",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("7100", "write [tcp:][HOST:]PORT=[HOST:]PORT"),
        ("7100=70000", "'70000': ports are 0 to 65535"),
        ("1=2:drift=5ppm", "'drift=5ppm': a udp link has no such fault; known: loss"),
        ("tcp:1=2:garbage=5%", "'garbage=5%': a tcp link has no such fault"),
        ("1=2:reset=1s", "'reset=1s': a udp link has no such fault"),
        ("1=2:up.loss=x", "'loss=x': write a share such as 5%"),
        ("1=2:rate=fast", "'rate=fast': write a rate such as 10Mbit"),
        ("1=2:rate=0Mbit", "'rate=0Mbit': write a rate"),
        ("1=2:cut=1", "'halfopen=1': '1' is not a time; write 20ms"),
    ],
)
def test_wrong_links_are_explained(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        LinkSpec.parse(text)
    assert said in str(caught.value)
