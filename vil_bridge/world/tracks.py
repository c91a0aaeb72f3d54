"""The recent past of every rigid actor and of every skeleton, in world coordinates.

Rigid tracks share one set of arrays, so that a frame of many bodies is stored, and many bodies are
predicted, in a handful of array operations. Times are capture times in the bridge's clock.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform, q_conj, q_exp, q_log, q_mul, q_slerp
from vil_bridge.core.types import BoolArray, FloatArray, SkeletonFrame

__all__ = ["SkeletonTrack", "TrackBank", "TrackWindow"]

CAPACITY: Final = 512
TWIST_WINDOW_NS: Final = 50_000_000
MAX_SPEED_MPS: Final = 30.0
MAX_RATE_RADPS: Final = 40.0
_SLACK_M: Final = 0.05  # two samples a microsecond apart differ by noise
_SLACK_RAD: Final = 0.2
_MIN_SPAN_S: Final = 0.004
_STEPS_BACK: Final = np.array([0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 30, 40, 50])
"""Samples that may begin the secant, counted back from the newest: enough at 30 Hz as at 1 kHz."""

_NO_TURN: Final[FloatArray] = np.array([0.0, 0.0, 0.0, 1.0])

_Index = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TrackWindow:
    """Copies of one body's newest samples, oldest first.

    Attributes:
        t_ns: shape (k,) int64. p_m: shape (k, 3), world. q_xyzw: shape (k, 4), world from body.
    """

    t_ns: npt.NDArray[np.int64]
    p_m: FloatArray
    q_xyzw: FloatArray


class TrackBank:
    """Ring buffers of all rigid actors; row i belongs to actor i. The owner guards it with a lock.

    Attributes:
        t_capture_ns, t_arrival_ns: newest *tracked* sample per row, -1 = never.
        tracked: what the newest frame said, per row.
        counters: ``out_of_order`` and ``jumps`` per bank.
        version: changes with every change of the samples.
    """

    def __init__(self, rows: int) -> None:
        self._t = np.full((rows, CAPACITY), -1, dtype=np.int64)
        self._p = np.zeros((rows, CAPACITY, 3))
        self._q = np.zeros((rows, CAPACITY, 4))
        self._q[..., 3] = 1.0
        self._count = np.zeros(rows, dtype=np.int64)
        self.t_capture_ns = np.full(rows, -1, dtype=np.int64)
        self.t_arrival_ns = np.full(rows, -1, dtype=np.int64)
        self.tracked = np.zeros(rows, dtype=np.bool_)
        self.counters: Counter[str] = Counter()
        self.version = 0
        self._motion: tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None = None

    def append(
        self, rows: _Index, t_ns: int, t_arrival_ns: int, p_m: FloatArray, q_xyzw: FloatArray, tracked: BoolArray
    ) -> None:
        """Store one sample per row: ``p_m`` (k, 3), ``q_xyzw`` (k, 4), ``tracked`` (k,).

        Untracked samples only clear the flag; samples not newer than the last are counted and
        dropped; an impossible step (a cut in playback, a re-labelled body) starts the row's history over.
        """
        self.tracked[rows] = tracked
        newer = t_ns > self.t_capture_ns[rows]
        good = tracked & newer & np.isfinite(p_m).all(axis=1)
        if not good.all():
            self.counters["out_of_order"] += int((tracked & ~newer).sum())
            if not good.any():
                return
            rows, p_m, q_xyzw = rows[good], p_m[good], q_xyzw[good]
        self._forget_jumps(rows, t_ns, p_m, q_xyzw)
        slot = self._count[rows] % CAPACITY
        self._t[rows, slot] = t_ns
        self._p[rows, slot] = p_m
        self._q[rows, slot] = q_xyzw
        self._count[rows] += 1
        self.t_capture_ns[rows] = t_ns
        self.t_arrival_ns[rows] = t_arrival_ns
        self._changed()

    def _forget_jumps(self, rows: _Index, t_ns: int, p_m: FloatArray, q_xyzw: FloatArray) -> None:
        last = (self._count[rows] - 1) % CAPACITY
        dt_s = 1e-9 * (t_ns - self.t_capture_ns[rows])
        step_m = np.linalg.norm(p_m - self._p[rows, last], axis=1)
        cosine = np.abs((q_xyzw * self._q[rows, last]).sum(axis=1)).clip(0.0, 1.0)
        jumped = (step_m > _SLACK_M + MAX_SPEED_MPS * dt_s) | (
            2.0 * np.arccos(cosine) > _SLACK_RAD + MAX_RATE_RADPS * dt_s
        )
        jumped &= self._count[rows] > 0
        if jumped.any():
            self.counters["jumps"] += int(jumped.sum())
            self.forget(rows[jumped])

    def forget(self, rows: _Index) -> None:
        """Drop the history of some rows."""
        self._changed()
        self._count[rows] = 0
        self._t[rows] = -1
        self.t_capture_ns[rows] = -1
        self.t_arrival_ns[rows] = -1

    def _changed(self) -> None:
        self.version += 1
        self._motion = None

    def window(self, row: int, samples: int) -> TrackWindow:
        """Copies of the newest samples of one row, at most ``samples``."""
        count = int(self._count[row])
        slots = np.arange(max(0, count - min(samples, CAPACITY)), count) % CAPACITY
        return TrackWindow(self._t[row, slots], self._p[row, slots], self._q[row, slots])

    def newest(self, rows: _Index) -> tuple[FloatArray, FloatArray]:
        """Newest positions (k, 3) and attitudes (k, 4)."""
        slot = (self._count[rows] - 1) % CAPACITY
        return self._p[rows, slot], self._q[rows, slot]

    def interpolate(self, row: int, t_ns: int) -> tuple[FloatArray, FloatArray] | None:
        """Pose (3,), (4,) at a past instant, None outside the history."""
        window = self.window(row, CAPACITY)
        after = int(np.searchsorted(window.t_ns, t_ns))
        if after >= len(window.t_ns) or (after == 0 and window.t_ns[0] != t_ns):
            return None
        before = max(0, after - 1)
        span = int(window.t_ns[after] - window.t_ns[before])
        fraction = (t_ns - int(window.t_ns[before])) / span if span else 0.0
        p = window.p_m[before] + fraction * (window.p_m[after] - window.p_m[before])
        return p, q_slerp(window.q_xyzw[before], window.q_xyzw[after], fraction)

    def motion(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Newest positions (n, 3), attitudes (n, 4), world velocities (n, 3) and body rates (n, 3) of all rows.

        The twists are those of the motion since the oldest sample of the last 50 ms (their noise is
        the samples' over that span). Kept until the next sample.
        """
        if self._motion is None:
            rows = np.arange(len(self._count))
            self._motion = (*self.newest(rows), *self._twists(rows))
        return self._motion

    def _twists(self, rows: _Index) -> tuple[FloatArray, FloatArray]:
        slots = (self._count[:, None] - 1 - _STEPS_BACK) % CAPACITY
        t_ns = self._t[rows[:, None], slots]
        span_ns = self.t_capture_ns[:, None] - t_ns
        oldest = ((t_ns >= 0) & (span_ns >= 0) & (span_ns <= TWIST_WINDOW_NS)).sum(axis=1).clip(1) - 1
        slot, dt_s = slots[rows, oldest], 1e-9 * span_ns[rows, oldest]
        per_s = np.divide(1.0, dt_s, out=np.zeros_like(dt_s), where=dt_s > _MIN_SPAN_S)[:, None]
        p_m, q_xyzw = self.newest(rows)
        turned = q_log(q_mul(q_conj(self._q[rows, slot]), q_xyzw))
        return (p_m - self._p[rows, slot]) * per_s, turned * per_s


class SkeletonTrack:
    """The recent frames of one skeleton, world coordinates.

    Attributes:
        t_capture_ns, t_arrival_ns: of the newest frame whose root was tracked, -1 = never.
        jumps: histories given up since the root moved impossibly.
    """

    def __init__(self) -> None:
        self._frames: deque[tuple[int, SkeletonFrame]] = deque(maxlen=64)
        self.t_capture_ns = -1
        self.t_arrival_ns = -1
        self.tracked = False
        self.jumps = 0

    def append(self, t_ns: int, t_arrival_ns: int, frame: SkeletonFrame) -> None:
        """Store a frame; the subject counts as tracked while its root is.

        Bones that were not seen keep their last pose relative to the parent. A root that moved
        further than a human can starts the history over.
        """
        self.tracked = bool(frame.tracked[0]) if len(frame.tracked) else False
        if not self.tracked or t_ns <= self.t_capture_ns:
            return
        last = self._frames[-1][1] if self._frames else None
        if last is not None and last.model is not frame.model:
            self._frames.clear()
            last = None
        if last is not None and np.linalg.norm(frame.p_m[0] - last.p_m[0]) > _SLACK_M + MAX_SPEED_MPS * 1e-9 * (
            t_ns - self.t_capture_ns
        ):
            self._frames.clear()
            self.jumps += 1
        self._frames.append((t_ns, frame if frame.tracked.all() else _completed(frame, last)))
        self.t_capture_ns, self.t_arrival_ns = t_ns, t_arrival_ns

    def forget(self) -> None:
        """Drop the history."""
        self._frames.clear()
        self.t_capture_ns = self.t_arrival_ns = -1
        self.tracked = False

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
    p_m, q_xyzw = frame.p_m.copy(), frame.q_xyzw.copy()
    for i in np.flatnonzero(~frame.tracked):
        parent = frame.model.parents[i]
        local = Transform(frame.model.offsets_m[i], _NO_TURN)
        if last is not None:
            local = Transform(last.p_m[parent], last.q_xyzw[parent]).inverse() @ Transform(last.p_m[i], last.q_xyzw[i])
        bone = Transform(p_m[parent], q_xyzw[parent]) @ local
        p_m[i], q_xyzw[i] = bone.p_m, bone.q_xyzw
    return SkeletonFrame(frame.model, p_m, q_xyzw, frame.tracked)
