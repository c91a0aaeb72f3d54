"""Acceptor of HTTP connections.

Limited in all and for each peer, each with a short TLS handshake.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Final

from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.runtime.rates import peer_of

WRITE_TIMEOUT_MS: Final = 10_000
"""A peer that accepts no bytes for so long is disconnected."""
_MAX_CONNECTIONS: Final = 256
_MAX_OF_PEER: Final = 48
"""Fewer than the requests that are answered at once, so that one peer cannot keep all others
out.
"""
_HANDSHAKE_S: Final = 5.0
_PAUSE_S: Final = 0.5


class ConnectionAcceptor:
    """Accepts connections until closed.

    Args:
        sock: listens.
        make: returns the protocol of a new connection.
        tls: None = plain.
        inside: protocols of the open connections; each has the peer's ``client`` address, or None.
        counters: ``too_many`` for the connections that were closed at once, ``handshake`` for
            failed ones.
        peer_faults: gets the peers of the former.
    """

    def __init__(
        self,
        sock: socket.socket,
        make: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        inside: Collection[Any],
        counters: Counter[str],
        peer_faults: PeerFaults,
    ) -> None:
        self._make = make
        self._tls = tls
        self._inside = inside
        self._counters = counters
        self._peer_faults = peer_faults
        self._arriving: dict[asyncio.Task[None], tuple[asyncio.Protocol, str]] = {}
        sock.setblocking(False)
        self._task = asyncio.get_running_loop().create_task(
            self._accept(sock), name="http acceptor"
        )

    def close(self) -> None:
        """Accept no more connections; may be called twice."""
        self._task.cancel()
        for task in self._arriving:
            task.cancel()

    async def wait_closed(self) -> None:
        """Return once no connection is in its handshake."""
        await asyncio.wait([self._task, *self._arriving])

    async def _accept(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(sock)
            except OSError:  # the peer is gone again, or the process has too many files open
                await asyncio.sleep(_PAUSE_S)
                continue
            peer = peer_of(address[0])
            if self._is_full(peer):
                self._counters["too_many"] += 1
                self._peer_faults.add("too_many", peer)
                connection.close()
                continue
            protocol = self._make()
            task = loop.create_task(self._enter(connection, protocol))
            self._arriving[task] = protocol, peer
            task.add_done_callback(self._arriving.pop)

    def _is_full(self, peer: str) -> bool:
        # A task ends some turns after its protocol is inside: no connection is counted twice during
        # them.
        arriving = [of for protocol, of in self._arriving.values() if protocol not in self._inside]
        if len(self._inside) + len(arriving) >= _MAX_CONNECTIONS:
            return True
        if _is_local(peer):  # a peer on this machine has other means, and proxies speak for many
            return False
        peers = [peer_of(protocol.client[0]) for protocol in self._inside if protocol.client]
        return [*peers, *arriving].count(peer) >= _MAX_OF_PEER

    async def _enter(self, connection: socket.socket, protocol: asyncio.Protocol) -> None:
        timeout_s = None if self._tls is None else _HANDSHAKE_S
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, connection, ssl=self._tls, ssl_handshake_timeout=timeout_s
            )
        except OSError:  # errors of TLS are a subclass
            self._counters["handshake"] += 1


def _is_local(peer: str) -> bool:
    return ipaddress.ip_network(peer, strict=False).is_loopback
