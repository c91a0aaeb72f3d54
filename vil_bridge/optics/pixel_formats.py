"""Memory layout of the pixels of each modality.

One table for messages, shared memory and streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.types import DEPTH_NO_HIT, BoolArray, ImageArray, Modality


class PixelFormat(NamedTuple):
    """One kind of pixel.

    Attributes:
        name: on our wires.
        dtype: of one channel, NumPy's name, little-endian.
        channels: values per pixel; with one, pictures have the shape (h, w), else (h, w, channels).
        masked: a picture has a validity mask, (h, w) bool, as a second array.
        empty: value of all channels where there is nothing to see.
    """

    name: str
    dtype: str
    channels: int
    masked: bool = False
    empty: int = 0

    def shape(self, width_px: int, height_px: int) -> tuple[int, ...]:
        """Return the shape of a picture's array."""
        size = (height_px, width_px)
        return size if self.channels == 1 else (*size, self.channels)

    @property
    def bytes_per_px(self) -> int:
        """Without the mask, which has one byte per pixel more."""
        return self.channels * np.dtype(self.dtype).itemsize

    def nbytes(self, width_px: int, height_px: int) -> int:
        """Return the size of a picture in bytes, its mask included."""
        return width_px * height_px * (self.bytes_per_px + self.masked)

    def fits(self, pixels: ImageArray, valid: BoolArray | None = None) -> bool:
        """Return True when the arrays are a picture of this kind."""
        height_px, width_px = pixels.shape[:2]
        mask_fits = (
            valid is None
            if not self.masked
            else valid is not None and valid.shape == (height_px, width_px)
        )
        return (
            pixels.dtype == _DTYPES[self.dtype]
            and pixels.shape == self.shape(width_px, height_px)
            and mask_fits
        )


RGB8: Final = PixelFormat("rgb8", "u1", 3)
GRAY8: Final = PixelFormat("gray8", "u1", 1)
_IDS16: Final = PixelFormat("ids16", "<u2", 1)

FORMAT_OF: Final[Mapping[Modality, PixelFormat]] = {
    Modality.RGB: RGB8,
    Modality.GRAY: GRAY8,
    Modality.RGBA: PixelFormat("rgba8", "u1", 4),
    Modality.DEPTH: PixelFormat("depth16", "<u2", 1, empty=DEPTH_NO_HIT),
    Modality.DEPTH32: PixelFormat("depth32f", "<f4", 1, empty=100),
    Modality.NORMALS: PixelFormat("normals16f", "<f2", 3),
    Modality.SEMANTIC: _IDS16,
    Modality.INSTANCE: _IDS16,
    Modality.FLOW: PixelFormat("flow32f", "<f4", 2, masked=True),
}
_DTYPES: Final = {format_.dtype: np.dtype(format_.dtype) for format_ in FORMAT_OF.values()}
PIXEL_FORMATS: Final[Mapping[str, PixelFormat]] = {
    format_.name: format_ for format_ in FORMAT_OF.values()
}


def empty_picture(camera: CameraModel, modality: Modality) -> ImageArray:
    """Return a picture that shows nothing: black, no hit, no id, no motion."""
    made = FORMAT_OF[modality]
    return np.full(made.shape(camera.width_px, camera.height_px), made.empty, made.dtype)
