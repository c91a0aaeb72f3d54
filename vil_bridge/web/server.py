"""HTTP server in a thread with an event loop of its own, away from the realtime ones."""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import sys
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.threads import ContextThread
from vil_bridge.runtime.network import http_url
from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.web.acceptor import WRITE_TIMEOUT_MS

if TYPE_CHECKING:
    from fastapi import FastAPI

    from vil_bridge.web.uvicorn_internals import LogFaults, UvicornServer

logger = logging.getLogger(__name__)

_START_LIMIT_S: Final = 10.0
_HANG_S: Final = 2.0
"""The event loop turns ten times a second; after so long without a turn it hangs."""
_GRACE_S: Final = 0.6
_FORCED_S: Final = 0.4
_SEND_BUFFER_BYTES: Final = 256 * 1024


def bind_http(address: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes any free one.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        sock = socket.create_server((address, port), family=family)
    except OSError as exc:
        raise ConfigError(f"http: cannot listen on {_bind_problem(address, port, exc)}") from exc
    # Connections inherit both options, which bound the bytes that wait for one peer, and for how
    # long.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
    if sys.platform == "linux":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, WRITE_TIMEOUT_MS)
    return sock


def _bind_problem(address: str, port: int, exc: OSError) -> str:
    """Return the address or port that cannot be used, the reason, and the cure."""
    reason = (exc.strerror or str(exc)).partition(" (while attempting")[0]
    if exc.errno == errno.EADDRINUSE:
        return (
            f"port {port}: {reason}; is another bridge running? `--set http.port=0` takes a "
            f"free port ({address})"
        )
    if exc.errno == errno.EACCES:
        return f"port {port}: {reason}; ports below 1024 are for privileged programs, take 8080"
    return (
        f"{address}: {reason}; `http.bind` wants an address that this machine has now (`ip "
        "address`), or 0.0.0.0"
    )


class HttpServer:
    """Serves an application on a listening socket until stopped; signals are left to the daemon.

    FastAPI, uvicorn and the application take half a second to import and build. The thread of the
    server does both, so that poses need not wait for it. Requests wait in the listening socket
    until then.

    Args:
        build: makes the application; called in the thread of the server.
        sock: listens.
        tls: None = plain HTTP.
        counters: where refused requests are counted, by reason. peer_faults: where their senders
            are named.

    Attributes:
        url: address for people. thread: where everything runs.
        failed: exception of ``build``; None = there was none so far.
        trouble: why pages and REST do not work, as of the last check; "" = they do.
    """

    def __init__(
        self,
        build: Callable[[], FastAPI],
        sock: socket.socket,
        tls: ssl.SSLContext | None = None,
        counters: Counter[str] | None = None,
        peer_faults: PeerFaults | None = None,
    ) -> None:
        host, port = sock.getsockname()[:2]
        self.url = http_url(host, port, tls=tls is not None)
        self._build = build
        self._socket = sock
        self._tls = tls
        self._counters = Counter() if counters is None else counters
        self._counters.setdefault("malformed", 0)
        self._peer_faults = peer_faults or PeerFaults("http")
        self._ends = False
        self._started_ns = 0
        self._server: UvicornServer | None = None
        self.thread = ContextThread(target=self._run, name="http", daemon=True)
        self.failed: Exception | None = None
        self.trouble = ""

    def start(self) -> None:
        """Start the thread; requests are answered soon after."""
        self._started_ns = machine_ns()
        self.thread.start()

    def stop(self) -> None:
        """Finish the answers under way and end, within 1 s; may be called twice."""
        self._ends = True
        if self._server is not None:
            self._server.should_exit = True
        if self.thread.ident is not None:
            self.thread.join(_GRACE_S)
        if self.thread.is_alive() and self._server is not None:
            self._server.force_exit = True
            self.thread.join(_FORCED_S)
        self._socket.close()

    def _run(self) -> None:
        try:
            faults = self._make_server()
        except Exception as exc:
            self.failed = exc
            return
        log = logging.getLogger("uvicorn.error")
        log.addFilter(faults)
        try:
            # Else stop() has come before the server.
            if self._server is not None and not self._ends:
                self._server.run()
        finally:
            log.removeFilter(faults)

    def _make_server(self) -> LogFaults:
        """Make the server and its application; return what counts the faults of its peers."""
        from vil_bridge.web.uvicorn_internals import LogFaults, UvicornServer  # slow to import

        faults = LogFaults(self._counters, self._peer_faults)
        self._server = UvicornServer(self._build(), self._socket, self._tls, faults)
        return faults

    def check(self) -> None:
        """Update ``trouble``, and log once when it has changed."""
        before = self.trouble
        self.trouble = self._find_trouble()
        if self.trouble and not before:
            logger.error(
                "%s; dashboard and REST do not work; poses and pictures go on", self.trouble
            )
        elif before and not self.trouble:
            logger.warning("the HTTP server serves again")

    def _find_trouble(self) -> str:
        if self.thread.ident is None or self._ends:
            return ""
        if not self.thread.is_alive():
            return "the HTTP server has ended: restart the bridge once its vehicles have landed"
        if self._server is None or not self._server.serving.is_set():
            starting_s = (machine_ns() - self._started_ns) / NS_PER_S
            return (
                f"the HTTP server has been starting for {_START_LIMIT_S:.0f} s"
                if starting_s > _START_LIMIT_S
                else ""
            )
        hung_s = (machine_ns() - self._server.turned_ns) / NS_PER_S
        return f"the HTTP server has hung for {_HANG_S:.0f} s and more" if hung_s > _HANG_S else ""

    def faults(self) -> dict[str, int]:
        """Return the number of refused requests by reason. Any thread."""
        return dict(self._counters)
