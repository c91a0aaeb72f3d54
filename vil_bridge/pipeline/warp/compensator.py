"""One camera's late warp: decides what can be done for a frame and says what was done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray, ImageArray, Modality
from vil_bridge.pipeline.warp.frame_warp import FrameWarp, Method
from vil_bridge.pipeline.warp.moving_actors import MovingScene
from vil_bridge.pipeline.warp.plane_fit import (
    DEFAULT_PLANE_DEPTH_M,
    FittedPlane,
    fit_plane,
    median_depth,
)
from vil_bridge.pipeline.warp.rolling_shutter import ShutterPoses
from vil_bridge.pipeline.warp.view_geometry import ViewGeometry

__all__ = ["Compensated", "Compensator", "Method", "PlaneDepth"]

PlaneDepth = float | Literal["fit"] | None
"""Distance of the homography's plane, metres; None = median of the newest depth picture.

Fit = fitted to it.
"""

_LEAST_DEPTH_M = 0.1
_KIND_OF = {np.dtype(np.uint16): Modality.DEPTH, np.dtype(np.float32): Modality.DEPTH32}


@dataclass(frozen=True, slots=True, eq=False)
class Compensated:
    """A picture and how it was compensated.

    Attributes:
        method: what was done, which is less than asked for when the depth picture was missing.
        d_m: distance of the plane (homography only), else None.
        angle_rad: rotation between the two poses.
        valid_fraction: part of the picture that the rendered one covers.
    """

    pixels: ImageArray
    method: Method
    d_m: float | None
    angle_rad: float
    valid_fraction: float


class Compensator:
    """Belongs to one camera and one thread.

    Args:
        plane_depth_m: distance of the homography's plane; ``fit`` finds distance and normal in the
            newest depth picture, None takes its median; 8 m before there is one.

    Raises:
        ValueError: the distance is not positive.
    """

    def __init__(self, plane_depth_m: PlaneDepth = None) -> None:
        if isinstance(plane_depth_m, (int, float)) and not plane_depth_m > 0.0:
            raise ValueError(f"plane depth must be positive, got {plane_depth_m} m")
        self._plane_depth_m = plane_depth_m
        self._newest = FittedPlane(DEFAULT_PLANE_DEPTH_M)
        self._geometry: tuple[bytes, ViewGeometry] | None = None

    def plane(self, depth: ImageArray | None, K: FloatArray) -> FittedPlane:
        """Return the homography's plane for a frame.

        Args:
            depth: its depth picture, None = none.
            K: intrinsic matrix that it was rendered with.
        """
        if isinstance(self._plane_depth_m, (int, float)):
            return FittedPlane(self._plane_depth_m)
        if depth is not None:
            fitted = fit_plane(depth, K) if self._plane_depth_m == "fit" else None
            self._newest = fitted or FittedPlane(max(median_depth(depth), _LEAST_DEPTH_M))
        return self._newest

    def frame(
        self,
        geometry: ViewGeometry,
        T_world_render: Transform,
        exposure: ShutterPoses,
        mode: Method,
        depth: ImageArray | None = None,
        plane: FittedPlane | None = None,
        moving: MovingScene | None = None,
    ) -> FrameWarp:
        """Return the warp of one frame's pictures.

        Args:
            geometry: geometry of the camera.
            T_world_render: pose of the optical camera that the frame was rendered for.
            exposure: poses that it is to be shown for.
            mode: what to do; ``reproject`` without depth becomes ``homography``.
            depth: depth picture of the frame, uint16 or float32 (h, w).
            plane: the homography's, in the render camera's axes; None = as this camera finds it.
            moving: actors that moved by themselves, for ``reproject``; None = not known.

        Raises:
            ValueError: ``depth`` or the instance picture has another size than the rendered camera.
        """
        pictures: list[tuple[str, ImageArray | None]] = [("depth", depth)]
        if moving is not None:
            pictures.append(("instance", moving.instance))
        for name, picture in pictures:
            if (
                picture is not None
                and (picture.shape[1], picture.shape[0]) != geometry.rendered_size_px
            ):
                raise ValueError(
                    f"{name} is {picture.shape}, the rendered camera {geometry.rendered_size_px}"
                )
        method: Method = mode
        if mode == "reproject" and depth is None:
            method = "homography"
        if method == "homography" and plane is None:
            plane = self.plane(depth, geometry.K_rendered)
        return FrameWarp(geometry, T_world_render, exposure, method, plane, depth, moving)

    def compensate(
        self,
        image: ImageArray,
        K: FloatArray,
        T_world_render: Transform,
        T_world_now: Transform,
        mode: Method,
        depth: ImageArray | None = None,
        *,
        modality: Modality | None = None,
    ) -> Compensated:
        """Make a single picture of a pinhole look as if rendered at another pose.

        Args:
            image: (h, w[, channels]), as :class:`Modality` says; all but flow.
            K: intrinsic matrix of both pictures.
            T_world_render: pose of the optical camera that the picture was rendered for.
            T_world_now: pose that it is to be shown for.
            mode: what to do; ``reproject`` without depth becomes ``homography``.
            depth: depth picture of the same frame; a depth ``image`` is its own.
            modality: what ``image`` is; None = depth where it has uint16 or float32, else colour or
                gray.

        Raises:
            ValueError: ``depth`` has another size than ``image``.
        """
        kind = modality or _KIND_OF.get(image.dtype, Modality.RGB)
        if kind in (Modality.DEPTH, Modality.DEPTH32):
            depth = image
        geometry = self._pinhole(K, image)
        frame = self.frame(geometry, T_world_render, ShutterPoses((T_world_now,)), mode, depth)
        pixels, _ = frame.show(kind, image)
        d_m = None if frame.plane is None else frame.plane.d_m
        return Compensated(pixels, frame.method, d_m, frame.angle_rad, frame.valid_fraction)

    def _pinhole(self, K: FloatArray, image: ImageArray) -> ViewGeometry:
        key = K.tobytes() + np.array(image.shape[:2]).tobytes()
        if self._geometry is None or self._geometry[0] != key:
            model = CameraModel(
                "", image.shape[1], image.shape[0], 1.0, (K[0, 0], K[1, 1], K[0, 2], K[1, 2])
            )
            self._geometry = key, ViewGeometry(model)
        return self._geometry[1]
