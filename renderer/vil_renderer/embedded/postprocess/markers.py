"""Points, lines and words of programs, drawn into finished pictures where no surface is nearer."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress
from typing import Final

import cv2
import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, FloatArray
from vil_bridge.interfaces.scene_queries import MarkerKind, SceneMarker
from vil_renderer.embedded.optics.camera import NEAR_M
from vil_renderer.embedded.optics.lens import in_picture, project

_NEARER: Final = 1.002
_NEARER_M: Final = 0.01
"""A marker that lies on a surface is in front of it."""
_MARGIN: Final = 1.3
"""Lines are cut at this multiple of the ideal picture, since a lens shows more or less of them."""
_MOST_SAMPLES: Final = 2_000_000
_TEXT_PX: Final = 22.0
"""Height of OpenCV's letters at scale 1."""


def draw_markers(
    rgb: npt.NDArray[np.uint8],
    z_m: npt.NDArray[np.float32],
    camera: CameraModel,
    T_world_camera: Transform,
    markers: Iterable[SceneMarker],
) -> None:
    """Draw markers into a picture (h, w, 3) with its z-depth (h, w), both through the camera's
    lens.
    """
    T_camera_world = T_world_camera.inverse()
    for marker in markers:
        p_m = T_camera_world.apply(marker.p_m)
        if marker.kind is MarkerKind.LINES:
            p_m = _along(camera, p_m[0::2], p_m[1::2])
        elif marker.kind is MarkerKind.TEXT:
            _write(rgb, z_m, camera, p_m, marker)
            continue
        p_m = p_m[in_picture(camera, p_m)]
        _dots(rgb, z_m, project(camera, p_m), p_m[:, 2], marker)


def _along(camera: CameraModel, a: FloatArray, b: FloatArray) -> FloatArray:
    """Return points (n, 3) of lines from (m, 3) to (m, 3), optical axes, a pixel apart, within
    the picture.
    """
    a, b = _ahead(a, b)
    # x/z, y/z and 1/z run evenly along the picture of a line.
    from_, to = (np.column_stack((p[:, :2] / p[:, 2:], 1.0 / p[:, 2])) for p in (a, b))
    start, end = _within(camera, from_[:, :2], to[:, :2])
    from_, to = from_ + start[:, None] * (to - from_), from_ + end[:, None] * (to - from_)
    shown = end > start
    from_ = from_[shown]
    to = to[shown]
    f_px = max(camera.intrinsics_px[:2])
    count = np.ceil(f_px * np.abs(to - from_)[:, :2].max(axis=1, initial=0.0)).astype(np.int64) + 2
    count = count[np.cumsum(count) <= _MOST_SAMPLES]
    line = np.repeat(np.arange(len(count)), count)
    number = np.arange(len(line)) - np.repeat(np.cumsum(count) - count, count)
    mixed = from_[line] + (number / (count[line] - 1))[:, None] * (to[line] - from_[line])
    return np.asarray(np.column_stack((mixed[:, :2], np.ones(len(mixed)))) / mixed[:, 2:])


def _ahead(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Cut lines at the near plane; those behind it are left out."""
    near = 1.01 * NEAR_M
    some = np.maximum(a[:, 2], b[:, 2]) > near
    a = a[some]
    b = b[some]
    step = b[:, 2] - a[:, 2]
    at = np.divide(near - a[:, 2], step, out=np.zeros(len(a)), where=step != 0.0)[:, None]
    cut = a + at * (b - a)
    return np.where(a[:, 2:] < near, cut, a), np.where(b[:, 2:] < near, cut, b)


def _within(camera: CameraModel, a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the first and the last share (m,) of lines that lies in the picture.

    Liang and Barsky 1984.
    """
    fx, fy, cx, cy = camera.intrinsics_px
    size = np.array([camera.width_px, camera.height_px])
    focal = np.array([fx, fy])
    centre = np.array([cx, cy])
    low = -_MARGIN * (centre + 1.0) / focal
    high = _MARGIN * (size - centre) / focal
    step = b - a
    with np.errstate(divide="ignore", invalid="ignore"):
        enter = (low - a) / step
        leave = (high - a) / step
    first = np.minimum(enter, leave)
    last = np.maximum(enter, leave)
    flat = step == 0.0
    inside = (a >= low) & (a <= high)
    first = np.where(flat, np.where(inside, 0.0, 2.0), first)
    last = np.where(flat, np.where(inside, 1.0, -1.0), last)
    return np.maximum(first.max(axis=1, initial=0.0), 0.0), np.minimum(
        last.min(axis=1, initial=1.0), 1.0
    )


def _dots(
    rgb: npt.NDArray[np.uint8],
    z_m: npt.NDArray[np.float32],
    at_px: FloatArray,
    depth_m: FloatArray,
    marker: SceneMarker,
) -> None:
    """Draw squares about pixels (n, 2) whose depths are (n,)."""
    height, width = z_m.shape
    reach = np.arange(marker.size_px) - (marker.size_px - 1) // 2
    place = np.rint(at_px).astype(np.int64)
    near_m = depth_m / _NEARER - _NEARER_M
    for dv in reach.tolist():
        for du in reach.tolist():
            u = place[:, 0] + du
            v = place[:, 1] + dv
            inside = (u >= 0) & (u < width) & (v >= 0) & (v < height)
            u = u[inside]
            v = v[inside]
            near = near_m[inside]
            shown = near <= z_m[v, u]
            rgb[v[shown], u[shown]] = marker.colour


def _write(
    rgb: npt.NDArray[np.uint8],
    z_m: npt.NDArray[np.float32],
    camera: CameraModel,
    p_m: FloatArray,
    marker: SceneMarker,
) -> None:
    """Write words that begin at points (n, 3), optical axes."""
    height, width = z_m.shape
    shown = in_picture(camera, p_m)
    seen_m = p_m[shown]
    places = np.rint(project(camera, seen_m)).astype(np.int64)
    texts = compress(marker.texts, shown)
    for (u, v), depth_m, text in zip(places.tolist(), seen_m[:, 2], texts, strict=True):
        if (
            depth_m / _NEARER - _NEARER_M
            <= z_m[min(max(v, 0), height - 1), min(max(u, 0), width - 1)]
        ):
            cv2.putText(
                rgb,
                text,
                (u, v),
                cv2.FONT_HERSHEY_SIMPLEX,
                marker.size_px / _TEXT_PX,
                marker.colour,
            )
