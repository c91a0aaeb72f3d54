"""Threads that pictures are handed to.

A bug in one of them is not silent, and what they keep is bounded.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.common import PATIENCE_S, wait_until
from tests.support.events import until
from tests.support.outputs import Flight
from tests.support.rtp import camera_info
from tests.support.stream_rig import SMALL, StreamRig, first, header
from vil_bridge.client import Receiver
from vil_bridge.core.errors import SinkError
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ImageArray
from vil_bridge.outputs.ros.bag import RosBagOutput
from vil_bridge.outputs.ros.config import RosBagConfig
from vil_bridge.outputs.rtp.config import RtpConfig
from vil_bridge.outputs.rtp.output import RtpOutput
from vil_bridge.outputs.sink_thread import SinkThread
from vil_bridge.outputs.stream.encoded_picture import EncodedPicture, PictureRings
from vil_bridge.outputs.stream.udp_sink import UdpSubscriberThread
from vil_bridge.protocols.image_codecs import EncodingOptions
from vil_bridge.runtime.pacing import call_periodically
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world.world import World


def test_a_bug_in_sending_reaches_the_relay_once_and_the_thread_goes_on() -> None:
    sent = list[int]()

    def send(header: FrameHeader, pixels: ImageArray) -> None:
        if header.frame_id == 1:
            raise ZeroDivisionError("a bug")
        sent.append(header.frame_id)

    status = Status("buggy")
    sink = SinkThread("buggy", {("rgb", "compensated")}, send, status)
    sink.offer(header(1), SMALL)
    wait_until(lambda: status.counters["failed"] == 1)
    with pytest.raises(RuntimeError, match="buggy failed: ZeroDivisionError: a bug") as caught:
        sink.offer(header(2), SMALL)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    sink.offer(header(3), SMALL)
    wait_until(lambda: sent == [3])
    sink.close()


@pytest.mark.wire
def test_a_bug_in_a_udp_readers_thread_reaches_the_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    def send(self: UdpSubscriberThread, picture: EncodedPicture) -> None:
        raise ZeroDivisionError("a bug")

    rig = StreamRig()
    with Receiver(rig.endpoint, encoding="raw", transport="udp") as receiver, rig.playing(SMALL):
        first(receiver)
        monkeypatch.setattr(UdpSubscriberThread, "_send", send)
        wait_until(lambda: rig.failed() is not None)
    with pytest.raises(RuntimeError, match="UDP reader") as caught:
        rig.close()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


async def test_a_bug_in_writing_a_bag_is_no_full_disk(tmp_path: Path) -> None:
    output = RosBagOutput("bag", RosBagConfig(path=tmp_path / "flight.bag", actors=("drone",)))
    flight = Flight()
    running = asyncio.create_task(output.run(flight.world))
    try:
        await until(lambda: output._bag is not None and output.status.counters["messages"])
        assert output._bag is not None
        topic = output._feed.topics()[0]
        output._bag._connections.clear()  # what it looks up is not there: a bug of ours
        output._bag.enqueue(topic, memoryview(b"x"))
        with pytest.raises(RuntimeError, match="writing") as caught:
            await asyncio.wait_for(running, PATIENCE_S)
        assert isinstance(caught.value.__cause__, KeyError)
    finally:
        running.cancel()
        output.close()


class Panic(BaseException):
    """What libraries written in Rust raise when they meet a bug of their own."""


async def test_a_librarys_panic_ends_the_output() -> None:
    def step() -> None:
        raise Panic

    with pytest.raises(Panic):
        await asyncio.wait_for(call_periodically("panics", 100.0, step), PATIENCE_S)


def test_memory_keeps_no_pictures_for_encodings_that_nobody_wants_any_more() -> None:
    rings = PictureRings()
    kept = []
    for quality in range(10, 60):
        picture = EncodedPicture(header(quality), np.zeros((8, 8, 3), np.uint8), 10**9)
        wants = EncodingOptions("jpeg", "rgb", quality)
        assert rings.notice(picture, wants, picture.message(wants)) is not None
        kept.append(len(rings._written))
    rings.retain(())
    assert max(kept) == 1


def test_no_video_where_the_system_has_no_such_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: socket.socket, address: Any) -> None:
        raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")

    config = RtpConfig(host="::1", cameras=("front",), hardware=False)
    output = RtpOutput("video", config)
    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(SinkError, match="no video to ::1: Cannot assign"):
        output.frame_sink(camera_info())
    output.close()


async def test_a_description_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = RtpOutput(
        "video", RtpConfig(cameras=("front",), hardware=False, sdp_folder=tmp_path / "file" / "sdp")
    )
    with pytest.raises(SinkError, match="cannot write the description of a video"):
        await output.run(World({}, ()))
    output.close()
