"""Parameters of motors: one number for all of them, or one for each."""

from __future__ import annotations

import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray

PerMotor = float | tuple[float, ...]


def per_motor(name: str, value: PerMotor, count: int) -> FloatArray:
    """Return a parameter of every motor, shape (count,).

    Raises:
        ValueError: it is neither one number nor one for each motor, or infinite.
    """
    values = np.array(value, dtype=np.float64)
    if values.shape not in ((), (count,)):
        raise ValueError(
            f"{name} takes one number, or one for each of the {count} motors, got {values.size}"
        )
    if np.isinf(values).any():
        raise ValueError(f"{name} must be finite, got {value}")
    return np.broadcast_to(values, (count,))


def nominal(values: FloatArray, turning: BoolArray) -> float:
    """Return what controllers take for every motor: the median of those that turn."""
    return float(np.median(values[turning]))
