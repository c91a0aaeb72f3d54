"""Exit codes of every verb."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Exit"]


class Exit(IntEnum):
    """Exit code of the process.

    ``CONFIG`` also stands for something configured that is not available.
    """

    OK = 0
    BUG = 1
    CONFIG = 2
    CHECK_FAILED = 3
    LOST_SOURCE = 4
