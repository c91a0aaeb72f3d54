"""Late warp by a plane-induced homography (FlightGoggles paper, section VII-D).

The picture was rendered for the camera pose at time r and is to look as if rendered at time n.
With R_rn mapping now-camera to render-camera coordinates and dp the displacement of the camera
centre in the render camera's axes, a point obeys X_n = R_rn^T (X_r - dp). On the plane m^T X_r = d,
that is X_n = (R_rn^T + t m^T / d) X_r with t = -R_rn^T dp, hence H = K (R_rn^T + t m^T / d) K^-1,
which maps render pixels to now pixels. The paper's formula is the plane m = e3. A bare ``t`` is
never an argument here: its frame and sign are too easily mistaken.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform, q_conj, q_mul, q_rotate, q_to_matrix
from vil_bridge.core.types import FloatArray, ImageArray
from vil_bridge.pipeline.warp.opencv_remap import by_homography

_Polygon = list[tuple[float, float, float]]

_E3: Final[FloatArray] = np.array([0.0, 0.0, 1.0])


def rotation_translation(T_world_render: Transform, T_world_now: Transform) -> tuple[FloatArray, FloatArray]:
    """R_rn, shape (3, 3), and the displacement dp in the render camera's axes, shape (3,), metres.

    Args:
        T_world_render: pose of the optical camera (x right, y down, z forward) of the picture.
        T_world_now: pose that the picture is to be shown for.
    """
    q_render_world = q_conj(T_world_render.q_xyzw)
    R_rn = q_to_matrix(q_mul(q_render_world, T_world_now.q_xyzw))
    return R_rn, q_rotate(q_render_world, T_world_now.p_m - T_world_render.p_m)


def rotation_angle_rad(T_world_render: Transform, T_world_now: Transform) -> float:
    """Angle between two attitudes."""
    x, y, z, w = q_mul(q_conj(T_world_render.q_xyzw), T_world_now.q_xyzw).tolist()
    return 2.0 * math.atan2(math.hypot(x, y, z), abs(w))


def homography(
    K: FloatArray,
    R_rn: FloatArray,
    dp_render_m: FloatArray,
    d_m: float,
    normal: FloatArray = _E3,
    K_shown: FloatArray | None = None,
) -> FloatArray:
    """H, shape (3, 3), from render pixels to now pixels, exact for points of the plane.

    Args:
        K: intrinsic matrix of the rendered picture.
        R_rn: from :func:`rotation_translation`.
        dp_render_m: from the same.
        d_m: distance of the plane from the render camera along ``normal``, > 0.
        normal: shape (3,), unit normal of the plane in the render camera's axes.
        K_shown: intrinsic matrix of the picture shown; None = the same.
    """
    t_now_m = -R_rn.T @ dp_render_m
    H: FloatArray = (K if K_shown is None else K_shown) @ (R_rn.T + np.outer(t_now_m, normal) / d_m) @ np.linalg.inv(K)
    return H


def rotation_homography(K: FloatArray, R_rn: FloatArray, K_shown: FloatArray | None = None) -> FloatArray:
    """H for a scene infinitely far away: rotation alone."""
    H: FloatArray = (K if K_shown is None else K_shown) @ R_rn.T @ np.linalg.inv(K)
    return H


def warp(image: ImageArray, H: FloatArray, size_px: tuple[int, int], covered: float, interpolation: int) -> ImageArray:
    """Apply a homography; black where the rendered picture has nothing. Releases the GIL.

    Args:
        image: (h, w) or (h, w, channels).
        H: forward map from pixels of ``image`` to pixels of the result.
        size_px: width and height of the result.
        covered: from :func:`valid_fraction`.
        interpolation: OpenCV's; ids must not be mixed.
    """
    if covered == 0.0:  # a homography also maps what lies behind the camera
        return np.zeros((size_px[1], size_px[0], *image.shape[2:]), image.dtype)
    moved = by_homography(image, H, size_px, interpolation)
    a, b, c = np.linalg.inv(H)[2].tolist()
    across, down = a * np.arange(size_px[0]), b * np.arange(size_px[1])[:, None] + c
    if across.min() + down.min() <= 0.0:  # wide and turned far: some pixels look behind the rendered camera
        moved[across + down <= 0.0] = 0
    return moved


def valid_fraction(H: FloatArray, source_size_px: tuple[int, int], size_px: tuple[int, int]) -> float:
    """Fraction of the result that lies inside the rendered picture: the clipped outline's area.

    Args:
        H: forward map.
        source_size_px: width and height of the rendered picture.
        size_px: width and height of the result.
    """
    outline: _Polygon = [tuple(corner) for corner in (_outline(source_size_px) @ H.T).tolist()]
    # In homogeneous coordinates an edge of the result is a half space, and so is "in front of the camera".
    width, height = size_px
    half_spaces = ((0, 0, 1), (1, 0, 0.5), (-1, 0, width - 0.5), (0, 1, 0.5), (0, -1, height - 0.5))
    for inside in half_spaces:
        outline = _clip(outline, inside)
        if len(outline) < 3:
            return 0.0
    flat = [(x / w, y / w) for x, y, w in outline]
    twice = sum(x * v - u * y for (x, y), (u, v) in zip(flat, flat[1:] + flat[:1], strict=True))
    return min(1.0, 0.5 * abs(twice) / (width * height))


def _outline(size_px: tuple[int, int]) -> FloatArray:
    """Homogeneous corners of a picture, whose pixels reach half a pixel beyond their centres."""
    x, y = size_px[0] - 0.5, size_px[1] - 0.5
    return np.array([[-0.5, -0.5, 1.0], [x, -0.5, 1.0], [x, y, 1.0], [-0.5, y, 1.0]])


def _clip(polygon: _Polygon, half_space: tuple[float, float, float]) -> _Polygon:
    """Return the part of a convex polygon with ``half_space . point > 0`` (Sutherland-Hodgman)."""
    a, b, c = half_space
    side = [a * x + b * y + c * w for x, y, w in polygon]
    if min(side) > 0.0:
        return polygon
    clipped: _Polygon = []
    for (here, there), (s, t) in zip(pairwise([*polygon, polygon[0]]), pairwise([*side, side[0]]), strict=True):
        if s > 0.0:
            clipped.append(here)
        if (s > 0.0) != (t > 0.0):
            part = s / (s - t)
            (x0, y0, w0), (x1, y1, w1) = here, there
            clipped.append((x0 + part * (x1 - x0), y0 + part * (y1 - y0), w0 + part * (w1 - w0)))
    return clipped
