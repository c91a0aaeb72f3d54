"""Motors that differ.

Dead ones, weak ones, slow ones, in the equations, in the kernels and in the configuration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.unit.adapters.test_simulated_simulation import SECOND, body, simulation
from vil_bridge.core.types import FloatArray
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.vehicles.airsim.airframes import FRAMES
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.fleet import Engine, Fleet
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.flightmare.parameters import AGILICIOUS
from vil_simulation.vehicles.model import Model
from vil_simulation.vehicles.multicopter import MulticopterParameters

GOGGLES = MulticopterParameters(
    thrust_ns2=(1.9e-6, 1.7e-6, 1.8e-6, 2.0e-6),
    torque_nms2=(2.6e-7, 2.4e-7, 2.5e-7, 2.7e-7),
    motor_time_constant_s=(0.02, 0.04, 0.01, 0.03),
    motor_min_radps=(0.0, 100.0, 0.0, 50.0),
    motor_max_radps=(2200.0, 1200.0, 0.0, 1500.0),
)
MARE = replace(
    AGILICIOUS,
    thrust_scale=(1.0, 0.9, 1.05, 0.8),
    torque_per_thrust_m=(0.012, 0.013, 0.011, 0.014),
    rotor_min_radps=(150.0, 150.0, 150.0, 400.0),
    rotor_max_radps=(2000.0, 1500.0, 0.0, 1900.0),
    motor_time_s=(0.033, 0.05, 0.02, 0.04),
)
SIM = replace(
    FRAMES["generic"],
    rotor_tau_s=(0.005, 0.02, 0.01, 0.03),
    thrust_scale=(1.0, 0.9, 1.1, 0.8),
    torque_scale=(1.0, 1.2, 0.7, 1.1),
    control_max=(1.0, 0.6, 0.0, 0.9),
)
MODELS: dict[str, Callable[[], Model]] = {
    "goggles speeds": lambda: FlightGogglesMulticopter(GOGGLES),
    "goggles rates": lambda: FlightGogglesMulticopter(GOGGLES, mode="rates"),
    "mare thrusts": lambda: FlightmareQuadrotor(MARE),
    "mare rates": lambda: FlightmareQuadrotor(MARE, "rates"),
    "airsim rotors": lambda: AirsimMultirotor(SIM),
    "airsim rates": lambda: AirsimMultirotor(SIM, mode="rates"),
    "airsim compat": lambda: AirsimMultirotor(SIM, mode="rates", compat="airsim"),
}
COMMANDS = {
    "speeds": (900.0, 1600.0, 950.0, 100.0),
    "rates": (0.0, 0.3, -0.2, 0.1),
    "thrusts": (2.0, 6.5, 2.4, 0.05),
    "rotors": (0.5, 0.9, 0.7, 0.6),
}


def flown(model: Model, command: object, engine: Engine, steps: int) -> FloatArray:
    fleet = Fleet(model, 3, engine=engine)
    fleet.place(w_body_radps=(0.1, -0.2, 0.3))
    fleet.command(command)
    fleet.advance(steps)
    return fleet.x


def command_of(name: str) -> tuple[float, ...]:
    kind = name.split()[1].replace("compat", "rates")
    if name == "mare rates":
        return (9.0, 0.3, -0.2, 0.1)
    if name == "goggles rates":
        return (9.8, 0.3, -0.2, 0.1)
    return (
        (0.3, -0.2, 0.1, 0.6) if name.startswith("airsim") and kind == "rates" else COMMANDS[kind]
    )


@pytest.mark.parametrize("name", MODELS)
def test_kernels_agree_with_numpy(name: str) -> None:
    pytest.importorskip("numba")
    reference, compiled = (
        flown(MODELS[name](), command_of(name), engine, 300) for engine in ("numpy", "native")
    )
    np.testing.assert_allclose(compiled, reference, rtol=1e-9, atol=1e-9)
    assert np.abs(reference[:, 10:13]).max() > 0.5, "motors that differ turn the vehicle"


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_one_number_and_four_equal_ones_are_the_same_vehicle(engine: Engine) -> None:
    if engine == "native":
        pytest.importorskip("numba")
    four: dict[str, Any] = {"thrust_ns2": (1.91e-6,) * 4, "motor_time_constant_s": (0.02,) * 4}
    mare: dict[str, Any] = {
        "motor_time_s": (0.033,) * 4,
        "rotor_max_radps": (2000.0,) * 4,
        "thrust_scale": (1.0,) * 4,
    }
    sim: dict[str, Any] = {"rotor_tau_s": (0.005,) * 4, "control_max": (1.0,) * 4}
    pairs: list[tuple[Model, Model, tuple[float, ...]]] = [
        (
            FlightGogglesMulticopter(),
            FlightGogglesMulticopter(MulticopterParameters(**four)),
            COMMANDS["speeds"],
        ),
        (
            FlightmareQuadrotor(AGILICIOUS),
            FlightmareQuadrotor(replace(AGILICIOUS, **mare)),
            COMMANDS["thrusts"],
        ),
        (
            AirsimMultirotor(),
            AirsimMultirotor(replace(FRAMES["generic"], **sim)),
            COMMANDS["rotors"],
        ),
    ]
    for alike, listed, command in pairs:
        assert (
            flown(alike, command, engine, 50).tobytes()
            == flown(listed, command, engine, 50).tobytes()
        )


def test_each_parameter_acts_as_its_law_says() -> None:
    """Forces and torques of settled motors, rotor by rotor."""
    goggles = FlightGogglesMulticopter(GOGGLES)
    x = goggles.initial(1)
    x[:, 13:] = speeds = np.array([[800.0, 900.0, 0.0, 1000.0]])
    rates = goggles.state.split(goggles.derivative(x, speeds, goggles.calm(1)))
    thrusts = np.array(GOGGLES.thrust_ns2) * speeds[0] ** 2
    assert rates["v_world_mps"][0, 2] == pytest.approx(thrusts.sum() - 9.81, rel=1e-12)
    yaw = np.array(GOGGLES.torque_nms2) * speeds[0] ** 2 @ GOGGLES.twists_body[:, 2]
    assert rates["w_body_radps"][0, 2] == pytest.approx(yaw / 0.0069, rel=1e-12)

    mare = FlightmareQuadrotor(MARE)
    wrench = mare.wrench(speeds, mare.calm(1))[0]
    thrusts = np.array(MARE.thrust_scale) * MARE.thrust_map[0] * speeds[0] ** 2
    assert wrench[0] == pytest.approx(thrusts.sum(), rel=1e-12)
    assert wrench[1] == pytest.approx(thrusts @ MARE.rotor_y_m, rel=1e-12)
    assert wrench[3] == pytest.approx(
        thrusts * MARE.torque_per_thrust_m @ np.array(MARE.rotor_turn), rel=1e-12
    )

    sim = AirsimMultirotor(SIM)
    force, torque = sim.table.wrench(np.full((1, 4), 0.5), np.zeros((1, 0)), sim.calm(1))
    propeller = SIM.rotors[0].propeller
    assert force[0, 2] == pytest.approx(
        0.5 * propeller.max_thrust_n * (1.0 + 0.9 + 1.1 + 0.8), rel=1e-12
    )
    assert torque[0, 2] == pytest.approx(
        0.5 * propeller.max_torque_nm * (-1.0 - 1.2 + 0.7 + 1.1), rel=1e-12
    )


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_lags_and_limits_are_each_motors_own(engine: Engine) -> None:
    if engine == "native":
        pytest.importorskip("numba")
    for model, command, column, most in (
        (FlightGogglesMulticopter(GOGGLES), (3000.0,) * 4, "rotors_radps", GOGGLES.motor_max_radps),
        (FlightmareQuadrotor(MARE), (99.0,) * 4, "rotors_radps", MARE.rotor_max_radps),
        (AirsimMultirotor(SIM), (1.0,) * 4, "rotors_control", SIM.control_max),
    ):
        fleet = Fleet(model, 1, engine=engine)
        fleet.place(None, **{column: 0.0})
        fleet.command(command)
        fleet.advance(3)
        early = fleet.x[0, model.state[column]] / np.maximum(most, 1e-9)
        fleet.advance(400)
        np.testing.assert_allclose(fleet.x[0, model.state[column]], most, rtol=1e-3, atol=1e-9)
        assert early[0] > early[3] > early[2] == 0.0, (
            "the first motor is faster than the fourth, the third is dead"
        )


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("flightgoggles", {"motor_max_radps": [2200, 2200, 0, 2200]}),
        ("flightmare", {"rotor_max_radps": [2000, 2000, 0, 2000]}),
        ("airsim", {"control_max": [1, 1, 0, 1]}),
    ],
)
def test_a_dead_motor_brings_the_vehicle_down_and_a_weak_one_does_not(
    model: str, parameters: dict[str, Any]
) -> None:
    dead = simulation(model=model, parameters=parameters, p_m=[0.0, 0.0, 20.0])
    dead.advance(SECOND)
    assert body(dead)[2] < 19.5
    assert np.linalg.norm(body(dead)[10:13]) > 3.0
    weak = {"flightgoggles": "thrust_ns2", "flightmare": "thrust_scale", "airsim": "thrust_scale"}[
        model
    ]
    whole = 1.91e-6 if model == "flightgoggles" else 1.0
    held = simulation(
        model=model, parameters={weak: [whole, whole, 0.95 * whole, whole]}, p_m=[0.0, 0.0, 20.0]
    )
    held.advance(5 * SECOND)
    assert np.linalg.norm(body(held)[:3] - (0.0, 0.0, 20.0)) < 0.3


@pytest.mark.parametrize(
    ("model", "parameters", "problem"),
    [
        (
            "flightgoggles",
            {"motor_max_radps": [2200, 0, 2200]},
            "motor_max_radps takes one number, or one for each of",
        ),
        ("flightgoggles", {"motor_max_radps": 0}, "at least one motor turns"),
        ("flightgoggles", {"thrust_ns2": [1e-6, 0, 1e-6, 1e-6]}, "thrust_ns2 must be positive"),
        ("flightgoggles", {"thrust_ns2": "weak"}, "parameters of model 'flightgoggles'"),
        (
            "flightmare",
            {"rotor_max_radps": [2000, 100, 0, 2000]},
            "rotor_min_radps must be at least 0 and less than",
        ),
        (
            "flightmare",
            {"motor_time_s": [0.05, 0.05]},
            "motor_time_s takes one number, or one for each of the 4 motors",
        ),
        ("flightmare", {"torque_per_thrust_m": 0}, "do not command all of .* torque_per_thrust_m"),
        (
            "flightmare",
            {"torque_per_thrust_m": [0.01, 0.01, -0.01, 0.01]},
            "torque_per_thrust_m must not be negative",
        ),
        ("airsim", {"control_max": [1, 1, 2, 1]}, "control_max is at most 1"),
        ("airsim", {"thrust_scale": [1, 1, 0, 1]}, "thrust_scale must be positive"),
        ("airsim", {"rotor_tau_s": [0.005, 0.0, 0.005, 0.005]}, "rotor_tau_s must be positive"),
    ],
)
def test_check_names_what_is_wrong(model: str, parameters: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        SimulatedConfig.model_validate(
            {"vehicles": {"drone": {"model": model, "parameters": parameters}}}
        )


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, [1.0, 1.0, math.nan, 1.0], [1.0, 1.0, 1.0, math.inf]]
)
@pytest.mark.parametrize(
    ("model", "name"),
    [
        *(
            ("flightgoggles", name)
            for name in ("thrust_ns2", "torque_nms2", "motor_time_constant_s", "motor_max_radps")
        ),
        *(
            ("flightmare", name)
            for name in ("thrust_scale", "torque_per_thrust_m", "motor_time_s", "rotor_max_radps")
        ),
        *(
            ("airsim", name)
            for name in ("thrust_scale", "torque_scale", "rotor_tau_s", "control_max")
        ),
    ],
)
def test_a_motor_has_finite_numbers(model: str, name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        SimulatedConfig.model_validate(
            {"vehicles": {"drone": {"model": model, "parameters": {name: value}}}}
        )
