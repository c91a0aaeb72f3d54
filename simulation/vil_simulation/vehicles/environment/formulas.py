"""Arithmetic of places and of the air: for NumPy arrays and, compiled, for single numbers.

They call no other function than ``where``: so each compiles as it stands. Cached kernels are
dropped when this file changes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from vil_bridge.core.elementary import where
from vil_bridge.core.geometry import GRAVITY_MPS2
from vil_simulation.vehicles.environment.earth import EQUATOR_M, STANDARD_RADIUS_M

FLATTENING: Final = 1.0 / 298.257223563
E2: Final = FLATTENING * (2.0 - FLATTENING)
_POLE_M: Final = EQUATOR_M * (1.0 - FLATTENING)
_SECOND_E2: Final = E2 / (1.0 - E2)
_ROUNDS: Final = 3

SEA_LEVEL_PRESSURE_PA: Final = 101325.0
SEA_LEVEL_TEMPERATURE_K: Final = 288.15
GAS_CONSTANT_JPKGK: Final = 8314.32 / 28.9644
LOWEST_M: Final = -5e3
HIGHEST_M: Final = 1e6

BASE_M: Final = np.array([0.0, 11e3, 20e3, 32e3, 47e3, 51e3, 71e3, 84852.0])
"""Geopotential heights at which the layers begin; the last is 86 km."""
GRADIENT_KPM: Final = np.array([-6.5e-3, 0.0, 1e-3, 2.8e-3, 0.0, -2.8e-3, -2e-3, 0.0])
BASE_K: Final = SEA_LEVEL_TEMPERATURE_K + np.concatenate(
    ([0.0], np.cumsum(GRADIENT_KPM[:-1] * np.diff(BASE_M)))
)
_HYDROSTATIC_KPM: Final = GRAVITY_MPS2 / GAS_CONSTANT_JPKGK
_DIVISOR_KPM: Final = np.where(GRADIENT_KPM == 0.0, 1.0, GRADIENT_KPM)
_TOPS_M: Final = BASE_M[1:].copy()


def latitude_and_height(radius: Any, z: Any) -> Any:
    """Return latitude (rad) and height (m) of points at a radius from the Earth's axis and a height
    over its equator.

    Bowring's iteration ("Transformation from spatial to geographical coordinates", 1976); three
    rounds reach the last digits of a double everywhere from the deep sea to orbits.
    """
    reduced = np.arctan2(z * EQUATOR_M, radius * _POLE_M)
    lat = reduced
    for _ in range(_ROUNDS):
        lat = np.arctan2(
            z + _SECOND_E2 * _POLE_M * np.sin(reduced) ** 3,
            radius - E2 * EQUATOR_M * np.cos(reduced) ** 3,
        )
        reduced = np.arctan2(_POLE_M * np.sin(lat), EQUATOR_M * np.cos(lat))
    # This form of the height has no singular place.
    return lat, radius * np.cos(lat) + z * np.sin(lat) - EQUATOR_M * np.sqrt(
        1.0 - E2 * np.sin(lat) ** 2
    )


def geopotential_m(h_m: Any) -> Any:
    """Return geopotential of geometric heights, which are limited to those of the atmosphere."""
    h = np.minimum(np.maximum(h_m, LOWEST_M), HIGHEST_M)
    return STANDARD_RADIUS_M * h / (STANDARD_RADIUS_M + h)


def layer_at(height_m: Any) -> Any:
    """Return number of the layer at a geopotential height."""
    return np.searchsorted(_TOPS_M, height_m, side="right")


def fall(height_m: Any, layer: Any) -> Any:
    """Return integral of dH / T from the layer's base up."""
    ratio = (height_m - BASE_M[layer]) / BASE_K[layer]
    gradient = GRADIENT_KPM[layer]
    return where(gradient == 0.0, ratio, np.log1p(gradient * ratio) / _DIVISOR_KPM[layer])


_FALLS: Final = fall(_TOPS_M, np.arange(len(BASE_M) - 1))
_BASE_PA: Final = SEA_LEVEL_PRESSURE_PA * np.exp(
    -_HYDROSTATIC_KPM * np.concatenate(([0.0], np.cumsum(_FALLS)))
)
_MINUS_TOPS_PA: Final = -_BASE_PA[1:]


def pressure_in(layer: Any, fallen: Any) -> Any:
    """Return pressure, Pa, in a layer, from the integral of dH / T since its base."""
    return _BASE_PA[layer] * np.exp(-_HYDROSTATIC_KPM * fallen)


_ENDS_M: Final = geopotential_m(np.array((HIGHEST_M, LOWEST_M)))
_THINNEST_PA, _DENSEST_PA = pressure_in(
    layer_at(_ENDS_M), fall(_ENDS_M, layer_at(_ENDS_M))
).tolist()


def height_of(p_pa: Any) -> Any:
    """Return the geometric height, m, at which the pressure is the given one, within the
    atmosphere.
    """
    p = np.minimum(np.maximum(p_pa, _THINNEST_PA), _DENSEST_PA)
    layer = np.searchsorted(_MINUS_TOPS_PA, -p, side="right")
    climb = np.log(_BASE_PA[layer] / p) / _HYDROSTATIC_KPM
    sloping = np.expm1(GRADIENT_KPM[layer] * climb) / _DIVISOR_KPM[layer]
    height = BASE_M[layer] + BASE_K[layer] * where(GRADIENT_KPM[layer] == 0.0, climb, sloping)
    return STANDARD_RADIUS_M * height / (STANDARD_RADIUS_M - height)
