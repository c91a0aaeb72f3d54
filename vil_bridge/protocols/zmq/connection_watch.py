"""TCP connections of a listening ZeroMQ socket.

Limits on their number, bytes and unread bytes, and their end.

libzmq collects the parts of a message without limit until the last one comes, and shows none of
them before. The kernel counts their bytes.

libzmq stops reading a connection whose messages find no room. If that connection breaks now (by a
reset, a time limit of the kernel or the shutdown of both directions) and a PING is among the
messages that wait, libzmq answers it on what is broken and aborts (its issues 4364 and 4841). Any
peer may send PINGs. Thus our listening sockets ignore resets, and connections end by the end of
their input, which libzmq reads when it has room.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import math
import os
import socket
import struct
import termios
import threading
from collections import deque
from collections.abc import Callable, Collection, MutableMapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, machine_ns
from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.runtime.rates import peer_of

_SO_ATTACH_FILTER: Final = 26  # asm-generic/socket.h
# linux/filter.h: code, jump if true, jump if false, operand. A packet of 0 bytes is dropped.
_DROP_ALL: Final = ((0x06, 0, 0, 0),)
# TCP's flags.
_DROP_RESETS: Final = (
    (0x30, 0, 0, 13),
    (0x45, 0, 1, 0x04),
    (0x06, 0, 0, 0),
    (0x06, 0, 0, 0xFFFFFFFF),
)
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)
_SILENCE_NS: Final = 10 * NS_PER_S
_MOST_SILENCED: Final = 256  # each has a descriptor
_PIECE_BYTES: Final = 1 << 16
_silenced: Final[deque[tuple[int, int]]] = deque()  # instants of their ends, descriptors
_lock: Final = threading.Lock()


def ignore_resets(descriptor: int) -> None:
    """Let the kernel drop the resets that come to a listening socket's connections. Raises OSError.

    The caller has to end connections whose peer does not answer any more.
    """
    with borrowed(descriptor) as listener:
        _filter(listener, _DROP_RESETS)


def end(tcp: socket.socket, quietly: bool) -> None:
    """End a connection.

    Libzmq gets no more of it, and closes it when it has handled what it has read.

    Args:
        tcp: its socket, borrowed.
        quietly: the peer sees the end 10 s later: one that comes back as soon as its connection
            ends costs more than a silenced one. Only so many at a time; the others see it at once.

    Raises:
        OSError: it has ended.
    """
    with contextlib.suppress(OSError):  # where the system refuses, libzmq reads what it still sends
        _filter(tcp, _DROP_ALL)
    with contextlib.suppress(BlockingIOError):
        while tcp.recv(_PIECE_BYTES, socket.MSG_DONTWAIT):
            pass
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
    tcp.shutdown(socket.SHUT_RD)
    if quietly:
        with _lock:
            if len(_silenced) < _MOST_SILENCED:
                # It stays as long as one has it.
                _silenced.append((machine_ns() + _SILENCE_NS, os.dup(tcp.fileno())))


def end_silenced() -> None:
    """End the silenced connections whose time has come; called often, in any thread."""
    with _lock:
        while _silenced and _silenced[0][0] <= machine_ns():
            os.close(_silenced.popleft()[1])


def has_ended(tcp: socket.socket) -> bool:
    """Return True for a connection that :func:`end` ended and libzmq still has. Raises OSError."""
    return (
        tcp.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, len(_RESET_AT_CLOSE)) == _RESET_AT_CLOSE
    )


def borrowed(descriptor: int) -> socket.socket:
    """Return a duplicate of a descriptor as a socket, to be closed.

    Raises OSError when it is none.
    """
    duplicate = os.dup(descriptor)
    try:
        return socket.socket(fileno=duplicate)
    except OSError:
        os.close(duplicate)
        raise


def _filter(tcp: socket.socket, program: tuple[tuple[int, int, int, int], ...]) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    tcp.setsockopt(
        socket.SOL_SOCKET,
        _SO_ATTACH_FILTER,
        struct.pack("@HP", len(program), ctypes.addressof(code)),
    )


MAX_CONNECTIONS: Final = 320
CONNECTIONS_OF_ONE: Final = 80
"""Of one address: 64 readers and those that come back; an IPv6 network counts as one."""
_PERIOD_NS: Final = 20 * NS_PER_MS
_WAITING_BYTES: Final = 32 * 1024
_PATIENCE_S: Final = 0.5
_PATIENCE_STEP_S: Final = (
    0.04  # between two checks: it does not count when the socket's thread is late
)
_SERVED_BYTES: Final = 4096  # sent to a connection: more than a handshake
# For the duplicate: the next check may have one.
_NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)
_UNANSWERED_MS: Final = 5000  # long enough for a raw frame on a slow link
_GONE: Final = "gone"
_TCP_INFO: Final = struct.Struct("=3xB20xI28xI60xQQ")
"""linux/tcp.h: tcpi_probes, tcpi_unacked, tcpi_last_ack_recv, tcpi_bytes_acked,
tcpi_bytes_received
"""


class Budget(NamedTuple):
    """Bytes that a connection may send.

    Attributes:
        per_s: for ever.
        at_once: in a burst.
        unfinished: since its last whole message.
    """

    per_s: float
    at_once: int
    unfinished: float


CONTROL_BUDGET: Final = Budget(500e3, 512 * 1024, 72 * 1024)
"""Inertial samples at 1 kHz are 150 kB/s; the longest message has 64 KiB."""
SILENT_BUDGET: Final = Budget(512.0, 64 * 1024, math.inf)
"""A handshake, and heartbeats of a foreign reader, some encrypted."""


@dataclass(slots=True)
class _Connection:
    """A TCP connection as of the last check.

    Attributes:
        name: its peer's address and port. owner: whom the address stands for.
        whole: bytes received, but for what waits, when a whole message of it was last seen.
        spent: bytes of the burst in use.
        waited_s: time since much waits of it in the kernel.
        served: the bridge has sent it more than a handshake.
        active: a whole message of it has come since the last check.
    """

    name: tuple[str, int]
    owner: str
    received: int = 0
    whole: int = 0
    spent: float = 0.0
    waited_s: float = 0.0
    served: bool = False
    active: bool = False

    @property
    def unfinished(self) -> int:
        """Bytes received since its last whole message."""
        return self.received - self.whole


class ConnectionWatch:
    """Limits of connections.

    Fifty times a second those beyond them, or whose peer does not answer, are ended.

    Belongs to the socket's thread. libzmq owns the descriptors: each check borrows one by a
    duplicate, and a connection is forgotten when the peer of its descriptor has changed.

    Args:
        budget: of each connection; None = no limits, and only those whose peer does not answer are
            ended.
        counters: gets ``cut_off``.
        faults: gets the sender and the reason: ``too_many`` connections, ``flood`` of bytes,
            ``unread`` bytes that wait, an ``endless`` message.
    """

    def __init__(
        self, budget: Budget | None, counters: MutableMapping[str, int], faults: PeerFaults
    ) -> None:
        self._budget = budget
        self._counters = counters
        self._faults = faults
        self._connections: dict[int, _Connection] = {}
        self._t_check_ns = machine_ns()
        self._elapsed_s = 0.0
        self._registered: Collection[int] | None = None
        counters.setdefault("cut_off", 0)

    def accepted(self, descriptor: int, endpoint: str) -> None:
        """Account a new connection to our endpoint."""
        self._connections.pop(descriptor, None)
        try:
            with borrowed(descriptor) as tcp:
                (address, port), (_, ours) = tcp.getpeername()[:2], tcp.getsockname()[:2]
        except (OSError, ValueError):  # gone already, and the descriptor another's
            return
        if ours != int(endpoint.rpartition(":")[2]):
            return
        self._connections[descriptor] = _Connection((address, port), peer_of(address))

    def check(self, active: Collection[int], registered: Collection[int] | None = None) -> None:
        """End what is beyond the limits; does nothing within 20 ms of the last check.

        Args:
            active: descriptors that whole messages came from since the last call.
            registered: descriptors of registered peers, which make room last; None = those that
                were sent something.
        """
        for descriptor in active:
            if (connection := self._connections.get(descriptor)) is not None:
                connection.active = True
        t_ns = machine_ns()
        if t_ns - self._t_check_ns < _PERIOD_NS:
            return
        self._elapsed_s = (t_ns - self._t_check_ns) / NS_PER_S
        self._t_check_ns = t_ns
        self._registered = registered
        for descriptor in tuple(self._connections):
            self._with(descriptor, self._excess)
        if self._budget is not None:
            self._make_room()
        end_silenced()

    def _excess(self, tcp: socket.socket, connection: _Connection) -> str:
        """Return the reason to end a connection; empty = none."""
        info = tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        probes, unacked, unanswered_ms, sent, received = _TCP_INFO.unpack(info)
        if (probes or unacked) and unanswered_ms > _UNANSWERED_MS:
            return _GONE
        if self._budget is None:
            return ""
        return self._beyond(self._budget, tcp, connection, sent, received)

    def _beyond(
        self, budget: Budget, tcp: socket.socket, connection: _Connection, sent: int, received: int
    ) -> str:
        """Return the limit that a connection is beyond, from the bytes so far; empty = none."""
        waiting = struct.unpack("i", fcntl.ioctl(tcp, termios.FIONREAD, bytes(4)))[0]
        if connection.active:
            connection.whole = received - waiting
            connection.active = False
        spent = (
            max(0.0, connection.spent - self._elapsed_s * budget.per_s)
            + received
            - connection.received
        )
        connection.spent = spent
        connection.received = received
        connection.served = sent > _SERVED_BYTES
        patience_s = min(self._elapsed_s, _PATIENCE_STEP_S)
        if waiting <= _WAITING_BYTES:
            connection.waited_s = 0.0
        else:
            connection.waited_s += patience_s
        if spent > budget.at_once:
            return "flood"
        if connection.unfinished - waiting > budget.unfinished:
            return "endless"
        return "unread" if connection.waited_s > _PATIENCE_S else ""

    def _make_room(self) -> None:
        """End the oldest connections that are not registered of an address, or of all, that has
        too many.
        """
        if len(self._connections) <= CONNECTIONS_OF_ONE:
            return
        of_owner: dict[str, list[int]] = {}
        for descriptor, connection in self._connections.items():
            of_owner.setdefault(connection.owner, []).append(descriptor)
        for descriptors in of_owner.values():
            self._end_some(descriptors, CONNECTIONS_OF_ONE)
        self._end_some(list(self._connections), MAX_CONNECTIONS)

    def _end_some(self, descriptors: list[int], limit: int) -> None:
        if len(descriptors) <= limit:
            return
        by_rank = sorted(descriptors, key=self._is_registered)  # the oldest first
        for descriptor in by_rank[:-limit]:
            self._with(descriptor, lambda _tcp, _connection: "too_many")

    def _is_registered(self, descriptor: int) -> bool:
        if self._registered is None:
            return self._connections[descriptor].served
        return descriptor in self._registered

    def _with(self, descriptor: int, excess: Callable[[socket.socket, _Connection], str]) -> None:
        """Look at a connection, and end it where ``excess`` returns a reason.

        Forget it when it is gone.
        """
        connection = self._connections[descriptor]
        try:
            with borrowed(descriptor) as tcp:
                if tcp.getpeername()[:2] != connection.name or has_ended(tcp):
                    raise ConnectionError
                reason = excess(tcp, connection)
                if reason:
                    end(tcp, quietly=reason is not _GONE and not self._is_registered(descriptor))
        except OSError as exc:
            if exc.errno not in _NO_DESCRIPTOR:  # gone, or the descriptor is another's
                del self._connections[descriptor]
            return
        if reason:
            del self._connections[descriptor]
        if reason and reason is not _GONE:
            self._counters["cut_off"] += 1
            self._faults.add(reason, connection.name[0])
