"""Cameras, actors and renderers for the tests of the embedded renderer."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from tests.support.opengl import drawing
from vil_bridge.core.geometry import Transform, q_from_matrix
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    CameraModel,
    FloatArray,
    ImageArray,
    Modality,
    SkeletonFrame,
    SkeletonModel,
    TrackingState,
    View,
    WorldSnapshot,
)
from vil_renderer.embedded import EmbeddedRenderer

CAMERA = CameraModel("cam", 640, 480, math.radians(70.0))
NOBODY = WorldSnapshot(0, ())
R_BODY_OPTICAL = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])


@cache
def renderer(scene: str) -> EmbeddedRenderer:
    """One renderer per scene for the whole run; skips where the system has no OpenGL."""
    return drawing(scene)


def rotation(yaw_deg: float, pitch_deg: float = 0.0, roll_deg: float = 0.0) -> FloatArray:
    """R_world_body of intrinsic Z-Y-X angles, written out."""
    (cy, sy), (cp, sp), (cr, sr) = (
        (math.cos(math.radians(a)), math.sin(math.radians(a)))
        for a in (yaw_deg, pitch_deg, roll_deg)
    )
    about_z = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    about_y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    about_x = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    turned: FloatArray = about_z @ about_y @ about_x
    return turned


def looking(
    p_m: tuple[float, float, float],
    yaw_deg: float = 0.0,
    pitch_deg: float = 0.0,
    roll_deg: float = 0.0,
) -> Transform:
    """T_world_camera (optical) of a camera that looks along a body's x.

    Positive pitch looks down.
    """
    return Transform.of(p_m, q_from_matrix(rotation(yaw_deg, pitch_deg, roll_deg) @ R_BODY_OPTICAL))


def prop(
    name: str,
    p_m: npt.ArrayLike,
    size_m: tuple[float, float, float],
    R: FloatArray | None = None,
    prefab: str = "",
) -> ActorState:
    pose = Transform.of(p_m, q_from_matrix(np.eye(3) if R is None else R))
    return ActorState(
        name, ActorKind.PROP, TrackingState.TRACKED, 0, pose, prefab=prefab, size_m=size_m
    )


def drone(name: str, p_m: npt.ArrayLike) -> ActorState:
    return ActorState(
        name,
        ActorKind.VEHICLE,
        TrackingState.TRACKED,
        0,
        Transform.of(p_m),
        size_m=(0.4, 0.4, 0.15),
    )


_BONES = (
    "Hip",
    "Chest",
    "Head",
    "LUArm",
    "LHand",
    "RUArm",
    "RHand",
    "LThigh",
    "LFoot",
    "RThigh",
    "RFoot",
)
_PARENTS = (-1, 0, 1, 1, 3, 1, 5, 0, 7, 0, 9)
_OFFSETS_M = np.array(
    [
        (0, 0, 0.95), (0, 0, 0.4), (0, 0, 0.25), (0, 0.2, 0), (0, 0.5, 0), (0, -0.2, 0),
        (0, -0.5, 0),
        (0, 0.1, -0.05), (0, 0, -0.85), (0, -0.1, -0.05), (0, 0, -0.85),
    ]
)  # fmt: skip


def person(
    name: str, p_m: npt.ArrayLike, left_hand_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
) -> ActorState:
    """A figure with its arms out, standing at a place; its left hand can be moved away."""
    joints: list[FloatArray] = []
    for parent, offset in zip(_PARENTS, _OFFSETS_M, strict=True):
        joints.append(offset + (joints[parent] if parent >= 0 else np.array(p_m)))
    p = np.array(joints)
    p[_BONES.index("LHand")] += left_hand_m
    model = SkeletonModel(name, _BONES, _PARENTS, _OFFSETS_M)
    q = np.tile((0.0, 0.0, 0.0, 1.0), (len(p), 1))
    skeleton = SkeletonFrame(model, p, q, np.ones(len(p), dtype=np.bool_))
    return ActorState(name, ActorKind.HUMAN, TrackingState.TRACKED, 0, Transform.of(p[0]), skeleton)


def view(
    T_world_camera: Transform,
    modality: Modality = Modality.RGB,
    camera: CameraModel = CAMERA,
    hide: tuple[str, ...] = (),
) -> View:
    return View(camera, modality, T_world_camera, 0, hide=hide)


def shoot(scene: str, asked: View, *actors: ActorState, t_ns: int = 0) -> ImageArray:
    """One picture."""
    return renderer(scene).render((asked,), WorldSnapshot(t_ns, actors))[0].pixels


def track(before: ImageArray, after: ImageArray, corners: Any) -> Any:
    """Corners of one grey picture in another, which of them were found, and how surely."""
    anywhere: Any = None
    return cv2.calcOpticalFlowPyrLK(before, after, corners, anywhere, winSize=(21, 21), maxLevel=3)


def changed(scene: str, asked: View, *actors: ActorState) -> ImageArray:
    """Pixels (h, w) that the actors change."""
    mask: ImageArray = np.any(shoot(scene, asked, *actors) != shoot(scene, asked), axis=2)
    return mask
