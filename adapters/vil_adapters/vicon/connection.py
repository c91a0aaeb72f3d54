"""One TCP connection to a DataStream server, drained without blocking."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from vil_adapters.common.addresses import trouble_text

__all__ = ["ViconConnection", "connect"]

_RECEIVE_BYTES: Final = 1 << 18
_MAX_READS_PER_WAKE: Final = 64
_MAX_UNSENT_BYTES: Final = 1 << 16


class ViconConnection:
    """A connected socket.

    Attributes:
        server_ip: of the peer. local_ip: interface of the route there.
        ended: the peer closed or the network broke; empty while neither happened.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.server_ip = str(sock.getpeername()[0])
        self.local_ip = str(sock.getsockname()[0])
        self.ended = ""
        self._unsent = b""

    def receive(self) -> list[bytes]:
        """Return what has arrived, in order."""
        chunks: list[bytes] = []
        for _ in range(_MAX_READS_PER_WAKE):
            try:
                chunk = self.sock.recv(_RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as exc:
                self.ended = trouble_text(exc)
                break
            if not chunk:
                self.ended = "the server closed the connection"
                break
            chunks.append(chunk)
        return chunks

    def send(self, packet: bytes) -> None:
        """Send, or hold what the socket does not accept yet; a peer that accepts nothing is given up."""
        self._unsent += packet
        try:
            self._unsent = self._unsent[self.sock.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            if len(self._unsent) > _MAX_UNSENT_BYTES:
                self.ended = "the server accepts no more requests"
        except OSError as exc:
            self.ended = trouble_text(exc)

    def close(self) -> None:
        """Release the socket."""
        self.sock.close()


async def connect(address: tuple[str, int], interface: str, timeout_s: float) -> ViconConnection:
    """Connect within a time-out.

    Raises:
        OSError: refused, no route, or (TimeoutError) no answer.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if interface != "auto":
            sock.bind((interface, 0))
        async with asyncio.timeout(timeout_s):
            await asyncio.get_running_loop().sock_connect(sock, address)
        return ViconConnection(sock)
    except BaseException:
        sock.close()
        raise
