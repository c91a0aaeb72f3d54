"""Weather of the virtual world.

What falls, hangs in the air and lies on the ground, and the extinction of light.

Extinction follows Beer and Lambert: a share exp(-extinction x distance) of the light arrives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

KOSCHMIEDER: Final = 3.912
"""-ln 0.02: at the visibility, a black object against the horizon has a contrast of 2 %.

Koschmieder 1924.
"""
VISIBLE_NM: Final = 550.0
LIDAR_NM: Final = 905.0
_DENSEST_FOG_M: Final = 30.0
_DENSEST_DUST_M: Final = 50.0
"""Visibility at 1; extinction grows with the square of the amount."""
_RAIN_MMPH: Final = 50.0
_SNOW_MMPH: Final = 5.0
"""Rates at 1: violent rain, heavy snow as water."""
_PER_M_OF_DB_PER_KM: Final = math.log(10.0) / 10.0 / 1000.0
_LEVELS: Final = (
    "rain",
    "snow",
    "leaves",
    "dust",
    "fog",
    "ground_wetness",
    "ground_snow",
    "ground_leaves",
)


@dataclass(frozen=True, slots=True)
class Weather:
    """Amounts from 0 to 1; those of ``ground_...`` lie on what faces up.

    Attributes:
        leaves: falling ones. wind_mps: mean wind in the world (ENU), moves what falls, and trees.

    Raises:
        ValueError: an amount is not from 0 to 1, or the wind is not finite.
    """

    rain: float = 0.0
    snow: float = 0.0
    leaves: float = 0.0
    dust: float = 0.0
    fog: float = 0.0
    ground_wetness: float = 0.0
    ground_snow: float = 0.0
    ground_leaves: float = 0.0
    wind_mps: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        for name in _LEVELS:
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be from 0 to 1, not {getattr(self, name)}")
        if not all(map(math.isfinite, self.wind_mps)):
            raise ValueError(f"wind_mps must have finite numbers, not {self.wind_mps}")

    @property
    def rain_mmph(self) -> float:
        """Rate of the rain, millimetres per hour."""
        return _RAIN_MMPH * self.rain

    @property
    def snow_mmph(self) -> float:
        """Rate of the snow as water, millimetres per hour."""
        return _SNOW_MMPH * self.snow

    @property
    def falls(self) -> bool:
        """Rain or snow falls, which roofs stop."""
        return self.rain > 0.0 or self.snow > 0.0

    def under_roof(self) -> Weather:
        """Return what is left of it below a roof: fog, dust, and what lies on the ground."""
        if self.falls or self.leaves > 0.0:
            return replace(self, rain=0.0, snow=0.0, leaves=0.0)
        return self


FINE: Final = Weather()


class Extinction(NamedTuple):
    """Extinction of light by its cause, 1/m."""

    fog: float
    rain: float
    snow: float
    dust: float


def extinction_per_m(weather: Weather, wavelength_nm: float = VISIBLE_NM) -> Extinction:
    """Return the extinction of light.

    Fog: Koschmieder's law, with Kim's exponent (2001) at other wavelengths. Rain: 1.58 R^0.63
    dB/km, dry snow: (5.42e-5 wavelength + 5.4958776) S^1.38 dB/km (Recommendation ITU-R P.1814).
    Dust is gray.
    """
    fog = KOSCHMIEDER / _DENSEST_FOG_M * weather.fog**2
    if fog > 0.0 and wavelength_nm != VISIBLE_NM:
        fog *= (wavelength_nm / VISIBLE_NM) ** -_kim_exponent(KOSCHMIEDER / fog / 1000.0)
    rain = 1.58 * weather.rain_mmph**0.63 * _PER_M_OF_DB_PER_KM
    snow = (5.42e-5 * wavelength_nm + 5.4958776) * weather.snow_mmph**1.38 * _PER_M_OF_DB_PER_KM
    return Extinction(fog, rain, snow, KOSCHMIEDER / _DENSEST_DUST_M * weather.dust**2)


def _kim_exponent(visibility_km: float) -> float:
    """Return how extinction falls with the wavelength.

    Not at all in dense fog, as in haze in thin one.
    """
    if visibility_km > 50.0:
        return 1.6
    if visibility_km > 6.0:
        return 1.3
    if visibility_km > 1.0:
        return 0.16 * visibility_km + 0.34
    return max(visibility_km - 0.5, 0.0)
