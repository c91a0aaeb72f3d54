"""Depth picture of a stereo camera, made from a rendered one.

Noise of the disparity, its steps and its holes.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.types import DEPTH_NO_HIT, DEPTH_UNITS_PER_M, BoolArray, ImageArray, Modality
from vil_bridge.optics.camera_sensor import StereoDepth
from vil_bridge.optics.pixel_formats import FORMAT_OF
from vil_bridge.protocols import opencv as cv2

Disparity = npt.NDArray[np.float32]

_WINDOW_PX: Final = 7
_SAME_SURFACE_PX: Final = 1.0
"""Disparities that differ by less belong to one surface."""


class DepthChain:
    """One camera's way from rendered depths to measured ones.

    Where the camera measures nothing, a picture has the value for "nothing hit": 65535 (depth), 100
    m (depth32).

    Args:
        sensor: its numbers.
        camera: an ideal pinhole.
    """

    def __init__(self, sensor: StereoDepth, camera: CameraModel) -> None:
        self._sensor = sensor
        self._camera = camera
        self._f_px = camera.intrinsics_px[0]
        self._steepest = math.tan(math.radians(sensor.grazing_deg)) / self._f_px

    def picture(
        self,
        rendered: ImageArray,
        modality: Modality,
        rng: np.random.Generator,
        texture: ImageArray | None,
    ) -> ImageArray:
        """Return the measured depths (h, w) in the units of the rendered ones.

        Args:
            rendered: depth or depth32.
            modality: which of them.
            rng: of this picture alone.
            texture: the same view in RGB or gray, of which plain parts have no depth; None =
                unknown.
        """
        units = DEPTH_UNITS_PER_M if modality is Modality.DEPTH else 1.0
        empty = FORMAT_OF[modality].empty
        scale = np.float32(self._f_px * self._sensor.baseline_m * units)
        disparity = np.zeros(rendered.shape, np.float32)
        hit = (rendered > 0) & (rendered < empty)
        np.divide(scale, rendered, out=disparity, where=hit, casting="unsafe")
        measured = self._measured(disparity, rng)
        lost = ~self.matched(disparity, texture) | (measured <= 0.0)
        measured[lost] = 1.0
        depth = scale / measured
        if modality is Modality.DEPTH:
            depth += np.float32(0.5)
            np.minimum(depth, np.float32(DEPTH_NO_HIT), out=depth)
        made: ImageArray = depth.astype(rendered.dtype)
        made[lost] = empty
        return made

    def matched(self, disparity: Disparity, texture: ImageArray | None = None) -> BoolArray:
        """Return where the two pictures can be matched, (h, w), from the true disparities.

        0 = nothing there.
        """
        sensor = self._sensor
        farthest_px = self._f_px * sensor.baseline_m / sensor.most_m
        found = (disparity >= farthest_px) & (disparity <= sensor.most_disparity_px)
        found &= ~self._grazing(disparity)
        found &= self._seen_twice(disparity)
        if texture is not None and sensor.least_contrast > 0.0:
            found &= _contrast(texture) >= sensor.least_contrast
        return np.asarray(found)

    def _measured(self, disparity: Disparity, rng: np.random.Generator) -> Disparity:
        sensor = self._sensor
        noise: Any = rng.standard_normal(disparity.shape, np.float32)
        if sensor.correlation_px > 0.0:
            noise = cv2.GaussianBlur(
                noise, (0, 0), sensor.correlation_px, borderType=cv2.BORDER_REFLECT_101
            )
        noise *= np.float32(sensor.subpixel_px / self._noise_left)
        noise += disparity
        if sensor.disparity_step_px > 0.0:
            noise *= np.float32(1.0 / sensor.disparity_step_px)
            np.rint(noise, out=noise)
            noise *= np.float32(sensor.disparity_step_px)
        return np.asarray(noise)

    @cached_property
    def _noise_left(self) -> float:
        """Standard deviation of white noise after the blur."""
        sigma_px = self._sensor.correlation_px
        if sigma_px <= 0.0:
            return 1.0
        side = 6 * math.ceil(sigma_px) + 3
        dot = np.zeros((side, side), np.float32)
        dot[side // 2, side // 2] = 1.0
        spread = cv2.GaussianBlur(dot, (0, 0), sigma_px, borderType=cv2.BORDER_REFLECT_101)
        return float(np.sqrt((spread**2).sum()))

    def _grazing(self, disparity: Disparity) -> BoolArray:
        """Return edges and obliquely seen surfaces.

        The slope of the disparity is d tan(angle) / f.
        """
        limit = disparity * np.float32(self._steepest)
        steep = np.zeros(disparity.shape, np.bool_)
        steep[:, 1:-1] |= np.abs(disparity[:, 2:] - disparity[:, :-2]) > 2.0 * limit[:, 1:-1]
        steep[1:-1] |= np.abs(disparity[2:] - disparity[:-2]) > 2.0 * limit[1:-1]
        return steep

    def _seen_twice(self, disparity: Disparity) -> BoolArray:
        """Return which pixels the right camera sees too: nothing nearer is in their place there."""
        h, w = disparity.shape
        column = np.arange(w, dtype=np.float32) - disparity
        place = np.floor(column).astype(np.int32)
        inside = place >= 0
        place = np.where(inside, place, w) + np.arange(h, dtype=np.int32)[:, None] * (w + 2)
        nearest = np.zeros(h * (w + 2), np.float32)
        np.maximum.at(nearest, place.ravel(), disparity.ravel())
        np.maximum.at(nearest, place.ravel() + 1, disparity.ravel())
        return np.asarray(inside & (disparity + np.float32(_SAME_SURFACE_PX) >= nearest[place]))


def _contrast(texture: ImageArray) -> npt.NDArray[np.float32]:
    """Return the standard deviation of the levels in the window around each pixel, (h, w)."""
    gray: Any = texture
    if texture.ndim == 3:
        gray = cv2.cvtColor(np.ascontiguousarray(texture), cv2.COLOR_RGB2GRAY)
    gray = gray.astype(np.float32)
    window = (_WINDOW_PX, _WINDOW_PX)
    mean = cv2.blur(gray, window)
    variance = cv2.blur(gray * gray, window) - mean * mean
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))
