"""Geometry of the rendered and the shown camera.

Other sizes, another pinhole, and a lens between them.

A camera that warps may be rendered wider than it is, so that the warp finds something at every
border. It is then the configured picture with a margin all around, cut out again by a view where
nothing has to be warped. A camera with lens distortion is rendered by an ideal pinhole that sees as
much, and bent by the warp itself.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.types import BoolArray, FloatArray, ImageArray
from vil_bridge.optics.lens import distort, undistort
from vil_bridge.protocols import opencv as cv2

_GRID_PX: Final = 4
"""Between two nodes the map is a mean of both sides' where an edge of depth passes, and a lens
bends it.
"""

_Float32 = npt.NDArray[np.float32]


class Nodes(NamedTuple):
    """Every fourth pixel of the picture shown, with one cell more on each side of it.

    Attributes:
        x, y: ideal normalised coordinates, shapes (m, n), or (1, n) and (m, 1) without a lens.
        rows: shape (m,), in pixels.
        unseen: shape (m, n), where the lens shows nothing; None = nowhere.
    """

    x: FloatArray
    y: FloatArray
    rows: FloatArray
    unseen: BoolArray | None


class ViewGeometry:
    """The geometry of one camera's warp; everything that does not change from frame to frame.

    Args:
        shown: the camera as its readers know it.
        rendered: the ideal pinhole that is rendered; None = the same.

    Attributes:
        window: where the shown picture lies in the rendered one, None where it is not a part of it.
    """

    def __init__(self, shown: CameraModel, rendered: CameraModel | None = None) -> None:
        self.shown = shown
        self.rendered = shown if rendered is None else rendered
        self.K_shown = shown.K
        self.K_rendered = self.rendered.K
        self.K_rendered_inverse = np.asarray(np.linalg.inv(self.K_rendered), np.float64)
        self.window = self._window()
        _ = self.missed_px  # takes a second for a large picture: now, not with the first frame

    @property
    def bends(self) -> bool:
        """True when the warp has to do what the lens does."""
        return self.shown.distortion is not None and self.rendered.distortion is None

    @property
    def size_px(self) -> tuple[int, int]:
        """Width and height of the picture shown."""
        return self.shown.width_px, self.shown.height_px

    @property
    def rendered_size_px(self) -> tuple[int, int]:
        """Width and height of the rendered picture."""
        return self.rendered.width_px, self.rendered.height_px

    @cached_property
    def nodes(self) -> Nodes:
        """The pixels for which maps are solved."""
        # cv2.resize centres cells; one more cell on each side spares it from extrapolating.
        u, v = (
            (np.arange(-1, -(-n // _GRID_PX) + 1, dtype=np.float64) + 0.5) * _GRID_PX - 0.5
            for n in self.size_px
        )
        fx, fy, cx, cy = self.shown.intrinsics_px
        x = ((u - cx) / fx)[None, :]
        y = ((v - cy) / fy)[:, None]
        if not self.bends:
            return Nodes(x, y, v, None)
        ideal = self._ideal(x, y)
        unseen = np.isnan(ideal[..., 0])
        ideal[unseen] = 0.0
        return Nodes(ideal[..., 0], ideal[..., 1], v, unseen if unseen.any() else None)

    @cached_property
    def missed_px(self) -> tuple[_Float32, _Float32] | None:
        """Return the error of interpolating a lens between nodes, in render pixels, shapes (h, w).

        At most a few tenths of a pixel, so that it may be added to any map, whatever the motion.
        """
        if not self.bends:
            return None
        fx, fy, cx, cy = self.shown.intrinsics_px
        u, v = (np.arange(n, dtype=np.float64) for n in self.size_px)
        ideal = self._ideal(((u - cx) / fx)[None, :], ((v - cy) / fy)[:, None])
        missed = []
        for axis, at_nodes in enumerate((self.nodes.x, self.nodes.y)):
            f_px = self.rendered.intrinsics_px[axis]
            missed.append(
                np.nan_to_num(f_px * (ideal[..., axis] - self.enlarged(at_nodes))).astype(
                    np.float32
                )
            )
        return missed[0], missed[1]

    def _ideal(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Ideal normalised coordinates, shape (m, n, 2), of those in columns (1, n) and rows (m,
        1) of the picture.
        """
        bent = np.stack(np.broadcast_arrays(x, y), axis=-1)
        return undistort(self.shown.distortion, bent.reshape(-1, 2)).reshape(bent.shape)

    def enlarged(self, at_nodes: ImageArray) -> _Float32:
        """Values at the nodes, interpolated at every pixel of the picture shown."""
        g = _GRID_PX
        width_px, height_px = self.size_px
        full: Any = cv2.resize(
            at_nodes, (at_nodes.shape[1] * g, at_nodes.shape[0] * g), interpolation=cv2.INTER_LINEAR
        )
        enlarged: _Float32 = full[g : g + height_px, g : g + width_px]
        return enlarged

    def inner(self, at_nodes: ImageArray) -> ImageArray:
        """Return the nodes within the picture shown."""
        return at_nodes[1:-1, 1:-1]

    def check(self, pixels: ImageArray) -> None:
        """Check that a picture has the size of the rendered camera.

        Raises:
            ValueError: it has another one.
        """
        if (pixels.shape[1], pixels.shape[0]) != self.rendered_size_px:
            raise ValueError(
                f"the picture is {pixels.shape[:2]}, the rendered camera {self.rendered_size_px}"
            )

    def cut(self, pixels: ImageArray) -> ImageArray:
        """Return the picture shown as a view of the rendered one, whose ``window`` it is.

        Raises as :meth:`check`.
        """
        assert self.window is not None
        self.check(pixels)
        return pixels if self.size_px == self.rendered_size_px else pixels[self.window]

    def to_pixels(self, x: ImageArray, y: ImageArray) -> tuple[ImageArray, ImageArray]:
        """Return where the camera shows ideal normalised coordinates of any shape, its lens
        included.
        """
        fx, fy, cx, cy = self.shown.intrinsics_px
        if self.shown.distortion is not None:
            bent = distort(
                self.shown.distortion, np.stack((x, y), axis=-1, dtype=np.float64).reshape(-1, 2)
            )
            x = bent[:, 0].reshape(x.shape)
            y = bent[:, 1].reshape(y.shape)
        return x * fx + cx, y * fy + cy

    def _window(self) -> tuple[slice, slice] | None:
        fx, fy, cx, cy = self.shown.intrinsics_px
        gx, gy, rx, ry = self.rendered.intrinsics_px
        left = round(rx - cx)
        top = round(ry - cy)
        same = np.allclose((gx, gy, rx - left, ry - top), (fx, fy, cx, cy), rtol=1e-9, atol=1e-6)
        if self.bends or not same:
            return None
        return np.s_[top : top + self.size_px[1], left : left + self.size_px[0]]
