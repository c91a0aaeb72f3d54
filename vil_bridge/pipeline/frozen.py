"""Pictures that a renderer repeats although their camera moved."""

from __future__ import annotations

from typing import Final
from zlib import crc32

import numpy as np

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import Transform, q_conj, q_log, q_mul
from vil_bridge.core.types import ImageArray, RenderedImage

__all__ = ["PictureFreeze"]

_EVERY: Final = 8
_LEAST_REPEATS: Final = 3
_LEAST_NS: Final = 200 * NS_PER_MS
_MOVED_PX: Final = 3.0
_FAR_M: Final = 100.0
"""Nothing that matters is farther: a translation moves pictures at least as if all stood there."""


class PictureFreeze:
    """Judge of one camera's pictures, by a checksum of every eighth row.

    They are frozen when three or more repeat one for 0.2 s, the camera has moved by more than 3 pixels since, and
    the picture has contrast along rows and columns: a camera at rest, plain sky and a bare wall may repeat themselves.

    Attributes:
        words: what was seen, while pictures are frozen; empty otherwise.
    """

    def __init__(self) -> None:
        self.words = ""
        self._checksum = -1
        self._repeats = 0
        self._since_ns = 0
        self._first = Transform.identity()

    def holds(self, image: RenderedImage, t_ns: int) -> bool:
        """Account the next picture, asked for at ``t_ns``; return True while pictures are frozen."""
        checksum = crc32(np.ascontiguousarray(image.pixels[::_EVERY]).data)
        if checksum != self._checksum:
            self.words, self._checksum, self._repeats = "", checksum, 0
            self._since_ns, self._first = t_ns, image.view.T_world_camera
            return False
        self._repeats += 1
        standing_ns = t_ns - self._since_ns
        if self._repeats < _LEAST_REPEATS or standing_ns < _LEAST_NS:
            return False
        moved_px = _moved_px(image, self._first)
        if not self.words and (moved_px <= _MOVED_PX or not _has_contrast(image.pixels)):
            return False
        self.words = f"the same for {standing_ns / NS_PER_S:.1f} s, while the view moved by {moved_px:.0f} px"
        return True


def _moved_px(image: RenderedImage, before: Transform) -> float:
    """Return how far the picture's centre moved at least since the camera was there."""
    now, (fx_px, *_) = image.view.T_world_camera, image.view.camera.intrinsics_px
    turned_rad = float(np.linalg.norm(q_log(q_mul(q_conj(before.q_xyzw), now.q_xyzw))))
    return fx_px * (turned_rad + float(np.linalg.norm(now.p_m - before.p_m)) / _FAR_M)


def _has_contrast(pixels: ImageArray) -> bool:
    """Return True when the picture varies along some row and along some column."""
    sample = pixels[::_EVERY, ::_EVERY]
    return bool((sample != sample[:, :1]).any() and (sample != sample[:1]).any())
