"""Measures of a renderer's answers: pictures a second, time per picture, share of its time, repeated pictures."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import Transform, q_conj, q_log, q_mul
from vil_bridge.core.types import ImageArray, RenderedFrame, RenderedImage

_WINDOW_NS: Final = 2 * NS_PER_S
_REMEMBERED_NS: Final = 60 * NS_PER_S
"""A camera's time per picture is forgotten after this, so that a renderer that was slow once is tried again."""
_GAIN: Final = 0.1

_EVERY: Final = 8
_FEW: Final = slice(128, None, 256)
"""Rows that show already that most pictures differ: those of a picture just received are in no cache yet."""
_LEAST_REPEATS: Final = 3
_LEAST_NS: Final = 200 * NS_PER_MS
_MOVED_PX: Final = 3.0
_FAR_M: Final = 100.0
"""Nothing that matters is farther: a translation moves pictures at least as if all stood there."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The last 2 s of a renderer.

    Attributes:
        render_ns: mean time per answer, None without any.
        utilisation: share of the time that it worked, 0 to 1.
    """

    pictures_hz: float
    render_ns: float | None
    utilisation: float


class RendererLoad:
    """Measures one renderer; its link's thread adds, any thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: deque[tuple[int, int, int]] = deque()
        self._picture_ns: dict[str, tuple[float, int]] = {}
        self._t_image_ns = 0

    def add(self, frame: RenderedFrame) -> None:
        """Account an answer."""
        busy_ns = self._busy_ns(frame)
        self._t_image_ns = frame.t_image_ns
        pixels: dict[str, int] = {}
        for image in frame.images:
            name, (height, width) = image.view.camera.name, image.pixels.shape[:2]
            pixels[name] = pixels.get(name, 0) + height * width
        with self._lock:
            self._recent.append((frame.t_image_ns, busy_ns, len(frame.images)))
            while frame.t_image_ns - self._recent[0][0] > _WINDOW_NS:
                self._recent.popleft()
            for name, count in pixels.items():
                self._learn(name, busy_ns * count / sum(pixels.values()), frame.t_image_ns)

    def picture_ns(self, camera: str, t_ns: int) -> float | None:
        """Mean time per picture of a camera, all modalities; None when it was not drawn here for 60 s."""
        value, newest_ns = self._picture_ns.get(camera, (0.0, -_REMEMBERED_NS))
        return value if t_ns - newest_ns < _REMEMBERED_NS else None

    def report(self, t_ns: int) -> LoadReport:
        """Return the figures as of now."""
        with self._lock:
            recent = [row for row in self._recent if t_ns - row[0] <= _WINDOW_NS]
        busy_ns = sum(busy for _, busy, _ in recent)
        return LoadReport(
            pictures_hz=sum(pictures for *_, pictures in recent) * NS_PER_S / _WINDOW_NS,
            render_ns=busy_ns / len(recent) if recent else None,
            utilisation=min(1.0, busy_ns / _WINDOW_NS),
        )

    def _busy_ns(self, frame: RenderedFrame) -> int:
        """Return how long the renderer worked: as it says, else since it had this request and nothing else to do."""
        longest_ns = frame.t_image_ns - frame.request.t_request_ns
        if frame.render_ns is None:
            return min(longest_ns, frame.t_image_ns - self._t_image_ns)
        return max(0, min(longest_ns, frame.render_ns))

    def _learn(self, camera: str, cost_ns: float, t_ns: int) -> None:
        value, newest_ns = self._picture_ns.get(camera, (cost_ns, t_ns))
        if t_ns - newest_ns >= _REMEMBERED_NS:
            value = cost_ns
        self._picture_ns[camera] = value + _GAIN * (cost_ns - value), t_ns


class PictureFreeze:
    """Judge of one camera's pictures, by a checksum of every eighth row where the bytes of a few rows repeat.

    They are frozen when three or more repeat one for 0.2 s, the camera has moved by more than 3 pixels since, and
    the picture has contrast along rows and columns: a camera at rest, plain sky and a bare wall may repeat themselves.

    Attributes:
        description: what was seen, while pictures are frozen; empty otherwise.
    """

    def __init__(self) -> None:
        self.description = ""
        self._few: bytes | None = None
        self._checksum = -1
        self._repeats = 0
        self._since_ns = 0
        self._first = Transform.identity()

    def check(self, image: RenderedImage, t_ns: int) -> bool:
        """Account the next picture, asked for at ``t_ns``; return True while pictures are frozen."""
        if not self._repeats_last(image.pixels):
            self.description, self._repeats = "", 0
            self._since_ns, self._first = t_ns, image.view.T_world_camera
            return False
        self._repeats += 1
        standing_ns = t_ns - self._since_ns
        if self._repeats < _LEAST_REPEATS or standing_ns < _LEAST_NS:
            return False
        moved_px = _moved_px(image, self._first)
        if not self.description and (moved_px <= _MOVED_PX or not _has_contrast(image.pixels)):
            return False
        self.description = f"the same for {standing_ns / NS_PER_S:.1f} s, while the view moved by {moved_px:.0f} px"
        return True

    def _repeats_last(self, pixels: ImageArray) -> bool:
        """Return True when the picture is the last one again; the first repetition is known by few rows only."""
        few, known = pixels[_FEW].tobytes(), self._checksum
        if few != self._few:
            self._few, self._checksum = few, -1
            return False
        self._checksum = _checksum(pixels[::_EVERY])
        return known in (-1, self._checksum)


def _checksum(rows: ImageArray) -> int:
    return crc32(np.ascontiguousarray(rows).data)


def _moved_px(image: RenderedImage, before: Transform) -> float:
    """Return how far the picture's centre moved at least since the camera was there."""
    now, (fx_px, *_) = image.view.T_world_camera, image.view.camera.intrinsics_px
    turned_rad = float(np.linalg.norm(q_log(q_mul(q_conj(before.q_xyzw), now.q_xyzw))))
    return fx_px * (turned_rad + float(np.linalg.norm(now.p_m - before.p_m)) / _FAR_M)


def _has_contrast(pixels: ImageArray) -> bool:
    """Return True when the picture varies along some row and along some column."""
    sample = pixels[::_EVERY, ::_EVERY]
    return bool((sample != sample[:, :1]).any() and (sample != sample[:1]).any())
