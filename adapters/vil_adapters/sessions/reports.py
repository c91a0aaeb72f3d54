"""Reports of a source.

Drops, missing subjects and resets, with log lines that are limited in number.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.types import SourceReset
from vil_bridge.interfaces.ports import Emit
from vil_bridge.runtime.supervisor import Status

logger = logging.getLogger(__name__)


class DropLog:
    """Counter of drops by reason, which logs the first of each.

    Args:
        source: name of the source.
        counters: of its status.
    """

    def __init__(self, source: str, counters: Counter[str]) -> None:
        self._source = source
        self._counters = counters
        self._warned: set[str] = set()

    def count(self, reason: str, message: str, *args: object) -> None:
        """Count a drop; the message, with %-arguments, continues "dropped"."""
        self._counters[reason] += 1
        self.warn_once(reason, "dropped " + message, *args)

    def warn_once(self, key: str, message: str, *args: object) -> None:
        """Log a warning unless one with this key was logged before."""
        if key not in self._warned:
            self._warned.add(key)
            logger.warning("%s: " + message, self._source, *args)


def missing_names(expected: Iterable[str], seen: Iterable[str]) -> str:
    """Return a warning with the expected and the present subjects."""
    there = ", ".join(map(repr, seen)) or "no subjects"
    return f"config wants {', '.join(map(repr, sorted(expected)))}; stream has {there}"


class ExpectedSubjects:
    """Check that warns of each missing subject once, and again when it disappears.

    Args:
        source: name of the source.
        subjects: names that must be present.
    """

    def __init__(self, source: str, subjects: Iterable[str]) -> None:
        self._source = source
        self._subjects = frozenset(subjects)
        self._missing: frozenset[str] = frozenset()

    def compare(self, seen: Iterable[str]) -> None:
        """Compare with the subjects that are present now."""
        names = dict.fromkeys(seen)
        missing = self._subjects.difference(names)
        if missing - self._missing:
            logger.warning("%s: %s", self._source, missing_names(missing, names))
        self._missing = missing


_LOG_PERIOD_NS: Final = 10 * NS_PER_S


class ResetReporter:
    """Reporter of ``SourceReset`` events.

    Emits and counts them (``resets``), the newest is fact ``last_reset``.

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
        self._logged_ns = t_ns
        self._unlogged = 0
