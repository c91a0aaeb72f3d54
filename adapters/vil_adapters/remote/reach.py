"""Why another bridge is not heard: what a plain TCP connection to it meets."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from typing import Final

__all__ = ["reached"]

_PATIENCE_S: Final = 1.0
_CURES: Final = {
    errno.ECONNREFUSED: "refused the connection: does the other bridge run, with `publish:` at this port?",
    errno.ENETUNREACH: "cannot be reached, no route leads there: check the network and the address",
    errno.EHOSTUNREACH: "cannot be reached, no machine answers there: check the network and the address",
}


async def reached(host: str, port: int) -> str:
    """What became of connecting to the port, from where, and what to check; takes 1 s at most."""
    place = f"{host}:{port}"
    try:
        async with asyncio.timeout(_PATIENCE_S):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"{place} does not answer within {_PATIENCE_S:.0f} s{_route(host)}: check cable, firewall and address"
    except socket.gaierror as exc:
        return f"the name {host!r} is unknown ({exc.strerror}): check `address`"
    except OSError as exc:
        known = [cure for number, cure in _CURES.items() if f"[Errno {number}]" in str(exc)]
        return f"{place} {known[0] if known else f'failed ({exc})'}{_route(host)}"
    local = writer.get_extra_info("sockname")[0]
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return (
        f"{place} accepts connections from {local} and says nothing: is a bridge behind it, are the keys or the login"
        " the right ones, and is this bridge's key among those that it allows?"
    )


def _route(host: str) -> str:
    """From which address, where there is a way at all."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        return f" (tried from {probe.getsockname()[0]})"
    return ""
