"""An HTTP thread that hangs or ends: the pipeline goes on, and says that nobody can look on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from tests.support import wait_until
from vil_bridge.dashboard.server import HttpServer, bind_http

LOG = "vil_bridge.dashboard.server"


@pytest.fixture
def server() -> Iterator[HttpServer]:
    app = FastAPI(openapi_url=None)

    @app.get("/hang")
    async def hang() -> None:
        time.sleep(2.5)  # noqa: ASYNC251 - the bug

    @app.get("/end")
    async def end() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.3, loop.stop)  # once this connection is closed

    server = HttpServer(app, bind_http("127.0.0.1", 0))
    server.look()
    assert server.trouble == ""  # it was not asked to serve yet
    server.start()
    yield server
    server.stop()
    server.look()
    assert server.trouble == ""  # that was wanted


def look(server: HttpServer) -> str:
    server.look()
    return server.trouble


def test_a_loop_that_hangs_is_told_once_and_so_is_its_return(
    server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    assert look(server) == ""
    with contextlib.suppress(httpx.TimeoutException):
        httpx.get(f"{server.url}hang", timeout=0.3)
    wait_until(lambda: look(server) == "the HTTP server has hung for 2 s and more")
    wait_until(lambda: look(server) == "")
    told = [(r.levelno, r.getMessage()) for r in caplog.records if r.name == LOG]
    assert [level for level, _ in told] == [logging.ERROR, logging.WARNING]
    assert "poses and pictures go on" in told[0][1] and "serves again" in told[1][1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ends_by_itself_is_told(server: HttpServer) -> None:
    httpx.get(f"{server.url}end").raise_for_status()
    wait_until(lambda: "has ended: restart the bridge" in look(server))
