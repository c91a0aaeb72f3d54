"""FlightGoggles' controllers: body rates to rotor speeds, and a waypoint to body rates."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt
from typing import NamedTuple

import numpy as np

from vil_bridge.core.geometry import q_conj, q_mul, q_normalize, q_rotate
from vil_bridge.core.types import FloatArray


@dataclass(frozen=True, slots=True)
class RateGains:
    """The rate controller: a filter on the gyro and a PID; the defaults are FlightGoggles'.

    Attributes:
        proportional_per_s, integral_per_s2, derivative: on the error of the rate, its integral, the
            filtered slope.
        integral_limit_rad: of each axis. cutoff_hz: of the filter, damping sqrt(1/2).
    """

    proportional_per_s: float = 9.0
    integral_per_s2: float = 3.0
    derivative: float = 0.3
    integral_limit_rad: float = 1000.0
    cutoff_hz: float = 30.0

    @property
    def stiffness_per_s2(self) -> float:
        """Of the filter: x'' = stiffness (u - x) - damping x'."""
        return (2.0 * pi * self.cutoff_hz) ** 2

    @property
    def damping_per_s(self) -> float:
        """Of the filter."""
        return sqrt(2.0) * 2.0 * pi * self.cutoff_hz


@dataclass(frozen=True, slots=True)
class WaypointGains:
    """The waypoint controller; the defaults are those of FlightGoggles' Python package.

    Attributes:
        position_per_s2, velocity_per_s, attitude_per_s: gains.
        most_acceleration_mps2, most_rate_radps, most_speed_mps: limits of each axis.
    """

    position_per_s2: float = 7.0
    velocity_per_s: float = 3.0
    attitude_per_s: float = 10.0
    most_acceleration_mps2: float = 3.0
    most_rate_radps: float = 8.0
    most_speed_mps: float = 3.0

    @property
    def reach_m(self) -> float:
        """Position errors count up to this, so that the speed stays below its limit."""
        return self.most_speed_mps * self.velocity_per_s / self.position_per_s2


class RateMemory(NamedTuple):
    """State of the rate controller, each (n, 3).

    Filtered rate, its slope, integral of the error.
    """

    rate_radps: FloatArray
    slope_radps2: FloatArray
    integral_rad: FloatArray


def control_rates(
    gains: RateGains,
    wanted_radps: FloatArray,
    gyro_radps: FloatArray,
    memory: RateMemory,
    dt_s: float,
) -> tuple[FloatArray, RateMemory]:
    """Return angular acceleration (n, 3) that brings the gyro's rates to the wanted ones, and what
    to remember.

    The filter is discretised by backward Euler, as in the original, whose comment says trapezoidal.
    """
    stiffness = gains.stiffness_per_s2
    damping = gains.damping_per_s
    slope = (memory.slope_radps2 + stiffness * dt_s * (gyro_radps - memory.rate_radps)) / (
        1.0 + damping * dt_s + stiffness * dt_s * dt_s
    )
    rate = memory.rate_radps + dt_s * slope
    error = wanted_radps - rate
    limit = gains.integral_limit_rad
    integral = np.clip(memory.integral_rad + dt_s * error, -limit, limit)
    alpha = (
        gains.proportional_per_s * error
        + gains.integral_per_s2 * integral
        - gains.derivative * slope
    )
    return alpha, RateMemory(rate, slope, integral)


def rotor_speeds(squares: FloatArray) -> FloatArray:
    """Return speeds whose n|n| are the given numbers."""
    return np.copysign(np.sqrt(np.abs(squares)), squares)


def fly_to_waypoint(
    gains: WaypointGains,
    mass_kg: float,
    gravity_mps2: float,
    waypoint: FloatArray,
    p_world_m: FloatArray,
    v_world_mps: FloatArray,
    q_world_body: FloatArray,
) -> FloatArray:
    """Return thrust (N) and body rates that fly to waypoints.

    Args:
        gains: of the controller.
        mass_kg: what it believes to carry.
        gravity_mps2: against what.
        waypoint: x, y, z (m) and yaw (rad), world ENU, (n, 4).
        p_world_m: (n, 3).
        v_world_mps: (n, 3).
        q_world_body: (n, 4).

    Returns:
        The command of mode ``rates``, (n, 4).
    """
    error = np.clip(waypoint[:, :3] - p_world_m, -gains.reach_m, gains.reach_m)
    most = gains.most_acceleration_mps2
    push = np.clip(gains.position_per_s2 * error - gains.velocity_per_s * v_world_mps, -most, most)
    push[:, 2] += gravity_mps2
    size = np.linalg.norm(push, axis=1, keepdims=True)
    heading = _about_z(waypoint[:, 3])
    wanted = q_mul(heading, _tilt_up_to(q_rotate(q_conj(heading), push / size)))
    turn = q_mul(q_conj(q_world_body), wanted)
    rates = np.clip(
        gains.attitude_per_s * _roll_pitch_yaw(turn), -gains.most_rate_radps, gains.most_rate_radps
    )
    return np.hstack([mass_kg * size, rates])


def _about_z(angle_rad: FloatArray) -> FloatArray:
    zero = np.zeros_like(angle_rad)
    return np.stack([zero, zero, np.sin(0.5 * angle_rad), np.cos(0.5 * angle_rad)], axis=-1)


def _tilt_up_to(direction: FloatArray) -> FloatArray:
    """Return the shortest rotations (n, 4) that turn z to unit vectors (n, 3)."""
    half = np.stack(
        [-direction[:, 1], direction[:, 0], np.zeros(len(direction)), 1.0 + direction[:, 2]],
        axis=-1,
    )
    return q_normalize(half)


def _roll_pitch_yaw(q: FloatArray) -> FloatArray:
    x, y, z, w = q.T
    return np.stack(
        [
            np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y)),
            np.arcsin(np.clip(2.0 * (w * y - z * x), -1.0, 1.0)),
            np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)),
        ],
        axis=-1,
    )
