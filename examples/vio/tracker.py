"""Corners followed from picture to picture: the front end of the example VIO."""

from __future__ import annotations

from typing import Any, Final

import cv2
import numpy as np
import numpy.typing as npt

__all__ = ["Tracker"]

_CORNERS: Final = 110
_QUALITY: Final = 0.01
_APART_PX: Final = 10
_WINDOW_PX: Final = (15, 15)
_LEVELS: Final = 3
_RETURN_PX: Final = 0.5
_EPIPOLAR_PX: Final = 1.0
_FEWEST_FOR_EPIPOLAR: Final = 15
_BORDER_PX: Final = 9

_Gray = npt.NDArray[Any]
_Points = npt.NDArray[np.float32]
_Rotation = npt.NDArray[np.float64]


class Tracker:
    """Shi-Tomasi corners in a pyramidal Lucas-Kanade tracker that starts where the gyroscope says.

    A corner is retained when it is found back to within half a pixel and obeys the pictures'
    epipolar geometry (RANSAC). A warped picture may have a black border: nothing is looked for
    there.
    """

    def __init__(self, K: _Rotation) -> None:
        """``K``: intrinsic matrix, shape (3, 3), pixels."""
        self._K, self._K_inv = K, np.linalg.inv(K)
        self._before: _Gray | None = None
        self._ids = np.zeros(0, np.int64)
        self._points = np.zeros((0, 2), np.float32)
        self._next_id = 0

    def track(self, gray: _Gray, R_before_now: _Rotation) -> dict[int, _Points]:
        """Follow the corners into a picture.

        Args:
            gray: uint8 (h, w), contiguous.
            R_before_now: turns vectors of this picture's camera into the camera of the picture
                before, shape (3, 3).

        Returns:
            Pixel (u, v), shape (2,), by the corner's number; the same number is the same corner.
        """
        usable = cv2.erode(
            (gray > 0).astype(np.uint8), np.ones((_BORDER_PX, _BORDER_PX), np.uint8), borderValue=1
        )
        if self._before is not None and len(self._ids):
            self._follow(self._before, gray, R_before_now, usable)
        found = dict(zip(self._ids.tolist(), self._points.copy(), strict=True))
        self._replenish(gray, usable)
        self._before = gray
        return found

    def _follow(self, before: _Gray, gray: _Gray, R_before_now: _Rotation, usable: _Gray) -> None:
        guess = self._turned(R_before_now)
        there, ok = _lucas_kanade(before, gray, self._points, guess)
        back, returned = _lucas_kanade(gray, before, there, self._points)
        ok &= returned & (np.linalg.norm(back - self._points, axis=1) < _RETURN_PX)
        h, w = gray.shape
        u, v = np.rint(there).astype(int).T
        ok &= (u >= 0) & (u < w) & (v >= 0) & (v < h)
        ok[ok] &= usable[v[ok], u[ok]] > 0
        if ok.sum() >= _FEWEST_FOR_EPIPOLAR:
            ok[ok] &= _epipolar(self._points[ok], there[ok])
        self._ids, self._points = self._ids[ok], there[ok]

    def _turned(self, R_before_now: _Rotation) -> _Points:
        """Return the corners as a pure rotation of the camera moves them."""
        pixels: _Rotation = np.insert(self._points.astype(np.float64), 2, 1.0, axis=1)
        rays = pixels @ self._K_inv.T @ R_before_now @ self._K.T
        turned: _Points = (rays[:, :2] / np.maximum(rays[:, 2:], 0.1)).astype(np.float32)
        return turned

    def _replenish(self, gray: _Gray, usable: _Gray) -> None:
        room = _CORNERS - len(self._ids)
        if room <= 0:
            return
        free = usable.copy()
        for u, v in np.rint(self._points).astype(int).tolist():
            cv2.circle(free, (u, v), _APART_PX, 0, -1)
        fresh: Any = cv2.goodFeaturesToTrack(gray, room, _QUALITY, _APART_PX, mask=free)
        if fresh is None:
            return
        fresh = fresh.reshape(-1, 2)
        self._points = np.concatenate((self._points, fresh))
        self._ids = np.concatenate((self._ids, self._next_id + np.arange(len(fresh))))
        self._next_id += len(fresh)


def _lucas_kanade(
    a: _Gray, b: _Gray, points: _Points, guess: _Points
) -> tuple[_Points, npt.NDArray[np.bool_]]:
    found, ok, _ = cv2.calcOpticalFlowPyrLK(
        a,
        b,
        points,
        guess.copy(),
        winSize=_WINDOW_PX,
        maxLevel=_LEVELS,
        flags=cv2.OPTFLOW_USE_INITIAL_FLOW,
    )
    return np.asarray(found, np.float32), np.asarray(ok)[:, 0] == 1


def _epipolar(a: _Points, b: _Points) -> npt.NDArray[np.bool_]:
    _, inlier = cv2.findFundamentalMat(a, b, cv2.FM_RANSAC, _EPIPOLAR_PX, 0.99)
    inliers: npt.NDArray[np.bool_] = (
        np.ones(len(a), np.bool_) if inlier is None else np.asarray(inlier)[:, 0] == 1
    )
    return inliers
