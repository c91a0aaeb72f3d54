"""A human who walks in a circle: procedural gait with planted feet, posed by forward kinematics.

The skeleton has the bone names that Motive streams. At rest it stands in a T-pose facing +x with
every bone's axes parallel to the room's (x forward, y left, z up), so joints carry translations
only.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import cross, q_from_matrix, yaw_matrix
from vil_bridge.core.types import FloatArray, MotionFrame, SkeletonFrame, SkeletonModel

# Bone, parent, origin in the parent's axes at rest (metres). An adult of 1.75 m.
_TRUNK: Final = (
    ("Hip", "", (0.0, 0.0, 0.93)),
    ("Ab", "Hip", (0.0, 0.0, 0.10)),
    ("Chest", "Ab", (0.0, 0.0, 0.14)),
    ("Neck", "Chest", (0.0, 0.0, 0.27)),
    ("Head", "Neck", (0.0, 0.0, 0.11)),
)
# The left side; the right one mirrors y.
_LIMBS: Final = (
    ("Shoulder", "Chest", (0.0, 0.06, 0.20)),
    ("UArm", "Shoulder", (0.0, 0.12, 0.0)),
    ("FArm", "UArm", (0.0, 0.29, 0.0)),
    ("Hand", "FArm", (0.0, 0.26, 0.0)),
    ("Thigh", "Hip", (0.0, 0.09, -0.02)),
    ("Shin", "Thigh", (0.0, 0.0, -0.42)),
    ("Foot", "Shin", (0.0, 0.0, -0.41)),
    ("Toe", "Foot", (0.13, 0.0, -0.06)),
)
_THIGH_M: Final = 0.42
_SHIN_M: Final = 0.41
_TOE_HEIGHT_M: Final = 0.02

_STRIDE_HZ: Final = 1.0
_STANCE: Final = 0.60  # fraction of a stride that a foot stands
_HEEL_OFF: Final = 0.30  # fraction of a stride after which the heel rises
_STEP_HALF_WIDTH_M: Final = 0.09
_TOE_AHEAD_M: Final = 0.08  # of the hip at mid-stance
_LIFT_M: Final = 0.05
_TOE_OFF_RAD: Final = 0.85
_PELVIS_DROP_M: Final = 0.055
_ARM_DOWN_RAD: Final = 1.33


class WalkMotion:
    """One skeleton that walks counter-clockwise on a circle.

    The room frame is z up, the floor is z = 0.

    Attributes:
        skeleton_models: the one skeleton, named as the subject.
    """

    subjects: tuple[str, ...] = ()

    def __init__(
        self,
        subject: str = "Actor",
        *,
        center_m: tuple[float, float] = (0.0, 0.0),
        radius_m: float = 1.5,
        speed_mps: float = 1.1,
    ) -> None:
        self._model = _skeleton(subject)
        self.skeleton_models: tuple[SkeletonModel, ...] = (self._model,)
        self._index = {bone: i for i, bone in enumerate(self._model.bones)}
        self._center_m = center_m
        self._radius_m = radius_m
        self._speed_mps = speed_mps

    def at(self, t_ns: int) -> MotionFrame:
        """Return the skeleton's global bone poses; always tracked."""
        p_m, R = self._pose(t_ns / NS_PER_S)
        skeleton = SkeletonFrame(
            model=self._model,
            p_m=p_m,
            q_xyzw=q_from_matrix(R),
            tracked=np.ones(len(p_m), dtype=np.bool_),
        )
        return MotionFrame(
            (), np.empty((0, 3)), np.empty((0, 4)), np.empty(0, dtype=np.bool_), (skeleton,)
        )

    def _path(self, t_s: float) -> tuple[FloatArray, float]:
        """Return point on the floor (3,) and heading (not wrapped) at a time."""
        angle = self._speed_mps / self._radius_m * t_s
        x, y = self._center_m
        point_m = np.array(
            [x + self._radius_m * math.cos(angle), y + self._radius_m * math.sin(angle), 0.0]
        )
        return point_m, angle + 0.5 * math.pi

    def _pose(self, t_s: float) -> tuple[FloatArray, FloatArray]:
        """Return global bone origins (m, 3) and attitudes (m, 3, 3)."""
        phase = _STRIDE_HZ * t_s
        model = self._model
        # Legs and root are global already (identity here, replaced below); all other bones are
        # local.
        R = _local_rotations(model, phase)
        p_m = model.offsets_m.copy()
        point_m, heading_rad = self._path(t_s)
        R_heading = yaw_matrix(heading_rad)
        mid_stance = 2.0 * math.pi * (phase - 0.5 * _STANCE)
        sway_m = 0.02 * math.cos(mid_stance)
        bob_m = 0.012 * math.cos(2.0 * mid_stance)
        p_m[0] += point_m + R_heading @ (0.0, sway_m, bob_m - _PELVIS_DROP_M)
        R[0] = R_heading @ R[0]
        for i, parent in enumerate(model.parents[1:], start=1):
            p_m[i] = p_m[parent] + R[parent] @ model.offsets_m[i]
            if model.bones[i][1:] in _LEG_BONES:
                continue
            R[i] = R[parent] @ R[i]
        for side, offset in (("L", 0.0), ("R", 0.5)):
            self._step(side, phase + offset, offset, R_heading[:, 1], p_m, R)
        return p_m, R

    def _footprint(self, stride: int, offset: float, lateral_m: float) -> tuple[FloatArray, float]:
        """Return toe joint (3,) and heading of the foot planted in one stride.

        Next to the path at mid-stance.
        """
        point_m, heading_rad = self._path((stride + 0.5 * _STANCE - offset) / _STRIDE_HZ)
        return point_m + yaw_matrix(heading_rad) @ (
            _TOE_AHEAD_M,
            lateral_m,
            _TOE_HEIGHT_M,
        ), heading_rad

    def _step(
        self,
        side: str,
        phase: float,
        offset: float,
        y_room: FloatArray,
        p_m: FloatArray,
        R: FloatArray,
    ) -> None:
        """Pose one leg, in place, so that its toe stands still during stance and swings to the
        next print.
        """
        stride = math.floor(phase)
        u = phase - stride
        lateral_m = _STEP_HALF_WIDTH_M if side == "L" else -_STEP_HALF_WIDTH_M
        toe_m, yaw_rad = self._footprint(stride, offset, lateral_m)
        pitch_rad = _TOE_OFF_RAD * _smooth((u - _HEEL_OFF) / (_STANCE - _HEEL_OFF))
        if u > _STANCE:
            swing = (u - _STANCE) / (1.0 - _STANCE)
            next_m, next_yaw_rad = self._footprint(stride + 1, offset, lateral_m)
            blend = _smooth(swing)
            toe_m = (
                toe_m
                + blend * (next_m - toe_m)
                + (0.0, 0.0, _LIFT_M * math.sin(math.pi * swing) ** 2)
            )
            yaw_rad += blend * (next_yaw_rad - yaw_rad)
            pitch_rad = _TOE_OFF_RAD * (1.0 - _smooth(1.4 * swing))
        thigh, shin, foot, toe = (self._index[side + bone] for bone in _LEG_BONES)
        R[toe] = yaw_matrix(yaw_rad)
        R[foot] = R[toe] @ _rot_y(pitch_rad)
        ankle_m = toe_m - R[foot] @ self._model.offsets_m[toe]
        R[thigh], R[shin] = _bend(ankle_m - p_m[thigh], y_room)
        for bone, parent in ((shin, thigh), (foot, shin), (toe, foot)):
            p_m[bone] = p_m[parent] + R[parent] @ self._model.offsets_m[bone]


_LEG_BONES: Final = ("Thigh", "Shin", "Foot", "Toe")


def _skeleton(name: str) -> SkeletonModel:
    table = list(_TRUNK)
    for side, mirror in (("L", 1.0), ("R", -1.0)):
        for bone, parent, (x, y, z) in _LIMBS:
            trunk = any(parent == joint for joint, _, _ in _TRUNK)
            table.append((side + bone, parent if trunk else side + parent, (x, mirror * y, z)))
    bones = tuple(bone for bone, _, _ in table)
    parents = tuple(bones.index(parent) if parent else -1 for _, parent, _ in table)
    return SkeletonModel(name, bones, parents, np.array([offset for _, _, offset in table]))


def _local_rotations(model: SkeletonModel, phase: float) -> FloatArray:
    """Return rotations of trunk and arms relative to their parents (m, 3, 3) at a phase of the
    left stride.
    """
    swing = math.cos(2.0 * math.pi * phase)  # +1 when the left foot touches down in front
    R = np.tile(np.eye(3), (len(model.bones), 1, 1))
    local = {
        "Hip": yaw_matrix(-0.10 * swing) @ _rot_y(0.03),
        "Ab": yaw_matrix(0.08 * swing),
        "Chest": yaw_matrix(0.10 * swing) @ _rot_y(0.03),
        "Neck": yaw_matrix(-0.04 * swing),
        "Head": yaw_matrix(-0.04 * swing) @ _rot_y(-0.06),
        # Arms swing against the legs; a positive angle about y moves a hanging hand backwards.
        "LUArm": _rot_y(0.10 + 0.40 * swing) @ _rot_x(-_ARM_DOWN_RAD),
        "RUArm": _rot_y(0.10 - 0.40 * swing) @ _rot_x(_ARM_DOWN_RAD),
        "LFArm": yaw_matrix(-0.40 + 0.18 * swing),
        "RFArm": yaw_matrix(0.40 + 0.18 * swing),
    }
    for i, bone in enumerate(model.bones):
        if bone in local:
            R[i] = local[bone]
    return R


def _bend(hip_to_ankle_m: FloatArray, y_room: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return attitudes of thigh and shin that put the ankle there, the knee forward.

    Too far = a straight leg.
    """
    reach_m = float(np.linalg.norm(hip_to_ankle_m))
    down = hip_to_ankle_m / reach_m
    reach_m = min(reach_m, _THIGH_M + _SHIN_M)
    y = y_room - (y_room @ down) * down
    y /= np.linalg.norm(y)
    forward = cross(down, y)
    cosine = (_THIGH_M**2 + reach_m**2 - _SHIN_M**2) / (2.0 * _THIGH_M * reach_m)
    thigh = cosine * down + math.sqrt(max(0.0, 1.0 - cosine**2)) * forward
    shin = (reach_m * down - _THIGH_M * thigh) / _SHIN_M
    return _limb_axes(thigh, y), _limb_axes(shin, y)


def _limb_axes(along: FloatArray, y: FloatArray) -> FloatArray:
    """Return attitude of a bone that hangs down at rest, from its direction and its sideways
    axis.
    """
    return np.array((cross(along, y), y, -along)).T


def _smooth(u: float) -> float:
    """Return the cubic smooth step from 0 to 1."""
    u = min(1.0, max(0.0, u))
    return u**2 * (3.0 - 2.0 * u)


def _rot_x(a: float) -> FloatArray:
    c = math.cos(a)
    s = math.sin(a)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


def _rot_y(a: float) -> FloatArray:
    c = math.cos(a)
    s = math.sin(a)
    return np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
