"""Gravity by altitude."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import GRAVITY_MPS2
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.environment.earth import EQUATOR_M, STANDARD_RADIUS_M, Compat


def gravity_mps2(h_m: npt.ArrayLike, compat: Compat = None) -> FloatArray:
    """Return downward acceleration at heights above sea level, any shape.

    The inverse square law of the 1976 standard atmosphere (eq. 17). AirSim's is constant below 10
    km, linear up to 100 km, and uses the equator's radius.
    """
    h = np.asarray(h_m, dtype=np.float64)
    if compat is None:
        return np.asarray(GRAVITY_MPS2 / (1.0 + h / STANDARD_RADIUS_M) ** 2)
    linear = GRAVITY_MPS2 * (1.0 - 2.0 * h / EQUATOR_M)
    square = GRAVITY_MPS2 / (1.0 + h / EQUATOR_M) ** 2
    height = np.abs(h)
    return np.where(height < 10e3, GRAVITY_MPS2, np.where(height < 100e3, linear, square))
