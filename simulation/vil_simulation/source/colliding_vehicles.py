"""Vehicles of a source that collide, for the simulations of other sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.solid_world import BodyShape, VehicleBodies
from vil_simulation.source.contacts import collider_of
from vil_simulation.source.model_factory import ModelFactory
from vil_simulation.source.sphere_row import SphereRow
from vil_simulation.source.vehicle_config import Vehicle


class CollidingVehicles:
    """The vehicles whose contacts do something: names, shapes and masses, which never change."""

    def __init__(self, vehicles: Sequence[Vehicle], factories: Sequence[ModelFactory]) -> None:
        shapes: dict[int, tuple[BodyShape, float]] = {}
        which = [
            i for i, vehicle in enumerate(vehicles) if vehicle.config.contact.response != "none"
        ]
        for i in which:
            config = vehicles[i].config
            if id(config) not in shapes:
                row, (mass_kg, inertia, *surface) = (
                    SphereRow(config.contact),
                    collider_of(factories[i].model, config.contact),
                )
                ix, iy, iz = inertia.tolist()
                shape = BodyShape(row.radius_m, row.offsets_m, mass_kg, (ix, iy, iz), *surface)
                shapes[id(config)] = shape, row.reach_m + row.radius_m
        found = [shapes[id(vehicles[i].config)] for i in which]
        self._which: Final = np.array(which, dtype=np.intp)
        self._names: Final = tuple(vehicles[i].name for i in which)
        self._shapes: Final = tuple(shape for shape, _ in found)
        self._reach_m: Final = np.array([reach_m for _, reach_m in found], dtype=np.float64)

    def at(self, t_ns: int, states: FloatArray) -> VehicleBodies:
        """Return them at an instant, from the states of all vehicles.

        Places, velocities, attitudes and body rates.
        """
        rows = states[self._which]
        parts = rows[:, :3], rows[:, 3:6], rows[:, 6:10], rows[:, 10:13]
        return VehicleBodies(t_ns, self._names, self._shapes, self._reach_m, *parts)
