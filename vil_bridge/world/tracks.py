"""The recent past of every rigid actor, in world coordinates.

The tracks share one set of arrays, so that a frame of many bodies is stored, and many bodies are
predicted, in a handful of array operations. Times are capture times in the bridge's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import q_conj, q_log, q_mul, q_slerp
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.world.actors import TrackingLimits
from vil_bridge.world.freeze import Repeats
from vil_bridge.world.outlier_gate import JumpGate, reachable, surely_reachable_step

CAPACITY: Final = 512
TWIST_WINDOW_S: Final = 0.05
_MIN_SPAN_S: Final = 0.004
_LONGEST_LEAD: Final = 1.3
_BETWEEN: Final = 0.45  # where in the window the pose between the newest and the oldest is looked for
_STEPS_BACK: Final = np.array([0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 30, 40, 50])
"""Samples that may begin the secant, counted back from the newest: enough at 30 Hz as at 1 kHz."""

_NEVER_NS: Final = -(2**62)

_Index = npt.NDArray[np.int64]
Rows = _Index | slice


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
        repeats: since when poses repeat to the bit.
        counters: ``out_of_order``, ``rejected`` (beyond what the body can do) and ``jumps`` (histories
            given up since the body stayed in such a place) per bank.
        version: changes with every change of the samples.
    """

    def __init__(self, limits: Sequence[TrackingLimits]) -> None:
        rows = len(limits)
        self._t = np.full(rows * CAPACITY, -1, dtype=np.int64)
        self._poses = np.zeros((rows * CAPACITY, 7))
        self._poses[:, 6] = 1.0
        self._first = np.arange(rows) * CAPACITY
        self._count = np.zeros(rows, dtype=np.int64)
        self._newest = np.zeros((rows, 7))
        self._newest[:, 6] = 1.0
        self._gate_ns = np.full(rows, _NEVER_NS, dtype=np.int64)
        self._gates = [JumpGate(limit) for limit in limits]
        self._max_speed_mps = np.array([limit.max_speed_mps for limit in limits])
        self._max_rate_radps = np.array([limit.max_rate_radps for limit in limits])
        self._slowest = min(self._max_speed_mps, default=0.0), min(self._max_rate_radps, default=0.0)
        self._suspects: set[int] = set()
        self.t_capture_ns = np.full(rows, -1, dtype=np.int64)
        self.t_arrival_ns = np.full(rows, -1, dtype=np.int64)
        self.tracked = np.zeros(rows, dtype=np.bool_)
        self.repeats = Repeats(rows)
        self._noisy = any(limit.frozen_after_ns is not None for limit in limits)
        self.counters: Counter[str] = Counter()
        self.version = 0
        self._motion: tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None = None

    def append(self, rows: Rows, t_ns: int, t_arrival_ns: int, poses: FloatArray, tracked: BoolArray) -> None:
        """Store one sample per row: ``poses`` (k, 7) as (x, y, z, qx, qy, qz, qw), ``tracked`` (k,).

        Untracked samples only clear the flag; samples not newer than the last are counted and
        dropped; an impossible step (a swapped label, a flip) is rejected, and one that lasts (a cut in
        playback) starts the row's history over.
        """
        self.tracked[rows] = tracked
        step = poses - self._newest[rows]
        if self._suspects or not self._plain(rows, t_ns, step, tracked):
            rows, good = self._accepted(rows, t_ns, poses, tracked)
            if not good.any():
                return
            rows, poses, step = rows[good], poses[good], step[good]
        slots = self._first[rows] + self._count[rows] % CAPACITY
        self._t[slots] = t_ns
        self._poses[slots] = poses
        if self._noisy and (self.repeats.any or np.count_nonzero(step[:, 0]) < len(step)):  # an x repeats: look closer
            self.repeats.add(rows, self.t_arrival_ns[rows], t_arrival_ns, np.logical_and.reduce(step == 0.0, axis=1))
        self._newest[rows] = poses
        self._count[rows] += 1
        self.t_capture_ns[rows] = self._gate_ns[rows] = t_ns
        self.t_arrival_ns[rows] = t_arrival_ns
        self._changed()

    def _plain(self, rows: Rows, t_ns: int, step: FloatArray, tracked: BoolArray) -> bool:
        """Return True when all samples are tracked, newer, and nearer than the slowest body could move (``step``).

        For the usual frame, in as few steps as can be (ufuncs reduce without numpy's Python wrappers).
        """
        dt_ns = t_ns - int(np.maximum.reduce(self._gate_ns[rows]))
        if dt_ns <= 0 or not np.logical_and.reduce(tracked):
            return False
        longest = np.maximum.reduce(np.abs(step), axis=None)
        return bool(longest <= surely_reachable_step(1e-9 * dt_ns, *self._slowest))

    def _accepted(self, rows: Rows, t_ns: int, poses: FloatArray, tracked: BoolArray) -> tuple[_Index, BoolArray]:
        """Return the rows as indices, and which of their samples are to be stored."""
        rows = self._first[rows] // CAPACITY
        dt_s = 1e-9 * (t_ns - self._gate_ns[rows])
        newer = dt_s > 0.0
        limits = self._max_speed_mps[rows], self._max_rate_radps[rows]
        good = tracked & newer & reachable(dt_s, poses, self._newest[rows], *limits)
        self._counted("out_of_order", int((tracked & ~newer).sum()))
        return rows, self._judge(rows, t_ns, poses, good, tracked & newer & ~good)

    def _judge(self, rows: _Index, t_ns: int, poses: FloatArray, good: BoolArray, impossible: BoolArray) -> BoolArray:
        """Return the good samples, and those of the impossible ones that prove a new place."""
        self._clear_gates(rows[good])
        accepted = good.copy()
        for i in np.flatnonzero(impossible).tolist():
            accepted[i] = self._gates[rows[i]].proves(t_ns, poses[i])
        self._suspects.update(rows[impossible].tolist())
        proved = rows[accepted & impossible]
        self._counted("rejected", int(impossible.sum()) - len(proved))
        self._counted("jumps", len(proved))
        if len(proved):
            self.reset(proved)
        return accepted

    def _counted(self, reason: str, amount: int) -> None:
        if amount:
            self.counters[reason] += amount

    def reset(self, rows: _Index) -> None:
        """Drop the history of some rows."""
        self._changed()
        self._clear_gates(rows)
        self._count[rows] = 0
        self._t[self._first[rows, None] + np.arange(CAPACITY)] = -1
        self._gate_ns[rows] = _NEVER_NS
        self.t_capture_ns[rows] = -1
        self.t_arrival_ns[rows] = -1

    def shift(self, rows: _Index, by_ns: int) -> None:
        """Move the capture times of some rows: the clock that they come from is known better now."""
        known = rows[self.t_capture_ns[rows] >= 0]
        slots = (self._first[known, None] + np.arange(CAPACITY)).ravel()
        slots = slots[self._t[slots] >= 0]
        self._t[slots] += by_ns
        self.t_capture_ns[known] += by_ns
        self._gate_ns[known] += by_ns
        self._changed()

    def _clear_gates(self, rows: _Index) -> None:
        for row in self._suspects.intersection(rows.tolist()):
            self._gates[row].clear()
            self._suspects.discard(row)

    def _changed(self) -> None:
        self.version += 1
        self._motion = None

    def window(self, row: int, samples: int) -> TrackWindow:
        """Return copies of the newest samples of one row, at most ``samples``."""
        count = int(self._count[row])
        slots = self._first[row] + np.arange(max(0, count - min(samples, CAPACITY)), count) % CAPACITY
        poses = self._poses[slots]
        return TrackWindow(self._t[slots], poses[:, :3], poses[:, 3:])

    def newest(self, row: int) -> tuple[FloatArray, FloatArray]:
        """Return the newest position (3,) and attitude (4,)."""
        pose = self._newest[row].copy()
        return pose[:3], pose[3:]

    def interpolate(self, row: int, t_ns: int) -> tuple[FloatArray, FloatArray] | None:
        """Return the pose (3,), (4,) at a past instant, None outside the history."""
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
        """Return newest positions (n, 3), attitudes (n, 4), world velocities (n, 3), body rates (n, 3) of all rows.

        The twists are those at the newest sample, from the last 50 ms. Cached until the next sample.
        """
        if self._motion is None:
            newest = self._newest.copy()
            self._motion = (newest[:, :3], newest[:, 3:], *self._twists(newest))
        return self._motion

    def _twists(self, newest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the end slope of the parabola through the newest pose, the oldest of the window and one between."""
        rows = np.arange(len(newest))
        slots = self._first[:, None] + (self._count[:, None] - 1 - _STEPS_BACK) % CAPACITY
        t_ns = self._t[slots]
        span_s = 1e-9 * (self.t_capture_ns[:, None] - t_ns)
        valid = (t_ns >= 0) & (span_s >= 0.0) & (span_s <= TWIST_WINDOW_S)
        oldest = valid.sum(axis=1).clip(1) - 1
        far_s = span_s[rows, oldest]
        between = (valid & (span_s <= _BETWEEN * far_s[:, None])).sum(axis=1).clip(1) - 1
        near_s = span_s[rows, between]
        curved = near_s > _MIN_SPAN_S
        between = np.where(curved, between, oldest)
        dt_s = np.stack((np.where(curved, near_s, far_s), far_s), axis=1)
        before = self._poses[slots[rows[:, None], np.stack((between, oldest), axis=1)]]
        moved = np.empty((len(rows), 2, 6))
        moved[..., :3] = newest[:, None, :3] - before[..., :3]
        moved[..., 3:] = q_log(q_mul(q_conj(before[..., 3:]), newest[:, None, 3:]))
        moved *= np.divide(1.0, dt_s, out=np.zeros_like(dt_s), where=dt_s > _MIN_SPAN_S)[..., None]
        lead = np.divide(near_s, far_s - near_s, out=np.zeros_like(far_s), where=curved)[:, None]
        slopes = moved[:, 0] + lead * (moved[:, 0] - moved[:, 1])
        return _bounded(slopes[:, :3], moved[..., :3]), _bounded(slopes[:, 3:], moved[..., 3:])


def _bounded(slopes: FloatArray, chords: FloatArray) -> FloatArray:
    """Bound slopes (n, 3) by what an even acceleration makes of their chords (n, 2, 3): noise makes more."""
    longest2 = _LONGEST_LEAD**2 * np.einsum("nki,nki->nk", chords, chords).max(axis=1)
    length2 = np.einsum("ni,ni->n", slopes, slopes)
    factor = np.divide(longest2, length2, out=np.ones_like(length2), where=length2 > longest2)
    bounded: FloatArray = slopes * np.sqrt(factor)[:, None]
    return bounded
