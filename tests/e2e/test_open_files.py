"""A process that may open no more files.

Every listener turns peers away, and the bridge says so and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.bridge_rig import bridge_with_camera
from tests.support.common import PATIENCE_S
from tests.support.events import until
from tests.support.flightgoggles import draw
from vil_bridge.monitoring.process_stats import DescriptorCheck
from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.web import acceptor as door


@contextlib.contextmanager
def few_files(left: int) -> Iterator[None]:
    """At most so many more files than there are now; the limit comes back in the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def all_files_open() -> Iterator[None]:
    """No descriptor is free."""
    opened: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for number in opened:
            os.close(number)


def test_the_watch_names_the_limit_and_the_cure_once(caplog: pytest.LogCaptureFixture) -> None:
    watch = DescriptorCheck()
    watch.check()
    assert not watch.words
    with few_files(100):
        with all_files_open(), caplog.at_level(logging.WARNING):
            for _ in range(3):
                watch.check()
            (sentence,) = watch.words
            assert sentence.startswith("too many open files: all ") and "LimitNOFILE" in sentence
            assert [record.getMessage() for record in caplog.records] == [sentence]
        watch.check()
        assert not watch.words
    with few_files(10):
        watch.check()
        assert " are in use. New connections are refused" in watch.words[0], (
            "before the last one is gone"
        )


@pytest.mark.wire
async def test_a_bridge_without_free_files_says_so_and_goes_on() -> None:
    async with bridge_with_camera("latency_compensation: none", draw) as bridge:
        # Python opens a file for what is imported late: everything has run once before the files
        # are taken.
        await asyncio.to_thread(bridge.snapshot)
        await asyncio.to_thread(httpx.get, f"{bridge.http.url}healthz", timeout=PATIENCE_S)
        await until(lambda: bridge.snapshot().cameras["front"].frames["received"] > 50)
        client: Any = bridge.context.pool.renderers["drawn"]
        ports = [client.image_port, urlsplit(bridge.http.url).port or 0]
        waiting = [socket.socket() for _ in ports]
        with few_files(60), all_files_open():
            for sock, port in zip(waiting, ports, strict=True):
                sock.connect(("127.0.0.1", port))
            await until(
                lambda: any("too many open files" in words for words in bridge.snapshot().overload)
            )
            received = bridge.snapshot().cameras["front"].frames["received"]
            await until(
                lambda: bridge.snapshot().cameras["front"].frames["received"] > received + 3
            )
        await until(lambda: not any("open files" in words for words in bridge.snapshot().overload))
        for sock in waiting:
            sock.close()


class Listener(socket.socket):
    """Counts the connections that it could not accept."""

    failures = 0

    def accept(self) -> tuple[socket.socket, Any]:
        try:
            return super().accept()
        except BlockingIOError:
            raise
        except OSError:
            self.failures += 1
            raise


@pytest.mark.wire
async def test_the_http_server_accepts_who_waits_once_files_are_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(door, "_PAUSE_S", 0.01)
    accepted = asyncio.Event()

    class Guest(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.set()
            transport.close()

    with Listener() as listener, socket.socket() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        entrance = door.ConnectionAcceptor(listener, Guest, None, (), Counter(), PeerFaults("http"))
        ended, entered = (
            asyncio.create_task(wait()) for wait in (entrance.wait_closed, accepted.wait)
        )
        with few_files(60), all_files_open():
            waiting.connect(listener.getsockname())
            await until(lambda: listener.failures >= 1)
        await asyncio.wait(
            (ended, entered), timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED
        )
        assert accepted.is_set()
        entrance.close()
        await ended
