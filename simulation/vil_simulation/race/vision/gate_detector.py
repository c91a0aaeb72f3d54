"""Detector of the openings of gates in pictures, by the colour of their frames.

Rays run from the middle of an opening outwards. They enter the frame at the opening's edge: the
line through most of these points is a side. Points on dark or white patches of a frame, and on
gates behind the opening, lie off the lines.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import cross
from vil_bridge.core.types import BoolArray, FloatArray

_ORANGE: Final = (np.array((2, 165, 60), np.uint8), np.array((16, 255, 255), np.uint8))
_BLUE: Final = (np.array((102, 150, 50), np.uint8), np.array((116, 255, 255), np.uint8))
"""Ranges of hue (of 180), saturation and value of the frames."""
_RAYS: Final = 240
_HALF: Final = 127.5
_LEAST_PX: Final = 9.0
"""Size of the smallest opening that is measured."""
_SECTOR: Final = 0.08
"""Share of a side's rays next to each of its corners that is left out."""
_TURN: Final = math.cos(math.radians(15.0))
_LEAST_POINTS: Final = 5
_LEAST_SHARE: Final = 0.5
_TOLERANCE_PX: Final = 1.2
_MIXED_PX: Final = 0.33
"""Depth of the pixels at a frame's edge that mix it with the background, and do not have its
colour.
"""
_SCALES: Final = (0.85, 1.0, 1.18)
_LEAST_SCORE: Final = 0.25
"""Share of a frame that is covered, less that of its opening."""
_SURE: Final = 0.2
"""Uncertainty, as a share of the opening's size, up to which the middle is known to lie in the
opening.
"""
_NEAR_BEST: Final = 0.8
"""Support of an opening, compared with the best, that makes it worth a try."""
_CLOSED: Final = 1.4
"""Length of the gaps in a frame that are closed, along and across, in widths of the frame."""
_FINE_PX: Final = 8.0
"""Width of a frame that is enough for measuring."""
_OFF: Final = 0.13
"""Share of an opening's size by which a match with the template may be wrong."""


class ExpectedOpening(NamedTuple):
    """Opening that is looked for.

    Attributes:
        corners_px: predicted, top left, top right, bottom right, bottom left, (4, 2).
        reach_px: how far it may lie from there.
        bar_px: predicted width of the frame.
        blue: colour of the frame; False = orange.
    """

    corners_px: FloatArray
    reach_px: float
    bar_px: float
    blue: bool


class SeenOpening(NamedTuple):
    """Opening that was found.

    Attributes:
        segments_px: ends of the seen piece of each side, top, right, bottom, left, (4, 2, 2); NaN =
            not seen.
        corners_px: where the sides meet, (4, 2), top left, top right, bottom right, bottom left;
            NaN = a side is missing.
        points: of the edge that support it.
    """

    segments_px: FloatArray
    corners_px: FloatArray
    points: int


def find_openings(picture: npt.NDArray[np.uint8], expected: ExpectedOpening) -> list[SeenOpening]:
    """Return openings that look like the expected one, the best supported first.

    Args:
        picture: (height, width, 3) RGB.
        expected: opening that is looked for.
    """
    size = np.ptp(expected.corners_px, axis=0)
    if not np.isfinite(expected.corners_px).all() or size.min() < _LEAST_PX:
        return []
    height, width = picture.shape[:2]
    margin = 2.0 * expected.bar_px + expected.reach_px
    low = np.maximum(np.floor(expected.corners_px.min(axis=0) - margin), 0).astype(int)
    high = (
        np.minimum(
            np.ceil(expected.corners_px.max(axis=0) + margin), (width - 1, height - 1)
        ).astype(int)
        + 1
    )
    if (high - low < _LEAST_PX).any():
        return []
    # Of coarse pixels, which are enough for a close gate.
    step = max(int(expected.bar_px / _FINE_PX), 1)
    part = picture[low[1] : high[1], low[0] : high[0]]
    if step > 1:
        part = np.asarray(
            cv2.resize(part, None, fx=1.0 / step, fy=1.0 / step, interpolation=cv2.INTER_AREA),
            np.uint8,
        )
    mask = frame_mask(part, blue=expected.blue, bar_px=expected.bar_px / step)
    corners = (expected.corners_px - low + 0.5) / step - 0.5
    found = []
    for middle, scale, off_px in _candidates(
        mask, corners, expected.reach_px / step, expected.bar_px / step
    ):
        guess = middle + scale * (corners - corners.mean(axis=0))
        seen = _fitted(mask, guess, off_px)
        if seen is not None:
            again = _fitted(
                mask, np.where(np.isfinite(seen.corners_px), seen.corners_px, guess), off_px
            )
            best = again or seen
            ends, places = ((points + 0.5) * step - 0.5 + low for points in best[:2])
            found.append(SeenOpening(ends, places, best.points))
    most = max((one.points for one in found), default=0)
    return sorted(
        (one for one in found if one.points > _NEAR_BEST * most), key=lambda one: -one.points
    )


def frame_mask(
    picture: npt.NDArray[np.uint8], *, blue: bool, bar_px: float
) -> npt.NDArray[np.uint8]:
    """Return 255 where a picture (h, w, 3) shows the colour of a frame; small gaps are closed.

    Args:
        picture: RGB.
        blue: colour of the frame; False = orange.
        bar_px: width of the frame.
    """
    mask = cv2.inRange(cv2.cvtColor(picture, cv2.COLOR_RGB2HSV), *(_BLUE if blue else _ORANGE))
    size = max(int(_CLOSED * bar_px), 3) | 1
    padded = cv2.copyMakeBorder(mask, size, size, size, size, cv2.BORDER_CONSTANT, value=(0,))
    across = cv2.morphologyEx(padded, cv2.MORPH_CLOSE, np.ones((1, size), np.uint8))
    down = cv2.morphologyEx(padded, cv2.MORPH_CLOSE, np.ones((size, 1), np.uint8))
    return np.asarray(cv2.bitwise_or(across, down)[size:-size, size:-size], np.uint8)


def _candidates(
    mask: npt.NDArray[np.uint8], corners_px: FloatArray, reach_px: float, bar_px: float
) -> list[tuple[FloatArray, float, float]]:
    """Return middles (2,), sizes relative to the expected one, and errors of the sides, where
    the opening may be.
    """
    middle = corners_px.mean(axis=0)
    size = np.ptp(corners_px, axis=0)
    if reach_px < _SURE * size.min():
        return [(middle, 1.0, reach_px + _TOLERANCE_PX)]
    found = []
    covered = mask.astype(np.float32) / 255.0
    for scale in _SCALES:
        (width, height), bar = np.maximum(scale * size, 1.0), scale * bar_px
        outer = _sums(covered, width + 2.0 * bar, height + 2.0 * bar)
        inner = _sums(covered, width, height)
        score = (outer - inner) / (2.0 * bar * (width + height + 2.0 * bar)) - inner / (
            width * height
        )
        low = np.clip(
            np.round(middle - reach_px), 0, (mask.shape[1] - 1, mask.shape[0] - 1)
        ).astype(int)
        high = np.clip(np.round(middle + reach_px), low, None).astype(int) + 1
        _, best, _, (x, y) = cv2.minMaxLoc(score[low[1] : high[1], low[0] : high[0]])
        if best > _LEAST_SCORE:
            found.append(
                (low + np.array((x, y)), scale, max(_OFF * float(size.max()), 2.0 * _TOLERANCE_PX))
            )
    return found


def _sums(covered: npt.NDArray[np.float32], width: float, height: float) -> npt.NDArray[np.float32]:
    """Return for each pixel how much of the rectangle around it is covered, in pixels."""
    size = 2 * int(0.5 * width) + 1, 2 * int(0.5 * height) + 1
    sums = cv2.boxFilter(covered, -1, size, normalize=False, borderType=cv2.BORDER_CONSTANT)
    return np.asarray(sums, np.float32)


def _fitted(
    mask: npt.NDArray[np.uint8], corners_px: FloatArray, off_px: float
) -> SeenOpening | None:
    """Return the opening whose sides are within a distance of a guess (4, 2).

    None = fewer than two sides are seen.
    """
    middle = corners_px.mean(axis=0)
    reach = 1.35 * float(np.linalg.norm(corners_px - middle, axis=1).max()) + 3.0
    points, angles = _edge_points(mask, middle, reach)
    every = 2.0 * math.pi * np.arange(_RAYS) / _RAYS
    inside = _ray_ends_inside(mask, middle, every, 0.8 * reach)
    segments = np.full((4, 2, 2), np.nan)
    lines = np.full((4, 3), np.nan)
    total = 0
    for side in range(4):
        begin = corners_px[side]
        end = corners_px[(side + 1) % 4]
        here = points[_in_sector(angles, begin - middle, end - middle)]
        rays = _in_sector(every, begin - middle, end - middle) & inside
        wanted = max(_LEAST_POINTS, _LEAST_SHARE * float(rays.sum()))
        here = here[
            np.abs((here - begin) @ np.array((begin[1] - end[1], end[0] - begin[0])))
            < off_px * np.linalg.norm(end - begin)
        ]
        if len(here) < _LEAST_POINTS:
            continue
        fit = _line(here, end - begin, float(np.linalg.norm(end - begin)))
        if fit is not None and fit[2] >= wanted:
            segments[side], lines[side] = fit[0], fit[1]
            total += fit[2]
    height, width = mask.shape
    whole = ((corners_px > 0) & (corners_px < (width - 1, height - 1))).all()
    if int(np.isfinite(lines[:, 0]).sum()) < (3 if whole else 2):
        return None
    corners = cross(np.roll(lines, 1, axis=0), lines)
    return SeenOpening(segments, corners[:, :2] / corners[:, 2:], total)


def _edge_points(
    mask: npt.NDArray[np.uint8], middle: FloatArray, reach_px: float
) -> tuple[FloatArray, FloatArray]:
    """Return points at which rays enter a frame, (n, 2), and the angles of their rays, (n,)."""
    steps = max(math.ceil(reach_px), 2)
    centre = float(middle[0]), float(middle[1])
    polar = cv2.warpPolar(
        mask, (steps, _RAYS), centre, float(steps), cv2.WARP_POLAR_LINEAR | cv2.WARP_FILL_OUTLIERS
    )
    on = polar > _HALF
    rays, before = np.nonzero(on[:, 1:] & ~on[:, :-1])
    low = polar[rays, before].astype(float)
    high = polar[rays, before + 1].astype(float)
    radius = before + (_HALF - low) / (high - low) - _MIXED_PX
    angles = 2.0 * math.pi * rays / _RAYS
    return middle + radius[:, None] * np.column_stack((np.cos(angles), np.sin(angles))), angles


def _ray_ends_inside(
    mask: npt.NDArray[np.uint8], middle: FloatArray, angles: FloatArray, reach_px: float
) -> BoolArray:
    """Return whether the end of each ray lies in the picture, (n,)."""
    ends = middle + reach_px * np.column_stack((np.cos(angles), np.sin(angles)))
    height, width = mask.shape
    return np.asarray(((ends >= 0) & (ends <= (width - 1, height - 1))).all(axis=1))


def _in_sector(angles: FloatArray, begin: FloatArray, end: FloatArray) -> BoolArray:
    """Return which rays run between two corners, clockwise on the picture, without those next to
    the corners.
    """
    first = math.atan2(begin[1], begin[0])
    whole = (math.atan2(end[1], end[0]) - first) % (2.0 * math.pi)
    share = ((angles - first) % (2.0 * math.pi)) / max(whole, 1e-6)
    between: BoolArray = (share > _SECTOR) & (share < 1.0 - _SECTOR)
    return between


def _line(
    points: FloatArray, direction: FloatArray, length_px: float
) -> tuple[FloatArray, FloatArray, int] | None:
    """Return ends (2, 2), line (3,) and support of a side through most of the points, along a
    direction.
    """
    along = direction / np.linalg.norm(direction)
    across = np.array((-along[1], along[0]))
    offsets = points @ across
    inliers: BoolArray = np.abs(offsets - _mode(offsets, max(0.04 * length_px, 2.0))) < max(
        0.06 * length_px, 2.0
    )
    for tolerance in (max(0.03 * length_px, 2.0 * _TOLERANCE_PX), _TOLERANCE_PX, _TOLERANCE_PX):
        if inliers.sum() < _LEAST_POINTS:
            return None
        chosen = points[inliers]
        centre = chosen.mean(axis=0)
        x, y = (chosen - centre).T
        # Of the axis with the largest moment.
        turn = 0.5 * math.atan2(2.0 * float(x @ y), float(x @ x - y @ y))
        axis = np.array((math.cos(turn), math.sin(turn)))
        if abs(axis @ along) < _TURN:
            return None
        normal = np.array((-axis[1], axis[0]))
        inliers = np.abs((points - centre) @ normal) < tolerance
    reach = (points[inliers] - centre) @ axis if inliers.any() else np.zeros(1)
    ends = centre + np.array((reach.min(), reach.max()))[:, None] * axis
    return ends, np.array((normal[0], normal[1], -normal @ centre)), int(inliers.sum())


def _mode(values: FloatArray, width: float) -> float:
    """Return the middle of the densest interval of a width."""
    ordered = np.sort(values)
    upto = np.searchsorted(ordered, ordered + width, "right")
    best = int(np.argmax(upto - np.arange(len(ordered))))
    return float(ordered[best : upto[best]].mean())
