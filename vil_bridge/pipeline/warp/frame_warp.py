"""The warp of one frame: one motion and one map for the pictures of all its modalities."""

from __future__ import annotations

from functools import cached_property
from typing import Final, Literal

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import BoolArray, FloatArray, ImageArray, Modality
from vil_bridge.pipeline.warp.depth_reprojection import RenderMap, render_map
from vil_bridge.pipeline.warp.homography import (
    homography,
    rotation_angle_rad,
    rotation_homography,
    rotation_translation,
    valid_fraction,
    warp,
)
from vil_bridge.pipeline.warp.modality_remap import (
    SMOOTH,
    FlowHistory,
    sampled,
    shown_depth,
    shown_flow,
    shown_normals,
    storable,
)
from vil_bridge.pipeline.warp.moving_actors import MovingScene, SeenActors, Sight
from vil_bridge.pipeline.warp.plane_fit import FittedPlane
from vil_bridge.pipeline.warp.rolling_shutter import CameraMotion, ShutterPoses
from vil_bridge.pipeline.warp.view_geometry import ViewGeometry
from vil_bridge.protocols import opencv as cv2

Method = Literal["none", "rotation", "homography", "reproject"]

_DEPTHS: Final = frozenset({Modality.DEPTH, Modality.DEPTH32})
_ROW_ROUNDS: Final = 4
"""The row decides the pose and the pose the row."""


class FrameWarp:
    """Warp of the pictures of one frame from the pose rendered for to the poses shown.

    A homography suffices for colours, ids and normals seen by a pinhole; all else goes through a
    map, which is solved once for all pictures.

    Args:
        T_world_render: pose of the optical camera that the frame was rendered for.
        exposure: poses that it is shown for; with the method ``none`` it is shown as rendered.
        method: ``reproject`` needs ``depth``, ``homography`` needs ``plane``.
        plane: in the render camera's axes.
        depth: depth picture of the frame.
        moving: what moved by itself since the frame was rendered, for ``reproject``; None = not
            known.

    Attributes:
        moved_actors: names of the actors that were found and moved; after a picture was shown.
    """

    def __init__(
        self,
        geometry: ViewGeometry,
        T_world_render: Transform,
        exposure: ShutterPoses,
        method: Method,
        plane: FittedPlane | None = None,
        depth: ImageArray | None = None,
        moving: MovingScene | None = None,
    ) -> None:
        self.moved_actors: tuple[str, ...] = ()
        self._moving = moving if method == "reproject" else None
        self.method: Method = method
        self.plane = plane if method == "homography" else None
        self._asked = exposure
        self._geometry = geometry
        self._T_world_render = T_world_render
        self._exposure = ShutterPoses((T_world_render,)) if method == "none" else exposure
        self._depth = depth

    @cached_property
    def angle_rad(self) -> float:
        """Rotation between the pose rendered for and the one in the middle of the exposure."""
        return rotation_angle_rad(self._T_world_render, self._asked.middle)

    @property
    def valid_fraction(self) -> float:
        """Part of the result that the rendered picture really shows."""
        if self._cuts:
            return 1.0
        if self._H is None:
            return self._found.valid_fraction
        return self._covered

    def show(
        self,
        modality: Modality,
        pixels: ImageArray,
        valid: BoolArray | None = None,
        before: FlowHistory | None = None,
    ) -> tuple[ImageArray, BoolArray | None]:
        """Return one picture of the frame, and its mask where the modality has one.

        Args:
            modality: what the picture holds.
            pixels: as rendered.
            valid: mask of flow.
            before: what flow looks back to; None = nothing, so that none is known.

        Raises:
            ValueError: the picture has another size than the rendered camera.
        """
        if self._cuts:
            shown = self._geometry.cut(pixels)
            if valid is not None:
                valid = self._geometry.cut(valid)
            return shown, valid
        self._geometry.check(pixels)
        if modality is Modality.FLOW:
            return self._flow(pixels, valid, before)
        if modality in _DEPTHS:
            z = sampled(modality, pixels, self._found)
            return shown_depth(
                z, self._geometry, self._found, self._motion(self._geometry.nodes.rows)
            ), None
        moved = self._moved(modality, pixels)
        if modality is Modality.NORMALS:
            moved = shown_normals(moved, self._motion_of_rows)
        return moved, None

    def place(self, u_px: float, v_px: float, z_m: float) -> tuple[float, float, float] | None:
        """Return where a point of the rendered picture is shown: pixel and z-depth.

        None = outside of the picture.

        Args:
            u_px: its column in the rendered picture.
            v_px: its row there.
            z_m: its z-depth there, metres.
        """
        X_render_m = self._geometry.K_rendered_inverse @ (u_px, v_px, 1.0) * z_m
        u = 0.0
        v = v_px
        z_now_m = 0.0
        rounds = 1
        if self._exposure.rolls:
            rounds = _ROW_ROUNDS
        for _ in range(rounds):
            motion = self._motion(np.array([v]))
            X_now_m = (X_render_m - motion.dp_render_m[0]) @ motion.R_rn[0]
            z_now_m = float(X_now_m[2])
            if z_now_m <= 0.0:
                return None
            u, v = (at.item() for at in self._geometry.to_pixels(*(X_now_m[:2] / z_now_m)[:, None]))
        width_px, height_px = self._geometry.size_px
        inside = -0.5 <= u < width_px - 0.5 and -0.5 <= v < height_px - 0.5
        if not inside:
            return None
        return u, v, z_now_m

    @property
    def _cuts(self) -> bool:
        return self.method == "none" and self._geometry.window is not None

    @cached_property
    def _H(self) -> FloatArray | None:  # noqa: N802 - the field's name for a homography
        """From render pixels to pixels shown; None where that takes a map."""
        if self.method == "reproject" or self._exposure.rolls or self._geometry.bends:
            return None
        K = self._geometry.K_rendered
        K_shown = self._geometry.K_shown
        R_rn, dp_render_m = rotation_translation(self._T_world_render, self._exposure.middle)
        if self.plane is None:
            return rotation_homography(K, R_rn, K_shown)
        return homography(K, R_rn, dp_render_m, self.plane.d_m, self.plane.normal, K_shown)

    @cached_property
    def _covered(self) -> float:
        assert self._H is not None
        return valid_fraction(self._H, self._geometry.rendered_size_px, self._geometry.size_px)

    @property
    def _scene(self) -> FittedPlane | ImageArray | None:
        return self._depth if self.method == "reproject" else self.plane

    @cached_property
    def _found(self) -> RenderMap:
        motion = self._motion(self._geometry.nodes.rows)
        if self._moving is None or self._depth is None:
            return render_map(self._geometry, motion, self._scene)
        seen = SeenActors(self._moving, Sight(self._geometry, self._T_world_render, self._depth))
        self.moved_actors = seen.names
        if not seen.names:
            return render_map(self._geometry, motion, self._scene)
        return seen.drawn_into(
            render_map(self._geometry, motion, seen.static_depth), self._exposure
        )

    @cached_property
    def _motion_of_rows(self) -> CameraMotion:
        return self._motion(np.arange(self._geometry.size_px[1], dtype=np.float64))

    def _motion(self, rows: FloatArray) -> CameraMotion:
        motion = self._exposure.motion_from(self._T_world_render, rows, self._geometry.size_px[1])
        if self.method == "rotation":
            return motion.turned_only()
        return motion

    def _moved(self, modality: Modality, pixels: ImageArray) -> ImageArray:
        if self._H is None:
            return sampled(modality, pixels, self._found)
        interpolation = cv2.INTER_LINEAR if modality in SMOOTH else cv2.INTER_NEAREST
        moved = warp(
            storable(pixels), self._H, self._geometry.size_px, self._covered, interpolation
        )
        return moved.view(np.float16) if pixels.dtype == np.float16 else moved

    def _flow(
        self, pixels: ImageArray, valid: BoolArray | None, before: FlowHistory | None
    ) -> tuple[ImageArray, BoolArray]:
        height_px = self._geometry.size_px[1]
        width_px = self._geometry.size_px[0]
        if before is None or valid is None:
            return np.zeros((height_px, width_px, 2), np.float32), np.zeros(
                (height_px, width_px), np.bool_
            )
        mask = sampled(Modality.SEMANTIC, valid.view(np.uint8), self._found).astype(np.bool_)
        if self._found.filled is not None:
            mask &= self._geometry.enlarged(self._found.filled.astype(np.float32)) < 0.5
        if self._found.moved is not None:
            mask &= ~self._found.moved.unknown
        scene = self._scene
        if self._depth is not None and self.method in ("reproject", "none"):
            scene = sampled(Modality.SEMANTIC, self._depth, self._found)
        flow_px = sampled(Modality.FLOW, pixels, self._found)
        return shown_flow(
            flow_px, mask, scene, self._geometry, self._found, self._T_world_render, before
        )
