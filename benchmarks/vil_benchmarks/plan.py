"""`vil-bridge bench plan`: flights through the scene ``forest``, planned and flown.

Flightmare's planning experiment: a forest in 100 x 100 x 30 m, a map at 0.1 m. Of 100 seeded
queries start and goal are at least 60 m apart without a straight free line. A query's time runs
from the question to the checked trajectory; the map and its free space are loaded before. Then a
simulated quadcopter flies each trajectory, at 5 m/s at most, and a ball of 0.3 m around it is swept
along the scene's triangles. A query without a flight counts as not free.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from vil_benchmarks.report import Row, percentile_row
from vil_bridge.core.types import FloatArray
from vil_bridge.registry import solid_world
from vil_simulation.planning.planner import FlightPlanner
from vil_simulation.planning.query import ACCELERATION_MPS2
from vil_simulation.planning.scene_map import map_of_scene
from vil_simulation.planning.simulated_flight import contact_on, fly_along
from vil_simulation.planning.smoothing import PlannedFlight
from vil_simulation.vehicles.control.limits import Limits

QUERIES: Final = 100
_LOW_M: Final = np.array([-50.0, -50.0, 0.0])
_HIGH_M: Final = np.array([50.0, 50.0, 30.0])
_RESOLUTION_M: Final = 0.1
_RADIUS_M: Final = 0.3
_SPEED_MPS: Final = 5.0
_APART_M: Final = 60.0
_SEED: Final = 23


def bench_plan(queries: int = QUERIES) -> list[Row]:
    """Measure; two minutes on a quiet machine.

    Raises:
        ConfigError: the extra ``plan`` is not installed.
    """
    from vil_renderer.embedded.geometry.voxels import Box
    from vil_renderer.embedded.scenefile import load_scene

    begun = time.process_time()
    box = Box(0.5 * (_LOW_M + _HIGH_M), _HIGH_M - _LOW_M + 2.0)
    found = map_of_scene(load_scene("forest"), _RESOLUTION_M, box)
    map_s = time.process_time() - begun
    limits = Limits(speed_mps=_SPEED_MPS, acceleration_mps2=ACCELERATION_MPS2)
    planner = FlightPlanner(found, _RADIUS_M, _LOW_M, _HIGH_M, limits, through_unknown=True)
    pairs = seeded_queries(planner, queries)
    planner.plan(*pairs[0])  # imports what a query must not wait for
    wall_s = []
    cpu_s = []
    flights = []
    for number, (start, goal) in enumerate(pairs, start=1):
        wall = time.perf_counter()
        cpu = time.process_time()
        flights.append(planner.plan(start, goal, seed=number))
        cpu_s.append(time.process_time() - cpu)
        wall_s.append(time.perf_counter() - wall)
    made = [flight for flight in flights if flight is not None]
    return [
        percentile_row("forest_query_s_p95", wall_s, 95.0, "s"),
        percentile_row("forest_query_s_p50", wall_s, 50.0, "s"),
        percentile_row("forest_query_cpu_s_p95", cpu_s, 95.0, "s"),
        Row("forest_flown_free", float(_flown_free(made)), "flights", queries),
        Row(
            "forest_minimum_snap", float(sum(flight.smooth for flight in made)), "flights", queries
        ),
        Row(
            "forest_mean_speed_mps",
            _mean(made, lambda f: _length_m(f) / f.trajectory.duration_s),
            "m/s",
            len(made),
        ),
        Row("forest_path_m", _mean(made, _length_m), "m", len(made)),
        Row("forest_map_cpu_s", map_s, "s", 1),
        Row("forest_map_voxels", float(len(found.codes)), "voxels", 1),
    ]


def seeded_queries(planner: FlightPlanner, count: int) -> list[tuple[FloatArray, FloatArray]]:
    """Return starts and goals (3,) with room, at least 60 m apart and without a straight free
    line.
    """
    rng = np.random.default_rng(_SEED)
    found: list[tuple[FloatArray, FloatArray]] = []
    while len(found) < count:
        start, goal = rng.uniform(_LOW_M, _HIGH_M, (2, 3))
        if np.linalg.norm(goal - start) < _APART_M or planner.space.line_free(start, goal):
            continue
        if planner.wide.free(np.stack((start, goal))).all():
            found.append((start, goal))
    return found


def _flown_free(flights: list[PlannedFlight]) -> int:
    """Return how many flights a simulated vehicle flies without a contact."""
    if not flights:
        return 0
    solids = solid_world("forest", None)
    trajectories = [flight.trajectory for flight in flights]
    return sum(contact_on(flown, solids, _RADIUS_M) is None for flown in fly_along(trajectories))


def _length_m(flight: PlannedFlight) -> float:
    return float(np.linalg.norm(np.diff(flight.path_m, axis=0), axis=1).sum())


def _mean(flights: list[PlannedFlight], figure: Callable[[PlannedFlight], float]) -> float | None:
    return float(np.mean([figure(flight) for flight in flights])) if flights else None
