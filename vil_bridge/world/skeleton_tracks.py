"""The recent past of one skeleton, in world coordinates."""

from __future__ import annotations

from collections import deque
from operator import sub
from typing import Final

import numpy as np

from vil_bridge.core.geometry import q_conj, q_exp, q_log, q_mul, q_rotate
from vil_bridge.core.skeleton import global_to_local, place_bone
from vil_bridge.core.types import BoolArray, FloatArray, SkeletonFrame, SkeletonModel
from vil_bridge.world.actors import TrackingLimits
from vil_bridge.world.frame_binding import RoomFrame
from vil_bridge.world.freeze import Repeats
from vil_bridge.world.outlier_gate import JumpGate, is_unit, reachable, surely_reachable_step

CAPACITY: Final = 64
TWIST_WINDOW_NS: Final = 50_000_000

_SANE_SUM: Final = 1e5  # of all coordinates of a skeleton; no room is that large
_FIRST: Final = slice(0, 1)
_NO_TURN: Final[FloatArray] = np.array([0.0, 0.0, 0.0, 1.0])


_Sample = tuple[int, FloatArray, BoolArray]
"""Capture time, bone poses (m, 7) as (x, y, z, qx, qy, qz, qw), and which bones were seen (m,)."""


class SkeletonTrack:
    """The recent frames of one skeleton, world coordinates.

    Attributes:
        t_capture_ns, t_arrival_ns: of the newest frame whose hips were tracked, -1 = never.
        jumps: histories given up since the hips went where they cannot have gone.
        rejected: frames whose hips were where they cannot be.
        repeats: since when the hips repeat to the bit.
    """

    def __init__(self, limits: TrackingLimits) -> None:
        self._limits = limits
        self._gate = JumpGate(limits)
        self._model: SkeletonModel | None = None
        self._samples: deque[_Sample] = deque(maxlen=CAPACITY)
        self._place_bone = 0
        self._place: list[float] = []
        self.t_capture_ns = -1
        self.t_arrival_ns = -1
        self.tracked = False
        self.jumps = 0
        self.rejected = 0
        self.repeats = Repeats(1)

    def append(self, t_ns: int, t_arrival_ns: int, skeleton: SkeletonFrame, room: RoomFrame) -> None:
        """Store a frame of a room; the subject counts as tracked while its hips are.

        Hips are the bone of :func:`~vil_bridge.core.skeleton.place_of`, the root where none are recognised.
        Bones that were not seen, or are no poses, keep their last pose relative to the parent. Hips that moved
        further than a human can are rejected, or start the history over when they stay there.
        """
        model, tracked = skeleton.model, skeleton.tracked
        with np.errstate(invalid="ignore", over="ignore"):  # an invalid pose counts as not seen
            poses = room.poses(skeleton.p_m, skeleton.q_xyzw)
            self._append(t_ns, t_arrival_ns, model, poses, tracked)

    def _append(
        self, t_ns: int, t_arrival_ns: int, model: SkeletonModel, poses: FloatArray, tracked: BoolArray
    ) -> None:
        if not abs(np.add.reduce(poses, axis=None)) < _SANE_SUM:
            tracked = tracked & np.isfinite(poses).all(axis=1) & is_unit((poses[:, 3:] ** 2).sum(axis=1))
        bone = self._place_bone if self._model is model else place_bone(model)
        self.tracked = bool(tracked[bone]) if len(tracked) else False
        if not self.tracked or t_ns <= self.t_capture_ns:
            return
        if self._model is not model:
            self._samples.clear()
            self._model, self._place_bone = model, bone
        if not self._admits(t_ns, poses[bone]):
            self.rejected += 1
            return
        if not np.logical_and.reduce(tracked):
            poses = _completed(model.parents, model.offsets_m, poses, tracked, self._newest_poses())
        self._samples.append((t_ns, poses, tracked))
        place = poses[bone].tolist()
        self.repeats.add(_FIRST, np.array([self.t_arrival_ns]), t_arrival_ns, np.array([place == self._place]))
        self._place = place
        self.t_capture_ns, self.t_arrival_ns = t_ns, t_arrival_ns

    def _newest_poses(self) -> FloatArray | None:
        return self._samples[-1][1] if self._samples else None

    def _admits(self, t_ns: int, place: FloatArray) -> bool:
        if not self._samples:
            return True
        dt_s = 1e-9 * (t_ns - self.t_capture_ns)
        limits = self._limits.max_speed_mps, self._limits.max_rate_radps
        # Seven numbers: plain Python is quicker than three calls of numpy.
        step = max(map(abs, map(sub, place.tolist(), self._place)))
        if step <= surely_reachable_step(dt_s, *limits) or reachable(dt_s, place, np.array(self._place), *limits):
            self._gate.clear()
        elif not self._gate.proves(t_ns, place):
            return False
        else:
            self._samples.clear()
            self.jumps += 1
        return True

    def reset(self) -> None:
        """Drop the history."""
        self._samples.clear()
        self._gate.clear()
        self.t_capture_ns = self.t_arrival_ns = -1
        self.tracked = False

    def shift(self, by_ns: int) -> None:
        """Move all capture times: the clock that they come from is known better now."""
        if self.t_capture_ns >= 0:
            self.t_capture_ns += by_ns
            self._samples = deque(((t_ns + by_ns, p, seen) for t_ns, p, seen in self._samples), maxlen=CAPACITY)

    def at(self, t_ns: int, horizon_ns: int) -> SkeletonFrame | None:
        """Interpolate, or extrapolate with each bone's twist by at most ``horizon_ns``."""
        samples = list(self._samples)
        if not samples:
            return None
        newest_ns = samples[-1][0]
        t_ns = min(t_ns, newest_ns + horizon_ns)
        if t_ns <= samples[0][0]:
            return self._frame(samples[0])
        if t_ns >= newest_ns:
            older = next((s for s in reversed(samples[:-1]) if newest_ns - s[0] >= TWIST_WINDOW_NS), samples[0])
            later = samples[-1]
        else:
            i = next(i for i, sample in enumerate(samples) if sample[0] >= t_ns)
            older, later = samples[i - 1], samples[i]
        if later[0] == older[0]:
            return self._frame(later)
        past_later = (t_ns - later[0]) / (later[0] - older[0])
        q = later[1][:, 3:]
        turn = q_log(q_mul(q_conj(older[1][:, 3:]), q))
        poses = later[1] + past_later * (later[1] - older[1])
        poses[:, 3:] = q_mul(q, q_exp(past_later * turn))
        return self._frame((t_ns, poses, later[2]))

    def _frame(self, sample: _Sample) -> SkeletonFrame:
        assert self._model is not None, "a sample has a model"
        _, poses, tracked = sample
        return SkeletonFrame(self._model, poses[:, :3], poses[:, 3:], tracked)


def _completed(
    parents: tuple[int, ...], offsets_m: FloatArray, poses: FloatArray, tracked: BoolArray, last: FloatArray | None
) -> FloatArray:
    """Place unseen bones where they last were relative to their parents, at rest when never seen."""
    poses = poses.copy()
    p_m, q_xyzw = poses[:, :3], poses[:, 3:]
    if last is None:
        p_local, q_local = offsets_m, np.tile(_NO_TURN, (len(parents), 1))
    else:
        p_local, q_local = global_to_local(last[:, :3], last[:, 3:], parents)
    for i in np.flatnonzero(~tracked).tolist():
        parent = parents[i]
        if parent < 0:
            p_m[i], q_xyzw[i] = p_local[i], q_local[i]
            continue
        p_m[i] = p_m[parent] + q_rotate(q_xyzw[parent], p_local[i])
        q_xyzw[i] = q_mul(q_xyzw[parent], q_local[i])
    return poses
