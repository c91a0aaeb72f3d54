"""Pictures to bytes. Calls release the GIL while they work; results are never modified afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import zmq

from vil_bridge.core.types import ImageArray, Modality
from vil_bridge.protocols.image_codecs.jpeg import encode_jpeg
from vil_bridge.protocols.image_codecs.raw import encode_raw

__all__ = ["Encoded", "EncodingOptions", "encode"]


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
    """Encode a picture of any modality, top row first; only RGB and gray have JPEG, which registration sees to."""
    height_px, width_px = pixels.shape[:2]
    size: dict[str, str | int] = {"width": width_px, "height": height_px}
    if options.encoding == "jpeg":
        payload, pixel_format = encode_jpeg(pixels, options.color, options.quality)
        return Encoded(payload, {"encoding": "jpeg", "format": pixel_format, "rows": "top_down", **size})
    raw = encode_raw(pixels, options.color, modality)
    return Encoded(raw.payload, {"encoding": "raw", "format": raw.format, "rows": raw.rows, **size})
