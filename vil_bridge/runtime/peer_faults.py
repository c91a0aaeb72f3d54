"""Unwanted input of a port by sender: counted, and named in the status and once in the log."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.runtime.rates import RateLimiter

logger = logging.getLogger(__name__)

_MOST_ROWS: Final = 64
_LOGGED_PER_S: Final = 0.1
_LOGGED_AT_ONCE: Final = 10
_RECENT_NS: Final = 10 * NS_PER_S
_UPDATE: Final = "update its client, or stop that program"
_CURES: Final = {
    "idle": "let it call at least every 30 s, or close connections that it does not need",
    "malformed": _UPDATE,
    "mute": "let it call soon after it connects, or close connections of it",
    "refused": "its program says why; choose one of the cameras, or close readers",
    "rival": "give the second reader a name of its own",
    "slowed": "let it call less often",
    "stranger": "let it register before it asks",
    "too_many": "close connections of it",
    "too_often": "let it wait between its requests",
    "udp_malformed": _UPDATE,
    "udp_unproven": "update its client, or let its answers through the firewall",
    "unread": "let it read its answers, or ask for less at a time",
    "unauthorized": "give it the token of the role control",
}
"""Cure by reason; otherwise the program is to be stopped."""
_DEEDS: Final = {
    "idle": "was silent for 30 s while no seat was free",
    "mute": "connects and asks for nothing",
    "slowed": "uses the most of the processor time that clients share, and calls wait",
    "unread": "does not read its answers, for which others had no room",
}
"""Deed of a peer, by reason."""
_REFUSED: Final = "sends what is refused"


@dataclass(frozen=True, slots=True)
class PeerFault:
    """Messages of one sender that a port refused for one reason.

    Attributes:
        port: ours that they came to, as in the status' ``faults``.
        peer: the sender: its address, and its key or the name that it gave.
        reason: of the refusal, as ``faults`` counts it.
        count: since the start.
        age_s: since the last one.
    """

    port: str
    peer: str
    reason: str
    count: int
    age_s: float


class PeerFaults:
    """The senders of unwanted input to one port; those of long ago make room for new ones.

    Written by the port's thread, read by any.

    Args:
        port: our port's name, as in the status' ``faults``.
    """

    def __init__(self, port: str) -> None:
        self._port = port
        self._rows: OrderedDict[tuple[str, str, str], tuple[int, int]] = OrderedDict()
        self._logged = RateLimiter(_LOGGED_PER_S, _LOGGED_AT_ONCE)

    def add(self, reason: str, address: str, name: str = "") -> None:
        """Count one more of a sender; the first one is logged.

        Args:
            reason: of the refusal.
            address: of the sender, without its port.
            name: of its key, or as it calls itself; empty = not known.
        """
        key = (reason, address, name)
        count, _ = self._rows.get(key, (0, 0))
        self._rows[key] = count + 1, machine_ns()
        if count:
            return
        if len(self._rows) > _MOST_ROWS:
            self._rows.popitem(last=False)
        if not self._logged.wait_s(""):
            self._logged.take("")
            peer, _ = _describe(key)
            deed = f"refused a message of {peer}"
            if reason in _DEEDS:
                deed = f"{peer} {_DEEDS[reason]}"
            logger.warning("%s: %s (%s); further ones are counted", self._port, deed, reason)

    def rows(self) -> tuple[PeerFault, ...]:
        """Return all senders, the latest first. Any thread."""
        now_ns = machine_ns()
        rows = [
            PeerFault(self._port, *_describe(key), count, (now_ns - t_ns) / NS_PER_S)
            for key, (count, t_ns) in self._rows.copy().items()
        ]
        return tuple(sorted(rows, key=lambda row: row.age_s))

    def warnings(self) -> tuple[str, ...]:
        """Return the senders of the last seconds in words. Any thread."""
        return tuple(
            f"{row.port}: {row.peer} {_DEEDS.get(row.reason, _REFUSED)} ({row.reason}, "
            f"{row.count} so far): "
            f"{_CURES.get(row.reason, 'stop that program')}"
            for row in self.rows()
            if row.age_s * NS_PER_S < _RECENT_NS
        )


def _describe(key: tuple[str, str, str]) -> tuple[str, str]:
    """Return the sender, and the reason."""
    reason, address, name = key
    return f"{name!r} at {address}" if name else address or "an unknown address", reason
