"""The Earth's magnetic field: the tilted dipole, and the World Magnetic Model.

A field is a function of latitude and longitude (degrees) and height (metres) that gives north, east
and down in tesla, shape (..., 3): :func:`dipole_ned_t`, :func:`airsim_dipole_ned_t`,
:meth:`WorldMagneticModel.ned_t`, or one's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.installation import install_command
from vil_bridge.core.matrices import product
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.environment.earth import EQUATOR_M
from vil_simulation.vehicles.environment.geodesy import GeoOrigin, enu_axes, enu_to_ned

Field = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""``field(lat_deg, lon_deg, h_m)``: north, east, down, tesla, shape (..., 3)."""

_POLE_LAT_DEG: Final = 80.31
_POLE_LON_DEG: Final = -72.62
_EQUATOR_T: Final = 3.12e-5
_REACH_M: Final = 1e3
_EDITIONS: Final = {2010: "2010", 2015: "2015v2", 2020: "2020", 2025: "2025"}


def dipole_ned_t(lat_deg: npt.ArrayLike, lon_deg: npt.ArrayLike, h_m: npt.ArrayLike) -> FloatArray:
    """Return field of a dipole through the geomagnetic pole 80.31 N 72.62 W.

    B0 (R / (R + h))^3 (m - 3 (m . r) r).

    On a round Earth, as AirSim's: latitudes are taken for geocentric ones. Several microtesla from
    the real field.
    """
    axes = enu_axes(lat_deg, lon_deg)
    pole = enu_axes(_POLE_LAT_DEG, _POLE_LON_DEG)[2]
    m_enu = product(axes, pole)
    field = m_enu * np.array([1.0, 1.0, -2.0])
    return enu_to_ned(_strength_t(h_m)[..., None] * field)


def airsim_dipole_ned_t(
    lat_deg: npt.ArrayLike, lon_deg: npt.ArrayLike, h_m: npt.ArrayLike
) -> FloatArray:
    """Return the dipole as AirSim computes it.

    Its formula is one for co-latitudes, but is given latitudes.

    The declination has the wrong sign too, and the field points down in the southern hemisphere.
    """
    lat = np.deg2rad(lat_deg)
    pole = np.deg2rad(_POLE_LAT_DEG)
    east = np.deg2rad(lon_deg) - np.deg2rad(_POLE_LON_DEG)
    cos_t = np.cos(lat) * np.cos(pole) + np.sin(lat) * np.sin(pole) * np.cos(east)
    sin_t = np.sqrt(np.maximum(1.0 - cos_t * cos_t, 1e-24))
    strength = _strength_t(h_m) * np.sqrt(1.0 + 3.0 * cos_t * cos_t)
    inclination = np.arctan2(2.0 * cos_t, sin_t)
    turn = np.where(cos_t > np.sin(pole) * np.sin(lat), np.sin(east), np.cos(east))
    declination = np.arcsin(np.clip(turn * np.cos(pole) / sin_t, -1.0, 1.0))
    level = strength * np.cos(inclination)
    components = (
        level * np.cos(declination),
        level * np.sin(declination),
        strength * np.sin(inclination),
    )
    return np.stack(np.broadcast_arrays(*components), axis=-1)


def angles_deg(field_ned_t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return declination (east of north) and inclination (below the horizon) of fields (..., 3)."""
    north = field_ned_t[..., 0]
    east = field_ned_t[..., 1]
    down = field_ned_t[..., 2]
    return np.rad2deg(np.arctan2(east, north)), np.rad2deg(np.arctan2(down, np.hypot(north, east)))


class WorldMagneticModel:
    """The World Magnetic Model of NOAA and BGS through pygeomag (extra ``sim``), with the
    coefficients it ships.

    Args:
        year: decimal, 2010 to 2030; chooses the edition (2010, 2015v2, 2020, 2025).

    Raises:
        ModuleNotFoundError: pygeomag is not installed.
        ValueError: no edition for the year.
    """

    def __init__(self, year: float) -> None:
        try:
            from pygeomag import GeoMag
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                f"the World Magnetic Model needs pygeomag: {install_command('sim')}"
            ) from None
        if not 2010.0 <= year < 2030.0:
            raise ValueError(f"year must be from 2010 to 2030, got {year}")
        self.year: Final = year
        self._model = GeoMag(coefficients_file=f"wmm/WMM_{_EDITIONS[int(year) // 5 * 5]}.COF")

    def ned_t(
        self, lat_deg: npt.ArrayLike, lon_deg: npt.ArrayLike, h_m: npt.ArrayLike
    ) -> FloatArray:
        """Return north, east and down at places, heights above the ellipsoid from -1 to 850 km,
        tesla, shape (..., 3).

        Takes 0.2 ms a place: where many vehicles measure, put a :class:`LocalField` around it.
        """
        places = np.broadcast(lat_deg, lon_deg, h_m)
        rows = [self._at(float(lat), float(lon), float(h)) for lat, lon, h in places]
        return np.array(rows, dtype=np.float64).reshape(*places.shape, 3)

    def _at(self, lat_deg: float, lon_deg: float, h_m: float) -> tuple[float, float, float]:
        result = self._model.calculate(glat=lat_deg, glon=lon_deg, alt=1e-3 * h_m, time=self.year)
        return 1e-9 * result.x, 1e-9 * result.y, 1e-9 * result.z


class LocalField:
    """Any field around an origin, in the axes of the world: its value there and its gradient.

    Within 10 km of the origin, 2 nT off what it was made of; a matrix product for any number of
    vehicles.
    """

    def __init__(self, origin: GeoOrigin, field: Field) -> None:
        steps = _REACH_M * np.concatenate((np.zeros((1, 3)), np.eye(3), -np.eye(3)))
        places = origin.to_geodetic(steps)
        values = origin.turned(enu_to_ned(field(*places)), *places[:2])
        self._value: Final = values[0]
        self._gradient: Final = (values[1:4] - values[4:7]) / (2.0 * _REACH_M)

    def enu_t(self, p_world_m: FloatArray) -> FloatArray:
        """Return field at points (..., 3) of the world, tesla, in its axes."""
        return np.asarray(product(p_world_m, self._gradient) + self._value)


def _strength_t(h_m: npt.ArrayLike) -> FloatArray:
    h = np.asarray(h_m, dtype=np.float64)
    return np.asarray(_EQUATOR_T * (EQUATOR_M / (EQUATOR_M + h)) ** 3)
