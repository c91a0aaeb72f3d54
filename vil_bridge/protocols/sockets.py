"""Non-blocking IPv4 sockets of sources, emulators and servers."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from typing import Final

from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.runtime.datagrams import Address

_RECEIVE_BUFFER_BYTES: Final = 1 << 20
_DATAGRAM_BYTES: Final = 65536
_MAX_DATAGRAMS_PER_WAKE: Final = 256


def udp_socket(host: str | None = None, port: int = 0, *, shared: bool = False) -> socket.socket:
    """Return a UDP socket with a receive buffer of 1 MiB.

    Args:
        host: address to bind to; empty = all, None = not bound.
        port: 0 = any free one.
        shared: other sockets may bind the same port.

    Raises:
        OSError: the port is taken, or the address is not of this computer.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host is not None:
            sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


def multicast_receiver(group: str, port: int, local_ip: str) -> socket.socket:
    """Return a socket that receives a multicast group on one interface.

    It is bound to the group, so that it gets nothing that was sent to another group at this port.

    Raises:
        SourceUnavailable: the system refuses.
    """
    try:
        sock = udp_socket(group, port, shared=True)
        try:
            membership = socket.inet_aton(group) + socket.inet_aton(local_ip)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        except OSError:
            sock.close()
            raise
    except OSError as exc:
        raise SourceUnavailable(
            f"cannot join {group}:{port} on {local_ip}: {exc.strerror}"
        ) from exc
    return sock


def send_multicast_from(sock: socket.socket, local_ip: str) -> None:
    """Let a UDP socket send to multicast groups through one interface, to this computer too."""
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(local_ip))
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)


def tcp_listener(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket; port 0 = any free one.

    Raises:
        OSError: the port is taken, or the address is not of this computer.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen()
    except OSError:
        sock.close()
        raise
    return sock


def read_check(sock: socket.socket) -> Callable[[], bool]:
    """Return a function that returns whether something can be read now.

    A millisecond after sleep it takes 2 us. The exception by which a read says that nothing is
    there takes 15.
    """
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    return lambda: bool(poller.poll(0))


def waiting_datagrams(sock: socket.socket) -> Iterator[tuple[bytes, Address, int]]:
    """Yield the datagrams that wait, 256 at most, each with its sender and its arrival in bridge
    time.

    Ends when the socket is closed between two of them.
    """
    can_read = read_check(sock)
    for number in range(_MAX_DATAGRAMS_PER_WAKE):
        if sock.fileno() < 0 or (number and not can_read()):
            return
        try:
            datagram, sender = sock.recvfrom(_DATAGRAM_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            continue  # the network's answer to a datagram that was sent before
        yield datagram, sender, now_ns()
