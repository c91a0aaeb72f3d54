"""Life of a stand-in as a process.

Signals, readiness of sockets, the line of counters, the exit code.
"""

from __future__ import annotations

import json
import selectors
import signal
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from vil_bridge.runtime.datagrams import Address
from vil_simulation.autopilots.stand_ins.command_link import CommandLink
from vil_simulation.autopilots.stand_ins.violations import WireViolation

LOOPBACK: Final = "127.0.0.1"
_IDLE_S: Final = 0.2
_LARGEST: Final = 65536
_VIOLATION: Final = 3
"""Exit code of a check that failed."""


class StandInProcess(ABC):
    """Loop over sockets until SIGTERM or SIGINT, the end of the flight, or a violation.

    Attributes:
        selector: of the sockets; the data of a key is called when it can be read. ended: the loop
            stops.
    """

    def __init__(self) -> None:
        self.selector: Final = selectors.DefaultSelector()
        self.ended = False
        self._t_heard_s: float | None = None
        self._largest_gap_s = 0.0

    @abstractmethod
    def turn(self) -> float:
        """Do what is due without a readable socket.

        Returns the longest wait until the next turn, seconds.
        """

    @abstractmethod
    def counters(self) -> dict[str, Any]:
        """Return the counters for the line at the end."""

    def run(self) -> int:
        """Serve; returns the exit code, having written the line of counters."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._end)
        violation = ""
        try:
            while not self.ended:
                for key, _ in self.selector.select(min(_IDLE_S, self.turn())):
                    key.data()
        except WireViolation as exc:
            violation = str(exc)
        found = {
            "violation": violation,
            **self.counters(),
            "largest_gap_s": round(self._largest_gap_s, 4),
        }
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
        if violation:
            sys.stderr.write(violation + "\n")
        return _VIOLATION if violation else 0

    def heard(self) -> None:
        """Measure the silence of the peer, in wall time."""
        now_s = monotonic()
        if self._t_heard_s is not None:
            self._largest_gap_s = max(self._largest_gap_s, now_s - self._t_heard_s)
        self._t_heard_s = now_s

    def _end(self, *_: object) -> None:
        self.ended = True


class UdpCommandPort:
    """UDP port of a command link: sends to a fixed port until a peer answers, and to the peer then.

    Args:
        local_port: to send from. remote_port: of the peer on loopback.
    """

    def __init__(self, local_port: int, remote_port: int) -> None:
        self.socket: Final = udp_socket(local_port)
        self._peer: Address = (LOOPBACK, remote_port)

    def on_readable(self, link: CommandLink) -> None:
        """Answer what waits."""
        for data, peer in waiting(self.socket):
            self._peer = peer
            self.send(link.receive(data))

    def send(self, data: bytes) -> None:
        """Send messages; a peer that is absent loses them."""
        if data:
            with suppress(OSError):
                self.socket.sendto(data, self._peer)


class TcpCommandServer:
    """TCP server of command links, one for each client.

    Args:
        port: on loopback. open_link: makes the link of a new client. selector: to wait in.
    """

    def __init__(
        self, port: int, open_link: Callable[[], CommandLink], selector: selectors.BaseSelector
    ) -> None:
        self._server = socket.create_server((LOOPBACK, port))
        self._server.setblocking(False)
        self._open_link = open_link
        self._selector = selector
        self._clients: dict[socket.socket, CommandLink] = {}
        self.port: Final[int] = self._server.getsockname()[1]
        selector.register(self._server, selectors.EVENT_READ, self._accept)

    @property
    def connected(self) -> bool:
        """Return whether there is a client."""
        return bool(self._clients)

    def telemetry(self, t_s: float) -> None:
        """Send every client the messages that are due."""
        for client, link in list(self._clients.items()):
            self._send(client, link.telemetry(t_s))

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            client, _ = self._server.accept()
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._clients[client] = link = self._open_link()
            self._selector.register(
                client, selectors.EVENT_READ, lambda: self._on_readable(client, link)
            )

    def _on_readable(self, client: socket.socket, link: CommandLink) -> None:
        try:
            data = client.recv(_LARGEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._send(client, link.receive(data))
        else:
            self._drop(client)

    def _send(self, client: socket.socket, data: bytes) -> None:
        """Send messages; a client that does not read them is dropped."""
        if data:
            try:
                client.sendall(data)
            except OSError:
                self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        if self._clients.pop(client, None) is not None:
            self._selector.unregister(client)
            client.close()


def udp_socket(port: int) -> socket.socket:
    """Return a UDP socket on loopback that does not block."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.setblocking(False)
    opened.bind((LOOPBACK, port))
    return opened


def waiting(opened: socket.socket) -> list[tuple[bytes, Address]]:
    """Return the datagrams that wait, with their senders."""
    found = []
    with suppress(BlockingIOError, ConnectionRefusedError):
        while True:
            found.append(opened.recvfrom(_LARGEST))
    return found
