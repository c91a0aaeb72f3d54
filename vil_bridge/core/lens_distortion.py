"""Between ideal and distorted normalised image coordinates.

The lens models are those of OpenCV: plumb-bob with (k1, k2, p1, p2, k3), equidistant with (k1, k2, k3, k4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from vil_bridge.core.camera_model import Distortion, LensModel
from vil_bridge.core.types import FloatArray

__all__ = ["distort", "undistort"]

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

    Where the lens puts nothing, beyond the edge at which its model folds back, they are not a number.
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
    x, y = xy[:, 0], xy[:, 1]
    r2 = x * x + y * y
    radial = 1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))
    across = 2.0 * x * y
    return np.stack(
        (x * radial + p1 * across + p2 * (r2 + 2.0 * x * x), y * radial + p1 * (r2 + 2.0 * y * y) + p2 * across), axis=1
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
    x, y = xy[:, 0], xy[:, 1]
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
    theta, slope = np.minimum(bent, _WIDEST_RAD), np.ones_like(bent)
    for _ in range(_ITERATIONS):
        t2 = theta * theta
        error = theta * (1.0 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4)))) - bent
        slope = 1.0 + t2 * (3.0 * k1 + t2 * (5.0 * k2 + t2 * (7.0 * k3 + t2 * 9.0 * k4)))
        theta = np.clip(theta - error / np.where(np.abs(slope) > 1e-6, slope, 1.0), 0.0, _WIDEST_RAD)
        if np.abs(error).max(initial=0.0) < _EXACT:
            break
    ideal = xy * np.where(bent > 1e-9, np.tan(theta) / np.maximum(bent, 1e-9), 1.0)[:, None]
    found = (slope > 0.0) & (np.abs(_equidistant(lens, ideal) - xy).max(axis=1, initial=0.0) < _ENOUGH)
    ideal[~found] = np.nan
    return ideal
