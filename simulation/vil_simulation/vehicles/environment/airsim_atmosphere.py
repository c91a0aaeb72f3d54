"""AirSim's table of the standard atmosphere, over its geopotential height in kilometres.

Any shapes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.environment.earth import EQUATOR_M

GAS_CONSTANT_JPKGK: Final = 287.053
_TOPS_KM: Final = np.array([11.0, 20.0, 32.0, 47.0, 51.0, 71.0, 84.852])


def geopotential_km(h_m: FloatArray) -> FloatArray:
    """Return geopotential of geometric heights, with the equator's radius."""
    return np.asarray(1e-3 * EQUATOR_M * h_m / (EQUATOR_M + h_m))


def temperature_k(height_km: FloatArray) -> FloatArray:
    """Return temperature; 3 K above 84.85 km."""
    h = height_km
    return _of_layer(
        h,
        288.15 - 6.5 * h,
        216.65,
        196.65 + h,
        228.65 + 2.8 * (h - 32.0),
        270.65,
        270.65 - 2.8 * (h - 51.0),
        214.65 - 2.0 * (h - 71.0),
        3.0,
    )


def pressure_pa(height_km: FloatArray) -> FloatArray:
    """Return pressure; 0.001 Pa above 84.85 km."""
    h = height_km
    t = temperature_k(h)
    return _of_layer(
        h,
        101325.0 * (288.15 / t) ** -5.255877,
        22632.06 * np.exp(-0.1577 * (h - 11.0)),
        5474.889 * (216.65 / t) ** 34.16319,
        868.0187 * (228.65 / t) ** 12.2011,
        110.9063 * np.exp(-0.1262 * (h - 47.0)),
        66.93887 * (270.65 / t) ** -12.2011,
        3.956420 * (214.65 / t) ** -17.0816,
        0.001,
    )


def altimeter_m(p_pa: FloatArray) -> FloatArray:
    """Return altitude that the barometer reports."""
    return np.asarray((1.0 - (np.maximum(p_pa, 0.0) / 101325.0) ** 0.190284) * 145366.45 * 0.3048)


def _of_layer(height_km: FloatArray, *rows: FloatArray | float) -> FloatArray:
    layer = np.searchsorted(_TOPS_KM, height_km, side="left")
    value = np.select([layer == k for k in range(len(rows))], rows)
    return np.where(np.isnan(height_km), np.nan, value)
