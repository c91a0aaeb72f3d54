"""Subjects that the configuration expects of a source, compared with those that the source has."""

from __future__ import annotations

import logging
from collections.abc import Iterable

__all__ = ["ExpectedSubjects", "missing_names"]

logger = logging.getLogger(__name__)


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
