"""Shared parts of the tests of the video output.

Numbered pictures, a receiver by hand, players as child processes.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pytest

from tests.support.common import free_port, needs_program
from tests.support.frame_headers import frame_header
from tests.support.programs import Program
from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.clock import now_ns
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ImageArray
from vil_bridge.interfaces.ports import CameraInfo

WIDTH_PX, HEIGHT_PX = 320, 240
NUMBERS: Final = 1 << 10
_BITS: Final = 10
_BLOCK_PX: Final = 32


def camera_info(
    rate_hz: float = 100.0,
    offers: tuple[str, ...] = ("rgb",),
    size_px: tuple[int, int] = (WIDTH_PX, HEIGHT_PX),
) -> CameraInfo:
    here = Transform.identity()
    model = CameraModel("front", *size_px, 1.2)
    return CameraInfo(
        model, "world", here, here, rate_hz, dict.fromkeys(offers, ("compensated", "raw"))
    )


def header(frame_id: int, modality: str = "rgb", t_display_ns: int | None = None) -> FrameHeader:
    header = frame_header(frame_id, modality=modality)
    header.t_display_ns = header.t_display_ns if t_display_ns is None else t_display_ns
    return header


# --- a number in a picture ---------------------------------------------------------------------


def painted(number: int, *, gray: bool = False) -> ImageArray:
    """A moving pattern with the number in a row of large blocks, and its complement in the row
    below.
    """
    y, x = np.mgrid[0:HEIGHT_PX, 0:WIDTH_PX]
    plane = (127 + 60 * np.sin((x + 3 * number) / 17) * np.cos(y / 13)).astype(np.uint8)
    bits = np.array([number >> i & 1 for i in range(_BITS)], np.uint8)
    rows = np.stack([bits, 1 - bits]) * 200 + 25
    plane[: 2 * _BLOCK_PX, : _BITS * _BLOCK_PX] = np.kron(
        rows, np.ones((_BLOCK_PX, _BLOCK_PX), np.uint8)
    )
    return plane if gray else np.stack([plane] * 3, axis=-1)


def number_in(plane: ImageArray) -> int | None:
    """The number, None where it cannot be read beyond doubt."""
    top = (
        plane[: 2 * _BLOCK_PX, : _BITS * _BLOCK_PX]
        .reshape(2, _BLOCK_PX, _BITS, _BLOCK_PX)
        .mean(axis=(1, 3))
    )
    if np.abs(top[0] - top[1]).min() < 100:
        return None
    return int(sum(1 << i for i in range(_BITS) if top[0, i] > top[1, i]))


# --- a receiver by hand (RFC 3550, 8285, 6184, 7798), written apart from the sender ---------------


class Packet(NamedTuple):
    marker: bool
    sequence: int
    ticks: int
    ssrc: int
    frame_id: int
    t_display_ns: int
    payload: bytes


def parse_packet(data: bytes) -> Packet:
    first, second, sequence, ticks, ssrc = struct.unpack_from(">BBHII", data)
    assert first == 0b1001_0000, "version 2, no padding, an extension, no contributors"
    assert second & 0x7F == 96
    profile, words = struct.unpack_from(">HH", data, 12)
    assert profile == 0xBEDE
    element = data[16 : 16 + 4 * words]
    assert element[0] >> 4 == 1
    length = (element[0] & 15) + 1
    assert not any(element[1 + length :]), "padding is zero"
    frame_id, t_display_ns = struct.unpack(">QQ", element[1 : 1 + length])
    return Packet(
        bool(second >> 7), sequence, ticks, ssrc, frame_id, t_display_ns, data[16 + 4 * words :]
    )


def depacketized(payloads: Sequence[bytes], *, hevc: bool) -> list[bytes]:
    """NAL units of one picture's payloads."""
    head = 2 if hevc else 1
    found: list[bytes] = []
    pending: bytearray | None = None
    for payload in payloads:
        kind = payload[0] >> 1 & 63 if hevc else payload[0] & 31
        if kind == (48 if hevc else 24):
            assert pending is None
            rest = payload[head:]
            while rest:
                size = int.from_bytes(rest[:2], "big")
                assert len(rest) >= 2 + size
                found.append(rest[2 : 2 + size])
                rest = rest[2 + size :]
        elif kind == (49 if hevc else 28):
            flags = payload[head]
            if flags & 0x80:
                assert pending is None
                if hevc:
                    pending = bytearray([payload[0] & 0x81 | (flags & 63) << 1, payload[1]])
                else:
                    pending = bytearray([payload[0] & 0xE0 | flags & 31])
            assert pending is not None
            pending += payload[head + 1 :]
            if flags & 0x40:
                found.append(bytes(pending))
                pending = None
        else:
            found.append(payload)
    assert pending is None
    return found


# --- players --------------------------------------------------------------------------------------


def free_pair() -> int:
    """Return an even UDP port that is free, as the next one is."""
    while (port := free_port(socket.SOCK_DGRAM, 1)) % 2:
        pass
    return port


def ffmpeg(sdp: Path) -> list[str]:
    """Plays a description to its standard output, gray."""
    program = needs_program("ffmpeg", "ffmpeg")
    low = [
        "-fflags",
        "nobuffer",
        "-flags",
        "low_delay",
        "-probesize",
        "32",
        "-fpsprobesize",
        "0",
        "-threads",
        "1",
    ]
    out = ["-fps_mode", "passthrough", "-pix_fmt", "gray", "-f", "rawvideo", "-"]
    return [
        program,
        "-nostdin",
        "-loglevel",
        "error",
        *low,
        "-protocol_whitelist",
        "file,udp,rtp",
        "-i",
        str(sdp),
        *out,
    ]


def gstreamer(sdp: Path, codec: str) -> list[str]:
    """The same with GStreamer."""
    program = needs_program("gst-launch-1.0", "gstreamer1.0-tools")
    family = {"h264": "h264", "hevc": "h265"}[codec]
    elements = [f"rtp{family}depay", f"{family}parse", f"avdec_{family}", "videoconvert"]
    for element in ("sdpdemux", *elements):
        if subprocess.run(
            ["gst-inspect-1.0", "--exists", element], check=False, timeout=60.0
        ).returncode:
            pytest.skip(f"GStreamer has no {element}: sh scripts/foreign.sh installs its plug-ins")
    chain = [part for element in elements for part in ("!", element)]
    sink = ["!", "video/x-raw,format=GRAY8", "!", "fdsink", "fd=1", "sync=false"]
    return [
        program,
        "-q",
        "filesrc",
        f"location={sdp}",
        "!",
        "sdpdemux",
        "latency=20",
        *chain,
        *sink,
    ]


class Player:
    """Reads pictures from a player's standard output."""

    def __init__(self, process: Program) -> None:
        self._process = process
        self._held = b""

    def pictures(self, timeout_s: float) -> Iterator[tuple[ImageArray, int]]:
        """Pictures and when they came, until the time-out or the player's end."""
        assert self._process.stdout is not None
        fd, size = self._process.stdout.fileno(), WIDTH_PX * HEIGHT_PX
        end_s = time.monotonic() + timeout_s
        while (left_s := end_s - time.monotonic()) > 0:
            if not select.select([fd], [], [], left_s)[0]:
                return
            data = os.read(fd, 1 << 20)
            if not data:
                return
            self._held += data
            while len(self._held) >= size:
                taken, self._held = self._held[:size], self._held[size:]
                yield np.frombuffer(taken, np.uint8).reshape(HEIGHT_PX, WIDTH_PX), now_ns()


@contextmanager
def playing(command: list[str]) -> Iterator[Player]:
    """A player as a child process that is gone afterwards."""
    with Program(*command, stdout=subprocess.PIPE) as process:
        try:
            yield Player(process)
        finally:
            process.kill()
