"""Labels of race gates in a picture: the box around the opening and its four corners.

Corner names belong to the gate: as the pilot sees them in the direction of flight. Pixels here
count from the upper left corner of the picture: the centre of the first pixel is (0.5, 0.5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.courses.course import CourseGate
from vil_bridge.optics.lens import distort, rendered_model, undistort
from vil_renderer.embedded.optics.camera import NEAR_M
from vil_renderer.embedded.optics.lens import in_picture, project

if TYPE_CHECKING:
    from vil_renderer.embedded import RayWorld
    from vil_renderer.embedded.scene import Gate

CORNERS: Final = ("top_left", "top_right", "bottom_right", "bottom_left")
OUTSIDE: Final = 0
OCCLUDED: Final = 1
VISIBLE: Final = 2

_LEAST_SHARE: Final = 0.002
_STEEPEST_COS: Final = math.cos(math.radians(85.0))
_PIECES: Final = 16
_CLEARANCE_M: Final = 0.02
_FRAME_M: Final = 0.25
"""Reach of a gate's own frame and beacons around a corner, along the line of sight.

They do not hide it.
"""
_FOLDED: Final = 1e-3


class GateLabel(NamedTuple):
    """Label of a gate in a picture.

    Attributes:
        box_px: left, top, width, height of the part of the opening within the picture.
        area_px2: of that part.
        corners_px: (4, 2), in the order of :data:`CORNERS`; 0 outside the picture.
        visibility: of the corners: 0 outside the picture, 1 occluded, 2 visible.
    """

    name: str
    box_px: tuple[float, float, float, float]
    area_px2: float
    corners_px: FloatArray
    visibility: tuple[int, ...]

    def line(self, width_px: int, height_px: int) -> str:
        """Return the line of TII's data set and of YOLO-pose.

        Class, box and corners in shares of the picture.
        """
        left, top, width, height = self.box_px
        box = (
            (left + 0.5 * width) / width_px,
            (top + 0.5 * height) / height_px,
            width / width_px,
            height / height_px,
        )
        words = ["0", *(f"{share:.6f}" for share in box)]
        for (u, v), seen in zip(
            (self.corners_px / (width_px, height_px)).tolist(), self.visibility, strict=True
        ):
            words += [f"{u:.6f} {v:.6f} {seen}" if seen else "0 0 0"]
        return " ".join(words)


def gate_labels(
    gates: Sequence[Gate],
    camera: CameraModel,
    T_world_camera: Transform,
    world: RayWorld,
    hide: frozenset[str] = frozenset(),
) -> list[GateLabel]:
    """Return the labels of the gates that a picture shows, in the gates' order.

    Left out are gates seen at more than 85 degrees from their axis, from either side, openings that
    cover less than 0.2 % of the picture, and gates of whose opening no edge is in sight.

    Args:
        gates: of the scene.
        camera: its lens bends the opening's edges.
        T_world_camera: optical axes at the middle of the exposure.
        world: the scene at that instant.
        hide: actors that hide no corner, such as the carrier of the camera.
    """
    found = (_label(gate, camera, T_world_camera, world, hide) for gate in gates)
    return [label for label in found if label is not None]


def _label(
    gate: Gate,
    camera: CameraModel,
    T_world_camera: Transform,
    world: RayWorld,
    hide: frozenset[str],
) -> GateLabel | None:
    way = T_world_camera.p_m - gate.T_world_gate.p_m
    if abs(gate.T_world_gate.rotation()[:, 0] @ way) < _STEEPEST_COS * np.linalg.norm(way):
        return None
    corners_m = CourseGate(gate.name, gate.T_world_gate, gate.width_m, gate.height_m).corners_m
    shown = _shown_part(camera, T_world_camera.inverse().apply(corners_m))
    area = _area(shown)
    if area < _LEAST_SHARE * camera.width_px * camera.height_px:
        return None
    edges_m = _divided(corners_m)
    p_camera = T_world_camera.inverse().apply(edges_m)
    inside = in_picture(camera, p_camera)
    seen = inside & ~_hidden(world, gate.name, T_world_camera.p_m, edges_m, hide)
    if not seen.any():
        return None
    (left, top), (right, bottom) = shown.min(axis=0).tolist(), shown.max(axis=0).tolist()
    inside = inside[::_PIECES]
    seen = seen[::_PIECES]
    pixels = np.where(inside[:, None], project(camera, p_camera[::_PIECES]) + 0.5, 0.0)
    visibility = np.where(seen, VISIBLE, np.where(inside, OCCLUDED, OUTSIDE))
    return GateLabel(
        gate.name, (left, top, right - left, bottom - top), area, pixels, tuple(visibility.tolist())
    )


def _shown_part(camera: CameraModel, corners_m: FloatArray) -> FloatArray:
    """Return the outline (n, 2) of an opening within the picture, n = 0 for none, from corners
    in optical axes.
    """
    ideal = rendered_model(camera, 0.0, bends=True)
    fx, fy, cx, cy = ideal.intrinsics_px
    outline = _cut(corners_m, corners_m[:, 2] - NEAR_M)
    sides = [(fx, 0.0, cx + 0.5), (-fx, 0.0, ideal.width_px - 0.5 - cx)]
    sides += [(0.0, fy, cy + 0.5), (0.0, -fy, ideal.height_px - 0.5 - cy)]
    for side in sides:
        outline = _cut(outline, outline @ np.array(side))
    if camera.distortion is not None:
        outline = _divided(outline)
        xy = outline[:, :2] / outline[:, 2:]
        off = np.abs(undistort(camera.distortion, distort(camera.distortion, xy)) - xy)
        outline = outline[off.max(axis=1, initial=0.0) < _FOLDED]
    shown = project(camera, outline) + 0.5
    for axis, size in enumerate((camera.width_px, camera.height_px)):
        shown = _cut(shown, shown[:, axis])
        shown = _cut(shown, size - shown[:, axis])
    return shown


def _cut(outline: FloatArray, inside: FloatArray) -> FloatArray:
    """Return the part of a closed outline (n, d) on one side of a plane, given signed distances
    (n,) to it.
    """
    left: list[FloatArray] = []
    for k in range(len(outline)):
        here = inside[k - 1]
        there = inside[k]
        if (here >= 0.0) != (there >= 0.0):
            left.append(outline[k - 1] + here / (here - there) * (outline[k] - outline[k - 1]))
        if there >= 0.0:
            left.append(outline[k])
    return np.array(left).reshape(-1, outline.shape[1])


def _divided(outline: FloatArray) -> FloatArray:
    """Return a closed outline (n, d) with every side in pieces, (n * pieces, d).

    Each n-th piece begins at a corner.
    """
    share = np.arange(_PIECES)[:, None] / _PIECES
    side = np.roll(outline, -1, axis=0) - outline
    points: FloatArray = outline[:, None] + share * side[:, None]
    return points.reshape(-1, outline.shape[1])


def _area(outline: FloatArray) -> float:
    (x, y), (next_x, next_y) = outline.T, np.roll(outline, -1, axis=0).T
    return 0.5 * abs(float((x * next_y - next_x * y).sum()))


def _hidden(
    world: RayWorld, name: str, eye_m: FloatArray, points_m: FloatArray, hide: frozenset[str]
) -> BoolArray:
    """Return which points (n, 3) of a gate have something before them.

    Its own frame around them does not count.
    """
    way = points_m - eye_m
    hits = world.cast(np.broadcast_to(eye_m, way.shape), way, 1.0, hide)
    names = world.names
    own = hits.owner == (names.index(name) if name in names else len(names))
    before_m = (1.0 - hits.distance_m) * np.linalg.norm(way, axis=1)
    hidden: BoolArray = before_m > np.where(own, _FRAME_M, _CLEARANCE_M)
    return hidden
