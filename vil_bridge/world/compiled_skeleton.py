"""Track of a skeleton in the compiled kernel (``kernel/skeletons.c``), on the arrays of
its twin.
"""

from __future__ import annotations

import ctypes

import numpy as np

from vil_bridge.core.types import BoolArray, SkeletonFrame, SkeletonModel
from vil_bridge.kernel.library import function
from vil_bridge.kernel.structs import VilRoom, VilSkeleton
from vil_bridge.world.actors import TrackingLimits
from vil_bridge.world.compiled_tracks import room_struct
from vil_bridge.world.frame_binding import RoomFrame
from vil_bridge.world.skeleton_tracks import CAPACITY, SkeletonTrack


class CompiledSkeletonTrack(SkeletonTrack):
    """A track whose usual frames and poses the kernel computes.

    The others are judged by :class:`SkeletonTrack`.

    Attributes:
        struct: another one for each model.
    """

    struct: VilSkeleton

    def __init__(self, limits: TrackingLimits) -> None:
        super().__init__(limits)
        self._rooms: tuple[RoomFrame, VilRoom] | None = None
        self._store = function(
            "vil_skeleton_store",
            *[ctypes.c_void_p] * 4,
            *[ctypes.c_int64] * 2,
            returns=ctypes.c_int,
        )
        self._compute = function(
            "vil_skeleton_at", ctypes.c_void_p, *[ctypes.c_int64] * 2, returns=ctypes.c_int
        )

    def use(self, model: SkeletonModel) -> VilSkeleton:
        """Return the struct of a model, whose history begins unless it has."""
        if self._model is not model:
            self._use(model)
        return self.struct

    def _use(self, model: SkeletonModel) -> None:
        super()._use(model)
        bones = len(model.bones)
        repeats = self.repeats
        limits = self._limits
        self._room = np.zeros((bones, 7))
        self._tracked, self._world_seen = np.zeros((2, bones), dtype=np.bool_)
        self._world = np.zeros((bones, 7))
        self.struct = VilSkeleton(
            bones=bones,
            capacity=CAPACITY,
            place_bone=self._place_bone,
            max_mps=limits.max_speed_mps,
            max_radps=limits.max_rate_radps,
            stamps=self.stamps,
            t=self._t,
            poses=self._poses,
            seen=self._seen,
            count=self._count,
            repeats=repeats.count,
            repeats_first_ns=repeats.first_ns,
            repeats_newest_ns=repeats.newest_ns,
            world=self._world,
            world_seen=self._world_seen,
        )

    def append(
        self, t_ns: int, t_arrival_ns: int, skeleton: SkeletonFrame, room: RoomFrame
    ) -> None:
        """Store a frame of a room; the subject counts as tracked while its hips are."""
        struct = self.use(skeleton.model)
        if self._rooms is None or self._rooms[0] is not room:
            self._rooms = room, room_struct(room)
        self._room[:, :3] = skeleton.p_m
        self._room[:, 3:] = skeleton.q_xyzw
        self._tracked[...] = skeleton.tracked
        rows = self._room.ctypes.data, self._tracked.ctypes.data
        if not self._store(struct.pointer, self._rooms[1].pointer, *rows, t_ns, t_arrival_ns):
            self.judge(t_ns, t_arrival_ns, skeleton.tracked)

    def judge(self, t_ns: int, t_arrival_ns: int, tracked: BoolArray) -> None:
        """Judge the frame that the kernel has brought to the world and not stored."""
        with np.errstate(invalid="ignore", over="ignore"):
            self._judge(t_ns, t_arrival_ns, self._world.copy(), tracked)

    def at(self, t_ns: int, horizon_ns: int) -> SkeletonFrame | None:
        """Interpolate, or extrapolate with each bone's twist by at most ``horizon_ns``."""
        if self._model is None or not self._compute(self.struct.pointer, t_ns, horizon_ns):
            return None
        poses = self._world.copy()
        return self._framed(poses[:, :3], poses[:, 3:], self._world_seen.copy())
