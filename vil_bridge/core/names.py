"""Names that events carry."""

from __future__ import annotations


def source_of(name: str) -> str:
    """Return the source of an event's ``source``, which is ``SOURCE/SUBJECT`` where a source has
    several IMUs.
    """
    return name.partition("/")[0]
