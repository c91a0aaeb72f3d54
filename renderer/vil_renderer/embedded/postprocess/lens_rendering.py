"""Pictures through a lens: drawn by a large enough ideal pinhole, then distorted."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

import cv2
import numpy as np
import numpy.typing as npt

from vil_bridge.core.camera_model import NO_EFFECTS
from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import BoolArray, CameraModel, ImageArray, Modality
from vil_bridge.optics.pixel_formats import FORMAT_OF
from vil_renderer.embedded.lru_cache import LruByteCache
from vil_renderer.embedded.optics.lens import distort, pixel_rays

_SMOOTH: Final = frozenset({Modality.RGB, Modality.GRAY, Modality.RGBA})
_MOST_TIMES: Final = 3.0
_WIDEST: Final = math.tan(math.radians(82.0))
_MOST_PX: Final = 1 << 25
_LONGEST_PX: Final = 1 << 14
_BORDER_PX: Final = 1.0
_UNSEEN: Final = -10.0
_CACHE_BYTES: Final = 128 << 20


class Lens:
    """Mapping of an ideal picture to a distorted one.

    Attributes:
        ideal: the pinhole that is drawn: the camera's focal length at its centre, a wider picture
            around it.
        nbytes: memory that it takes.

    Raises:
        RendererError: the lens sees nothing, or more than a plane can hold.
    """

    def __init__(self, camera: CameraModel) -> None:
        self._camera = camera
        xy = pixel_rays(camera)[:, :2].reshape(camera.height_px, camera.width_px, 2)
        seen = ~np.isnan(xy[..., 0])
        if not seen.any():
            raise RendererError(
                f"nothing is seen through the {camera.distortion}: its coefficients make no picture"
            )
        low = xy[seen].min(axis=0)
        high = xy[seen].max(axis=0)
        if max(-low.min(), high.max()) > _WIDEST:
            raise RendererError(
                f"a camera of {camera.width_px}x{camera.height_px} with the "
                f"{camera.distortion} sees beyond 82 degrees "
                "from its axis, too wide for one plane: narrow its lens"
            )
        fx, fy = _ideal_focal_px(camera, high - low)
        size = np.ceil((high - low) * (fx, fy) + 1.0 + 2.0 * _BORDER_PX).astype(int)
        cx, cy = _BORDER_PX - low * (fx, fy)
        self.ideal = replace(
            camera,
            width_px=int(size[0]),
            height_px=int(size[1]),
            pinhole_px=(fx, fy, float(cx), float(cy)),
            distortion=None,
        )
        self._map = (xy * (fx, fy) + (cx, cy)).astype(np.float32)
        self._map[~seen] = _UNSEEN
        x = np.ascontiguousarray(self._map[..., 0])
        y = np.ascontiguousarray(self._map[..., 1])
        self._fine = cv2.convertMaps(x, y, cv2.CV_16SC2)
        self._whole = cv2.convertMaps(x, y, cv2.CV_16SC2, nninterpolation=True)
        maps = (self._map, *self._fine, *self._whole)
        self.nbytes = sum(part.nbytes for part in maps if part is not None)

    def bend(
        self,
        modality: Modality,
        pixels: ImageArray,
        valid: BoolArray | None,
        unseen: float | None = None,
    ) -> tuple[ImageArray, BoolArray | None]:
        """Distort a picture of the ideal camera; only colours are interpolated.

        Where the lens shows nothing, neither does the picture: black, no hit, no id, no motion; or
        ``unseen``.
        """
        if modality in _SMOOTH:
            return np.asarray(cv2.remap(pixels, *self._fine, cv2.INTER_LINEAR)), None
        if modality is Modality.FLOW:
            assert valid is not None
            return self._bend_flow(pixels, valid)
        halves = pixels.view(np.int16) if pixels.dtype == np.float16 else pixels
        bent = self._nearest(halves, FORMAT_OF[modality].empty if unseen is None else unseen)
        return bent.view(np.float16) if pixels.dtype == np.float16 else bent, None

    def _nearest(self, pixels: npt.NDArray[Any], empty: float = 0) -> npt.NDArray[Any]:
        return np.asarray(cv2.remap(pixels, *self._whole, cv2.INTER_NEAREST, borderValue=empty))

    def _bend_flow(self, flow: ImageArray, valid: BoolArray) -> tuple[ImageArray, BoolArray]:
        """Return the motion between the distorted places of each point, not between the ideal
        ones.
        """
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


def _ideal_focal_px(camera: CameraModel, spread: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the camera's focal lengths, less where the ideal picture of ``spread`` (2,) would
    be too large.
    """
    focal = np.array(camera.intrinsics_px[:2])
    size = np.maximum(spread * focal, 1.0)
    longest = np.minimum(_MOST_TIMES * np.array([camera.width_px, camera.height_px]), _LONGEST_PX)
    focal *= np.minimum(1.0, longest / size)
    focal *= min(1.0, math.sqrt(_MOST_PX / float(np.prod(np.minimum(size, longest)))))
    return float(focal[0]), float(focal[1])


_LENSES: Final[LruByteCache[CameraModel, Lens]] = LruByteCache(
    _CACHE_BYTES, lambda lens: lens.nbytes
)


def lens_of(camera: CameraModel) -> Lens | None:
    """Return the camera's lens; None if it has none.

    Raises:
        RendererError: it sees nothing, or more than a plane can hold.
    """
    if camera.distortion is None:
        return None
    glass = replace(camera, name="", effects=NO_EFFECTS)  # all cameras with this lens share it
    return _LENSES.get(glass, lambda: Lens(glass))
