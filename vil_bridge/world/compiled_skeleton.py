"""Track of a skeleton in the compiled kernel (``world/kernel/skeletons.c``), on the arrays of its twin."""

from __future__ import annotations

import ctypes

import numpy as np

from vil_bridge.core.types import SkeletonFrame, SkeletonModel
from vil_bridge.world.actors import TrackingLimits
from vil_bridge.world.compiled_tracks import room_struct
from vil_bridge.world.frame_binding import RoomFrame
from vil_bridge.world.kernel.structs import Struct, function
from vil_bridge.world.outlier_gate import surely_reachable_step
from vil_bridge.world.skeleton_tracks import CAPACITY, SkeletonTrack


class CompiledSkeletonTrack(SkeletonTrack):
    """A track whose usual frames and poses the kernel computes; the others are judged by :class:`SkeletonTrack`."""

    def __init__(self, limits: TrackingLimits) -> None:
        super().__init__(limits)
        self._room: tuple[RoomFrame, Struct] | None = None
        self._place = function("vil_skeleton_to_world", ctypes.c_void_p, ctypes.c_void_p)
        self._store = function(
            "vil_skeleton_append", ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_double, returns=ctypes.c_int
        )
        self._compute = function("vil_skeleton_at", ctypes.c_void_p, *[ctypes.c_int64] * 2, returns=ctypes.c_int)

    def _use(self, model: SkeletonModel) -> None:
        super()._use(model)
        bones, repeats = len(model.bones), self.repeats
        self._p_m, self._q_xyzw = np.zeros((bones, 3)), np.zeros((bones, 4))
        self._tracked, self._world_seen = np.zeros((2, bones), dtype=np.bool_)
        self._world = np.zeros((bones, 7))
        arrays = (
            *(self._t, self._poses, self._seen, self._count, repeats.count, repeats.first_ns, repeats.newest_ns),
            *(self._p_m, self._q_xyzw, self._tracked, self._world, self._world_seen),
        )
        self._struct = Struct([bones, CAPACITY, self._place_bone], arrays)

    def append(self, t_ns: int, t_arrival_ns: int, skeleton: SkeletonFrame, room: RoomFrame) -> None:
        """Store a frame of a room; the subject counts as tracked while its hips are."""
        if self._model is not skeleton.model:
            self._use(skeleton.model)
        if self._room is None or self._room[0] is not room:
            self._room = room, room_struct(room)
        self._p_m[...], self._q_xyzw[...], self._tracked[...] = skeleton.p_m, skeleton.q_xyzw, skeleton.tracked
        self._place(self._struct.pointer, self._room[1].pointer)
        if t_ns > self.t_capture_ns and not self._gate.suspects and len(self._world):
            limits = self._limits.max_speed_mps, self._limits.max_rate_radps
            most = surely_reachable_step(1e-9 * (t_ns - self.t_capture_ns), *limits)
            if self._store(self._struct.pointer, t_ns, self.t_arrival_ns, t_arrival_ns, most):
                self.tracked = True
                self.t_capture_ns, self.t_arrival_ns = t_ns, t_arrival_ns
                return
        with np.errstate(invalid="ignore", over="ignore"):
            self._judge(t_ns, t_arrival_ns, self._world.copy(), skeleton.tracked)

    def at(self, t_ns: int, horizon_ns: int) -> SkeletonFrame | None:
        """Interpolate, or extrapolate with each bone's twist by at most ``horizon_ns``."""
        if self._model is None or not self._compute(self._struct.pointer, t_ns, horizon_ns):
            return None
        poses = self._world.copy()
        return self._framed(poses[:, :3], poses[:, 3:], self._world_seen.copy())
