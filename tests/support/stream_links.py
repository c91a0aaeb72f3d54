"""A network between a stream rig and its readers.

One way down for all connections, as on a radio.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
import pytest

from tests.support.stream_rig import RawClient, StreamRig
from vil_adapters.lab import relays
from vil_adapters.lab.link import LinkEmulator
from vil_adapters.lab.link_spec import LinkSpec
from vil_bridge.core.types import ImageArray

FAR: Final = "127.0.0.2"
"""The bridge's address for those behind the network; it listens at 127.0.0.1."""


def udp_port(rig: StreamRig) -> int:
    """The bridge's UDP port, which it opens for the first reader that asks."""
    with RawClient(rig.endpoint) as client:
        answer = client.ask(type="register", v=1, camera="front", encoding="raw", transport="udp")
        client.say(type="unregister", token=answer["token"])
        client.ask(type="ping", t1=0)
        return int(answer["udp_port"])


def noise(size: int) -> ImageArray:
    """A raw gray picture of so many bytes, which no encoder makes smaller."""
    picture: ImageArray = (
        np.random.default_rng(1).integers(0, 256, (size // 400, 400)).astype(np.uint8)
    )
    return picture


@contextmanager
def running(*links: LinkEmulator) -> Iterator[None]:
    """Relay in a thread."""
    ready, stop = threading.Event(), threading.Event()

    async def relay() -> None:
        for link in links:
            await link.start()
        ready.set()
        await asyncio.to_thread(stop.wait)
        for link in links:
            await link.stop()

    thread = threading.Thread(target=asyncio.run, args=(relay(),))
    thread.start()
    try:
        assert ready.wait(60.0)
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def radio(rig: StreamRig, rate_bps: float, buffer_bytes: int) -> Iterator[str]:
    """Yield the control channel's address behind a link whose rate is shared by all, down.

    Args:
        rig: the bridge.
        rate_bps: bits per second.
        buffer_bytes: that wait in the link at most: datagrams beyond are lost, streams have to
            wait.
    """
    links = [
        LinkEmulator(LinkSpec.parse(f"{way}:down.rate={rate_bps / 1e3:.3f}kbit"))
        for way in _ways(rig)
    ]
    for link in links[1:]:
        link.down = links[0].down
    with pytest.MonkeyPatch.context() as patch, running(*links):
        for name in ("QUEUE_BYTES", "WINDOW_BYTES"):
            patch.setattr(relays, name, buffer_bytes)
        yield _far(rig)


@contextmanager
def long_way(rig: StreamRig, delay_ms: float) -> Iterator[str]:
    """Yield the control channel's address behind a link that takes its time, each way, and
    carries everything.
    """
    with running(
        *(LinkEmulator(LinkSpec.parse(f"{way}:delay={delay_ms}ms")) for way in _ways(rig))
    ):
        yield _far(rig)


def _far(rig: StreamRig) -> str:
    return f"tcp://{FAR}:{rig.endpoint.rpartition(':')[2]}"


def _ways(rig: StreamRig) -> list[str]:
    control, data, door = int(rig.endpoint.rpartition(":")[2]), rig.sink().port, udp_port(rig)
    return [
        f"{kind}{FAR}:{port}=127.0.0.1:{port}"
        for kind, port in (("tcp:", control), ("tcp:", data), ("", door))
    ]
