"""ZeroMQ within one process.

Addresses of TCP become names within one context, whose messages no other thread carries.

A peer that is not there yet is waited for, as with TCP. A peer that goes is not reported to the
other side, and CURVE does not encrypt: cases about either need real sockets.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import zmq
import zmq.sugar.poll

from tests.virtual.machine import Machine, real_poll, replace

_Socket = TypeVar("_Socket")
_FIRST_PORT: Final = 30_000
_TCP: Final = "tcp://"
_WITHIN: Final = "inproc://"
_GOODBYE_S: Final = 0.2


class _Traffic:
    """Count of what sockets did that another may notice, and the sockets that leave.

    Attributes:
        leaving: sockets that said goodbye, with the instant at which they close.
    """

    def __init__(self, machine: Machine) -> None:
        self.count = 0
        self.leaving: dict[Any, int] = {}
        self._machine = machine
        self._get = zmq.Socket.get
        self._close = zmq.Socket.close

    def attend(self) -> None:
        """Take the answers to those that leave.

        Call it whenever something is sent or waited for.
        """
        for socket, until_ns in list(self.leaving.items()):
            self._get(socket, zmq.EVENTS)
            if self._machine.after_s(0.0) >= until_ns:
                self._close(socket, 0)
                del self.leaving[socket]
                self.count += 1


def install(machine: Machine) -> None:
    """Keep all messages of ZeroMQ in this process, and let its waiting be the machine's."""
    whole = zmq.Context(0)
    real: Any = zmq.Context

    class Context(real[_Socket], Generic[_Socket]):  # type: ignore[misc]
        """A context that shares the queues of all others."""

        def __new__(cls, *_arguments: Any, **_options: Any) -> Any:
            return real.__new__(cls, shadow=whole.underlying)

        def __init__(self, *_arguments: Any, **_options: Any) -> None:
            super().__init__(shadow=whole.underlying)

        def term(self) -> None:
            """End nothing: the queues are those of all."""

    replace(zmq, Context=Context)
    replace(zmq.sugar.context, Context=Context)
    traffic = _Traffic(machine)
    _replace_addresses(machine, traffic)
    _replace_waiting(machine, traffic)


def _replace_addresses(machine: Machine, traffic: _Traffic) -> None:
    """Let names stand for addresses."""
    ports = itertools.count(_FIRST_PORT)
    bound: set[str] = set()
    waiting: list[tuple[Any, str]] = []
    ends: dict[Any, list[str]] = {}
    leaving = traffic.leaving
    bind, connect, unbind, disconnect, get, close = (
        getattr(zmq.Socket, name)
        for name in ("bind", "connect", "unbind", "disconnect", "get", "close")
    )

    def joining(self: Any, name: str) -> None:
        connect(self, name)
        traffic.count += 1
        ends.setdefault(self, []).append(name)

    def binding(self: Any, address: str) -> None:
        if address.startswith(_TCP) and address.endswith((":0", ":*")):
            address = f"{address[:-2]}:{next(ports)}"
        name = _within(address)
        bind(self, name)
        traffic.count += 1
        bound.add(name)
        for socket, wanted in [pair for pair in waiting if pair[1] == name]:
            waiting.remove((socket, wanted))
            if not socket.closed:
                joining(socket, name)

    def connecting(self: Any, address: str) -> None:
        name = _within(address)
        if name in bound or not address.startswith(_TCP):
            joining(self, name)
        else:
            waiting.append((self, name))

    def disconnecting(self: Any, address: str) -> None:
        name = _within(address)
        if (self, name) in waiting:
            waiting.remove((self, name))
        else:
            ends[self].remove(name)
            disconnect(self, name)
            traffic.count += 1

    def closing(self: Any, linger: int | None = None) -> None:
        """Say goodbye to the peers, and go once they had the time to answer.

        The library's own thread would take their answers at some instant of real time.
        """
        traffic.count += 1
        names = [] if self in leaving else ends.pop(self, [])
        if self.closed or not names:
            close(self, linger)
            return
        for name in names:
            with contextlib.suppress(zmq.ZMQError):
                disconnect(self, name)
        leaving[self] = machine.after_s(_GOODBYE_S)

    def unbinding(self: Any, address: str) -> None:
        bound.discard(_within(address))
        unbind(self, _within(address))
        traffic.count += 1

    def getting(self: Any, option: int) -> Any:
        value = get(self, option)
        if option == zmq.LAST_ENDPOINT:
            return value.replace(_WITHIN.encode(), f"{_TCP}127.0.0.1:".encode())
        return value

    replace(
        zmq.Socket, bind=binding, connect=connecting, unbind=unbinding, disconnect=disconnecting
    )
    closed = vars(zmq.Socket).get("closed") or zmq.Socket.closed
    send = zmq.Socket.send

    def sending(self: Any, *arguments: Any, **options: Any) -> Any:
        """Take what peers did before: the library looks at that once a millisecond of real time."""
        traffic.attend()
        get(self, zmq.EVENTS)
        traffic.count += 1
        return send(self, *arguments, **options)

    replace(zmq.Socket, get=getting, getsockopt=getting, close=closing, send=sending)
    replace(zmq.Socket, closed=property(lambda self: self in leaving or closed.__get__(self)))


def _within(address: str) -> str:
    """Return the name of an address of TCP: its port, since one process has one host."""
    return f"{_WITHIN}{address.rpartition(':')[2]}" if address.startswith(_TCP) else address


def _replace_waiting(machine: Machine, traffic: _Traffic) -> None:
    real: Any = vars(zmq.sugar.poll)["zmq_poll"]

    def poll(sockets: Any, timeout: int = -1) -> Any:
        traffic.attend()
        until_ns = None if timeout < 0 else machine.after_s(1e-3 * timeout)
        found = real(sockets, 0)
        if not found and timeout != 0:
            machine.wait(_looking(real, sockets, traffic), until_ns)
            found = real(sockets, 0)
        return found

    replace(zmq.sugar.poll, zmq_poll=poll)


def _looking(real: Any, sockets: Any, traffic: _Traffic) -> Callable[[], object]:
    """Return what looks for messages.

    At descriptors each time, at sockets once something was sent since.
    """
    descriptors = real_poll()
    for entry, flags in sockets:
        if not isinstance(entry, zmq.Socket):
            descriptors.register(entry, flags)
    reading = all(flags == zmq.POLLIN for _, flags in sockets)
    looked = traffic.count

    def look() -> object:
        nonlocal looked
        if looked == traffic.count and reading:
            return descriptors.poll(0)
        looked = traffic.count
        return real(sockets, 0)

    return look
