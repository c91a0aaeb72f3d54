"""Airframes of AirSim: boxes with rotors at their vertices, and the numbers that follow from them.

Body FLU about the centre of gravity. The original states its frames in FRD; positions and axes here
are turned once, so its rotors "below" the centre of gravity stay below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from vil_bridge.core.elementary import sin_cos
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import SEA_LEVEL_DENSITY_KGPM3
from vil_simulation.vehicles.per_motor import PerMotor, per_motor

Vector = tuple[float, float, float]
Compat = Literal["airsim"]

MIN_DRAG_SPEED_MPS: Final = 0.1
"""A face that moves outwards slower than this has no drag."""

CCW: Final = 1
CW: Final = -1


@dataclass(frozen=True, slots=True)
class Propeller:
    """A propeller by its coefficients in n^2 D^4 and n^3 D^5, n in revolutions per second.

    Default: GWS 9x5.
    """

    thrust_coefficient: float = 0.109919
    power_coefficient: float = 0.040164
    max_rpm: float = 6396.667
    diameter_m: float = 0.2286
    disc_height_m: float = 0.01

    @property
    def max_thrust_n(self) -> float:
        """C_T rho0 n^2 D^4 at full speed and sea level."""
        square_m2 = self.diameter_m * self.diameter_m
        return (
            self.thrust_coefficient
            * SEA_LEVEL_DENSITY_KGPM3
            * (self.max_rpm / 60.0) ** 2
            * square_m2
            * square_m2
        )

    @property
    def max_torque_nm(self) -> float:
        """C_P rho0 n^2 D^5 / (2 pi) at full speed and sea level."""
        square_m2 = self.diameter_m * self.diameter_m
        torque = self.power_coefficient * SEA_LEVEL_DENSITY_KGPM3 * (self.max_rpm / 60.0) ** 2
        return torque * square_m2 * square_m2 * self.diameter_m / math.tau

    @property
    def max_radps(self) -> float:
        """Full speed."""
        return self.max_rpm / 60.0 * math.tau

    @property
    def disc_m2(self) -> float:
        """Area seen along the shaft."""
        return math.pi * self.diameter_m**2 / 4.0

    @property
    def edge_m2(self) -> float:
        """Area seen from the side, as AirSim has it: the disc's whole rim."""
        return math.pi * self.diameter_m * self.disc_height_m


@dataclass(frozen=True, slots=True)
class Tilt:
    """A servo that turns the rotors fixed to it about an axis; at 0 they are where they are drawn.

    Attributes:
        axis: unit vector, body. pivot_m: a point on it: rotors off the axis move on arcs about it.
        low_rad, high_rad: stops. tau_s: of its first-order lag.
    """

    axis: Vector
    pivot_m: Vector = (0.0, 0.0, 0.0)
    low_rad: float = -math.pi / 2.0
    high_rad: float = math.pi / 2.0
    tau_s: float = 0.1


@dataclass(frozen=True, slots=True)
class AirsimRotor:
    """A vertex where a propeller acts.

    Attributes:
        position_m: body. spin: +1 counter-clockwise, -1 clockwise, seen against the axis (from
            above).
        axis: unit vector of the thrust, body. tilt: index of the servo it is fixed to, None = the
            body.

    Raises:
        ValueError: the axis is not a unit vector, or the spin is neither 1 nor -1.
    """

    position_m: Vector
    spin: int
    propeller: Propeller = field(default_factory=Propeller)
    axis: Vector = (0.0, 0.0, 1.0)
    tilt: int | None = None

    def __post_init__(self) -> None:
        if not abs(math.hypot(*self.axis) - 1.0) < 1e-6:
            raise ValueError(f"axis must be a unit vector, got {self.axis}")
        if self.spin not in (CCW, CW):
            raise ValueError(
                f"spin must be 1 (counter-clockwise from above) or -1, got {self.spin}"
            )


@dataclass(frozen=True, slots=True)
class AirsimAirframe:
    """A body box with rotors.

    Attributes:
        mass_kg: everything. motor_kg: one motor, a point mass at its rotor. box_m: x, y, z of the
            box.
        drag_coefficient: Cd of every face. restitution, friction: of collisions.
        rotor_tau_s: lag of a rotor's control.
        thrust_scale, torque_scale: of a rotor over those of its propeller. control_max: largest
            control of a rotor, 0 to 1; 0 = the motor is dead. These four take one number, or one
            for each rotor; controllers know nothing of ``thrust_scale``, ``torque_scale`` and
            ``control_max``.

    Raises:
        ValueError: there are no rotors, they outweigh the body, or one is fixed to a servo that is
            not there.
    """

    mass_kg: float
    motor_kg: float
    box_m: Vector
    rotors: tuple[AirsimRotor, ...]
    tilts: tuple[Tilt, ...] = ()
    drag_coefficient: float = 1.3 / 4.0
    restitution: float = 0.55
    friction: float = 0.5
    rotor_tau_s: PerMotor = 0.005
    thrust_scale: PerMotor = 1.0
    torque_scale: PerMotor = 1.0
    control_max: PerMotor = 1.0

    def __post_init__(self) -> None:
        if not self.rotors:
            raise ValueError("an airframe has at least one rotor")
        if not self.mass_kg > len(self.rotors) * self.motor_kg >= 0.0:
            raise ValueError(
                f"mass_kg {self.mass_kg} must exceed {len(self.rotors)} motors of "
                f"{self.motor_kg} kg"
            )
        for name in ("rotor_tau_s", "thrust_scale"):
            if not self.of_motors(name).min() > 0.0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("torque_scale", "control_max"):
            if not self.of_motors(name).min() >= 0.0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        most = self.of_motors("control_max").max()
        if not 0.0 < most <= 1.0:
            raise ValueError(
                f"control_max is at most 1, and at least one motor turns; got {self.control_max}"
            )
        for index, rotor in enumerate(self.rotors):
            if rotor.tilt is not None and not 0 <= rotor.tilt < len(self.tilts):
                raise ValueError(
                    f"rotor {index} is fixed to tilt {rotor.tilt}; there are {len(self.tilts)}"
                )

    def of_motors(self, name: str) -> FloatArray:
        """Return a parameter of the motors by its name, one number for each, shape (rotors,)."""
        return per_motor(name, getattr(self, name), len(self.rotors))

    def inertia_kgm2(self) -> FloatArray:
        """Return principal moments (3,): the box without the motors, and the motors.

        Products are left out as in AirSim.
        """
        squares = np.square(self.box_m)
        box = (self.mass_kg - len(self.rotors) * self.motor_kg) / 12.0 * (squares.sum() - squares)
        arms = np.square([rotor.position_m for rotor in self.rotors])
        moments: FloatArray = box + self.motor_kg * (arms.sum(axis=1, keepdims=True) - arms).sum(
            axis=0
        )
        return moments

    def drag_factors_m2(self, compat: Compat | None = None) -> FloatArray:
        """Return area Cd / 2 of the faces along x, y and z, (3,).

        Rotors count as drawn, upright. AirSim takes four times their discs (pi D^2).
        """
        x, y, z = self.box_m
        edges = sum(rotor.propeller.edge_m2 for rotor in self.rotors)
        discs = sum(rotor.propeller.disc_m2 for rotor in self.rotors) * (
            4.0 if compat == "airsim" else 1.0
        )
        return np.array([y * z + edges, x * z + edges, x * y + discs]) * (
            self.drag_coefficient / 2.0
        )

    def hover_control(self, gravity_mps2: float) -> float:
        """Return the control of every rotor, 0 to 1, that carries the weight at sea level,
        rotors upright.
        """
        return (
            self.mass_kg
            * gravity_mps2
            / sum(rotor.propeller.max_thrust_n * rotor.axis[2] for rotor in self.rotors)
        )


def _ring(
    bearings_deg: Sequence[float],
    spins: Sequence[int],
    arms_m: Sequence[float],
    below_m: float,
    propeller: Propeller,
) -> tuple[AirsimRotor, ...]:
    """Return rotors on arms; bearings count counter-clockwise from straight ahead."""
    rotors = []
    for bearing_deg, spin, arm_m in zip(bearings_deg, spins, arms_m, strict=True):
        sine, cosine = sin_cos(math.radians(bearing_deg))
        rotors.append(
            AirsimRotor((arm_m * float(cosine), arm_m * float(sine), -below_m), spin, propeller)
        )
    return tuple(rotors)


# Order of the original: front right, rear left, front left, rear right.
_X4: Final = (-45.0, 135.0, 45.0, -135.0)
_X4_SPINS: Final = (CCW, CCW, CW, CW)
_X6: Final = (-90.0, 90.0, 30.0, -150.0, -30.0, 150.0)
_X6_SPINS: Final = (CW, CCW, CW, CCW, CCW, CW)
_X8: Final = (-22.5, 157.5, -67.5, -157.5, 22.5, 112.5, 67.5, -112.5)
_X8_SPINS: Final = (CW, CW, CCW, CCW, CCW, CCW, CW, CW)

_FLAMEWHEEL_PROPELLER: Final = Propeller(0.11, 0.047, 9500.0)
_FLA_PROPELLER: Final = Propeller(0.2, 0.1, 9324.0)


def _generic(bearings_deg: Sequence[float], spins: Sequence[int]) -> AirsimAirframe:
    rotors = _ring(bearings_deg, spins, [0.2275] * len(spins), 0.025, Propeller())
    return AirsimAirframe(1.0, 0.055, (0.180, 0.11, 0.040), rotors)


def _flamewheel(mass_kg: float, motor_kg: float, propeller: Propeller) -> AirsimAirframe:
    rotors = _ring(_X4, _X4_SPINS, [0.225] * 4, 0.15, propeller)
    return AirsimAirframe(mass_kg, motor_kg, (0.16, 0.10, 0.14), rotors, drag_coefficient=1.3)


FRAMES: Final[Mapping[str, AirsimAirframe]] = MappingProxyType(
    {
        "generic": _generic(_X4, _X4_SPINS),
        "f450": _flamewheel(1.635, 0.052, _FLAMEWHEEL_PROPELLER),
        "fla": _flamewheel(2.25, 0.1, _FLA_PROPELLER),
        "blacksheep": AirsimAirframe(
            2.0,
            0.052,
            (0.20, 0.12, 0.04),
            _ring(
                (-55.0, 125.0, 55.0, -125.0),
                _X4_SPINS,
                (0.22, 0.255, 0.22, 0.255),
                0.025,
                _FLAMEWHEEL_PROPELLER,
            ),
        ),
        "hexa_x": _generic(_X6, _X6_SPINS),
        "octo_x": _generic(_X8, _X8_SPINS),
    }
)
"""AirSim's frames by name.

Generic quad X, DJI F450, Flamewheel FLA, Blacksheep, hexa X and octo X.
"""
