"""Latency of one stage: a cheap recorder with percentiles over 10 s and since the start.

Since the start, values fall into log-linear buckets (16 to an octave, after HdrHistogram), so that
memory is constant and a percentile is off by at most 1/16; the last 10 s are stored exactly.
"""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.monitoring.snapshot import Histogram, Percentiles, StageView

WINDOW_NS: Final = 10_000_000_000
_RING: Final = 4096
_SUB_BITS: Final = 4
_LIMIT_NS: Final = (1 << 40) - 1  # 18 minutes
_QUANTILES: Final = (0.5, 0.95, 0.99)
_EDGES_NS: Final = tuple(1 << exponent for exponent in range(16, 34))  # 66 µs to 8.6 s, octaves


def _bucket(value_ns: int) -> int:
    shift = max(0, value_ns.bit_length() - _SUB_BITS - 1)
    return (shift << _SUB_BITS) + (value_ns >> shift)


_BUCKETS: Final = _bucket(_LIMIT_NS) + 1


def _upper_ns(bucket: int) -> int:
    """First value above the bucket."""
    shift = max(0, (bucket >> _SUB_BITS) - 1)
    return (bucket - (shift << _SUB_BITS) + 1) << shift


_UPPER_NS: Final[npt.NDArray[np.int64]] = np.array(
    [_upper_ns(b) for b in range(_BUCKETS)], dtype=np.int64
)


def percentiles(values_ns: npt.NDArray[np.int64]) -> Percentiles:
    """Of these values, exactly: the smallest one that so many per cent do not exceed."""
    if values_ns.size == 0:
        return Percentiles(0, None, None, None, None)
    ordered = np.sort(values_ns) / NS_PER_MS
    p50, p95, p99 = (float(ordered[int(np.ceil(q * ordered.size)) - 1]) for q in _QUANTILES)
    return Percentiles(int(ordered.size), p50, p95, p99, float(ordered[-1]))


class StageHistogram:
    """Records one stage's latencies; one thread writes, any thread reads.

    A reader that meets a write in progress may see one sample twice or not at all, never a crash.
    At more than 400 samples a second the window is shorter than 10 s.
    """

    def __init__(self) -> None:
        self._t_ns = array("q", bytes(8 * _RING))
        self._value_ns = array("q", bytes(8 * _RING))
        self._buckets = array("q", bytes(8 * _BUCKETS))
        self._count = 0
        self._sum_ns = 0
        self._max_ns = 0

    def record(self, latency_ns: int, t_ns: int) -> None:
        """Count one latency, seen at ``t_ns``; negative ones (clock uncertainty) count as 0."""
        value_ns = min(max(latency_ns, 0), _LIMIT_NS)
        slot = self._count % _RING
        self._t_ns[slot] = t_ns
        self._value_ns[slot] = value_ns
        self._buckets[_bucket(value_ns)] += 1
        self._sum_ns += value_ns
        self._max_ns = max(self._max_ns, value_ns)
        self._count += 1

    def view(self, t_ns: int) -> StageView:
        """Return the distributions as of ``t_ns``."""
        cumulative = np.cumsum(np.array(self._buckets, dtype=np.int64))
        return StageView(
            self.recent(t_ns, WINDOW_NS), self._total(cumulative), self._octaves(cumulative)
        )

    def recent(self, t_ns: int, window_ns: int) -> Percentiles:
        """Return the distribution of the last ``window_ns``, at most 10 s."""
        filled = min(self._count, _RING)
        t_ring_ns = np.array(self._t_ns, dtype=np.int64)[:filled]
        return percentiles(
            np.array(self._value_ns, dtype=np.int64)[:filled][t_ring_ns > t_ns - window_ns]
        )

    def _total(self, cumulative: npt.NDArray[np.int64]) -> Percentiles:
        count = int(cumulative[-1])
        if count == 0:
            return Percentiles(0, None, None, None, None)
        buckets = [int(np.searchsorted(cumulative, np.ceil(q * count))) for q in _QUANTILES]
        p50, p95, p99 = (min(int(_UPPER_NS[b]), self._max_ns) / NS_PER_MS for b in buckets)
        return Percentiles(count, p50, p95, p99, self._max_ns / NS_PER_MS)

    def _octaves(self, cumulative: npt.NDArray[np.int64]) -> Histogram:
        last_below = np.searchsorted(_UPPER_NS, _EDGES_NS, side="right") - 1
        counts = tuple(int(c) for c in cumulative[last_below])
        edges_s = tuple(edge / 1e9 for edge in _EDGES_NS)
        return Histogram(
            (*edges_s, float("inf")), (*counts, int(cumulative[-1])), self._sum_ns / 1e9
        )
