"""Planner of flights.

From a query in an occupancy map to a trajectory that was checked against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray
from vil_bridge.world.occupancy.occupancy_map import OccupancyMap
from vil_simulation.planning.free_space import FreeSpace
from vil_simulation.planning.path_search import find_path, tightened
from vil_simulation.planning.smoothing import PlannedFlight, smooth_flight
from vil_simulation.vehicles.control.limits import Limits

TRACKING_M: Final = 0.1
"""Room for the errors with which a vehicle follows its trajectory."""
CORRIDOR_M: Final = 0.3
"""Room around a path for the curve through its corners."""


class FlightPlanner:
    """Planner in one map; unknown voxels are obstacles unless it is stated otherwise.

    A path is searched with room for the curve around it, or without where there is no such path.

    Args:
        found: the map.
        radius_m: of the vehicle.
        low_m: lowest corner (3,) of the box for the vehicle's centre.
        high_m: highest corner (3,).
        limits: with finite speed and acceleration.
        through_unknown: fly through voxels that the map does not know.

    Raises:
        ConfigError: no radius, an empty box, or too many cells.
    """

    def __init__(
        self,
        found: OccupancyMap,
        radius_m: float,
        low_m: FloatArray,
        high_m: FloatArray,
        limits: Limits,
        *,
        through_unknown: bool = False,
    ) -> None:
        if not radius_m > 0.0:
            raise ConfigError(f"the radius of the vehicle must be positive, not {radius_m} m")
        self.limits: Final = limits
        room_m = radius_m + TRACKING_M
        self.space: Final = FreeSpace(found, room_m, low_m, high_m, through_unknown=through_unknown)
        self.wide: Final = FreeSpace(
            found, room_m + CORRIDOR_M, low_m, high_m, through_unknown=through_unknown
        )

    def plan(
        self, start_m: FloatArray, goal_m: FloatArray, *, seed: int = 1
    ) -> PlannedFlight | None:
        """Return a checked flight; None = none was found. The same seed gives the same flight.

        Raises:
            ConfigError: the start or the goal is not free, they are one, or OMPL is not installed.
        """
        start = np.asarray(start_m, np.float64)
        goal = np.asarray(goal_m, np.float64)
        if np.array_equal(start, goal):
            raise ConfigError("the start and the goal are the same place: give two")
        for space in (self.wide, self.space):
            if space is self.wide and not space.free(np.stack((start, goal))).all():
                continue
            path = find_path(space, start, goal, seed=seed)
            flight = None if path is None else self.smooth(path)
            if flight is not None:
                return flight
        return None

    def path_through(self, places_m: Sequence[FloatArray], *, seed: int = 1) -> FloatArray | None:
        """Return the corners (m, 3) of a free path through places, one after the other.

        None = none was found.

        The corners between the places are pulled tight.

        Raises:
            ConfigError: a place is not free, or OMPL is not installed.
        """
        space = self.wide if self.wide.free(np.stack(places_m)).all() else self.space
        legs = [find_path(space, a, b, seed=seed) for a, b in pairwise(places_m)]
        found = [tightened(space, leg) for leg in legs if leg is not None]
        return (
            None
            if len(found) < len(legs)
            else np.concatenate((*(leg[:-1] for leg in found), found[-1][-1:]))
        )

    def smooth(self, path_m: FloatArray) -> PlannedFlight | None:
        """Return a checked flight along a free path; None = not even its straight legs are free."""
        return smooth_flight(path_m, self.space, self.limits)
