"""AirSim's moves flown by its model.

What airsim_clients.md and airsim_models.md say of their ends.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.airsim_moves import Aviary, in_air
from tests.support.airsim_paths import circle_m, hausdorff_m, square_m
from vil_bridge.interfaces.vehicle_moves import (
    AttitudeMove,
    HomeMove,
    HoverMove,
    LandMove,
    PathMove,
    RatesMove,
    RotorsMove,
    TakeoffMove,
    TurnMove,
    TurnRateMove,
    VelocityMove,
    YawGoal,
)
from vil_simulation.source.ipc import (
    ArmCommand,
    CancelOrder,
    FlyCommand,
    MoveReport,
    PlaceOrder,
    Reset,
)

LEVEL = (0.0, 0.0, 0.0, 1.0)
STILL = (0.0, 0.0, 0.0)


def yaw(state: np.ndarray) -> float:
    x, y, z, w = state[6:10]
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def path(*points: tuple[float, float, float], speed: float = 1.0, **more: object) -> PathMove:
    return PathMove(points, speed, 60.0, **more)  # type: ignore[arg-type]


def test_takeoff_ends_at_two_metres() -> None:
    """The original ends at 1.53 m after 3.4 s: it does not correct the last half metre."""
    made = Aviary()
    made.advance(0.5)
    flown = made.fly(TakeoffMove(20.0))
    assert flown.reached
    assert 3.4 < flown.took_s < 5.5
    assert 1.53 < flown.end_m[2] <= 2.0
    assert flown.track[:, 2].max() <= 2.0
    made.advance(3.0)
    np.testing.assert_allclose(made.state[:6], [0.0, 0.0, flown.end_m[2], 0.0, 0.0, 0.0], atol=0.05)


def test_takeoff_is_refused_while_it_moves() -> None:
    made = in_air()
    made.order(PlaceOrder(0, (0.0, 0.0, 5.0), LEVEL, (0.5, 0.0, 0.0), STILL))
    flown = made.fly(TakeoffMove(20.0))
    assert not flown.reached
    assert (
        flown.problem
        == "Cannot perform takeoff because vehicle is already moving with velocity 0.500000 m/s"
    )
    assert flown.took_s == 0.0


@pytest.mark.parametrize(("height_m", "seconds"), [(2.0, 9.7), (10.0, 49.0)])
def test_landing_sinks_slowly_and_stands(height_m: float, seconds: float) -> None:
    made = in_air(height_m, floor=True)
    flown = made.fly(LandMove(60.0))
    assert flown.reached
    assert flown.took_s == pytest.approx(seconds, rel=0.02)
    made.advance(2.0)
    np.testing.assert_allclose(made.state[:6], 0.0, atol=1e-6)


@pytest.mark.parametrize("frame", ["f450", "blacksheep", "octo_x"])
def test_every_frame_lands(frame: str) -> None:
    """With rotors that hover at less than half their control too.

    They begin to sink, not to climb.
    """
    made = in_air(1.0, floor=True, preset=frame)
    flown = made.fly(LandMove(60.0))
    assert flown.reached
    assert flown.took_s == pytest.approx(5.1, abs=0.6)
    assert flown.end_m[2] == pytest.approx(0.0, abs=1e-3)


def test_a_landing_from_above_12_m_ends_in_the_air() -> None:
    flown = in_air(13.0).fly(LandMove(60.0))
    assert not flown.reached and flown.took_s == pytest.approx(60.0, abs=0.03)
    assert 0.5 < flown.end_m[2] < 1.5


@pytest.mark.parametrize("speed", [1.0, 3.0, 5.0, 10.0])
def test_a_path_ends_within_half_a_metre_at_rest(speed: float) -> None:
    made = in_air(2.0)
    flown = made.fly(path((12.0, -5.0, 10.0), speed=speed))
    assert flown.reached
    goal = np.array([12.0, -5.0, 10.0])
    assert np.linalg.norm(flown.end_m - goal) < 0.2
    after = np.array([b.states()[0] for b in made.advance(3.0)])
    along = (goal - (0.0, 0.0, 2.0)) / np.linalg.norm(goal - (0.0, 0.0, 2.0))
    overshoot = ((np.vstack((flown.track, after))[:, :3] - goal) @ along).max()
    assert overshoot < 0.1  # the original: up to 3 m
    assert np.linalg.norm(after[-1, :3] - goal) < 0.2
    top = np.linalg.norm(flown.track[:, 3:6], axis=1).max()
    assert top <= 1.15 * speed
    if speed <= 3.0:
        assert top >= 0.97 * speed


@pytest.mark.parametrize("frame", ["generic", "fla"])
def test_circle_and_square_of_the_paper(frame: str) -> None:
    around = circle_m(np.linspace(0.0, 40.0, 81))
    made = in_air(2.0, preset=frame, p_m=[10.0, 0.0, 2.0])
    flown = made.fly(
        path(*((float(x), float(y), 2.0) for x, y in around[1:]), speed=10.0 * math.tau / 40.0)
    )
    assert flown.reached
    # At most 0.60.
    assert hausdorff_m(flown.track[:, :2], circle_m(np.arange(0.0, 40.0, 0.01))) < 0.10
    assert np.abs(flown.track[:, 2] - 2.0).max() < 0.1

    made = in_air(2.0, preset=frame)
    corners = ((5.0, 0.0, 2.0), (5.0, 5.0, 2.0), (0.0, 5.0, 2.0), (0.0, 0.0, 2.0))
    flown = made.fly(path(*corners, speed=1.2))
    assert flown.reached
    # At most 0.45.
    assert hausdorff_m(flown.track[:, :2], square_m(np.arange(0.0, 20.0 / 1.2, 0.01))) < 0.25


@pytest.mark.parametrize("wind_mps", [(5.0, 0.0, 0.0), (6.0, 8.0, 0.0)])
def test_a_path_against_the_wind_ends_within_half_a_metre(
    wind_mps: tuple[float, float, float],
) -> None:
    made = in_air(5.0, wind={"mean_mps": wind_mps, "gusts_mps": 5.0})
    flown = made.fly(path((-10.0, 3.0, 7.0), speed=3.0))
    assert flown.reached
    assert np.linalg.norm(flown.end_m - (-10.0, 3.0, 7.0)) < 0.5


def test_a_path_not_longer_than_its_lookahead_ends_at_once() -> None:
    made = in_air()
    for goal, reached, speed in (
        (0.7, False, 1.0),
        (0.4, True, 1.0),
        (2.9, False, 5.0),
        (0.0, True, 1.0),
    ):
        flown = made.fly(path((goal, 0.0, 2.0), speed=speed))
        assert (flown.reached, flown.took_s) == (reached, 0.0)
        np.testing.assert_allclose(flown.end_m, [0.0, 0.0, 2.0], atol=0.03)
    assert made.fly(path()).reached


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"lookahead_m": 0.0}, "lookahead distance cannot be 0"),
        (
            {"lookahead_m": 0.6, "speed": 50.0},
            "lookahead value 0.600000 is too small for velocity 50.000000. It must be at "
            "least 1.000000",
        ),
        (
            {"lookahead_m": 0.4},
            "lookahead value 0.400000 is smaller than drone's distance accuracy 0.500000.",
        ),
        (
            {"yaw": YawGoal(0.0, by_rate=True, ahead=True)},
            "Yaw cannot be specified as rate if drivetrain is ForwardOnly",
        ),
    ],
)
def test_wrong_paths_are_refused_in_airsims_words(more: dict[str, object], problem: str) -> None:
    flown = in_air().fly(path((9.0, 0.0, 2.0), **more))  # type: ignore[arg-type]
    assert (flown.reached, flown.problem, flown.took_s) == (False, problem, 0.0)


def test_a_path_in_time_and_out_of_time() -> None:
    flown = in_air().fly(PathMove(((50.0, 0.0, 2.0),), 1.0, 3.0))
    assert not flown.reached and flown.took_s == pytest.approx(3.0, abs=0.021)


def test_the_nose_points_ahead_on_a_path() -> None:
    made = in_air()
    flown = made.fly(path((0.0, 8.0, 2.0), yaw=YawGoal(0.25, by_rate=False, ahead=True)))
    assert yaw(flown.track[-200]) == pytest.approx(math.pi / 2 + 0.25, abs=0.05)
    assert flown.reached


def test_home_is_the_start() -> None:
    made = in_air()
    made.fly(path((3.0, 1.0, 3.0)))
    flown = made.fly(HomeMove(60.0))
    assert flown.reached
    np.testing.assert_allclose(flown.end_m, [0.0, 0.0, 2.0], atol=0.2)


def test_hover_ends_at_once_and_holds() -> None:
    made = in_air()
    made.start(VelocityMove((1.0, 0.0, 0.0), 60.0))
    made.advance(1.0)
    here = made.state[0]
    flown = made.fly(HoverMove())
    assert (flown.reached, flown.problem, flown.took_s) == (False, "", 0.0)
    made.advance(6.0)
    assert made.state[0] == pytest.approx(here, abs=0.6)
    assert np.linalg.norm(made.state[3:6]) < 0.05


def test_a_velocity_is_held_for_its_duration_and_not_limited() -> None:
    made = in_air(20.0)
    flown = made.fly(VelocityMove((12.0, 0.0, 0.5), 5.0, YawGoal(0.3)))
    assert flown.reached and flown.took_s == pytest.approx(5.0)
    assert flown.track[-1, 3] > 10.0
    assert flown.track[-1, 5] == pytest.approx(0.5, abs=0.1)
    assert flown.track[-1, 12] == pytest.approx(0.3, abs=0.02)


def test_a_velocity_in_the_heading_of_the_start() -> None:
    made = in_air(yaw_deg=90.0)
    flown = made.fly(VelocityMove((1.0, 0.5, 0.0), 4.0, YawGoal(0.5), in_heading=True))
    np.testing.assert_allclose(flown.track[-1, 3:6], [-0.5, 1.0, 0.0], atol=0.1)


def test_a_velocity_at_a_height() -> None:
    made = in_air()
    flown = made.fly(VelocityMove((1.0, 0.0, 99.0), 6.0, z_m=4.0))
    assert flown.reached
    assert flown.end_m[2] == pytest.approx(4.0, abs=0.05)


def test_the_nose_points_ahead_with_a_velocity_unless_it_is_slow() -> None:
    ahead = YawGoal(0.0, by_rate=False, ahead=True)
    flown = in_air().fly(VelocityMove((0.0, 1.0, 0.0), 3.0, ahead))
    assert yaw(flown.track[-1]) == pytest.approx(math.pi / 2, abs=0.02)
    flown = in_air().fly(VelocityMove((0.0, 0.4, 0.0), 3.0, ahead))
    assert yaw(flown.track[-1]) == pytest.approx(0.0, abs=0.02)


def test_moves_without_duration() -> None:
    made = in_air()
    for duration_s in (0.0, -1.0):
        assert made.fly(VelocityMove(STILL, duration_s)).reached
        assert not made.fly(VelocityMove(STILL, duration_s, z_m=2.0)).reached
        assert made.fly(VelocityMove(STILL, duration_s, z_m=2.0, in_heading=True)).reached
        assert made.fly(TurnRateMove(1.0, duration_s)).reached
        assert made.fly(TurnMove(1.0, 0.1, duration_s)).reached
        assert made.fly(RatesMove(STILL, duration_s, 0.6)).reached
        assert made.fly(AttitudeMove(0.0, 0.0, YawGoal(), duration_s, 0.6)).reached
        assert made.fly(RotorsMove((0.6,) * 4, duration_s)).reached
        assert not made.fly(LandMove(duration_s)).reached


@pytest.mark.parametrize("goal", [1.5, -3.0, math.pi])
def test_a_turn_ends_within_its_margin_at_rest(goal: float) -> None:
    """To 180 degrees too: the original waits there for ever."""
    made = in_air()
    flown = made.fly(TurnMove(goal, 0.05, 20.0))
    assert flown.reached
    assert abs(math.remainder(yaw(flown.track[-1]) - goal, math.tau)) <= 0.05
    assert abs(flown.track[-1, 12]) <= 0.011
    np.testing.assert_allclose(flown.end_m, [0.0, 0.0, 2.0], atol=0.05)


def test_a_rate_of_turn_is_held() -> None:
    made = in_air()
    flown = made.fly(TurnRateMove(-0.8, 4.0))
    assert flown.reached and flown.took_s == pytest.approx(4.0)
    assert flown.track[-1, 12] == pytest.approx(-0.8, abs=0.02)
    np.testing.assert_allclose(flown.end_m, [0.0, 0.0, 2.0], atol=0.05)


def test_angles_at_a_height_and_with_a_throttle() -> None:
    made = in_air()
    flown = made.fly(AttitudeMove(0.1, 0.05, YawGoal(1.0, by_rate=False), 2.0, z_m=3.0))
    assert flown.reached
    assert flown.track[-1, 2] == pytest.approx(3.0, abs=0.35)
    assert yaw(flown.track[-1]) == pytest.approx(1.0, abs=0.05)
    up = in_air()
    assert up.fly(AttitudeMove(0.0, 0.0, YawGoal(), 1.0, throttle=0.8)).track[-1, 5] > 2.0


def test_rates_at_a_height_and_with_a_throttle() -> None:
    made = in_air()
    flown = made.fly(RatesMove((0.0, 0.0, 0.7), 3.0, z_m=2.0))
    assert flown.reached
    assert flown.track[-1, 12] == pytest.approx(0.7, abs=0.02)
    assert flown.end_m[2] == pytest.approx(2.0, abs=0.1)
    assert in_air().fly(RatesMove(STILL, 1.0, throttle=0.8)).track[-1, 5] > 2.0


def test_rotors_get_their_controls() -> None:
    made = in_air()
    flown = made.fly(RotorsMove((0.7, 0.7, 0.7, 0.7), 1.0))
    assert flown.reached
    assert flown.track[-1, 5] > 1.0


def test_a_new_move_ends_the_running_one_and_so_does_every_other_order() -> None:
    for order in (
        CancelOrder(0),
        FlyCommand(0, "position", (0.0, 0.0, 2.0, 0.0, 0.0, 0.0)),
        Reset(0),
        PlaceOrder(0, (1.0, 0.0, 2.0), LEVEL, STILL, STILL),
    ):
        made = in_air()
        number = made.start(VelocityMove((1.0, 0.0, 0.0), 60.0))
        made.advance(0.5)
        made.order(order)
        assert made.simulation.has_news
        assert made.simulation.batch().ends == [MoveReport(number, reached=False)]
    made = in_air()
    first = made.start(VelocityMove((1.0, 0.0, 0.0), 60.0))
    second = made.start(VelocityMove((1.0, 0.0, 0.0), 0.5))
    flown = made.wait_for(first)
    assert not flown.reached
    assert made.wait_for(second).reached


def test_in_flight_it_holds_its_position_60_ms_after_a_cancel() -> None:
    made = in_air()
    made.start(VelocityMove((0.0, 0.0, 1.0), 60.0))
    made.advance(2.0)
    made.order(CancelOrder(0))
    made.advance(0.06)
    there = made.state[2]
    made.advance(5.0)
    assert made.state[2] == pytest.approx(there, abs=0.15)
    assert abs(made.state[5]) < 0.02


def test_disarmed_motors_do_not_obey_a_move_and_a_pilot_takes_over_from_one() -> None:
    made = Aviary()
    made.order(ArmCommand(0, armed=False))
    flown = made.fly(VelocityMove((0.0, 0.0, 1.0), 1.0))
    assert (flown.reached, flown.end_m[2]) == (True, pytest.approx(0.0, abs=1e-3))
    made = in_air()
    made.fly(VelocityMove((0.0, 0.0, 1.0), 1.0))
    made.order(FlyCommand(0, "velocity", (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)))
    made.advance(0.4)
    assert made.state[3] > 0.2
    made.advance(5.0)  # the pilot fell silent after half a second
    assert np.linalg.norm(made.state[3:6]) < 0.05


def test_landed_by_airsims_rule() -> None:
    made = Aviary()
    made.advance(0.5)
    assert landed(made)
    made.fly(TakeoffMove(20.0))
    assert not landed(made)
    made.fly(LandMove(60.0))
    made.advance(1.0)
    assert not landed(made)  # its rotors idle at 0.3
    made.order(ArmCommand(0, armed=False))
    made.advance(0.5)
    assert landed(made)
    assert not landed(in_air())


def landed(made: Aviary) -> bool:
    return made.simulation.groups[0].notes()[0].landed


def test_the_rate_of_control_and_steps_changes_little() -> None:
    for source in ({"control_hz": 20, "rate_hz": 20.0}, {"step_hz": 330, "rate_hz": 30.0}):
        made = Aviary({"p_m": [0.0, 0.0, 2.0], "autopilot": {"kind": "hover"}}, source)
        made.advance(0.5)
        flown = made.fly(path((5.0, 0.0, 2.0), speed=2.0))
        assert flown.reached
        assert flown.took_s == pytest.approx(4.9, abs=0.3)
