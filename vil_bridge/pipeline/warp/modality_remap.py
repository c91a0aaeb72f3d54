"""Pictures sampled where a map says, and values that depend on the camera converted to the camera
shown.

Colours mix with their neighbours. Ids, depths, normals and flow never do: they come from the
nearest pixel.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from vil_bridge.core.geometry import Transform, q_to_matrix
from vil_bridge.core.types import BoolArray, ImageArray, Modality
from vil_bridge.optics.pixel_formats import FORMAT_OF
from vil_bridge.pipeline.warp.depth_reprojection import RenderMap
from vil_bridge.pipeline.warp.opencv_remap import by_map
from vil_bridge.pipeline.warp.plane_fit import NO_HIT_M, FittedPlane, metres_per_unit
from vil_bridge.pipeline.warp.rolling_shutter import CameraMotion, ShutterPoses
from vil_bridge.pipeline.warp.view_geometry import ViewGeometry
from vil_bridge.protocols import opencv as cv2

SMOOTH: Final = frozenset({Modality.RGB, Modality.GRAY, Modality.RGBA})
"""Modalities that may be interpolated."""
_LEAST_Z_M: Final = 1e-3


class FlowHistory(NamedTuple):
    """Earlier picture that a flow picture looks back to.

    Attributes:
        T_world_rendered: pose of the picture that the renderer drew before this one.
        shown: poses of the picture that was delivered before this one.
        share: time from the rendered content of that delivered picture to this one, by the time
            from the picture drawn before to this one: 1 unless pictures in between were not
            delivered.
    """

    T_world_rendered: Transform
    shown: ShutterPoses
    share: float = 1.0


def storable(pixels: ImageArray) -> ImageArray:
    """Return the same bits as OpenCV can move them: it does not know float16."""
    return pixels.view(np.int16) if pixels.dtype == np.float16 else pixels


def sampled(modality: Modality, pixels: ImageArray, found: RenderMap) -> ImageArray:
    """Return a picture sampled at the places of a map; nothing to see outside. Releases the GIL.

    Args:
        modality: what the picture holds; a mask (h, w) uint8 is one of ids.
        pixels: as rendered.
        found: the map.
    """
    interpolation = cv2.INTER_LINEAR if modality in SMOOTH else cv2.INTER_NEAREST
    empty = (FORMAT_OF[modality].empty,) * 4
    moved = by_map(storable(pixels), found.x_px, found.y_px, interpolation, empty)
    if pixels.dtype == np.float16:
        moved = moved.view(np.float16)
    return np.asarray(moved)


def shown_depth(
    z: ImageArray, geometry: ViewGeometry, found: RenderMap, motion: CameraMotion
) -> ImageArray:
    """Depths at render pixels, sampled, as z-depths of the cameras shown; no hit stays no hit.

    Args:
        z: shape (h, w), uint16 (metres x 655.35) or float32 (metres).
        geometry: geometry of the camera.
        found: the map that they were sampled with.
        motion: of the rows of the nodes.
    """
    # z_now = e3 . R_rn^T (K^-1 (x, y, 1) z_render - dp), in whole-picture steps that saturate and
    # release the GIL.
    ahead = motion.R_rn[:, :, 2]
    a, b, c = (ahead @ geometry.K_rendered_inverse).astype(np.float32).T[:, :, None]
    turn = geometry.enlarged(a * found.x_nodes_px + b * found.y_nodes_px + c)
    away = (ahead * motion.dp_render_m).sum(axis=1, dtype=np.float32)[:, None] / np.float32(
        metres_per_unit(z)
    )
    no_hit: int | np.float32 = np.float32(NO_HIT_M)
    kind = cv2.CV_32F
    if z.dtype == np.uint16:
        no_hit = 0xFFFF
        kind = cv2.CV_16U
    turned = cv2.multiply(z, turn, dtype=cv2.CV_32F)
    if len(away) == 1:
        z_now: Any = cv2.addWeighted(turned, 1.0, turned, 0.0, -float(away[0, 0]), dtype=kind)
    else:
        steps = geometry.enlarged(np.broadcast_to(away, found.x_nodes_px.shape).copy())
        z_now = cv2.subtract(turned, steps, dtype=kind)
    np.copyto(z_now, no_hit, where=z == no_hit)
    if found.moved is not None:
        z_now[found.moved.row, found.moved.column] = found.moved.z_m / np.float32(
            metres_per_unit(z)
        )
    return np.asarray(z_now)


def shown_normals(normals: ImageArray, motion: CameraMotion) -> ImageArray:
    """Return sampled normals in the axes of the cameras shown.

    Args:
        normals: shape (h, w, 3), float16, render camera's axes.
        motion: of every row, or of all.
    """
    turned = normals.astype(np.float32) @ motion.R_rn.astype(np.float32)  # n^T R is (R^T n)^T
    return np.asarray(turned.astype(np.float16))


def shown_flow(
    flow_px: ImageArray,
    known: BoolArray,
    scene: FittedPlane | ImageArray | None,
    geometry: ViewGeometry,
    found: RenderMap,
    T_world_render: Transform,
    before: FlowHistory,
) -> tuple[ImageArray, BoolArray]:
    """Motion of each point between the picture delivered before and this one.

    A point X of this rendered frame was seen by the renderer's camera before, r', at x - flow. On
    that ray it had, as far as a picture shows, the depth that X has from there; for what stands
    still this is X itself. The place at which the camera of the delivered picture, n', saw it is
    subtracted from the pixel shown now.

    Args:
        flow_px: sampled, shape (h, w, 2).
        known: sampled mask, shape (h, w).
        scene: sampled depth picture of the frame, or its plane, or None for directions alone.
        geometry: geometry of the camera.
        found: the map that all this was sampled with.
        T_world_render: pose of the optical camera that the frame was rendered for.
        before: the picture drawn, and the one delivered, before this one.

    Returns:
        Flow, float32 (h, w, 2), 0 where the mask (h, w) is False.
    """
    height_px, width_px = known.shape
    was, z_before_m = _where_it_was(flow_px, scene, geometry, found, before, T_world_render)
    motion = before.shown.motion_from(
        before.T_world_rendered, np.arange(height_px, dtype=np.float64), height_px
    )
    if scene is None:
        motion = motion.turned_only()
    in_shown = (was - motion.dp_render_m[:, None].astype(np.float32)) @ motion.R_rn.astype(
        np.float32
    )
    valid = known & (z_before_m > _LEAST_Z_M) & (in_shown[..., 2] > _LEAST_Z_M)
    in_shown[~valid] = 1.0
    u_before, v_before = geometry.to_pixels(
        in_shown[..., 0] / in_shown[..., 2], in_shown[..., 1] / in_shown[..., 2]
    )
    u = np.arange(width_px, dtype=np.float32)
    v = np.arange(height_px, dtype=np.float32)[:, None]
    moved = np.stack((u - u_before, v - v_before), axis=-1, dtype=np.float32)
    moved[~valid] = 0.0
    return moved, valid


def _where_it_was(
    flow_px: ImageArray,
    scene: FittedPlane | ImageArray | None,
    geometry: ViewGeometry,
    found: RenderMap,
    before: FlowHistory,
    T_world_render: Transform,
) -> tuple[ImageArray, ImageArray]:
    """Return points (h, w, 3) as the picture delivered before had them, and their depths (h, w),
    axes of r'.
    """
    gx, gy, rx, ry = (np.float32(value) for value in geometry.rendered.intrinsics_px)
    ray = np.stack(
        ((found.x_px - rx) / gx, (found.y_px - ry) / gy, np.ones_like(found.x_px)), axis=-1
    )
    X = ray * _depth_along(scene, ray)
    X_before = _moved(X, before.T_world_rendered.inverse() @ T_world_render, scene is None)
    # x - flow in the pixels of r', whose pinhole is the same.
    seen = ray - flow_px @ np.array([[1.0 / gx, 0.0, 0.0], [0.0, 1.0 / gy, 0.0]], np.float32)
    was = seen * X_before[..., 2:]
    return X_before + (was - X_before) * np.float32(before.share), X_before[..., 2]


def _depth_along(
    scene: FittedPlane | ImageArray | None, ray: ImageArray
) -> ImageArray | np.float32:
    """z-depth, shape (h, w, 1) or a number, of the points on rays (h, w, 3) of the rendered
    picture.
    """
    if scene is None:
        return np.float32(1.0)
    if isinstance(scene, FittedPlane):
        return np.asarray(
            np.float32(scene.d_m)
            / np.maximum(ray @ scene.normal.astype(np.float32), 1e-3)[..., None]
        )
    return np.asarray(scene[..., None] * np.float32(metres_per_unit(scene)))


def _moved(points: ImageArray, T: Transform, turned_only: bool) -> ImageArray:
    """Points (h, w, 3) in other axes; directions when ``turned_only``."""
    turned = points @ q_to_matrix(T.q_xyzw).T.astype(np.float32)
    if turned_only:
        return np.asarray(turned)
    return np.asarray(turned + T.p_m.astype(np.float32))
