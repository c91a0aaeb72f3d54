"""Latitude, longitude and height of places in a local world, on the WGS84 ellipsoid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.matrices import product
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.environment.earth import EQUATOR_M
from vil_simulation.vehicles.environment.formulas import E2, latitude_and_height

Geodetic = tuple[FloatArray, FloatArray, FloatArray]
"""Latitude and longitude (degrees) and height above the ellipsoid (metres), of one shape."""

_NED: Final = np.array([1.0, 1.0, -1.0])


def geodetic_to_ecef(
    lat_deg: npt.ArrayLike, lon_deg: npt.ArrayLike, h_m: npt.ArrayLike
) -> FloatArray:
    """Return Earth-centred coordinates, shape (..., 3), metres.

    X to 0 N 0 E, z to the north pole.
    """
    lat = np.deg2rad(lat_deg)
    lon = np.deg2rad(lon_deg)
    h = np.asarray(h_m, dtype=np.float64)
    across = EQUATOR_M / np.sqrt(1.0 - E2 * np.sin(lat) ** 2)
    radius = (across + h) * np.cos(lat)
    z = (across * (1.0 - E2) + h) * np.sin(lat)
    return np.stack(np.broadcast_arrays(radius * np.cos(lon), radius * np.sin(lon), z), axis=-1)


def ecef_to_geodetic(p_ecef_m: FloatArray) -> Geodetic:
    """Return inverse of :func:`geodetic_to_ecef` for shape (..., 3).

    Not within 50 km of the Earth's centre.
    """
    x = p_ecef_m[..., 0]
    y = p_ecef_m[..., 1]
    z = p_ecef_m[..., 2]
    lat, h = latitude_and_height(np.hypot(x, y), z)
    return np.rad2deg(lat), np.rad2deg(np.arctan2(y, x)), h


def enu_axes(lat_deg: npt.ArrayLike, lon_deg: npt.ArrayLike) -> FloatArray:
    """Return east, north and up in Earth-centred axes (rows).

    Rotation matrices R_enu_ecef, shape (..., 3, 3).
    """
    lat, lon = np.broadcast_arrays(np.deg2rad(lat_deg), np.deg2rad(lon_deg))
    sin_lat = np.sin(lat)
    cos_lat = np.cos(lat)
    sin_lon = np.sin(lon)
    cos_lon = np.cos(lon)
    east = np.stack((-sin_lon, cos_lon, np.zeros_like(lon)), axis=-1)
    north = np.stack((-sin_lat * cos_lon, -sin_lat * sin_lon, cos_lat), axis=-1)
    up = np.stack((cos_lat * cos_lon, cos_lat * sin_lon, sin_lat), axis=-1)
    return np.stack((east, north, up), axis=-2)


def enu_to_ned(v: FloatArray) -> FloatArray:
    """Return vectors (..., 3) east-north-up to north-east-down; its own inverse."""
    return np.asarray(v[..., [1, 0, 2]] * _NED)


@dataclass(frozen=True, slots=True)
class GeoOrigin:
    """Place on Earth of the world's origin; the world's axes are east, north and up there.

    Attributes:
        lat_deg, lon_deg: geodetic. h_m: above the ellipsoid, taken for the height above sea level
            by whatever asks for that (they differ by up to 100 m).
        p_ecef_m: the place in Earth-centred axes, (3,). R_enu_ecef: turns those into the world's,
            (3, 3).

    Raises:
        ValueError: there is no such place.
    """

    lat_deg: float
    lon_deg: float
    h_m: float = 0.0
    p_ecef_m: FloatArray = field(init=False, repr=False, compare=False)
    R_enu_ecef: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (
            abs(self.lat_deg) <= 90.0 and abs(self.lon_deg) <= 360.0 and abs(self.h_m) < np.inf
        ):
            raise ValueError(
                f"no such place: lat_deg {self.lat_deg}, lon_deg {self.lon_deg}, h_m {self.h_m}"
            )
        object.__setattr__(self, "p_ecef_m", geodetic_to_ecef(self.lat_deg, self.lon_deg, self.h_m))
        object.__setattr__(self, "R_enu_ecef", enu_axes(self.lat_deg, self.lon_deg))

    def to_geodetic(self, p_world_m: npt.ArrayLike) -> Geodetic:
        """Return places of points of the world (..., 3)."""
        return ecef_to_geodetic(
            self.p_ecef_m + product(np.asarray(p_world_m, dtype=np.float64), self.R_enu_ecef)
        )

    def to_world(
        self, lat_deg: npt.ArrayLike, lon_deg: npt.ArrayLike, h_m: npt.ArrayLike
    ) -> FloatArray:
        """Return points of the world (..., 3) of places, metres."""
        return np.asarray(
            product(geodetic_to_ecef(lat_deg, lon_deg, h_m) - self.p_ecef_m, self.R_enu_ecef.T)
        )

    def turned(
        self, v_enu: FloatArray, lat_deg: npt.ArrayLike, lon_deg: npt.ArrayLike
    ) -> FloatArray:
        """Return vectors (..., 3) given east, north and up at their own places, in the axes of
        the world.
        """
        v_ecef = product(v_enu[..., None, :], enu_axes(lat_deg, lon_deg))
        return np.asarray(product(v_ecef, self.R_enu_ecef.T)[..., 0, :])

    def height_m(self, p_world_m: FloatArray) -> FloatArray:
        """Return heights of points (..., 3) on a round Earth: cheap, right to 5 cm within 10 km."""
        x = p_world_m[..., 0]
        y = p_world_m[..., 1]
        z = p_world_m[..., 2]
        return np.asarray(self.h_m + z + (x * x + y * y) / (2.0 * EQUATOR_M))
