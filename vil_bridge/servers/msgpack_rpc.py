"""MessagePack-RPC over TCP, as rpclib and msgpack-rpc speak it: a request is [0, id, method, arguments].

A request that does not wait is answered at once. One that waits (a flight) is a task of its own and holds up no other.
Requests of a connection begin in their order; answers leave whole, in the order in which they are ready. Bad bytes
end their connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast

import msgpack
import msgspec

from vil_bridge.core.peer_faults import PeerFaults

logger = logging.getLogger(__name__)


class Caller(Protocol):
    """A client. ``host``: its address."""

    host: str


_Container = TypeVar("_Container", list[Any], dict[Any, Any])

Handler = Callable[[Caller, str, Sequence[Any]], object]
"""Runs a method with its arguments for a caller and returns the result, or a coroutine that does.

Raises RpcError: the text for the caller."""

_READ_BYTES: Final = 1 << 16
_MOST_BYTES: Final = 1 << 23
"""Of one request; a path of 10,000 points has half a megabyte."""
_MOST_ITEMS: Final = 1 << 20
"""Of one array or map."""
_MOST_CONTAINERS: Final = 1 << 18
"""Arrays and maps of one request: each takes 64 bytes of memory for one byte of the wire."""
_MOST_PENDING: Final = 256
"""Requests of one connection that are under way or whose answers the client does not read; then it is not read."""
_MOST_AT_ONCE: Final = 16
"""Requests of one connection that are answered before other connections have their turn."""
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
        buffer: for the next bytes of any connection, which takes them before another one reads.
    """

    def __init__(
        self, name: str, handler: Handler, most: int = 64, on_gone: Callable[[Caller], object] | None = None
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.pending_bytes = self.unread_bytes = 0
        self.peer_faults = PeerFaults(name)
        self.handler = handler
        self.buffer: Final = memoryview(bytearray(_READ_BYTES))
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
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), bind, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """End the calls that are under way and close every connection."""
        if self._server is not None:
            self._server.close()
        connections = tuple(self._connections)
        for connection in connections:
            connection.close()
        if connections:
            await asyncio.wait([connection.closed for connection in connections])
        if self._server is not None:
            await self._server.wait_closed()

    def admit(self, connection: _Connection) -> bool:
        """Count a connection; False = there are too many."""
        if len(self._connections) >= self._most:
            self.counters["refused"] += 1
            self.peer_faults.add("too_many", connection.host)
            return False
        self.counters["connections"] += 1
        self._connections.add(connection)
        return True

    def remove(self, connection: _Connection) -> None:
        """Drop a connection that has ended; one that was refused is unknown."""
        if connection in self._connections:
            self._connections.remove(connection)
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


class _Connection(asyncio.BufferedProtocol):
    """One client (a :class:`Caller`): requests in, answers out.

    Attributes:
        closed: done once the connection has ended.
    """

    def __init__(self, server: RpcServer) -> None:
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.host = ""
        self._server = server
        self._calls: set[asyncio.Task[None]] = set()
        self._turn: asyncio.Handle | None = None
        self._abort: asyncio.TimerHandle | None = None
        self._paused = self._full = False
        self._unsent = self._unsent_bytes = 0
        self._containers = _ContainerCount()
        self._received_bytes = self._taken_bytes = 0
        self._unpacker = msgpack.Unpacker(
            raw=False,
            strict_map_key=False,
            unicode_errors="replace",
            read_size=_READ_BYTES,  # without it each connection has a megabyte
            max_buffer_size=_MOST_BYTES,
            max_array_len=_MOST_ITEMS,
            max_map_len=_MOST_ITEMS,
            max_ext_len=0,
            list_hook=self._containers.add,
            object_hook=self._containers.add,
        )

    # --- called by the loop --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, or close at once where there are too many connections."""
        self._transport = cast(asyncio.Transport, transport)
        self.host = transport.get_extra_info("peername")[0]
        if not self._server.admit(self):
            self._transport.close()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's
        """Return where the next bytes go."""
        return self._server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes."""
        self._received_bytes += nbytes
        self._serve(self._server.buffer[:nbytes])

    def pause_writing(self) -> None:
        """Count answers as unsent from now on."""
        self._full = True

    def resume_writing(self) -> None:
        """Count no answer as unsent: the client has read most."""
        self._full = False
        self._release_unsent()
        self._go_on()

    def eof_received(self) -> None:
        """End with the client."""
        self.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - whatever the reason
        """End the calls that are under way."""
        self._cancel()
        if self._abort is not None:
            self._abort.cancel()
        self._release_unsent()
        self._server.remove(self)
        self.closed.set_result(None)

    # --- requests ------------------------------------------------------------------------------

    def close(self) -> None:
        """Cancel the calls that are under way and close the socket; abort where the client does not read."""
        self._cancel()
        self._transport.close()
        if self._abort is None:
            self._abort = self._loop.call_later(_CLOSE_S, self._transport.abort)

    def _cancel(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
        for call in tuple(self._calls):
            call.cancel()

    def _serve(self, data: memoryview | bytes = b"") -> None:
        """Take requests, with further bytes if there are any; bad ones end the connection."""
        self._turn = None
        try:
            self._unpacker.feed(data)
            self._take_some()
        except (ValueError, msgpack.exceptions.UnpackException) as exc:
            self._server.counters["malformed"] += 1
            self._server.peer_faults.add("malformed", self.host)
            logger.debug("closed a connection of %s: not MessagePack-RPC: %s", self.host, str(exc)[:200])
            self.close()

    def _take_some(self) -> None:
        """Take requests until none is whole, or the rest has to wait. Raises ValueError: bad bytes.

        The rest waits for a call that begins with the loop's next turn, for other connections, or for too many calls.
        """
        for number, message in enumerate(self._unpacker, 1):
            waits = self._take(message)
            more = self._received_bytes > self._taken_bytes
            if self._is_busy() or (more and (waits or number >= _MOST_AT_ONCE)):
                self._paused = True
                self._transport.pause_reading()
                self._go_on()
                return
        if self._received_bytes - self._taken_bytes > _MOST_BYTES:
            raise ValueError(f"a request has more than {_MOST_BYTES} bytes")
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    def _is_busy(self) -> bool:
        return len(self._calls) + self._unsent >= _MOST_PENDING

    def _go_on(self) -> None:
        """Take the rest in the loop's next turn, unless too many calls are under way."""
        if self._paused and self._turn is None and not self._is_busy() and not self._transport.is_closing():
            self._turn = self._loop.call_soon(self._serve)

    def _take(self, message: object) -> bool:
        """Begin a request or notification; True = it waits. Raises ValueError: it is neither."""
        self._containers.restart()
        end: int = self._unpacker.tell()
        size, self._taken_bytes = end - self._taken_bytes, end
        match message:
            case [0, int(number), str(method), list(arguments)] if 0 <= number < 1 << 32:
                answer: int | None = number
            case [2, str(method), list(arguments)]:
                answer = None
            case _:
                raise ValueError("a message is neither a request nor a notification")
        server = self._server
        server.counters["requests"] += 1
        try:
            if server.pending_bytes + size > _MOST_PENDING_BYTES:
                raise RpcError(
                    f"calls under way have more than {_MOST_PENDING_BYTES} bytes: wait until some have ended"
                )
            result = server.handler(self, method, arguments)
            if not isinstance(result, Coroutine):
                self._reply(answer, result)
                return False
        except Exception as exc:
            self._fail(answer, method, exc)
            return False
        server.pending_bytes += size
        call = self._loop.create_task(self._finish(answer, method, result), name=f"rpc {method[:60]}")
        self._calls.add(call)
        call.add_done_callback(partial(self._ended, size, result))
        return True

    async def _finish(self, number: int | None, method: str, result: Coroutine[object, object, object]) -> None:
        try:
            self._reply(number, await result)
        except Exception as exc:
            self._fail(number, method, exc)

    def _ended(self, size: int, result: Coroutine[object, object, object], call: asyncio.Task[None]) -> None:
        result.close()  # a call that ended before its first step has not begun it
        self._server.pending_bytes -= size
        self._calls.discard(call)
        self._go_on()

    # --- answers -------------------------------------------------------------------------------

    def _reply(self, number: int | None, result: object) -> None:
        answer = _encode((1, number, None, result))
        if number is not None:
            self._send(number, answer)

    def _fail(self, number: int | None, method: str, exc: Exception) -> None:
        """Answer an error; a bug shall not leave its caller waiting for ever."""
        text = str(exc)
        if not isinstance(exc, RpcError):
            logger.error("%s failed", method[:60], exc_info=exc)
            text = f"rpclib: function '{method[:60]}' failed inside the server; see its log"
        answer = self._error(number, text)
        if number is not None:
            self._send(number, answer)

    def _send(self, number: int, answer: bytes) -> None:
        """Write an answer; it counts as unread until the client has read most of what waits."""
        if self._transport.is_closing():
            return
        if self._server.unread_bytes + len(answer) > _MOST_UNREAD_BYTES:
            text = f"answers that clients have not read have more than {_MOST_UNREAD_BYTES >> 20} MiB: read them first"
            answer = self._error(number, text)
        self._transport.write(answer)
        if self._full:
            self._unsent += 1
            self._unsent_bytes += len(answer)
            self._server.unread_bytes += len(answer)

    def _release_unsent(self) -> None:
        self._server.unread_bytes -= self._unsent_bytes
        self._unsent = self._unsent_bytes = 0

    def _error(self, number: int | None, text: str) -> bytes:
        self._server.counters["errors"] += 1
        return _encode((1, number, text, None))
