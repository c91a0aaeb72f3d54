"""OpenCV's warps of pictures, RGB as four channels.

Its kernels sample four channels at once and three one by one: with the way there and back, RGB
costs two thirds to half as much, and every value is the same (docs/develop/benchmarks.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vil_bridge.core.types import FloatArray, ImageArray
from vil_bridge.protocols import opencv as cv2


class _Scratch(threading.local):
    """Pictures of four channels, one of each size per thread, since fresh memory is what costs
    most.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, int], ImageArray] = {}

    def of(self, use: str, height_px: int, width_px: int) -> ImageArray:
        key = use, height_px, width_px
        if key not in self._kept:
            self._kept = {k: v for k, v in self._kept.items() if k[0] != use} | {
                key: np.empty((height_px, width_px, 4), np.uint8)
            }
        return self._kept[key]


_scratch = _Scratch()


def by_homography(
    image: ImageArray, H: FloatArray, size_px: tuple[int, int], interpolation: int
) -> ImageArray:
    """``cv2.warpPerspective``; 0 outside. Releases the GIL.

    Args:
        image: (h, w) or (h, w, channels), possibly upside down in memory.
        H: forward map from pixels of ``image`` to pixels of the result.
        size_px: width and height of the result.
        interpolation: OpenCV's.
    """
    rows, flipped = _upright(image)
    if flipped:
        H = H @ np.array([[1.0, 0.0, 0.0], [0.0, -1.0, image.shape[0] - 1.0], [0.0, 0.0, 1.0]])

    def warp(pixels: ImageArray, into: ImageArray | None) -> Any:
        return cv2.warpPerspective(
            pixels, H, size_px, dst=into, flags=interpolation, borderMode=cv2.BORDER_CONSTANT
        )

    return _four_at_once(rows, size_px, warp)


def by_map(
    image: ImageArray,
    x_px: ImageArray,
    y_px: ImageArray,
    interpolation: int,
    outside: Sequence[float],
) -> ImageArray:
    """``cv2.remap``. Releases the GIL.

    Args:
        image: (h, w) or (h, w, channels), possibly upside down in memory.
        x_px: float32 (m, n): column in which each pixel of the result is found.
        y_px: float32 (m, n): its row.
        interpolation: OpenCV's.
        outside: value of up to four channels where the map leaves the picture.
    """
    rows, flipped = _upright(image)
    v_px = np.float32(image.shape[0] - 1) - y_px if flipped else y_px

    def remap(pixels: ImageArray, into: ImageArray | None) -> Any:
        return cv2.remap(
            pixels,
            x_px,
            v_px,
            interpolation,
            dst=into,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=outside,
        )

    return _four_at_once(rows, (x_px.shape[1], x_px.shape[0]), remap)


def _upright(image: ImageArray) -> tuple[ImageArray, bool]:
    """Rows in memory order, and whether that is upside down.

    A flip folded into the map costs no copy.
    """
    flipped = image.strides[0] < 0
    return (image[::-1] if flipped else image), flipped


def _four_at_once(
    rows: ImageArray,
    size_px: tuple[int, int],
    sample: Callable[[ImageArray, ImageArray | None], ImageArray],
) -> ImageArray:
    if rows.dtype != np.uint8 or rows.ndim != 3 or rows.shape[2] != 3:
        return sample(rows, None)
    wide = cv2.cvtColor(rows, cv2.COLOR_RGB2RGBA, dst=_scratch.of("source", *rows.shape[:2]))
    moved = sample(wide, _scratch.of("result", size_px[1], size_px[0]))
    narrow: ImageArray = cv2.cvtColor(moved, cv2.COLOR_RGBA2RGB)
    return narrow
