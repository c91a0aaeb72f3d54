"""One frame of a skeleton as the retargeting reads it: by parts, implausible ones marked."""

from __future__ import annotations

import numpy as np

from vil_bridge.core.geometry import q_to_matrix
from vil_bridge.core.types import BoolArray, FloatArray, SkeletonFrame
from vil_renderer.embedded.actors.source import Source, plausible
from vil_renderer.embedded.actors.turning import body_axes

__all__ = ["SortedFrame"]


class SortedFrame:
    """A frame, sorted by parts.

    Attributes:
        R: rotations of the parts from the model's axes at rest, (20, 3, 3).
        p_m: origins of their bones, (20, 3). placed, tracked: of their bones, (20,).
        joints_m: limb joints, (4, 3, 3). seen: which of them are there, (4, 3).
    """

    def __init__(self, source: Source, skeleton: SkeletonFrame, bone_from_rest: FloatArray) -> None:
        placed = plausible(skeleton)
        bones = source.bones
        q = np.where(placed[bones, None], skeleton.q_xyzw[bones], (0.0, 0.0, 0.0, 1.0))
        p_m = np.where(placed[:, None], skeleton.p_m, 0.0)
        self._R_bone = q_to_matrix(q)
        self.R = self._R_bone @ bone_from_rest
        self.p_m: FloatArray = p_m[bones]
        self.placed: BoolArray = placed[bones]
        self.tracked: BoolArray = skeleton.tracked[bones]
        self.joints_m: FloatArray = p_m[source.joints]
        self.seen: BoolArray = (source.joints >= 0) & placed[source.joints]

    def middle(self, part: int, offset_m: FloatArray | None, limbs: list[int]) -> FloatArray | None:
        """Return the middle of two limbs' first joints, by the trunk if placed, else between them; None if unknown."""
        if offset_m is not None and self.placed[part]:
            return np.asarray(self.p_m[part] + self._R_bone[part] @ offset_m)
        if self.seen[limbs, 0].all():
            return np.asarray(self.joints_m[limbs, 0].mean(axis=0))
        return None

    def apart(self, limbs: list[int], up: FloatArray) -> FloatArray | None:
        """Return the trunk's rotation from the first joints of two limbs; None if they are missing."""
        if not self.seen[limbs, 0].all():
            return None
        left_m, right_m = self.joints_m[limbs, 0]
        return body_axes(left_m - right_m, up)
