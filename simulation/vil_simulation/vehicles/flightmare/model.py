"""The Flightmare quadrotor: thrust map, motor lag, rotor drag, body-rate controller.

Equations: Song, Naji, Kaufmann, Loquercio, Scaramuzza, "Flightmare: A Flexible Quadrotor Simulator"
(2020), section 3.3, with the drag of Agilicious (Foehn et al. 2022). Rotor speeds follow their
targets in closed form, so thrust and torque are taken at the stages of RK4 themselves; flightlib
holds them over a sub-step, which ``compat="flightmare"`` reproduces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar, Final, Literal

import numpy as np

from vil_bridge.core.compile import has_numba
from vil_bridge.core.elementary import exp, expm1
from vil_bridge.core.geometry import cross, q_mul, q_normalize, q_to_matrix
from vil_bridge.core.matrices import inverse, product
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import ENVIRONMENT, SEA_LEVEL_DENSITY_KGPM3
from vil_simulation.vehicles.flightmare.compat import original_motion, original_substeps, within_box
from vil_simulation.vehicles.flightmare.parameters import (
    FLIGHTMARE,
    ORIGINAL_THRUST_MAX_N,
    QuadrotorParameters,
)
from vil_simulation.vehicles.layout import RIGID_BODY, Field, StateLayout, flush
from vil_simulation.vehicles.model import Model, NativeStep, NativeTruth, TrueState, empty_truth

FlightmareMode = Literal["thrusts", "rates"]

_P: Final = slice(0, 3)
_V: Final = slice(3, 6)
_Q: Final = slice(6, 10)
_W: Final = slice(10, 13)
_BODY: Final = slice(0, 13)
_ROTORS: Final = slice(13, 17)

_WIND: Final = ENVIRONMENT["wind_world_mps"]
_FORCE: Final = ENVIRONMENT["force_world_n"]
_TORQUE: Final = ENVIRONMENT["torque_body_nm"]
_DENSITY: Final = ENVIRONMENT["density_kgpm3"]
_GRAVITY: Final = ENVIRONMENT["gravity_mps2"]
_FACTOR: Final = ENVIRONMENT["thrust_factor"]

_ROUNDING: Final = 1e-9
_WORLD_BOX_M: Final = ((-100.0, -100.0, -100.0), (100.0, 100.0, 100.0))


def substeps(dt_s: float, longest_s: float) -> int:
    """Return equal sub-steps that a step is made of, none longer than ``longest_s``."""
    return max(1, math.ceil(dt_s / longest_s - _ROUNDING))


@lru_cache(maxsize=64)
def motor_fades(h_s: float, motor_time_s: float) -> tuple[float, float, float]:
    """Return the remaining share of a rotor's distance from its target at the stage times 0, h/2, h
    of RK4.

    exp(-t / tau), but for the first: that is the value with which Simpson's rule integrates the lag
    exactly. It differs from 1 by O(h^4), so the order stays, and motors much faster than the
    sub-step do no harm.
    """
    ratio = h_s / motor_time_s
    half = float(exp(-0.5 * ratio))
    full = float(exp(-ratio))
    return -6.0 * float(expm1(-ratio)) / ratio - 4.0 * half - full, half, full


class FlightmareQuadrotor(Model):
    """A quadrotor commanded by rotor thrusts, or by collective thrust and body rates.

    Args:
        parameters: the vehicle; see :mod:`vil_simulation.vehicles.flightmare.parameters`.
        mode: ``thrusts`` (N per rotor) or ``rates`` (collective thrust / mass and body rates); the
            rate controller runs once in every sub-step.
        longest_substep_s: steps are cut into equal sub-steps no longer than this. Thrusts are good
            for 20 ms (0.03 mm after 0.4 s of hard manoeuvres), the closed loop of ``rates`` for 2.5
            ms.
        compat: ``flightmare`` = stepping as flightlib (master) does it: see
            :mod:`vil_simulation.vehicles.flightmare.compat`; NumPy only.
        world_box_m: lower and upper corner of flightlib's world; ``compat`` alone has such a box.

    Raises:
        ValueError: an unknown mode, or a sub-step that is not positive.
    """

    state = StateLayout(*RIGID_BODY, Field("rotors_radps", 4, "rad/s", "rotor speeds"))
    commands: Mapping[str, StateLayout] = {
        "thrusts": StateLayout(Field("thrusts_n", 4, "N", "thrust of each rotor")),
        "rates": StateLayout(
            Field("thrust_mps2", 1, "m/s^2", "collective thrust over mass"),
            Field("w_body_radps", 3, "rad/s", "body rates"),
        ),
    }
    rotors: ClassVar[str] = "rotors_radps"

    def __init__(
        self,
        parameters: QuadrotorParameters = FLIGHTMARE,
        mode: FlightmareMode = "thrusts",
        *,
        longest_substep_s: float = 0.0025,
        compat: Literal["flightmare"] | None = None,
        world_box_m: tuple[tuple[float, float, float], tuple[float, float, float]] = _WORLD_BOX_M,
    ) -> None:
        if mode not in self.commands:
            raise ValueError(f"no mode named {mode!r}; known: {', '.join(self.commands)}")
        if not longest_substep_s > 0.0:
            raise ValueError(f"longest_substep_s must be positive, got {longest_substep_s}")
        self.parameters: Final = parameters
        self.mode = mode
        self.longest_substep_s: Final = longest_substep_s
        self.compat: Final = compat
        self.world_box_m: Final = np.array(world_box_m)
        least_n, most_n = parameters.thrust_limits_n
        least_mps2 = 4.0 * least_n / parameters.mass_kg
        most_mps2 = 4.0 * most_n / parameters.mass_kg
        if compat:
            most_n = ORIGINAL_THRUST_MAX_N
            least_mps2 = least_n
            most_mps2 = most_n
        self.thrust_limits_n: Final = (least_n, most_n)
        self.thrust_limits_mps2: Final = (least_mps2, most_mps2)
        self._effects: Final = parameters.effects()
        self._shares: Final = inverse(parameters.allocation())
        self._speed_limits: Final = parameters.speed_limits_radps
        self.motor_time_s: Final = parameters.of_motors("motor_time_s")
        self._inertia: Final = np.array(parameters.inertia_kgm2)
        self._rate_gains: Final = np.array(parameters.rate_gains_1ps)
        self._rate_limits: Final = np.array(parameters.rate_limits_radps)
        self._linear: Final = np.array(parameters.drag_linear_nspm)
        self._cubic: Final = np.array(parameters.drag_cubic_ns3pm3)
        self._area: Final = 0.5 * SEA_LEVEL_DENSITY_KGPM3 * np.array(parameters.drag_area_m2)
        self.dragged: Final = any(
            (*self._linear, *self._cubic, *self._area, parameters.lift_ns2pm2)
        )

    @property
    def hover_thrust_n(self) -> float:
        """Thrust of each rotor that carries the vehicle."""
        return self.parameters.mass_kg * self.gravity_mps2 / 4.0

    def thrusts_commanded(self, x: FloatArray, u: FloatArray) -> FloatArray:
        """Return thrusts asked of the rotors, (n, 4): the command, or the rate controller's."""
        if self.mode == "thrusts":
            return np.clip(u, *self.thrust_limits_n)
        w = x[:, _W]
        error = np.clip(u[:, 1:], -self._rate_limits, self._rate_limits) - w
        wanted = np.empty((len(x), 4))
        wanted[:, 0] = self.parameters.mass_kg * np.clip(u[:, 0], *self.thrust_limits_mps2)
        wanted[:, 1:] = self._inertia * self._rate_gains * error + cross(w, self._inertia * w)
        thrusts_n: FloatArray = np.clip(product(wanted, self._shares.T), *self.thrust_limits_n)
        return thrusts_n

    def speeds_commanded(self, x: FloatArray, u: FloatArray) -> FloatArray:
        """Return speeds that the rotors go towards, (n, 4), rad/s."""
        p = self.parameters
        return np.clip(p.rotor_speed_radps(self.thrusts_commanded(x, u)), *self._speed_limits)

    def wrench(self, omega_radps: FloatArray, around: FloatArray) -> FloatArray:
        """Return thrust (N) and torque (N m, body) of rotors at speeds (n, 4), shape (n, 4).

        The thrust factor leaves the torque about z unchanged: the ground gives more thrust for the
        same power.
        """
        wrench: FloatArray = product(
            self._thrusts(omega_radps), self._effects.T
        ) * _relative_density(around)
        wrench[:, :3] *= around[:, _FACTOR]
        return wrench

    def rotor_outputs(self, x: FloatArray, around: FloatArray) -> FloatArray:
        """Return thrusts, torques and speeds of the rotors, (n, 4, 3).

        See :meth:`Model.rotor_outputs`.
        """
        omega = x[:, _ROTORS]
        pushed = self._thrusts(omega) * _relative_density(around)
        thrusts = pushed * self._effects[0] * around[:, _FACTOR]
        return np.stack((thrusts, pushed * self._effects[3], omega), axis=2)

    def rotor_places(self) -> tuple[FloatArray, FloatArray]:
        """Return hubs and axes of the rotors, (4, 3) each."""
        p = self.parameters
        return np.column_stack((p.rotor_x_m, p.rotor_y_m, np.zeros(4))), np.tile(
            (0.0, 0.0, 1.0), (4, 1)
        )

    def _thrusts(self, omega_radps: FloatArray) -> FloatArray:
        """Return thrusts of intact rotors at sea level, (n, 4), N."""
        return np.clip(self.parameters.thrust_n(omega_radps), *self.thrust_limits_n)

    def motion(self, body: FloatArray, wrench: FloatArray, around: FloatArray) -> FloatArray:
        """Return time derivative of a rigid body (n, 13) under thrust and torque (n, 4) in its
        environment.
        """
        mass = self.parameters.mass_kg
        inertia = self._inertia
        q = body[:, _Q]
        w = body[:, _W]
        R_world_body = q_to_matrix(q)
        force = wrench[:, :1] * R_world_body[:, :, 2] + around[:, _FORCE]
        if self.dragged:
            air = product((body[:, _V] - around[:, _WIND])[:, None], R_world_body)[:, 0]
            drag = self.drag(air) * _relative_density(around)
            force += product(R_world_body, drag[:, :, None])[:, :, 0]
        rates = np.empty_like(body)
        rates[:, _P] = body[:, _V]
        rates[:, _V] = force / mass
        rates[:, 5] -= around[:, _GRAVITY][:, 0]
        rates[:, _Q] = 0.5 * q_mul(q, np.concatenate((w, np.zeros((len(w), 1))), axis=1))
        rates[:, _W] = (wrench[:, 1:] + around[:, _TORQUE] - cross(w, inertia * w)) / inertia
        return rates

    def drag(self, air_body_mps: FloatArray) -> FloatArray:
        """Return drag and lift (n, 3), body, N, at 1.225 kg/m^3 and the given velocity through
        the air (n, 3).
        """
        v = air_body_mps
        force = -(self._linear + self._area * np.abs(v) + self._cubic * v * v) * v
        force[:, 2] += self.parameters.lift_ns2pm2 * (v[:, 0] ** 2 + v[:, 1] ** 2)
        return force

    def derivative(self, x: FloatArray, u: FloatArray, around: FloatArray) -> FloatArray:
        """Return time derivative of x with the rate controller in the loop."""
        rates = np.empty_like(x)
        rates[:, _BODY] = self.motion(x[:, _BODY], self.wrench(x[:, _ROTORS], around), around)
        rates[:, _ROTORS] = (self.speeds_commanded(x, u) - x[:, _ROTORS]) / self.motor_time_s
        return rates

    def step(self, x: FloatArray, u: FloatArray, around: FloatArray, dt_s: float) -> FloatArray:
        """Return states one step later, a new array (n, 17)."""
        if self.compat is not None:
            return self._original_step(x, u, around, dt_s)
        count = substeps(dt_s, self.longest_substep_s)
        for _ in range(count):
            x = self._substep(x, u, around, dt_s / count)
        return x

    def native(self) -> NativeStep | None:
        """Return the compiled step for the mode in use; None without numba and for ``compat``."""
        if self.compat is not None or not has_numba():
            return None
        from vil_simulation.vehicles.flightmare import kernel

        parameters = self.packed()
        rates = self.mode == "rates"
        # Motors that differ have their own fades in the kernel.
        motor_time_s = float(self.motor_time_s[0])

        def step(x: FloatArray, u: FloatArray, around: FloatArray, dt_s: float, steps: int) -> None:
            count = substeps(dt_s, self.longest_substep_s)
            h_s = dt_s / count
            fades = motor_fades(h_s, motor_time_s)
            kernel.step(x, u, around, parameters, rates, h_s, fades, steps * count)

        return step

    def native_truth(self) -> NativeTruth | None:
        """Return the compiled :meth:`truth`; None without numba."""
        if not has_numba():
            return None
        from vil_simulation.vehicles.flightmare import kernel

        parameters = self.packed()

        def truth(
            t_ns: int,
            x: FloatArray,
            u: FloatArray,  # noqa: ARG001
            around: FloatArray,
        ) -> TrueState:
            found = empty_truth(t_ns, len(x), 4)
            kernel.truth(x, around, parameters, *found[1:])
            return found

        return truth

    def packed(self) -> FloatArray:
        """Return the parameters as one array, (76,), in the order of the kernel's offsets."""
        p = self.parameters
        inertia = self._inertia
        return np.concatenate(
            (
                p.thrust_map,
                self.thrust_limits_n,
                self._effects[1:].ravel(),
                (1.0 / p.mass_kg, *inertia, *1.0 / inertia),
                self._linear,
                self._area,
                self._cubic,
                (p.lift_ns2pm2,),
                inertia * self._rate_gains,
                self._rate_limits,
                np.array(self.thrust_limits_mps2) * p.mass_kg,
                self._shares.ravel(),
                (self.dragged,),
                *self._speed_limits,
                self._effects[0],
                self.motor_time_s,
                (not p.alike,),
            )
        )

    def _original_step(
        self, x: FloatArray, u: FloatArray, around: FloatArray, dt_s: float
    ) -> FloatArray:
        """Return states (n, 17) after a step as flightlib's ``Quadrotor::run`` makes it."""
        before = x
        for h_s in original_substeps(dt_s, self.longest_substep_s):
            x, target = x.copy(), self.speeds_commanded(x, u)
            x[:, _ROTORS] = target + np.exp(-h_s / self.motor_time_s) * (x[:, _ROTORS] - target)
            wrench = self.wrench(x[:, _ROTORS], around)
            x[:, _BODY] += original_motion(self.motion, x[:, _BODY], wrench, around, h_s)
        return flush(within_box(before, x, self.world_box_m))

    def _substep(self, x: FloatArray, u: FloatArray, around: FloatArray, h_s: float) -> FloatArray:
        target = self.speeds_commanded(x, u)
        gap = x[:, _ROTORS] - target
        start, middle, end = np.array(
            [motor_fades(h_s, time_s) for time_s in self.motor_time_s.tolist()]
        ).T
        early, midway, late = (
            self.wrench(target + fade * gap, around) for fade in (start, middle, end)
        )
        body = x[:, _BODY]
        k1 = self.motion(body, early, around)
        k2 = self.motion(body + 0.5 * h_s * k1, midway, around)
        k3 = self.motion(body + 0.5 * h_s * k2, midway, around)
        k4 = self.motion(body + h_s * k3, late, around)
        moved = np.empty_like(x)
        moved[:, _BODY] = body + h_s / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)
        moved[:, _Q] = q_normalize(moved[:, _Q])
        moved[:, _ROTORS] = target + end * gap
        return flush(moved)


def _relative_density(around: FloatArray) -> FloatArray:
    return around[:, _DENSITY] / SEA_LEVEL_DENSITY_KGPM3
