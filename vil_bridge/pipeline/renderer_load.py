"""Measures of a renderer's answers.

Pictures a second, time per picture, share of its time, repeated pictures.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ImageArray, RenderedFrame, RenderedImage
from vil_bridge.pipeline.warp.homography import homography, rotation_translation
from vil_bridge.pipeline.warp.plane_fit import DEFAULT_PLANE_DEPTH_M

_WINDOW_NS: Final = 2 * NS_PER_S
_REMEMBERED_NS: Final = 60 * NS_PER_S
"""A camera's time per picture is forgotten after this, so that a renderer that was slow once is
tried again.
"""
_GAIN: Final = 0.1

_EVERY: Final = 8
_FEW: Final = 5
"""Rows that show already that most pictures differ.

Those of a picture just received are in no cache yet.
"""
_REMEMBERED: Final = 8
"""Pictures among which a repetition is looked for.

The longest that is found has so many in turn.
"""
_LEAST_REPEATS: Final = 3
_MOVED_PX: Final = 5.0
_LEAST_SCALE: Final = 1e-3
"""Of a point's depth: what is nearer to the camera's plane, or behind it, has left the view."""
_TEXTURE_STEP: Final = 4
_SHADING: Final = 4
"""Levels of 255 that a sky's glow or a lens's vignetting may differ by over 5 pixels."""
_SHIFTS: Final = ((5, 0), (5, 2), (4, 4), (2, 5), (0, 5), (-2, 5), (-4, 4), (-5, 2))
"""x and y of shifts by 5 pixels, 22.5 degrees apart; the opposite ones say the same."""


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
        """Mean time per picture of a camera, all modalities.

        None when it was not drawn here for 60 s.
        """
        value, newest_ns = self._picture_ns.get(camera, (0.0, -_REMEMBERED_NS))
        return value if t_ns - newest_ns < _REMEMBERED_NS else None

    def report(self, t_ns: int) -> LoadReport:
        """Return the figures as of now."""
        with self._lock:
            recent = [row for row in self._recent if t_ns - row[0] <= _WINDOW_NS]
        busy_ns = sum(busy for _, busy, _ in recent)
        render_ns: float | None = None
        if recent:
            render_ns = busy_ns / len(recent)
        return LoadReport(
            pictures_hz=sum(pictures for *_, pictures in recent) * NS_PER_S / _WINDOW_NS,
            render_ns=render_ns,
            utilisation=min(1.0, busy_ns / _WINDOW_NS),
        )

    def _busy_ns(self, frame: RenderedFrame) -> int:
        """Return how long the renderer worked.

        As it says, else since it had this request and nothing else to do.
        """
        longest_ns = frame.t_image_ns - frame.request.t_request_ns
        if frame.render_ns is None:
            return min(longest_ns, frame.t_image_ns - self._t_image_ns)
        return max(0, min(longest_ns, frame.render_ns))

    def _learn(self, camera: str, cost_ns: float, t_ns: int) -> None:
        value, newest_ns = self._picture_ns.get(camera, (cost_ns, t_ns))
        if t_ns - newest_ns >= _REMEMBERED_NS:
            value = cost_ns
        self._picture_ns[camera] = value + _GAIN * (cost_ns - value), t_ns


@dataclass(slots=True, eq=False)
class _Known:
    """One of the newest pictures that differ from each other.

    Attributes:
        few: its rows that are looked at first.
        checksum: of every eighth row; None = not needed yet.
        T_world_camera: the camera when it came first.
        textured: whether a motion would change it; None = not needed yet.
    """

    few: bytes
    checksum: int | None
    T_world_camera: Transform
    textured: bool | None = None


class PictureFreeze:
    """Judge of one camera's pictures, by a checksum of every eighth row where the bytes of a few
    rows repeat.

    They are frozen when three in a row or more are among the newest eight that came before, in
    whatever order, and one of them came first for a view that was 5 pixels away or more. The motion
    follows from poses and intrinsics. It must be one that changes the picture: a camera at rest,
    plain sky, a horizon and a bare wall may repeat themselves.

    Args:
        plane_depth_m: distance at which a translation is judged.

    Attributes:
        description: what was seen, while pictures are frozen; empty otherwise.
    """

    def __init__(self, plane_depth_m: float = DEFAULT_PLANE_DEPTH_M) -> None:
        self.description = ""
        self._plane_depth_m = plane_depth_m
        self._known: list[_Known] = []
        self._repeats = 0
        self._in_turn = 0
        self._moved_px = 0.0
        self._since_ns = 0

    def check(self, image: RenderedImage, t_ns: int) -> bool:
        """Account the next picture, asked for at ``t_ns``.

        Return True while pictures are frozen.
        """
        found = self._find(image)
        if found is None:
            self.description = ""
            self._repeats = 0
            self._in_turn = 0
            self._moved_px = 0.0
            self._since_ns = t_ns
            return False
        self._in_turn = max(self._in_turn, len(self._known) - self._known.index(found))
        self._known.remove(found)
        self._known.append(found)
        self._repeats += 1
        if self._repeats < _LEAST_REPEATS:
            return False
        self._moved_px = max(self._moved_px, self._needless_px(image, found))
        if self._moved_px < _MOVED_PX:
            return False
        seconds = (
            f"{(t_ns - self._since_ns) / NS_PER_S:.1f} s, while the view moved by "
            f"{self._moved_px:.0f} px"
        )
        if self._in_turn == 1:
            self.description = f"repeats its picture, the same for {seconds}"
        else:
            self.description = f"repeats {self._in_turn} pictures, the same for {seconds}"
        return True

    def _find(self, image: RenderedImage) -> _Known | None:
        """Return the known picture that this one is again; None = it is new, and known from now on.

        The first repetition of a picture is known by few rows only.
        """
        few = image.pixels[_few_rows(image.pixels.shape[0])].tobytes()
        alike = [known for known in self._known if known.few == few]
        checksum = None
        if alike:
            checksum = _checksum(image.pixels[::_EVERY])
        for known in reversed(alike):
            if known.checksum in (None, checksum):
                known.checksum = checksum
                return known
        self._known.append(_Known(few, checksum, image.view.T_world_camera))
        if len(self._known) > _REMEMBERED:
            self._known.pop(0)
        return None

    def _needless_px(self, image: RenderedImage, known: _Known) -> float:
        """Return how far a picture should have moved since it came first, pixels.

        0 for one without texture.
        """
        moved_px = _moved_px(image, known.T_world_camera, self._plane_depth_m)
        if moved_px < _MOVED_PX:
            return 0.0
        if known.textured is None:
            known.textured = _is_textured(image.pixels)
        return moved_px if known.textured else 0.0


def _few_rows(height: int) -> slice:
    """Return a few of every eighth row, from the top to the bottom.

    Of a low picture all of them.
    """
    step = max(1, height // _FEW // _EVERY) * _EVERY
    return slice(step // 2 // _EVERY * _EVERY, None, step)


def _checksum(rows: ImageArray) -> int:
    return crc32(np.ascontiguousarray(rows).data)


def _moved_px(image: RenderedImage, before: Transform, plane_depth_m: float) -> float:
    """Return the mean motion of nine points of a picture since the camera was at ``before``,
    pixels.

    What left the view counts as the picture's width.
    """
    camera = image.view.camera
    K = camera.K
    R_rn, dp_render_m = rotation_translation(before, image.view.T_world_camera)
    H = homography(K, R_rn, dp_render_m, plane_depth_m)
    u_px, v_px = np.meshgrid(
        np.linspace(0.0, camera.width_px - 1.0, 3), np.linspace(0.0, camera.height_px - 1.0, 3)
    )
    points = np.stack([u_px.ravel(), v_px.ravel(), np.ones(9)])
    seen = H @ points
    longest_px = float(camera.width_px)
    in_front = seen[2] > _LEAST_SCALE
    shifts_px = np.full(9, longest_px)
    shifts = seen[:2, in_front] / seen[2, in_front] - points[:2, in_front]
    shifts_px[in_front] = np.minimum(np.hypot(shifts[0], shifts[1]), longest_px)
    return float(shifts_px.mean())


def _is_textured(pixels: ImageArray) -> bool:
    """Return True when a picture changes by each shift of 5 pixels.

    Not for plain sky, a horizon or one colour.

    A pixel changes when it becomes another than all its neighbours are, by more than a smooth
    shading.
    """
    tolerance = _SHADING if pixels.dtype == np.uint8 else 0
    wide = pixels if pixels.dtype.kind == "f" else pixels.astype(np.int64)
    reach = round(_MOVED_PX)
    height, width = pixels.shape[:2]
    if min(height, width) <= 2 * reach:
        return False
    rows = np.arange(reach, height - reach, _TEXTURE_STEP)[:, None]
    columns = np.arange(reach, width - reach, _TEXTURE_STEP)
    around = np.stack([wide[rows + dy, columns + dx] for dy in (-1, 0, 1) for dx in (-1, 0, 1)])
    lowest = around.min(axis=0) - tolerance
    highest = around.max(axis=0) + tolerance
    for dx, dy in _SHIFTS:
        shifted = wide[rows + dy, columns + dx]
        if not ((shifted < lowest) | (shifted > highest)).any():
            return False
    return True
