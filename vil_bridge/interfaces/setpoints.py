"""Set-points of pilots for actors, and the commands to simulated vehicles that they become."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.geometry import Transform
from vil_bridge.interfaces.vehicle_commands import VehicleCommand, VehicleState

Vector = tuple[float, float, float]

_VELOCITY_MODES: Final = ("velocity", "twist", "speed")
_POSITION_MODES: Final = ("position", "waypoint")
_REFERENCE_MODES: Final = ("reference", *_POSITION_MODES)
_RATES_MODES: Final = ("rates",)


class VelocitySetpoint(NamedTuple):
    """Velocity and yaw rate (counter-clockwise).

    Attributes:
        v_mps: world axes; with ``in_heading`` x ahead and y left of the vehicle's heading, z up.
    """

    v_mps: Vector
    yaw_radps: float
    in_heading: bool = False


class PositionSetpoint(NamedTuple):
    """Place and heading in the world, held until another command."""

    p_world_m: Vector
    yaw_rad: float


class ReferenceSetpoint(NamedTuple):
    """Point of a trajectory in the world; it goes on from there until the next one comes.

    Attributes:
        yaw_radps: counter-clockwise. t_ns: bridge time at which it holds, at most a minute ahead.
    """

    p_world_m: Vector
    v_world_mps: Vector
    a_world_mps2: Vector
    j_world_mps3: Vector
    s_world_mps4: Vector
    yaw_rad: float
    yaw_radps: float
    t_ns: int


class RatesSetpoint(NamedTuple):
    """Body rates (FLU) and thrust.

    Attributes:
        thrust: in the unit of the vehicle's mode ``rates``: N, m/s^2, or throttle 0..1.
    """

    w_body_radps: Vector
    thrust: float


Setpoint = VelocitySetpoint | PositionSetpoint | ReferenceSetpoint | RatesSetpoint

FlyActor = Callable[[str, Setpoint], None]
"""Gives a set-point to the vehicle that an actor is.

Raises ValueError: it is none, or cannot do that.
"""


def command_of(state: VehicleState, setpoint: Setpoint, T_world_room: Transform) -> VehicleCommand:
    """Return the command to a vehicle, in the first of its modes that can hold the set-point.

    Args:
        state: the vehicle's.
        setpoint: in the world.
        T_world_room: frame of the vehicle's room.

    Raises:
        ValueRefused: the vehicle has no such mode, or a number is not finite.
    """
    if not np.isfinite(np.hstack(setpoint)).all():
        raise ValueRefused("a set-point must be finite")
    modes: tuple[str, ...]
    values: Mapping[str, float | Vector]
    match setpoint:
        case VelocitySetpoint():
            modes = _VELOCITY_MODES
            values = _velocity(state, setpoint, T_world_room)
        case PositionSetpoint():
            modes = _POSITION_MODES
            values = _position(setpoint, T_world_room)
        case ReferenceSetpoint():
            modes = _REFERENCE_MODES
            values = _reference(setpoint, T_world_room)
        case RatesSetpoint(w_body_radps=w, thrust=thrust):
            names = ("thrust_n", "thrust_mps2", "throttle")
            modes = _RATES_MODES
            values = {"w_body_radps": w, "rates_body_radps": w} | dict.fromkeys(names, thrust)
    for mode in modes:
        fields = [field.name for field in state.modes.get(mode, ())]
        if fields and all(name in values for name in fields):
            t_ns = setpoint.t_ns if isinstance(setpoint, ReferenceSetpoint) else None
            return VehicleCommand("fly", mode, {name: values[name] for name in fields}, t_ns)
    known = ", ".join(state.modes) or "none"
    raise ValueRefused(
        f"{state.subject} has no mode {' or '.join(modes)} that holds this set-point; its "
        f"modes: {known}"
    )


def _velocity(
    state: VehicleState, setpoint: VelocitySetpoint, T_world_room: Transform
) -> Mapping[str, float | Vector]:
    x, y, z, w = state.q_world_body
    yaw_rad = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    ahead = np.array([math.cos(yaw_rad), math.sin(yaw_rad), 0.0])
    left = np.array([-math.sin(yaw_rad), math.cos(yaw_rad), 0.0])
    if setpoint.in_heading:
        v_room = (
            setpoint.v_mps[0] * ahead
            + setpoint.v_mps[1] * left
            + np.array([0.0, 0.0, setpoint.v_mps[2]])
        )
    else:
        v_room = T_world_room.rotation().T @ np.array(setpoint.v_mps)
    rate = setpoint.yaw_radps
    return {
        "v_world_mps": (float(v_room[0]), float(v_room[1]), float(v_room[2])),
        "w_body_radps": (0.0, 0.0, rate),
        "yaw_radps": rate,
        "yaw_rate_radps": rate,
        "yaw_by_rate": 1.0,
        "yaw_rad": 0.0,
        "speed_mps": float(v_room @ ahead),
    }


def _position(setpoint: PositionSetpoint, T_world_room: Transform) -> Mapping[str, float | Vector]:
    p_room = T_world_room.inverse().apply(np.array(setpoint.p_world_m))
    R_world_room = T_world_room.rotation()
    turn_rad = math.atan2(R_world_room[1, 0], R_world_room[0, 0])
    return {
        "p_world_m": (float(p_room[0]), float(p_room[1]), float(p_room[2])),
        "yaw_rad": setpoint.yaw_rad - turn_rad,
        "yaw_rate_radps": 0.0,
        "yaw_by_rate": 0.0,
    }


def _reference(setpoint: ReferenceSetpoint, T_world_room: Transform) -> dict[str, float | Vector]:
    turn = T_world_room.rotation().T
    values: dict[str, float | Vector] = {"yaw_radps": setpoint.yaw_radps}
    values |= _position(PositionSetpoint(setpoint.p_world_m, setpoint.yaw_rad), T_world_room)
    for name in ("v_world_mps", "a_world_mps2", "j_world_mps3", "s_world_mps4"):
        x, y, z = (turn @ np.array(getattr(setpoint, name))).tolist()
        values[name] = x, y, z
    return values
