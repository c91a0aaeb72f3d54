"""Lenses of cameras.

Ideal and distorted coordinates, and the model to render for a camera whose pictures are warped.

The lens models are those of OpenCV: plumb-bob with (k1, k2, p1, p2, k3), equidistant with (k1, k2,
k3, k4). A rendered picture shows more than its camera, without lens distortion. Coordinates are
normalised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core.camera_model import CameraModel, Distortion, LensModel
from vil_bridge.core.types import FloatArray

_ITERATIONS: Final = 12
_WIDEST_RAD: Final = 1.55
_EXACT: Final = 1e-12
_ENOUGH: Final = 1e-6
_CHUNK: Final = 1 << 16


def distort(lens: Distortion | None, xy: FloatArray) -> FloatArray:
    """Return the distorted coordinates (n, 2) of ideal normalised ones."""
    if lens is None:
        return xy
    return _plumb_bob(lens, xy) if lens.model is LensModel.PLUMB_BOB else _equidistant(lens, xy)


def undistort(lens: Distortion | None, xy: FloatArray) -> FloatArray:
    """Return the ideal normalised coordinates (n, 2) of distorted ones, by Newton's method.

    Where the lens puts nothing, beyond the edge at which its model folds back, they are not a
    number.
    """
    if lens is None:
        return xy
    undo: Callable[[Distortion, FloatArray], FloatArray]
    undo = _undo_plumb_bob if lens.model is LensModel.PLUMB_BOB else _undo_equidistant
    ideal = np.empty_like(xy)
    with np.errstate(all="ignore"):
        for first in range(0, len(xy), _CHUNK):
            ideal[first : first + _CHUNK] = undo(lens, xy[first : first + _CHUNK])
    return ideal


def _plumb_bob(lens: Distortion, xy: FloatArray) -> FloatArray:
    k1, k2, p1, p2, k3 = lens.coefficients
    x = xy[:, 0]
    y = xy[:, 1]
    r2 = x * x + y * y
    radial = 1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))
    across = 2.0 * x * y
    return np.stack(
        (
            x * radial + p1 * across + p2 * (r2 + 2.0 * x * x),
            y * radial + p1 * (r2 + 2.0 * y * y) + p2 * across,
        ),
        axis=1,
    )


def _equidistant(lens: Distortion, xy: FloatArray) -> FloatArray:
    k1, k2, k3, k4 = lens.coefficients
    r = np.sqrt((xy * xy).sum(axis=1))
    theta = np.arctan(r)
    t2 = theta * theta
    bent = theta * (1.0 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4))))
    return xy * np.where(r > 1e-9, bent / np.maximum(r, 1e-9), 1.0)[:, None]


def _undo_plumb_bob(lens: Distortion, xy: FloatArray) -> FloatArray:
    guess = xy.copy()
    for _ in range(_ITERATIONS):
        error = _plumb_bob(lens, guess) - xy
        xx, cross, yy = _slopes(lens, guess)
        determinant = xx * yy - cross * cross
        scale = 1.0 / np.where(np.abs(determinant) > 1e-6, determinant, 1.0)
        guess[:, 0] -= scale * (yy * error[:, 0] - cross * error[:, 1])
        guess[:, 1] -= scale * (xx * error[:, 1] - cross * error[:, 0])
        if np.abs(error).max(initial=0.0) < _EXACT:
            break
    xx, cross, yy = _slopes(lens, guess)
    # Up to the fold, what lies farther out is shown farther out.
    outward = (xx * yy > cross * cross) & (xx + yy > 0.0)
    found = outward & (np.abs(_plumb_bob(lens, guess) - xy).max(axis=1, initial=0.0) < _ENOUGH)
    guess[~found] = np.nan
    return guess


def _slopes(lens: Distortion, xy: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return derivatives (n,) of the distorted x by x, of x by y (and of y by x), of y by y."""
    k1, k2, p1, p2, k3 = lens.coefficients
    x = xy[:, 0]
    y = xy[:, 1]
    r2 = x * x + y * y
    radial = 1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))
    growth = 2.0 * (k1 + r2 * (2.0 * k2 + r2 * 3.0 * k3))
    across = x * y * growth + 2.0 * (p1 * x + p2 * y)
    return (
        radial + x * x * growth + 2.0 * p1 * y + 6.0 * p2 * x,
        across,
        radial + y * y * growth + 6.0 * p1 * y + 2.0 * p2 * x,
    )


def _undo_equidistant(lens: Distortion, xy: FloatArray) -> FloatArray:
    k1, k2, k3, k4 = lens.coefficients
    bent = np.sqrt((xy * xy).sum(axis=1))
    theta = np.minimum(bent, _WIDEST_RAD)
    slope = np.ones_like(bent)
    for _ in range(_ITERATIONS):
        t2 = theta * theta
        error = theta * (1.0 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4)))) - bent
        slope = 1.0 + t2 * (3.0 * k1 + t2 * (5.0 * k2 + t2 * (7.0 * k3 + t2 * 9.0 * k4)))
        theta = np.clip(
            theta - error / np.where(np.abs(slope) > 1e-6, slope, 1.0), 0.0, _WIDEST_RAD
        )
        if np.abs(error).max(initial=0.0) < _EXACT:
            break
    ideal = xy * np.where(bent > 1e-9, np.tan(theta) / np.maximum(bent, 1e-9), 1.0)[:, None]
    found = (slope > 0.0) & (
        np.abs(_equidistant(lens, ideal) - xy).max(axis=1, initial=0.0) < _ENOUGH
    )
    ideal[~found] = np.nan
    return ideal


_WIDEST_PLANE_RAD: Final = math.radians(82.0)
_MOST_TIMES: Final = 3.0
_LONGEST_PX: Final = 1 << 14
_BORDER_PX: Final = 1


def rendered_model(shown: CameraModel, margin_rad: float, *, bends: bool) -> CameraModel:
    """Return the model to render for a camera that may turn by an angle and still see something
    everywhere.

    An ideal pinhole stays one around its centre, which is all that the original renderers can draw.

    Args:
        shown: the camera as its readers know it.
        margin_rad: angle by which each border looks farther out.
        bends: the warp bends the picture, so that it is rendered without the camera's lens.

    Raises:
        ValueError: it would see beyond 82 degrees from its axis, too wide for one plane.
    """
    if bends and shown.distortion is not None:
        return _ideal_for_lens(shown, margin_rad)
    if not margin_rad:
        return shown
    fx, fy, cx, cy = shown.intrinsics_px
    across = _margin_px(fx, max(cx + 0.5, shown.width_px - 0.5 - cx), margin_rad)
    along = _margin_px(fy, max(cy + 0.5, shown.height_px - 0.5 - cy), margin_rad)
    width_px = shown.width_px + 2 * across
    height_px = shown.height_px + 2 * along
    return replace(
        shown,
        width_px=width_px,
        height_px=height_px,
        fov_y_rad=2.0 * math.atan(0.5 * height_px / fy),
        pinhole_px=None if shown.pinhole_px is None else (fx, fy, cx + across, cy + along),
    )


def _margin_px(f_px: float, half_px: float, margin_rad: float) -> int:
    return math.ceil(
        f_px * math.tan(_widened(math.atan(half_px / f_px), margin_rad)) - half_px - 1e-9
    )


def _widened(half_rad: float, margin_rad: float) -> float:
    if half_rad + margin_rad > _WIDEST_PLANE_RAD:
        text = f"with a margin of {math.degrees(margin_rad):g} degrees"
        raise ValueError(
            f"sees {math.degrees(half_rad):.0f} degrees from its axis; {text} that is beyond 82"
        )
    return half_rad + margin_rad


def _ideal_for_lens(shown: CameraModel, margin_rad: float) -> CameraModel:
    fx, fy, cx, cy = shown.intrinsics_px
    u, v = (np.append(np.arange(-0.5, n, 4.0), n - 0.5) for n in (shown.width_px, shown.height_px))
    bent = np.stack(np.meshgrid((u - cx) / fx, (v - cy) / fy), axis=-1).reshape(-1, 2)
    ideal = np.abs(undistort(shown.distortion, bent))
    if np.isnan(ideal).all():
        raise ValueError("nothing is seen through lens.coefficients")
    half = [
        math.tan(_widened(math.atan(float(extent)), margin_rad))
        for extent in np.nanmax(ideal, axis=0)
    ]
    limits = (min(_MOST_TIMES * n, _LONGEST_PX) / 2.0 for n in (shown.width_px, shown.height_px))
    f_px = min(fy, *(limit / extent for limit, extent in zip(limits, half, strict=True)))
    width_px, height_px = (2 * (math.ceil(extent * f_px) + _BORDER_PX) for extent in half)
    return replace(
        shown,
        width_px=width_px,
        height_px=height_px,
        fov_y_rad=2.0 * math.atan(0.5 * height_px / f_px),
        pinhole_px=None,
        distortion=None,
    )
