"""Parts of the states of AirSim's multirotors that moves read and write, row by row."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.vehicles.airsim.moves import FlightCommand, FlightState
from vil_simulation.vehicles.airsim.simple_flight import FOREVER_S
from vil_simulation.vehicles.disturbances import ENVIRONMENT
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.layout import StateLayout

_IDLE_THROTTLE: Final = 0.1
_RISING_MPS: Final = 0.01
_STILL: Final = 0.08
"""AirSim's rule of landing: throttle, climb rate, all velocities (m/s) and rates (rad/s)."""


DYNAMICS_COLUMNS: Final = 8
"""Before the rotors' controls: accelerations, linear and angular, density and thrust factor."""


def dynamics(fleet: Fleet) -> FloatArray:
    """Return accelerations, density, thrust factor and the rotors' controls of all vehicles,.

    N, 8 + rotors.
    """
    state = fleet.model.state
    x = fleet.x
    around = fleet.around
    controls = x[:, state["rotors_output" if "rotors_output" in state else "rotors_control"]]
    air = around[:, ENVIRONMENT["density_kgpm3"]], around[:, ENVIRONMENT["thrust_factor"]]
    return np.concatenate(
        (x[:, state["a_world_mps2"]], x[:, state["alpha_body_radps2"]], *air, controls), axis=1
    )


def flight_state(fleet: Fleet, row: int) -> FlightState:
    """Return what a move sees of a vehicle."""
    s = {name: values.tolist() for name, values in fleet.model.state.split(fleet.x[row]).items()}
    (px, py, pz), (vx, vy, vz) = s["p_world_m"], s["v_world_mps"]
    qx, qy, qz, qw = s["q_world_body"]
    # Faster than yaw_of.
    yaw_rad = math.atan2(2.0 * (qw * qz + qx * qy), 1.0 - 2.0 * (qy * qy + qz * qz))
    return FlightState(
        (px, py, pz),
        (vx, vy, vz),
        yaw_rad,
        s["w_body_radps"][2],
        s["climb_integral"][0],
        q_world_body=(qx, qy, qz, qw),
    )


def give_command(fleet: Fleet, row: int, command: FlightCommand) -> None:
    """Give a vehicle a move's command; tilt servos stay as drawn."""
    u = np.zeros(fleet.u.shape[1])
    u[: len(command.values)] = command.values
    fleet.command(u, row)
    if command.climb_integral is not None:
        fleet.x[row, fleet.model.state["climb_integral"]] = command.climb_integral


def climb_goal_of(command: FlightCommand) -> str:
    """Return what a move's command leads to vertically: position, velocity or throttle."""
    if command.mode == "position" or command.holds_height:
        return "position"
    return "velocity" if command.mode == "velocity" else "throttle"


def forget_climb(fleet: Fleet, row: int) -> None:
    """Let the climb loop begin again, as the original does when its goal is of another kind."""
    fleet.x[row, fleet.model.state["climb_integral"]] = 0.0


def holds(fleet: Fleet, row: int) -> bool:
    """Return True while a flight controller holds the position, since its command timed out."""
    return bool(fleet.x[row, fleet.model.state["command_left_s"]][0] <= 0.0)


def expect_command(fleet: Fleet, row: int, within_s: float = FOREVER_S) -> None:
    """Let the flight controller hold the position unless a command comes within a time.

    Other models do not.
    """
    if "command_left_s" in fleet.model.state:
        fleet.x[row, fleet.model.state["command_left_s"]] = within_s


def hold_here(fleet: Fleet, row: int) -> None:
    """Let a flight controller that holds a position hold the present one."""
    if (
        "command_left_s" in fleet.model.state
        and fleet.x[row, fleet.model.state["command_left_s"]] <= 0.0
    ):
        expect_command(fleet, row, 0.0)


def landed_after(landed: BoolArray, x: FloatArray, state: StateLayout) -> BoolArray:
    """Return which vehicles stand on the ground, (n,), from which did before.

    The original has no flag of the ground and counts a vehicle in the air as landed until it climbs
    or sinks.
    """
    throttle = x[:, state["rotors_control"]].mean(axis=1)
    driven = throttle > _IDLE_THROTTLE
    v_world_mps = x[:, state["v_world_mps"]]
    moving = np.abs(v_world_mps[:, 2]) > _RISING_MPS
    rising = driven & (moving | (x[:, state["grounded"].start] < 0.5))
    after: BoolArray = landed & ~rising
    if driven.all():
        return after
    motion = np.hstack((v_world_mps, x[:, state["w_body_radps"]]))
    still = (throttle <= _IDLE_THROTTLE) & (np.abs(motion) < _STILL).all(axis=1)
    after |= ~landed & still
    return after
