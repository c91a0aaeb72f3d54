"""One clock model per foreign clock: offset, drift and uncertainty (docs/concepts/timing.md).

Offset means foreign minus bridge: ``t_bridge = t_foreign - offset``. Two-way exchanges feed a
filter of offset and drift; where a peer answers none, the upper envelope of (stamp - arrival) over
30 s stands in, which hides the shortest transit in the offset. A step of the foreign clock starts
either over, with the drift known before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.world.offset_filter import OffsetFilter
from vil_bridge.world.one_way_clock import Envelope, StampVerdict

MIN_EXCHANGES: Final = 3
OLDEST_NS: Final = 3600 * NS_PER_S
"""A stamp that lies further before its arrival is nonsense."""
DRIFT_PRIOR: Final = 50e-6
_KNOWN_DRIFT_PRIOR: Final = 5e-6  # a step moves the hands of a clock, not its pendulum


@dataclass(frozen=True, slots=True)
class ClockLine:
    """offset(t) = offset_ns + drift * (t - t_ref_ns), t in bridge time.

    Attributes:
        uncertainty_ns: bound of the offset's error at ``t_ref_ns`` that holds 95 times of 100; of a
            one-way line beyond the shortest transit, which stamps alone cannot show.
        method: ``two-way`` (exchanges) or ``one-way`` (stamps only).
        samples: exchanges since the last step, or maxima of stamps, that it rests on.
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
        return self.uncertainty_ns + round(
            self.drift_uncertainty * abs(t_bridge_ns - self.t_ref_ns)
        )

    def to_bridge(self, t_foreign_ns: int) -> int:
        """Return the bridge time of a foreign stamp."""
        guess = t_foreign_ns - self.offset_ns
        return t_foreign_ns - self.offset_at(guess)


class ClockModel:
    """Mapping of one foreign clock to the bridge's."""

    def __init__(self) -> None:
        self._filter = OffsetFilter()
        self._epochs_before = 0
        self._envelope = Envelope()
        self._line: ClockLine | None = None
        self._drift_prior = (0.0, DRIFT_PRIOR)

    @property
    def epoch(self) -> int:
        """Number of times that the foreign clock jumped and the fit started over."""
        return self._epochs_before + self._filter.epoch

    @property
    def line(self) -> ClockLine | None:
        """The current fit, None while nothing is known."""
        return self._line

    def reset(self) -> None:
        """Forget everything: the foreign clock restarted."""
        self._epochs_before = self.epoch + 1
        self._filter = OffsetFilter()
        self._envelope.clear()
        self._drift_prior = (0.0, DRIFT_PRIOR)
        self._line = None

    def to_bridge(self, t_foreign_ns: int) -> int | None:
        """Return the bridge time of a foreign stamp, None while nothing is known."""
        return None if self._line is None else self._line.to_bridge(t_foreign_ns)

    def usual(self, _t_foreign_ns: int, _t_arrival_ns: int, _latency_ns: int) -> int | None:
        """Account a stamp and return its bridge time where a quicker way can.

        None = :meth:`add_stamp` has to.
        """
        return None

    def settle(self) -> None:
        """Let :meth:`usual` judge from here on: the histories are by the line of now."""

    def add_exchange(self, t_sent_ns: int, t_foreign_ns: int, t_received_ns: int) -> None:
        """Account a peer's answer ``t_foreign_ns`` to a request.

        Sent and received in bridge time.
        """
        exchanges = self._filter
        epoch = self._filter.epoch
        middle_ns = (t_sent_ns + t_received_ns) // 2
        taken = exchanges.add(middle_ns, t_foreign_ns - t_received_ns, t_foreign_ns - t_sent_ns)
        if exchanges.epoch != epoch:
            self._restart_stamps()
        if not taken or exchanges.count < MIN_EXCHANGES:
            return
        # A source on the bridge's own clock or one apart from it by a constant.
        if t_sent_ns == t_received_ns:
            self._line = ClockLine(
                middle_ns, t_foreign_ns - middle_ns, 0.0, 0, "two-way", exchanges.count
            )
        else:
            self._line = ClockLine(
                exchanges.t_ref_ns,
                exchanges.offset_ns,
                exchanges.drift,
                exchanges.uncertainty_at(exchanges.t_ref_ns),
                "two-way",
                exchanges.count,
                2.0 * exchanges.covariance[2] ** 0.5,
            )

    def add_stamp(self, t_foreign_ns: int, t_arrival_ns: int) -> None:
        """Account a one-way stamp.

        It carries the fit while exchanges are few, and shows a forward step at once.
        """
        envelope = self._envelope
        offset_ns = t_foreign_ns - t_arrival_ns
        verdict = envelope.judge(t_arrival_ns, offset_ns)
        if verdict is StampVerdict.SUSPECT:
            return
        if verdict is StampVerdict.STEPPED:
            self._restart_stamps()
            if self._may_be_a_step(offset_ns, t_arrival_ns):
                self._filter.restart()
        if not envelope.add(t_arrival_ns, offset_ns):
            return
        fit = envelope.fit(self._drift_prior)
        if self._filter.count < MIN_EXCHANGES:
            self._line = ClockLine(*fit[:4], "one-way", fit.samples, fit.drift_uncertainty)

    def _may_be_a_step(self, offset_ns: int, t_arrival_ns: int) -> bool:
        """Return False where exchanges are in force and this stamp does not come from their
        future.
        """
        line = self._line
        if line is None or self._filter.count < MIN_EXCHANGES:
            return True
        return (
            offset_ns > line.offset_at(t_arrival_ns) + line.uncertainty_at(t_arrival_ns) + NS_PER_MS
        )

    def _restart_stamps(self) -> None:
        """Start the envelope over with the drift known before."""
        line = self._line
        self._envelope.clear()
        if line is not None:
            self._drift_prior = (
                line.drift,
                min(self._drift_prior[1], line.drift_uncertainty + _KNOWN_DRIFT_PRIOR),
            )
