"""An HTTP thread that hangs or ends: the pipeline goes on, and says that nobody can look on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from tests.support.common import wait_until
from vil_bridge.web.server import HttpServer, bind_http

pytestmark = pytest.mark.wire


LOG = "vil_bridge.web.server"
loops: list[asyncio.AbstractEventLoop] = []


@pytest.fixture
def go_on() -> threading.Event:
    return threading.Event()


@pytest.fixture
def server(go_on: threading.Event) -> Iterator[HttpServer]:
    app = FastAPI(openapi_url=None)

    @app.get("/hang")
    async def hang() -> None:
        go_on.wait(60.0)  # the bug

    @app.get("/end")
    async def end() -> None:
        loops.append(asyncio.get_running_loop())

    server = HttpServer(app, bind_http("127.0.0.1", 0))
    server.check()
    assert server.trouble == ""  # it was not asked to serve yet
    server.start()
    yield server
    server.stop()
    server.check()
    assert server.trouble == ""  # that was wanted


def check(server: HttpServer) -> str:
    server.check()
    return server.trouble


def test_a_loop_that_hangs_is_told_once_and_so_is_its_return(
    server: HttpServer, go_on: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    assert check(server) == ""
    with contextlib.suppress(httpx.TimeoutException):
        httpx.get(f"{server.url}hang", timeout=0.3)
    wait_until(lambda: check(server) == "the HTTP server has hung for 2 s and more")
    go_on.set()
    wait_until(lambda: check(server) == "")
    told = [(r.levelno, r.getMessage()) for r in caplog.records if r.name == LOG]
    assert [level for level, _ in told] == [logging.ERROR, logging.WARNING]
    assert "poses and pictures go on" in told[0][1] and "serves again" in told[1][1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ends_by_itself_is_told(server: HttpServer) -> None:
    httpx.get(f"{server.url}end", timeout=60.0).raise_for_status()
    loop = loops.pop()
    loop.call_soon_threadsafe(loop.call_later, 0.3, loop.stop)  # once the connection is closed, so that nothing is left
    wait_until(lambda: "has ended: restart the bridge" in check(server))
