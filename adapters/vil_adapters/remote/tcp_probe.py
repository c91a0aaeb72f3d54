"""Diagnosis of a silent bridge by a plain TCP connection to it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from typing import Final

from vil_adapters.remote.config import RemoteConfig
from vil_bridge.protocols.federation.zmq_link import Refusal

__all__ = ["reached", "refused"]

_PATIENCE_S: Final = 1.0
_CURES: Final = {
    errno.ECONNREFUSED: "refused the connection: does the other bridge run, with `federation:` at this port?",
    errno.ENETUNREACH: "cannot be reached, no route leads there: check the network and the address",
    errno.EHOSTUNREACH: "cannot be reached, no machine answers there: check the network and the address",
}


def refused(config: RemoteConfig, refusal: Refusal) -> str:
    """Say what to copy where after the other bridge refused this one's keys."""
    if config.secret_key is None or config.server_key is None:
        return (
            "It wants keys: make a pair with `vil-bridge keys new` and set secret_key and server_key "
            "(docs/guides/rooms.md)"
        )
    own = config.secret_key.with_suffix(".key").name
    if refusal is Refusal.KEY_NOT_ALLOWED:
        return f"Copy {own} from here into its folder `federation.zmq.allowed_keys`, and restart it"
    return (
        f"{config.server_key} is not its key, or it has none: copy the *.key there that belongs to its"
        " `federation.zmq.secret_key`"
    )


async def reached(host: str, port: int) -> str:
    """Return the result of a connection to the port, the local address and what to check; takes 1 s at most."""
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
    """Return the local address of the route in words, empty without a route."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        return f" (tried from {probe.getsockname()[0]})"
    return ""
