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
from vil_bridge.servers import msgpack_rpc
from vil_bridge.servers.airsim.methods import MethodTable, method
from vil_bridge.servers.msgpack_rpc import Caller, RpcError, RpcServer

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
async def served(handler: Any, most: int = 64) -> AsyncIterator[tuple[RpcServer, Connect]]:
    server = RpcServer("rpc", handler, most)
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
            b"".join(msgspec.msgpack.encode([0, n, "wait" if n % 3 else "quick", [n]]) for n in range(1000))
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
        client.writer.write(b"".join(msgspec.msgpack.encode([0, n, "quick", [n]]) for n in range(1000)))
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
        b"\x94\x00\x01\xa4ping\x91\xc6\xff\xff\xff\xff" + bytes(9 << 20),
        b"\x91" * 5000,
        b"\x94\x00\x01\xa4ping\x91\xdd\x00\x08\x00\x00" + b"\x90" * (1 << 19),
        b"\x94\x00\x01\xa4ping\x91\xdd\x00\x08\x00\x00" + b"\x80" * (1 << 19),
    ],
    ids=[
        *("http", "reserved", "short", "negative", "beyond 32 bits", "answer", "long array", "long bytes", "nested"),
        *("many arrays", "many maps"),
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
        assert server.faults() == {"malformed": 1, "refused": 0}
        assert [(row.port, row.peer, row.reason) for row in server.peer_faults.rows()] == [("rpc", HOST, "malformed")]


async def test_calls_under_way_have_a_limit_in_bytes_over_all_clients() -> None:
    go_on = asyncio.Event()

    async def handler(_caller: Caller, _: str, arguments: Sequence[Any]) -> object:
        await go_on.wait()
        return len(arguments[0])

    size = 6 << 20
    async with served(handler) as (server, connect):
        first, second = await connect(), await connect()
        for number in range(2):
            first.send(0, number, "waits", [bytes(size)])
        while server.pending_bytes < 2 * size:
            await asyncio.sleep(0.01)
        second.send(0, 7, "fails", [bytes(size)])
        kind, number, text, _ = await second.answer()
        assert (kind, number) == (1, 7) and "wait until some have ended" in text
        assert 2 * size < server.pending_bytes < 2 * size + 100
        go_on.set()
        assert [(await first.answer())[3] for _ in range(2)] == [size, size]
        assert server.pending_bytes == 0
        second.send(0, 8, "works", [bytes(size)])
        assert await second.answer() == [1, 8, None, size]


async def test_answers_that_are_not_read_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 64 << 20
    monkeypatch.setattr(msgpack_rpc, "_MOST_UNREAD_BYTES", limit)
    size = limit // 2 - 100

    async def handler(_caller: Caller, method: str, _: Sequence[Any]) -> object:
        return bytes(size) if method == "large" else True

    async with served(handler) as (server, connect):
        idle, other = await connect(), await connect()
        for number in range(4):
            idle.send(0, number, "large", [])
        while server.counters["errors"] < 2:
            await asyncio.sleep(0.01)
        assert server.unread_bytes <= limit
        other.send(0, 1, "small", [])
        assert await other.answer() == [1, 1, None, True]
        idle.writer.transport.abort()
        while server.unread_bytes:
            await asyncio.sleep(0.01)


async def test_a_client_that_does_not_read_is_not_read_any_further() -> None:
    def handler(_caller: Caller, _: str, __: Sequence[Any]) -> object:
        return bytes(1 << 20)

    async with served(handler) as (server, connect):
        idle, other = await connect(), await connect()
        for number in range(600):
            idle.send(0, number, "large", [])
        while server.counters["requests"] < 256:
            await asyncio.sleep(0.01)
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
        piece = msgspec.msgpack.encode(bytes(1 << 20))
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


async def test_a_call_of_a_client_that_went_before_it_began_leaves_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    """The answer before it cannot be written: the connection ends in the turn in which the call would begin."""
    table = MethodTable([_Waiting()], {})

    async with served(table.call) as (server, connect):
        for count in range(1, 6):
            client = await connect()
            calls = [msgpack.packb((0, number, "ping", [])) for number in range(4)]
            client.writer.write(b"".join([*calls, msgpack.packb((0, 4, "hover", []))]))
            client.writer.close()
            await until(partial(gone, server, 5 * count))
        await until(lambda: server.pending_bytes == 0)  # calls end in turns after their connection
        gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


def gone(server: RpcServer, requests: int) -> bool:
    return server.counters["requests"] == requests and not server.connected


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
    """Without the garbage collector, whatever came last: nothing, garbage, or a part of a message."""
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
