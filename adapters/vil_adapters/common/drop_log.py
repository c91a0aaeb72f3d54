"""Counters of what a source drops, with one log line for each reason."""

from __future__ import annotations

import logging
from collections import Counter

__all__ = ["DropLog"]

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
