"""Every model flown along trajectories: the errors that the page states."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.car import DubinsCar
from vil_simulation.vehicles.control.geometric import Gains
from vil_simulation.vehicles.control.models import Pilot, pilot_of, tracking
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.flightmare.parameters import KINGFISHER
from vil_simulation.vehicles.model import Model
from vil_simulation.vehicles.trajectories import Trajectory, circle, hover, lemniscate, minimum_snap

GATES = (
    (0.0, 0.0, 1.5),
    (5.0, 2.0, 2.0),
    (10.0, 0.0, 1.5),
    (12.0, 5.0, 2.5),
    (6.0, 7.0, 1.5),
    (0.0, 5.0, 2.0),
)
PATHS: tuple[Trajectory, ...] = (
    circle(3.0, 2.0, center_m=(0.0, 0.0, 2.0)),
    lemniscate(10.0, 4.0, turns=1.5, center_m=(0.0, 0.0, 2.0)),
    minimum_snap(GATES, speed_mps=3.0, yaw_rad="along"),
)

# Steps of the model between commands; then for circle, lemniscate and gates the rms and the largest
# error, in mm, as docs/reference/vehicles/trajectories.md states them.
FLOWN: dict[str, tuple[Model, int, tuple[tuple[float, float], ...]]] = {
    "FlightGoggles, motor speeds": (FlightGogglesMulticopter(), 4, ((1, 1), (6, 11), (3, 5))),
    "FlightGoggles, rates": (FlightGogglesMulticopter(mode="rates"), 4, ((2, 6), (16, 34), (4, 7))),
    "Flightmare, thrusts": (FlightmareQuadrotor(), 4, ((1, 4), (19, 33), (12, 22))),
    "Flightmare, rates": (FlightmareQuadrotor(mode="rates"), 4, ((1, 4), (18, 32), (12, 22))),
    "Kingfisher, thrusts": (FlightmareQuadrotor(KINGFISHER), 4, ((1, 3), (11, 19), (6, 11))),
    "AirSim generic, rotors": (AirsimMultirotor(), 1, ((3, 3), (7, 10), (11, 22))),
    "AirSim hexacopter, rotors": (AirsimMultirotor("hexa_x"), 1, ((4, 4), (10, 15), (16, 31))),
    "AirSim F450, rotors": (AirsimMultirotor("f450"), 1, ((8, 9), (21, 31), (36, 69))),
}


def hovering(model: Model, n: int) -> Fleet:
    """Vehicles whose rotors carry them."""
    fleet = Fleet(model, n)
    if isinstance(model, FlightmareQuadrotor):
        fleet.place(rotors_radps=model.parameters.rotor_speed_radps(np.array(model.hover_thrust_n)))
    if isinstance(model, AirsimMultirotor):
        fleet.place(rotors_control=model.airframe.hover_control(model.gravity_mps2))
    return fleet


@pytest.mark.parametrize("name", FLOWN)
def test_models_stay_on_their_trajectories(name: str) -> None:
    model, steps, bounds = FLOWN[name]
    controller = tracking(model, PATHS)
    table = controller.table
    fleet = hovering(model, len(PATHS))
    begin = table.at(0.0)
    attitude = Rotation.from_rotvec(begin.yaw_rad[:, None] * (0.0, 0.0, 1.0)).as_quat()
    fleet.place(p_world_m=begin.p_world_m, q_world_body=attitude)
    errors = []
    while fleet.t_ns < table.durations_s.max() * 1e9:
        t_s = fleet.t_ns * 1e-9
        reference = table.at(t_s)
        away = np.linalg.norm(fleet.x[:, :3] - reference.p_world_m, axis=1)
        errors.append(np.where(t_s <= table.durations_s, away, np.nan))
        fleet.command(controller.follow(reference, fleet.x))
        fleet.advance(steps)
    rms_mm = 1e3 * np.sqrt(np.nanmean(np.square(errors), axis=0))
    most_mm = 1e3 * np.nanmax(errors, axis=0)
    assert (np.column_stack((rms_mm, most_mm)) <= np.array(bounds) + 0.5).all()


@pytest.mark.parametrize(
    "model",
    [
        FlightGogglesMulticopter(),
        FlightGogglesMulticopter(mode="rates"),
        FlightmareQuadrotor(),
        FlightmareQuadrotor(mode="rates"),
        AirsimMultirotor(),
    ],
    ids=lambda model: f"{type(model).__name__}-{model.mode}",
)
def test_thrown_upside_down_they_come_back(model: Model) -> None:
    tilts = np.array([[np.pi, 0.0, 0.0], [0.0, 3.1, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, np.pi]])
    controller = tracking(model, [hover((0.0, 0.0, 20.0))] * len(tilts))
    fleet = hovering(model, len(tilts))
    fleet.place(p_world_m=(0.0, 0.0, 20.0), q_world_body=Rotation.from_rotvec(tilts).as_quat())
    fleet.place(v_world_mps=(1.0, -2.0, 0.5), w_body_radps=(1.0, 0.0, -1.0))
    lowest = 20.0
    steps = 1 if fleet.dt_s > 0.002 else 4
    while fleet.t_ns < 6e9:
        fleet.command(controller(0.0, fleet.x))
        fleet.advance(steps)
        lowest = min(lowest, float(fleet.x[:, 2].min()))
    assert lowest > 5.0
    np.testing.assert_allclose(fleet.x[:, :3], np.tile((0.0, 0.0, 20.0), (4, 1)), atol=0.05)
    np.testing.assert_allclose(fleet.x[:, 3:6], 0.0, atol=0.05)
    np.testing.assert_allclose(np.abs(fleet.x[:, 9]), 1.0, atol=1e-3)


def test_a_model_of_ones_own_brings_its_pilot() -> None:
    class Heavy(FlightmareQuadrotor):
        """Commanded by the share of its thrust."""

    def pilot(model: Heavy) -> Pilot:
        airframe = pilot_of.dispatch(FlightmareQuadrotor)(model).airframe
        most = airframe.most
        return Pilot(
            airframe,
            {
                "thrusts": lambda wanted: (
                    airframe.within_limits(wanted.thrust_n, wanted.torque_body_nm) / most
                )
            },
            {"thrusts": Gains()},
        )

    pilot_of.register(Heavy)(pilot)
    hover_share = tracking(Heavy(), hover((0.0, 0.0, 0.0)))(0.0, Heavy().initial(1))
    np.testing.assert_allclose(
        hover_share, np.full((1, 4), Heavy().hover_thrust_n / Heavy().thrust_limits_n[1])
    )


def test_unknown_modes_and_models_are_named() -> None:
    with pytest.raises(ValueError, match="motor_speeds, rates, not in 'waypoint'"):
        tracking(FlightGogglesMulticopter(mode="waypoint"), hover((0.0, 0.0, 0.0)))
    with pytest.raises(TypeError, match="no pilot is known for DubinsCar"):
        tracking(DubinsCar(), hover((0.0, 0.0, 0.0)))
