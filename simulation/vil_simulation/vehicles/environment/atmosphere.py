"""The 1976 standard atmosphere: what pressure, temperature and density of the air are at a height.

Source: U.S. Standard Atmosphere, 1976 (NOAA, NASA, USAF), equations 18, 23, 33 and 50, and table 4.
Layers of constant temperature gradient over the geopotential height, up to 86 km; the temperature
above 80 km is the molecular-scale temperature, of which the kinetic one is 0.04 % less at 86 km.
Above, the air goes on at constant temperature; heights outside of -5 to 1000 km are taken as these.

With ``compat="airsim"``: AirSim's table of rounded constants, which ends at 84.85 km with two
arbitrary numbers.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.environment import airsim_atmosphere
from vil_simulation.vehicles.environment.earth import Compat
from vil_simulation.vehicles.environment.formulas import (
    BASE_K,
    BASE_M,
    GAS_CONSTANT_JPKGK,
    GRADIENT_KPM,
    HIGHEST_M,
    LOWEST_M,
    fall,
    geopotential_m,
    height_of,
    layer_at,
    pressure_in,
)

_HEAT_RATIO: Final = 1.4


def temperature_k(h_m: npt.ArrayLike, compat: Compat = None) -> FloatArray:
    """Return temperature at heights above sea level (geometric), any shape."""
    if compat is not None:
        return airsim_atmosphere.temperature_k(airsim_atmosphere.geopotential_km(_within(h_m)))
    height = geopotential_m(np.asarray(h_m, dtype=np.float64))
    layer = layer_at(height)
    return np.asarray(BASE_K[layer] + GRADIENT_KPM[layer] * (height - BASE_M[layer]))


def pressure_pa(h_m: npt.ArrayLike, compat: Compat = None) -> FloatArray:
    """Return pressure at heights above sea level (geometric), any shape."""
    if compat is not None:
        return airsim_atmosphere.pressure_pa(airsim_atmosphere.geopotential_km(_within(h_m)))
    height = geopotential_m(np.asarray(h_m, dtype=np.float64))
    layer = layer_at(height)
    return np.asarray(pressure_in(layer, fall(height, layer)))


def density_kgpm3(h_m: npt.ArrayLike, compat: Compat = None) -> FloatArray:
    """Return density at heights above sea level (geometric), any shape."""
    return np.asarray(
        pressure_pa(h_m, compat) / (_gas_constant(compat) * temperature_k(h_m, compat))
    )


def speed_of_sound_mps(h_m: npt.ArrayLike, compat: Compat = None) -> FloatArray:
    """Return speed of sound at heights above sea level (geometric), any shape.

    AirSim's takes metres for geopotential kilometres: right at sea level only.
    """
    if compat is None:
        temperature = temperature_k(h_m)
    else:
        temperature = airsim_atmosphere.temperature_k(_within(h_m))
    return np.sqrt(_HEAT_RATIO * _gas_constant(compat) * temperature)


def height_m(p_pa: npt.ArrayLike, compat: Compat = None) -> FloatArray:
    """Return height above sea level (geometric) at which the pressure is the given one.

    What an altimeter shows.

    The exact inverse of :func:`pressure_pa`, between -5 and 1000 km. AirSim's formula is that of
    the lowest layer, and takes geopotential height for height: 0.57 m too low at 1 km, 19.9 m at 10
    km.
    """
    p = np.asarray(p_pa, dtype=np.float64)
    if compat is not None:
        return airsim_atmosphere.altimeter_m(p)
    return np.asarray(height_of(p))


def _gas_constant(compat: Compat) -> float:
    return GAS_CONSTANT_JPKGK if compat is None else airsim_atmosphere.GAS_CONSTANT_JPKGK


def _within(h_m: npt.ArrayLike) -> FloatArray:
    return np.clip(np.asarray(h_m, dtype=np.float64), LOWEST_M, HIGHEST_M)
