"""An HTTP server of the bridge's kind in a thread of the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI

from vil_bridge.web.server import HttpServer, bind_http


@contextmanager
def web_server(app: FastAPI) -> Iterator[HttpServer]:
    """Serve an application on a free port of loopback."""
    server = HttpServer(lambda: app, bind_http("127.0.0.1", 0))
    server.start()
    try:
        yield server
    finally:
        server.stop()
