"""Set-points in the world become commands in each model's own mode and room."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.interfaces.setpoints import (
    PositionSetpoint,
    RatesSetpoint,
    Setpoint,
    VelocitySetpoint,
    command_of,
)
from vil_bridge.interfaces.vehicle_commands import VehicleState
from vil_simulation.source.model_factory import ModelFactory
from vil_simulation.source.vehicle_config import VehicleConfig

HALF = math.sqrt(0.5)
T_WORLD_ROOM = Transform.of((10.0, 20.0, 0.0), (0.0, 0.0, HALF, HALF))
"""The room's x axis points to the world's y axis."""


def state(model: str, yaw_room_rad: float = 0.0) -> VehicleState:
    q = (0.0, 0.0, math.sin(yaw_room_rad / 2), math.cos(yaw_room_rad / 2))
    rest = (0.0, 0.0, 0.0)
    modes = ModelFactory(VehicleConfig(model=model)).modes
    return VehicleState(
        "quad", "sim", model, 0, 0, "", "autopilot", True, rest, rest, q, rest, modes=modes
    )


def values_of(
    model: str, setpoint: Setpoint, yaw_room_rad: float = 0.0
) -> tuple[str, dict[str, object]]:
    command = command_of(state(model, yaw_room_rad), setpoint, T_WORLD_ROOM)
    assert (command.action, command.t_ns) == ("fly", None)
    assert isinstance(command.values, dict)
    return command.mode, {
        name: pytest.approx(value, abs=1e-12) for name, value in command.values.items()
    }


IN_WORLD = VelocitySetpoint((0.0, 2.0, 0.5), 0.3)
AHEAD = VelocitySetpoint((2.0, 1.0, 0.5), 0.3, in_heading=True)


@pytest.mark.parametrize("model", ["flightgoggles", "flightmare"])
def test_velocities_of_the_world_and_of_the_heading(model: str) -> None:
    assert values_of(model, IN_WORLD) == (
        "velocity",
        {"v_world_mps": (2.0, 0.0, 0.5), "yaw_radps": 0.3},
    )
    turned = values_of(model, AHEAD, yaw_room_rad=math.pi / 2)
    assert turned == ("velocity", {"v_world_mps": (-1.0, 2.0, 0.5), "yaw_radps": 0.3})


def test_the_heading_of_a_tilted_vehicle_is_that_of_its_nose() -> None:
    tilted = replace(
        state("flightgoggles"), q_world_body=tuple(q_from_euler_zyx(0.5, -0.4, 0.9).tolist())
    )
    command = command_of(
        tilted, VelocitySetpoint((2.0, 0.0, 0.0), 0.0, in_heading=True), T_WORLD_ROOM
    )
    assert isinstance(command.values, dict)
    expected = (2.0 * math.cos(0.5), 2.0 * math.sin(0.5), 0.0)
    assert command.values["v_world_mps"] == pytest.approx(expected, abs=1e-12)


def test_velocities_of_other_models() -> None:
    own = {
        "v_world_mps": (2.0, 0.0, 0.5),
        "yaw_rad": 0.0,
        "yaw_rate_radps": 0.3,
        "yaw_by_rate": 1.0,
    }
    assert values_of("airsim", IN_WORLD) == ("velocity", own)
    assert values_of("kinematic", IN_WORLD) == (
        "twist",
        {"v_world_mps": (2.0, 0.0, 0.5), "w_body_radps": (0, 0, 0.3)},
    )
    assert values_of("car", AHEAD, yaw_room_rad=0.7) == (
        "speed",
        {"speed_mps": 2.0, "yaw_rate_radps": 0.3},
    )
    assert values_of("car", IN_WORLD, yaw_room_rad=math.pi)[1] == {
        "speed_mps": -2.0,
        "yaw_rate_radps": 0.3,
    }


def test_positions_are_in_the_room() -> None:
    setpoint = PositionSetpoint((7.0, 21.0, 1.5), 1.0)
    mode, values = values_of("flightgoggles", setpoint)
    assert (mode, values) == (
        "position",
        {"p_world_m": (1.0, 3.0, 1.5), "yaw_rad": 1.0 - math.pi / 2},
    )
    _, values = values_of("airsim", setpoint)
    more = {"yaw_rad": 1.0 - math.pi / 2, "yaw_rate_radps": 0.0, "yaw_by_rate": 0.0}
    assert values == {"p_world_m": (1.0, 3.0, 1.5)} | more
    world = T_WORLD_ROOM.apply(np.array([1.0, 3.0, 1.5]))
    assert world.tolist() == pytest.approx(setpoint.p_world_m)


@pytest.mark.parametrize(
    ("model", "rates", "thrust"),
    [
        ("flightgoggles", "w_body_radps", "thrust_n"),
        ("flightmare", "w_body_radps", "thrust_mps2"),
        ("airsim", "rates_body_radps", "throttle"),
    ],
)
def test_rates_have_the_unit_of_the_mode(model: str, rates: str, thrust: str) -> None:
    mode, values = values_of(model, RatesSetpoint((0.1, -0.2, 0.3), 0.6))
    assert (mode, values) == ("rates", {rates: (0.1, -0.2, 0.3), thrust: 0.6})


def test_what_a_model_cannot_hold_is_refused() -> None:
    with pytest.raises(
        ValueRefused, match="quad has no mode rates that holds this set-point; its modes: speed"
    ):
        values_of("car", RatesSetpoint((0.0, 0.0, 0.0), 9.81))
    with pytest.raises(ValueRefused, match="no mode position or waypoint"):
        values_of("car", PositionSetpoint((0.0, 0.0, 0.0), 0.0))
    for broken in (math.nan, math.inf):
        with pytest.raises(ValueRefused, match="finite"):
            values_of("airsim", VelocitySetpoint((0.0, broken, 0.0), 0.0))
