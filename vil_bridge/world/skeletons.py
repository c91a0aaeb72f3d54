"""The recent past of one skeleton, in world coordinates."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core.geometry import q_conj, q_exp, q_log, q_mul, q_rotate
from vil_bridge.core.skeleton import global_to_local
from vil_bridge.core.types import FloatArray, SkeletonFrame
from vil_bridge.world.actors import TrackingLimits
from vil_bridge.world.gate import JumpGate, reachable

__all__ = ["SkeletonTrack"]

CAPACITY: Final = 64
TWIST_WINDOW_NS: Final = 50_000_000

_NO_TURN: Final[FloatArray] = np.array([0.0, 0.0, 0.0, 1.0])


class SkeletonTrack:
    """The recent frames of one skeleton, world coordinates.

    Attributes:
        t_capture_ns, t_arrival_ns: of the newest frame whose root was tracked, -1 = never.
        jumps: histories given up since the root went where it cannot have gone.
        rejected: frames whose root was where it cannot be.
    """

    def __init__(self, limits: TrackingLimits) -> None:
        self._limits = limits
        self._gate = JumpGate(limits)
        self._frames: deque[tuple[int, SkeletonFrame]] = deque(maxlen=CAPACITY)
        self._root = np.empty(0)
        self.t_capture_ns = -1
        self.t_arrival_ns = -1
        self.tracked = False
        self.jumps = 0
        self.rejected = 0

    def append(self, t_ns: int, t_arrival_ns: int, frame: SkeletonFrame) -> None:
        """Store a frame; the subject counts as tracked while its root is.

        Bones that were not seen, or are not finite, keep their last pose relative to the parent. A root that moved
        further than a human can is rejected, or starts the history over when it stays there.
        """
        if not math.isfinite(frame.p_m.sum() + frame.q_xyzw.sum()):
            finite = np.isfinite(frame.p_m).all(axis=1) & np.isfinite(frame.q_xyzw).all(axis=1)
            frame = replace(frame, tracked=frame.tracked & finite)
        self.tracked = bool(frame.tracked[0]) if len(frame.tracked) else False
        if not self.tracked or t_ns <= self.t_capture_ns:
            return
        if self._frames and self._frames[-1][1].model is not frame.model:
            self._frames.clear()
        root = np.concatenate((frame.p_m[0], frame.q_xyzw[0]))
        if not self._admits(t_ns, root):
            self.rejected += 1
            return
        last = self._frames[-1][1] if self._frames else None
        self._frames.append((t_ns, frame if frame.tracked.all() else _completed(frame, last)))
        self._root = root
        self.t_capture_ns, self.t_arrival_ns = t_ns, t_arrival_ns

    def _admits(self, t_ns: int, root: FloatArray) -> bool:
        if not self._frames:
            return bool(np.isfinite(root).all())
        dt_s = 1e-9 * (t_ns - self.t_capture_ns)
        if reachable(dt_s, root, self._root, self._limits.max_speed_mps, self._limits.max_rate_radps):
            self._gate.clear()
        elif not self._gate.proves(t_ns, root):
            return False
        else:
            self._frames.clear()
            self.jumps += 1
        return True

    def forget(self) -> None:
        """Drop the history."""
        self._frames.clear()
        self._gate.clear()
        self.t_capture_ns = self.t_arrival_ns = -1
        self.tracked = False

    def shift(self, by_ns: int) -> None:
        """Move all capture times: the clock that they come from is known better now."""
        if self.t_capture_ns >= 0:
            self.t_capture_ns += by_ns
            self._frames = deque(((t_ns + by_ns, frame) for t_ns, frame in self._frames), maxlen=CAPACITY)

    def at(self, t_ns: int, horizon_ns: int) -> SkeletonFrame | None:
        """Interpolated, or extrapolated with each bone's twist by at most ``horizon_ns``."""
        frames = list(self._frames)
        if not frames:
            return None
        newest_t, newest = frames[-1]
        t_ns = min(t_ns, newest_t + horizon_ns)
        if t_ns <= frames[0][0]:
            return frames[0][1]
        if t_ns >= newest_t:
            older_t, older = next((f for f in reversed(frames[:-1]) if newest_t - f[0] >= TWIST_WINDOW_NS), frames[0])
            later_t, later = newest_t, newest
        else:
            i = next(i for i, f in enumerate(frames) if f[0] >= t_ns)
            (older_t, older), (later_t, later) = frames[i - 1], frames[i]
        if later_t == older_t:
            return later
        past_later = (t_ns - later_t) / (later_t - older_t)
        turn = q_log(q_mul(q_conj(older.q_xyzw), later.q_xyzw))
        return SkeletonFrame(
            later.model,
            later.p_m + past_later * (later.p_m - older.p_m),
            q_mul(later.q_xyzw, q_exp(past_later * turn)),
            later.tracked,
        )


def _completed(frame: SkeletonFrame, last: SkeletonFrame | None) -> SkeletonFrame:
    """Unseen bones put where they last were relative to their parents, at rest when never seen."""
    parents = frame.model.parents
    p_m, q_xyzw = frame.p_m.copy(), frame.q_xyzw.copy()
    if last is None:
        p_local, q_local = frame.model.offsets_m, np.tile(_NO_TURN, (len(parents), 1))
    else:
        p_local, q_local = global_to_local(last.p_m, last.q_xyzw, parents)
    for i in np.flatnonzero(~frame.tracked).tolist():
        parent = parents[i]
        if parent < 0:
            p_m[i], q_xyzw[i] = p_local[i], q_local[i]
            continue
        p_m[i] = p_m[parent] + q_rotate(q_xyzw[parent], p_local[i])
        q_xyzw[i] = q_mul(q_xyzw[parent], q_local[i])
    return SkeletonFrame(frame.model, p_m, q_xyzw, frame.tracked)
