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

from tests.support.common import PATIENCE_S, wait_until
from vil_bridge.web import server as server_module
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
        go_on.wait(PATIENCE_S)  # the bug

    @app.get("/end")
    async def end() -> None:
        loops.append(asyncio.get_running_loop())

    server = HttpServer(lambda: app, bind_http("127.0.0.1", 0))
    server.check()
    assert server.trouble == ""  # it was not asked to serve yet
    server.start()
    yield server
    go_on.set()
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
    httpx.get(f"{server.url}end", timeout=PATIENCE_S).raise_for_status()
    loop = loops.pop()
    # Once the connection is closed, so that nothing is left.
    loop.call_soon_threadsafe(loop.call_later, 0.3, loop.stop)
    wait_until(lambda: "has ended: restart the bridge" in check(server))


def test_requests_wait_until_the_application_is_built(
    go_on: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = FastAPI(openapi_url=None)
    app.add_api_route("/", lambda: "built", methods=["GET"])

    def build() -> FastAPI:
        go_on.wait(PATIENCE_S)
        return app

    server = HttpServer(build, bind_http("127.0.0.1", 0))
    server.start()
    assert check(server) == ""
    monkeypatch.setattr(server_module, "_START_LIMIT_S", 0.0)
    assert check(server) == "the HTTP server has been starting for 0 s"
    answers: list[str] = []
    early = threading.Thread(
        target=lambda: answers.append(httpx.get(server.url, timeout=PATIENCE_S).json())
    )
    early.start()
    go_on.set()
    early.join()
    assert answers == ["built"]
    assert check(server) == ""
    server.stop()


def test_a_server_may_be_stopped_before_its_application_is_built(go_on: threading.Event) -> None:
    def build() -> FastAPI:
        go_on.wait(PATIENCE_S)
        return FastAPI(openapi_url=None)

    server = HttpServer(build, bind_http("127.0.0.1", 0))
    server.start()
    server.stop()
    go_on.set()
    server.thread.join(PATIENCE_S)
    assert not server.thread.is_alive()
    assert server.failed is None


def test_an_application_that_cannot_be_built_is_a_bug() -> None:
    def build() -> FastAPI:
        raise ValueError("the bug")

    server = HttpServer(build, bind_http("127.0.0.1", 0))
    server.start()
    server.thread.join(PATIENCE_S)
    server.stop()
    assert isinstance(server.failed, ValueError)
