"""Frames and descriptions of the world's actors as NatNet values; no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray, SkeletonFrame, SkeletonModel
from vil_bridge.outputs.pose_server import PoseFrame
from vil_bridge.protocols.natnet.axes import UpAxis
from vil_bridge.protocols.natnet.frame import NatNetFrame, SkeletonPose
from vil_bridge.protocols.natnet.model import BodyDescription, Description, Models
from vil_bridge.protocols.natnet.streamed import body_records, bone_ids, describe_skeleton

_ROOT: Final = "_root"
"""Ends the name of the rigid body at a human's root."""


class NatNetFrames:
    """Frames of some actors: rigid bodies, and of humans a skeleton and a rigid body ``NAME_root``.

    What is not tracked has its last tracked pose, without the bit that marks it as tracked.

    Args:
        names: of the actors. ids: streaming ids, from 1. humans: whether each is one. up_axis: that
            is streamed.

    Attributes:
        models: descriptions; a human's skeleton is among them once it was seen.
        bodies, skeletons: names of what the frames hold, in their order.
    """

    def __init__(
        self, names: Sequence[str], ids: Sequence[int], humans: Sequence[bool], up_axis: UpAxis
    ) -> None:
        self._actors = tuple(names)
        self._ids = np.array(ids, np.int64)
        self._up_axis: UpAxis = up_axis
        self._held_p_m: FloatArray = np.zeros((len(names), 3))
        self._held_q: FloatArray = np.tile((0.0, 0.0, 0.0, 1.0), (len(names), 1))
        self._humans = [row for row, human in enumerate(humans) if human]
        self._held: dict[int, SkeletonFrame] = {}
        self.bodies = tuple(
            f"{name}{_ROOT}" if human else name for name, human in zip(names, humans, strict=True)
        )
        self.skeletons: tuple[str, ...] = ()
        self.models = self._describe()

    def frame(self, number: int, seen: PoseFrame) -> tuple[NatNetFrame, bool]:
        """Return the frame of an instant without its stamps, and whether the descriptions have
        changed with it.
        """
        fresh = seen.tracked[:, None]
        self._held_p_m = np.where(fresh, seen.p_m, self._held_p_m)
        self._held_q = np.where(fresh, seen.q_xyzw, self._held_q)
        changed = [self._update(row, seen) for row in self._humans]
        if any(changed):
            self.models = self._describe()
        bodies = body_records(
            self._ids, self._held_p_m, self._held_q, seen.tracked, up_axis=self._up_axis
        )
        skeletons = tuple(self._pose(row, bool(seen.tracked[row])) for row in self._held)
        return NatNetFrame(number, bodies, skeletons), any(changed)

    def _update(self, row: int, seen: PoseFrame) -> bool:
        """Take a human's skeleton where it is tracked; return whether its model is new."""
        skeleton = seen.skeletons[row]
        before = self._held.get(row)
        if skeleton is None or not seen.tracked[row]:
            return False
        self._held[row] = skeleton
        return before is None or not _same(before.model, skeleton.model)

    def _pose(self, row: int, tracked: bool) -> SkeletonPose:
        held = self._held[row]
        identity = int(self._ids[row])
        flags: BoolArray = held.tracked & tracked
        ids = bone_ids(identity, len(held.p_m))
        return SkeletonPose(
            identity, body_records(ids, held.p_m, held.q_xyzw, flags, up_axis=self._up_axis)
        )

    def _describe(self) -> Models:
        ids = self._ids.tolist()
        items: list[Description] = [
            BodyDescription(name, identity) for name, identity in zip(self.bodies, ids, strict=True)
        ]
        for row, skeleton in self._held.items():
            described = describe_skeleton(skeleton.model, ids[row], self._up_axis)
            items.append(replace(described, name=self._actors[row]))
        self.skeletons = tuple(self._actors[row] for row in self._held)
        return Models(tuple(items))


def _same(a: SkeletonModel, b: SkeletonModel) -> bool:
    return a is b or (
        (a.bones, a.parents) == (b.bones, b.parents)
        and bool(np.array_equal(a.offsets_m, b.offsets_m))
    )
