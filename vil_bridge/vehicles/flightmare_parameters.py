"""Parameters of the Flightmare quadrotor and its published vehicles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray

__all__ = ["AGILICIOUS", "FLIGHTMARE", "KINGFISHER", "PRESETS", "QUADROTOR_ENV", "QuadrotorParameters", "plate_inertia"]

_Three = tuple[float, float, float]
_Four = tuple[float, float, float, float]

_SPEED_OF_COMPAT_LIMIT_RADPS: Final = 2000.0


def plate_inertia(mass_kg: float, arm_m: float) -> _Three:
    """Moments of inertia that Flightmare derives from mass and arm, kg m^2: m l^2 / 12 (4.5, 4.5, 7)."""
    unit = mass_kg * arm_m**2 / 12.0
    return 4.5 * unit, 4.5 * unit, 7.0 * unit


@dataclass(frozen=True, slots=True, kw_only=True)
class QuadrotorParameters:
    """A quadrotor whose thrust is a polynomial of the rotor speed; body FLU.

    Attributes:
        mass_kg: everything. inertia_kgm2: moments about x, y, z.
        rotor_x_m, rotor_y_m: where the rotors are, forward and left of the centre of gravity.
        rotor_turn: +1 where a rotor's drag torque on the body is about +z, else -1.
        thrust_map: c2, c1, c0 of f = c2 Omega^2 + c1 Omega + c0, N, at 1.225 kg/m^3.
        torque_per_thrust_m: kappa.
        rotor_min_radps, rotor_max_radps: limits of the rotor speed.
        motor_time_s: of the first-order lag of the rotor speed.
        rate_limits_radps: of commanded body rates. rate_gains_1ps: K of the rate controller.
        drag_linear_nspm, drag_cubic_ns3pm3: k1 and k3 of F = -k1 v - k3 v^3, per body axis.
        lift_ns2pm2: kh of the lift kh (vx^2 + vy^2) along body z.
        drag_area_m2: c A of F = -rho/2 c A |v| v, per body axis.

    Raises:
        ValueError: a value that the equations cannot take.
    """

    mass_kg: float
    inertia_kgm2: _Three
    rotor_x_m: _Four
    rotor_y_m: _Four
    rotor_turn: _Four = (1.0, -1.0, 1.0, -1.0)
    thrust_map: _Three
    torque_per_thrust_m: float
    rotor_min_radps: float
    rotor_max_radps: float
    motor_time_s: float
    rate_limits_radps: _Three = (6.0, 6.0, 6.0)
    rate_gains_1ps: _Three = (16.6, 16.6, 5.0)
    drag_linear_nspm: _Three = (0.0, 0.0, 0.0)
    drag_cubic_ns3pm3: _Three = (0.0, 0.0, 0.0)
    lift_ns2pm2: float = 0.0
    drag_area_m2: _Three = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        positive = {"mass_kg": self.mass_kg, "motor_time_s": self.motor_time_s, "thrust_map[0]": self.thrust_map[0]}
        positive |= {f"inertia_kgm2[{i}]": value for i, value in enumerate(self.inertia_kgm2)}
        for name, value in positive.items():
            if not value > 0.0:
                raise ValueError(f"{name} must be positive, got {value}")
        if not 0.0 <= self.rotor_min_radps < self.rotor_max_radps:
            raise ValueError(
                f"rotor_min_radps must be at least 0 and less than rotor_max_radps, "
                f"got {self.rotor_min_radps} and {self.rotor_max_radps}"
            )
        if abs(np.linalg.det(self.allocation())) < 1e-12 * self.torque_per_thrust_m:
            raise ValueError("the rotors do not command all of thrust, roll, pitch and yaw: see rotor_x_m, rotor_y_m")

    @property
    def thrust_limits_n(self) -> tuple[float, float]:
        """Least and most thrust of one rotor in still air at sea level: of the speed limits, never below 0."""
        low, high = self.thrust_n(np.array([self.rotor_min_radps, self.rotor_max_radps]))
        return max(0.0, float(low)), float(high)

    @property
    def compat_thrust_max_n(self) -> float:
        """Flightmare's upper limit: computed once for 2000 rad/s and left there when the speed limit changes."""
        return float(self.thrust_n(np.array(_SPEED_OF_COMPAT_LIMIT_RADPS)))

    def thrust_n(self, omega_radps: FloatArray) -> FloatArray:
        """Thrust of rotors by the map, any shape; negative at low speeds where c0 is."""
        c2, c1, c0 = self.thrust_map
        return (c2 * omega_radps + c1) * omega_radps + c0

    def rotor_speed_radps(self, thrust_n: FloatArray) -> FloatArray:
        """Rotor speeds that give thrusts, any shape; the inverse of :meth:`thrust_n` on its rising branch."""
        c2, c1, c0 = self.thrust_map
        root = np.sqrt(np.maximum(c1 * c1 - 4.0 * c2 * (c0 - thrust_n), 0.0))
        speed: FloatArray = (root - c1) / (2.0 * c2)
        return speed

    def allocation(self) -> FloatArray:
        """What thrusts do, shape (4, 4): (thrust, tau_x, tau_y, tau_z) = allocation @ thrusts."""
        turn = self.torque_per_thrust_m * np.array(self.rotor_turn)
        return np.stack((np.ones(4), np.array(self.rotor_y_m), -np.array(self.rotor_x_m), turn))


def _x_frame(arm_m: float) -> tuple[_Four, _Four]:
    """Rotors of section 1.1: front left, front right, rear right, rear left."""
    s = arm_m / 2.0**0.5
    return (s, s, -s, -s), (s, -s, -s, s)


_FLIGHTMARE_MAP: Final = (1.3298253500372892e-06, 0.0038360810526746033, -1.7689986848125325)
_QUADRATIC_MAP: Final = (1.562522e-6, 0.0, 0.0)
_WIDE = _x_frame(0.25)
_NARROW = _x_frame(0.17)

FLIGHTMARE: Final = QuadrotorParameters(
    mass_kg=1.0,
    inertia_kgm2=plate_inertia(1.0, 0.25),
    rotor_x_m=_WIDE[0],
    rotor_y_m=_WIDE[1],
    thrust_map=_FLIGHTMARE_MAP,
    torque_per_thrust_m=0.016,
    rotor_min_radps=150.0,
    rotor_max_radps=2000.0,
    motor_time_s=0.05,
)
"""The defaults of flightlib's own structures (master)."""

QUADROTOR_ENV: Final = QuadrotorParameters(
    mass_kg=0.73,
    inertia_kgm2=plate_inertia(0.73, 0.17),
    rotor_x_m=_NARROW[0],
    rotor_y_m=_NARROW[1],
    thrust_map=_FLIGHTMARE_MAP,
    torque_per_thrust_m=0.016,
    rotor_min_radps=150.0,
    rotor_max_radps=3000.0,
    motor_time_s=0.0001,
)
"""``quadrotor_env.yaml``: the vehicle of Flightmare's learning environment, with practically instantaneous motors."""

KINGFISHER: Final = QuadrotorParameters(
    mass_kg=0.752,
    inertia_kgm2=(2.5e-3, 2.1e-3, 4.3e-3),
    rotor_x_m=(0.075, -0.075, -0.075, 0.075),
    rotor_y_m=(-0.10, 0.10, -0.10, 0.10),
    rotor_turn=(-1.0, -1.0, 1.0, 1.0),
    thrust_map=_QUADRATIC_MAP,
    torque_per_thrust_m=0.022,
    rotor_min_radps=150.0,
    rotor_max_radps=2333.0,
    motor_time_s=0.033,
    rate_limits_radps=(6.0, 6.0, 2.0),
    drag_linear_nspm=(0.26, 0.28, 0.42),
)
"""The racing drone of branch ``dev/version_22`` (control environment), with the drag that is suggested there."""

AGILICIOUS: Final = QuadrotorParameters(
    mass_kg=1.0,
    inertia_kgm2=plate_inertia(1.0, 0.25),
    rotor_x_m=_WIDE[0],
    rotor_y_m=_WIDE[1],
    thrust_map=_QUADRATIC_MAP,
    torque_per_thrust_m=1.908873e-8 / 1.562522e-6,
    rotor_min_radps=150.0,
    rotor_max_radps=2000.0,
    motor_time_s=0.033,
    rate_gains_1ps=(20.0, 20.0, 41.0),
    drag_linear_nspm=(0.26, 0.28, 0.42),
    lift_ns2pm2=0.01,
    drag_area_m2=(1.04 * 1.5e-2, 1.04 * 1.5e-2, 1.04 * 3.0e-2),
)
"""Agilicious' default drone with all its drag."""

PRESETS: Final[Mapping[str, QuadrotorParameters]] = MappingProxyType(
    {"flightmare": FLIGHTMARE, "quadrotor_env": QUADROTOR_ENV, "kingfisher": KINGFISHER, "agilicious": AGILICIOUS}
)
"""All of them by name."""
