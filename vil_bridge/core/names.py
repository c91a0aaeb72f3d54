"""Names that events carry."""

from __future__ import annotations

__all__ = ["source_of"]


def source_of(name: str) -> str:
    """The source that an event's ``source`` names: it is ``SOURCE/SUBJECT`` of an IMU where a source has several."""
    return name.partition("/")[0]
