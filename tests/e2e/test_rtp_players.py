"""The video output's real receivers: ffmpeg, GStreamer and a socket by hand."""

from __future__ import annotations

import asyncio
import functools
import itertools
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tests.support.common import wait_until
from tests.support.events import until
from tests.support.rtp import (
    NUMBERS,
    Packet,
    Player,
    camera_info,
    depacketized,
    ffmpeg,
    free_pair,
    gstreamer,
    header,
    number_in,
    painted,
    parse_packet,
    playing,
)
from vil_bridge.outputs.rtp.config import RtpConfig
from vil_bridge.outputs.rtp.output import RtpOutput
from vil_bridge.outputs.rtp.packets import rtp_ticks
from vil_bridge.world.world import World

pytestmark = pytest.mark.process


FRAMES = 180


@asynccontextmanager
async def running(output: RtpOutput) -> AsyncIterator[None]:
    task = asyncio.create_task(output.run(World({}, [])))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def has_sent(output: RtpOutput, count: int) -> bool:
    return output.status.counters["sent"] + output.status.counters["failed"] >= count


@contextmanager
def numbered(output: RtpOutput, *, gray: bool = False, rate_hz: float = 150.0) -> Iterator[None]:
    """Offers pictures 0, 1, 2... one after the other's packets, so that none is superseded."""
    modality = "gray" if gray else "rgb"
    sink = output.frame_sink(camera_info(rate_hz, (modality,)))
    over, counters = threading.Event(), output.status.counters

    def feed() -> None:
        begun_s = time.monotonic()
        for count in itertools.count():
            if over.wait(max(0.0, begun_s + count / rate_hz - time.monotonic())):
                return
            sink.offer(header(count + 1, modality), painted(count % NUMBERS, gray=gray))
            wait_until(functools.partial(has_sent, output, count + 1), period_s=0.001)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        sink.close()
        output.close()
    assert counters["failed"] == counters["superseded"] == 0


def row_of_numbers(player: Player, count: int, timeout_s: float) -> int:
    """Longest row of successive numbers, up to ``count``.

    Whoever joins sees a whole picture after a second.
    """
    best = row = 0
    last: int | None = None
    for plane, _ in player.pictures(timeout_s):
        number = number_in(plane)
        follows = number is not None and last is not None and number == (last + 1) % NUMBERS
        row = row + 1 if follows else int(number is not None)
        last, best = number, max(best, row)
        if best >= count:
            break
    return best


@pytest.mark.parametrize(
    ("codec", "player", "gray"),
    [
        ("h264", "ffmpeg", False),
        ("h264", "gstreamer", True),
        pytest.param("hevc", "ffmpeg", True, marks=pytest.mark.long),
        pytest.param("hevc", "gstreamer", False, marks=pytest.mark.long),
    ],
)
async def test_a_foreign_player_shows_every_picture_in_order(
    tmp_path: Path, codec: str, player: str, gray: bool
) -> None:
    config = RtpConfig.model_validate(
        {
            "cameras": ("front",),
            "codec": codec,
            "port": free_pair(),
            "bitrate_mbps": 2.0,
            "pacing": 0.3,
            "sdp_folder": tmp_path,
        }
    )
    output = RtpOutput("video", config)
    with numbered(output, gray=gray):
        async with running(output):
            await until(lambda: (tmp_path / "front.sdp").exists())
            sdp = tmp_path / "front.sdp"
            command = ffmpeg(sdp) if player == "ffmpeg" else gstreamer(sdp, codec)
            with playing(command) as started:
                assert await asyncio.to_thread(row_of_numbers, started, FRAMES, 40.0) == FRAMES
    assert output.status.facts["front"]["encoder"] in {
        "libx264",
        "libx265",
        "h264_nvenc",
        "hevc_nvenc",
    }


def pictures_of(received: socket.socket, count: int) -> list[list[Packet]]:
    """Packets by picture, ended by the marker."""
    found: list[list[Packet]] = [[]]
    while len(found) <= count:
        found[-1].append(parse_packet(received.recv(2000)))
        if found[-1][-1].marker:
            found.append([])
    return found[:count]


@pytest.mark.parametrize("codec", ["h264", "hevc"])
async def test_packets_tell_frame_and_time_and_reports_tell_the_clock(codec: str) -> None:
    port = free_pair()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as video,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reports,
    ):
        video.bind(("127.0.0.1", port))
        reports.bind(("127.0.0.1", port + 1))
        video.settimeout(60.0)
        reports.settimeout(60.0)
        output = RtpOutput(
            "video",
            RtpConfig.model_validate(
                {"cameras": ("front",), "codec": codec, "port": port, "packet_bytes": 300}
            ),
        )
        sink = output.frame_sink(camera_info())
        # The third shows an earlier instant.
        for n, shown_ns in enumerate((10**9, 2 * 10**9, 15 * 10**8)):
            sink.offer(header(n + 1, t_display_ns=shown_ns), painted(n))
            wait_until(functools.partial(has_sent, output, n + 1))
        first, second, third = pictures_of(video, 3)
        packets = [*first, *second, *third]
        start = packets[0].sequence
        assert [p.sequence for p in packets] == [(start + i) % 65536 for i in range(len(packets))]
        assert {(p.frame_id, p.t_display_ns) for p in second} == {(2, 2 * 10**9)}
        ticks = [p[0].ticks for p in (first, second, third)]
        assert ticks == [rtp_ticks(10**9), rtp_ticks(2 * 10**9), rtp_ticks(2 * 10**9) + 1]
        assert all(
            {q.ticks for q in p} == {t} for p, t in zip((first, second, third), ticks, strict=True)
        )
        hevc = codec == "hevc"
        kinds = [
            nal[0] >> 1 & 63 if hevc else nal[0] & 31
            for nal in depacketized([p.payload for p in first], hevc=hevc)
        ]
        assert kinds[: 3 if hevc else 2] == ([32, 33, 34] if hevc else [7, 8])
        report, source = reports.recvfrom(2000)
        assert report[1] == 200
        assert struct.unpack(">II", report[20:28]) == (
            len(first),
            sum(len(p.payload) for p in first),
        )
        async with running(output):
            reports.sendto(b"rubbish", source)
            block = packets[0].ssrc.to_bytes(4, "big") + bytes([128]) + bytes(19)
            reports.sendto(b"\x81\xc9\0\7\0\0\0\1" + block, source)
            await until(lambda: output.status.counters["receiver_reports"] == 1)
        assert output.status.counters["malformed"] == 1
        sink.close()
        output.close()
