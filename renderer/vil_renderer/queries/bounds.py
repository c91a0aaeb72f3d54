"""Bounds on questions to a scene, checked before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypedDict

import numpy as np

from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray, Modality, View
from vil_bridge.interfaces.scene_queries import MarkerKind, SceneMarker
from vil_renderer.queries.messages import (
    MOST_BYTES,
    MOST_MARKED_POINTS,
    MOST_PIXELS_ALONG,
    MOST_RAYS,
    MOST_VIEWS,
)

_LARGEST_MARKER_PX: Final = 64
_LONGEST_TEXT: Final = 256
_BYTES_PER_PIXEL: Final = {
    Modality.RGB: 3,
    Modality.GRAY: 1,
    Modality.RGBA: 4,
    Modality.DEPTH: 2,
    Modality.DEPTH32: 4,
    Modality.NORMALS: 6,
    Modality.SEMANTIC: 2,
    Modality.INSTANCE: 2,
    Modality.FLOW: 9,
}


class PoseFields(TypedDict):
    """A pose as fields of :class:`ObjectState`."""

    p_m: tuple[float, float, float]
    q_xyzw: tuple[float, float, float, float]


def pose_fields(T: Transform) -> PoseFields:
    """Return a pose as fields of :class:`ObjectState`.

    Raises:
        RendererError: it is not finite.
    """
    if not (np.isfinite(T.p_m).all() and np.isfinite(T.q_xyzw).all() and T.q_xyzw.any()):
        raise RendererError("an object's pose is not finite. Give numbers")
    px, py, pz = T.p_m.tolist()
    qx, qy, qz, qw = T.q_xyzw.tolist()
    return {"p_m": (px, py, pz), "q_xyzw": (qx, qy, qz, qw)}


def checked_scale(scale: tuple[float, float, float]) -> tuple[float, float, float]:
    """Return a scale. Raises RendererError: it is not positive."""
    if not all(0.0 < factor < math.inf for factor in scale):
        raise RendererError(f"an object's scale is {scale}. Give three positive numbers")
    return scale


def check_views(views: Sequence[View]) -> None:
    """Refuse views that take too much memory or have no pose.

    Raises:
        RendererError: the message names the bound.
    """
    if len(views) > MOST_VIEWS:
        raise RendererError(f"{len(views)} pictures in a request. Ask for at most {MOST_VIEWS}")
    total = 0
    for view in views:
        camera = view.camera
        T = view.T_world_camera
        if not (
            0 < camera.width_px <= MOST_PIXELS_ALONG and 0 < camera.height_px <= MOST_PIXELS_ALONG
        ):
            size = f"{camera.width_px}x{camera.height_px}"
            raise RendererError(
                f"{camera.name}: {size} pixels. Ask for 1x1 to "
                f"{MOST_PIXELS_ALONG}x{MOST_PIXELS_ALONG}"
            )
        q_xyzw = T.q_xyzw.tolist()
        if not (all(map(math.isfinite, (*T.p_m.tolist(), *q_xyzw))) and any(q_xyzw)):
            raise RendererError(f"{camera.name}: the camera's pose is not finite. Give numbers")
        if not all(map(math.isfinite, camera.intrinsics_px)):
            raise RendererError(
                f"{camera.name}: the focal length is not finite. Choose another field of view"
            )
        total += camera.width_px * camera.height_px * _BYTES_PER_PIXEL[view.modality]
    if total > MOST_BYTES:
        raise RendererError(
            f"pictures of {total >> 20} MiB in a request. Ask for at most {MOST_BYTES >> 20} MiB"
        )


def checked_rays(vectors: FloatArray) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return vectors (n, 3) as float32.

    Raises:
        RendererError: they are too many, of another shape, or not finite.
    """
    if vectors.ndim != 2 or vectors.shape[1] != 3:
        raise RendererError(f"rays of shape {vectors.shape}. Give (n, 3)")
    if len(vectors) > MOST_RAYS:
        raise RendererError(f"{len(vectors)} rays in a request. Ask for at most {MOST_RAYS}")
    rays = np.ascontiguousarray(vectors, np.float32)
    if not np.isfinite(rays).all():
        raise RendererError("rays that are not finite. Give numbers")
    return rays


def check_marker(marker: SceneMarker) -> None:
    """Refuse a marker that cannot be drawn.

    Raises:
        RendererError: the message names what is wrong.
    """
    p_m = marker.p_m
    count = len(marker.p_m)
    if p_m.ndim != 2 or p_m.shape[1] != 3 or not np.isfinite(p_m).all():
        raise RendererError(
            f"a marker with points of shape {p_m.shape}. Give (n, 3), and finite numbers"
        )
    if count > MOST_MARKED_POINTS:
        raise RendererError(f"a marker of {count} points. Give at most {MOST_MARKED_POINTS}")
    if marker.kind is MarkerKind.LINES and count % 2:
        raise RendererError(f"lines through {count} points. Give two points for each")
    if marker.kind is MarkerKind.TEXT and (
        len(marker.texts) != count or max(map(len, marker.texts), default=0) > _LONGEST_TEXT
    ):
        raise RendererError(
            f"{len(marker.texts)} texts at {count} points. Give one for each, "
            f"{_LONGEST_TEXT} letters long"
        )
    if not 1 <= marker.size_px <= _LARGEST_MARKER_PX or not all(
        0 <= level <= 255 for level in marker.colour
    ):
        raise RendererError(
            f"a marker of {marker.size_px} px in {marker.colour}. Give 1..64 and levels of 0..255"
        )
