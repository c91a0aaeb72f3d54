"""One TCP connection to a DataStream server, drained without blocking."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Final

from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.network import local_address, resolve

__all__ = ["ViconConnection", "connect", "find", "route", "trouble_text"]

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
        """What has arrived, in order."""
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
        """Send, or keep what the socket does not take yet; a peer that takes nothing any more is given up."""
        self._unsent += packet
        try:
            self._unsent = self._unsent[self.sock.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            if len(self._unsent) > _MAX_UNSENT_BYTES:
                self.ended = "the server takes no requests any more"
        except OSError as exc:
            self.ended = trouble_text(exc)

    def close(self) -> None:
        """Release the socket."""
        self.sock.close()


async def find(server: str, port: int) -> tuple[str, int]:
    """The server's address.

    Raises:
        SourceUnavailable: the name is unknown.
    """
    try:
        return await resolve(server, port), port
    except OSError as exc:
        raise SourceUnavailable(f"cannot find {server}: {exc.strerror or exc}") from exc


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


def route(address: tuple[str, int]) -> str:
    """Local address of the route to a server; empty where there is none."""
    try:
        return local_address(*address)
    except OSError:
        return ""


_TROUBLES: Final = {
    errno.ECONNREFUSED: "TCP refused: that computer is up, but nothing listens there",
    errno.ENETUNREACH: "no route",
    errno.EHOSTUNREACH: "no such computer on this network",
    errno.EADDRNOTAVAIL: "this computer has no such interface",
    errno.ECONNRESET: "the server reset the connection",
}


def trouble_text(error: OSError) -> str:
    """What the network said, in words."""
    if isinstance(error, TimeoutError):
        return "silent: no answer to the TCP connection"
    code = error.errno or 0
    return _TROUBLES.get(code, os.strerror(code) if code else str(error))
