"""Pictures to bytes, raw or JPEG.

Calls release the GIL while they work; results are never modified afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import simplejpeg
import zmq

from vil_bridge.core.types import ImageArray, Modality
from vil_bridge.optics.pixel_formats import FORMAT_OF, GRAY8, RGB8
from vil_bridge.protocols import opencv as cv2


class RawPicture(NamedTuple):
    """Pixels as bytes.

    Attributes:
        format: name of a :class:`~vil_bridge.optics.pixel_formats.PixelFormat`.
        rows: ``top_down`` or ``bottom_up``.
    """

    payload: memoryview | zmq.Frame
    format: str
    rows: str


def stored_rows(pixels: ImageArray) -> tuple[ImageArray, str]:
    """Return the picture as it lies in memory, contiguous, and whether its rows are upside down
    there.

    A renderer's wire buffer seen upright is a view with a negative stride. Its rows stay as they
    are and the reader turns them by a view of its own: copying a picture just received, which no
    cache holds yet, costs a third of relaying it.
    """
    if pixels.flags.c_contiguous:
        return pixels, "top_down"
    if pixels[::-1].flags.c_contiguous:
        return pixels[::-1], "bottom_up"
    return np.ascontiguousarray(pixels), "top_down"


def gray_rows(pixels: ImageArray) -> tuple[ImageArray, str]:
    """Do as :func:`stored_rows`, with RGB converted to gray by the luma weights of JPEG.

    BT.601.
    """
    stored, rows = stored_rows(pixels)
    if stored.ndim == 3:
        stored = cv2.cvtColor(stored, cv2.COLOR_RGB2GRAY)
    return stored, rows


def as_gray(pixels: ImageArray) -> ImageArray:
    """Return a picture in gray, top row first.

    Like the picture it may lie upside down in memory.
    """
    stored, rows = gray_rows(pixels)
    return stored[::-1] if rows == "bottom_up" else stored


def encode_raw(pixels: ImageArray, color: str, modality: Modality) -> RawPicture:
    """Return the bytes of a picture; RGB as gray when asked for."""
    to_gray = color == "gray" and RGB8.fits(pixels)
    stored, rows = gray_rows(pixels) if to_gray else stored_rows(pixels)
    form = GRAY8 if GRAY8.fits(stored) else FORMAT_OF[modality]
    if stored.dtype.byteorder == ">":
        stored = stored.astype(form.dtype)
    return RawPicture(_received_frame(stored) or stored.data.cast("B"), form.name, rows)


def _received_frame(stored: ImageArray) -> zmq.Frame | None:
    """Return the message part that the picture was received as, when it fills that part.

    Sent on unchanged, it needs no notice from ZeroMQ when its memory is free again, which saves a
    tenth of the work of relaying it.
    """
    owner: object = stored
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    if isinstance(owner, zmq.Frame) and len(owner) == stored.nbytes:
        return owner
    return None


def encode_jpeg(pixels: ImageArray, color: str, quality: int) -> tuple[bytes, str]:
    """Compress RGB (h, w, 3) or gray (h, w) uint8; gray when asked for. Also returns the format."""
    stored, rows = gray_rows(pixels) if color == "gray" else stored_rows(pixels)
    upright = cv2.flip(stored, 0) if rows == "bottom_up" else stored
    if upright.ndim == 2:
        plane = upright[:, :, None]
        return simplejpeg.encode_jpeg(
            plane, quality=quality, colorspace="GRAY", colorsubsampling="Gray"
        ), "gray8"
    return simplejpeg.encode_jpeg(
        upright, quality=quality, colorspace="RGB", colorsubsampling="420"
    ), "rgb8"


@dataclass(frozen=True, slots=True)
class EncodingOptions:
    """Encoding that a subscriber asks for; subscribers with equal options share one encoding."""

    encoding: str
    color: str
    quality: int


@dataclass(frozen=True, slots=True)
class Encoded:
    """A picture ready to send.

    Attributes:
        payload: contiguous bytes.
        fields: what a reader needs to decode it; part of the frame's header.
    """

    payload: bytes | memoryview | zmq.Frame
    fields: dict[str, str | int]


def encode(pixels: ImageArray, options: EncodingOptions, modality: Modality) -> Encoded:
    """Encode a picture of any modality, top row first.

    Only RGB and gray have JPEG, which registration sees to.
    """
    height_px, width_px = pixels.shape[:2]
    size: dict[str, str | int] = {"width": width_px, "height": height_px}
    if options.encoding == "jpeg":
        payload, pixel_format = encode_jpeg(pixels, options.color, options.quality)
        return Encoded(
            payload, {"encoding": "jpeg", "format": pixel_format, "rows": "top_down", **size}
        )
    raw = encode_raw(pixels, options.color, modality)
    return Encoded(raw.payload, {"encoding": "raw", "format": raw.format, "rows": raw.rows, **size})
