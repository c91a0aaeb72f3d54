"""Cascade that flies a quadcopter to positions: position, velocity, attitude, rates, motors."""

from __future__ import annotations

from math import cos, hypot, sin, sqrt
from typing import Final, NamedTuple

from vil_bridge.core.geometry import GRAVITY_MPS2
from vil_simulation.autopilots.stand_ins import vectors
from vil_simulation.autopilots.stand_ins.vectors import ZERO, Quaternion, Vector

Motors = tuple[float, float, float, float]
"""Speeds as shares of the largest: front right, rear left, front left, rear right."""

STOPPED: Final[Motors] = (0.0, 0.0, 0.0, 0.0)
_IDLE: Final = 0.08
_HOVER_SHARE: Final = 0.27
"""Thrust that hovers, as a share of the largest; the integral corrects it."""
_POSITION_PER_S: Final = 1.3
_VELOCITY_PER_S: Final = 3.0
_INTEGRAL_PER_S2: Final = 1.0
_ATTITUDE_PER_S: Final = 7.0
_RATE_PER_S: Final = 18.0
_YAW_PER_S: Final = 2.5
_FASTEST_MPS: Final = 3.0
_STEEPEST_MPS2: Final = 4.0
_MOST_LIFT_MPS2: Final = 6.0
_MOST_INTEGRAL_MPS2: Final = 4.0
_SHARE_PER_RADPS2: Final = 0.0017
"""Difference of thrust, as a share of the largest, for an angular acceleration.

That of a quadcopter of 1 kg.
"""
_MOST_YAW_SHARE: Final = 0.08


class NedState(NamedTuple):
    """State of the vehicle as the controller takes it: local NED, body FRD."""

    p_ned_m: Vector
    v_ned_mps: Vector
    q_wxyz: Quaternion
    w_frd_radps: Vector


class FlightTarget(NamedTuple):
    """Position to hold; ``None`` follows the velocity alone."""

    p_ned_m: Vector | None
    v_ned_mps: Vector = ZERO
    yaw_rad: float = 0.0


class FlightController:
    """Controller with an integral of the velocity's error, which finds the thrust that hovers."""

    def __init__(self) -> None:
        self._integral = ZERO

    def reset(self) -> None:
        """Begin again on the ground."""
        self._integral = ZERO

    def motors(self, state: NedState, target: FlightTarget, dt_s: float) -> Motors:
        """Return the motors' commands that fly towards the target."""
        force = self._specific_force(state, target, dt_s)
        rates = attitude_rates(state.q_wxyz, attitude_of(force, target.yaw_rad))
        up = vectors.rotate(state.q_wxyz, (0.0, 0.0, -1.0))
        lift = max(0.0, vectors.dot(force, up)) / GRAVITY_MPS2 * _HOVER_SHARE
        return motors_for(lift, rates, state.w_frd_radps, _IDLE)

    def _specific_force(self, state: NedState, target: FlightTarget, dt_s: float) -> Vector:
        velocity = target.v_ned_mps
        if target.p_ned_m is not None:
            ahead = vectors.scaled(vectors.minus(target.p_ned_m, state.p_ned_m), _POSITION_PER_S)
            velocity = vectors.add(velocity, vectors.clipped(ahead, _FASTEST_MPS))
        error = vectors.minus(velocity, state.v_ned_mps)
        integral = vectors.add(self._integral, error, _INTEGRAL_PER_S2 * dt_s)
        self._integral = vectors.clipped(integral, _MOST_INTEGRAL_MPS2)
        north, east, down = vectors.add(self._integral, error, _VELOCITY_PER_S)
        steep = hypot(north, east)
        share = min(1.0, _STEEPEST_MPS2 / steep) if steep > 0.0 else 1.0
        down = max(-_MOST_LIFT_MPS2, min(_MOST_LIFT_MPS2, down))
        return north * share, east * share, down - GRAVITY_MPS2


def attitude_rates(q: Quaternion, wanted: Quaternion) -> Vector:
    """Return the rates that turn to an attitude, body FRD."""
    roll, pitch, yaw = vectors.rotation_vector(vectors.product(vectors.inverse(q), wanted))
    return _ATTITUDE_PER_S * roll, _ATTITUDE_PER_S * pitch, _YAW_PER_S * yaw


def motors_for(lift: float, wanted_radps: Vector, w_radps: Vector, idle: float) -> Motors:
    """Return motors that push with a share of the largest thrust and change the rates to the
    wanted ones.
    """
    shares = vectors.scaled(vectors.minus(wanted_radps, w_radps), _RATE_PER_S * _SHARE_PER_RADPS2)
    yaw = max(-_MOST_YAW_SHARE, min(_MOST_YAW_SHARE, shares[2]))
    return _mixed(lift, shares[0], shares[1], yaw, idle)


def attitude_of(force: Vector, yaw_rad: float) -> Quaternion:
    """Return the attitude that pushes along a specific force (NED) with a yaw."""
    size = hypot(*force)
    # Turned back by the yaw, the body's up is (x, y, -z): roll and pitch follow from it.
    x = (force[0] * cos(yaw_rad) + force[1] * sin(yaw_rad)) / size
    y = (force[1] * cos(yaw_rad) - force[0] * sin(yaw_rad)) / size
    z = -force[2] / size
    tilt = vectors.unit((1.0 + z, y, -x, 0.0))
    return vectors.product(vectors.heading(yaw_rad), tilt)


def _mixed(lift: float, roll: float, pitch: float, yaw: float, idle: float) -> Motors:
    """Return motors of thrust shares; attitude goes before height where both do not fit."""
    turns = (pitch - roll + yaw, roll - pitch + yaw, roll + pitch - yaw, -roll - pitch - yaw)
    if max(turns) - min(turns) < 1.0:
        lift = min(max(lift, -min(turns)), 1.0 - max(turns))
    front_right, rear_left, front_left, rear_right = (
        max(idle, sqrt(min(1.0, max(0.0, lift + turn)))) for turn in turns
    )
    return front_right, rear_left, front_left, rear_right
