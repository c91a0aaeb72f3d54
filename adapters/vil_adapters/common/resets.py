"""Report resets of a source: event, count, newest reason and a log line that is limited in rate."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Final

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.ports import Emit
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import SourceReset

__all__ = ["ResetReporter"]

logger = logging.getLogger(__name__)

_LOG_PERIOD_NS: Final = 10 * NS_PER_S


class ResetReporter:
    """Reporter of ``SourceReset`` events: emits and counts them (``resets``), the newest is fact ``last_reset``.

    At most one log line in 10 s; it gives the number of resets that were not logged.
    """

    def __init__(self, source: str, emit: Emit, status: Status) -> None:
        self._source = source
        self._emit = emit
        self._status = status
        self._logged_ns: int | None = None
        self._unlogged = 0

    def report(self, reason: str, *, clock: bool = True) -> None:
        """Report that histories restart; the clock too, unless the server's continued."""
        self._status.counters["resets"] += 1
        utc = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._status.facts["last_reset"] = {"reason": reason, "time": utc}
        self._log(reason, now_ns())
        self._emit(SourceReset(self._source, reason, clock))

    def _log(self, reason: str, t_ns: int) -> None:
        if self._logged_ns is not None and t_ns - self._logged_ns < _LOG_PERIOD_NS:
            self._unlogged += 1
            return
        more = f" ({self._unlogged} more resets since the last line)" if self._unlogged else ""
        logger.info("%s: histories start over: %s%s", self._source, reason, more)
        self._logged_ns, self._unlogged = t_ns, 0
