"""Connections that their peers reset at once give their descriptors back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.attacks import zmtp
from tests.support.events import until
from vil_bridge.protocols.federation.zmq_link import ZmqPublisherLink

pytestmark = pytest.mark.wire


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_reset_connections_give_their_descriptors_back() -> None:
    link = ZmqPublisherLink("tcp://127.0.0.1:0", lambda _request: None)
    link.open()
    try:
        port = int(link.endpoint.rpartition(":")[2])
        before = open_files()
        for _ in range(300):
            zmtp.reset(zmtp.connection(port))
            await asyncio.sleep(0)
        await until(lambda: link.counters["disconnected"] >= 300, 60.0)
        await until(lambda: open_files() <= before + 10, 60.0)
    finally:
        link.close()
