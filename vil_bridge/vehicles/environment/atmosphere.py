"""The 1976 standard atmosphere: what pressure, temperature and density of the air are at a height.

Source: U.S. Standard Atmosphere, 1976 (NOAA, NASA, USAF), equations 18, 23, 33 and 50, and table 4. Layers of constant
temperature gradient over the geopotential height, up to 86 km; the temperature above 80 km is the molecular-scale
temperature, of which the kinetic one is 0.04 % less at 86 km. Above, the air goes on at constant temperature; heights
outside of -5 to 1000 km are taken as these.

With ``compat="airsim"``: AirSim's table of rounded constants, which ends at 84.85 km with two arbitrary numbers.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import GRAVITY_MPS2
from vil_bridge.core.types import FloatArray
from vil_bridge.vehicles.environment import airsim_atmosphere
from vil_bridge.vehicles.environment.earth import STANDARD_RADIUS_M, Compat

SEA_LEVEL_PRESSURE_PA: Final = 101325.0
SEA_LEVEL_TEMPERATURE_K: Final = 288.15
GAS_CONSTANT_JPKGK: Final = 8314.32 / 28.9644
_HEAT_RATIO: Final = 1.4
_RANGE_M: Final = (-5e3, 1e6)

_BASE_M: Final = np.array([0.0, 11e3, 20e3, 32e3, 47e3, 51e3, 71e3, 84852.0])
"""Geopotential heights at which the layers begin; the last is 86 km."""
_GRADIENT_KPM: Final = np.array([-6.5e-3, 0.0, 1e-3, 2.8e-3, 0.0, -2.8e-3, -2e-3, 0.0])
_BASE_K: Final = SEA_LEVEL_TEMPERATURE_K + np.concatenate(([0.0], np.cumsum(_GRADIENT_KPM[:-1] * np.diff(_BASE_M))))
_HYDROSTATIC_KPM: Final = GRAVITY_MPS2 / GAS_CONSTANT_JPKGK
_DIVISOR_KPM: Final = np.where(_GRADIENT_KPM == 0.0, 1.0, _GRADIENT_KPM)


def temperature_k(h_m: npt.ArrayLike, compat: Compat = None) -> FloatArray:
    """Return temperature at heights above sea level (geometric), any shape."""
    if compat is not None:
        return airsim_atmosphere.temperature_k(airsim_atmosphere.geopotential_km(_within(h_m)))
    height = _geopotential_m(_within(h_m))
    layer = _layer(height)
    return np.asarray(_BASE_K[layer] + _GRADIENT_KPM[layer] * (height - _BASE_M[layer]))


def pressure_pa(h_m: npt.ArrayLike, compat: Compat = None) -> FloatArray:
    """Return pressure at heights above sea level (geometric), any shape."""
    if compat is not None:
        return airsim_atmosphere.pressure_pa(airsim_atmosphere.geopotential_km(_within(h_m)))
    height = _geopotential_m(_within(h_m))
    return _pressure_pa(height, _layer(height))


def density_kgpm3(h_m: npt.ArrayLike, compat: Compat = None) -> FloatArray:
    """Return density at heights above sea level (geometric), any shape."""
    return np.asarray(pressure_pa(h_m, compat) / (_gas_constant(compat) * temperature_k(h_m, compat)))


def speed_of_sound_mps(h_m: npt.ArrayLike, compat: Compat = None) -> FloatArray:
    """Return speed of sound at heights above sea level (geometric), any shape.

    AirSim's takes metres for geopotential kilometres: right at sea level only.
    """
    temperature = temperature_k(h_m) if compat is None else airsim_atmosphere.temperature_k(_within(h_m))
    return np.sqrt(_HEAT_RATIO * _gas_constant(compat) * temperature)


def height_m(p_pa: npt.ArrayLike, compat: Compat = None) -> FloatArray:
    """Return height above sea level (geometric) at which the pressure is the given one: what an altimeter shows.

    The exact inverse of :func:`pressure_pa`, between -5 and 1000 km. AirSim's formula is that of the lowest layer, and
    takes geopotential height for height: 0.57 m too low at 1 km, 19.9 m at 10 km.
    """
    p = np.asarray(p_pa, dtype=np.float64)
    if compat is not None:
        return airsim_atmosphere.altimeter_m(p)
    p = np.clip(p, *_PRESSURES_PA)
    layer = np.searchsorted(-_BASE_PA[1:], -p, side="right")
    fall = np.log(_BASE_PA[layer] / p) / _HYDROSTATIC_KPM
    sloping = np.expm1(_GRADIENT_KPM[layer] * fall) / _DIVISOR_KPM[layer]
    height = _BASE_M[layer] + _BASE_K[layer] * np.where(_GRADIENT_KPM[layer] == 0.0, fall, sloping)
    return np.asarray(STANDARD_RADIUS_M * height / (STANDARD_RADIUS_M - height))


def _gas_constant(compat: Compat) -> float:
    return GAS_CONSTANT_JPKGK if compat is None else airsim_atmosphere.GAS_CONSTANT_JPKGK


def _within(h_m: npt.ArrayLike) -> FloatArray:
    return np.clip(np.asarray(h_m, dtype=np.float64), *_RANGE_M)


def _geopotential_m(h_m: FloatArray) -> FloatArray:
    return np.asarray(STANDARD_RADIUS_M * h_m / (STANDARD_RADIUS_M + h_m))


def _layer(height_m: FloatArray) -> npt.NDArray[np.intp]:
    return np.asarray(np.searchsorted(_BASE_M[1:], height_m, side="right"))


def _pressure_pa(height_m: FloatArray, layer: npt.NDArray[np.intp]) -> FloatArray:
    return np.asarray(_BASE_PA[layer] * np.exp(-_HYDROSTATIC_KPM * _fall(height_m, layer)))


def _fall(height_m: FloatArray, layer: npt.NDArray[np.intp]) -> FloatArray:
    """Return integral of dH / T from the layer's base up."""
    ratio = (height_m - _BASE_M[layer]) / _BASE_K[layer]
    gradient = _GRADIENT_KPM[layer]
    return np.asarray(np.where(gradient == 0.0, ratio, np.log1p(gradient * ratio) / _DIVISOR_KPM[layer]))


_FALLS: Final = _fall(_BASE_M[1:], np.arange(len(_BASE_M) - 1))
_BASE_PA: Final = SEA_LEVEL_PRESSURE_PA * np.exp(-_HYDROSTATIC_KPM * np.concatenate(([0.0], np.cumsum(_FALLS))))
_PRESSURES_PA: Final = pressure_pa(_RANGE_M)[::-1]
