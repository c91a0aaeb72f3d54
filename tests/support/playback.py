"""A captured Motive that plays again in time that the test holds, however late the source that
follows it is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.events import Received, receiving
from vil_adapters.emulation.capture_playback import Playback
from vil_adapters.lab.captures import CaptureSpec
from vil_adapters.optitrack.capture_server import ReplayedMotive
from vil_adapters.optitrack.config import OptitrackConfig
from vil_adapters.optitrack.source import OptitrackSource
from vil_adapters.sessions.frame_order import DROPPED
from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import NS_PER_MS, now_ns
from vil_bridge.core.types import SourceFrame
from vil_bridge.protocols.natnet.codec import MessageId, message_id
from vil_bridge.protocols.pcap.pcap import read_capture
from vil_bridge.runtime.datagrams import Datagram

__all__ = [
    "HeldClock",
    "begin_ns",
    "came",
    "capture_in",
    "frame_datagrams",
    "in_common",
    "replayed",
]

_AT_ONCE: Final = 1e6
"""Rate of a held clock while it goes on."""


def capture_in(folder: Path) -> Path:
    (path,) = folder.glob("lab-*.pcap")
    return path


@contextlib.asynccontextmanager
async def replayed(path: Path) -> AsyncIterator[Received]:
    """A new source that follows a captured Motive."""
    server = CaptureSpec(path).open()
    assert isinstance(server, ReplayedMotive)
    playing = asyncio.create_task(server.run())
    try:
        async with receiving(
            OptitrackSource("again", OptitrackConfig(command_port=server.port))
        ) as again:
            yield again
    finally:
        playing.cancel()
        await asyncio.wait([playing])


class HeldClock:
    """Time of a playback, which goes on from one captured frame to the next when the test says
    so.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._begun: list[int] = []
        start = Playback.start

        def noting(playback: Playback) -> None:
            self._begun.append(now_ns())
            start(playback)

        monkeypatch.setattr(Playback, "start", noting)

    async def play(self, frames: list[Datagram], begin_ns: int, again: Received) -> None:
        """Let each frame arrive at its time, before the next one is due.

        Args:
            frames: of the capture.
            begin_ns: time of the capture at which it begins.
            again: the source that follows.
        """
        bridge_clock().run(0.0)
        try:
            while not self._begun:
                bridge_clock().run(_AT_ONCE, NS_PER_MS)
                await asyncio.sleep(0.001)
            # Frames are passed over before the server is known.
            await again.until(lambda: again.status.facts)
            for count, frame in enumerate(frames, 1):
                bridge_clock().run(
                    _AT_ONCE, max(0, self._begun[0] + frame.t_ns - begin_ns - now_ns())
                )
                await again.until(lambda count=count: came(again) >= count)  # type: ignore[misc]
        finally:
            bridge_clock().real()


def came(received: Received) -> int:
    """Frames that reached a source, whatever became of them."""
    reasons = ("superseded", "undescribed", "stale", *DROPPED.values())
    return len(received.frames) + sum(received.status.counters[reason] for reason in reasons)


def frame_datagrams(path: Path) -> list[Datagram]:
    return [d for d in read_capture(path) if message_id(d.payload) == MessageId.FRAMEOFDATA]


def in_common(
    first: list[SourceFrame], again: list[SourceFrame]
) -> list[tuple[SourceFrame, SourceFrame]]:
    by_number = {frame.frame_number: frame for frame in first}
    return [(by_number[f.frame_number], f) for f in again if f.frame_number in by_number]


def begin_ns(path: Path) -> int:
    """When the server of a capture announced itself."""
    return next(d.t_ns for d in read_capture(path) if message_id(d.payload) == MessageId.SERVERINFO)
