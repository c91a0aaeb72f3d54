"""`vil-bridge bench klt`: what the pictures are worth to visual-inertial odometry.

Corners (Shi-Tomasi) are tracked from picture to picture (pyramidal Lucas-Kanade) as such a front
end does it, and where they went is compared with the flow that was drawn with the pictures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from vil_benchmarks.render.yardstick import one_drawing_thread
from vil_benchmarks.report import Row, percentile_row
from vil_bridge.core.geometry import T_FLU_OPTICAL, Transform, q_from_euler_zyx
from vil_bridge.core.types import (
    BoolArray,
    CameraModel,
    FloatArray,
    ImageArray,
    Modality,
    View,
    WorldSnapshot,
)
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.assets.importers import load_asset
from vil_renderer.embedded.scene import CLASSES, Environment, Scene, SceneObject, Sun
from vil_renderer.embedded.scenefile import load_scene

_FRAMES: Final = 60
_STEP_NS: Final = 33_333_333
_CAMERA: Final = CameraModel("klt", 640, 480, math.radians(70.0))
_CORNERS: Final = 400
_QUALITY: Final = 0.01
_APART_PX: Final = 12
_WINDOW_PX: Final = 21
_LEVELS: Final = 3
_RETURN_PX: Final = 0.5
_INLIER_PX: Final = 1.0
_WAREHOUSE: Final = Path("assets") / "aws_small_warehouse.glb"
_IN_THE_HALL: Final = Transform.of((-1.5, 0.0, 1.6))
_IN_THE_GARAGE: Final = Transform.of((-8.0, -5.2, 1.6))
_IN_THE_STREET: Final = Transform.of((-18.0, 0.2, 2.4))
_AT_THE_RACKS: Final = Transform.of((2.0, 1.0, 1.6), q_from_euler_zyx(math.radians(70.0), 0.0, 0.0))
"""Thin posts at arm's length before what lies in them: as hard as that building gets."""


@dataclass(frozen=True, slots=True, eq=False)
class Tracks:
    """Corners of one picture in the next.

    Attributes:
        corners: how many there were.
        tracked: how many were found again, and found back to within half a pixel.
        error_px: distance from where the flow says these are, (k,), of those whose flow is known.
    """

    corners: int
    tracked: int
    error_px: FloatArray


def bench_klt(data: Path | None) -> list[Row]:
    """Draw 60 pictures of the hall at profiles low and medium, of garage and street, and of the
    warehouse at high.

    Args:
        data: folder with the warehouse; None = its rows have no value.

    Raises:
        RendererError: no OpenGL, or the warehouse cannot be read.
    """
    rows = [one_drawing_thread()]
    hall = load_scene("hall")
    rows += _rows("hall", _flight(hall, "low", _IN_THE_HALL))
    rows += _rows("hall_medium", _flight(hall, "medium", _IN_THE_HALL))
    rows += _rows("garage", _flight(load_scene("garage"), "low", _IN_THE_GARAGE))
    rows += _rows("street", _flight(load_scene("street"), "low", _IN_THE_STREET))
    file = None if data is None else data / _WAREHOUSE
    known = file is not None and file.is_file()
    rows += _rows(
        "warehouse", _flight(_warehouse(file), "high", _AT_THE_RACKS) if file and known else []
    )
    return rows


def _warehouse(path: Path) -> Scene:
    asset = load_asset(path)
    building = SceneObject(
        "warehouse", asset, np.eye(4), CLASSES["building"], 1, casts_shadow=False
    )
    sun = Sun(np.array([0.36, 0.48, 0.8]), np.full(3, 0.35))
    return Scene("warehouse", (building,), Environment(np.full(3, 0.7), np.full(3, 0.5), sun))


def _flight(scene: Scene, profile: str, T_world_place: Transform) -> list[Tracks]:
    """Return the tracks of every two successive pictures on a hovering drone's way around a
    place.
    """
    found: list[Tracks] = []
    before: ImageArray | None = None
    with EmbeddedRenderer(scene, profile) as renderer:
        for n in range(_FRAMES):
            t_ns = n * _STEP_NS
            pose = T_world_place @ _pose(1e-9 * t_ns)
            views = [
                View(_CAMERA, modality, pose, t_ns) for modality in (Modality.GRAY, Modality.FLOW)
            ]
            gray, flow = renderer.render(views, WorldSnapshot(t_ns, ()))
            if before is not None and flow.valid is not None:
                found.append(follow(before, gray.pixels, flow.pixels, flow.valid))
            before = gray.pixels
    return found


def _pose(t_s: float) -> Transform:
    """Return a way of 0.7 m/s at most about a place, turning by 25 degrees per second at most.

    Optical axes.
    """
    p_m = (0.5 * math.sin(1.2 * t_s), 0.4 * math.sin(0.9 * t_s + 0.4), 0.2 * math.sin(1.5 * t_s))
    yaw_rad = 0.4 * math.sin(t_s)
    pitch_rad = 0.06 * math.sin(1.7 * t_s)
    roll_rad = 0.05 * math.sin(1.3 * t_s)
    return Transform.of(p_m, q_from_euler_zyx(yaw_rad, pitch_rad, roll_rad)) @ T_FLU_OPTICAL


def follow(before: ImageArray, after: ImageArray, flow_px: ImageArray, valid: BoolArray) -> Tracks:
    """Track the corners of a gray picture (h, w) into the next one.

    Args:
        before: uint8.
        after: uint8.
        flow_px: of the next picture, float32 (h, w, 2).
        valid: where that is known, (h, w).
    """
    corners: ImageArray | None = cv2.goodFeaturesToTrack(before, _CORNERS, _QUALITY, _APART_PX)
    if corners is None:
        return Tracks(0, 0, np.zeros(0))
    there, found = _tracked(before, after, corners)
    back, returned = _tracked(after, before, there)
    near = np.linalg.norm(back - corners, axis=2)[:, 0] < _RETURN_PX
    good = np.flatnonzero(found & returned & near)
    p = corners[good, 0]
    q = there[good, 0]
    x, y = (np.ascontiguousarray(q[:, axis, None]) for axis in (0, 1))
    truth = cv2.remap(np.asarray(flow_px), x, y, cv2.INTER_LINEAR).reshape(-1, 2)
    known = cv2.remap(valid.astype(np.float32), x, y, cv2.INTER_LINEAR).ravel() > 1.0 - 1e-6
    error_px = np.linalg.norm(q - p - truth, axis=1)[known]
    return Tracks(len(corners), len(good), error_px.astype(np.float64))


def _tracked(a: ImageArray, b: ImageArray, points: ImageArray) -> tuple[ImageArray, BoolArray]:
    window = (_WINDOW_PX, _WINDOW_PX)
    moved, found, _ = cv2.calcOpticalFlowPyrLK(
        a, b, points, points.copy(), winSize=window, maxLevel=_LEVELS
    )
    return np.asarray(moved), np.asarray(found)[:, 0] == 1


def _rows(name: str, tracks: list[Tracks]) -> list[Row]:
    errors = np.concatenate([t.error_px for t in tracks]) if tracks else np.zeros(0)
    corners = sum(t.corners for t in tracks)
    tracked = sum(t.tracked for t in tracks) / corners if corners else None
    inliers = float(np.mean(errors < _INLIER_PX)) if len(errors) else None
    return [
        percentile_row(f"{name}_median_px", errors.tolist(), 50, "px"),
        percentile_row(f"{name}_p90_px", errors.tolist(), 90, "px"),
        Row(f"{name}_tracked", tracked, "share", corners),
        Row(f"{name}_inliers", inliers, "share", len(errors)),
    ]
