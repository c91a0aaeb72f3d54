"""ZeroMQ within one process: addresses of TCP become names within one context, whose messages no other thread carries.

A peer that is not there yet is waited for, as with TCP. A peer that goes is not reported to the other side, and CURVE
does not encrypt: cases about either need real sockets.
"""

from __future__ import annotations

import itertools
from typing import Any, Final, Generic, TypeVar

import zmq
import zmq.sugar.poll

from tests.virtual.machine import Machine, replace

_Socket = TypeVar("_Socket")
_FIRST_PORT: Final = 30_000
_TCP: Final = "tcp://"
_WITHIN: Final = "inproc://"


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
    _replace_addresses()
    _replace_waiting(machine)


def _replace_addresses() -> None:
    ports = itertools.count(_FIRST_PORT)
    bound: set[str] = set()
    waiting: list[tuple[Any, str]] = []
    bind, connect, unbind, disconnect, get = (
        getattr(zmq.Socket, name) for name in ("bind", "connect", "unbind", "disconnect", "get")
    )

    def binding(self: Any, address: str) -> None:
        if address.startswith(_TCP) and address.endswith((":0", ":*")):
            address = f"{address[:-2]}:{next(ports)}"
        name = _within(address)
        bind(self, name)
        bound.add(name)
        for socket, wanted in [pair for pair in waiting if pair[1] == name]:
            waiting.remove((socket, wanted))
            if not socket.closed:
                connect(socket, name)

    def connecting(self: Any, address: str) -> None:
        name = _within(address)
        if name in bound or not address.startswith(_TCP):
            connect(self, name)
        else:
            waiting.append((self, name))

    def disconnecting(self: Any, address: str) -> None:
        name = _within(address)
        if (self, name) in waiting:
            waiting.remove((self, name))
        else:
            disconnect(self, name)

    def unbinding(self: Any, address: str) -> None:
        bound.discard(_within(address))
        unbind(self, _within(address))

    def getting(self: Any, option: int) -> Any:
        value = get(self, option)
        if option == zmq.LAST_ENDPOINT:
            return value.replace(_WITHIN.encode(), f"{_TCP}127.0.0.1:".encode())
        return value

    replace(zmq.Socket, bind=binding, connect=connecting, unbind=unbinding, disconnect=disconnecting)
    replace(zmq.Socket, get=getting, getsockopt=getting)


def _within(address: str) -> str:
    """Return the name of an address of TCP: its port, since one process has one host."""
    return f"{_WITHIN}{address.rpartition(':')[2]}" if address.startswith(_TCP) else address


def _replace_waiting(machine: Machine) -> None:
    real: Any = vars(zmq.sugar.poll)["zmq_poll"]

    def poll(sockets: Any, timeout: int = -1) -> Any:
        until_ns = None if timeout < 0 else machine.after_s(1e-3 * timeout)
        found = real(sockets, 0)
        if not found and timeout != 0:
            machine.wait(lambda: real(sockets, 0), until_ns)
            found = real(sockets, 0)
        return found

    replace(zmq.sugar.poll, zmq_poll=poll)
