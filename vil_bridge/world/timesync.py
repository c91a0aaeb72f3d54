"""One clock model per foreign clock: offset, drift and uncertainty.

Offset means foreign minus bridge: ``t_bridge = t_foreign - offset``. Two-way exchanges feed a
weighted line over 60 s (docs/conventions.md, "Time"); where a peer answers none, the lower envelope
of (arrival - stamp) stands in, which hides the shortest transit in the offset.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S

__all__ = ["ClockLine", "ClockModel", "fit_clock_line"]

WINDOW_NS: Final = 60 * NS_PER_S
ENVELOPE_WINDOW_NS: Final = 30 * NS_PER_S
MIN_EXCHANGES: Final = 3
_DRIFT_PRIOR: Final = 50e-6
_FLOOR_NS: Final = 20_000.0
_JUMP_RUN: Final = 5
_JUMP_RTTS: Final = 5.0
_ENVELOPE_JUMP_NS: Final = NS_PER_S


@dataclass(frozen=True, slots=True)
class ClockLine:
    """offset(t) = offset_ns + drift * (t - t_ref_ns), t in bridge time.

    Attributes:
        method: ``two-way`` (exchanges) or ``one-way`` (stamps only).
        samples: how many exchanges, or maxima of stamps, it rests on.
    """

    t_ref_ns: int
    offset_ns: int
    drift: float
    uncertainty_ns: int
    method: str
    samples: int

    def offset_at(self, t_bridge_ns: int) -> int:
        """Foreign minus bridge at a bridge time."""
        return self.offset_ns + round(self.drift * (t_bridge_ns - self.t_ref_ns))

    def to_bridge(self, t_foreign_ns: int) -> int:
        """The bridge time of a foreign stamp."""
        guess = t_foreign_ns - self.offset_ns
        return t_foreign_ns - self.offset_at(guess)


def fit_clock_line(
    t_ns: npt.NDArray[np.int64], offset_ns: npt.NDArray[np.int64], rtt_ns: npt.NDArray[np.int64]
) -> ClockLine:
    """Weighted least squares of offset against time with a 50 ppm prior on the drift.

    Args:
        t_ns: mid-exchange bridge times, shape (n,), n >= 1.
        offset_ns: foreign minus bridge, shape (n,).
        rtt_ns: round-trip times, shape (n,); short ones weigh more.
    """
    t_ref, offset_ref = int(t_ns[-1]), int(offset_ns[-1])
    t = (t_ns - t_ref).astype(np.float64)
    y = (offset_ns - offset_ref).astype(np.float64)
    rtt = rtt_ns.astype(np.float64)
    best = float(rtt.min())
    keep = min(len(rtt), max(6, len(rtt) // 10)) - 1
    q = float(np.partition(rtt, keep)[keep])
    sigma = 0.5 * (rtt - best) + _FLOOR_NS + 0.1 * (q - best)
    weight = np.where(rtt > q, 0.02, 1.0) / sigma**2
    total = weight.sum()
    t_mean, y_mean = float(weight @ t / total), float(weight @ y / total)
    dt, dy = t - t_mean, y - y_mean
    drift = float((weight * dt) @ dy / ((weight * dt) @ dt + 1.0 / _DRIFT_PRIOR**2))
    residual = dy - drift * dt
    spread = float(np.sqrt(weight @ residual**2 / total / max(1, keep)))
    return ClockLine(
        t_ref, offset_ref + round(y_mean - drift * t_mean), drift, round(0.5 * best + spread), "two-way", len(t)
    )


class ClockModel:
    """Maps one foreign clock to the bridge's.

    Attributes:
        epoch: grows by one whenever the foreign clock jumped and the fit started over.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._exchanges: deque[tuple[int, int, int]] = deque(maxlen=1024)
        self._envelope: deque[tuple[int, int]] = deque(maxlen=64)
        self._line: ClockLine | None = None
        self._suspects = 0

    @property
    def line(self) -> ClockLine | None:
        """The current fit, None while nothing is known."""
        return self._line

    def reset(self) -> None:
        """Forget everything: the foreign clock restarted."""
        self._exchanges.clear()
        self._envelope.clear()
        self._line = None
        self._suspects = 0
        self.epoch += 1

    def to_bridge(self, t_foreign_ns: int) -> int | None:
        """Bridge time of a foreign stamp, None while nothing is known."""
        return None if self._line is None else self._line.to_bridge(t_foreign_ns)

    def add_exchange(self, t_sent_ns: int, t_foreign_ns: int, t_received_ns: int) -> None:
        """A peer answered ``t_foreign_ns`` to a request sent and received in bridge time."""
        rtt = t_received_ns - t_sent_ns
        if rtt < 0:
            return
        middle = (t_sent_ns + t_received_ns) // 2
        offset = t_foreign_ns - middle
        if self._line is not None and self._line.method == "two-way":
            wrong = abs(offset - self._line.offset_at(middle)) > _JUMP_RTTS * max(rtt, _FLOOR_NS)
            self._suspects = self._suspects + 1 if wrong else 0
            if self._suspects >= _JUMP_RUN:
                self.reset()
        self._exchanges.append((middle, offset, rtt))
        while middle - self._exchanges[0][0] > WINDOW_NS:
            self._exchanges.popleft()
        if len(self._exchanges) >= MIN_EXCHANGES:
            data = np.array(self._exchanges, dtype=np.int64)
            self._line = fit_clock_line(data[:, 0], data[:, 1], data[:, 2])

    def add_stamp(self, t_foreign_ns: int, t_arrival_ns: int) -> None:
        """A one-way stamp; ignored once exchanges carry the fit."""
        if len(self._exchanges) >= MIN_EXCHANGES:
            return
        offset = t_foreign_ns - t_arrival_ns  # the largest one travelled fastest
        envelope = self._envelope
        if envelope and abs(offset - envelope[-1][1]) > _ENVELOPE_JUMP_NS:
            self.reset()
        if envelope and t_arrival_ns - envelope[-1][0] < NS_PER_S:
            if offset <= envelope[-1][1]:
                return
            envelope[-1] = (envelope[-1][0], offset)
        else:
            envelope.append((t_arrival_ns, offset))
        while t_arrival_ns - envelope[0][0] > ENVELOPE_WINDOW_NS:
            envelope.popleft()
        self._line = _upper_line(envelope)


def _upper_line(envelope: deque[tuple[int, int]]) -> ClockLine:
    """The line through the fastest packets: fitted to the maxima, then raised onto the highest one."""
    t_ref, offset_ref = envelope[-1]
    t = np.array([e[0] - t_ref for e in envelope], dtype=np.float64)
    y = np.array([e[1] - offset_ref for e in envelope], dtype=np.float64)
    dt, dy = t - t.mean(), y - y.mean()
    sigma = max(float(dy.std()), _FLOOR_NS)
    drift = float(dt @ dy / (dt @ dt + (sigma / _DRIFT_PRIOR) ** 2))
    residual = y - drift * t
    top = float(residual.max())
    return ClockLine(
        t_ref, offset_ref + round(top), drift, round(top - float(residual.min()) + _FLOOR_NS), "one-way", len(t)
    )
