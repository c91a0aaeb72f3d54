"""JPEG by libjpeg-turbo: gray as one plane, colour as 4:2:0."""

from __future__ import annotations

import cv2
import simplejpeg

from vil_bridge.core.types import ImageArray
from vil_bridge.protocols.image_codecs.raw import gray_rows, stored_rows

__all__ = ["encode_jpeg"]


def encode_jpeg(pixels: ImageArray, color: str, quality: int) -> tuple[bytes, str]:
    """Compress RGB (h, w, 3) or gray (h, w) uint8; gray when asked for. Also returns the format."""
    stored, rows = gray_rows(pixels) if color == "gray" else stored_rows(pixels)
    upright = cv2.flip(stored, 0) if rows == "bottom_up" else stored
    if upright.ndim == 2:
        plane = upright[:, :, None]
        return simplejpeg.encode_jpeg(plane, quality=quality, colorspace="GRAY", colorsubsampling="Gray"), "gray8"
    return simplejpeg.encode_jpeg(upright, quality=quality, colorspace="RGB", colorsubsampling="420"), "rgb8"
