"""The newest inertial samples of one IMU, in bridge time."""

from __future__ import annotations

import threading
from typing import Final

import numpy as np

from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray

JUMP_NS: Final = 1_000_000_000
"""A stamp further than this from the newest one begins a new history."""

_CAPACITY: Final = 2048
MOST_SAMPLES: Final = _CAPACITY + 2
"""Length of the longest window: all samples, and one at each end."""

MAX_RATE_RADPS: Final = 250.0
MAX_FORCE_MPS2: Final = 8000.0
"""Well above what gyroscopes (4000 degrees a second) and accelerometers (400 g) can measure."""


class ImuBuffer:
    """A preallocated ring of samples: one thread appends, any thread reads.

    Attributes:
        out_of_order: samples dropped because they are older than the newest.
        duplicates: samples dropped because they repeat the newest stamp.
        rejected: samples dropped because no sensor measures such values (not a number included).
        resets: histories given up after a time jump of more than a second, or by :meth:`clear`.
    """

    def __init__(self, capacity: int = _CAPACITY) -> None:
        if capacity < 2:
            raise ValueError(f"capacity must be at least 2, got {capacity}")
        self._capacity = capacity
        # Twice the capacity: the valid part is always one slice, moved to the front when full.
        self._t_ns = np.zeros(2 * capacity, dtype=np.int64)
        self._wf = np.zeros((2 * capacity, 6))
        self._begin = 0
        self._end = 0
        self._lock = threading.Lock()
        self.out_of_order = 0
        self.duplicates = 0
        self.rejected = 0
        self.resets = 0

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def newest_t_ns(self) -> int | None:
        """Stamp of the newest sample, None while empty."""
        with self._lock:
            return self._newest()

    @property
    def oldest_t_ns(self) -> int | None:
        """Stamp of the oldest sample still held, None while empty."""
        with self._lock:
            return int(self._t_ns[self._begin]) if self._end > self._begin else None

    def clear(self) -> None:
        """Forget all samples: the sensor restarted or its clock changed."""
        with self._lock:
            self._clear()

    def shift(self, by_ns: int) -> None:
        """Move the stamps of all samples: the sensor's clock is known better now."""
        with self._lock:
            self._t_ns[self._begin : self._end] += by_ns

    def append(self, t_ns: int, w_radps: FloatArray, f_mps2: FloatArray) -> bool:
        """Store a sample; False when it was dropped for its stamp or its values.

        Args:
            t_ns: bridge time.
            w_radps: shape (3,), IMU axes.
            f_mps2: shape (3,), IMU axes.
        """
        if not (_within(w_radps, MAX_RATE_RADPS) and _within(f_mps2, MAX_FORCE_MPS2)):
            self.rejected += 1
            return False
        with self._lock:
            newest_ns = self._newest()
            if newest_ns is not None and abs(t_ns - newest_ns) > JUMP_NS:
                self._clear()
            elif newest_ns is not None and t_ns <= newest_ns:
                if t_ns == newest_ns:
                    self.duplicates += 1
                else:
                    self.out_of_order += 1
                return False
            if self._end == 2 * self._capacity:
                self._move_to_front()
            self._t_ns[self._end] = t_ns
            self._wf[self._end, :3] = w_radps
            self._wf[self._end, 3:] = f_mps2
            self._end += 1
            self._begin = max(self._begin, self._end - self._capacity)
            return True

    def between(self, t0_ns: int, t1_ns: int) -> ImuWindow | None:
        """Return the samples over [t0, t1].

        Interpolated at the ends, the newest held beyond itself.

        Returns None when the history does not reach back to ``t0_ns``. How much of the interval is
        held rather than measured follows from ``newest_t_ns``.

        Raises:
            ValueError: the interval is empty.
        """
        if t1_ns <= t0_ns:
            raise ValueError(f"interval is empty: {t0_ns} .. {t1_ns} ns")
        with self._lock:
            if self._end == self._begin or t0_ns < self._t_ns[self._begin]:
                return None
            known = self._t_ns[self._begin : self._end]
            first = self._begin + int(known.searchsorted(t0_ns, side="right"))
            last = self._begin + int(known.searchsorted(t1_ns, side="left"))
            t_ns = np.empty(last - first + 2, dtype=np.int64)
            wf = np.empty((last - first + 2, 6))
            t_ns[0] = t0_ns
            t_ns[-1] = t1_ns
            t_ns[1:-1] = self._t_ns[first:last]
            wf[1:-1] = self._wf[first:last]
            self._value_at(t0_ns, first, wf[0])
            self._value_at(t1_ns, last, wf[-1])
        return ImuWindow(t_ns, wf[:, :3], wf[:, 3:])

    def widest_gap_ns(self, t0_ns: int, t1_ns: int) -> int:
        """Return the longest time between two neighbouring samples of which one or both lie in
        [t0, t1].
        """
        with self._lock:
            known = self._t_ns[self._begin : self._end]
            first = max(0, int(known.searchsorted(t0_ns, side="right")) - 1)
            near = known[first : int(known.searchsorted(t1_ns, side="left")) + 1]
            return int(np.maximum.reduce(near[1:] - near[:-1], initial=0))

    def since(self, t_ns: int) -> ImuWindow | None:
        """Return copies of the samples newer than ``t_ns``; None when there is none."""
        with self._lock:
            first = self._begin + int(
                np.searchsorted(self._t_ns[self._begin : self._end], t_ns, side="right")
            )
            if first == self._end:
                return None
            wf = self._wf[first : self._end].copy()
            return ImuWindow(self._t_ns[first : self._end].copy(), wf[:, :3], wf[:, 3:])

    def recent(self, span_ns: int) -> ImuWindow | None:
        """Return copies of the newest samples, not older than ``span_ns`` before the newest.

        None of fewer than two.
        """
        with self._lock:
            if self._end - self._begin < 2:
                return None
            t_ns = self._t_ns[self._begin : self._end]
            first = min(int(np.searchsorted(t_ns, t_ns[-1] - span_ns)), len(t_ns) - 2)
            wf = self._wf[self._begin + first : self._end].copy()
            return ImuWindow(t_ns[first:].copy(), wf[:, :3], wf[:, 3:])

    def _value_at(self, t_ns: int, after: int, out: FloatArray) -> None:
        """Write the value (6,) at a time.

        ``after`` is the index of the first sample not before it.
        """
        if after == self._end:
            out[:] = self._wf[after - 1]
            return
        before = max(after - 1, self._begin)
        ta_ns = self._t_ns.item(before)
        tb_ns = self._t_ns.item(after)
        fraction = (t_ns - ta_ns) / (tb_ns - ta_ns) if tb_ns > ta_ns else 0.0
        np.subtract(self._wf[after], self._wf[before], out=out)
        out *= fraction
        out += self._wf[before]

    def _newest(self) -> int | None:
        return int(self._t_ns[self._end - 1]) if self._end > self._begin else None

    def _clear(self) -> None:
        self._begin = self._end = 0
        self.resets += 1

    def _move_to_front(self) -> None:
        count = self._capacity - 1
        self._t_ns[:count] = self._t_ns[self._end - count : self._end]
        self._wf[:count] = self._wf[self._end - count : self._end]
        self._begin = 0
        self._end = count


def _within(v: FloatArray, limit: float) -> bool:
    """Return True when all numbers of a vector (3,) are within a limit.

    What is not a number is not.
    """
    x, y, z = map(float, v.tolist())
    return -limit <= x <= limit and -limit <= y <= limit and -limit <= z <= limit
