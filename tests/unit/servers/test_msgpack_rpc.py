"""MessagePack-RPC on real sockets: answers out of order, bad bytes, limits, clients that go."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgpack
import msgspec
import pytest

from tests.support.common import PATIENCE_S
from tests.support.events import until
from vil_simulation.airsim import msgpack_rpc, turns
from vil_simulation.airsim.methods import MethodTable, method
from vil_simulation.airsim.msgpack_rpc import FAULTS, Caller, Packed, RpcError, RpcServer
from vil_simulation.airsim.turns import ALONE, NEXT_TO_PICTURES, Shares

pytestmark = pytest.mark.wire

HOST = "127.0.0.1"


class Client:
    """A client that writes and reads plain messages."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._unpacker = msgpack.Unpacker(raw=False)

    def send(self, *message: Any) -> None:
        self.writer.write(msgpack.packb(message, use_bin_type=True))

    async def answer(self) -> list[Any]:
        while True:
            for message in self._unpacker:
                return list(message)
            data = await asyncio.wait_for(self.reader.read(65536), PATIENCE_S)
            if not data:
                raise EOFError
            self._unpacker.feed(data)


Connect = Callable[[], Awaitable[Client]]


@contextlib.asynccontextmanager
async def served(
    handler: Any, most: int = 64, shares: Shares = ALONE
) -> AsyncIterator[tuple[RpcServer, Connect]]:
    server = RpcServer("rpc", handler, most, shares=shares)
    port = await server.start(HOST, 0)
    clients: list[Client] = []

    async def connect() -> Client:
        clients.append(Client(*await asyncio.open_connection(HOST, port)))
        return clients[-1]

    try:
        yield server, connect
    finally:
        for client in clients:
            client.writer.close()
            with contextlib.suppress(ConnectionError):
                await client.writer.wait_closed()
        await server.close()


def _many_maps() -> bytes:
    """Return a request with four arrays of 30,000 empty maps each."""
    return b"\x94\x00\x01\xa4ping\x94" + 4 * (b"\xdc\x75\x30" + 30_000 * b"\x80")


def large(size: int) -> list[bytes]:
    """Return an argument of at least so many bytes."""
    piece = bytes(60_000)
    return [piece] * (size // len(piece) + 1)


async def test_a_long_call_holds_up_no_other_one() -> None:
    gate = asyncio.Event()

    async def handler(_caller: Caller, method: str, arguments: Sequence[Any]) -> object:
        if method == "wait":
            await gate.wait()
        return [method, *arguments]

    async with served(handler) as (_, connect):
        client = await connect()
        client.send(0, 1, "wait", [])
        client.send(0, 2, "quick", [b"\x00\xff", 1.5])
        assert await client.answer() == [1, 2, None, ["quick", b"\x00\xff", 1.5]]
        gate.set()
        assert await client.answer() == [1, 1, None, ["wait"]]


async def test_requests_begin_in_their_order_whether_they_wait_or_not() -> None:
    begun: list[int] = []

    async def wait(number: int) -> int:
        begun.append(number)
        await asyncio.sleep(0)
        return number

    def handler(_caller: Caller, method: str, arguments: Sequence[Any]) -> object:
        if method == "wait":
            return wait(arguments[0])
        begun.append(arguments[0])
        return arguments[0]

    async with served(handler) as (_, connect):
        client = await connect()
        client.writer.write(
            b"".join(
                msgspec.msgpack.encode([0, n, "wait" if n % 3 else "quick", [n]])
                for n in range(1000)
            )
        )
        answers = [await client.answer() for _ in range(1000)]
        assert sorted(answers) == [[1, n, None, n] for n in range(1000)] and begun == [*range(1000)]


async def test_many_quick_requests_of_a_client_hold_up_no_other_one() -> None:
    loop = asyncio.get_running_loop()
    between: list[int] = []

    def handler(_caller: Caller, _: str, arguments: Sequence[Any]) -> object:
        loop.call_soon(between.append, arguments[0])
        return len(between)

    async with served(handler) as (_, connect):
        client = await connect()
        client.writer.write(
            b"".join(msgspec.msgpack.encode([0, n, "quick", [n]]) for n in range(1000))
        )
        answers = [await client.answer() for _ in range(1000)]
        assert [number for _, number, _, _ in answers] == [*range(1000)]
        assert all(number - turn <= 32 for _, number, _, turn in answers)


@pytest.mark.parametrize("waits", [False, True])
async def test_errors_and_bugs_are_answered(waits: bool) -> None:
    def run(_caller: Caller, method: str, _: Sequence[Any]) -> object:
        if method == "bug":
            raise ZeroDivisionError
        raise RpcError("no such thing")

    async def wait(*call: Any) -> object:
        return run(*call)

    handler = wait if waits else run

    async with served(handler) as (server, connect):
        client = await connect()
        client.send(0, 7, "any", [])
        assert await client.answer() == [1, 7, "no such thing", None]
        client.send(0, 8, "bug", [])
        number, answered, error, result = await client.answer()
        assert (number, answered, result) == (1, 8, None) and "failed inside the server" in error
        assert server.counters["errors"] == 2


async def test_a_notification_is_run_and_not_answered() -> None:
    seen: list[str] = []

    async def handler(_caller: Caller, method: str, _: Sequence[Any]) -> object:
        seen.append(method)
        return True

    async with served(handler) as (_, connect):
        client = await connect()
        client.send(2, "silent", [])
        client.send(0, 1, "loud", [])
        assert await client.answer() == [1, 1, None, True] and seen == ["silent", "loud"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xc1",
        msgpack.packb([0, 1, "ping"]),
        msgpack.packb([0, -1, "ping", []]),
        msgpack.packb([0, 1 << 32, "ping", []]),
        msgpack.packb([1, 1, None, True]),
        b"\x94\x00\x01\xa4ping\xdd\xff\xff\xff\xff",
        b"\x94\x00\x01\xa4ping\x91\xc6\x00\x01\x00\x01" + bytes((1 << 16) + 1),
        b"\x94\x00\x01\xa4ping\x91\xdb\x00\x01\x00\x01" + bytes((1 << 16) + 1),
        b"\x94\x00\x01\xa4ping\x91\xc6\xff\xff\xff\xff" + bytes(9 << 20),
        b"\x94\x00\x01\xa4ping\x91\xde\x01\x01",
        b"\x91" * 5000,
        b"\x91" * 13,
        b"\xdc\x7f\xff" * 13,
        b"\x94\x00\x01\xa4ping\x91\x81\x90\x01",
        b"\x81\x80\x01",
        msgpack.packb([0, 1, "ping", [{7: 1}]]),
        b"\x94\x00\x01\xa4ping\x91\xdc\x7f\xff" + b"\x90" * (1 << 15),
        _many_maps(),
    ],
    ids=[
        *("http", "reserved", "short", "negative", "beyond 32 bits", "answer", "long array"),
        *(
            "long bytes",
            "long text",
            "endless bytes",
            "many keys",
            "nested",
            "nested a little",
            "nested headers",
        ),
        *("array for a key", "map for a key", "number for a key", "many arrays", "many maps"),
    ],
)
async def test_garbage_ends_its_connection_and_no_other(garbage: bytes) -> None:
    async def handler(_caller: Caller, _: str, __: Sequence[Any]) -> object:
        return True

    async with served(handler) as (server, connect):
        good, bad = await connect(), await connect()
        bad.writer.write(garbage)
        with pytest.raises((EOFError, ConnectionError)):
            await bad.answer()
        good.send(0, 1, "ping", [])
        assert await good.answer() == [1, 1, None, True]
        assert server.faults() == dict.fromkeys(FAULTS, 0) | {"malformed": 1}
        assert [(row.port, row.peer, row.reason) for row in server.peer_faults.rows()] == [
            ("rpc", HOST, "malformed")
        ]


async def test_calls_under_way_have_a_limit_in_bytes_over_all_clients() -> None:
    go_on = asyncio.Event()

    async def handler(_caller: Caller, method: str, arguments: Sequence[Any]) -> object:
        if method != "small":
            await go_on.wait()
        return len(arguments[0])

    size = 6 << 20
    async with served(handler) as (server, connect):
        clients = [await connect() for _ in range(3)]
        for client in clients[:2]:
            client.send(0, 1, "waits", [large(size)])
        while server.pending_bytes < 2 * size:
            await asyncio.sleep(0.01)
        for client, words in (
            (clients[0], "calls of this client under way"),
            (clients[2], "calls under way"),
        ):
            client.send(0, 7, "fails", [large(size)])
            kind, number, text, _ = await client.answer()
            assert (
                (kind, number) == (1, 7)
                and str(text).startswith(words)
                and "wait until some have ended" in text
            )
        assert 2 * size < server.pending_bytes < 3 * size
        for client in clients:
            client.send(0, 8, "small", [[1, 2]])
            assert await client.answer() == [1, 8, None, 2], (
                "others' requests keep no small one waiting"
            )
        go_on.set()
        for client in clients[:2]:
            assert await client.answer() == [1, 1, None, len(large(size))]
        assert server.pending_bytes == 0
        clients[2].send(0, 9, "works", [large(size)])
        assert await clients[2].answer() == [1, 9, None, len(large(size))]


async def test_answers_that_are_not_read_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small answers pass, and who does not read for long loses its seat to one who does."""
    limit = 64 << 20
    monkeypatch.setattr(msgpack_rpc, "_MOST_UNREAD_BYTES", limit)
    size = limit // 2 - 100

    async def handler(_caller: Caller, method: str, _: Sequence[Any]) -> object:
        return bytes(size) if method == "large" else True

    async with served(handler) as (server, connect):
        idle = [await connect() for _ in range(2)]
        other = await connect()
        for client in idle:
            for number in range(2):
                client.send(0, number, "large", [])
        while server.counters["errors"] < 2:
            await asyncio.sleep(0.01)
        assert limit // 2 < server.unread_bytes <= limit
        other.send(0, 1, "small", [])
        assert await other.answer() == [1, 1, None, True]
        other.send(0, 2, "large", [])
        kind, number, text, _ = await other.answer()
        assert (kind, number) == (1, 2) and "ask again later" in text
        monkeypatch.setattr(msgpack_rpc, "_STALLED_S", 0.0)
        while text is not None:  # they have to have been full once
            other.send(0, 3, "large", [])
            _, _, text, result = await other.answer()
        assert result == bytes(size)
        assert server.connected == 2 and server.faults()["unread"] == 1
        await until(lambda: server.unread_bytes <= size)
        for client in idle:
            client.writer.transport.abort()
        await until(lambda: server.unread_bytes == 0)


async def test_a_client_that_does_not_read_is_not_read_any_further() -> None:
    def handler(_caller: Caller, _: str, __: Sequence[Any]) -> object:
        return bytes(1 << 20)

    async with served(handler) as (server, connect):
        idle = await connect()
        for number in range(600):
            idle.send(0, number, "large", [])
        while server.counters["requests"] < 256:
            await asyncio.sleep(0.01)
        other = await connect()
        other.send(0, 1, "large", [])
        assert (await other.answer())[3] == bytes(1 << 20)
        assert server.counters["requests"] < 600
        assert [(await idle.answer())[1] for _ in range(600)] == [*range(600)]
        assert server.unread_bytes == 0


async def test_a_request_in_many_pieces_has_a_limit_in_bytes() -> None:
    def handler(_caller: Caller, _: str, __: Sequence[Any]) -> object:
        return True

    async with served(handler) as (server, connect):
        client = await connect()
        client.writer.write(b"\x94\x00\x01\xa4ping\xdc\xff\xff")
        piece = msgspec.msgpack.encode(bytes(60_000)) * 16
        with pytest.raises((EOFError, ConnectionError)):
            for _ in range(64):
                client.writer.write(piece)
                await client.writer.drain()
            await client.answer()
        assert server.faults()["malformed"] == 1


async def test_text_that_is_no_unicode_reaches_the_handler_and_returns() -> None:
    async def handler(_caller: Caller, method: str, arguments: Sequence[Any]) -> object:
        return [method, arguments[0]]

    async with served(handler) as (_, connect):
        client = await connect()
        client.writer.write(b"\x94\x00\x01\xa1\xff\x91\xa2\xff\xfe")
        assert await client.answer() == [1, 1, None, ["\ufffd", "\ufffd\ufffd"]]


async def test_a_result_that_cannot_be_written_is_an_error_of_its_call() -> None:
    async def handler(_caller: Caller, method: str, _: Sequence[Any]) -> object:
        return object() if method == "odd" else "\ud800" if method == "text" else 1

    async with served(handler) as (_, connect):
        client = await connect()
        for number, method in enumerate(("odd", "text")):
            client.send(0, number, method, [])
            assert "failed inside the server" in (await client.answer())[2]
        client.send(0, 3, "good", [])
        assert await client.answer() == [1, 3, None, 1]


async def test_a_call_of_a_client_that_went_before_it_began_leaves_no_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    """The answer before it cannot be written.

    The connection ends in the turn in which the call would begin.
    """
    table = MethodTable([_Waiting()], {})

    async with served(table.call) as (server, connect):
        for count in range(1, 6):
            client = await connect()
            calls = [msgpack.packb((0, number, "ping", [])) for number in range(4)]
            client.writer.write(b"".join([*calls, msgpack.packb((0, 4, "hover", []))]))
            client.writer.close()
            await until(partial(gone, server, count))
        await until(lambda: server.pending_bytes == 0)  # calls end in turns after their connection
        gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


def gone(server: RpcServer, connections: int) -> bool:
    return server.counters["connections"] == connections and not server.connected


class _Waiting:
    @method("ping")
    def ping(self) -> bool:
        return True

    @method("hover")
    async def hover(self) -> None:
        await asyncio.Event().wait()


async def test_calls_of_a_client_that_went_are_cancelled() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def handler(_caller: Caller, _: str, __: Sequence[Any]) -> object:
        started.set()
        try:
            return await asyncio.Event().wait()
        finally:
            ended.set()

    async with served(handler) as (server, connect):
        client = await connect()
        client.send(0, 1, "fly", [])
        await started.wait()
        client.writer.close()
        await asyncio.wait_for(ended.wait(), PATIENCE_S)
        while server.connected:
            await asyncio.sleep(0)


@pytest.mark.parametrize("last", [b"", b"\xc1", b"\x94\x00\x02\xa4ping\x91\xc6\x00\x10\x00\x00"])
async def test_a_connection_that_ended_is_freed_at_once(last: bytes) -> None:
    """Without the garbage collector, whatever came last.

    Nothing, garbage, or a part of a message.
    """
    callers = []

    async def handler(caller: Caller, _: str, __: Sequence[Any]) -> object:
        callers.append(weakref.ref(caller))
        return True

    gc.collect()
    gc.disable()
    try:
        async with served(handler) as (server, connect):
            client = await connect()
            client.send(0, 1, "ping", [[1, {"a": 2}]])
            await client.answer()
            client.writer.write(last)
            client.writer.close()
            async with asyncio.timeout(PATIENCE_S):
                while server.connected or callers[0]() is not None:
                    await asyncio.sleep(0.001)
    finally:
        gc.enable()


async def test_a_large_request_is_taken_in_pieces_and_others_are_served_between() -> None:
    """Its unpacking takes many turns of the loop.

    Another client's call is answered in one of the first.
    """
    handled: list[str] = []

    def handler(_caller: Caller, method: str, _: Sequence[Any]) -> object:
        handled.append(method)
        return True

    point = {"x_val": 1.5, "y_val": 2.5, "z_val": 3.5}
    request = msgpack.packb((0, 1, "large", ([point] * 30_000,)))
    async with served(handler) as (server, connect):
        heavy = await connect()
        light = await connect()
        heavy.writer.write(request)
        while server.turns.used_s < 0.004:
            await asyncio.sleep(0)
        light.send(0, 1, "light", [])
        assert await light.answer() == [1, 1, None, True]
        assert await heavy.answer() == [1, 1, None, True]
        assert handled == ["light", "large"]
        steps = server.turns.used_s / server.turns.longest_s
        assert steps > 10.0  # of a machine that is busy, too: the longest of them all


async def test_a_large_answer_is_written_in_pieces_from_its_own_buffers() -> None:
    picture = memoryview(bytes(range(256)) * (1 << 16))

    def handler(_caller: Caller, _: str, __: Sequence[Any]) -> object:
        return [
            {
                "data": Packed.bin(picture),
                "floats": Packed(b"\x91", b"\xca\x3f\x80\x00\x00"),
                "name": "a",
            }
        ] * 2

    async with served(handler) as (server, connect):
        client = await connect()
        client.send(0, 1, "pictures", [])
        _, _, error, result = await client.answer()
        assert (
            error is None and result == [{"data": bytes(picture), "floats": [1.0], "name": "a"}] * 2
        )
        await until(lambda: server.unread_bytes == 0)


async def test_a_mute_connection_gives_its_seat_to_a_new_one_and_is_named() -> None:
    def handler(_caller: Caller, _: str, __: Sequence[Any]) -> object:
        return True

    async with served(handler, most=3) as (server, connect):
        speaking = await connect()
        speaking.send(0, 1, "ping", [])
        await speaking.answer()
        mute = [await connect() for _ in range(2)]
        await until(lambda: server.connected == 3)
        for _ in range(3):
            new = await connect()
            new.send(0, 1, "ping", [])
            assert await new.answer() == [1, 1, None, True]
            new.writer.close()
            await until(lambda: server.connected < 3)
        with pytest.raises((EOFError, ConnectionError)):
            await mute[0].answer()
        speaking.send(0, 2, "ping", [])
        assert await speaking.answer() == [1, 2, None, True]
        assert server.faults()["mute"] == 1 and not server.faults()["refused"]
        assert [(row.peer, row.reason) for row in server.peer_faults.rows()] == [(HOST, "mute")]


async def test_a_silent_program_gives_its_seat_to_a_new_one_and_is_called_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(msgpack_rpc, "_SILENT_S", 0.0)

    def handler(_caller: Caller, _: str, __: Sequence[Any]) -> object:
        return True

    async with served(handler, most=1) as (server, connect):
        for _ in range(2):
            client = await connect()
            client.send(0, 1, "ping", [])
            assert await client.answer() == [1, 1, None, True]
        assert server.faults() == dict.fromkeys(FAULTS, 0) | {"idle": 1}


async def test_a_connection_that_asks_for_nothing_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(msgpack_rpc, "_MUTE_S", 0.01)

    def handler(_caller: Caller, _: str, __: Sequence[Any]) -> object:
        return True

    async with served(handler) as (server, connect):
        mute = await connect()
        mute.writer.write(b"\x94\x00")
        with pytest.raises((EOFError, ConnectionError)):
            await mute.answer()
        assert server.faults()["mute"] == 1


async def test_one_address_leaves_seats_to_others() -> None:
    def handler(_caller: Caller, _: str, __: Sequence[Any]) -> object:
        return True

    server = RpcServer("rpc", handler, most=3, most_of_address=2)
    port = await server.start(HOST, 0)
    peers = []
    try:
        for host in (HOST, HOST, HOST, "127.0.0.2"):
            peers.append(Client(*await asyncio.open_connection(HOST, port, local_addr=(host, 0))))
            peers[-1].send(0, 1, "ping", [])
        assert [await peers[number].answer() for number in (0, 1, 3)] == [[1, 1, None, True]] * 3
        with pytest.raises((EOFError, ConnectionError)):
            await peers[2].answer()
    finally:
        for peer in peers:
            peer.writer.close()
        await server.close()


async def test_a_client_that_takes_more_than_its_share_is_named_with_its_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "_NAMED_AFTER_S", 0.05)

    def handler(_caller: Caller, _: str, __: Sequence[Any]) -> object:
        return sum(range(20_000)) > 0

    async with served(handler, shares=NEXT_TO_PICTURES) as (server, connect):
        client = await connect()
        number = 0
        while not server.faults()["slowed"]:
            for _ in range(16):
                number += 1
                client.send(0, number, "burn", [])
            for _ in range(16):
                await client.answer()
        port = client.writer.get_extra_info("sockname")[1]
        (row,) = server.peer_faults.rows()
        assert row.reason == "slowed" and row.peer == f"'program on port {port}' at {HOST}"
        assert "uses the most of the processor time" in server.peer_faults.warnings()[0]


async def test_connections_beyond_the_limit_are_closed() -> None:
    async def handler(_caller: Caller, _: str, __: Sequence[Any]) -> object:
        return True

    async with served(handler, most=1) as (server, connect):
        first = await connect()
        first.send(0, 1, "ping", [])
        await first.answer()
        second = await connect()
        with pytest.raises(EOFError):
            await second.answer()
        assert server.faults()["refused"] == 1
