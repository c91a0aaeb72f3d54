"""Moves of a vehicle with `compat`.

Flown as AirSim's own code flew them (tests/golden/airsim/moves.csv).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.support.airsim_moves import Aviary, in_air
from tests.support.airsim_own_flights import own_flights
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.vehicle_moves import (
    AttitudeMove,
    HomeMove,
    HoverMove,
    LandMove,
    Move,
    PathMove,
    RatesMove,
    TakeoffMove,
    TurnMove,
    VelocityMove,
    YawGoal,
)
from vil_simulation.source.ipc import CancelOrder
from vil_simulation.vehicles.airsim.path_following import PERIOD_S

NORTH_DEG = 90.0
MOST_M = 0.1
TURN_S = 0.021
"""Turn of AirSim's caller: 20 ms of its clock, in steps of 3 ms."""
AHEAD = YawGoal(0.0, by_rate=False, ahead=True)
AFTER_S = 2.0


def path(*points_ned_m: tuple[float, float, float], speed: float, **more: Any) -> PathMove:
    """Return a path through points relative to the vehicle's start, NED."""
    return PathMove(
        tuple((east, north, -down) for north, east, down in points_ned_m), speed, 1e9, **more
    )


@dataclass
class Case:
    """A move, and where the vehicle hovers before: a height, and a heading from north, degrees."""

    move: Move
    height_m: float = 5.0
    heading_deg: float = 0.0


SQUARE = ((10.0, 0.0, -5.0), (10.0, 10.0, -5.0), (0.0, 10.0, -5.0), (0.0, 0.0, -5.0))
LOOP = ((10.0, 0.0, -5.0), (10.0, 10.0, -8.0), (0.0, 10.0, -5.0), (0.0, 0.0, -3.0))
CASES = {
    "takeoff": Case(TakeoffMove(20.0), 0.0),
    **{f"up at {v} m/s": Case(path((0.0, 0.0, -10.0), speed=float(v)), 2.0) for v in (1, 3, 5, 10)},
    "landing from 2 m": Case(LandMove(60.0), 2.0),
    "landing from 10 m": Case(LandMove(60.0), 10.0),
    "home": Case(HomeMove(60.0)),
    **{f"20 m at {v} m/s": Case(path((20.0, 0.0, -5.0), speed=float(v))) for v in (1, 3, 5)},
    "forward only": Case(path((20.0, 5.0, -8.0), speed=5.0, yaw=AHEAD), heading_deg=30.0),
    "0.8 m": Case(path((0.8, 0.0, -5.0), speed=1.0)),
    "velocity": Case(VelocityMove((0.0, 5.0, 0.0), 4.0)),
    "velocity at a height": Case(VelocityMove((0.0, 5.0, 0.0), 4.0, z_m=6.0)),
    "turn": Case(TurnMove(0.0, math.radians(5.0), 20.0)),
    "square": Case(path(*SQUARE, speed=3.0)),
    "path, forward only, not adaptive": Case(path(*LOOP, speed=5.0, yaw=AHEAD, adaptive=0.0)),
}


def hovering(height_m: float, heading_deg: float = 0.0, *, floor: bool = False) -> Aviary:
    """Return a vehicle above its start, on the floor at a height of 0; it flies as AirSim does."""
    contact = {} if floor or height_m == 0.0 else {"floor_m": None}
    vehicle = {"compat": True, "yaw_deg": NORTH_DEG - heading_deg, "contact": contact}
    made = Aviary(vehicle, {"rate_hz": 50.0, "control_hz": 50, "step_hz": 320})
    made.advance(0.1)
    if height_m > 0.0:
        made.hover_at(height_m)
    return made


def ned(p_m: FloatArray) -> FloatArray:
    """Return positions (n, 3) as NED."""
    turned: FloatArray = p_m[:, [1, 0, 2]] * (1.0, 1.0, -1.0)
    return turned


def test_every_flight_of_airsim_is_a_case() -> None:
    assert set(CASES) == set(own_flights())


@pytest.mark.parametrize("name", CASES)
def test_a_move_is_flown_as_airsim_flies_it(name: str) -> None:
    """Within 0.1 m to its end, and with its result.

    Beyond the end too, where the vehicle flies on until its command times out; AirSim's last
    command is up to one turn of its caller later.
    """
    case = CASES[name]
    own = own_flights()[name]
    made = hovering(case.height_m, case.heading_deg, floor=isinstance(case.move, LandMove))
    flown = made.fly(case.move)
    assert flown.reached == own.reached
    assert flown.took_s == pytest.approx(own.took_s, rel=0.03)
    track = np.vstack((flown.track, [batch.states()[0] for batch in made.advance(AFTER_S + 0.2)]))
    t_s = PERIOD_S * np.arange(len(track))
    ours_m = np.column_stack([np.interp(own.t_s, t_s, track[:, axis]) for axis in range(3)])
    apart_m = np.linalg.norm(ned(ours_m) - own.p_ned_m, axis=1)
    assert apart_m[own.t_s <= own.took_s].max() < MOST_M
    end_mps = float(np.linalg.norm(flown.track[-1, 3:6]))
    assert apart_m.max() < MOST_M + end_mps * TURN_S


@pytest.mark.parametrize(
    ("speed", "highest_m"), [(1.0, 9.62), (3.0, 10.43), (5.0, 11.62), (10.0, 12.70)]
)
def test_a_climb_overshoots_as_far(speed: float, highest_m: float) -> None:
    """Constant speed to the goal at 10 m; AirLib's own highest points."""
    made = hovering(2.0)
    flown = made.fly(path((0.0, 0.0, -10.0), speed=speed))
    after = np.array([batch.states()[0] for batch in made.advance(3.0)])
    highest = max(flown.track[:, 2].max(), after[:, 2].max())
    assert highest == pytest.approx(highest_m, abs=0.1)


def test_a_landing_from_above_12_m_ends_in_the_air_after_its_timeout() -> None:
    made = hovering(13.0, floor=True)
    flown = made.fly(LandMove(60.0))
    assert (flown.reached, flown.took_s) == (False, pytest.approx(60.0, abs=0.03))  # type: ignore[comparison-overlap]
    assert flown.end_m[2] == pytest.approx(0.725, abs=0.1)


def test_hover_and_short_paths_end_at_once_where_they_are() -> None:
    """A path not longer than its lookahead is not flown, be it within 0.5 m or not.

    Without points it is complete.
    """
    made = hovering(5.0)
    for move in (HoverMove(), path((0.7, 0.0, -5.0), speed=1.0), path((0.0, 2.9, -5.0), speed=5.0)):
        flown = made.fly(move)
        assert (flown.reached, flown.took_s) == (False, 0.0)
    assert made.fly(path(speed=1.0)).reached
    made.advance(5.0)
    np.testing.assert_allclose(made.state[:3], (0.0, 0.0, 5.0), atol=0.1)


def test_a_path_out_of_time_or_cancelled_answers_false_near_its_goal_too() -> None:
    made = hovering(5.0)
    flown = made.fly(PathMove(((0.0, 10.0, 5.0),), 1.0, 10.0))
    assert not flown.reached and flown.took_s == pytest.approx(10.0, abs=0.021)
    assert np.linalg.norm(flown.end_m - (0.0, 10.0, 5.0)) < 1.0
    number = made.start(path((0.0, 0.0, -5.0), speed=1.0))
    made.advance(1.0)
    made.order(CancelOrder(0))
    assert not made.wait_for(number).reached


def test_a_turn_across_180_degrees_waits_for_its_timeout() -> None:
    """AirSim compares headings without wrapping: -179.9 degrees are 358 away from 178."""
    made = hovering(5.0, heading_deg=-179.9)
    flown = made.fly(TurnMove(math.radians(NORTH_DEG - 178.0), math.radians(3.0), 0.5))
    assert not flown.reached
    ours = Aviary(
        {"p_m": (0.0, 0.0, 2.0), "yaw_deg": NORTH_DEG + 179.9, "autopilot": {"kind": "hover"}}
    )
    ours.advance(0.5)
    assert ours.fly(TurnMove(math.radians(NORTH_DEG - 178.0), math.radians(3.0), 0.5)).reached


def test_a_position_is_held_along_north_and_east_only_where_the_nose_points_there() -> None:
    """AirSim drops the cross terms of a position error.

    With the nose to the east nothing brings a vehicle back.
    """
    for heading_deg, comes_back in ((0.0, True), (90.0, False)):
        made = hovering(5.0, heading_deg)
        made.fly(VelocityMove((0.0, 2.0, 0.0), 1.0))
        made.advance(0.06)
        held = made.state[1]
        made.advance(8.0)
        assert (abs(made.state[1] - held) < 0.2) == comes_back, made.state[1] - held


def test_tilted_moves_at_a_height_reach_it() -> None:
    for move in (
        AttitudeMove(0.1, 0.05, YawGoal(), 3.0, z_m=6.0),
        RatesMove((0.0, 0.0, 0.5), 3.0, z_m=6.0),
    ):
        flown = hovering(5.0).fly(move)
        assert flown.reached
        assert flown.end_m[2] == pytest.approx(6.0, abs=0.35)


def test_vehicles_without_compat_brake_and_reach_heights() -> None:
    """The default: at rest within 0.2 m of the goal, with the result true."""
    made = in_air(2.0)
    flown = made.fly(path((0.0, 0.0, -10.0), speed=5.0))
    assert flown.reached
    made.advance(3.0)
    assert made.state[2] == pytest.approx(10.0, abs=0.2)
