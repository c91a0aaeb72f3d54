"""The line through the fastest packets: fit of a foreign clock by one-way stamps.

A packet's seeming offset, stamp minus arrival, is the clock's offset less the packet's transit.
Most of a window's packets say little; the largest seeming offset of each second says nearly all.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S

WINDOW_NS: Final = 30 * NS_PER_S
_FLOOR_NS: Final = 20_000.0
_WANDER: Final = 1e-6
_PRIOR_TRANSIT_NS: Final = 10.0 * NS_PER_MS
_LUCK: Final = 3.0  # of n exponential transits the shortest is below 3/n means 95 times of 100
_FIRST_STAMPS: Final = 20
_FORWARD_SLACK_NS: Final = NS_PER_MS
_BACKWARD_NS: Final = 3 * NS_PER_S
_BACKWARD_STAMPS: Final = 20
_BACKWARD_LEAST_NS: Final = 10.0 * NS_PER_MS
_BACKWARD_TRANSITS: Final = 10.0


@dataclass(slots=True)
class _Second:
    """The stamps that arrived within a second: the fastest, and how long the others took."""

    start_ns: int
    t_ns: int
    offset_ns: int
    count: int = 0
    sum_ns: int = 0


class StampVerdict(Enum):
    """Judgement of a stamp by the line so far."""

    USUAL = auto()
    SUSPECT = auto()
    STEPPED = auto()


class EnvelopeFit(NamedTuple):
    """As :class:`~vil_bridge.world.clock_sync.ClockLine`, of which it is made."""

    t_ref_ns: int
    offset_ns: int
    drift: float
    uncertainty_ns: int
    samples: int
    drift_uncertainty: float


class UsualStamps(NamedTuple):
    """Stamps that change no more than a count and a sum.

    They lie under the largest of the newest second.

    Attributes:
        t_ref_ns, offset_ns, drift: the fit. most_over_ns, least_over_ns: between them beyond it.
        start_ns, largest_ns: of the newest second.
    """

    t_ref_ns: int
    offset_ns: int
    drift: float
    most_over_ns: int
    least_over_ns: float
    start_ns: int
    largest_ns: int


class Envelope:
    """The largest (stamp - arrival) of each of the last 30 seconds."""

    def __init__(self) -> None:
        self._seconds: deque[_Second] = deque()
        self._fit: EnvelopeFit | None = None
        self._transit_ns = _PRIOR_TRANSIT_NS
        self._taken = 0
        self._above = 0
        self._below = 0
        self._below_since_ns = 0

    def clear(self) -> None:
        """Forget everything."""
        self._seconds.clear()
        self._fit = None
        self._transit_ns = _PRIOR_TRANSIT_NS
        self._taken = self._above = self._below = 0

    def judge(self, t_arrival_ns: int, offset_ns: int) -> StampVerdict:
        """Judge a stamp of the foreign clock; only a usual one may be added.

        Forward: three stamps in a row from later than now. Backward: for three seconds not one
        packet came near the envelope; late ones alone (a stall, a burst) never last that long. The
        first stamps, which may all be late, raise no suspicion.
        """
        usual = self.usual()
        if usual is None:
            return StampVerdict.USUAL
        over_ns = offset_ns - usual.offset_ns - usual.drift * (t_arrival_ns - usual.t_ref_ns)
        self._above = self._above + 1 if over_ns > usual.most_over_ns else 0
        if over_ns >= usual.least_over_ns:
            self._below = 0
            return (
                StampVerdict.USUAL,
                StampVerdict.SUSPECT,
                StampVerdict.SUSPECT,
                StampVerdict.STEPPED,
            )[self._above]
        if not self._below:
            self._below_since_ns = t_arrival_ns
        self._below += 1
        lasting = t_arrival_ns - self._below_since_ns > _BACKWARD_NS
        return (
            StampVerdict.STEPPED
            if lasting and self._below >= _BACKWARD_STAMPS
            else StampVerdict.SUSPECT
        )

    def usual(self) -> UsualStamps | None:
        """Return the stamps that raise no suspicion; None while all are."""
        fit = self._fit
        if fit is None or self._taken < _FIRST_STAMPS:
            return None
        far_ns = max(_BACKWARD_LEAST_NS, _BACKWARD_TRANSITS * self._transit_ns)
        limits = fit.uncertainty_ns + _FORWARD_SLACK_NS, -fit.uncertainty_ns - far_ns
        newest = self._seconds[-1]
        return UsualStamps(
            fit.t_ref_ns, fit.offset_ns, fit.drift, *limits, newest.start_ns, newest.offset_ns
        )

    def add_usual(self, count: int, under_ns: int) -> None:
        """Take in usual stamps.

        How many, and the sum of their offsets less the largest of the newest second.
        """
        newest = self._seconds[-1]
        newest.count += count
        newest.sum_ns += count * newest.offset_ns + under_ns
        self._taken += count
        self._above = self._below = 0

    def add(self, t_arrival_ns: int, offset_ns: int) -> bool:
        """Take a usual stamp in; True when the line may have changed."""
        newest = self._seconds[-1] if self._seconds else None
        changed = newest is None or t_arrival_ns - newest.start_ns >= NS_PER_S
        if newest is None or changed:
            newest = _Second(t_arrival_ns, t_arrival_ns, offset_ns)
            self._seconds.append(newest)
            while t_arrival_ns - self._seconds[0].start_ns > WINDOW_NS:
                self._seconds.popleft()
        newest.count += 1
        self._taken += 1
        newest.sum_ns += offset_ns
        if offset_ns > newest.offset_ns:
            newest.t_ns = t_arrival_ns
            newest.offset_ns = offset_ns
            changed = True
        return changed

    def fit(self, drift_prior: tuple[float, float]) -> EnvelopeFit:
        """Return the line over the fastest packets; :meth:`add` came before.

        Its slope is a weighted fit to the seconds' maxima, which trusts those close to their upper
        hull; then it is raised onto the highest one.
        """
        seconds = self._seconds
        t_ref = seconds[-1].t_ns
        offset_ref = seconds[-1].offset_ns
        prior, prior_std = drift_prior
        t = np.array([s.t_ns - t_ref for s in seconds], dtype=np.float64)
        y = np.array([s.offset_ns - offset_ref for s in seconds], dtype=np.float64) - prior * t
        slope = min(max(_hull_slope(t.tolist(), y.tolist()), -2.0 * prior_std), 2.0 * prior_std)
        above = y - slope * t
        weight = (float(above.max()) - above + _FLOOR_NS) ** -2.0
        dt = t - weight @ t / weight.sum()
        information = float((weight * dt) @ dt + 1.0 / prior_std**2)
        drift = float((weight * dt) @ (y - weight @ y / weight.sum())) / information
        residual = y - drift * t
        top = float(residual.max())
        count = sum(s.count for s in seconds)
        line = (
            offset_ref
            + top
            + (drift + prior) * (np.array([s.start_ns for s in seconds]) + 0.5 * NS_PER_S - t_ref)
        )
        late_ns = sum(float(at) * s.count - s.sum_ns for at, s in zip(line, seconds, strict=True))
        self._transit_ns = max(0.0, _PRIOR_TRANSIT_NS + late_ns) / count
        drift_uncertainty = 2.0 / information**0.5 + _WANDER
        raised_ns = top - float(weight @ residual / weight.sum())
        uncertainty = (
            _FLOOR_NS
            + _LUCK * self._transit_ns / count
            + raised_ns
            + drift_uncertainty * abs(float(dt[-1]))
        )
        self._fit = EnvelopeFit(
            t_ref,
            offset_ref + round(top),
            drift + prior,
            round(uncertainty),
            len(seconds),
            drift_uncertainty,
        )
        return self._fit


def _hull_slope(t: list[float], y: list[float]) -> float:
    """Return the slope of the edge of the upper hull over the middle of the points.

    0 for a single one.
    """
    hull: list[tuple[float, float]] = []
    for point in zip(t, y, strict=True):
        while len(hull) > 1 and _turns_left(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    middle = sum(t) / len(t)
    for (t0, y0), (t1, y1) in pairwise(hull):
        if t1 >= middle and t1 > t0:
            return (y1 - y0) / (t1 - t0)
    return 0.0


def _turns_left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) >= (b[1] - a[1]) * (c[0] - a[0])
