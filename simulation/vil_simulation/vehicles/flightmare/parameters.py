"""Parameters of the Flightmare quadrotor and its published vehicles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.vehicles.per_motor import PerMotor, nominal, per_motor

_Three = tuple[float, float, float]
_Four = tuple[float, float, float, float]

ORIGINAL_THRUST_MAX_N: Final = 11.222464820685833
"""flightlib's largest thrust of a rotor.

Its constructor computes it from its own map at 2000 rad/s, nothing later.
"""


def plate_inertia(mass_kg: float, arm_m: float) -> _Three:
    """Return moments of inertia that Flightmare derives from mass and arm, kg m^2.

    M l^2 / 12 (4.5, 4.5, 7).
    """
    unit = mass_kg * arm_m**2 / 12.0
    return 4.5 * unit, 4.5 * unit, 7.0 * unit


@dataclass(frozen=True, slots=True, kw_only=True)
class QuadrotorParameters:
    """A quadrotor whose thrust is a polynomial of the rotor speed; body FLU.

    ``thrust_scale``, ``torque_per_thrust_m``, ``rotor_min_radps``, ``rotor_max_radps`` and
    ``motor_time_s`` take one number, or one for each rotor. Controllers know nothing of the
    differences: they take every motor for the median of those that turn.

    Attributes:
        mass_kg: everything. inertia_kgm2: moments about x, y, z.
        rotor_x_m, rotor_y_m: where the rotors are, forward and left of the centre of gravity.
        rotor_turn: +1 where a rotor's drag torque on the body is about +z, else -1.
        thrust_map: c2, c1, c0 of f = c2 Omega^2 + c1 Omega + c0, N, at 1.225 kg/m^3.
        thrust_scale: thrust of a rotor over that of the map.
        torque_per_thrust_m: kappa.
        rotor_min_radps, rotor_max_radps: limits of the rotor speed; a motor whose largest is 0 is
            dead.
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
    thrust_scale: PerMotor = 1.0
    torque_per_thrust_m: PerMotor
    rotor_min_radps: PerMotor
    rotor_max_radps: PerMotor
    motor_time_s: PerMotor
    rate_limits_radps: _Three = (6.0, 6.0, 6.0)
    rate_gains_1ps: _Three = (16.6, 16.6, 5.0)
    drag_linear_nspm: _Three = (0.0, 0.0, 0.0)
    drag_cubic_ns3pm3: _Three = (0.0, 0.0, 0.0)
    lift_ns2pm2: float = 0.0
    drag_area_m2: _Three = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        positive: dict[str, float] = {"mass_kg": self.mass_kg, "thrust_map[0]": self.thrust_map[0]}
        positive |= {
            name: float(self.of_motors(name).min()) for name in ("motor_time_s", "thrust_scale")
        }
        positive |= {f"inertia_kgm2[{i}]": value for i, value in enumerate(self.inertia_kgm2)}
        for name, value in positive.items():
            if not value > 0.0:
                raise ValueError(f"{name} must be positive, got {value}")
        slowest = self.of_motors("rotor_min_radps")
        fastest = self.of_motors("rotor_max_radps")
        if (
            slowest.min() < 0.0
            or not ((slowest < fastest) | (fastest == 0.0)).all()
            or not fastest.any()
        ):
            raise ValueError(
                "rotor_min_radps must be at least 0 and less than rotor_max_radps, which "
                "is 0 for a dead motor; "
                f"at least one motor turns. Got {self.rotor_min_radps} and {self.rotor_max_radps}"
            )
        if not self.of_motors("torque_per_thrust_m").min() >= 0.0:
            raise ValueError(
                f"torque_per_thrust_m must not be negative, got {self.torque_per_thrust_m}"
            )
        if abs(np.linalg.det(self.allocation())) <= 1e-12 * self.nominal_of("torque_per_thrust_m"):
            raise ValueError(
                "the rotors do not command all of thrust, roll, pitch and yaw: see "
                "rotor_x_m, rotor_y_m and "
                "torque_per_thrust_m"
            )

    def of_motors(self, name: str) -> FloatArray:
        """Return a parameter of the motors by its name, one number for each, shape (4,)."""
        return per_motor(name, getattr(self, name), 4)

    def nominal_of(self, name: str) -> float:
        """Return what controllers take a parameter of the motors for.

        The median of those that turn.
        """
        turning: BoolArray = self.of_motors("rotor_max_radps") > 0.0
        return nominal(self.of_motors(name), turning)

    @property
    def alike(self) -> bool:
        """True if no motor differs from another, or from the map."""
        names = ("torque_per_thrust_m", "rotor_min_radps", "rotor_max_radps", "motor_time_s")
        same = all(np.ptp(self.of_motors(name)) == 0.0 for name in names)
        return same and bool((self.of_motors("thrust_scale") == 1.0).all())

    @property
    def speed_limits_radps(self) -> tuple[FloatArray, FloatArray]:
        """Least and largest speed of each rotor, (4,); both 0 for a dead motor."""
        fastest = self.of_motors("rotor_max_radps")
        return np.minimum(self.of_motors("rotor_min_radps"), fastest), fastest

    @property
    def thrust_limits_n(self) -> tuple[float, float]:
        """Least and most thrust of one rotor by the map, in still air at sea level, never below 0.

        Of the speed limits; where motors differ, of the slowest and of the fastest that turns.
        """
        slowest, fastest = self.speed_limits_radps
        low, high = self.thrust_n(np.array([slowest[fastest > 0.0].min(), fastest.max()]))
        return max(0.0, float(low)), float(high)

    def thrust_n(self, omega_radps: FloatArray) -> FloatArray:
        """Return thrust of rotors by the map, any shape; negative at low speeds where c0 is."""
        c2, c1, c0 = self.thrust_map
        return (c2 * omega_radps + c1) * omega_radps + c0

    def rotor_speed_radps(self, thrust_n: FloatArray) -> FloatArray:
        """Return rotor speeds that give thrusts, any shape.

        The inverse of :meth:`thrust_n` on its rising branch.
        """
        c2, c1, c0 = self.thrust_map
        root = np.sqrt(np.maximum(c1 * c1 - 4.0 * c2 * (c0 - thrust_n), 0.0))
        speed: FloatArray = (root - c1) / (2.0 * c2)
        return speed

    def allocation(self) -> FloatArray:
        """Return matrix from thrusts to (thrust, tau_x, tau_y, tau_z), shape (4, 4)."""
        turn = self.nominal_of("torque_per_thrust_m") * np.array(self.rotor_turn)
        return np.stack((np.ones(4), np.array(self.rotor_y_m), -np.array(self.rotor_x_m), turn))

    def effects(self) -> FloatArray:
        """Return matrix like :meth:`allocation`, shape (4, 4), with these motors.

        Dead ones do nothing.
        """
        effects = self.allocation()
        effects[3] = self.of_motors("torque_per_thrust_m") * np.array(self.rotor_turn)
        return effects * np.where(
            self.of_motors("rotor_max_radps") > 0.0, self.of_motors("thrust_scale"), 0.0
        )


def _x_frame(arm_m: float) -> tuple[_Four, _Four]:
    """Return rotors of section 1.1: front left, front right, rear right, rear left."""
    s = arm_m / math.sqrt(2.0)
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
"""``quadrotor_env.yaml``: the vehicle of Flightmare's learning environment, with practically
instantaneous motors.
"""

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
"""The racing drone of branch ``dev/version_22`` (control environment), with the drag that is
suggested there.
"""

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
    {
        "flightmare": FLIGHTMARE,
        "quadrotor_env": QUADROTOR_ENV,
        "kingfisher": KINGFISHER,
        "agilicious": AGILICIOUS,
    }
)
"""All of them by name."""
