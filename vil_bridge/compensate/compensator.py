"""One camera's late warp: picks the map, applies it and says what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np

from vil_bridge.compensate.homography import (
    DEFAULT_PLANE_DEPTH_M,
    homography,
    median_depth,
    rotation_angle_rad,
    rotation_homography,
    rotation_translation,
    warp,
)
from vil_bridge.compensate.reproject import render_map, reproject, reproject_depth
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray, ImageArray

__all__ = ["Compensated", "Compensator", "Method"]

Method = Literal["none", "rotation", "homography", "reproject"]


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
        plane_depth_m: distance of the homography's plane; None takes the median of the newest depth
            picture, and 8 m before there is one.
    """

    def __init__(self, plane_depth_m: float | None = None) -> None:
        if plane_depth_m is not None and not plane_depth_m > 0.0:
            raise ValueError(f"plane depth must be positive, got {plane_depth_m} m")
        self._fixed_depth_m = plane_depth_m
        self._newest_depth_m = DEFAULT_PLANE_DEPTH_M

    def compensate(
        self,
        image: ImageArray,
        K: FloatArray,
        T_world_render: Transform,
        T_world_now: Transform,
        mode: Method,
        depth: ImageArray | None = None,
        *,
        labels: bool = False,
    ) -> Compensated:
        """Make a picture look as if rendered at another pose.

        Args:
            image: (h, w[, channels]) uint8, ids (h, w) uint16, or a depth picture (h, w) uint16, whose values
                change too.
            K: its intrinsic matrix.
            T_world_render: pose of the optical camera that the picture was rendered for.
            T_world_now: pose that it is to be shown for.
            mode: what to do; ``reproject`` without depth becomes ``homography``.
            depth: depth picture of the same frame, uint16 (h, w); a depth ``image`` is its own.
            labels: ``image`` holds ids, which are moved and never mixed.

        Raises:
            ValueError: ``depth`` has another size than ``image``.
        """
        angle_rad = rotation_angle_rad(T_world_render, T_world_now)
        is_depth = image.dtype == np.uint16 and not labels
        interpolation = cv2.INTER_NEAREST if labels else cv2.INTER_LINEAR
        if is_depth:
            depth = image
        if depth is not None and depth.shape != image.shape[:2]:
            raise ValueError(f"depth is {depth.shape}, the picture {image.shape[:2]}")
        if mode == "none":
            return Compensated(image, "none", None, angle_rad, 1.0)
        R_rn, dp_render_m = rotation_translation(T_world_render, T_world_now)
        method: Method = "homography" if mode == "reproject" and depth is None else mode
        d_m = self._plane_depth(depth) if method == "homography" else None
        if method == "rotation":
            dp_render_m = np.zeros(3)
        size_px = image.shape[1], image.shape[0]
        if not is_depth and method != "reproject":
            H = rotation_homography(K, R_rn) if d_m is None else homography(K, R_rn, dp_render_m, d_m)
            pixels, valid = warp(image, H, size_px, interpolation)
            return Compensated(pixels, method, d_m, angle_rad, valid)
        scene = d_m if d_m is not None else depth
        assert scene is not None
        found = render_map(K, R_rn, dp_render_m, size_px, scene)
        if is_depth:
            pixels = reproject_depth(image, found, K, R_rn, dp_render_m)
        else:
            pixels = reproject(image, found, interpolation)
        return Compensated(pixels, method, d_m, angle_rad, found.valid_fraction)

    def _plane_depth(self, depth: ImageArray | None) -> float:
        if self._fixed_depth_m is not None:
            return self._fixed_depth_m
        if depth is not None:
            self._newest_depth_m = max(median_depth(depth), 0.1)
        return self._newest_depth_m
