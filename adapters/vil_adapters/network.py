"""What several adapters ask of the network."""

from __future__ import annotations

import asyncio
import socket

__all__ = ["local_address", "resolve"]


async def resolve(host: str, port: int) -> str:
    """IPv4 address of a name.

    Raises:
        OSError: nobody knows it.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, family=socket.AF_INET)
    return str(found[0][4][0])


def local_address(ip: str, port: int) -> str:
    """Address of the interface that routes to a peer.

    Raises:
        OSError: none does.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((ip, port))
        return str(probe.getsockname()[0])
