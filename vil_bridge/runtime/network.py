"""Addresses and names of computers, for several adapters."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from concurrent.futures import Future
from typing import Final

from vil_bridge.core.errors import ConfigError

_PORTS: Final = range(1, 1 << 16)
_ELSEWHERE: Final = "198.51.100.1"
"""An address reserved for documentation; nothing is sent to it."""


def host_and_port(target: str, default_port: int) -> tuple[str, int]:
    """Split ``host`` or ``host:port``.

    Raises:
        ConfigError: it is neither.
    """
    host, colon, text = target.partition(":")
    port = int(text) if text.isdecimal() and len(text) <= len(str(_PORTS[-1])) else 0
    if not host or (colon and port not in _PORTS):
        raise ConfigError(
            f"{target!r} is neither HOST nor HOST:PORT with a port of 1 to {_PORTS[-1]}"
        )
    return host, port or default_port


async def resolve(host: str, port: int) -> str:
    """Return the IPv4 address of a name.

    A thread of its own asks. A name server that is silent for long keeps neither the loop's own few
    threads busy, which others need, nor the program from its end.

    Raises:
        OSError: it is unknown.
    """
    answer: Future[str] = Future()
    # So that a caller that gives up does not disturb the thread.
    answer.set_running_or_notify_cancel()
    threading.Thread(
        target=_look_up, args=(host, port, answer), name="resolve", daemon=True
    ).start()
    try:
        return await asyncio.wrap_future(answer)
    except UnicodeError as exc:  # an empty or overlong part between points
        raise OSError(errno.EINVAL, "this cannot be a computer's name") from exc


def _look_up(host: str, port: int, answer: Future[str]) -> None:
    try:
        found = socket.getaddrinfo(host, port, family=socket.AF_INET)
    except Exception as exc:  # the caller handles it
        answer.set_exception(exc)
    else:
        answer.set_result(str(found[0][4][0]))


def local_address(ip: str, port: int) -> str:
    """Return the address of the interface that routes to a peer.

    Raises:
        OSError: none does.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((ip, port))
        return str(probe.getsockname()[0])


def http_url(bind: str, port: int, *, tls: bool = False) -> str:
    """Return the URL of a server that listens on ``bind``.

    With the default route's address for all interfaces.
    """
    host = bind
    if bind == "::":
        host = "::1"
    elif bind == "0.0.0.0":  # noqa: S104 - the meaning is asked for
        try:
            host = local_address(_ELSEWHERE, 9)
        except OSError:
            host = "127.0.0.1"
    if ":" in host:
        host = f"[{host}]"
    scheme = "http"
    if tls:
        scheme = "https"
    return f"{scheme}://{host}:{port}/"
