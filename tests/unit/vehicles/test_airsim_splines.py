"""Splines of AirSim's drone racing lab, flown by AirSim's model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.support.airsim_moves import in_air
from vil_bridge.core.errors import ValueRefused
from vil_bridge.interfaces.vehicle_moves import Point, SplineMove, TrackerGains, VelocityMove
from vil_simulation.source.move_limits import check_move
from vil_simulation.vehicles.airsim.spline_flight import Spline

TILTED_MPS2 = 9.80665 * math.tan(math.pi / 5.5)
COURSE: tuple[Point, ...] = (
    (10.0, 0.0, 3.0),
    (20.0, 5.0, 4.0),
    (25.0, 15.0, 5.0),
    (20.0, 25.0, 4.0),
    (5.0, 25.0, 3.0),
)


@pytest.mark.parametrize(("speed", "most_missed_m"), [(15.0, 0.5), (4.0, 0.15)])
def test_a_course_is_flown_through_its_points(speed: float, most_missed_m: float) -> None:
    flown = in_air(3.0).fly(SplineMove(COURSE, speed, 7.5))
    assert flown.reached
    np.testing.assert_allclose(flown.end_m, COURSE[-1], atol=0.5)
    for point in COURSE:
        assert np.linalg.norm(flown.track[:, :3] - point, axis=1).min() < most_missed_m
    assert np.linalg.norm(flown.track[:, 3:6], axis=1).max() < speed + 0.2


def test_the_vehicle_looks_along_its_way() -> None:
    made = in_air(3.0)
    made.start(SplineMove(((0.0, 20.0, 3.0),), 5.0, 3.0))
    made.advance(4.0)
    z, w = made.state[8:10].tolist()
    assert 2.0 * math.atan2(z, w) == pytest.approx(0.5 * math.pi, abs=0.1)


def test_a_curve_keeps_its_limits_and_begins_with_the_motion_of_the_vehicle() -> None:
    speed, most = 6.0, 3.0
    curve = Spline(SplineMove(COURSE, speed, most), (0.0, 0.0, 3.0), (1.0, 0.5, 0.0), TILTED_MPS2)
    times = np.linspace(0.0, curve.duration_s, 200)
    velocities = np.array([curve.command(t, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))[1] for t in times])
    assert velocities[0] == pytest.approx((1.0, 0.5, 0.0))
    speeds = np.linalg.norm(velocities, axis=1)
    assert speeds.max() < 1.02 * speed
    assert (
        np.linalg.norm(np.diff(velocities, axis=0), axis=1).max() / np.diff(times)[0] < 1.02 * most
    )
    # One of the limits is what the curve needs: it is no slower than that.
    assert (
        speeds.max() > 0.8 * speed
        or np.linalg.norm(np.diff(velocities, axis=0), axis=1).max() > 0.9 * most
    )


def test_a_vehicle_that_is_faster_than_the_limit_slows_down_on_its_way() -> None:
    curve = Spline(SplineMove(COURSE, 2.0, 3.0), (0.0, 0.0, 3.0), (8.0, 0.0, 0.0), TILTED_MPS2)
    assert 8.0 < curve.duration_s < 60.0


def test_velocities_at_the_points_are_flown() -> None:
    points, velocities = ((8.0, 0.0, 3.0), (16.0, 4.0, 3.0)), ((4.0, 1.0, 0.0), (3.0, 2.0, 0.0))
    flown = in_air(3.0).fly(SplineMove(points, 15.0, 7.5, velocities))
    assert flown.reached
    for point, velocity in zip(points, velocities, strict=True):
        nearest = int(np.linalg.norm(flown.track[:, :3] - point, axis=1).argmin())
        np.testing.assert_allclose(flown.track[nearest, 3:6], velocity, atol=1.0)


def test_weaker_gains_leave_more_of_an_error() -> None:
    """A gust of the start: the vehicle moves across the first stretch."""
    missed = []
    for factor in (1.0, 0.2):
        made = in_air(3.0, wind={"mean_mps": [0.0, 4.0, 0.0]})
        gains = TrackerGains(cross=factor, cross_speed=factor)
        flown = made.fly(SplineMove(((20.0, 0.0, 3.0),), 4.0, 2.0, gains=gains))
        missed.append(float(np.abs(flown.track[:, 1]).max()))
    assert missed[1] > 1.3 * missed[0]


def test_a_new_move_ends_it() -> None:
    made = in_air(3.0)
    number = made.start(SplineMove(COURSE, 5.0, 3.0))
    made.advance(1.0)
    made.start(VelocityMove((0.0, 0.0, 0.0), 1.0))
    assert not made.wait_for(number).reached


def test_no_points_are_flown_at_once() -> None:
    assert in_air(3.0).fly(SplineMove((), 5.0, 3.0)).reached
    assert in_air(3.0).fly(SplineMove(((0.0, 0.0, 3.0),), 5.0, 3.0)).reached


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"points_m": ((0.0, 0.0, 0.0),) * 201}, "at most 200 points"),
        ({"v_mps": ((0.0, 0.0, 0.0),) * 2}, "one for each"),
        ({"speed_mps": 0.0}, "speed_mps must be at least"),
        ({"acceleration_mps2": -1.0}, "acceleration_mps2 must be at least"),
        ({"gains": TrackerGains(cross=math.nan)}, "gains must be from"),
    ],
)
def test_what_cannot_be_flown_is_refused(fields: dict[str, Any], text: str) -> None:
    given = {"points_m": COURSE, "speed_mps": 5.0, "acceleration_mps2": 3.0, **fields}
    with pytest.raises(ValueRefused, match=text):
        check_move(SplineMove(**given), 4)
