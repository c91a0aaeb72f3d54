"""Refusals by kind.

All are counted, each kind is logged once per peer, and a few lines a minute at most.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import Final

from vil_bridge.core.errors import VilBridgeError
from vil_bridge.runtime.rates import RateLimiter

_LINES_AT_ONCE: Final = 16
_LINES_PER_S: Final = 1.0 / 30.0
"""A peer that connects again is a new one: without a limit it fills the log."""
_MOST_KINDS: Final = 32
_KIND_LIMIT: Final = 200
_SUMMARY_LIMIT: Final = 2000
_OTHER: Final = "other reasons"
_NUMBER: Final = re.compile(r"[-+]?\d[\d.e+-]*")


class RefusalLog:
    """Counter of refused messages of one peer by reason.

    Reasons that differ in numbers only are one kind.
    """

    def __init__(self, logger: logging.Logger, prefix: str) -> None:
        """Log through ``logger``; every line begins with ``prefix``."""
        self._logger = logger
        self._prefix = prefix
        self._kinds: Counter[str] = Counter()
        self._logged: set[str] = set()
        self._lines = RateLimiter(_LINES_PER_S, _LINES_AT_ONCE)

    def add(self, reason: str, cause: Exception | None = None) -> None:
        """Count a refusal; log its kind once, with the traceback of an unexpected ``cause``.

        After 16 lines the log gets one in 30 s, whichever peers come and go: a kind that finds no
        room is logged when it comes again. :meth:`counts` has them all.
        """
        kind = _NUMBER.sub("#", reason)[:_KIND_LIMIT]
        if kind not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            kind = _OTHER
        self._kinds[kind] += 1
        first = kind not in self._logged and not self._lines.wait_s(self._prefix)
        if first:
            self._logged.add(kind)
            self._lines.take(self._prefix)
        level = logging.WARNING if first else logging.DEBUG
        trace = None if isinstance(cause, VilBridgeError) else cause
        self._logger.log(
            level, "%s: %s (logged once per peer)", self._prefix, reason, exc_info=trace
        )

    def reset(self) -> None:
        """Begin again: the peer is another one."""
        self._kinds.clear()
        self._logged.clear()

    def counts(self) -> dict[str, int]:
        """Return the refusals of this peer by kind; numbers in a kind are written ``#``."""
        return dict(self._kinds)

    def summary(self) -> str:
        """Return the kinds with their counts in one line, empty without any."""
        return "; ".join(f"{kind} ({count})" for kind, count in self._kinds.items())[
            :_SUMMARY_LIMIT
        ]
