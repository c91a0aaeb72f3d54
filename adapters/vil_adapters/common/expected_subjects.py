"""Subjects that the configuration wants of a source, held against those that the source has."""

from __future__ import annotations

import logging
from collections.abc import Iterable

__all__ = ["Wanted", "missing_names"]

logger = logging.getLogger(__name__)


def missing_names(wanted: Iterable[str], seen: Iterable[str]) -> str:
    """A warning that puts what the configuration wants beside what there is."""
    there = ", ".join(map(repr, seen)) or "no subjects"
    return f"config wants {', '.join(map(repr, sorted(wanted)))}; stream has {there}"


class Wanted:
    """Warns of each missing subject once, and again when it has gone after it came.

    Args:
        source: name of the source.
        subjects: names that must be there.
    """

    def __init__(self, source: str, subjects: Iterable[str]) -> None:
        self._source = source
        self._subjects = frozenset(subjects)
        self._missing: frozenset[str] = frozenset()

    def compare(self, seen: Iterable[str]) -> None:
        """Take note of the subjects that there are now."""
        names = dict.fromkeys(seen)
        missing = self._subjects.difference(names)
        if missing - self._missing:
            logger.warning("%s: %s", self._source, missing_names(missing, names))
        self._missing = missing
