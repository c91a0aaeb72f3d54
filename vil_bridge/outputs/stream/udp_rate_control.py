"""Packet rate that a UDP reader's link bears, learnt from the losses that it reports."""

from __future__ import annotations

from typing import Final

from vil_bridge.core.clock import NS_PER_MS

_JUDGED_NS: Final = 250 * NS_PER_MS
_JUDGED_PACKETS: Final = 50
_TOO_MUCH: Final = 0.08
"""Share of packets lost beyond which the link is full.

Radio loses a few percent without being so.
"""
_FINE: Final = 0.04
_LOWEST_BPS: Final = 500e3


class RateControl:
    """Bits per second that a sender may use: less when packets get lost, slowly more when few do.

    Attributes:
        rate_bps: now.
        lost: packets that never arrived, as far as reported.
    """

    def __init__(self, limit_bps: float) -> None:
        self.rate_bps = limit_bps
        self.lost = 0
        self._limit_bps = limit_bps
        # Instant, highest number and packets received when the current span began.
        self._since = (0, 0, 0)

    def reported(self, t_ns: int, highest: int, received: int) -> None:
        """Account a report.

        The largest number of a packet that arrived so far, and how many did.
        """
        begun_ns, first, already = self._since
        sent = highest - first
        arrived = received - already
        if not 0 <= arrived <= sent:
            self._since = t_ns, highest, received
            return
        if t_ns - begun_ns < _JUDGED_NS or sent < _JUDGED_PACKETS:
            return
        self._since = t_ns, highest, received
        self.lost += sent - arrived
        share = (sent - arrived) / sent
        if share > _TOO_MUCH:
            self.rate_bps = max(_LOWEST_BPS, self.rate_bps * max(0.5, 1.0 - share))
        elif share < _FINE:
            self.rate_bps = min(self._limit_bps, 1.05 * self.rate_bps)
