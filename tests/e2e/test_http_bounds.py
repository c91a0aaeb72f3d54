"""Bounds of open bodies that never end, WebSockets and connections.

Who is refused is told why.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.e2e.test_http_door import PATIENCE_S, serving
from tests.e2e.test_live_feed import feed_of
from tests.e2e.test_updates import reading
from tests.support.common import wait_until
from tests.support.dashboard_rig import seat
from vil_bridge.runtime.access_tokens import Role, Tokens, new_token
from vil_bridge.web import acceptor, uvicorn_internals
from vil_bridge.web import request_body as body
from vil_bridge.web.auth.access import Access
from vil_bridge.web.routes.events import MOST_READERS
from vil_bridge.web.server import HttpServer

pytestmark = pytest.mark.wire


ENDLESS = b"PUT /api/v1/lighting HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
OPENING = (
    b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
PING = b"\x89\xfd" + bytes(4) + bytes(125)  # masked, as clients do
MOST_BYTES = 20_000_000  # what the kernel holds for both ends
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def line_to(server: HttpServer) -> socket.socket:
    at = urlsplit(server.url)
    return socket.create_connection((at.hostname or "", at.port or 0), timeout=PATIENCE_S)


def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "_TIMEOUT_S", 0.2)
    with serving(Access()) as server, line_to(server) as slow:
        slow.sendall(ENDLESS)
        answer = slow.recv(4096)
    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_websockets_are_not_too_many(tmp_path: Path) -> None:
    async with seat(tmp_path) as bridge:
        async with contextlib.AsyncExitStack() as held:
            for _ in range(32):
                await held.enter_async_context(feed_of(bridge))
            with pytest.raises(InvalidStatus) as refused:
                await held.enter_async_context(feed_of(bridge, "api/v1/plotjuggler"))
            assert refused.value.response.status_code == 503
            assert b"32 WebSockets are open already" in refused.value.response.body
        async with feed_of(bridge):
            pass  # there is room again


def test_refused_websockets_are_counted_and_not_written_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving(Access(Tokens({Role.VIEW: new_token()}))) as server:
        url = server.url.replace("http", "ws", 1) + "api/v1/live"
        for _ in range(20):
            with pytest.raises(InvalidStatus), connect(url, proxy=None, open_timeout=PATIENCE_S):
                pass
        wait_until(lambda: server.faults()["unauthorized"] == 20, PATIENCE_S)
    assert [
        record.getMessage()
        for record in caplog.records
        if "completing handshake" in record.getMessage()
    ] == []


async def test_a_message_of_too_many_fragments_is_not_waited_for(tmp_path: Path) -> None:
    """Empty ones cost memory as well."""
    async with seat(tmp_path) as bridge, feed_of(bridge) as feed:
        # Masked, as clients do.
        feed.transport.write(b"\x01\x80" + bytes(4) + (b"\x00\x80" + bytes(4)) * 40)
        await asyncio.wait_for(feed.wait_closed(), PATIENCE_S)
        assert feed.close_code == 1009
        async with feed_of(bridge) as other:
            await other.send(["no ", *["n"] * 10, " JSON"])  # a few are put together
            await asyncio.wait_for(other.wait_closed(), PATIENCE_S)
            assert other.close_code == 1008


def _pinged(server: HttpServer) -> int:
    """Ping without end and read nothing.

    Returns the bytes that were taken until no more were for a second.
    """
    with line_to(server) as line:
        line.sendall(OPENING)
        assert line.recv(4096).startswith(b"HTTP/1.1 101 ")
        line.settimeout(1.0)
        taken, until_s = 0, time.monotonic() + PATIENCE_S
        with contextlib.suppress(OSError):
            while time.monotonic() < until_s:
                taken += line.send(PING * 500)
    return taken


async def test_pings_without_end_are_cut_off_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with seat(tmp_path) as bridge:
        assert await asyncio.to_thread(_pinged, bridge.http) < MOST_BYTES
        assert bridge.http.faults()["pings"] == 1
        assert [(r.port, r.peer, r.reason) for r in bridge.snapshot().peer_faults] == [
            ("http", "127.0.0.1", "pings")
        ]
        assert "A WebSocket of 127.0.0.1 sends pings or pongs without end." in caplog.messages
        async with feed_of(bridge) as feed:
            for _ in range(20):
                await (await feed.ping())
        assert bridge.http.faults()["pings"] == 1


async def test_nothing_is_read_from_who_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uvicorn_internals, "_PINGS_AT_ONCE", 10**9)
    async with seat(tmp_path) as bridge:
        assert await asyncio.to_thread(_pinged, bridge.http) < MOST_BYTES
        assert "pings" not in bridge.http.faults()


async def test_a_probe_gets_through_while_every_feed_is_taken(tmp_path: Path) -> None:
    async with seat(tmp_path) as bridge, contextlib.AsyncExitStack() as held:
        for _ in range(32):
            await held.enter_async_context(feed_of(bridge))
        for _ in range(MOST_READERS):
            await held.enter_async_context(reading(bridge))
        async with httpx.AsyncClient(timeout=60.0) as web:
            assert (await web.get(f"{bridge.http.url}healthz", timeout=60.0)).status_code == 200


def test_in_a_rush_nobody_counts_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 are fewer than may be connected, however fast they come."""
    monkeypatch.setattr(uvicorn_internals, "_REQUEST_TIMEOUT_S", PATIENCE_S)
    with serving(Access()) as server:
        for _ in range(6):
            with contextlib.ExitStack() as held:
                lines = [held.enter_context(line_to(server)) for _ in range(200)]
                lines[-1].sendall(HEALTH)
                assert lines[-1].recv(4096).startswith(b"HTTP/1.1 503 "), (
                    "all before were let in by now"
                )
                for line in lines[:-1]:
                    line.setblocking(False)
                    with pytest.raises(BlockingIOError):
                        line.recv(1)


def test_connections_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "_MAX_CONNECTIONS", 4)
    with serving(Access()) as server, contextlib.ExitStack() as held:
        lines = [held.enter_context(line_to(server)) for _ in range(5)]
        wait_until(lambda: server.faults().get("too_many") == 1, PATIENCE_S)
        assert lines[4].recv(1) == b""
        lines[0].sendall(HEALTH)
        assert lines[0].recv(4096).startswith(b"HTTP/1.1 200 ")
