"""Pictures to NAL units without delay: one in, one out, no key frames that stand out."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import av
import numpy as np
from av.codec.context import Flags
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import ColorRange, Colorspace

from vil_bridge.core.errors import SinkError
from vil_bridge.core.types import ImageArray
from vil_bridge.outputs.rtp.config import RtpConfig
from vil_bridge.outputs.rtp.packets import H264, HEVC, NalSyntax, nal_units
from vil_bridge.protocols import opencv as cv2
from vil_bridge.protocols.image_codecs import stored_rows

_NEUTRAL: Final = 128
_HARDWARE: Final = {"h264": "h264_nvenc", "hevc": "hevc_nvenc"}
_SOFTWARE: Final = {"h264": "libx264", "hevc": "libx265"}
_SYNTAX: Final = {"h264": H264, "hevc": HEVC}
_BUFFERED_PICTURES: Final = 2
"""Bits that one image may borrow, in average images: its extra time on the link."""


class VideoEncoder:
    """An open encoder.

    Attributes:
        name: of the implementation.
        syntax: of its NAL units.
        parameter_sets: NAL units that a receiver needs before any picture.
    """

    def __init__(
        self, name: str, syntax: NalSyntax, context: VideoCodecContext, refresh: int
    ) -> None:
        self.name = name
        self.syntax = syntax
        self._context = context
        self._refresh = refresh
        self._count = 0
        units = nal_units(bytes(context.extradata or b""))
        of_type = {syntax.type_of(nal): nal for nal in units}
        missing = [kind for kind in syntax.parameter_sets if kind not in of_type]
        if missing:
            raise SinkError(f"{name} gives no parameter sets of types {missing}")
        self.parameter_sets = tuple(of_type[kind] for kind in syntax.parameter_sets)

    def encode(self, planes: ImageArray) -> list[bytes]:
        """Return the NAL units of one picture.

        Once per refresh the parameter sets go first, for players that join.

        Args:
            planes: of :func:`i420`.

        Raises:
            SinkError: the encoder failed; it cannot be used any more.
        """
        frame = av.VideoFrame.from_ndarray(planes, format="yuv420p")
        frame.pts = self._count
        try:
            packets = self._context.encode(frame)
        except FFmpegError as exc:
            raise SinkError(f"{self.name}: {exc}") from exc
        units = [nal for packet in packets for nal in nal_units(bytes(packet))]
        if self._count % self._refresh == 0:
            units = [*self.parameter_sets, *units]
        self._count += 1
        return units


def open_encoder(
    config: RtpConfig, size_px: tuple[int, int], rate_hz: float, *, full_range: bool
) -> tuple[VideoEncoder, str]:
    """Open the best encoder that works here, and why a better one does not ("" = it is the best).

    Args:
        config: codec, preset, bit rate, whether hardware may be used.
        size_px: width and height.
        rate_hz: pictures per second.
        full_range: luma is 0..255 instead of 16..235.

    Raises:
        SinkError: none works, or the size is odd.
    """
    if size_px[0] % 2 or size_px[1] % 2:
        raise SinkError(
            f"video of {size_px[0]}x{size_px[1]} pixels: both must be even; change the "
            "camera's size,"
            " or scale with width_px and height_px of the output"
        )
    names = (
        (_HARDWARE[config.codec], _SOFTWARE[config.codec])
        if config.hardware
        else (_SOFTWARE[config.codec],)
    )
    problems: list[str] = []
    for name in names:
        try:
            context = _opened(name, config, size_px, rate_hz, full_range)
        except FFmpegError as exc:
            problems.append(f"{name} does not open: {exc.strerror or exc}")
        except ValueError:
            problems.append(f"{name} is not in this PyAV")
        else:
            return VideoEncoder(name, _SYNTAX[config.codec], context, _refresh(rate_hz)), "; ".join(
                problems
            )
    raise SinkError("; ".join(problems))


def _refresh(rate_hz: float) -> int:
    """Return over how many pictures the whole picture is refreshed: a second's."""
    return max(2, round(rate_hz))


def _opened(
    name: str, config: RtpConfig, size_px: tuple[int, int], rate_hz: float, full_range: bool
) -> VideoCodecContext:
    rate = Fraction(rate_hz).limit_denominator(1000)
    context = VideoCodecContext.create(name, "w")
    assert isinstance(context, VideoCodecContext)
    context.width, context.height = size_px
    context.pix_fmt = "yuv420p"
    context.framerate = rate
    context.time_base = 1 / rate
    context.bit_rate = round(1e6 * config.bitrate_mbps)
    context.gop_size = _refresh(rate_hz)
    context.max_b_frames = 0
    context.thread_count = 1
    context.color_range = ColorRange.JPEG if full_range else ColorRange.MPEG
    context.colorspace = Colorspace.ITU601
    context.flags |= Flags.global_header  # gives the parameter sets, which encode() repeats
    context.options = _options(name, config, rate_hz)
    context.open()
    return context


def _options(name: str, config: RtpConfig, rate_hz: float) -> dict[str, str]:
    kbps = 1000 * config.bitrate_mbps
    buffer_kbit = max(1, round(_BUFFERED_PICTURES * kbps / rate_hz))
    if name in _HARDWARE.values():
        options = {
            "preset": "p1",
            "tune": "ull",
            "zerolatency": "1",
            "delay": "0",
            "rc": "cbr",
            "intra-refresh": "1",
        }
        return options | {"maxrate": f"{round(kbps)}k", "bufsize": f"{buffer_kbit}k"}
    tuned = [
        f"keyint={_refresh(rate_hz)}",
        "intra-refresh=1",
        f"vbv-maxrate={round(kbps)}",
        f"vbv-bufsize={buffer_kbit}",
    ]
    if config.codec == "hevc":
        tuned += ["log-level=none", "pools=none", "frame-threads=1", "info=0"]
    family = "x264-params" if config.codec == "h264" else "x265-params"
    return {"preset": config.preset, "tune": "zerolatency", family: ":".join(tuned)}


def i420(pixels: ImageArray, size_px: Sequence[int]) -> ImageArray:
    """Planes Y, U, V of a picture, shape (3 h / 2, w) uint8.

    RGB becomes BT.601 with luma 16..235; gray keeps its values as luma 0..255 with neutral chroma.

    Args:
        pixels: (h, w, 3) RGB or (h, w) gray, uint8.
        size_px: width and height of the result, even.
    """
    stored, rows = stored_rows(pixels)
    width_px, height_px = size_px
    if stored.shape[:2] != (height_px, width_px):
        stored = cv2.resize(stored, (width_px, height_px), interpolation=cv2.INTER_AREA)
    upright = cv2.flip(stored, 0) if rows == "bottom_up" else stored
    if upright.ndim == 3:
        planes: ImageArray = cv2.cvtColor(upright, cv2.COLOR_RGB2YUV_I420)
        return planes
    planes = np.full((height_px * 3 // 2, width_px), _NEUTRAL, np.uint8)
    planes[:height_px] = upright
    return planes
