"""Retargeting of any mocap skeleton to any skinned human.

Each part of the model is turned by its source bone, relative to the rest of both, then by the
shortest way to where the source's next joint is, and stretched along itself to reach it: limbs
begin, bend and end where the skeleton's do. Trunk, head, hands and feet keep their shape, at the
subject's scale.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray, SkeletonFrame
from vil_renderer.embedded.actors.anatomy import ENDS, LOWERS, PART_INDEX, PARTS, SIDES, UPPERS
from vil_renderer.embedded.actors.pose import PosedRig, RigPose, between
from vil_renderer.embedded.actors.rig import Rig
from vil_renderer.embedded.actors.source import SortedFrame, Source
from vil_renderer.embedded.actors.turning import shortest_turn, twist_rad, unit

UNSEEN_LIGHT: Final = 0.35
"""Factor on the colour of untracked parts."""

_HIPS, _CHEST, _NECK, _HEAD = (PART_INDEX[part] for part in ("hips", "chest", "neck", "head"))
_SHOULDERS: Final = [PART_INDEX[f"{side}_shoulder"] for side in SIDES]
_FEET: Final = [PART_INDEX[f"{side}_foot"] for side in SIDES]
_TOES: Final = [PART_INDEX[f"{side}_toe"] for side in SIDES]
_STRETCHED: Final = [*UPPERS, *LOWERS, *_SHOULDERS, _NECK]
_TWISTED: Final = [*UPPERS, *LOWERS, *LOWERS]
"""Twisted against the part above: arms and legs at both joints, and then against the part below."""
_Bones = tuple[FloatArray, FloatArray, FloatArray]
"""Rotations (k, 3, 3) of bones, and where they begin and end, (k, 3)."""
_ARMS: Final = [0, 1]
_LEGS: Final = [2, 3]
_TRUNK_SIDES: Final = [1, 1, 0, 0]

_FLAT_COSINE: Final = math.cos(math.radians(60.0))
_STEEP_RAD: Final = math.radians(55.0)
_STEEPER_RAD: Final = math.radians(20.0)
"""A foot that slopes more than both, down to the toes, points down at rest.

Less is a flat foot with a high ankle.
"""
_ANKLE_STRETCH: Final = 1.8
_TALLEST: Final = 1.5
_ANKLE: Final = 0.075
"""Of the length of trunk and legs: the highest that a head reaches, and an ankle lies."""
_WIDTHS: Final = (0.8, 1.2)
_TORSO: Final = (0.6, 1.7)
_NECK_STRETCH: Final = (0.8, 1.3)
_COLLAR_STRETCH: Final = np.array([[0.5], [1.6]])


class Retarget:
    """Retargeting of the frames of one skeleton model to one rig.

    Attributes:
        asset: the rig's.
    """

    def __init__(self, source: Source, rig: Rig) -> None:
        self.asset = rig.asset
        self._source = source
        self._rig = rig
        ratio = _size_ratio(source, rig)
        torso_m = float(np.linalg.norm(rig.shoulders_m - rig.thighs_m))
        stature_m = torso_m + 0.5 * float(rig.length_m[[*UPPERS[2:], *LOWERS[2:]]].sum())
        # Models with big heads or feet shrink, otherwise people would look over walls and stand in
        # the ground.
        self._scale = ratio * min(1.0, _TALLEST * stature_m / rig.height_m)
        foot_scale = min(self._scale, ratio * _ANKLE * stature_m / rig.ankle_m)
        wanted = _rest_directions(source)
        self._turns = _rest_turns(rig, wanted)
        self._end_scale = np.array([self._scale, self._scale, foot_scale, foot_scale])[
            :, None, None
        ] * np.eye(3)
        self._end_scale[2:, 2, 2] *= _ankle_stretch(source, rig, wanted, foot_scale)
        self._bone_from_rest = source.axes @ self._turns
        upper = rig.length_m[UPPERS]
        lower = rig.length_m[LOWERS]
        self._bend_share = (upper / (upper + lower))[:, None]
        self._torso_m = source.torso_m or self._scale * torso_m
        self._trunk_size = _trunk_size(source, rig, self._scale, self._torso_m / torso_m)

    def pose(self, skeleton: SkeletonFrame) -> PosedRig | None:
        """Return the rig in the pose of a frame; None if the trunk cannot be placed."""
        frame = SortedFrame(self._source, skeleton, self._bone_from_rest)
        trunk = self._trunk(frame)
        if trunk is None:
            return None
        R_trunk, place_m = trunk
        rig_pose = RigPose(self._rig, self._scale)
        rig_pose.anchor[[_HIPS, _CHEST]] = self._rig.thighs_m, self._rig.shoulders_m
        rig_pose.linear[[_HIPS, _CHEST]] = R_trunk * self._trunk_size[:, None]
        rig_pose.place[[_HIPS, _CHEST]] = place_m
        self._limbs(frame, R_trunk, rig_pose)
        return rig_pose.finish(R_trunk, np.where(frame.tracked, 1.0, UNSEEN_LIGHT))

    # --- the trunk -------------------------------------------------------------------------------

    def _trunk(self, frame: SortedFrame) -> tuple[FloatArray, FloatArray] | None:
        """Return rotations (2, 3, 3) of hips and chest, and the middles (2, 3) of the joints of
        legs and arms.

        If the bone of hips or chest is not placed, the limbs' joints give its rotation, else the
        other bone.
        """
        thighs_m = frame.middle(_HIPS, self._source.thighs_m, _LEGS)
        shoulders_m = frame.middle(_CHEST, self._source.shoulders_m, _ARMS)
        low: FloatArray | None = None
        high: FloatArray | None = None
        if frame.placed[_HIPS]:
            low = frame.R[_HIPS]
        if frame.placed[_CHEST]:
            high = frame.R[_CHEST]
        if thighs_m is not None and shoulders_m is not None:
            up = shoulders_m - thighs_m
            if low is None:
                low = frame.apart(_LEGS, up)
            if high is None:
                high = frame.apart(_ARMS, up)
        if low is None:
            low = high
        if high is None:
            high = low
        if low is None or high is None:
            return None
        up = self._torso_m * high[:, 2]
        if thighs_m is None and shoulders_m is not None:
            thighs_m = shoulders_m - up
        if thighs_m is None:
            return None
        if shoulders_m is None:
            shoulders_m = thighs_m + up
        return np.stack((low, high)), np.stack((thighs_m, shoulders_m))

    # --- arms and legs ---------------------------------------------------------------------------

    def _limbs(self, frame: SortedFrame, R_trunk: FloatArray, rig_pose: RigPose) -> None:
        """Pose arms and legs with hands, feet, toes and collar bones, neck and head.

        Arrays are of the four limbs.
        """
        joint_m = self._rig.joint_m
        R = self._limb_rotations(frame, R_trunk[_TRUNK_SIDES])
        seen = frame.seen.copy()
        begin = frame.joints_m[:, 0]
        bend = frame.joints_m[:, 1]
        end = frame.joints_m[:, 2]
        sockets = np.concatenate(
            [
                rig_pose.moved(part, joint_m[UPPERS[k : k + 2]])
                for part, k in ((_CHEST, 0), (_HIPS, 2))
            ]
        )
        begin = np.where(seen[:, :1], begin, sockets)
        bend = np.where(seen[:, 1:2], bend, begin + self._bend_share * (end - begin))
        # A skeleton that ends at elbow or knee has the rest of the limb hang straight on.
        cut = (self._source.joints[:, 2] < 0) & seen[:, 1]
        reach = (R[:, 1] @ self._rig.along[LOWERS][..., None])[..., 0] * self._rig.length_m[LOWERS][
            :, None
        ]
        end = np.where(cut[:, None], bend + self._scale * reach, end)
        bones = (
            (R[:, 0], begin, bend),
            (R[:, 1], bend, end),
            self._collars(R_trunk[1], begin[:2], rig_pose),
            self._neck(frame, R_trunk[1], rig_pose),
        )
        # All at once: NumPy takes as long for one bone as for all.
        turned = rig_pose.stretch(_STRETCHED, *map(np.concatenate, zip(*bones, strict=True)))
        if len(self._rig.twist_part):
            self._twists(R_trunk[_TRUNK_SIDES], turned[:4], turned[4:8], R[:, 2], rig_pose)
        rig_pose.linear[ENDS] = R[:, 2] @ self._end_scale
        rig_pose.place[ENDS] = end
        self._toes(frame, rig_pose)
        for k in np.flatnonzero(~(seen[:, 2] | cut)):
            gone = [LOWERS[k], ENDS[k]]
            if k in _LEGS:
                gone.append(_TOES[k - 2])
            if seen[k, 1]:
                rig_pose.collapse(gone, bend[k])
            else:
                rig_pose.collapse([UPPERS[k], *gone], begin[k])

    def _twists(
        self,
        trunk: FloatArray,
        upper: FloatArray,
        lower: FloatArray,
        end: FloatArray,
        rig_pose: RigPose,
    ) -> None:
        """Share out the twists of the limbs, from the rotations (4, 3, 3) of their parts and of
        the trunk's.
        """
        above = np.concatenate((trunk, upper, lower))
        below = np.concatenate((upper, lower, end))
        twists = twist_rad(np.swapaxes(above, -1, -2) @ below, self._rig.along[_TWISTED])
        begin_rad, end_rad = np.zeros((2, len(PARTS)))
        begin_rad[_TWISTED[:8]], end_rad[LOWERS] = twists[:8], twists[8:]
        rig_pose.share_twists(begin_rad, end_rad)

    def _limb_rotations(self, frame: SortedFrame, R_above: FloatArray) -> FloatArray:
        """Return rotations (4, 3, 3, 3) of the limbs' parts.

        A bone that is not placed follows the one above.
        """
        parts = np.array((UPPERS, LOWERS, ENDS)).T
        R: FloatArray = frame.R[parts]
        placed = frame.placed[parts]
        if placed.all():
            return R
        turn_above = np.broadcast_to(np.eye(3), R_above.shape)
        for k in range(3):
            turn = self._turns[parts[:, k]]
            follows = R_above @ np.swapaxes(turn_above, -1, -2) @ turn
            R[:, k] = np.where(placed[:, k, None, None], R[:, k], follows)
            R_above = R[:, k]
            turn_above = turn
        return R

    def _collars(self, R_chest: FloatArray, arms_m: FloatArray, rig_pose: RigPose) -> _Bones:
        """Return the collar bones, from the chest towards the arms' joints."""
        at = rig_pose.moved(_CHEST, self._rig.joint_m[_SHOULDERS])
        gap = arms_m - at
        reach = np.clip(
            np.linalg.norm(gap, axis=1),
            *(self._scale * _COLLAR_STRETCH * self._rig.length_m[_SHOULDERS]),
        )
        return np.stack((R_chest, R_chest)), at, at + reach[:, None] * unit(gap)

    def _toes(self, frame: SortedFrame, rig_pose: RigPose) -> None:
        for foot, toe, scale in zip(_FEET, _TOES, self._end_scale[2:], strict=True):
            rig_pose.place[toe] = rig_pose.moved(foot, self._rig.joint_m[toe])
            if frame.placed[toe]:
                rig_pose.linear[toe] = frame.R[toe] @ scale
            else:
                rig_pose.linear[toe] = rig_pose.linear[foot]

    # --- neck and head ---------------------------------------------------------------------------

    def _neck(self, frame: SortedFrame, R_chest: FloatArray, rig_pose: RigPose) -> _Bones:
        """Pose the head; return the neck below it."""
        rig = self._rig
        own = self._source.own
        head_there = bool(frame.placed[_HEAD])
        R_head = frame.R[_HEAD] if head_there else R_chest
        if own[_NECK] and frame.placed[_NECK]:
            R_neck = frame.R[_NECK]
        else:
            R_neck = between(R_chest, R_head, np.array([0.5]))[0]
        base = rig_pose.moved(_CHEST, rig.joint_m[_NECK])
        length = self._scale * float(rig.length_m[_NECK])
        if head_there:
            gap = float(np.linalg.norm(frame.p_m[_HEAD] - base))
            length = min(max(gap, _NECK_STRETCH[0] * length), _NECK_STRETCH[1] * length)
        top = base + length * (R_neck @ rig.along[_NECK])
        rig_pose.linear[_HEAD] = self._scale * R_head
        rig_pose.place[_HEAD] = top
        if not head_there:
            rig_pose.collapse([_HEAD], top)
        return R_neck[None], base[None], top[None]


# --- what source and model make of each other, once ----------------------------------------------


def _size_ratio(source: Source, rig: Rig) -> float:
    """Return the subject's size relative to the model's.

    Trunk plus legs, or arms if a leg is incomplete.
    """
    theirs = source.torso_m
    ours = float(np.linalg.norm(rig.shoulders_m - rig.thighs_m)) if theirs else 0.0
    whole = [k for k in range(4) if (source.joints[k, [0, 2]] >= 0).all()]
    limbs = [k for k in whole if k in _LEGS] or whole
    for k in limbs:
        steps = np.diff(source.rest_m[[bone for bone in source.joints[k] if bone >= 0]], axis=0)
        theirs += float(np.linalg.norm(steps, axis=1).sum()) / len(limbs)
        ours += float(rig.length_m[UPPERS[k]] + rig.length_m[LOWERS[k]]) / len(limbs)
    return theirs / ours


def _trunk_size(source: Source, rig: Rig, scale: float, torso: float) -> FloatArray:
    """Return factors of hips and chest forward, left and up, (2, 3)."""
    up = min(max(torso, _TORSO[0] * scale), _TORSO[1] * scale)
    sizes = []
    for theirs, name in ((source.hip_width_m, "upper_leg"), (source.shoulder_width_m, "upper_arm")):
        left, right = (rig.joint_m[PART_INDEX[f"{side}_{name}"]] for side in SIDES)
        wide = theirs / float(np.linalg.norm(left - right)) if theirs else scale
        sizes.append((scale, min(max(wide, _WIDTHS[0] * scale), _WIDTHS[1] * scale), up))
    return np.array(sizes)


def _rest_turns(rig: Rig, wanted: FloatArray) -> FloatArray:
    """Return rotations (20, 3, 3) of the model's parts to the source's rest, in body axes.

    Down a limb they add up, so that a bent elbow is straightened about its hinge and does not
    twist.
    """
    turns = np.tile(np.eye(3), (len(PARTS), 1, 1))
    for upper, lower, end in zip(UPPERS, LOWERS, ENDS, strict=True):
        above = np.eye(3)
        for part in (upper, lower):
            if wanted[part].any():
                above = shortest_turn(above @ rig.along[part], wanted[part]) @ above
            turns[part] = above
        turns[end] = above
    for foot, toe in zip(_FEET, _TOES, strict=True):
        turn = np.eye(3)
        if not _is_flat(rig.along[foot], wanted[foot]):
            turn = shortest_turn(rig.along[foot], wanted[foot])
        turns[foot] = turns[toe] = turn
    return turns


def _is_flat(along: FloatArray, wanted: FloatArray) -> bool:
    """Return True where two lines from ankle to toe are those of feet that stand flat.

    Small differences are where systems put the joints, large ones are other axes or feet that point
    down.
    """
    if not wanted.any():
        return True
    pointed = _slope_rad(wanted) > max(_STEEP_RAD, _slope_rad(along) + _STEEPER_RAD)
    return float(along @ wanted) >= _FLAT_COSINE and not pointed


def _slope_rad(direction: FloatArray) -> float:
    return math.atan2(-direction[2], math.hypot(direction[0], direction[1]))


def _ankle_stretch(source: Source, rig: Rig, wanted: FloatArray, scale: float) -> FloatArray:
    """Return factors (2,) on the heights of both feet, 1 or more.

    A skeleton whose line from ankle to toe slopes more than the model's has higher ankles: the foot
    grows upwards to reach them, and its sole stays flat on the floor.
    """
    stretch = np.ones(2)
    for k, (foot, toe) in enumerate(zip(_FEET, _TOES, strict=True)):
        ours = _slope_rad(rig.along[foot])
        theirs = _slope_rad(wanted[foot])
        if wanted[foot].any() and 0.0 < ours < theirs and _is_flat(rig.along[foot], wanted[foot]):
            span_m = source.rest_m[source.bones[toe]] - source.rest_m[source.bones[foot]]
            drop_m = float(np.linalg.norm(span_m)) * math.sin(theirs)
            toe_height_m = scale * (rig.ankle_m - float(rig.length_m[foot]) * math.sin(ours))
            stretch[k] = min(
                max((drop_m + toe_height_m) / (scale * rig.ankle_m), 1.0), _ANKLE_STRETCH
            )
    return stretch


def _rest_directions(source: Source) -> FloatArray:
    """Return unit directions (20, 3) in body axes from each limb part's joint to the next one.

    0 = unknown.
    """
    wanted = np.zeros((len(PARTS), 3))
    for chain in (*zip(UPPERS, LOWERS, ENDS, strict=True), *zip(_FEET, _TOES, strict=True)):
        for part, following in pairwise(part for part in chain if source.own[part]):
            step = source.rest_m[source.bones[following]] - source.rest_m[source.bones[part]]
            wanted[part] = unit(source.axes[part].T @ step)
    # A part without a bone of its own follows the one above.
    for upper, lower in zip(UPPERS, LOWERS, strict=True):
        if not wanted[lower].any():
            wanted[lower] = wanted[upper]
    return wanted
