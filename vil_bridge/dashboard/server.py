"""Runs the HTTP application in a thread and an event loop of its own, away from the realtime ones."""

from __future__ import annotations

import socket
import threading
from typing import Final

import uvicorn
from fastapi import FastAPI

from vil_bridge.core.errors import ConfigError

__all__ = ["HttpServer", "bind_http"]

_START_LIMIT_S: Final = 10.0
_GRACE_S: Final = 0.6
_FORCED_S: Final = 0.4


def bind_http(address: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family)
    except OSError as exc:
        raise ConfigError(
            f"http: cannot listen on port {port}: {exc.strerror or exc}; is another bridge running?"
            f" `--set http.port=0` takes a free port ({address})"
        ) from exc


class HttpServer:
    """Serves an application on a listening socket until stopped; signals are left to the daemon.

    Attributes:
        url: address for people.
    """

    def __init__(self, app: FastAPI, sock: socket.socket) -> None:
        host, port = sock.getsockname()[:2]
        self.url = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
        self._socket = sock
        self._server = _Server(
            uvicorn.Config(
                app,
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                limit_concurrency=64,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._server.run, args=([sock],), name="http", daemon=True)

    def start(self) -> None:
        """Return once requests are answered.

        Raises:
            RuntimeError: the server did not come up.
        """
        self._thread.start()
        if not self._server.serving.wait(_START_LIMIT_S):
            raise RuntimeError(f"the HTTP server did not start within {_START_LIMIT_S:.0f} s")

    def stop(self) -> None:
        """Finish the answers under way and end, within 1 s; may be called twice."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(_GRACE_S)
        if self._thread.is_alive():
            self._server.force_exit = True
            self._thread.join(_FORCED_S)
        self._socket.close()


class _Server(uvicorn.Server):
    """Tells when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()
