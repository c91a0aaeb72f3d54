"""What several adapters ask of the network."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Final

from vil_bridge.core.errors import ConfigError

__all__ = ["host_and_port", "local_address", "resolve"]


_PORTS: Final = range(1, 1 << 16)


def host_and_port(target: str, default_port: int) -> tuple[str, int]:
    """Parts of ``host`` or ``host:port``.

    Raises:
        ConfigError: it is neither.
    """
    host, colon, text = target.partition(":")
    port = int(text) if text.isdecimal() and len(text) <= len(str(_PORTS[-1])) else 0
    if not host or (colon and port not in _PORTS):
        raise ConfigError(f"{target!r} is neither HOST nor HOST:PORT with a port of 1 to {_PORTS[-1]}")
    return host, port or default_port


async def resolve(host: str, port: int) -> str:
    """IPv4 address of a name.

    Raises:
        OSError: nobody knows it.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, family=socket.AF_INET)
    except UnicodeError as exc:  # an empty or overlong part between points
        raise OSError(errno.EINVAL, "this cannot be a computer's name") from exc
    return str(found[0][4][0])


def local_address(ip: str, port: int) -> str:
    """Address of the interface that routes to a peer.

    Raises:
        OSError: none does.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((ip, port))
        return str(probe.getsockname()[0])
