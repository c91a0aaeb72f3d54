"""Map from each pixel shown to its place in the rendered picture.

Each node of the picture shown looks for the render pixel that shows the same point. On a plane that
is one formula. With a depth picture it starts from the rotation alone: the depth of the nearest
thing around gives a point, the point a pixel, the depth found there a better point. Four rounds on
a grid of every fourth pixel are enough; the coordinates are then enlarged and the picture is
sampled once. A coarser grid bends what lies next to edges of depth: with every eighth pixel, marks
seven pixels from an edge were one pixel off after 8 cm. Where the rounds do not settle, something
near hid the point when the picture was rendered: such holes are filled from the background. What
moved since moves as if it stood still, unless it is known where it is
(:mod:`~vil_bridge.pipeline.warp.moving_actors`).
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray, ImageArray
from vil_bridge.pipeline.warp.disocclusion import background_of, last_visible
from vil_bridge.pipeline.warp.plane_fit import FittedPlane, metres_per_unit
from vil_bridge.pipeline.warp.rolling_shutter import CameraMotion
from vil_bridge.pipeline.warp.view_geometry import ViewGeometry
from vil_bridge.protocols import opencv as cv2

_ROUNDS: Final = 4
_SETTLED_PX: Final = 1.0
_NEAREST_M: Final = 0.05
_AROUND: Final = np.ones((13, 13), np.uint8)
"""Nodes in which a near thing is looked for: 24 pixels to each side."""
_LEAST_Z: Final = 1e-3
_OUTSIDE_PX: Final = -1e6

_Float32 = npt.NDArray[np.float32]


class MovedPixels(NamedTuple):
    """Pixels shown of what moved by itself.

    Attributes:
        row, column: shape (k,). z_m: z-depths in the camera shown, float32 (k,), metres.
        unknown: shape (h, w), these pixels and those of the ground that came into view.
    """

    row: npt.NDArray[np.intp]
    column: npt.NDArray[np.intp]
    z_m: _Float32
    unknown: BoolArray


class RenderMap(NamedTuple):
    """Map from each pixel shown to its place in the rendered picture.

    Attributes:
        x_px, y_px: shape (h, w), float32.
        x_nodes_px, y_nodes_px: the same at the nodes of the :class:`ViewGeometry`, shape (m, n).
        filled: shape (m, n), nodes that the rendered picture could not see; None = there are none.
        valid_fraction: part of the result that it really shows.
        moved: what moved by itself; None = nothing is known to have.
    """

    x_px: _Float32
    y_px: _Float32
    x_nodes_px: _Float32
    y_nodes_px: _Float32
    filled: BoolArray | None
    valid_fraction: float
    moved: MovedPixels | None = None


def render_map(
    geometry: ViewGeometry, motion: CameraMotion, scene: FittedPlane | ImageArray | None
) -> RenderMap:
    """Solve for the render pixel of every pixel shown.

    Args:
        geometry: the camera.
        motion: of the rows of its nodes.
        scene: depth picture of the rendered frame, uint16 (metres x 655.35) or float32 (metres); or
            a plane in the render camera's axes; None = infinitely far away.
    """
    holes = None
    if isinstance(scene, np.ndarray):
        x, y, lost, holes = _by_depth(geometry, motion, scene)
    else:
        x, y, lost = _by_plane(geometry, motion, scene)
    if geometry.nodes.unseen is not None:
        lost = lost | geometry.nodes.unseen
    x[lost] = _OUTSIDE_PX
    width_px, height_px = geometry.rendered_size_px
    known = (x > -0.5) & (x < width_px - 0.5) & (y > -0.5) & (y < height_px - 0.5)
    if holes is not None:
        known &= ~holes
    inner = geometry.inner(known)
    fraction = float(np.count_nonzero(inner)) / inner.size
    x_px = geometry.enlarged(x)
    y_px = geometry.enlarged(y)
    if geometry.missed_px is not None:
        x_px += geometry.missed_px[0]
        y_px += geometry.missed_px[1]
    return RenderMap(x_px, y_px, x, y, holes, fraction)


def _rays(geometry: ViewGeometry, matrix: FloatArray) -> tuple[_Float32, ...]:
    """Rows of ``matrix`` (n, 3, 3) times the ray (x, y, 1) of each node, three arrays (m, n)."""
    nodes = geometry.nodes
    size = nodes.x.shape[1]
    made = []
    for i in range(3):
        a, b, c = (matrix[:, i, k, None] for k in range(3))
        made.append(
            np.broadcast_to((a * nodes.x + (b * nodes.y + c)), (len(nodes.rows), size)).astype(
                np.float32
            )
        )
    return tuple(made)


def _by_plane(
    geometry: ViewGeometry, motion: CameraMotion, plane: FittedPlane | None
) -> tuple[_Float32, _Float32, BoolArray]:
    """Return render coordinates of the nodes, and which of them look past the plane, or behind
    it.
    """
    x, y, z = _rays(geometry, geometry.K_rendered @ motion.R_rn)
    lost = z < _LEAST_Z
    if plane is not None and motion.dp_render_m.any():
        normal = plane.normal / plane.d_m
        towards = _rays(
            geometry, np.broadcast_to((normal @ motion.R_rn)[:, None, :], motion.R_rn.shape)
        )[0]
        near = (1.0 - motion.dp_render_m @ normal)[:, None].astype(np.float32)
        # z_now = near / towards: the point R ray z_now + dp, times towards so that nothing is
        # divided twice.
        shift = (motion.dp_render_m @ geometry.K_rendered.T)[:, :, None].astype(np.float32)
        lost = (towards <= 0.0) | (near <= 0.0)
        x, y, z = (ray * near + shift[:, i] * towards for i, ray in enumerate((x, y, z)))
        lost |= z < _LEAST_Z * towards
    z = np.where(lost, np.float32(1.0), z)
    return np.asarray(x / z, np.float32), np.asarray(y / z, np.float32), lost


def _by_depth(
    geometry: ViewGeometry, motion: CameraMotion, depth: ImageArray
) -> tuple[_Float32, _Float32, BoolArray, BoolArray | None]:
    """Return them by a depth picture, and which nodes were holes, already filled.

    None = there are none.
    """
    ray_x, ray_y, ray_z = _rays(geometry, geometry.K_rendered @ motion.R_rn)
    shift = (motion.dp_render_m @ geometry.K_rendered.T).astype(np.float32)
    bx, by, bz = (shift[:, i, None] for i in range(3))
    ahead = motion.R_rn[:, :, 2]
    rows = (ahead @ geometry.K_rendered_inverse).astype(np.float32)
    ax, ay, az = (rows[:, i, None] for i in range(3))
    t_z = -(ahead * motion.dp_render_m).sum(axis=1)[:, None].astype(np.float32)
    nearest = np.float32(_NEAREST_M)
    lost = ray_z < _LEAST_Z
    ray_z[lost] = 1.0
    x = ray_x / ray_z
    y = ray_y / ray_z
    if not motion.dp_render_m.any():
        return x, y, lost, None
    was_x = np.empty_like(x)
    was_y = np.empty_like(x)
    z_now = np.empty_like(x)
    z = np.empty_like(x)
    # What is near hides what is far: begin with the nearest thing around, and it is found wherever
    # it is seen.
    z_render: ImageArray = cv2.erode(_depth_at_nodes(depth, x, y), _AROUND)
    for k in range(_ROUNDS):
        if k:
            z_render = _depth_at_nodes(depth, x, y)
        # In memory that is there: new arrays would cost more than what is computed.
        np.multiply(ax, x, out=z_now)
        z_now += np.multiply(ay, y, out=z)
        z_now += az
        z_now *= z_render
        z_now += t_z
        _divisor(ray_z, cv2.max(z_now, _NEAREST_M, dst=z_now), bz, out=z)
        x, was_x = _quotient(ray_x, z_now, bx, z, out=was_x), x
        y, was_y = _quotient(ray_y, z_now, by, z, out=was_y), y
    holes = (np.abs(x - was_x) + np.abs(y - was_y) > _SETTLED_PX) & ~lost
    if not holes.any():
        return x, y, lost, None
    ground = background_of(holes, z_now)
    at = ground.row, ground.column
    edge = ground.edge_row, ground.edge_column
    size = z_now.shape
    step_x, step_y, step_z = (np.broadcast_to(step, size)[at] for step in (bx, by, bz))
    z = np.maximum(ray_z[at] * z_now[edge] + step_z, nearest)
    hidden_x, hidden_y = (
        (ray * z_now[edge] + step) / z for ray, step in ((ray_x[at], step_x), (ray_y[at], step_y))
    )
    found = last_visible(
        partial(_depth_at, depth), _pair(hidden_x, hidden_y), _pair(x[edge], y[edge]), z
    )
    x[at], y[at] = found
    return x, y, lost, holes


def _divisor(ray: _Float32, z_now: _Float32, step: _Float32, out: _Float32) -> None:
    np.multiply(ray, z_now, out=out)
    out += step
    cv2.max(out, _NEAREST_M, dst=out)  # a quarter of np.maximum's time


def _quotient(
    ray: _Float32, z_now: _Float32, step: _Float32, z: _Float32, out: _Float32
) -> _Float32:
    np.multiply(ray, z_now, out=out)
    out += step
    out /= z
    return out


def _pair(x: ImageArray, y: ImageArray) -> _Float32:
    return np.stack((x, y), dtype=np.float32)


def _depth_at(depth: ImageArray, x: _Float32, y: _Float32) -> _Float32:
    """Depth in metres at the nearest pixel, the border's beyond the border."""
    height_px, width_px = depth.shape
    column = np.clip(np.rint(x), 0, width_px - 1).astype(np.int32)
    line = np.clip(np.rint(y), 0, height_px - 1).astype(np.int32)
    depth_m: _Float32 = depth[line, column] * np.float32(metres_per_unit(depth))
    return depth_m


def _depth_at_nodes(depth: ImageArray, x: _Float32, y: _Float32) -> _Float32:
    """Return them at all nodes, in a fraction of the time.

    OpenCV takes no empty arrays and no sides above 32766.
    """
    found = cv2.remap(depth, x, y, cv2.INTER_NEAREST, borderMode=cv2.BORDER_REPLICATE)
    depth_m: _Float32 = found * np.float32(metres_per_unit(depth))
    return depth_m
