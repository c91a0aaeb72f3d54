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

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray, ImageArray
from vil_bridge.pipeline.warp.opencv_remap import by_homography

_Polygon = list[tuple[float, float, float]]

_E3: Final[FloatArray] = np.array([0.0, 0.0, 1.0])


def rotation_translation(
    T_world_render: Transform, T_world_now: Transform
) -> tuple[FloatArray, FloatArray]:
    """R_rn, shape (3, 3), and the displacement dp in the render camera's axes, shape (3,), metres.

    Args:
        T_world_render: pose of the optical camera (x right, y down, z forward) of the picture.
        T_world_now: pose that the picture is to be shown for.
    """
    T_render_now = T_world_render.inverse() @ T_world_now
    return T_render_now.rotation(), T_render_now.p_m


def rotation_angle_rad(T_world_render: Transform, T_world_now: Transform) -> float:
    """Angle between two attitudes."""
    x, y, z, w = (T_world_render.inverse() @ T_world_now).q_xyzw.tolist()
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
        K: intrinsic matrix of the rendered picture, a pinhole without skew.
        R_rn: from :func:`rotation_translation`.
        dp_render_m: from the same.
        d_m: distance of the plane from the render camera along ``normal``, > 0.
        normal: shape (3,), unit normal of the plane in the render camera's axes.
        K_shown: intrinsic matrix of the picture shown; None = the same.
    """
    # H = K (R_rn^T - R_rn^T dp m^T / d) K^-1, in plain Python: small arrays cost several times as
    # much.
    towards = [x / d_m for x in normal.tolist()]
    dp_m = dp_render_m.tolist()
    rows = []
    for column in zip(*R_rn.tolist(), strict=True):
        t = -(column[0] * dp_m[0] + column[1] * dp_m[1] + column[2] * dp_m[2])
        rows.append([r + t * m for r, m in zip(column, towards, strict=True)])
    return _in_pixels(rows, K, K_shown)


def rotation_homography(
    K: FloatArray, R_rn: FloatArray, K_shown: FloatArray | None = None
) -> FloatArray:
    """H for a scene infinitely far away: rotation alone."""
    return _in_pixels(R_rn.T.tolist(), K, K_shown)


def _in_pixels(rows: list[list[float]], K: FloatArray, K_shown: FloatArray | None) -> FloatArray:
    """Return K_shown M K^-1 of a matrix M, given by its rows, between the coordinates of two
    cameras.
    """
    (fx, _, cx), (_, fy, cy), _ = K.tolist()
    (gx, _, ux), (_, gy, uy), _ = (K if K_shown is None else K_shown).tolist()
    from_pixels = [(a / fx, b / fy, c - a * cx / fx - b * cy / fy) for a, b, c in rows]
    return np.array(
        [
            [gx * x + ux * w for x, w in zip(from_pixels[0], from_pixels[2], strict=True)],
            [gy * y + uy * w for y, w in zip(from_pixels[1], from_pixels[2], strict=True)],
            from_pixels[2],
        ]
    )


def warp(
    image: ImageArray, H: FloatArray, size_px: tuple[int, int], covered: float, interpolation: int
) -> ImageArray:
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
    a, b, c = _depth_of_source(H)
    if min(0.0, a * (size_px[0] - 1)) + min(0.0, b * (size_px[1] - 1)) + c <= 0.0:
        # Wide and turned far: some pixels look behind the rendered camera.
        moved[a * np.arange(size_px[0]) + (b * np.arange(size_px[1])[:, None] + c) <= 0.0] = 0
    return moved


def _depth_of_source(H: FloatArray) -> tuple[float, float, float]:
    """Return the third row of the inverse of H, which says what lies in front of the rendered
    camera.
    """
    (a, b, c), (d, e, f), (g, h, i) = H.tolist()
    row = d * h - e * g, b * g - a * h, a * e - b * d
    determinant = row[0] * c + row[1] * f + row[2] * i
    return row[0] / determinant, row[1] / determinant, row[2] / determinant


def valid_fraction(
    H: FloatArray, source_size_px: tuple[int, int], size_px: tuple[int, int]
) -> float:
    """Fraction of the result that lies inside the rendered picture: the clipped outline's area.

    Args:
        H: forward map.
        source_size_px: width and height of the rendered picture.
        size_px: width and height of the result.
    """
    outline = _outline(source_size_px, H)
    # In homogeneous coordinates an edge of the result is a half space, and so is "in front of the
    # camera".
    width, height = size_px
    half_spaces = ((0, 0, 1), (1, 0, 0.5), (-1, 0, width - 0.5), (0, 1, 0.5), (0, -1, height - 0.5))
    for inside in half_spaces:
        outline = _clip(outline, inside)
        if len(outline) < 3:
            return 0.0
    flat = [(x / w, y / w) for x, y, w in outline]
    twice = sum(x * v - u * y for (x, y), (u, v) in zip(flat, flat[1:] + flat[:1], strict=True))
    return min(1.0, 0.5 * abs(twice) / (width * height))


def _outline(size_px: tuple[int, int], H: FloatArray) -> _Polygon:
    """Homogeneous corners of a picture after H.

    Its pixels reach half a pixel beyond their centres.
    """
    x = size_px[0] - 0.5
    y = size_px[1] - 0.5
    (a, b, c), (d, e, f), (g, h, i) = H.tolist()
    corners = (-0.5, -0.5), (x, -0.5), (x, y), (-0.5, y)
    return [(a * u + b * v + c, d * u + e * v + f, g * u + h * v + i) for u, v in corners]


def _clip(polygon: _Polygon, half_space: tuple[float, float, float]) -> _Polygon:
    """Return the part of a convex polygon with ``half_space . point > 0`` (Sutherland-Hodgman)."""
    a, b, c = half_space
    side = [a * x + b * y + c * w for x, y, w in polygon]
    if min(side) > 0.0:
        return polygon
    clipped: _Polygon = []
    for (here, there), (s, t) in zip(
        pairwise([*polygon, polygon[0]]), pairwise([*side, side[0]]), strict=True
    ):
        if s > 0.0:
            clipped.append(here)
        if (s > 0.0) != (t > 0.0):
            part = s / (s - t)
            (x0, y0, w0), (x1, y1, w1) = here, there
            clipped.append((x0 + part * (x1 - x0), y0 + part * (y1 - y0), w0 + part * (w1 - w0)))
    return clipped
