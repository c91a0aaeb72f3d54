"""FlightGoggles' multicopter: rotors with inertia and lag, quadratic drag, rate and waypoint
controllers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final, Literal

import numpy as np

from vil_bridge.core.compile import has_numba
from vil_bridge.core.geometry import cross, q_mul, q_normalize, q_rotate
from vil_bridge.core.matrices import inverse, product
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import ENVIRONMENT, SEA_LEVEL_DENSITY_KGPM3
from vil_simulation.vehicles.flightgoggles.control import (
    RateGains,
    RateMemory,
    WaypointGains,
    control_rates,
    fly_to_waypoint,
    rotor_speeds,
)
from vil_simulation.vehicles.layout import RIGID_BODY, Field, StateLayout, flush
from vil_simulation.vehicles.model import (
    Integrator,
    Model,
    NativeStep,
    NativeTruth,
    TrueState,
    empty_truth,
)
from vil_simulation.vehicles.multicopter import MulticopterParameters, Numbering

Compat = Literal["flightgoggles"]
Mode = Literal["motor_speeds", "rates", "waypoint"]

STARTS: Final[Mapping[Numbering, Mapping[str, object]]] = MappingProxyType(
    {
        "ros": {"p_world_m": (18.5, 6.5, 1.0), "rotors_radps": MulticopterParameters().hover_radps},
        "python": {"p_world_m": (0.0, 0.0, 1.0), "rotors_radps": 0.0},
    }
)
"""Start poses of the two flavours of FlightGoggles, z up: ``fleet.place(**STARTS["ros"])``."""

_COMMANDS: Final = {
    "rates": StateLayout(
        Field("thrust_n", 1, "N", "along body z"),
        Field("w_body_radps", 3, "rad/s", "rates to hold, body FLU"),
    ),
    "waypoint": StateLayout(
        Field("p_world_m", 3, "m", "where to fly, ENU"), Field("yaw_rad", 1, "rad", "heading there")
    ),
}


class FlightGogglesMulticopter(Model):
    """N rotors anywhere on a rigid body, after multicopterDynamicsSim of FlightGoggles.

    Modes: ``motor_speeds`` (rad/s each), ``rates`` (thrust and body rates, the controller of
    FlightGoggles' uav_dynamics), ``waypoint`` (position and yaw, the controller of its Python
    package above the former). In the latter two the controller's memory is part of the state. Its
    gyro sample ``gyro_body_radps`` is the rate at the end of the step before; overwrite it between
    steps to feed an IMU's instead.

    Attributes:
        parameters, rate_gains, waypoint_gains: what it was made with.

    Args:
        compat: ``flightgoggles``: RK4 normalises its running sum of quaternions after every partial
            addition, and the rate controller ignores the gyroscopic moment w x J w (its paper, eq.
            22, does not).

    Raises:
        ValueError: an argument is unknown, the rotors cannot follow rates, or waypoints would turn
            the vehicle over.
    """

    rotors: ClassVar[str] = "rotors_radps"

    def __init__(
        self,
        parameters: MulticopterParameters | None = None,
        *,
        mode: Mode = "motor_speeds",
        integrator: Integrator = "rk4",
        compat: Compat | None = None,
        rate_gains: RateGains | None = None,
        waypoint_gains: WaypointGains | None = None,
    ) -> None:
        self.parameters: Final = parameters or MulticopterParameters()
        self.rate_gains: Final = rate_gains or RateGains()
        self.waypoint_gains: Final = waypoint_gains or WaypointGains()
        self.integrator = integrator
        self.compat: Final = compat
        self.gravity_mps2 = self.parameters.gravity_mps2
        if compat not in (None, "flightgoggles"):
            raise ValueError(f"compat must be flightgoggles or nothing, not {compat!r}")
        if integrator not in ("euler", "rk4"):
            raise ValueError(f"integrator must be euler or rk4, not {integrator!r}")
        count = len(self.parameters.rotors)
        self.commands = {
            "motor_speeds": StateLayout(Field("rotors_radps", count, "rad/s", "speeds to take")),
            **_COMMANDS,
        }
        if mode not in self.commands:
            raise ValueError(f"mode must be one of {', '.join(self.commands)}, not {mode!r}")
        if (
            mode == "waypoint"
            and not self.waypoint_gains.most_acceleration_mps2 < self.gravity_mps2
        ):
            raise ValueError(
                "most_acceleration_mps2 must be below gravity: the vehicle would turn over"
            )
        self.mode = mode
        controller: tuple[Field, ...] = ()
        if mode != "motor_speeds":
            controller = _controller_fields(count)
        self.state = StateLayout(
            *RIGID_BODY, Field("rotors_radps", count, "rad/s", "rotor speeds"), *controller
        )
        self._prepare()

    def _prepare(self) -> None:
        p = self.parameters
        self._axes = p.axes_body
        self._levers = p.levers_m
        self._twists = p.twists_body
        self._inertia = np.array(p.inertia_kgm2)
        self._inverse_inertia = inverse(self._inertia)
        self._aero_moment = np.array(p.aero_moment_nms2)
        self._kf, self._kt = p.of_motors("thrust_ns2"), p.of_motors("torque_nms2")
        self._motor_time_s = p.of_motors("motor_time_constant_s")
        self._slowest, self._fastest = (
            p.of_motors("motor_min_radps"),
            p.of_motors("motor_max_radps"),
        )
        self._allocation = None if self.mode == "motor_speeds" else p.allocation()

    def initial(self, n: int) -> FloatArray:
        """Return states at rest at the origin, level, rotors at the speed that hovers.

        Still where they cannot.
        """
        hovering = self.parameters.hover_radps if self._axes[:, 2].sum() > 0.0 else 0.0
        speed = np.clip(hovering, self._slowest, self._fastest)
        return self.state.pack({"q_world_body": (0.0, 0.0, 0.0, 1.0), "rotors_radps": speed}, n)

    def derivative(self, x: FloatArray, u: FloatArray, around: FloatArray) -> FloatArray:
        """Return time derivative of x, (n, dx).

        The controller's memory stands still within a step.
        """
        p = self.parameters
        state = self.state
        air = ENVIRONMENT.split(around)
        speeds = x[:, state["rotors_radps"]]
        asked = self._asked(x, u)
        density = air["density_kgpm3"] / SEA_LEVEL_DENSITY_KGPM3
        q = x[:, state["q_world_body"]]
        w = x[:, state["w_body_radps"]]
        past = x[:, state["v_world_mps"]] - air["wind_world_mps"]

        spin = (np.clip(asked, self._slowest, self._fastest) - speeds) / self._motor_time_s
        squares = density * speeds * np.abs(speeds)
        thrusts = self._kf * air["thrust_factor"] * squares
        drag = p.drag_ns2pm2 * density * np.linalg.norm(past, axis=1, keepdims=True) * past
        damping = (
            density * np.linalg.norm(w, axis=1, keepdims=True) * product(w, self._aero_moment.T)
        )
        moment = (
            product(thrusts, self._levers)
            + product(self._kt * squares + p.rotor_inertia_kgm2 * spin, self._twists)
            - damping
            + air["torque_body_nm"]
        )
        momentum = product(w, self._inertia) - p.rotor_inertia_kgm2 * product(speeds, self._twists)

        rates = np.zeros_like(x)
        rates[:, state["p_world_m"]] = x[:, state["v_world_mps"]]
        rates[:, state["v_world_mps"]] = (
            q_rotate(q, product(thrusts, self._axes)) - drag + air["force_world_n"]
        ) / p.mass_kg
        rates[:, state["v_world_mps"].stop - 1] -= air["gravity_mps2"][:, 0]
        rates[:, state["q_world_body"]] = 0.5 * q_mul(q, np.hstack([w, np.zeros((len(w), 1))]))
        rates[:, state["w_body_radps"]] = product(
            moment - cross(w, momentum), self._inverse_inertia
        )
        rates[:, state["rotors_radps"]] = spin
        return rates

    def rotor_outputs(self, x: FloatArray, around: FloatArray) -> FloatArray:
        """Return thrusts, torques and speeds of the rotors, (n, rotors, 3).

        See :meth:`Model.rotor_outputs`.
        """
        air = ENVIRONMENT.split(around)
        speeds = x[:, self.state["rotors_radps"]]
        squares = air["density_kgpm3"] / SEA_LEVEL_DENSITY_KGPM3 * speeds * np.abs(speeds)
        signs = np.array([rotor.direction for rotor in self.parameters.rotors])
        return np.stack(
            (self._kf * air["thrust_factor"] * squares, self._kt * signs * squares, speeds), axis=2
        )

    def rotor_places(self) -> tuple[FloatArray, FloatArray]:
        """Return hubs and axes of the rotors, (rotors, 3) each."""
        return np.array([rotor.p_body_m for rotor in self.parameters.rotors]), self._axes

    def constrain(self, x: FloatArray) -> FloatArray:
        """Return rotor speeds within their limits and attitudes of unit length; changes x."""
        speeds = x[:, self.state["rotors_radps"]]
        np.clip(speeds, self._slowest, self._fastest, out=speeds)
        return super().constrain(x)

    def step(self, x: FloatArray, u: FloatArray, around: FloatArray, dt_s: float) -> FloatArray:
        """Return states one step later, (n, dx).

        The controller with what it measured before, then the dynamics.
        """
        if self.mode == "motor_speeds":
            return self._move(x, u, around, dt_s)
        moved = self._move(self._control(x, u, dt_s), u, around, dt_s)
        moved[:, self.state["gyro_body_radps"]] = moved[:, self.state["w_body_radps"]]
        return moved

    def native(self) -> NativeStep | None:
        """Return the compiled step.

        None = numba is not installed, or there are more than 16 rotors.
        """
        if not has_numba():
            return None
        from vil_simulation.vehicles.flightgoggles import kernel

        count = len(self.parameters.rotors)
        if count > kernel.MOST_ROTORS:
            return None
        parameters = self._packed()
        mode = ("motor_speeds", "rates", "waypoint").index(self.mode)
        scheme = 2
        if self.integrator == "euler":
            scheme = 0
        elif self.compat is None:
            scheme = 1

        def step(x: FloatArray, u: FloatArray, around: FloatArray, dt_s: float, steps: int) -> None:
            kernel.advance(x, u, around, parameters, dt_s, steps, count, mode, scheme)

        return step

    def native_truth(self) -> NativeTruth | None:
        """Return the compiled :meth:`truth`; None where there is no compiled step."""
        if self.native() is None:
            return None
        from vil_simulation.vehicles.flightgoggles import kernel

        count, parameters = len(self.parameters.rotors), self._packed()

        def truth(t_ns: int, x: FloatArray, u: FloatArray, around: FloatArray) -> TrueState:
            found = empty_truth(t_ns, len(x), count)
            kernel.truth(x, self._asked(x, u), around, parameters, *found[1:])
            return found

        return truth

    def _packed(self) -> FloatArray:
        """Return the parameters in the order of the kernel's ``SCALARS`` and
        ``ROTOR_PARAMETERS``.
        """
        p = self.parameters
        gains = self.rate_gains
        way = self.waypoint_gains
        allocation = np.zeros((len(p.rotors), 4)) if self._allocation is None else self._allocation
        matrices = (self._inertia, self._inverse_inertia, self._aero_moment)
        motors = (1.0 / self._motor_time_s, self._slowest, self._fastest, self._kf, self._kt)
        rates = (
            gains.proportional_per_s,
            gains.integral_per_s2,
            gains.derivative,
            gains.integral_limit_rad,
        )
        return np.concatenate(
            [
                (p.mass_kg, p.rotor_inertia_kgm2, p.drag_ns2pm2),
                np.ravel(matrices),
                (*rates, gains.stiffness_per_s2, gains.damping_per_s, float(self.compat is None)),
                (way.position_per_s2, way.velocity_per_s, way.attitude_per_s, way.reach_m),
                (way.most_acceleration_mps2, way.most_rate_radps, p.gravity_mps2),
                np.column_stack(
                    [self._axes, self._levers, self._twists, allocation, *motors]
                ).ravel(),
            ]
        )

    def _asked(self, x: FloatArray, u: FloatArray) -> FloatArray:
        return u if self.mode == "motor_speeds" else x[:, self.state["asked_radps"]]

    def _move(self, x: FloatArray, u: FloatArray, around: FloatArray, dt_s: float) -> FloatArray:
        if self.compat is None or self.integrator == "euler":
            return super().step(x, u, around, dt_s)
        attitude = self.state["q_world_body"]
        total = x.copy()
        slope = np.zeros_like(x)
        for ahead, weight in ((0.0, 1.0), (0.5, 2.0), (0.5, 2.0), (1.0, 1.0)):
            stage = self.constrain(x + ahead * dt_s * slope) if ahead else x
            slope = self.derivative(stage, u, around)
            total += weight * dt_s / 6.0 * slope
            total[:, attitude] = q_normalize(total[:, attitude])
        return flush(self.constrain(total))

    def _control(self, x: FloatArray, u: FloatArray, dt_s: float) -> FloatArray:
        state = self.state
        if self.mode == "waypoint":
            u = self._rates_to_waypoint(x, u)
        wanted = _COMMANDS["rates"].split(u)
        memory = RateMemory(*(x[:, state[name]] for name in _MEMORY))
        alpha, memory = control_rates(
            self.rate_gains, wanted["w_body_radps"], x[:, state["gyro_body_radps"]], memory, dt_s
        )
        moment = product(alpha, self._inertia)
        if self.compat is None:
            moment += cross(memory.rate_radps, product(memory.rate_radps, self._inertia))
        assert self._allocation is not None
        x = x.copy()
        x[:, state["asked_radps"]] = rotor_speeds(
            product(np.hstack([moment, wanted["thrust_n"]]), self._allocation.T)
        )
        for name, values in zip(_MEMORY, memory, strict=True):
            x[:, state[name]] = values
        return x

    def _rates_to_waypoint(self, x: FloatArray, u: FloatArray) -> FloatArray:
        state = self.state
        p = self.parameters
        return fly_to_waypoint(
            self.waypoint_gains,
            p.mass_kg,
            p.gravity_mps2,
            u,
            x[:, state["p_world_m"]],
            x[:, state["v_world_mps"]],
            x[:, state["q_world_body"]],
        )


_MEMORY: Final = ("rate_filtered_radps", "rate_filtered_radps2", "rate_error_rad")


def _controller_fields(rotors: int) -> tuple[Field, ...]:
    return (
        Field("asked_radps", rotors, "rad/s", "rotor speeds that the controller asks for"),
        Field(
            "gyro_body_radps",
            3,
            "rad/s",
            "the gyro sample that the controller will take next, body FLU",
        ),
        Field("rate_filtered_radps", 3, "rad/s", "the gyro, low-passed"),
        Field("rate_filtered_radps2", 3, "rad/s^2", "slope of the same"),
        Field("rate_error_rad", 3, "rad", "integral of the rate's error"),
    )
