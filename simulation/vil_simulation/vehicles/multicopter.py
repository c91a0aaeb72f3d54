"""Parts of a multicopter: rotors anywhere on a rigid body, and their sums."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt
from typing import Final, Literal

import numpy as np

from vil_bridge.core.geometry import cross
from vil_bridge.core.matrices import right_inverse
from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.vehicles.per_motor import PerMotor, nominal, per_motor

Vector3 = tuple[float, float, float]
Matrix3 = tuple[Vector3, Vector3, Vector3]

Numbering = Literal["ros", "python"]
"""Order of FlightGoggles' rotors, from the front left one.

ROS counter-clockwise seen from above, Python clockwise.
"""

_UP: Final = (0.0, 0.0, 1.0)


def diagonal(x: float, y: float, z: float) -> Matrix3:
    """Return the matrix diag(x, y, z)."""
    return ((x, 0.0, 0.0), (0.0, y, 0.0), (0.0, 0.0, z))


@dataclass(frozen=True, slots=True)
class Rotor:
    """Place of a rotor, direction of its thrust and of its torque.

    Attributes:
        p_body_m: hub, body FLU. axis_body: unit vector of positive thrust.
        direction: +1: positive speed twists the body about +axis (the rotor turns about -axis); -1:
            the other way.

    Raises:
        ValueError: the axis is not a unit vector, or the direction is neither 1 nor -1.
    """

    p_body_m: Vector3
    axis_body: Vector3 = _UP
    direction: float = 1.0

    def __post_init__(self) -> None:
        if not abs(hypot(*self.axis_body) - 1.0) < 1e-6:
            raise ValueError(f"axis_body must be a unit vector, got {self.axis_body}")
        if self.direction not in (1.0, -1.0):
            raise ValueError(f"direction must be 1 or -1, got {self.direction}")


def quad_x(arm_m: float = 0.08, numbering: Numbering = "ros") -> tuple[Rotor, ...]:
    """Return FlightGoggles' four rotors at (+-arm, +-arm, 0), the first at the front left."""
    left = -arm_m
    twist = 1.0
    if numbering == "ros":
        left = arm_m
        twist = -1.0
    return (
        Rotor((arm_m, arm_m, 0.0), direction=twist),
        Rotor((-left, left, 0.0), direction=-twist),
        Rotor((-arm_m, -arm_m, 0.0), direction=twist),
        Rotor((left, -left, 0.0), direction=-twist),
    )


_DRONE_INERTIA: Final = diagonal(0.0049, 0.0049, 0.0069)
_DRONE_DAMPING: Final = diagonal(0.003, 0.003, 0.003)
_DRONE_ROTORS: Final = quad_x()
_OF_MOTORS: Final = (
    "thrust_ns2",
    "torque_nms2",
    "motor_time_constant_s",
    "motor_min_radps",
    "motor_max_radps",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MulticopterParameters:
    """A multicopter as FlightGoggles models it; the defaults are its drone.

    Those of motors take one number, or one for each rotor. Controllers know nothing of the
    differences: they take every motor for the median of those that turn.

    Attributes:
        mass_kg: all of it. inertia_kgm2: about the centre of gravity, body FLU.
        rotors: in the order of the commands.
        thrust_ns2: thrust = this n|n|, at sea level. torque_nms2: torque = this n|n|.
        rotor_inertia_kgm2: of each rotor about its axis. motor_time_constant_s: speeds follow
            commands with this lag.
        motor_min_radps, motor_max_radps: limits of commands and speeds; both 0 = the motor is dead.
        drag_ns2pm2: drag = this |v| v, v relative to the air.
        aero_moment_nms2: A of the moment -|w| A w.
        force_noise_n2s, moment_noise_n2m2s: densities of the process noise.
        gravity_mps2: downwards.

    Raises:
        ValueError: no rotors, or a value out of its range.
    """

    mass_kg: float = 1.0
    inertia_kgm2: Matrix3 = _DRONE_INERTIA
    rotors: tuple[Rotor, ...] = _DRONE_ROTORS
    thrust_ns2: PerMotor = 1.91e-6
    torque_nms2: PerMotor = 2.6e-7
    rotor_inertia_kgm2: float = 6.62e-6
    motor_time_constant_s: PerMotor = 0.02
    motor_min_radps: PerMotor = 0.0
    motor_max_radps: PerMotor = 2200.0
    drag_ns2pm2: float = 0.1
    aero_moment_nms2: Matrix3 = _DRONE_DAMPING
    force_noise_n2s: float = 5e-4
    moment_noise_n2m2s: float = 1.25e-7
    gravity_mps2: float = 9.81

    def __post_init__(self) -> None:
        if not self.rotors:
            raise ValueError("a multicopter has at least one rotor")
        values = {name: self.of_motors(name) for name in _OF_MOTORS}
        others = (
            "mass_kg",
            "rotor_inertia_kgm2",
            "drag_ns2pm2",
            "force_noise_n2s",
            "moment_noise_n2m2s",
        )
        values |= {name: np.array([getattr(self, name)]) for name in others}
        for name in ("mass_kg", "thrust_ns2", "motor_time_constant_s"):
            if not (values[name] > 0.0).all():
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("torque_nms2", *others[1:]):
            if not (values[name] >= 0.0).all():
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        slowest = values["motor_min_radps"]
        fastest = values["motor_max_radps"]
        dead = (slowest == 0.0) & (fastest == 0.0)
        if dead.all() or not ((slowest < fastest) | dead).all():
            raise ValueError(
                "motor_min_radps must be less than motor_max_radps, or both 0 for a dead "
                "motor; at least one motor "
                f"turns. Got {self.motor_min_radps} and {self.motor_max_radps}"
            )
        inertia = np.array(self.inertia_kgm2)
        if not (np.array_equal(inertia, inertia.T) and np.linalg.eigvalsh(inertia)[0] > 0.0):
            raise ValueError(
                f"inertia_kgm2 must be symmetric and positive definite, got {self.inertia_kgm2}"
            )

    def of_motors(self, name: str) -> FloatArray:
        """Return a parameter of the motors by its name, one number for each, shape (rotors,)."""
        return per_motor(name, getattr(self, name), len(self.rotors))

    def nominal_of(self, name: str) -> float:
        """Return what controllers take a parameter of the motors for.

        The median of those that turn.
        """
        turning: BoolArray = self.of_motors("motor_min_radps") < self.of_motors("motor_max_radps")
        return nominal(self.of_motors(name), turning)

    @property
    def axes_body(self) -> FloatArray:
        """Unit vectors of thrust, (rotors, 3)."""
        return np.array([rotor.axis_body for rotor in self.rotors])

    @property
    def levers_m(self) -> FloatArray:
        """Moment of each rotor's unit thrust about the centre of gravity, (rotors, 3)."""
        return cross(np.array([rotor.p_body_m for rotor in self.rotors]), self.axes_body)

    @property
    def twists_body(self) -> FloatArray:
        """Axes on which the rotors' torque acts, with its sign, (rotors, 3)."""
        directions: FloatArray = np.array([[rotor.direction] for rotor in self.rotors])
        return self.axes_body * directions

    @property
    def hover_radps(self) -> float:
        """The one speed of all rotors whose thrust along body z carries the weight at sea level.

        Raises:
            ValueError: the rotors do not push up.
        """
        up = float(self.axes_body[:, 2].sum())
        if not up > 0.0:
            raise ValueError("these rotors do not push up together: they cannot hover")
        return sqrt(self.mass_kg * self.gravity_mps2 / (up * self.nominal_of("thrust_ns2")))

    def allocation(self) -> FloatArray:
        """Return squared speeds n|n| of moments about x, y, z (N m) and thrust along z (N), shape.

        Rotors, 4.

        The least squares of speeds squared; for the quadcopter, what FlightGoggles writes out.

        Raises:
            ValueError: the rotors cannot make all four.
        """
        kf = self.nominal_of("thrust_ns2")
        kt = self.nominal_of("torque_nms2")
        moments = kf * self.levers_m + kt * self.twists_body
        wrench = np.vstack([moments.T, kf * self.axes_body[:, 2]])
        if np.linalg.matrix_rank(wrench) < 4:
            raise ValueError(
                "these rotors cannot make three moments and thrust independently: "
                "command motor_speeds"
            )
        return right_inverse(wrench)
