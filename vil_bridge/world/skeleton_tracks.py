"""The recent past of one skeleton, in world coordinates."""

from __future__ import annotations

from operator import sub
from typing import Final

import numpy as np

from vil_bridge.bodies.skeleton import global_to_local, place_bone
from vil_bridge.core.geometry import q_conj, q_exp, q_log, q_mul, q_rotate
from vil_bridge.core.types import BoolArray, FloatArray, SkeletonFrame, SkeletonModel
from vil_bridge.kernel.structs import VilStamps
from vil_bridge.world.actors import TrackingLimits
from vil_bridge.world.frame_binding import RoomFrame
from vil_bridge.world.freeze import Repeats
from vil_bridge.world.outlier_gate import JumpGate, is_unit, reachable, surely_reachable_step

CAPACITY: Final = 64
TWIST_WINDOW_NS: Final = 50_000_000

_SANE: Final = 1e5  # length of all numbers of a skeleton; no room is that large
_FIRST: Final = slice(0, 1)
_NO_TURN: Final[FloatArray] = np.array([0.0, 0.0, 0.0, 1.0])


class SkeletonTrack:
    """The recent frames of one skeleton, world coordinates.

    :mod:`~vil_bridge.world.compiled_skeleton` does the same on the same arrays.

    Attributes:
        stamps: of the newest frame.
        jumps: histories given up since the hips went where they cannot have gone.
        rejected: frames whose hips were where they cannot be.
        repeats: since when the hips repeat to the bit.
    """

    def __init__(self, limits: TrackingLimits) -> None:
        self._limits = limits
        self._gate = JumpGate(limits)
        self._model: SkeletonModel | None = None
        self._place_bone = 0
        self._t = np.zeros(CAPACITY, dtype=np.int64)
        self._poses = np.zeros((CAPACITY, 0, 7))
        self._seen = np.zeros((CAPACITY, 0), dtype=np.bool_)
        self._count = np.zeros(1, dtype=np.int64)
        self.stamps = VilStamps(t_capture_ns=-1, t_arrival_ns=-1)
        self.jumps = 0
        self.rejected = 0
        self.repeats = Repeats(1)

    def append(
        self, t_ns: int, t_arrival_ns: int, skeleton: SkeletonFrame, room: RoomFrame
    ) -> None:
        """Store a frame of a room; the subject counts as tracked while its hips are.

        Hips are the bone of :func:`~vil_bridge.bodies.skeleton.place_of`, the root where none are
        recognised. Bones that were not seen, or are no poses, keep their last pose relative to the
        parent. Hips that moved further than a human can are rejected, or start the history over
        when they stay there.
        """
        if self._model is not skeleton.model:
            self._use(skeleton.model)
        with np.errstate(invalid="ignore", over="ignore"):  # an invalid pose counts as not seen
            self._judge(
                t_ns, t_arrival_ns, room.poses(skeleton.p_m, skeleton.q_xyzw), skeleton.tracked
            )

    def _use(self, model: SkeletonModel) -> None:
        """Begin a history of another model."""
        bones = len(model.bones)
        self._model, self._place_bone = model, place_bone(model)
        self._poses = np.zeros((CAPACITY, bones, 7))
        self._seen = np.zeros((CAPACITY, bones), dtype=np.bool_)
        self._count[0] = 0

    def _judge(self, t_ns: int, t_arrival_ns: int, poses: FloatArray, tracked: BoolArray) -> None:
        stamps = self.stamps
        if not np.vdot(poses, poses) < _SANE**2:
            near = (np.abs(poses) < _SANE).all(axis=1)
            tracked = tracked & near & is_unit((poses[:, 3:] ** 2).sum(axis=1))
        stamps.tracked = bool(tracked[self._place_bone]) if len(tracked) else False
        if not stamps.tracked or t_ns <= stamps.t_capture_ns:
            return
        admitted = self._admits(t_ns, poses[self._place_bone])
        stamps.suspected = self._gate.suspects
        if not admitted:
            self.rejected += 1
            return
        if not np.logical_and.reduce(tracked):
            poses = self._completed(poses, tracked)
        same = bool(self._count[0]) and bool(
            (poses[self._place_bone] == self._newest()[self._place_bone]).all()
        )
        self.repeats.add(_FIRST, np.array([stamps.t_arrival_ns]), t_arrival_ns, np.array([same]))
        slot = self._count[0] % CAPACITY
        self._t[slot] = t_ns
        self._poses[slot] = poses
        self._seen[slot] = tracked
        self._count += 1
        stamps.t_capture_ns = t_ns
        stamps.t_arrival_ns = t_arrival_ns

    def _newest(self) -> FloatArray:
        newest: FloatArray = self._poses[(self._count[0] - 1) % CAPACITY]
        return newest

    def _admits(self, t_ns: int, place: FloatArray) -> bool:
        if not self._count[0]:
            return True
        dt_s = 1e-9 * (t_ns - self.stamps.t_capture_ns)
        limits = self._limits.max_speed_mps, self._limits.max_rate_radps
        before = self._newest()[self._place_bone]
        # Seven numbers: plain Python is quicker than three calls of numpy.
        step = max(map(abs, map(sub, place.tolist(), before.tolist())))
        if step <= surely_reachable_step(dt_s, *limits) or reachable(dt_s, place, before, *limits):
            self._gate.clear()
        elif not self._gate.proves(t_ns, place):
            return False
        else:
            self._count[0] = 0
            self.jumps += 1
        return True

    def reset(self) -> None:
        """Drop the history."""
        self._count[0] = 0
        self._gate.clear()
        self.stamps.t_capture_ns = self.stamps.t_arrival_ns = -1
        self.stamps.tracked = self.stamps.suspected = False

    def shift(self, by_ns: int) -> None:
        """Move all capture times: the clock that they come from is known better now."""
        if self.stamps.t_capture_ns >= 0:
            self.stamps.t_capture_ns += by_ns
            self._t += by_ns

    def at(self, t_ns: int, horizon_ns: int) -> SkeletonFrame | None:
        """Interpolate, or extrapolate with each bone's twist by at most ``horizon_ns``."""
        count = self._count.item()
        if not count:
            return None
        slots = np.arange(max(0, count - CAPACITY), count) % CAPACITY
        times_ns = self._t[slots]
        newest_ns = times_ns.item(-1)
        t_ns = min(t_ns, newest_ns + horizon_ns)
        if t_ns <= times_ns[0]:
            return self._frame(slots[0])
        if t_ns >= newest_ns:
            older = max(
                0, int(np.searchsorted(times_ns, newest_ns - TWIST_WINDOW_NS, side="right")) - 1
            )
            later = len(slots) - 1
        else:
            later = int(np.searchsorted(times_ns, t_ns))
            older = later - 1
        if later == older:
            return self._frame(slots[later])
        past_later = (t_ns - times_ns[later]) / (times_ns[later] - times_ns[older])
        before = self._poses[slots[older]]
        now = self._poses[slots[later]]
        turn = q_log(q_mul(q_conj(before[:, 3:]), now[:, 3:]))
        p_m = now[:, :3] + past_later * (now[:, :3] - before[:, :3])
        return self._framed(
            p_m, q_mul(now[:, 3:], q_exp(past_later * turn)), self._seen[slots[later]].copy()
        )

    def _frame(self, slot: int) -> SkeletonFrame:
        poses = self._poses[slot].copy()
        return self._framed(poses[:, :3], poses[:, 3:], self._seen[slot].copy())

    def _framed(self, p_m: FloatArray, q_xyzw: FloatArray, seen: BoolArray) -> SkeletonFrame:
        assert self._model is not None, "a sample has a model"
        return SkeletonFrame(self._model, p_m, q_xyzw, seen)

    def _completed(self, poses: FloatArray, tracked: BoolArray) -> FloatArray:
        """Place unseen bones where they last were relative to their parents, at rest when never
        seen.
        """
        assert self._model is not None, "append() has set it"
        parents = self._model.parents
        poses = poses.copy()
        p_m = poses[:, :3]
        q_xyzw = poses[:, 3:]
        if self._count[0]:
            last = self._newest()
            p_local, q_local = global_to_local(last[:, :3], last[:, 3:], parents)
        else:
            p_local = self._model.offsets_m
            q_local = np.tile(_NO_TURN, (len(parents), 1))
        for i in np.flatnonzero(~tracked).tolist():
            parent = parents[i]
            if parent < 0:
                p_m[i], q_xyzw[i] = p_local[i], q_local[i]
                continue
            p_m[i] = p_m[parent] + q_rotate(q_xyzw[parent], p_local[i])
            q_xyzw[i] = q_mul(q_xyzw[parent], q_local[i])
        return poses
