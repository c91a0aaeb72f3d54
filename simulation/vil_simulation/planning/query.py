"""Queries of the command line: maps of scenes or files, around a start and a goal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.world.occupancy.map_file import read_map
from vil_bridge.world.occupancy.occupancy_map import OccupancyMap
from vil_simulation.planning.planner import FlightPlanner
from vil_simulation.planning.smoothing import PlannedFlight
from vil_simulation.planning.visibility import ViewGoal, plan_with
from vil_simulation.vehicles.control.limits import Limits

_AROUND_M: Final = 20.0
"""Room for a way around, on all sides of the start and the goal."""
ACCELERATION_MPS2: Final = 6.0


@dataclass(frozen=True, slots=True, eq=False)
class FlightQuery:
    """A question for a flight.

    Attributes:
        start_m, goal_m: (3,), world ENU.
        place: shipped scene or scene file; as a path, an OctoMap file.
        resolution_m: of a scene's map.
        radius_m: of the vehicle. speed_mps: its limit. seed: of the search.
        through_unknown: fly through voxels that a file's map does not know.
        view: landmark to keep in view; None = none. yaw_rad: heading at the start, for it; None =
            towards it.
    """

    start_m: FloatArray
    goal_m: FloatArray
    place: str | Path
    resolution_m: float
    radius_m: float
    speed_mps: float
    seed: int
    through_unknown: bool
    view: ViewGoal | None = None
    yaw_rad: float | None = None


def answer(query: FlightQuery) -> tuple[OccupancyMap, PlannedFlight | None]:
    """Return the map, and a flight through it; None = none was found.

    The map of a scene is known everywhere: what no surface passes is free.

    Raises:
        ConfigError: the query cannot be answered; the message says why.
        RendererError: the scene cannot be read.
    """
    corners = np.stack((query.start_m, query.goal_m))
    low = corners.min(axis=0) - _AROUND_M
    high = corners.max(axis=0) + _AROUND_M
    if isinstance(query.place, Path):
        found = read_map(query.place)
        through = query.through_unknown
    else:
        found, (low, high) = _scene_map(query, query.place, low, high)
        through = True
    limits = Limits(speed_mps=query.speed_mps, acceleration_mps2=ACCELERATION_MPS2)
    planner = FlightPlanner(found, query.radius_m, low, high, limits, through_unknown=through)
    ends = query.start_m, query.goal_m
    return found, plan_with(
        planner, found, *ends, query.view, seed=query.seed, yaw_rad=query.yaw_rad
    )


def _scene_map(
    query: FlightQuery, name: str, low: FloatArray, high: FloatArray
) -> tuple[OccupancyMap, tuple[FloatArray, FloatArray]]:
    """Return a scene's map around a query, and the part of the box between the scene's lowest
    and outermost points.
    """
    from vil_renderer.embedded.geometry.voxels import Box, all_triangles
    from vil_renderer.embedded.scenefile import load_scene
    from vil_simulation.planning.scene_map import map_of_scene

    scene = load_scene(name)
    whole = Box.around(all_triangles(scene), 0.0)
    low = np.maximum(low, whole.centre_m - 0.5 * whole.size_m)
    high[:2] = np.minimum(high, whole.centre_m + 0.5 * whole.size_m)[:2]
    box = Box(0.5 * (low + high), high - low + 2.0 * (query.radius_m + 1.0))
    return map_of_scene(scene, query.resolution_m, box), (low, high)
