"""Environment of a place in a local world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vil_bridge.core.sensor_readings import GeoPlace, Vector
from vil_simulation.vehicles.environment.atmosphere import density_kgpm3, pressure_pa, temperature_k
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.environment.gravity import gravity_mps2


@dataclass(frozen=True, slots=True)
class LocalEnvironment:
    """Environment at a point of the world.

    Attributes:
        p_world_m: the point. geo: its place on Earth. gravity_world_mps2: ENU.
        pressure_pa, temperature_k, density_kgpm3: of the air, standard day.
    """

    p_world_m: Vector
    geo: GeoPlace
    gravity_world_mps2: Vector
    pressure_pa: float
    temperature_k: float
    density_kgpm3: float


def environment_at(p_world_m: Vector, origin: GeoPlace) -> LocalEnvironment:
    """Return the environment at a point of a world whose zero is at a place on Earth, axes east,
    north, up there.
    """
    place = GeoOrigin(origin.latitude_deg, origin.longitude_deg, origin.altitude_m)
    latitude, longitude, height = (float(v) for v in place.to_geodetic(np.array(p_world_m)))
    return LocalEnvironment(
        p_world_m,
        GeoPlace(latitude, longitude, height),
        (0.0, 0.0, -float(gravity_mps2(height))),
        float(pressure_pa(height)),
        float(temperature_k(height)),
        float(density_kgpm3(height)),
    )
