"""Described skeletons of a NatNet server.

Streamed bones in the model's order, in global coordinates.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_adapters.optitrack.labels import BONE_MASK
from vil_bridge.bodies.skeleton import local_to_global, parents_first, trusted_below
from vil_bridge.core.types import BoolArray, FloatArray, SkeletonFrame, SkeletonModel
from vil_bridge.protocols.natnet.axes import UpAxis, streamed_to_zup
from vil_bridge.protocols.natnet.model import SkeletonDescription

_LOCAL_TOLERANCE_M: Final = 0.02


class StreamedSkeleton:
    """One described skeleton: its model and how its streamed bones map to it."""

    def __init__(
        self, description: SkeletonDescription, scale_m: float, up_axis: UpAxis, coordinates: str
    ) -> None:
        order = parents_first(
            [(bone.id & BONE_MASK, bone.parent_id, bone) for bone in description.bones]
        )
        offsets = (
            np.array([bone.offset for bone, _ in order], dtype=np.float64).reshape(-1, 3) * scale_m
        )
        offsets[~np.isfinite(offsets)] = 0.0  # described by no number: as good as not described
        identity = np.tile((0.0, 0.0, 0.0, 1.0), (len(order), 1))
        self.model = SkeletonModel(
            name=description.name,
            bones=tuple(bone.name for bone, _ in order),
            parents=tuple(parent for _, parent in order),
            offsets_m=streamed_to_zup(offsets, identity, up_axis)[0],
        )
        self.coordinates = coordinates
        self._index = {bone.id & BONE_MASK: i for i, (bone, _) in enumerate(order)}
        self._ids = b""
        self._rows = self._slots = np.empty(0, np.intp)
        self._in_order = False

    def frame(
        self, p_m: FloatArray, q_xyzw: FloatArray, tracked: BoolArray, ids: bytes
    ) -> SkeletonFrame:
        """Return the global poses of the streamed bones, in the model's order.

        ``tracked`` is True only where a pose was streamed, is one, and everything that it depends
        on is tracked too. Elsewhere the pose means nothing: a bone that was not streamed lies at
        the origin, or at its parent's.
        """
        if ids != self._ids:
            self._bind(ids)
        if not self._in_order:
            p_m, q_xyzw, tracked = self._ordered(p_m, q_xyzw, tracked)
        return self.placed(p_m, q_xyzw, tracked)

    def placed(self, p_m: FloatArray, q_xyzw: FloatArray, tracked: BoolArray) -> SkeletonFrame:
        """Return the global poses of bones in the model's order."""
        if self.coordinates == "auto":
            tracked = self._detect(p_m, tracked)
        if self.coordinates == "local":
            p_m, q_xyzw = local_to_global(p_m, q_xyzw, self.model.parents)
            tracked = trusted_below(tracked, self.model.parents)
        return SkeletonFrame(self.model, p_m, q_xyzw, tracked)

    def slots(self, ids: list[int]) -> list[int]:
        """Return the place of each streamed bone in the model's order, -1 for one that is not
        described.
        """
        return [self._index.get(identity & BONE_MASK, -1) for identity in ids]

    def _bind(self, ids: bytes) -> None:
        slots = self.slots(np.frombuffer(ids, np.int32).tolist())
        self._ids = ids
        self._rows = np.flatnonzero(np.array(slots) >= 0)
        self._slots = np.array(slots, dtype=np.intp)[self._rows]
        self._in_order = slots == list(range(len(self.model.bones)))

    def _ordered(
        self, p: FloatArray, q: FloatArray, tracked: BoolArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        count = len(self.model.bones)
        p_m = np.zeros((count, 3))
        q_xyzw = np.zeros((count, 4))
        valid = np.zeros(count, dtype=np.bool_)
        q_xyzw[:, 3] = 1.0
        p_m[self._slots], q_xyzw[self._slots], valid[self._slots] = (
            p[self._rows],
            q[self._rows],
            tracked[self._rows],
        )
        return p_m, q_xyzw, valid

    def _detect(self, p_m: FloatArray, tracked: BoolArray) -> BoolArray:
        """Detect local coordinates: bones are at their described offsets.

        Until a frame decides, no bone is tracked.

        A frame decides when half of the bones are tracked: fingers or toes may never be.
        """
        child = np.array(self.model.parents) >= 0
        seen = child & tracked
        if 2 * np.count_nonzero(seen) < np.count_nonzero(child):
            return np.zeros_like(tracked)
        offsets = self.model.offsets_m[seen]
        local = offsets.any() and np.abs(p_m[seen] - offsets).max() < _LOCAL_TOLERANCE_M
        self.coordinates = "local" if local else "global"
        return tracked
