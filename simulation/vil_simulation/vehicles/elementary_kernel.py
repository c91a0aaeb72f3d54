"""The elementary functions of :mod:`vil_bridge.core.elementary`, compiled."""

from __future__ import annotations

import math
from typing import Any

from vil_bridge.core import elementary
from vil_bridge.core.compile import compiled

_make = compiled()
sin_cos = _make(elementary.sin_cos)
arctan2 = _make(elementary.arctan2)
exp = _make(elementary.exp)
expm1 = _make(elementary.expm1)


@compiled()
def arcsin(x: Any) -> Any:
    """Return the angle of a sine between -1 and 1."""
    return arctan2(x, math.sqrt((1.0 - x) * (1.0 + x)))
