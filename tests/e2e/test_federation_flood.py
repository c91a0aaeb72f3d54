"""A publisher outlives connections that flood it, read nothing and are reset."""

from __future__ import annotations

import sys
import time

import pytest

from tests.attacks.federation_flood import HELD_S, Flood
from tests.support.programs import Program
from vil_bridge.core.errors import SinkError
from vil_bridge.protocols.federation.zmq_link import ZmqPublisherLink

pytestmark = pytest.mark.wire


_ROUNDS = 2
_PUBLISHER = """
import asyncio
from vil_bridge.protocols.federation.zmq_link import ZmqPublisherLink

async def main():
    link = ZmqPublisherLink("tcp://127.0.0.1:0", lambda request: request)
    link.open()
    print(link.endpoint.rpartition(":")[2], flush=True)
    while True:
        await asyncio.sleep(0.2)
        link.housekeep()

asyncio.run(main())
"""


async def test_a_port_that_is_taken_is_named_and_nothing_stays_open() -> None:
    first = ZmqPublisherLink("tcp://127.0.0.1:0", lambda request: request)
    first.open()
    with pytest.raises(
        SinkError, match=f"cannot publish at {first.endpoint}: Address already in use"
    ):
        ZmqPublisherLink(first.endpoint, lambda request: request).open()
    first.close()


@pytest.mark.process
def test_a_publisher_outlives_connections_that_flood_and_reset() -> None:
    with Program(sys.executable, "-c", _PUBLISHER) as publisher:
        flood = Flood(int(publisher.await_text(r"(\d+)\n")[1]))
        try:
            until_s = time.monotonic() + (_ROUNDS + 0.5) * HELD_S
            while time.monotonic() < until_s and publisher.poll() is None:
                flood.step()
                time.sleep(0.01)
            assert publisher.poll() is None, publisher.text()
        finally:
            flood.reset()
            publisher.kill()
