"""Flights that keep a landmark in view.

Headings, lines of sight, and the share of time in view of a flown vehicle.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import Trajectory
from vil_bridge.interfaces.voxel_box import keys_at
from vil_bridge.protocols.octomap import codes_of, distinct
from vil_bridge.world.occupancy.occupancy_map import OccupancyMap
from vil_simulation.planning.planner import FlightPlanner
from vil_simulation.planning.visibility import (
    ViewGoal,
    facing,
    in_sight,
    in_view,
    plan_in_view,
    share_in_view,
)
from vil_simulation.vehicles.control.limits import Limits
from vil_simulation.vehicles.control.models import tracking
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.trajectories import minimum_snap

LOW, HIGH = np.array([-7.0, -5.0, 0.3]), np.array([7.0, 5.0, 2.7])
LANDMARK = np.array([0.0, 4.5, 1.5])
START, GOAL = np.array([-5.0, 0.0, 1.5]), np.array([5.0, 0.0, 1.5])
FOV = math.radians(90.0), math.radians(70.0)
VIEW = ViewGoal(LANDMARK, FOV, weight=2.0)


def block() -> OccupancyMap:
    """A block between start and goal.

    The short way around it is the one from which the landmark is hidden.
    """
    x, y, z = (np.arange(a + 0.05, b, 0.1) for a, b in ((-1.5, 1.5), (-0.3, 2.9), (0.0, 3.0)))
    cells = np.stack(np.meshgrid(x, y, z), axis=-1).reshape(-1, 3)
    found = OccupancyMap(0.1)
    found.insert_hits(distinct(codes_of(keys_at(cells, 0.1))))
    return found


def flown_share(found: OccupancyMap, curve: Trajectory) -> float:
    """Share of the time in which a simulated quadcopter's camera, tilted as its body is, has the
    landmark in view.
    """
    model = FlightGogglesMulticopter()
    fleet, controller = Fleet(model, n=1), tracking(model, [curve])
    start = controller.table.at(0.0)
    yaw = float(start.yaw_rad[0])
    fleet.place(
        p_world_m=start.p_world_m,
        q_world_body=np.array([0.0, 0.0, math.sin(0.5 * yaw), math.cos(0.5 * yaw)]),
    )
    seen: list[bool] = []
    while fleet.t_ns * 1e-9 < curve.duration_s:
        for _ in range(24):
            fleet.command(controller(fleet.t_ns * 1e-9, fleet.x))
            fleet.advance(4)
        p, q = fleet.x[0, :3], fleet.x[0, model.state["q_world_body"]]
        ahead, left, up = turned_back(q, LANDMARK - p)
        across, high = (ahead * math.tan(0.5 * angle) for angle in FOV)
        framed = ahead > 0.0 and abs(left) <= across and abs(up) <= high
        seen.append(bool(framed and in_sight(found, p[None], LANDMARK)[0]))
    return float(np.mean(seen))


def turned_back(q_xyzw: FloatArray, v_world: FloatArray) -> FloatArray:
    x, y, z, w = q_xyzw
    R = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    return np.asarray(R.T @ v_world)


def test_lines_of_sight_end_at_occupied_voxels() -> None:
    places = np.array([[0.0, -2.0, 1.5], [0.0, 3.5, 1.5], [0.0, -2.0, 9.0], [-5.0, 3.0, 1.5]])
    assert in_sight(block(), places, LANDMARK).tolist() == [False, True, True, True]
    on_a_wall = np.array([0.0, 2.85, 1.5])
    assert in_sight(block(), places, on_a_wall).tolist() == [False, True, False, False]


def test_a_place_is_in_view_within_both_angles() -> None:
    found = OccupancyMap(0.1)
    place = np.array([[0.0, 0.5, 1.5]])
    for yaw_deg, seen in (
        (90.0, True),
        (130.0, True),
        (136.0, False),
        (-90.0, False),
        (450.0, True),
    ):
        assert in_view(found, VIEW, place, np.radians([yaw_deg])).tolist() == [seen]
    for height, seen in ((1.5 + 2.7, True), (1.5 + 2.9, False)):
        assert in_view(
            found, VIEW, np.array([[0.0, 0.5, height]]), np.radians([90.0])
        ).tolist() == [seen]


def test_headings_follow_the_landmark_no_faster_than_allowed() -> None:
    curve = minimum_snap(np.array([[-4.0, 1.0, 1.5], [4.0, 1.0, 1.5]]), speed_mps=3.0)
    slow = ViewGoal(LANDMARK, FOV, yaw_radps=0.8)
    times = np.linspace(0.0, curve.duration_s, 400)
    turned = facing(curve, slow, yaw_rad=2.0 * math.pi).at(times)
    assert np.abs(turned.yaw_radps).max() < 0.8 * 1.1
    assert turned.yaw_rad[0] == pytest.approx(2.0 * math.pi)
    assert np.allclose(turned.p_world_m, curve.at(times).p_world_m)
    quick = facing(curve, ViewGoal(LANDMARK, FOV, yaw_radps=10.0)).at(times)
    x, y, _ = (LANDMARK - quick.p_world_m).T
    error = (np.arctan2(y, x) - quick.yaw_rad + math.pi) % (2.0 * math.pi) - math.pi
    assert np.abs(error).max() < 0.15


def test_the_landmark_is_longer_in_view_with_headings_and_still_longer_with_the_weight() -> None:
    pytest.importorskip("ompl", reason="the package is not installed (extra plan)")
    found = block()
    limits = Limits(speed_mps=2.0, acceleration_mps2=4.0)
    planner = FlightPlanner(found, 0.2, LOW, HIGH, limits, through_unknown=True)
    plain = planner.plan(START, GOAL)
    light = plan_in_view(planner, found, START, GOAL, ViewGoal(LANDMARK, FOV, weight=0.0))
    heavy = plan_in_view(planner, found, START, GOAL, VIEW)
    assert plain is not None and light is not None and heavy is not None
    shares = [flown_share(found, flight.trajectory) for flight in (plain, light, heavy)]
    times = [round(flight.trajectory.duration_s, 2) for flight in (plain, light, heavy)]
    print(f"in view {np.round(shares, 3).tolist()} of {times} s")
    assert shares[0] < shares[1] < shares[2] - 0.3 and shares[2] > 0.85
    assert times[1] < times[2], "the price"
    assert light.path_m[:, 1].min() < -0.3 and heavy.path_m[:, 1].max() > 2.9, (
        "the other way around the block"
    )
    assert planner.space.free(heavy.trajectory.at(np.linspace(0.0, times[2], 500)).p_world_m).all()
    assert share_in_view(found, VIEW, heavy.trajectory) == pytest.approx(shares[2], abs=0.1)
