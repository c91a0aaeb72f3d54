"""One clock model per foreign clock: offset, drift and uncertainty (docs/concepts/timing.md).

Offset means foreign minus bridge: ``t_bridge = t_foreign - offset``. Two-way exchanges feed a
weighted line over 60 s; where a peer answers none, the upper envelope of (stamp - arrival) over 30 s
stands in, which hides the shortest transit in the offset. A step of the foreign clock starts either
fit over, with the drift known before.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import FloatArray
from vil_bridge.world.one_way_clock import Envelope, StampVerdict

WINDOW_NS: Final = 60 * NS_PER_S
MIN_EXCHANGES: Final = 3
DRIFT_PRIOR: Final = 50e-6
_KNOWN_DRIFT_PRIOR: Final = 5e-6  # a step moves the hands of a clock, not its pendulum
_FLOOR_NS: Final = 20_000.0
_SLACK_NS: Final = 500_000  # what wander may put between an exchange and the line
_WANDER: Final = 1e-6
_STEP_EXCHANGES: Final = 3


@dataclass(frozen=True, slots=True)
class ClockLine:
    """offset(t) = offset_ns + drift * (t - t_ref_ns), t in bridge time.

    Attributes:
        uncertainty_ns: bound of the offset's error at ``t_ref_ns`` that holds 95 times of 100; of a
            one-way line beyond the shortest transit, which stamps alone cannot show.
        method: ``two-way`` (exchanges) or ``one-way`` (stamps only).
        samples: how many exchanges, or maxima of stamps, it rests on.
        drift_uncertainty: the same bound of the drift.
    """

    t_ref_ns: int
    offset_ns: int
    drift: float
    uncertainty_ns: int
    method: str
    samples: int
    drift_uncertainty: float = 0.0

    def offset_at(self, t_bridge_ns: int) -> int:
        """Return the offset, foreign minus bridge at a bridge time."""
        return self.offset_ns + round(self.drift * (t_bridge_ns - self.t_ref_ns))

    def uncertainty_at(self, t_bridge_ns: int) -> int:
        """Bound of the error at a bridge time: grows while nothing new is heard."""
        return self.uncertainty_ns + round(self.drift_uncertainty * abs(t_bridge_ns - self.t_ref_ns))

    def to_bridge(self, t_foreign_ns: int) -> int:
        """Return the bridge time of a foreign stamp."""
        guess = t_foreign_ns - self.offset_ns
        return t_foreign_ns - self.offset_at(guess)


class _Exchange(NamedTuple):
    """One exchange: bridge time of its middle, offset as it seems, round trip."""

    t_ns: int
    offset_ns: int
    rtt_ns: int

    def agrees(self, other: _Exchange) -> bool:
        """Return True if one clock may have answered both: each offset is off by half its round trip at most."""
        wander_ns = 2.0 * DRIFT_PRIOR * abs(self.t_ns - other.t_ns)
        return abs(self.offset_ns - other.offset_ns) <= (self.rtt_ns + other.rtt_ns) / 2 + _SLACK_NS + wander_ns


def fit_clock_line(
    t_ns: npt.NDArray[np.int64],
    offset_ns: npt.NDArray[np.int64],
    rtt_ns: npt.NDArray[np.int64],
    drift_prior: tuple[float, float] = (0.0, DRIFT_PRIOR),
) -> ClockLine:
    """Fit offset against time by weighted least squares, within what the round trips allow.

    No exchange is off by more than half its round trip, whatever the network did: the line's newest
    point is put within all these bounds, and the wider side of what is left is the uncertainty.

    Args:
        t_ns: mid-exchange bridge times, shape (n,), n >= 1.
        offset_ns: foreign minus bridge, shape (n,).
        rtt_ns: round-trip times, shape (n,); short ones weigh more.
        drift_prior: mean and standard deviation of the drift before anything is measured.
    """
    t_ref, offset_ref = int(t_ns[-1]), int(offset_ns[-1])
    prior, prior_std = drift_prior
    t = (t_ns - t_ref).astype(np.float64)
    y = (offset_ns - offset_ref).astype(np.float64) - prior * t
    rtt = rtt_ns.astype(np.float64)
    best = float(rtt.min())
    keep = min(len(rtt), max(6, len(rtt) // 10)) - 1
    q = float(np.partition(rtt, keep)[keep])
    sigma = 0.5 * (rtt - best) + _FLOOR_NS + 0.1 * (q - best)
    weight = np.where(rtt > q, 0.02, 1.0) / sigma**2
    total = weight.sum()
    t_mean, y_mean = float(weight @ t / total), float(weight @ y / total)
    dt, dy = t - t_mean, y - y_mean
    information = float((weight * dt) @ dt + 1.0 / prior_std**2)
    drift = float((weight * dt) @ dy) / information
    drift_std = 2.0 / information**0.5 + _WANDER
    estimate, uncertainty = _within(y - drift * t, 0.5 * rtt + drift_std * -t, y_mean - drift * t_mean)
    return ClockLine(
        t_ref, offset_ref + round(estimate), drift + prior, round(uncertainty), "two-way", len(t), drift_std
    )


def _within(seen_ns: FloatArray, half_ns: FloatArray, estimate_ns: float) -> tuple[float, float]:
    """Return the estimate moved into all of ``seen`` +- ``half``, and how far it may be off then.

    Where they contradict each other, the middle of the narrowest stands against the rest.
    """
    low, high = float((seen_ns - half_ns).max()), float((seen_ns + half_ns).min())
    if low > high:
        narrowest = int(half_ns.argmin())
        low, high = float(seen_ns[narrowest] - half_ns[narrowest]), float(seen_ns[narrowest] + half_ns[narrowest])
    estimate_ns = min(max(estimate_ns, low), high)
    return estimate_ns, max(high - estimate_ns, estimate_ns - low)


class ClockModel:
    """Mapping of one foreign clock to the bridge's.

    Attributes:
        epoch: grows by one whenever the foreign clock jumped and the fit started over.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._exchanges: deque[_Exchange] = deque(maxlen=1024)
        self._suspects: list[_Exchange] = []
        self._envelope = Envelope()
        self._line: ClockLine | None = None
        self._drift_prior = (0.0, DRIFT_PRIOR)

    @property
    def line(self) -> ClockLine | None:
        """The current fit, None while nothing is known."""
        return self._line

    def reset(self) -> None:
        """Forget everything: the foreign clock restarted."""
        self._restart((0.0, DRIFT_PRIOR))
        self._line = None

    def to_bridge(self, t_foreign_ns: int) -> int | None:
        """Return the bridge time of a foreign stamp, None while nothing is known."""
        return None if self._line is None else self._line.to_bridge(t_foreign_ns)

    def add_exchange(self, t_sent_ns: int, t_foreign_ns: int, t_received_ns: int) -> None:
        """Account a peer's answer ``t_foreign_ns`` to a request; sent and received in bridge time."""
        rtt = t_received_ns - t_sent_ns
        if rtt < 0:
            return
        middle = (t_sent_ns + t_received_ns) // 2
        exchange = _Exchange(middle, t_foreign_ns - middle, rtt)
        if not self._believable(exchange):
            return
        self._exchanges.append(exchange)
        while middle - self._exchanges[0].t_ns > WINDOW_NS:
            self._exchanges.popleft()
        if len(self._exchanges) >= MIN_EXCHANGES:
            data = np.array(self._exchanges, dtype=np.int64)
            self._line = fit_clock_line(data[:, 0], data[:, 1], data[:, 2], self._drift_prior)

    def add_stamp(self, t_foreign_ns: int, t_arrival_ns: int) -> None:
        """Account a one-way stamp: it carries the fit while exchanges are few, and shows a step at once."""
        envelope, offset_ns = self._envelope, t_foreign_ns - t_arrival_ns
        verdict = envelope.judge(t_arrival_ns, offset_ns)
        if verdict is StampVerdict.SUSPECT:
            return
        if verdict is StampVerdict.STEPPED:
            self._restart(self._known_drift())
        if not envelope.add(t_arrival_ns, offset_ns):
            return
        fit = envelope.fit(self._drift_prior)
        if len(self._exchanges) < MIN_EXCHANGES:
            self._line = ClockLine(*fit[:4], "one-way", fit.samples, fit.drift_uncertainty)

    def _believable(self, exchange: _Exchange) -> bool:
        """Return False for an exchange that the line excludes, until three in agreement prove a step."""
        line = self._line
        if line is None or line.method != "two-way":
            return True
        error_ns = abs(exchange.offset_ns - line.offset_at(exchange.t_ns))
        if error_ns <= exchange.rtt_ns / 2 + line.uncertainty_at(exchange.t_ns) + _SLACK_NS:
            # One with a long way may fit both; only one that excludes the step absolves the clock.
            self._suspects = [s for s in self._suspects if s.agrees(exchange)]
            return True
        self._suspects = [*(s for s in self._suspects if s.agrees(exchange)), exchange]
        if len(self._suspects) < _STEP_EXCHANGES:
            return False
        *before, _ = self._suspects
        self._restart(self._known_drift())
        self._exchanges.extend(before)
        return True

    def _known_drift(self) -> tuple[float, float]:
        line = self._line
        if line is None:
            return self._drift_prior
        return line.drift, min(self._drift_prior[1], line.drift_uncertainty + _KNOWN_DRIFT_PRIOR)

    def _restart(self, drift_prior: tuple[float, float]) -> None:
        self._exchanges.clear()
        self._suspects.clear()
        self._envelope.clear()
        self._drift_prior = drift_prior
        self.epoch += 1
