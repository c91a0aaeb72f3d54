"""Bound on positions that a tracking system can report."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray

FARTHEST_M: Final = 10_000.0
"""No tracked volume is larger; a position beyond it is an error of the sender."""


def within_reach(p_m: FloatArray) -> BoolArray:
    """Return for each position (n, 3), metres, whether it is finite and at most 10 km from the
    origin by axis.
    """
    near: BoolArray = np.abs(p_m).max(axis=1, initial=0.0) <= FARTHEST_M  # NaN compares as False
    return near
