"""Relays of a link: one for UDP datagrams, one for TCP connections."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import struct
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from vil_adapters.lab.link_spec import Address, Way
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.interfaces.faults import Delivery
from vil_bridge.runtime.delay_line import DelayLine

QUEUE_BYTES: Final = 256 * 1024
"""Datagrams that wait at most for a slow link; those beyond are dropped."""
WINDOW_BYTES: Final = 1024 * 1024
"""Bytes of a connection that are on their way at most; the sender has to wait."""

_RETRANSMIT_NS: Final = 200_000_000  # the least retransmission time-out of Linux
_MAX_CLIENTS: Final = 64
_MAX_DATAGRAMS_PER_WAKE: Final = 64
_DATAGRAM_BYTES: Final = 65536
_CHUNK_BYTES: Final = 16384
_LOOK_S: Final = 0.005
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class LinkDirection:
    """One direction of a running link: when what is sent now comes out.

    Attributes:
        counters: ``offered`` = ``delivered`` - ``duplicated`` - ``garbage`` + ``lost`` +
            ``silenced`` + ``overflow`` + ``unsent`` + what is on its way; ``bytes`` are those
            delivered.
        cut_until_ns: bridge time until which nothing passes, in addition to the cuts of the faults.
    """

    def __init__(self, way: Way) -> None:
        self.counters: Counter[str] = Counter()
        self.cut_until_ns: float = -math.inf
        self.change(way)

    def change(self, way: Way) -> None:
        """Change to another network, whose episodes begin now.

        What is under way comes out as planned.
        """
        self.faults = way.faults
        self.started_ns = now_ns()
        self._delivery = Delivery(way.faults, self.counters)
        self._ns_per_byte = 8 * NS_PER_S / way.rate_bps if way.rate_bps else 0.0
        self._free_ns = 0

    @property
    def elapsed_ns(self) -> int:
        """Time since the start, the origin of all episodes."""
        return now_ns() - self.started_ns

    @property
    def is_cut(self) -> bool:
        """Return True while nothing passes."""
        return now_ns() < self.cut_until_ns or self.faults.silent(self.elapsed_ns)

    async def passable(self) -> None:
        """Wait for the end of a cut."""
        while self.is_cut:  # noqa: ASYNC110 - a cut by time has no event
            await asyncio.sleep(_LOOK_S)

    def datagrams(self, message: bytes) -> list[tuple[int, bytes]]:
        """Return the output of a datagram with its times.

        Nothing, itself, its copy, additional garbage.
        """
        t_ns = now_ns()
        if t_ns < self.cut_until_ns:
            self.counters.update(("offered", "silenced"))
            return []
        delays_ns = self._delivery.delays_ns(self.elapsed_ns)
        if not delays_ns:
            return []
        if self._wait_ns(t_ns) > QUEUE_BYTES * self._ns_per_byte:
            self.counters["overflow"] += len(delays_ns)
            return []
        out_ns = self._transmitted_ns(len(message), t_ns)
        arriving = [(out_ns + delay_ns, message) for delay_ns in delays_ns]
        broken = self._delivery.garbage(self.elapsed_ns, message)
        return arriving if broken is None else [*arriving, (out_ns, broken)]

    def chunk_ns(self, size: int) -> int:
        """Return the time at which a piece of a stream comes out; a lost one is sent again."""
        delays_ns = self._delivery.delays_ns(self.elapsed_ns)
        lost_ns = _RETRANSMIT_NS + self.faults.delay_ns
        return self._transmitted_ns(size, now_ns()) + max(delays_ns, default=lost_ns)

    def delivered(self, size: int) -> None:
        """Count what came out."""
        self.counters["delivered"] += 1
        self.counters["bytes"] += size

    def _wait_ns(self, t_ns: int) -> int:
        return max(0, self._free_ns - t_ns)

    def _transmitted_ns(self, size: int, t_ns: int) -> int:
        """Return the time of the last bit on the wire, on which messages follow each other."""
        self._free_ns = max(t_ns, self._free_ns) + round(size * self._ns_per_byte)
        return self._free_ns


# --- UDP ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Datagram:
    payload: bytes
    direction: LinkDirection
    via: socket.socket
    to: Address


class UdpRelay:
    """Relay of datagrams.

    Every client has its own port on the target's side, as behind a router.
    """

    def __init__(self, up: LinkDirection, down: LinkDirection) -> None:
        self._up = up
        self._down = down
        self._loop = asyncio.get_running_loop()
        self._target: Address = ("", 0)
        self._front: socket.socket | None = None
        self._clients: OrderedDict[Address, socket.socket] = OrderedDict()
        self._line: DelayLine[_Datagram] | None = None

    async def open(self, listen: Address, target: Address) -> Address:
        """Begin to relay; returns where the clients are to go.

        Raises:
            OSError: the port is taken.
        """
        self._target = target
        front = self._front = _bound(listen)
        self._line = DelayLine(self._deliver)
        self._loop.add_reader(front, self._from_clients, front)
        host, port = front.getsockname()
        return host, port

    async def close(self) -> None:
        """Release everything at once; may be called twice."""
        if self._line is not None:
            self._line.close()
        for sock in (*self._clients.values(), *filter(None, [self._front])):
            self._loop.remove_reader(sock)
            sock.close()
        self._clients.clear()
        self._front = self._line = None

    def reset(self) -> None:
        """Do nothing: datagrams have no connections."""

    def _from_clients(self, front: socket.socket) -> None:
        for payload, client in _received(front):
            self._send(payload, self._up, self._port_of(client, front), self._target)

    def _port_of(self, client: Address, front: socket.socket) -> socket.socket:
        """Return the client's own socket towards the target."""
        if client not in self._clients:
            if len(self._clients) >= _MAX_CLIENTS:
                _, oldest = self._clients.popitem(last=False)
                self._loop.remove_reader(oldest)
                oldest.close()
            # Not connected: a server may answer from several ports. The address is that of the
            # route.
            back = _bound((_route_to(self._target), 0))
            self._clients[client] = back
            self._loop.add_reader(back, self._from_target, back, front, client)
        self._clients.move_to_end(client)
        return self._clients[client]

    def _from_target(self, back: socket.socket, front: socket.socket, client: Address) -> None:
        for payload, sender in _received(back):
            if sender[0] == self._target[0]:
                self._send(payload, self._down, front, client)

    def _send(
        self, payload: bytes, direction: LinkDirection, via: socket.socket, to: Address
    ) -> None:
        assert self._line is not None
        for due_ns, message in direction.datagrams(payload):
            if not self._line.enqueue(due_ns, _Datagram(message, direction, via, to)):
                direction.counters["overflow"] += 1

    def _deliver(self, item: _Datagram) -> None:
        try:
            item.via.sendto(item.payload, item.to)
        except OSError:
            item.direction.counters["unsent"] += 1
        else:
            item.direction.delivered(len(item.payload))


def _bound(address: Address) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    try:
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def _route_to(target: Address) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0])


def _received(sock: socket.socket) -> list[tuple[bytes, Address]]:
    """Return the datagrams that wait, up to a bound; refusals of an absent target are ignored."""
    found: list[tuple[bytes, Address]] = []
    for _ in range(_MAX_DATAGRAMS_PER_WAKE):
        try:
            found.append(sock.recvfrom(_DATAGRAM_BYTES))
        except BlockingIOError:
            break
        except OSError:
            continue
    return found


# --- TCP ----------------------------------------------------------------------------------------


class TcpRelay:
    """Relay of connections, each with one of its own to the target."""

    def __init__(self, up: LinkDirection, down: LinkDirection) -> None:
        self._up = up
        self._down = down
        self._target: Address = ("", 0)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._line: DelayLine[asyncio.Future[None]] | None = None

    async def open(self, listen: Address, target: Address) -> Address:
        """Begin to relay; returns where the clients are to go.

        Raises:
            OSError: the port is taken.
        """
        self._target = target
        self._line = DelayLine(_wake)
        self._server = await asyncio.start_server(self._accepted, *listen)
        host, port = self._server.sockets[0].getsockname()
        return host, port

    async def close(self) -> None:
        """End all connections and release everything; may be called twice."""
        if self._server is not None:
            self._server.close()
        self.reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._line is not None:
            self._line.close()
        self._server = self._line = None

    def reset(self) -> None:
        """Kill all connections, as a rebooting router with address translation does."""
        for writer in list(self._writers):
            _reset(writer)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with self._held(writer):
                await self._up.passable()  # no handshake gets through a cut
                await self._joined(reader, writer)
        except OSError:
            self._up.counters["refused"] += 1
        except asyncio.CancelledError:
            pass  # by close; asyncio 3.11 logs it as an error of a callback
        finally:
            self._tasks.discard(task)

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        self._up.counters["connections"] += 1
        async with self._held(far_writer), asyncio.TaskGroup() as group:
            group.create_task(self._pump(reader, far_writer, self._up))
            group.create_task(self._pump(far_reader, writer, self._down))

    @contextlib.asynccontextmanager
    async def _held(self, writer: asyncio.StreamWriter) -> AsyncIterator[None]:
        if len(self._writers) >= 2 * _MAX_CLIENTS:
            _reset(writer)
        self._writers.add(writer)
        try:
            yield
        finally:
            self._writers.discard(writer)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: LinkDirection
    ) -> None:
        """Relay one direction of a connection until its end.

        When it breaks, break the other one too.
        """
        pipe = _Pipe()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(reader, pipe, direction))
                group.create_task(self._write(pipe, writer, direction))
        except* OSError:
            _reset(writer)

    @staticmethod
    async def _read(reader: asyncio.StreamReader, pipe: _Pipe, way: LinkDirection) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await pipe.enqueue(way.chunk_ns(len(data)), data)
        await pipe.enqueue(0, b"")

    async def _write(self, pipe: _Pipe, writer: asyncio.StreamWriter, way: LinkDirection) -> None:
        while True:
            due_ns, data = await pipe.get()
            await self._until(due_ns)
            await way.passable()
            if not data:
                if writer.can_write_eof():
                    writer.write_eof()
                return
            writer.write(data)
            await writer.drain()
            way.delivered(len(data))

    async def _until(self, due_ns: int) -> None:
        assert self._line is not None
        if due_ns > now_ns():
            due: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._line.enqueue(due_ns, due)
            await due


class _Pipe:
    """Pieces of a stream on their way, in order; an empty one is the end."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    async def enqueue(self, due_ns: int, data: bytes) -> None:
        await self._room.wait()
        self._count(len(data))
        self._pieces.put_nowait((due_ns, data))

    async def get(self) -> tuple[int, bytes]:
        due_ns, data = await self._pieces.get()
        self._count(-len(data))
        return due_ns, data

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes < WINDOW_BYTES:
            self._room.set()
        else:
            self._room.clear()


def _wake(due: asyncio.Future[None]) -> None:
    if not due.done():
        due.set_result(None)


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
