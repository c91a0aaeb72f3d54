"""Pictures through a lens: drawn by an ideal pinhole that sees enough, then bent."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import cv2
import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import BoolArray, CameraModel, ImageArray, Modality
from vil_renderer.embedded.lens import distort, pixel_rays

__all__ = ["Lens", "lens_of"]

_SMOOTH: Final = frozenset({Modality.RGB, Modality.GRAY, Modality.RGBA})
_MOST_TIMES: Final = 3.0
_WIDEST: Final = math.tan(math.radians(82.0))
_BORDER_PX: Final = 1.0


class Lens:
    """The way from an ideal picture to a distorted one.

    Attributes:
        ideal: the pinhole that is drawn: the camera's focal length at its centre, a wider picture around it.
    """

    def __init__(self, camera: CameraModel) -> None:
        self._camera = camera
        xy = pixel_rays(camera)[:, :2].reshape(camera.height_px, camera.width_px, 2)
        low, high = xy.min(axis=(0, 1)), xy.max(axis=(0, 1))
        if max(-low.min(), high.max()) > _WIDEST:
            raise RendererError(
                f"camera {camera.name!r} sees beyond 82 degrees from its axis, too wide for one plane: narrow its lens"
            )
        fx, fy, _, _ = camera.intrinsics_px
        spread = (high - low) * (fx, fy) / (camera.width_px, camera.height_px)
        fx, fy = np.array([fx, fy]) / np.maximum(spread / _MOST_TIMES, 1.0)
        size = np.ceil((high - low) * (fx, fy) + 1.0 + 2.0 * _BORDER_PX).astype(int)
        cx, cy = _BORDER_PX - low * (fx, fy)
        self.ideal = replace(
            camera,
            width_px=int(size[0]),
            height_px=int(size[1]),
            pinhole_px=(float(fx), float(fy), float(cx), float(cy)),
            distortion=None,
        )
        self._map = (xy * (fx, fy) + (cx, cy)).astype(np.float32)
        x, y = np.ascontiguousarray(self._map[..., 0]), np.ascontiguousarray(self._map[..., 1])
        self._fine = cv2.convertMaps(x, y, cv2.CV_16SC2)
        self._whole = cv2.convertMaps(x, y, cv2.CV_16SC2, nninterpolation=True)

    def bend(
        self, modality: Modality, pixels: ImageArray, valid: BoolArray | None
    ) -> tuple[ImageArray, BoolArray | None]:
        """A picture of the ideal camera as the lens shows it; what is no colour is never mixed."""
        if modality in _SMOOTH:
            return np.asarray(cv2.remap(pixels, *self._fine, cv2.INTER_LINEAR)), None
        if modality is Modality.FLOW:
            assert valid is not None
            return self._bend_flow(pixels, valid)
        halves = pixels.view(np.int16) if pixels.dtype == np.float16 else pixels
        bent = np.asarray(self._nearest(halves))
        return bent.view(np.float16) if pixels.dtype == np.float16 else bent, None

    def _nearest(self, pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.asarray(cv2.remap(pixels, *self._whole, cv2.INTER_NEAREST))

    def _bend_flow(self, flow: ImageArray, valid: BoolArray) -> tuple[ImageArray, BoolArray]:
        """Motion between the two places where the lens shows the point, not between the ideal ones."""
        known = self._nearest(valid.astype(np.uint8)).astype(np.bool_)
        fx, fy, _, _ = self._camera.intrinsics_px
        gx, gy, cx, cy = self.ideal.intrinsics_px
        now = (np.rint(self._map) - (cx, cy)) / (gx, gy)
        was = now - self._nearest(flow) / (gx, gy)
        lens = self._camera.distortion
        moved = distort(lens, now.reshape(-1, 2)) - distort(lens, was.reshape(-1, 2))
        bent = (moved * (fx, fy)).reshape(self._map.shape).astype(np.float32)
        bent[~known] = 0.0
        return bent, known


@lru_cache(maxsize=32)
def lens_of(camera: CameraModel) -> Lens | None:
    """The camera's lens; None when it has none.

    Raises:
        RendererError: it sees more than a plane can hold.
    """
    return None if camera.distortion is None else Lens(camera)
