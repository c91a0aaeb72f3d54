"""The UDP sockets between the bridge and one NatNet server."""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from vil_adapters.sessions.servers import trouble_text
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.protocols.natnet.codec import MessageId, encode
from vil_bridge.protocols.sockets import multicast_receiver, read_check, udp_socket
from vil_bridge.runtime.datagrams import Address, Datagram, Tap
from vil_bridge.runtime.network import resolve

_DATAGRAM_BYTES: Final = 65536
_KEEPALIVE: Final = encode(MessageId.KEEPALIVE)


class NatNetSockets:
    """One socket for commands, replies and unicast frames, and one for multicast frames when
    joined.

    Attributes:
        server_ip, server_port: where commands go. local_ip: interface of the route there.
        sock: receives replies and unicast frames. group_sock: receives multicast frames.
        group: joined group and port, None in unicast.
        trouble: what the network answered to the last probe, empty when nothing.

    Args:
        tap: called with every datagram except probes.
    """

    def __init__(
        self, server_ip: str, server_port: int, interface: str, tap: Tap | None = None
    ) -> None:
        self.server_ip = server_ip
        self.server_port = server_port
        self.group: tuple[str, int] | None = None
        self.group_sock: socket.socket | None = None
        self.trouble = ""
        self._interface = interface
        self._tap = tap
        self._probe = self._connected()
        self.local_ip = self._probe.getsockname()[0]
        try:
            self.sock = udp_socket(self.local_ip)
        except OSError:
            self._probe.close()
            raise
        self._here: Address = self.sock.getsockname()
        self._read_checks = {self.sock: read_check(self.sock)}

    @classmethod
    async def open(
        cls, server: str, port: int, interface: str, tap: Tap | None = None
    ) -> NatNetSockets:
        """Resolve the server's name and open the sockets.

        Raises:
            SourceUnavailable: unknown name, no route, or no such interface.
        """
        try:
            return cls(await resolve(server, port), port, interface, tap)
        except OSError as exc:
            via = "" if interface == "auto" else f" via interface {interface}"
            raise SourceUnavailable(
                f"cannot reach {server}:{port}{via}: {exc.strerror or exc}"
            ) from exc

    def send(self, datagram: bytes) -> None:
        """Send a command; the next probe shows what the network refuses."""
        server = self.server_ip, self.server_port
        if self._tap is not None:
            self._tap(Datagram(now_ns(), self._here, server, datagram))
        with contextlib.suppress(OSError):
            self.sock.sendto(datagram, server)

    @property
    def tapped(self) -> bool:
        """True where each datagram has to pass the tap."""
        return self._tap is not None

    def can_read(self, sock: socket.socket) -> bool:
        """Return whether a datagram waits."""
        return self._read_checks[sock]()

    def receive(self, sock: socket.socket) -> tuple[bytes, Address, int] | None:
        """Return the next waiting datagram, its sender and its arrival; None when nothing waits."""
        try:
            datagram, sender = sock.recvfrom(_DATAGRAM_BYTES)
        except (BlockingIOError, InterruptedError):
            return None
        t_arrival_ns = now_ns()
        if self._tap is not None:
            receiver = self._here
            if self.group is not None and sock is self.group_sock:
                receiver = self.group
            self._tap(Datagram(t_arrival_ns, sender, receiver, datagram))
        return datagram, sender, t_arrival_ns

    def probe(self) -> None:
        """Send a probe to the server.

        ``trouble`` then has the network's answer to the probe before.

        Raises:
            SourceUnavailable: another interface routes to the server now.
        """
        code = self._probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        try:
            with self._connected() as route:
                local_ip = route.getsockname()[0]
            self._probe.send(_KEEPALIVE)
        except OSError as exc:
            code = exc.errno or code
            local_ip = self.local_ip
        self.trouble = trouble_text(OSError(code, "")) if code else ""
        if local_ip != self.local_ip:
            raise SourceUnavailable(
                f"the route to {self.server_ip} moved from {self.local_ip} to {local_ip}"
            )

    def join(self, group: str, port: int) -> socket.socket:
        """Receive a multicast group on the interface of the route; leave the one joined before.

        Raises:
            SourceUnavailable: the system refuses.
        """
        self.leave()
        sock = multicast_receiver(group, port, self.local_ip)
        self.group = (group, port)
        self.group_sock = sock
        self._read_checks[sock] = read_check(sock)
        return sock

    def leave(self) -> None:
        """Stop receiving multicast."""
        if self.group_sock is not None:
            del self._read_checks[self.group_sock]
            self.group_sock.close()
        self.group = self.group_sock = None

    def close(self) -> None:
        """Release the sockets."""
        self.leave()
        self._probe.close()
        self.sock.close()

    def _connected(self) -> socket.socket:
        """Return a socket connected to the server: it has the route and receives refusals."""
        sock = udp_socket()
        try:
            if self._interface != "auto":
                sock.bind((self._interface, 0))
            sock.connect((self.server_ip, self.server_port))
        except OSError:
            sock.close()
            raise
        return sock
