"""MessagePack-RPC over TCP, as rpclib and msgpack-rpc speak it.

A request is [0, id, method, arguments].

A request that does not wait is answered at once. One that waits (a flight) is a task of its own and
holds up no other. Requests of a connection begin in their order; answers leave whole, in the order
in which they are ready. Bad bytes end their connection.

The loop has other work. So a large request is unpacked, a large answer written, and what a request
held freed, in pieces, each in a turn of its client (:mod:`vil_simulation.airsim.turns`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol, cast

import msgpack
import msgspec

from vil_bridge.runtime.peer_faults import PeerFaults
from vil_simulation.airsim.msgpack_nesting import NestingLimit
from vil_simulation.airsim.turns import NEXT_TO_PICTURES, STEP_S, Shares, TurnAccount, Turns

logger = logging.getLogger(__name__)


class Caller(Protocol):
    """A client. ``host``: its address."""

    host: str


Handler = Callable[[Caller, str, Sequence[Any]], object]
"""Runs a method with its arguments for a caller and returns the result, or a coroutine that does.

Arguments are emptied after the call. In a coroutine ``asyncio.sleep(0)`` waits for the caller's
next turn. Raises RpcError: the text for the caller.
"""

_READ_BYTES: Final = 1 << 16
_PIECE_BYTES: Final = 1 << 11
"""Unpacked without a look at the time: as many empty arrays take half a millisecond."""
_MOST_BYTES: Final = 1 << 23
"""Of one request; a path of 5,000 points has a quarter of a megabyte."""
_MOST_ITEMS: Final = 1 << 15
"""Of one array: the garbage collector looks at each, without a turn between."""
_MOST_KEYS: Final = 1 << 8
"""Of one map: those of AirSim have at most twelve."""
_MOST_COLLECTED: Final = 1 << 12
"""Arrays, and maps with arrays or maps, of one request: the garbage collector looks at each."""
_MOST_NESTED: Final = 12
"""Arrays and maps in each other: those of AirSim stand six deep.

The unpacker allocates each at its header.
"""
_MOST_MAPS: Final = 1 << 16
"""Of one request: each takes 64 bytes of memory for one byte of the wire."""
_LONGEST: Final = 1 << 16
"""Of a text or of bytes, in bytes: they are copied and decoded at once."""
_SMALL_BYTES: Final = 1 << 12
"""A request up to this size is freed at once, and no other client's requests or answers keep it
waiting.
"""
_FREED_AT_ONCE: Final = 1 << 10
"""Elements of a request."""
_WRITTEN_BYTES: Final = 1 << 18
"""Of answers, handed to the system at once."""
_MOST_PENDING: Final = 256
"""Requests of one connection that are under way or whose answers the client does not read.

Then it is not read.
"""
_MOST_AT_ONCE: Final = 16
"""Requests of one connection that are answered in a turn."""
_MOST_PENDING_BYTES: Final = 1 << 24
"""Large requests of all connections that are under way; one beyond them fails.

One connection has up to half.
"""
_MOST_UNREAD_BYTES: Final = 1 << 30
"""Large answers of all connections that are not sent yet; one beyond them becomes an error.

One connection has up to half, and loses its seat to others' answers once it has not read for a
while.
"""
_STALLED_S: Final = 5.0
"""Time without reading."""
_MOST_OF_ADDRESS: Final = 48
"""Connections of one address, so that others find a seat."""
_MUTE_S: Final = 60.0
"""Time for the first request of a connection, in which a program may load its network.

Before that a mute connection gives its seat to a new one where no seat is free.
"""
_SILENT_S: Final = 30.0
"""A connection without a call for so long gives its seat to a new one where no seat is free."""
_CLOSE_S: Final = 1.0

_NONE: Final = object()
"""In place of a request that is not whole yet."""
_END: Final = memoryview(b"end")
"""After the last buffer of an answer."""
Buffer = bytes | memoryview

FAULTS: Final = ("malformed", "refused", "mute", "idle", "unread", "slowed")
"""Reasons of unwanted input."""

_encode = msgspec.msgpack.Encoder().encode


class RpcError(Exception):
    """A call that failed; the text goes to the caller."""


class Packed:
    """A value that is MessagePack already, in buffers that follow each other.

    They are sent without a copy.

    It may stand anywhere in a result.
    """

    def __init__(self, *buffers: Buffer) -> None:
        self.buffers = buffers

    @classmethod
    def bin(cls, data: Buffer) -> Packed:
        """Return bytes."""
        return cls(b"\xc6" + memoryview(data).nbytes.to_bytes(4, "big"), data)

    def __bytes__(self) -> bytes:
        return b"".join(self.buffers)


class _AnswerEncoder:
    """Encoder of answers as buffers: those of packed values are taken as they are."""

    def __init__(self) -> None:
        self._place: Final = msgspec.msgpack.Ext(0, secrets.token_bytes(16))
        self._mark: Final = msgspec.msgpack.encode(self._place)
        self._found: list[Packed] = []
        self._encode: Final = msgspec.msgpack.Encoder(enc_hook=self._hook).encode

    def encode(self, value: object) -> list[Buffer]:
        """Return a value as buffers. Raises TypeError: it cannot be written."""
        self._found.clear()
        encoded = self._encode(value)
        if not self._found:
            return [encoded]
        first, *others = encoded.split(self._mark)
        buffers: list[Buffer] = [first]
        for packed, after in zip(self._found, others, strict=True):
            buffers += [*packed.buffers, after]
        return buffers

    def _hook(self, value: object) -> msgspec.msgpack.Ext:
        if not isinstance(value, Packed):
            raise TypeError(f"{type(value)} cannot be written")
        self._found.append(value)
        return self._place


class RpcServer:
    """Server of one method table.

    Args:
        name: of the port, for the log.
        handler: runs a request.
        most: connections at a time. Where no seat is free, a new connection takes that of the one
            that is silent for longest; without a silent one it is closed at once.
        on_gone: called with a caller whose connection has ended.
        most_of_address: connections of one address at a time.
        shares: of the loop's time, for the clients.

    Attributes:
        counters: connections, requests, errors, malformed, refused, mute, idle, unread, slowed.
        turns: of the connections in the loop.
        pending_bytes: size of the requests that are under way. unread_bytes: size of the answers
            that are not sent yet.
        peer_faults: the senders of what was malformed or refused, and clients that were slowed.
        encoder: of all answers.
        buffer: for the next bytes of any connection, which takes them before another one reads.
    """

    def __init__(
        self,
        name: str,
        handler: Handler,
        most: int = 64,
        on_gone: Callable[[Caller], object] | None = None,
        most_of_address: int = _MOST_OF_ADDRESS,
        shares: Shares = NEXT_TO_PICTURES,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.pending_bytes = self.unread_bytes = 0
        self.peer_faults = PeerFaults(name)
        self.handler = handler
        self.turns = Turns(self._on_slowed, shares)
        self.encoder: Final = _AnswerEncoder()
        self.buffer: Final = memoryview(bytearray(_READ_BYTES))
        self._most = most
        self._most_of_address = most_of_address
        self._on_gone = on_gone
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    def faults(self) -> dict[str, int]:
        """Return what came in that should not have, by reason; any thread."""
        return {reason: self.counters[reason] for reason in FAULTS}

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
        of_address = [other for other in self._connections if other.host == connection.host]
        if len(of_address) >= self._most_of_address:
            has_seat = self._free_seat(of_address)
        elif len(self._connections) >= self._most:
            has_seat = self._free_seat(self._connections)
        else:
            has_seat = True
        if not has_seat:
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

    def note(self, reason: str, connection: _Connection) -> None:
        """Count a connection that is closed for a reason."""
        self.counters[reason] += 1
        self.peer_faults.add(reason, connection.host)

    def make_room(self, size: int) -> bool:
        """End connections that do not read, that with the most unread bytes first.

        False = there is still no room.
        """
        now_s = asyncio.get_running_loop().time()
        while self.unread_bytes + size > _MOST_UNREAD_BYTES:
            stalled = [one for one in self._connections if one.stalled_s(now_s) > _STALLED_S]
            if not stalled:
                return False
            most = max(stalled, key=lambda one: one.unread_bytes)
            self.note("unread", most)
            self._end(most)
        return True

    def _free_seat(self, connections: Iterable[_Connection]) -> bool:
        """Close the connection that is silent for longest, a mute one first.

        False = none is silent.
        """
        now_s = asyncio.get_running_loop().time()
        silent = [
            other for other in connections if other.is_mute or other.silent_s(now_s) > _SILENT_S
        ]
        if not silent:
            return False
        longest = max(silent, key=lambda other: (other.is_mute, other.silent_s(now_s)))
        self.note("mute" if longest.is_mute else "idle", longest)
        self._end(longest)
        return True

    def _end(self, connection: _Connection) -> None:
        """End a connection, whose seat and unread bytes are free at once."""
        connection.abort()
        self.remove(connection)

    def _on_slowed(self, account: TurnAccount) -> None:
        """Count a second for which calls had to wait, and name the program that used the most
        time.
        """
        self.counters["slowed"] += 1
        self.peer_faults.add("slowed", account.host, f"program on port {account.port}")


class _Unpacked:
    """Arrays and maps of a request, so that they can be freed in pieces.

    The unpacker holds it in place of its connection: so a connection that has ended is freed at
    once, with the megabytes that its unpacker may hold, and does not wait for the garbage
    collector.
    """

    def __init__(self) -> None:
        self._arrays: list[list[Any]] = []
        self._maps: list[dict[Any, Any]] = []
        self._collected = 0

    def add_array(self, array: list[Any]) -> list[Any]:
        """Note an array and return it. Raises ValueError: the request has too many."""
        self._arrays.append(array)
        self._count_collected()
        return array

    def add_map(self, found: dict[Any, Any]) -> dict[Any, Any]:
        """Note a map and return it. Raises ValueError: the request has too many."""
        self._maps.append(found)
        if len(self._maps) > _MOST_MAPS:
            raise ValueError(f"a request has more than {_MOST_MAPS} maps")
        if any(isinstance(value, (list, dict)) for value in found.values()):
            self._count_collected()
        return found

    def _count_collected(self) -> None:
        self._collected += 1
        if self._collected > _MOST_COLLECTED:
            raise ValueError(
                f"a request has more than {_MOST_COLLECTED} arrays, or maps with others inside"
            )

    def restart(self) -> _Request:
        """Begin with the next request; returns what the last one holds."""
        request = _Request(self._arrays, self._maps)
        self._arrays = []
        self._maps = []
        self._collected = 0
        return request


class _Request:
    """Arrays and maps of a request that is whole."""

    def __init__(self, arrays: list[list[Any]], maps: list[dict[Any, Any]]) -> None:
        self._arrays = arrays
        self._maps = maps

    def free_some(self) -> bool:
        """Free some of it; False = nothing is left."""
        if self._maps:
            some = self._maps[-_FREED_AT_ONCE:]
            del self._maps[-_FREED_AT_ONCE:]
            for found in some:
                found.clear()
        elif self._arrays and self._arrays[-1]:
            del self._arrays[-1][-_FREED_AT_ONCE:]
        elif self._arrays:
            self._arrays.pop()
        return bool(self._maps or self._arrays)


class _Connection(asyncio.BufferedProtocol):
    """One client (a :class:`Caller`): requests in, answers out.

    Attributes:
        closed: done once the connection has ended.
        is_mute: it has not sent a request yet.
        unread_bytes: size of its answers that are not sent yet.
    """

    def __init__(self, server: RpcServer) -> None:
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.host = ""
        self.is_mute = True
        self._server = server
        self._turns = server.turns
        self._account: TurnAccount | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._asked = False
        self._abort: asyncio.TimerHandle | None = None
        self._mute: asyncio.TimerHandle | None = None
        self._called_s = self._loop.time()
        self._data = memoryview(b"")
        self._paused = self._full = self._is_last = False
        self._outgoing: deque[memoryview] = deque()
        self._full_since_s = 0.0
        self._unsent = 0
        self.unread_bytes = 0
        self._pending_bytes = 0
        self._unpacked = _Unpacked()
        self._nesting = NestingLimit(_MOST_NESTED)
        self._received_bytes = self._taken_bytes = 0
        self._unpacker = msgpack.Unpacker(
            raw=False,
            strict_map_key=True,  # a key that is an array has no hash
            unicode_errors="replace",
            read_size=_READ_BYTES,  # without it each connection has a megabyte
            max_buffer_size=_MOST_BYTES,
            max_str_len=_LONGEST,
            max_bin_len=_LONGEST,
            max_array_len=_MOST_ITEMS,
            max_map_len=_MOST_KEYS,
            max_ext_len=0,
            list_hook=self._unpacked.add_array,
            object_hook=self._unpacked.add_map,
        )

    # --- called by the loop --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, or close at once where there are too many connections."""
        self._transport = cast(asyncio.Transport, transport)
        self.host, port = transport.get_extra_info("peername")[:2]
        self._account = self._turns.account(self.host, port)
        if self._server.admit(self):
            self._mute = self._loop.call_later(_MUTE_S, self._end_mute)
        else:
            self._transport.close()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's
        """Return where the next bytes go."""
        return self._server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes.

        Those that do not have their turn now are copied, since the buffer is that of all
        connections.
        """
        self._received_bytes += nbytes
        self._data = self._server.buffer[:nbytes]
        self._ask(self._turns.ask_now)
        if self._data:
            self._data = memoryview(bytes(self._data))
            self._pause()

    def pause_writing(self) -> None:
        """Write no more for now."""
        self._full = True
        self._full_since_s = self._loop.time()

    def resume_writing(self) -> None:
        """Write on: the client has read most."""
        self._full = False
        if self._outgoing:
            self._turns.ask(self._account_of(), self._write_some)

    def eof_received(self) -> bool:
        """End with the client, once what it sent before is taken; True = not yet."""
        self._is_last = True
        if not self._has_more():
            self.close()
        return self._has_more()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - whatever the reason
        """End the calls that are under way."""
        self._cancel()
        for timer in (self._abort, self._mute):
            if timer is not None:
                timer.cancel()
        self._turns.close(self._account_of())
        self._drop_unread()
        self._free(self._unpacked.restart(), self._received_bytes - self._taken_bytes)
        self._server.remove(self)
        self.closed.set_result(None)

    # --- life ----------------------------------------------------------------------------------

    def silent_s(self, now_s: float) -> float:
        """Return how long no call has come; 0 = one is under way."""
        return 0.0 if self._calls else now_s - self._called_s

    def close(self) -> None:
        """Cancel the calls that are under way and close the socket.

        Abort where the client does not read.
        """
        self._cancel()
        self._transport.close()
        if self._abort is None:
            self._abort = self._loop.call_later(_CLOSE_S, self._transport.abort)

    def abort(self) -> None:
        """End it at once."""
        self._cancel()
        self._drop_unread()
        self._transport.abort()

    def stalled_s(self, now_s: float) -> float:
        """Return for how long the client has not read; 0 = it reads."""
        return now_s - self._full_since_s if self._full else 0.0

    def _drop_unread(self) -> None:
        """Drop the answers that the client has not read."""
        self._outgoing.clear()
        self._server.unread_bytes -= self.unread_bytes
        self.unread_bytes = 0
        self._unsent = 0

    def _end_mute(self) -> None:
        """Close it, unless what it sent still waits for its turn."""
        if self._has_more():
            self._mute = self._loop.call_later(_MUTE_S, self._end_mute)
        else:
            self._server.note("mute", self)
            self.close()

    def _has_more(self) -> bool:
        """Return True while bytes wait for a turn that will come."""
        return self._asked or (bool(self._data) and not self._is_busy())

    def _cancel(self) -> None:
        for call in tuple(self._calls):
            call.cancel()

    def _account_of(self) -> TurnAccount:
        assert self._account is not None
        return self._account

    # --- requests ------------------------------------------------------------------------------

    def _ask(self, ask: Callable[[TurnAccount, Callable[[], object]], object]) -> None:
        """Ask for a turn to take requests in, unless that was done, or there is nothing to take
        now.
        """
        if not self._asked and not self._is_busy() and not self._transport.is_closing():
            self._asked = True
            ask(self._account_of(), self._serve)

    def _serve(self) -> None:
        """Take requests for a while; bad ones end the connection."""
        self._asked = False
        if self._transport.is_closing():
            return
        try:
            self._take_some()
        except ValueError as exc:
            self._data = memoryview(b"")
            self._server.counters["malformed"] += 1
            self._server.peer_faults.add("malformed", self.host)
            logger.debug(
                "closed a connection of %s: not MessagePack-RPC: %s", self.host, str(exc)[:200]
            )
            self.close()

    def _take_some(self) -> None:
        """Take requests until all bytes are taken, the turn ends, a call waits, or too many calls
        are under way.

        Raises:
            ValueError: bad bytes.
        """
        end_s = time.thread_time() + STEP_S
        taken = 0
        while True:
            message = self._next_message() if self._received_bytes > self._taken_bytes else _NONE
            if message is not _NONE:
                taken += 1
                if self._take(message):
                    self._pause()
                    self._loop.call_soon(self._go_on)  # after the first step of the call
                    return
            elif self._data:
                self._feed(self._data[:_PIECE_BYTES])
                self._data = self._data[_PIECE_BYTES:]
            else:
                break
            if self._is_busy() or taken >= _MOST_AT_ONCE or time.thread_time() > end_s:
                self._pause()
                self._go_on()
                return
        if self._received_bytes - self._taken_bytes > _MOST_BYTES:
            raise ValueError(f"a request has more than {_MOST_BYTES} bytes")
        if self._is_last:
            self.close()
        elif self._paused:
            self._paused = False
            self._transport.resume_reading()

    def _feed(self, piece: memoryview) -> None:
        """Give the unpacker bytes.

        Raises ValueError: they are nested too deep, or too many for a request.
        """
        self._nesting.check(piece)
        try:
            self._unpacker.feed(piece)
        except msgpack.exceptions.BufferFull as exc:
            raise ValueError(f"a request has more than {_MOST_BYTES} bytes") from exc

    def _next_message(self) -> object:
        """Return the next message that is whole, or ``_NONE``.

        Raises ValueError: the unpacker raises whatever.
        """
        try:
            return next(self._unpacker, _NONE)
        except Exception as exc:
            raise ValueError(f"{type(exc).__name__}: {exc}") from exc

    def _pause(self) -> None:
        """Read no more until what has come is taken."""
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _is_busy(self) -> bool:
        return len(self._calls) + self._unsent >= _MOST_PENDING

    def _go_on(self) -> None:
        """Take the rest in a later turn, unless too many calls are under way."""
        if self._paused:
            self._ask(self._turns.ask)

    def _take(self, message: object) -> bool:
        """Begin a request or notification; True = it waits. Raises ValueError: it is neither."""
        held = self._unpacked.restart()
        end: int = self._unpacker.tell()
        size = end - self._taken_bytes
        self._taken_bytes = end
        match message:
            case [0, int(number), str(method), list(arguments)] if 0 <= number < 1 << 32:
                answer: int | None = number
            case [2, str(method), list(arguments)]:
                answer = None
            case _:
                self._free(held, size)
                raise ValueError("a message is neither a request nor a notification")
        self._note_request()
        server = self._server
        try:
            if size > _SMALL_BYTES:
                self._check_pending(size)
            result = server.handler(self, method, arguments)
            if not isinstance(result, Coroutine):
                self._reply(answer, result)
                self._free(held, size)
                return False
        except Exception as exc:
            self._fail(answer, method, exc)
            self._free(held, size)
            return False
        server.pending_bytes += size
        self._pending_bytes += size
        call = self._loop.create_task(
            self._finish(answer, method, result), name=f"rpc {method[:60]}"
        )
        self._calls.add(call)
        call.add_done_callback(partial(self._ended, size, result, held))
        return True

    def _check_pending(self, size: int) -> None:
        """Raise RpcError where a request is too large next to those that are under way."""
        if self._pending_bytes + size > _MOST_PENDING_BYTES // 2:
            most = f"{_MOST_PENDING_BYTES // 2} bytes"
            raise RpcError(
                f"calls of this client under way have more than {most}: wait until some have ended"
            )
        if self._server.pending_bytes + size > _MOST_PENDING_BYTES:
            raise RpcError(
                f"calls under way have more than {_MOST_PENDING_BYTES} bytes: wait until "
                "some have ended"
            )

    def _note_request(self) -> None:
        self._server.counters["requests"] += 1
        self._called_s = self._loop.time()
        self.is_mute = False
        if self._mute is not None:
            self._mute.cancel()
            self._mute = None

    async def _finish(
        self, number: int | None, method: str, result: Coroutine[object, object, object]
    ) -> None:
        await self._turns.measured(self._account_of(), self._answer(number, method, result))

    async def _answer(
        self, number: int | None, method: str, result: Coroutine[object, object, object]
    ) -> None:
        try:
            self._reply(number, await result)
        except Exception as exc:
            self._fail(number, method, exc)

    def _ended(
        self,
        size: int,
        result: Coroutine[object, object, object],
        held: _Request,
        call: asyncio.Task[None],
    ) -> None:
        result.close()  # a call that ended before its first step has not begun it
        self._server.pending_bytes -= size
        self._pending_bytes -= size
        self._calls.discard(call)
        self._called_s = self._loop.time()
        self._free(held, size)
        self._go_on()

    def _free(self, held: _Request, size: int) -> None:
        """Free what a request holds, in pieces where it is large."""
        if size > _SMALL_BYTES:
            self._turns.ask_first(partial(_free_some, held, self._turns))

    # --- answers -------------------------------------------------------------------------------

    def _reply(self, number: int | None, result: object) -> None:
        buffers = self._server.encoder.encode((1, number, None, result))
        if number is not None:
            self._send(number, buffers)

    def _fail(self, number: int | None, method: str, exc: Exception) -> None:
        """Answer an error; a bug shall not leave its caller waiting for ever."""
        text = str(exc)
        if not isinstance(exc, RpcError):
            logger.error("%s failed", method[:60], exc_info=exc)
            text = f"rpclib: function '{method[:60]}' failed inside the server; see its log"
        answer = self._error(number, text)
        if number is not None:
            self._send(number, [answer])

    def _send(self, number: int, buffers: Sequence[Buffer]) -> None:
        """Write an answer, a large one in pieces; what the client does not read yet is unread."""
        if self._transport.is_closing():
            return
        views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
        size = sum(view.nbytes for view in views)
        refused = "" if size <= _SMALL_BYTES else self._unread_beyond(size)
        if refused:
            views = [memoryview(self._error(number, refused))]
            size = views[0].nbytes
        if size <= _WRITTEN_BYTES and not self._outgoing and not self._full:
            self._transport.write(views[0] if len(views) == 1 else b"".join(views))
            return
        if not self._outgoing and not self._full:
            self._turns.ask(self._account_of(), self._write_some)
        self._outgoing.extend(views)
        self._outgoing.append(_END)
        self._unsent += 1
        self.unread_bytes += size
        self._server.unread_bytes += size

    def _unread_beyond(self, size: int) -> str:
        """Return why an answer cannot wait until the client reads; empty = it can."""
        if self.unread_bytes + size > _MOST_UNREAD_BYTES // 2:
            most = f"{_MOST_UNREAD_BYTES >> 21} MiB"
            return (
                f"answers that this client has not read have more than {most}: read them, or "
                "ask for less at a time"
            )
        if not self._server.make_room(size):
            return (
                "answers that clients have not read have more than "
                f"{_MOST_UNREAD_BYTES >> 20} MiB: ask again later"
            )
        return ""

    def _write_some(self) -> None:
        """Write of the answers that wait as much as the system gets at once, unless the client
        does not read.
        """
        left = _WRITTEN_BYTES
        while self._outgoing and not self._full and left:
            view = self._outgoing.popleft()
            if view is _END:
                self._unsent -= 1
                continue
            piece = view[:left]
            rest = view[left:]
            self._transport.write(piece)
            left -= len(piece)
            self.unread_bytes -= len(piece)
            self._server.unread_bytes -= len(piece)
            if rest:
                self._outgoing.appendleft(rest)
        if self._outgoing and not self._full:
            self._turns.ask(self._account_of(), self._write_some)
        self._go_on()

    def _error(self, number: int | None, text: str) -> bytes:
        self._server.counters["errors"] += 1
        return _encode((1, number, text, None))


def _free_some(held: _Request, turns: Turns) -> None:
    if held.free_some():
        turns.ask_first(partial(_free_some, held, turns))
