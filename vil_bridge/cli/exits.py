"""Exit codes of every verb."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Exit"]


class Exit(IntEnum):
    """What the process tells whoever started it; what is configured and cannot be had is ``CONFIG`` too."""

    OK = 0
    BUG = 1
    CONFIG = 2
    CHECK_FAILED = 3
    LOST_SOURCE = 4
