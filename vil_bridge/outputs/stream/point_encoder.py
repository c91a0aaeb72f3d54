"""Depth pictures as the points that they show."""

from __future__ import annotations

import threading
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.camera_model import Distortion
from vil_bridge.core.threads import ContextThread
from vil_bridge.core.types import ImageArray
from vil_bridge.optics.lens import undistort
from vil_bridge.outputs.base import depth_m
from vil_bridge.protocols.image_codecs import Encoded

POINT: Final = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("u", "<u2"), ("v", "<u2")])
"""A point: metres in the camera's optical axes (x right, y down, z forward), and its pixel from
the top left.
"""

_Key = tuple[int, int, tuple[float, float, float, float]]
PixelRays = npt.NDArray[np.void]
"""The points (h * w,) of all pixels at a depth of one metre.

X is NaN where the lens shows nothing.
"""


class RayTable:
    """Rays of one camera's pixels, computed in a thread of their own.

    With a lens that takes a second. Any thread.

    Args:
        lens: of the camera; None = free of distortion.
    """

    def __init__(self, lens: Distortion | None) -> None:
        self._lens = lens
        self._lock = threading.Lock()
        self._key: _Key | None = None
        self._rays: PixelRays | None = None

    def rays(
        self, height_px: int, width_px: int, K_px: tuple[float, float, float, float]
    ) -> PixelRays | None:
        """Return the rays of pictures of this size.

        None while they are computed, from the first call on.
        """
        key = height_px, width_px, K_px
        with self._lock:
            if key != self._key:
                self._key = key
                self._rays = None
                ContextThread(
                    target=self._compute, args=(key,), name="vil-points", daemon=True
                ).start()
            return self._rays

    def _compute(self, key: _Key) -> None:
        rays = _rays_of(*key, self._lens)
        with self._lock:
            if key == self._key:
                self._rays = rays


def encode_points(pixels: ImageArray, rays: PixelRays) -> Encoded:
    """Return the points of a picture, row by row from the top; a pixel without a hit has none.

    Args:
        pixels: z-depth (h, w), uint16 or float32, top row first.
        rays: of its pixels.
    """
    z_m = depth_m(pixels).ravel()
    hits = np.isfinite(z_m) & np.isfinite(rays["x"])
    rows = rays[hits]
    z_m = z_m[hits]
    rows["x"] *= z_m
    rows["y"] *= z_m
    rows["z"] = z_m
    height_px, width_px = pixels.shape
    fields: dict[str, str | int] = {"encoding": "points", "format": "points16", "rows": "top_down"}
    return Encoded(rows.tobytes(), {**fields, "width": width_px, "height": height_px})


def _rays_of(
    height_px: int, width_px: int, K_px: tuple[float, float, float, float], lens: Distortion | None
) -> PixelRays:
    fx, fy, cx, cy = K_px
    v, u = (axis.ravel() for axis in np.mgrid[0:height_px, 0:width_px])
    x, y = undistort(lens, np.stack(((u - cx) / fx, (v - cy) / fy), axis=1)).T
    rows = np.ones(len(u), POINT)
    rows["x"] = x
    rows["y"] = y
    rows["u"] = u
    rows["v"] = v
    return rows
