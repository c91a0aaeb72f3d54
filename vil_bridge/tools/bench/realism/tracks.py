"""Lengths of feature tracks under a known motion.

The same motion over every picture, real or rendered.

A photograph has no next picture. Both kinds are therefore moved by the same sequence of turns,
zooms and shifts, with the same noise added to each step, and the tracker's corners are compared
with where the motion puts them.
"""

from __future__ import annotations

import math
from typing import Final

import cv2
import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray, ImageArray

STEPS: Final = 30
"""Longest track, pictures."""
SIZE_PX: Final = (480, 360)
"""Width and height of the moving view into a picture."""
NOISE: Final = 4.0
"""Standard deviation of the noise that each step adds, levels."""
_CORNERS: Final = 200
_QUALITY: Final = 0.01
_APART_PX: Final = 12
_WINDOW: Final = (21, 21)
_LEVELS: Final = 3
_RETURN_PX: Final = 0.5
_OFF_PX: Final = 1.0
_SHIFT_PX: Final = (36.0, 24.0)
_TURN_RAD: Final = math.radians(8.0)
_ZOOM: Final = 0.08


def track_lengths(gray: ImageArray) -> FloatArray:
    """Return how many steps each corner of a picture is followed, 0 to 30.

    Empty where it has no corners.

    Corners are those of ``bench klt``: Shi-Tomasi, then pyramidal Lucas-Kanade in 21x21 pixels. A
    track ends where it is not found, is not found back to within half a pixel, is a pixel off the
    known motion, or leaves the view.

    Args:
        gray: uint8 (h, w), larger than the view.
    """
    rng = np.random.default_rng(12)
    before = _view(gray, 0, rng)
    points: ImageArray | None = cv2.goodFeaturesToTrack(before, _CORNERS, _QUALITY, _APART_PX)
    if points is None:
        return np.zeros(0)
    fixed = _moved(points, np.asarray(np.linalg.inv(_view_matrix(gray, 0)), np.float64))
    lengths = np.zeros(len(points))
    alive = np.arange(len(points))
    for step in range(1, STEPS + 1):
        after = _view(gray, step, rng)
        there, found = _followed(before, after, points)
        back, returned = _followed(after, before, there)
        truth = _moved(fixed[alive], _view_matrix(gray, step))
        good = (
            found
            & returned
            & _near(back, points, _RETURN_PX)
            & _near(there, truth, _OFF_PX)
            & _inside(there)
        )
        alive, points, before = alive[good], there[good], after
        lengths[alive] = step
        if not len(alive):
            break
    return lengths


def _view_matrix(gray: ImageArray, step: int) -> FloatArray:
    """Return the similarity (3, 3) from pixels of the picture to those of the view at a step."""
    phase = 2.0 * math.pi * step / STEPS
    h, w = gray.shape
    at = (
        0.5 * (w - 1) + _SHIFT_PX[0] * math.sin(phase),
        0.5 * (h - 1) + _SHIFT_PX[1] * math.sin(2.0 * phase),
    )
    turn, zoom = _TURN_RAD * math.sin(phase), 1.0 + _ZOOM * math.sin(phase)
    c, s = zoom * math.cos(turn), zoom * math.sin(turn)
    cx, cy = 0.5 * (SIZE_PX[0] - 1), 0.5 * (SIZE_PX[1] - 1)
    return np.array(
        [[c, -s, cx - c * at[0] + s * at[1]], [s, c, cy - s * at[0] - c * at[1]], [0.0, 0.0, 1.0]]
    )


def _view(gray: ImageArray, step: int, rng: np.random.Generator) -> ImageArray:
    moved = cv2.warpAffine(
        gray.astype(np.float32), _view_matrix(gray, step)[:2], SIZE_PX, flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REFLECT_101,
    )  # fmt: skip
    noisy = moved + np.float32(NOISE) * rng.standard_normal(moved.shape, np.float32)
    return np.asarray(np.clip(np.rint(noisy), 0, 255), np.uint8)


def _followed(a: ImageArray, b: ImageArray, points: ImageArray) -> tuple[ImageArray, BoolArray]:
    moved, found, _ = cv2.calcOpticalFlowPyrLK(
        a, b, points, points.copy(), winSize=_WINDOW, maxLevel=_LEVELS
    )
    return np.asarray(moved), np.asarray(found)[:, 0] == 1


def _moved(points: ImageArray, matrix: FloatArray) -> FloatArray:
    """Return points (k, 1, 2) moved by a similarity."""
    return np.asarray(points @ matrix[:2, :2].T + matrix[:2, 2])


def _near(a: ImageArray, b: ImageArray, most_px: float) -> BoolArray:
    return np.asarray(np.linalg.norm(a - b, axis=2)[:, 0] < most_px)


def _inside(points: ImageArray) -> BoolArray:
    p = points[:, 0]
    return np.asarray(((p >= 0.0) & (p <= np.array(SIZE_PX) - 1.0)).all(axis=1))
