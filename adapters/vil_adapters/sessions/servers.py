"""Addresses of servers, and what the network reports of them."""

from __future__ import annotations

import errno
import os
from typing import Final

from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.runtime.network import local_address, resolve

_TROUBLES: Final = {
    errno.ECONNREFUSED: "refused: that computer is up, but nothing listens there",
    errno.ENETUNREACH: "no route",
    errno.EHOSTUNREACH: "no such computer on this network",
    errno.EADDRNOTAVAIL: "this computer has no such interface",
    errno.ECONNRESET: "the server reset the connection",
}


async def find(server: str, port: int) -> tuple[str, int]:
    """Return the server's IPv4 address and its port.

    Raises:
        SourceUnavailable: the name is unknown.
    """
    try:
        return await resolve(server, port), port
    except OSError as exc:
        raise SourceUnavailable(f"cannot find {server}: {exc.strerror or exc}") from exc


def route(address: tuple[str, int]) -> str:
    """Return the local address of the route to a server; empty where there is none."""
    try:
        return local_address(*address)
    except OSError:
        return ""


def trouble_text(error: OSError) -> str:
    """Return what the network reported, in words."""
    if isinstance(error, TimeoutError):
        return "silent: no answer to the TCP connection"
    code = error.errno or 0
    return _TROUBLES.get(code, os.strerror(code) if code else str(error))
