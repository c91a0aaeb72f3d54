"""Paths through maps, flights along them, and their contacts."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.voxel_box import MIDDLE, keys_at
from vil_bridge.protocols.octomap import codes_of, distinct
from vil_bridge.world.occupancy.occupancy_map import MISS, OccupancyMap
from vil_simulation.planning import path_search
from vil_simulation.planning.free_space import FreeSpace
from vil_simulation.planning.planner import TRACKING_M, FlightPlanner
from vil_simulation.planning.simulated_flight import contact_on, fly_along
from vil_simulation.planning.smoothing import smooth_flight
from vil_simulation.vehicles.control.limits import Limits, usage

pytest.importorskip("ompl", reason="the package is not installed (extra plan)")

LOW, HIGH = np.array([-6.0, -4.0, 0.0]), np.array([6.0, 4.0, 3.0])
LIMITS = Limits(speed_mps=3.0, acceleration_mps2=5.0)
BETWEEN_SAMPLES = 1e-4
"""`fastest` holds the limits at 2000 instants.

Between them a curve may exceed them by this share.
"""
START, GOAL = np.array([-4.0, -2.0, 1.5]), np.array([4.0, -2.0, 1.5])


@cache
def walls(gap_y: tuple[float, float] | None) -> OccupancyMap:
    """A wall across the box at x = 0, with a gap in y or none."""
    y, z = (np.arange(a + 0.05, b, 0.1) for a, b in zip(LOW[1:] - 1.0, HIGH[1:] + 1.0, strict=True))
    cells = np.stack(np.meshgrid([0.05], y, z), axis=-1).reshape(-1, 3)
    if gap_y is not None:
        cells = cells[(cells[:, 1] < gap_y[0]) | (cells[:, 1] > gap_y[1])]
    found = OccupancyMap(0.1)
    found.insert_hits(np.unique(codes_of(keys_at(cells, 0.1))))
    return found


@cache
def planner(gap_y: tuple[float, float] | None) -> FlightPlanner:
    return FlightPlanner(walls(gap_y), 0.3, LOW, HIGH, LIMITS, through_unknown=True)


def distance_m(found: OccupancyMap, places: FloatArray) -> float:
    """From places to the nearest occupied voxel: its cube."""
    away = np.abs(places[:, None] - found.occupied_m()) - 0.05
    return float(np.linalg.norm(np.maximum(away, 0.0), axis=2).min())


@pytest.mark.parametrize("gap_y", [(1.0, 3.0), (0.0, 1.4)])
def test_a_flight_goes_through_the_gap_with_room(gap_y: tuple[float, float]) -> None:
    """The narrow gap has room for the vehicle and none for a corridor around its path."""
    ready = planner(gap_y)
    flight = ready.plan(START, GOAL)
    assert flight is not None
    reference = flight.trajectory.at(np.linspace(0.0, flight.trajectory.duration_s, 1500))
    assert np.allclose(reference.p_world_m[[0, -1]], [START, GOAL], atol=1e-6)
    assert np.allclose(reference.v_world_mps[[0, -1]], 0.0, atol=1e-6)
    assert usage(reference, LIMITS).max() <= 1.0 + BETWEEN_SAMPLES
    assert distance_m(walls(gap_y), reference.p_world_m[::10]) >= 0.3 + TRACKING_M
    crossing = reference.p_world_m[np.abs(reference.p_world_m[:, 0]).argmin()]
    assert gap_y[0] < crossing[1] < gap_y[1]
    assert ready.space.free(reference.p_world_m).all()
    flown = fly_along([flight.trajectory])[0]
    assert distance_m(walls(gap_y), flown[::4]) >= 0.3
    assert np.linalg.norm(flown[-1] - GOAL) < TRACKING_M


def test_the_same_seed_gives_the_same_flight() -> None:
    ready = planner((1.0, 3.0))
    paths = [ready.plan(START, GOAL, seed=seed) for seed in (7, 8, 7)]
    assert all(flight is not None for flight in paths)
    first, other, again = (flight.path_m for flight in paths if flight is not None)
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_no_way_is_no_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_search, "MOST_ROUNDS", 2_000)
    assert planner(None).plan(START, GOAL) is None


def test_places_without_room_are_refused_by_name() -> None:
    ready = planner((1.0, 3.0))
    with pytest.raises(
        ConfigError, match=r"the start 0\.05,-2,1\.5 is outside the map, or has no 0\.40 m of room"
    ):
        ready.plan(np.array([0.05, -2.0, 1.5]), GOAL)
    with pytest.raises(ConfigError, match="the goal 4,-2,9 is outside"):
        ready.plan(START, np.array([4.0, -2.0, 9.0]))
    with pytest.raises(ConfigError, match="the same place"):
        ready.plan(START, START)
    with pytest.raises(ConfigError, match="radius of the vehicle must be positive"):
        FlightPlanner(walls(None), 0.0, LOW, HIGH, LIMITS)


def test_what_is_unknown_is_not_flown_through_by_default() -> None:
    with pytest.raises(ConfigError, match=r"no 0\.40 m of room"):
        FlightPlanner(walls((1.0, 3.0)), 0.3, LOW, HIGH, LIMITS).plan(START, GOAL)


def tunnel() -> FreeSpace:
    """Two tunnels that meet at (4.05, 0.05, 0.05), with one cell of room for the vehicle's
    centre.
    """
    across, along = np.arange(-4, 5), np.arange(-4, 45)
    first = np.stack(np.meshgrid(along, across, across), axis=-1).reshape(-1, 3)
    second = np.stack(np.meshgrid(40 + across, along, across), axis=-1).reshape(-1, 3)
    found = OccupancyMap(0.1)
    found.codes = distinct(codes_of(np.concatenate((first, second)) + MIDDLE))
    found.log_odds = np.full(len(found.codes), MISS)
    return FreeSpace(found, 0.3, np.full(3, -1.0), np.array([5.0, 5.0, 1.0]), through_unknown=False)


@pytest.mark.parametrize(
    ("corner_m", "smooth"),
    [
        pytest.param((4.05, 0.05), True, id="in the middle of the cell: waypoints are inserted"),
        pytest.param((4.0 + 1e-7, 0.1 - 1e-7), False, id="at its edge: straight legs with stops"),
    ],
)
def test_a_corner_is_flown_within_its_tunnel(corner_m: tuple[float, float], smooth: bool) -> None:
    space = tunnel()
    x, y = corner_m
    path = np.array([[0.05, y, 0.05], [x, y, 0.05], [x, 4.05, 0.05]])
    flight = smooth_flight(path, space, LIMITS)
    assert flight is not None and flight.smooth == smooth
    assert (len(flight.waypoints_m) > len(path)) == smooth
    reference = flight.trajectory.at(np.linspace(0.0, flight.trajectory.duration_s, 3000))
    assert space.free(reference.p_world_m).all()
    assert usage(reference, LIMITS).max() <= 1.0 + BETWEEN_SAMPLES
    assert smooth_flight(path[[0, 2]], space, LIMITS) is None


def test_contacts_are_those_of_the_meshes() -> None:
    from vil_bridge.registry import solid_world

    solids = solid_world("hall", None)
    way = np.linspace([-2.0, 0.0, 1.5], [0.0, 0.0, 1.5], 40)
    assert contact_on(way, solids, 0.3) is None
    down = np.linspace([-2.0, 0.0, 1.5], [-2.0, 0.0, 0.2], 40)
    contact = contact_on(down, solids, 0.3)
    assert contact is not None and contact.other.startswith("Floor")
