"""The recent past of every rigid actor, in world coordinates.

The tracks share one set of arrays, so that a frame of many bodies is stored, and many bodies are
predicted, in a handful of array operations. Times are capture times in the bridge's clock.
:mod:`~vil_bridge.world.compiled_tracks` does the same on the same arrays, without numpy's many
calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import q_conj, q_exp, q_mul, q_slerp
from vil_bridge.core.types import BoolArray, FloatArray, SourceFrame
from vil_bridge.world.actors import TrackingLimits
from vil_bridge.world.frame_binding import Binding, Rows
from vil_bridge.world.freeze import LEAST_REPEATS, Repeats
from vil_bridge.world.outlier_gate import JumpGate, reachable, surely_reachable_step
from vil_bridge.world.twist_filter import TwistFilter

CAPACITY: Final = 512
_MOST_PENDING: Final = 32
"""Frames that wait until they are filtered, while no pose is asked for."""

_EACH_AXIS: Final = np.eye(3)[None, :, None, :]
_NEVER_NS: Final = -(2**62)

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
        repeats: since when poses repeat to the bit.
        counters: ``out_of_order``, ``rejected`` (beyond what the body can do) and ``jumps``
            (histories given up since the body stayed in such a place) per bank.
        version: changes with every change of the samples.
    """

    def __init__(self, limits: Sequence[TrackingLimits]) -> None:
        rows = len(limits)
        # Samples of all rows with the same number lie together: a frame is written in one go.
        self._t = np.zeros(CAPACITY * rows, dtype=np.int64)
        # Since they were stored, all samples of a row.
        self._moved_ns = np.zeros(rows, dtype=np.int64)
        self._poses = np.zeros((CAPACITY * rows, 7))
        self._poses[:, 6] = 1.0
        self._rows = np.arange(rows)
        self._count = np.zeros(rows, dtype=np.int64)
        self._newest = np.zeros((rows, 7))
        self._newest[:, 6] = 1.0
        self._gate_ns = np.full(rows, _NEVER_NS, dtype=np.int64)
        self._gates = [JumpGate(limit) for limit in limits]
        self._limit_ns = np.array([limit.stale_after_ns for limit in limits], dtype=np.int64)
        self._coast_ns = np.array([limit.coast_after_ns for limit in limits], dtype=np.int64)
        self._max_speed_mps = np.array([limit.max_speed_mps for limit in limits], dtype=np.float64)
        self._max_rate_radps = np.array(
            [limit.max_rate_radps for limit in limits], dtype=np.float64
        )
        self._slowest = (
            min(self._max_speed_mps, default=0.0),
            min(self._max_rate_radps, default=0.0),
        )
        self._suspects: set[int] = set()
        self.t_capture_ns = np.full(rows, -1, dtype=np.int64)
        self.t_arrival_ns = np.full(rows, -1, dtype=np.int64)
        self.tracked = np.zeros(rows, dtype=np.bool_)
        self.repeats = Repeats(rows)
        self._noisy = any(limit.frozen_after_ns is not None for limit in limits)
        self.counters: Counter[str] = Counter()
        self.version = 0
        self._motion: tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None = None
        self._filter = TwistFilter(rows)
        self._pending = 0
        self._done = np.zeros(rows, dtype=np.int64)
        self._filtered = self._newest.copy()
        self._turned_rad = np.zeros((3, rows))

    def store(self, frame: SourceFrame, binding: Binding, t_ns: int) -> bool:
        """Store the bound bodies of a frame captured at ``t_ns``.

        True when one was lost or found.
        """
        tracked = frame.tracked[binding.columns]
        changed = bool((self.tracked[binding.rows] != tracked).any())
        # They are refused, without a word on stderr.
        with np.errstate(invalid="ignore", over="ignore"):
            self.append(
                binding.rows, t_ns, frame.t_arrival_ns, self._bodies(frame, binding), tracked
            )
        return changed

    def _bodies(self, frame: SourceFrame, binding: Binding) -> FloatArray:
        return binding.bodies(frame)

    def append(
        self, rows: Rows, t_ns: int, t_arrival_ns: int, poses: FloatArray, tracked: BoolArray
    ) -> None:
        """Store one sample per row.

        ``poses`` (k, 7) as (x, y, z, qx, qy, qz, qw), ``tracked`` (k,).

        Untracked samples only clear the flag; samples not newer than the last are counted and
        dropped; an impossible step (a swapped label, a flip) is rejected, and one that lasts (a cut
        in playback) starts the row's history over.
        """
        self.tracked[rows] = tracked
        step = poses - self._newest[rows]
        if self._suspects or not self._plain(rows, t_ns, step, tracked):
            rows, good = self._accepted(rows, t_ns, poses, tracked)
            if not good.any():
                return
            rows = rows[good]
            poses = poses[good]
            step = step[good]
        slots = self._slots(self._rows[rows], self._count[rows])
        self._t[slots] = t_ns - self._moved_ns[rows]
        self._poses[slots] = poses
        if self._noisy:
            self.repeats.add(
                rows,
                self.t_arrival_ns[rows],
                t_arrival_ns,
                np.logical_and.reduce(step == 0.0, axis=1),
            )
        self._newest[rows] = poses
        self._count[rows] += 1
        self.t_capture_ns[rows] = self._gate_ns[rows] = t_ns
        self.t_arrival_ns[rows] = t_arrival_ns
        self._changed()
        self._pending += 1
        if self._pending >= _MOST_PENDING:
            self._advance()

    def _slots(self, rows: _Index | int, numbers: _Index) -> _Index:
        slots: _Index = numbers % CAPACITY * len(self._rows) + rows
        return slots

    def _plain(self, rows: Rows, t_ns: int, step: FloatArray, tracked: BoolArray) -> bool:
        """Return True when all samples are tracked, newer, and nearer than the slowest body could
        move (``step``).

        For the usual frame, in as few steps as can be (ufuncs reduce without numpy's Python
        wrappers).
        """
        dt_ns = t_ns - int(np.maximum.reduce(self._gate_ns[rows]))
        if dt_ns <= 0 or not np.logical_and.reduce(tracked):
            return False
        longest = np.maximum.reduce(np.abs(step), axis=None)
        return bool(longest <= surely_reachable_step(1e-9 * dt_ns, *self._slowest))

    def _accepted(
        self, rows: Rows, t_ns: int, poses: FloatArray, tracked: BoolArray
    ) -> tuple[_Index, BoolArray]:
        """Return the rows as indices, and which of their samples are to be stored."""
        rows = self._rows[rows]
        dt_s = 1e-9 * (t_ns - self._gate_ns[rows])
        newer = dt_s > 0.0
        limits = self._max_speed_mps[rows], self._max_rate_radps[rows]
        good = tracked & newer & reachable(dt_s, poses, self._newest[rows], *limits)
        self._counted("out_of_order", int((tracked & ~newer).sum()))
        return rows, self._judge(rows, t_ns, poses, good, tracked & newer & ~good)

    def _judge(
        self, rows: _Index, t_ns: int, poses: FloatArray, good: BoolArray, impossible: BoolArray
    ) -> BoolArray:
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
        """Drop the history of some rows, not what was learnt from it."""
        self._advance()
        self._changed()
        self._clear_gates(rows)
        self._count[rows] = self._done[rows] = self._moved_ns[rows] = 0
        self._filter.forget(rows)
        self._gate_ns[rows] = _NEVER_NS
        self.t_capture_ns[rows] = -1
        self.t_arrival_ns[rows] = -1

    def shift(self, rows: _Index, by_ns: int) -> None:
        """Move the capture times of some rows.

        The clock that they come from is known better now.
        """
        known = rows[self.t_capture_ns[rows] >= 0]
        self._moved_ns[known] += by_ns
        self.t_capture_ns[known] += by_ns
        self._gate_ns[known] += by_ns
        self._filter.shift(known, by_ns)
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
        slots = self._slots(row, np.arange(max(0, count - min(samples, CAPACITY)), count))
        poses = self._poses[slots]
        return TrackWindow(self._t[slots] + self._moved_ns[row], poses[:, :3], poses[:, 3:])

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
        """Return positions (n, 3), attitudes (n, 4), world velocities (n, 3), body rates (n, 3) of
        all rows.

        Those at the newest sample, filtered. Cached until the next sample.
        """
        if self._motion is None:
            self._advance()
            x, v, _ = self._filter.state
            self._motion = (*self._posed(x), v[0].T, v[1].T)
        return self._motion

    def ahead(self, lead_s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return positions (n, 3) and attitudes (n, 4) of all rows a time (n,) after their
        newest samples.
        """
        self._advance()
        return self._posed(self._filter.ahead(lead_s))

    def poses(self, t_ns: int) -> FloatArray:
        """Return the poses (n, 7) of all rows at an instant.

        As measured in the past, else carried on.

        They are never carried further than a row's staleness limit.
        """
        t_capture_ns = self.t_capture_ns
        limit_ns = self._limit_ns
        lead_ns = np.where(
            t_capture_ns < 0, 0, np.minimum(np.maximum(t_ns - t_capture_ns, -limit_ns), limit_ns)
        )
        poses = np.concatenate(self.ahead(1e-9 * lead_ns), axis=1)
        for row in np.flatnonzero(t_ns <= t_capture_ns).tolist():
            past = self.interpolate(row, t_ns)
            if past is not None:
                poses[row, :3], poses[row, 3:] = past
        return poses

    def surely_tracked(self, t_ns: int) -> list[bool]:
        """Return the rows that were seen lately and whose poses do not repeat."""
        arrays = self.tracked, self.t_arrival_ns, self.repeats.count, self._coast_ns
        columns = [array.tolist() for array in arrays]
        return [  # quicker than array operations, up to a hundred rows
            seen and 0 <= arrival_ns >= t_ns - coast_ns and repeats < LEAST_REPEATS
            for seen, arrival_ns, repeats, coast_ns in zip(*columns, strict=True)
        ]

    def all_surely_tracked(self, t_ns: int) -> bool:
        """Return whether :meth:`surely_tracked` holds of all rows."""
        return all(self.surely_tracked(t_ns))

    def twist(self, row: int, lead_s: float) -> tuple[FloatArray, FloatArray]:
        """Return world velocity (3,) and body rate (3,) of one row a time after its newest
        sample.
        """
        self._advance()
        v_mps, w_radps = self._filter.rates(row, lead_s)
        return v_mps, w_radps

    def covariance(self, row: int, t_ns: int, *, measured: bool = False) -> FloatArray:
        """Return the covariance of one row's attitude (body axes), velocity and position at an
        instant, (9, 9).

        That of a pose as measured has the noise of mocap in addition.
        """
        self._advance()
        moved, turned = self._filter.covariance(
            row, 1e-9 * (t_ns - self.t_capture_ns.item(row))
        ).tolist()
        (position, with_rate), (_, rate) = moved
        (attitude, _), _ = turned
        if measured:
            position_m2, attitude_rad2 = self._filter.noise(row)
            position = position + position_m2
            attitude = attitude + attitude_rad2
        blocks = np.array(
            ((attitude, 0.0, 0.0), (0.0, rate, with_rate), (0.0, with_rate, position))
        )
        covariance: FloatArray = blocks[:, None, :, None] * _EACH_AXIS
        return covariance.reshape(9, 9)

    def parts(self, row: int, lead_s: float) -> FloatArray:
        """Return the parts of velocity and acceleration, of translation and rotation, that come
        true, shape (2, 2).
        """
        self._advance()
        return self._filter.parts(row, lead_s)

    def _posed(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the poses (n, 3), (n, 4) of filtered values (2, 3, n)."""
        return values[0].T, q_mul(self._filtered[:, 3:], q_exp((values[1] - self._turned_rad).T))

    def _advance(self) -> None:
        """Filter the samples that came since the last time."""
        self._pending = 0
        k = int(np.maximum.reduce(self._count - self._done, initial=0))
        if not k:
            return
        numbers = self._count - np.arange(k, 0, -1)[:, None]
        present = numbers >= self._done
        slots = self._slots(self._rows, numbers)
        poses = np.concatenate((self._filtered[None], self._poses.take(slots, axis=0)))
        if not present.all():
            poses[1:] = np.where(present[..., None], poses[1:], self._filtered)
        values = np.empty((k, 2, 3, slots.shape[1]))
        values[:, 0] = poses[1:, :, :3].swapaxes(1, 2)
        turns_rad = _small_turns(q_mul(q_conj(poses[:-1, :, 3:]), poses[1:, :, 3:]))
        np.add.accumulate(turns_rad.swapaxes(1, 2), axis=0, out=values[:, 1])
        values[:, 1] += self._turned_rad
        self._filter.add(self._t[slots] + self._moved_ns, values, present)
        self._turned_rad[...], self._filtered[...], self._done[...] = (
            values[-1, 1],
            poses[-1],
            self._count,
        )


def _small_turns(q_xyzw: FloatArray) -> FloatArray:
    """Return rotation vectors (..., 3) of small rotations, exact to the third order.

    A third of the time of q_log.
    """
    u = q_xyzw[..., :3] * np.copysign(2.0, q_xyzw[..., 3:])
    turns_rad: FloatArray = u * (1.0 + np.add.reduce(u * u, axis=-1, keepdims=True) / 24.0)
    return turns_rad
