"""Cars on a plane: the Dubins car of FlightGoggles, and a kinematic bicycle.

Forces do not accelerate a car: of its surroundings it feels the horizontal force alone, and yields
to it like tyres that creep, with the velocity force / ``creep_nspm``. Wind, torque, density and
gravity leave it alone. The mass counts in collisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from math import sqrt
from typing import Final

import numpy as np

from vil_bridge.core.compile import has_numba
from vil_bridge.core.geometry import q_exp, q_mul, q_normalize
from vil_bridge.core.random.noise import NoiseStream
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import ENVIRONMENT
from vil_simulation.vehicles.layout import RIGID_BODY, Field, StateLayout
from vil_simulation.vehicles.model import Model, NativeStep

_FORCE: Final = ENVIRONMENT["force_world_n"]
_CREEP_NSPM: Final = 1000.0
_STREAM: Final = 2100


class DubinsCar(Model):
    """A speed along the heading and a yaw rate, both followed at once.

    carDynamicsSim of FlightGoggles.

    As there a step moves the car along the heading at its beginning, then turns it; what
    FlightGoggles calls steering angle is the yaw rate. Its height never changes.

    Attributes:
        most_speed_mps: speeds are clipped to 0 ... this. most_yaw_rate_radps: yaw rates to +- this.
        creep_nspm: see the module.
    """

    state: StateLayout = StateLayout(*RIGID_BODY)
    commands: Mapping[str, StateLayout] = {
        "speed": StateLayout(
            Field("speed_mps", 1, "m/s", "ahead"),
            Field("yaw_rate_radps", 1, "rad/s", "to the left"),
        )
    }
    mode = "speed"

    def __init__(
        self,
        *,
        most_speed_mps: float = 5.0,
        most_yaw_rate_radps: float = 1.0,
        creep_nspm: float = _CREEP_NSPM,
    ) -> None:
        self.most_speed_mps: Final = most_speed_mps
        self.most_yaw_rate_radps: Final = most_yaw_rate_radps
        self.creep_nspm: Final = creep_nspm

    def derivative(self, x: FloatArray, u: FloatArray, around: FloatArray) -> FloatArray:
        """Return time derivative of x, (n, 13)."""
        velocity, w = self._driven(x, u)
        rates = np.zeros_like(x)
        rates[:, 0:2] = velocity[:, :2] + around[:, _FORCE][:, :2] / self.creep_nspm
        rates[:, 3] = -w[:, 2] * velocity[:, 1]
        rates[:, 4] = w[:, 2] * velocity[:, 0]
        rates[:, 6:10] = _turning(x, w)
        return rates

    def step(self, x: FloatArray, u: FloatArray, around: FloatArray, dt_s: float) -> FloatArray:
        """Return states one step later, (n, 13)."""
        moved = x.copy()
        moved[:, 0:2] += dt_s * self.derivative(x, u, around)[:, 0:2]
        moved[:, 10:13] = self._driven(x, u)[1]
        moved[:, 6:10] = q_normalize(q_mul(x[:, 6:10], q_exp(dt_s * moved[:, 10:13])))
        moved[:, 3:6] = self._driven(moved, u)[0]
        return moved

    def _driven(self, x: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return world velocities and body rates that commands ask for, (n, 3) each."""
        w = np.zeros((len(x), 3))
        w[:, 2] = np.clip(u[:, 1], -self.most_yaw_rate_radps, self.most_yaw_rate_radps)
        return _level(x, np.clip(u[:, 0], 0.0, self.most_speed_mps), 0.0), w


@dataclass(frozen=True, slots=True, kw_only=True)
class BicycleParameters:
    """A car of ordinary size, unless said otherwise.

    Attributes:
        front_m, rear_m: from the centre of gravity to the axles; together the wheelbase.
        most_steering_rad, most_steering_rate_radps: of the front wheels, both ways.
        steering_time_s, speed_time_s: angle and speed follow their commands with these lags, within
            the limits.
        least_speed_mps, most_speed_mps: reverse is negative.
        most_braking_mps2, most_acceleration_mps2: limits of the speed's change, down and up.
        creep_nspm, mass_kg: see the module.

    Raises:
        ValueError: a length, time or limit out of its range.
    """

    front_m: float = 1.3
    rear_m: float = 1.4
    most_steering_rad: float = 0.6
    most_steering_rate_radps: float = 0.8
    steering_time_s: float = 0.1
    speed_time_s: float = 0.3
    least_speed_mps: float = -3.0
    most_speed_mps: float = 20.0
    most_braking_mps2: float = 8.0
    most_acceleration_mps2: float = 3.0
    creep_nspm: float = _CREEP_NSPM
    mass_kg: float = 1500.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if name != "least_speed_mps" and not getattr(self, name) > 0.0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if not self.most_steering_rad < 1.5:
            raise ValueError(f"most_steering_rad must be below 1.5, got {self.most_steering_rad}")
        if not self.least_speed_mps <= 0.0:
            raise ValueError(f"least_speed_mps must not be positive, got {self.least_speed_mps}")


class KinematicBicycle(Model):
    """Wheels that never slip.

    Kong, Pfeiffer, Schildbach, Borrelli, "Kinematic and dynamic vehicle models", 2015, (1).

    With L the wheelbase, r from the centre of gravity to the rear axle, steering d and speed v of
    the centre of gravity: slip angle b = atan(r/L tan d), velocity v along heading + b, yaw rate v
    cos b tan d / L.
    """

    state: StateLayout = StateLayout(
        *RIGID_BODY,
        Field("speed_mps", 1, "m/s", "of the centre of gravity, backwards negative"),
        Field("steering_rad", 1, "rad", "angle of the front wheels, left positive"),
    )
    commands: Mapping[str, StateLayout] = {
        "speed": StateLayout(
            Field("speed_mps", 1, "m/s", "to reach"),
            Field("steering_rad", 1, "rad", "to reach, left positive"),
        )
    }
    mode = "speed"

    def __init__(self, parameters: BicycleParameters | None = None) -> None:
        self.parameters: Final = parameters or BicycleParameters()

    def derivative(self, x: FloatArray, u: FloatArray, around: FloatArray) -> FloatArray:
        """Return time derivative of x, (n, 15)."""
        p = self.parameters
        speed = x[:, 13]
        steering = x[:, 14]
        wanted_speed = np.clip(u[:, 0], p.least_speed_mps, p.most_speed_mps)
        wanted_steering = np.clip(u[:, 1], -p.most_steering_rad, p.most_steering_rad)
        pull = np.clip(
            (wanted_speed - speed) / p.speed_time_s, -p.most_braking_mps2, p.most_acceleration_mps2
        )
        turn = np.clip(
            (wanted_steering - steering) / p.steering_time_s,
            -p.most_steering_rate_radps,
            p.most_steering_rate_radps,
        )
        share = p.rear_m / (p.front_m + p.rear_m)
        slip = np.arctan(share * np.tan(steering))
        slip_rate = share * turn / (np.cos(steering) ** 2 + (share * np.sin(steering)) ** 2)
        velocity, w = self._rolling(x)
        bend = w[:, 2] + slip_rate

        rates = np.zeros_like(x)
        rates[:, 0:2] = velocity[:, :2] + around[:, _FORCE][:, :2] / p.creep_nspm
        rates[:, 3:6] = self._along(x, slip, pull)
        rates[:, 3] -= bend * velocity[:, 1]
        rates[:, 4] += bend * velocity[:, 0]
        rates[:, 6:10] = _turning(x, w)
        rates[:, 12] = (pull * np.sin(slip) + speed * np.cos(slip) * slip_rate) / p.rear_m
        rates[:, 13] = pull
        rates[:, 14] = turn
        return rates

    def constrain(self, x: FloatArray) -> FloatArray:
        """Return attitudes of unit length, velocity and yaw rate by speed and steering.

        Changes x.
        """
        x = super().constrain(x)
        x[:, 3:6], x[:, 10:13] = self._rolling(x)
        return x

    def native(self) -> NativeStep | None:
        """Return the compiled :meth:`step`; None without numba."""
        if not has_numba():
            return None
        from vil_simulation.vehicles.car_kernel import advance

        parameters = np.array(astuple(self.parameters))

        def step(x: FloatArray, u: FloatArray, around: FloatArray, dt_s: float, steps: int) -> None:
            advance(x, u, around, parameters, dt_s, steps)

        return step

    def _rolling(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return world velocities and body rates, (n, 3) each."""
        p = self.parameters
        slip = np.arctan(p.rear_m / (p.front_m + p.rear_m) * np.tan(x[:, 14]))
        w = np.zeros((len(x), 3))
        w[:, 2] = x[:, 13] * np.sin(slip) / p.rear_m
        return self._along(x, slip, x[:, 13]), w

    def _along(self, x: FloatArray, slip: FloatArray, size: FloatArray) -> FloatArray:
        """Return world vectors of these sizes in the direction of travel, (n, 3)."""
        return _level(x, size * np.cos(slip), size * np.sin(slip))


class CreepNoise:
    """White noise of a car's velocity along and across it, as FlightGoggles' car has it.

    A disturbance.

    Args:
        creep_nspm: that of the cars. seed, stream: of the numbers.
        densities_m2ps: variance of the velocity times the step, ahead and to the left.
        vehicles: identities of the rows, to which the numbers belong; None = 0, 1, 2...
    """

    def __init__(
        self,
        seed: int,
        *,
        stream: int = _STREAM,
        creep_nspm: float = _CREEP_NSPM,
        densities_m2ps: tuple[float, float] = (0.001, 0.001),
        vehicles: Sequence[int] | None = None,
    ) -> None:
        self._noise: Final = NoiseStream(seed, stream)
        self._sizes: Final = np.array([sqrt(density) * creep_nspm for density in densities_m2ps])
        self._vehicles: Final = vehicles

    def apply(self, step: int, dt_s: float, x: FloatArray, around: FloatArray) -> None:
        """Add the force that makes cars creep at the noise's velocity."""
        who = len(x) if self._vehicles is None else self._vehicles
        ahead, left = (self._sizes / sqrt(dt_s) * self._noise.normals(step, who, 2)).T
        around[:, _FORCE] += _level(x, ahead, left)


def _level(x: FloatArray, ahead: FloatArray, left: FloatArray | float) -> FloatArray:
    """Return world vectors (n, 3) of body vectors (ahead, left, 0).

    Matrix products would let bits depend on the batch.
    """
    i, j, k, r = x[:, 6:10].T
    return np.stack(
        (
            (1.0 - 2.0 * (j * j + k * k)) * ahead + 2.0 * (i * j - r * k) * left,
            2.0 * (i * j + r * k) * ahead + (1.0 - 2.0 * (i * i + k * k)) * left,
            2.0 * (i * k - r * j) * ahead + 2.0 * (j * k + r * i) * left,
        ),
        axis=-1,
    )


def _turning(x: FloatArray, w: FloatArray) -> FloatArray:
    """Return time derivative of attitudes, (n, 4)."""
    return 0.5 * q_mul(x[:, 6:10], np.hstack([w, np.zeros((len(w), 1))]))
