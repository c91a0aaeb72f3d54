"""Flights that keep a landmark in a camera's view.

Headings towards it, and ways from which it is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from vil_bridge.core.elementary import arctan2
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.interfaces.trajectory import Polynomials, Trajectory, hermite
from vil_bridge.interfaces.voxels import Occupancy
from vil_bridge.world.occupancy.occupancy_map import OccupancyMap
from vil_simulation.planning.planner import FlightPlanner
from vil_simulation.planning.smoothing import PlannedFlight
from vil_simulation.vehicles.trajectories.composed import WithHeading

_MARGIN_M: Final = 0.3
"""A landmark lies on a surface: what is this near to it hides nothing."""
_STEP_S: Final = 0.1
_SMOOTH: Final = 5
"""Samples of a heading's running mean, the newest included."""
_NEAR_M: Final = 0.3
_SAMPLES: Final = 600
_SEEDS: Final = 3
_VIAS: Final = 8
_SMOOTHED: Final = 3
_AROUND_M: Final = 8.0


@dataclass(frozen=True, slots=True, eq=False)
class ViewGoal:
    """A landmark that a camera is to see, which looks along the vehicle's heading, level.

    Attributes:
        landmark_m: (3,), world ENU. fov_rad: of the camera, horizontal and vertical.
        weight: seconds of detour that a second in view is worth. yaw_radps: fastest turn of the
            heading.
    """

    landmark_m: FloatArray
    fov_rad: tuple[float, float]
    weight: float = 1.0
    yaw_radps: float = 1.5


def in_sight(found: OccupancyMap, places_m: FloatArray, landmark_m: FloatArray) -> BoolArray:
    """Return from which places (n, 3) no occupied voxel hides a landmark."""
    way = landmark_m - places_m
    distance = np.linalg.norm(way, axis=1)
    count = max(2, int(2.0 * float(distance.max()) / found.resolution_m))
    shares = (
        np.arange(count)
        / count
        * np.maximum(0.0, 1.0 - _MARGIN_M / np.maximum(distance, 1e-9))[:, None]
    )
    rays = places_m[:, None] + shares[..., None] * way[:, None]
    hidden = found.state(rays.reshape(-1, 3)) == Occupancy.OCCUPIED
    return np.asarray(~hidden.reshape(shares.shape).any(axis=1))


def in_view(
    found: OccupancyMap, goal: ViewGoal, places_m: FloatArray, yaw_rad: FloatArray
) -> BoolArray:
    """Return at which places (n, 3), with these headings (n,), a camera sees the landmark."""
    x, y, z = (goal.landmark_m - places_m).T
    aside = (arctan2(y, x) - yaw_rad + np.pi) % (2.0 * np.pi) - np.pi
    horizontal, vertical = goal.fov_rad
    height_rad = arctan2(z, np.sqrt(x * x + y * y))
    framed = (np.abs(aside) <= 0.5 * horizontal) & (np.abs(height_rad) <= 0.5 * vertical)
    return np.asarray(framed & in_sight(found, places_m, goal.landmark_m))


def facing(curve: Trajectory, goal: ViewGoal, yaw_rad: float | None = None) -> Trajectory:
    """Return a flight with headings towards the landmark, no faster than the goal allows.

    Args:
        curve: the flight.
        goal: what to look at.
        yaw_rad: heading at its begin; None = towards the landmark.
    """
    count = max(3, int(np.ceil(curve.duration_s / _STEP_S)) + 1)
    times = np.linspace(0.0, curve.duration_s, count)
    # The running mean is as late.
    later = np.minimum(times + 0.5 * (_SMOOTH - 1) * times[1], curve.duration_s)
    wanted = _bearings(goal.landmark_m - curve.at(later).p_world_m)
    if yaw_rad is not None:
        wanted += 2.0 * np.pi * np.round((yaw_rad - wanted[0]) / (2.0 * np.pi))
        wanted[0] = yaw_rad
    yaw = wanted.copy()
    most = goal.yaw_radps * times[1]
    for k in range(1, count):
        yaw[k] = yaw[k - 1] + np.clip(wanted[k] - yaw[k - 1], -most, most)
    begun = np.concatenate((np.full(_SMOOTH - 1, yaw[0]), yaw))
    yaw = np.convolve(begun, np.full(_SMOOTH, 1.0 / _SMOOTH), "valid")
    rates = np.gradient(yaw, times)
    rates[0] = 0.0
    ends = np.stack((yaw, rates), axis=1)[..., None]
    return WithHeading(curve, Polynomials(times, hermite(ends[:-1], ends[1:], np.diff(times))))


def share_in_view(found: OccupancyMap, goal: ViewGoal, curve: Trajectory) -> float:
    """Return the share of a flight's time in which the landmark is in view."""
    reference = curve.at(
        np.linspace(0.0, curve.duration_s, max(2, int(curve.duration_s / _STEP_S)))
    )
    return float(in_view(found, goal, reference.p_world_m, reference.yaw_rad).mean())


def plan_in_view(
    planner: FlightPlanner,
    found: OccupancyMap,
    start_m: FloatArray,
    goal_m: FloatArray,
    view: ViewGoal,
    *,
    seed: int = 1,
    yaw_rad: float | None = None,
) -> PlannedFlight | None:
    """Return the flight of the least cost.

    Its time, and ``weight`` for each second without the landmark in view.

    Compared are the way that the planner takes by itself, and ways through places from which the
    landmark is seen.

    Args:
        planner: in the map.
        found: the map.
        start_m: (3,).
        goal_m: (3,).
        view: what to look at.
        seed: of the searches.
        yaw_rad: heading at the start; None = towards the landmark.

    Raises:
        ConfigError: the start or the goal is not free, they are one, or OMPL is not installed.
    """
    direct = planner.plan(start_m, goal_m, seed=seed)
    ways: list[tuple[list[FloatArray], int]] = [
        ([start_m, goal_m], seed + k) for k in range(_SEEDS)
    ]
    ways += [
        ([start_m, via, goal_m], seed)
        for via in _vias(planner, found, np.stack((start_m, goal_m)), view, seed)
    ]
    paths = [
        path for places, n in ways if (path := planner.path_through(places, seed=n)) is not None
    ]
    paths.sort(key=lambda path: _path_cost(path, planner.limits.speed_mps, found, view))
    smoothed = (direct, *(planner.smooth(path) for path in paths[:_SMOOTHED]))
    flights = [flight for flight in smoothed if flight is not None]
    turned = [
        replace(flight, trajectory=facing(flight.trajectory, view, yaw_rad)) for flight in flights
    ]
    return min(turned, key=lambda flight: _cost(flight.trajectory, found, view), default=None)


def plan_with(
    planner: FlightPlanner,
    found: OccupancyMap,
    start_m: FloatArray,
    goal_m: FloatArray,
    view: ViewGoal | None,
    *,
    seed: int = 1,
    yaw_rad: float | None = None,
) -> PlannedFlight | None:
    """Return a flight that keeps a landmark in view as :func:`plan_in_view`, or the planner's
    own without one.
    """
    if view is None:
        return planner.plan(start_m, goal_m, seed=seed)
    return plan_in_view(planner, found, start_m, goal_m, view, seed=seed, yaw_rad=yaw_rad)


def _cost(curve: Trajectory, found: OccupancyMap, view: ViewGoal) -> float:
    return curve.duration_s * (1.0 + view.weight * (1.0 - share_in_view(found, view, curve)))


def _path_cost(path_m: FloatArray, speed_mps: float, found: OccupancyMap, view: ViewGoal) -> float:
    """Return the cost of a path flown at one speed, with every heading possible."""
    lengths = np.linalg.norm(np.diff(path_m, axis=0), axis=1)
    along = np.concatenate((np.zeros(1), np.cumsum(lengths)))
    at = np.linspace(0.0, along[-1], max(2, int(along[-1] / 0.2)))
    places = np.column_stack([np.interp(at, along, path_m[:, axis]) for axis in range(3)])
    seen = in_view(found, view, places, _bearings(view.landmark_m - places))
    return float(along[-1] / speed_mps * (1.0 + view.weight * (1.0 - seen.mean())))


def _vias(
    planner: FlightPlanner, found: OccupancyMap, ends_m: FloatArray, view: ViewGoal, seed: int
) -> FloatArray:
    """Return a few places (k, 3) around the ends, far from each other, from which the landmark
    is seen.
    """
    low = np.maximum(ends_m.min(axis=0) - _AROUND_M, planner.space.low_m)
    high = np.minimum(ends_m.max(axis=0) + _AROUND_M, planner.space.high_m)
    places = np.random.default_rng(seed).uniform(low, high, (_SAMPLES, 3))
    places = places[planner.wide.free(places)]
    places = (
        places[in_view(found, view, places, _bearings(view.landmark_m - places))]
        if len(places)
        else places
    )
    detour = np.linalg.norm(places[:, None] - ends_m, axis=2).sum(axis=1)
    places = places[np.argsort(detour)][: len(places) // 2]
    chosen: list[FloatArray] = []
    while len(places) and len(chosen) < _VIAS:
        away = np.min([np.linalg.norm(places - one, axis=1) for one in (*ends_m, *chosen)], axis=0)
        chosen.append(places[away.argmax()])
    return np.array(chosen).reshape(-1, 3)


def _bearings(way_m: FloatArray) -> FloatArray:
    """Return the headings (n,) along ways (n, 3), without jumps.

    Next to the landmark the one before holds.
    """
    x, y = way_m[:, :2].T
    bearings = arctan2(y, x)
    near = np.sqrt(x * x + y * y) < _NEAR_M
    place = np.maximum.accumulate(np.where(near, 0, np.arange(len(bearings))))
    return np.unwrap(bearings[place])
