"""MessagePack-RPC over TCP, as rpclib and msgpack-rpc speak it: a request is [0, id, method, arguments].

Each request is a task of its own, so that a call that takes a while (a flight) holds up no other; answers leave whole,
in the order in which they are ready. Bad bytes end their connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import msgpack
import msgspec

from vil_bridge.core.peer_faults import PeerFaults

logger = logging.getLogger(__name__)


class Caller(Protocol):
    """A client. ``host``: its address."""

    host: str


_Container = TypeVar("_Container", list[Any], dict[Any, Any])

Handler = Callable[[Caller, str, Sequence[Any]], Awaitable[object]]
"""Runs a method with its arguments for a caller. Raises RpcError: the text for the caller."""

_READ_BYTES: Final = 1 << 16
_MOST_BYTES: Final = 1 << 23
"""Of one request; a path of 10,000 points has half a megabyte."""
_MOST_ITEMS: Final = 1 << 20
"""Of one array or map."""
_MOST_CONTAINERS: Final = 1 << 18
"""Arrays and maps of one request: each takes 64 bytes of memory for one byte of the wire."""
_MOST_PENDING: Final = 256
"""Requests of one connection that are under way; with more the connection is not read any further."""
_MOST_PENDING_BYTES: Final = 1 << 24
"""Requests of all connections that are under way; one beyond them fails."""
_MOST_UNREAD_BYTES: Final = 1 << 30
"""Answers of all connections that are not sent yet; one beyond them becomes an error. One answer has up to half."""
_CLOSE_S: Final = 1.0

_encode = msgspec.msgpack.Encoder().encode


class RpcError(Exception):
    """A call that failed; the text goes to the caller."""


class RpcServer:
    """Server of one method table.

    Args:
        name: of the port, for the log.
        handler: runs a request. most: connections at a time; further ones are closed at once.
        on_gone: called with a caller whose connection has ended.

    Attributes:
        counters: connections, requests, errors, malformed, refused.
        pending_bytes: size of the requests that are under way. unread_bytes: size of the answers that are not sent yet.
        peer_faults: the senders of what was malformed or refused.
    """

    def __init__(
        self, name: str, handler: Handler, most: int = 64, on_gone: Callable[[Caller], object] | None = None
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.pending_bytes = self.unread_bytes = 0
        self.peer_faults = PeerFaults(name)
        self.handler = handler
        self._most = most
        self._on_gone = on_gone
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    def faults(self) -> dict[str, int]:
        """Return what came in that should not have, by reason; any thread."""
        return {reason: self.counters[reason] for reason in ("malformed", "refused")}

    @property
    def connected(self) -> int:
        """Connections that are open."""
        return len(self._connections)

    async def start(self, bind: str, port: int) -> int:
        """Listen; returns the port. Raises OSError: it cannot be had."""
        self._server = await asyncio.start_server(self._accept, bind, port, limit=_READ_BYTES)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """End the calls that are under way and close every connection."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            await connection.close()
        if self._server is not None:
            await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= self._most:
            self.counters["refused"] += 1
            self.peer_faults.add("too_many", writer.get_extra_info("peername")[0])
            writer.close()
            return
        self.counters["connections"] += 1
        connection = _Connection(reader, writer, self)
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            if self._on_gone is not None:
                self._on_gone(connection)


class _ContainerCount:
    """Count of the arrays and maps of a request.

    The unpacker holds it in place of its connection: so a connection that has ended is freed at once, with the
    megabytes that its unpacker may hold, and does not wait for the garbage collector.
    """

    def __init__(self) -> None:
        self._found = 0

    def restart(self) -> None:
        """Begin with the next request."""
        self._found = 0

    def add(self, container: _Container) -> _Container:
        """Count an array or map and return it. Raises ValueError: the request has too many."""
        self._found += 1
        if self._found > _MOST_CONTAINERS:
            raise ValueError(f"a request has more than {_MOST_CONTAINERS} arrays and maps")
        return container


class _Connection:
    """One client (a :class:`Caller`): requests in, answers out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: RpcServer) -> None:
        self._reader = reader
        self._writer = writer
        self._server = server
        self._calls: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(_MOST_PENDING)
        self._containers = _ContainerCount()
        self._read_bytes = 0
        self.host: str = writer.get_extra_info("peername")[0]
        self._unpacker = msgpack.Unpacker(
            raw=False,
            strict_map_key=False,
            unicode_errors="replace",
            max_buffer_size=_MOST_BYTES,
            max_array_len=_MOST_ITEMS,
            max_map_len=_MOST_ITEMS,
            max_ext_len=0,
            list_hook=self._containers.add,
            object_hook=self._containers.add,
        )

    async def run(self) -> None:
        """Serve until the client goes, or sends something else."""
        try:
            while data := await self._reader.read(_READ_BYTES):
                self._unpacker.feed(data)
                for message in self._unpacker:
                    await self._take(message)
        except (ValueError, msgpack.exceptions.UnpackException) as exc:
            self._server.counters["malformed"] += 1
            self._server.peer_faults.add("malformed", self.host)
            logger.debug("closed a connection of %s: not MessagePack-RPC: %s", self.host, str(exc)[:200])
        except ConnectionError:
            pass  # gone, as clients go that are killed
        finally:
            await self.close()

    async def close(self) -> None:
        """Cancel the calls that are under way and close the socket."""
        for call in tuple(self._calls):
            call.cancel()
        self._writer.close()
        with_patience = asyncio.wait_for(self._writer.wait_closed(), _CLOSE_S)
        try:
            await with_patience
        except (TimeoutError, ConnectionError):
            self._writer.transport.abort()

    async def _take(self, message: object) -> None:
        """Start a request or notification. Raises ValueError: it is neither."""
        self._containers.restart()
        end: int = self._unpacker.tell()
        size, self._read_bytes = end - self._read_bytes, end
        match message:
            case [0, int(number), str(method), list(arguments)] if 0 <= number < 1 << 32:
                answer: int | None = number
            case [2, str(method), list(arguments)]:
                answer = None
            case _:
                raise ValueError("a message is neither a request nor a notification")
        await self._room.acquire()
        self._server.pending_bytes += size
        call = asyncio.create_task(self._call(answer, method, arguments), name=f"rpc {method[:60]}")
        self._calls.add(call)
        call.add_done_callback(partial(self._ended, size))

    def _ended(self, size: int, call: asyncio.Task[None]) -> None:
        self._server.pending_bytes -= size
        self._calls.discard(call)
        self._room.release()

    async def _call(self, number: int | None, method: str, arguments: list[Any]) -> None:
        self._server.counters["requests"] += 1
        try:
            if self._server.pending_bytes > _MOST_PENDING_BYTES:
                raise RpcError(
                    f"calls under way have more than {_MOST_PENDING_BYTES} bytes: wait until some have ended"
                )
            answer = _encode((1, number, None, await self._server.handler(self, method, arguments)))
        except RpcError as exc:
            answer = self._error(number, str(exc))
        except Exception:  # a bug shall not leave its caller waiting for ever
            logger.exception("%s failed", method[:60])
            answer = self._error(number, f"rpclib: function '{method[:60]}' failed inside the server; see its log")
        if number is not None and not self._writer.is_closing():
            await self._send(number, answer)

    async def _send(self, number: int, answer: bytes) -> None:
        """Write an answer, and wait until the client has read most of it."""
        if self._server.unread_bytes + len(answer) > _MOST_UNREAD_BYTES:
            text = f"answers that clients have not read have more than {_MOST_UNREAD_BYTES >> 20} MiB: read them first"
            answer = self._error(number, text)
        self._server.unread_bytes += len(answer)
        try:
            self._writer.write(answer)
            await self._writer.drain()
        except ConnectionError:
            return
        finally:
            self._server.unread_bytes -= len(answer)

    def _error(self, number: int | None, text: str) -> bytes:
        self._server.counters["errors"] += 1
        return _encode((1, number, text, None))
