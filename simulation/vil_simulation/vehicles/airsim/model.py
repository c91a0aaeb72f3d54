"""AirSim's multirotor: a box with rotors at its vertices, flown by simple_flight, moved by velocity
Verlet.

Source: AirSim's two papers (FSR 2017, MSR-TR-2017-9) and its code of 2022, in ENU/FLU.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from vil_bridge.core.compile import has_numba
from vil_bridge.core.geometry import (
    GRAVITY_MPS2,
    cross,
    q_conj,
    q_exp,
    q_mul,
    q_normalize,
    q_rotate,
)
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.airsim.airframes import (
    FRAMES,
    MIN_DRAG_SPEED_MPS,
    AirsimAirframe,
    Compat,
)
from vil_simulation.vehicles.airsim.rotors import RotorTable
from vil_simulation.vehicles.airsim.simple_flight import (
    FOREVER_S,
    MODES,
    ControllerState,
    Mode,
    SimpleFlight,
    cascade,
    commands_of,
    controller_fields,
)
from vil_simulation.vehicles.contact import Collider, WorldContact, collide
from vil_simulation.vehicles.disturbances import ENVIRONMENT, SEA_LEVEL_DENSITY_KGPM3
from vil_simulation.vehicles.layout import RIGID_BODY, Field, StateLayout, flush
from vil_simulation.vehicles.model import Model, NativeStep, NativeTruth, TrueState, empty_truth

_MOST_OF_HOVER: Final = 0.8
_STILL: Final = ("v_world_mps", "w_body_radps", "a_world_mps2", "alpha_body_radps2")


class AirsimMultirotor(Model):
    """A multirotor or tilt-rotor of AirSim with its flight controller.

    The acceleration columns hold what the newest step ended with, and are what an IMU feels. A
    grounded vehicle stands still until its rotors lift more than its weight.

    The original integrates with the attitude of the step's beginning and velocities of its middle:
    that is of first order. The default takes all forces at both ends of the step, which is of
    second order and needs no memory of the last one. ``compat="airsim"`` does as the original, with
    its rotor discs four times too large and its delay: rotors push with the filtered control of two
    steps (6 ms) before, the state's ``rotors_output``.

    Args:
        airframe: one of :data:`~vil_simulation.vehicles.airsim.airframes.FRAMES` by name, or your
            own.
        mode: ``rotors`` (0..1 each), ``rates``, ``attitude``, ``velocity`` or ``position``.
        flight: gains and limits of the controller; ``min_throttle`` is at most 0.8 of the control
            that hovers.
        compat: None = the right form.

    Raises:
        ValueError: no frame of that name, no such mode, or compat of another simulator.
    """

    dt_s = Fraction(3, 1000)
    gravity_mps2 = GRAVITY_MPS2

    def __init__(
        self,
        airframe: AirsimAirframe | str = "generic",
        *,
        mode: Mode = "rotors",
        flight: SimpleFlight | None = None,
        compat: Compat | None = None,
    ) -> None:
        if isinstance(airframe, str):
            if airframe not in FRAMES:
                raise ValueError(f"AirSim has no frame {airframe!r}; known: {', '.join(FRAMES)}")
            airframe = FRAMES[airframe]
        rotors = len(airframe.rotors)
        tilts = len(airframe.tilts)
        self.airframe: Final = airframe
        if flight is None:
            flight = SimpleFlight()
        self.flight: Final = _able_to_sink(flight, airframe, self.gravity_mps2)
        self.compat: Final = compat
        self.commands = commands_of(rotors, tilts)
        if mode not in self.commands:
            raise ValueError(f"no mode {mode!r}; known: {', '.join(self.commands)}")
        if compat not in (None, "airsim"):
            raise ValueError(f"this vehicle is compatible with 'airsim', not with {compat!r}")
        self.mode: Mode = mode
        self.table: Final = RotorTable(airframe)
        self.inertia_kgm2: Final = airframe.inertia_kgm2()
        self.drag_factors_m2: Final = airframe.drag_factors_m2(compat)
        outputs: list[Field] = []
        if compat:
            outputs.append(
                Field("rotors_output", rotors, "1", "control that the rotors push with next")
            )
        self.state = StateLayout(
            *RIGID_BODY,
            Field("rotors_control", rotors, "1", "filtered controls, squares of the speed ratios"),
            Field("tilt_rad", tilts, "rad", "angles of the tilt servos"),
            *outputs,
            Field("a_world_mps2", 3, "m/s^2", "acceleration at the end of the newest step, ENU"),
            Field("alpha_body_radps2", 3, "rad/s^2", "and angular, FLU"),
            Field("grounded", 1, "1", "1: stands on the ground"),
            *controller_fields(self.flight),
        )

    @property
    def _pushing_field(self) -> str:
        """The field of the controls that the rotors push with."""
        if self.compat:
            return "rotors_output"
        return "rotors_control"

    def initial(self, n: int) -> FloatArray:
        """Return states in the air at the origin, level, at rest, with commands that never time
        out, (n, dx).
        """
        return self.state.pack(
            {"q_world_body": (0.0, 0.0, 0.0, 1.0), "command_left_s": FOREVER_S}, n
        )

    def derivative(self, x: FloatArray, u: FloatArray, around: FloatArray) -> FloatArray:
        """Return time derivative of the continuous part of x, (n, dx).

        Pose, velocities, rotor and servo lags.
        """
        s = self.state.split(x)
        controls, tilts, _ = self._commanded(x, u, 0.0)
        a_world, alpha = self._accelerations(
            s["q_world_body"],
            s["v_world_mps"],
            s["w_body_radps"],
            s["rotors_control"],
            s["tilt_rad"],
            around,
        )
        turning = np.concatenate((s["w_body_radps"], np.zeros((len(x), 1))), axis=1)
        moving = self.state.pack(
            {
                "p_world_m": s["v_world_mps"],
                "v_world_mps": a_world,
                "q_world_body": 0.5 * q_mul(s["q_world_body"], turning),
                "w_body_radps": alpha,
            },
            len(x),
        )
        lags = {
            "rotors_control": (controls - s["rotors_control"]) / self.table.tau_s,
            "tilt_rad": (tilts - s["tilt_rad"]) / self.table.tilt_tau_s,
        }
        return moving * (1.0 - s["grounded"]) + self.state.pack(lags, len(x))

    def step(self, x: FloatArray, u: FloatArray, around: FloatArray, dt_s: float) -> FloatArray:
        """Return states one step later, a new array (n, dx).

        Controller, rotor and servo lags, rigid body, ground lock.
        """
        s = self.state.split(x)
        controls, tilts, memory = self._commanded(x, u, dt_s)
        controls += np.exp(-dt_s / self.table.tau_s) * (s["rotors_control"] - controls)
        tilts += np.exp(-dt_s / self.table.tilt_tau_s) * (s["tilt_rad"] - tilts)
        pushing = s["rotors_output"] if self.compat else controls
        moved = self._moved(s, pushing, tilts, around, dt_s)
        if s["grounded"].any():
            moved |= self._locked(s, moved, pushing, tilts, around)
        lags = {"rotors_control": controls, "tilt_rad": tilts}
        if self.compat:
            # The original's actuators set their wrench first, then take over the filter's output,
            # then filter.
            lags["rotors_output"] = s["rotors_control"]
        return flush(self.state.pack(s | moved | lags | memory._asdict(), len(x)))

    def native(self) -> NativeStep | None:
        """Return the compiled :meth:`step`.

        None without numba, and for loops that remember errors.
        """
        if not has_numba() or self.flight.remembers:
            return None
        from vil_simulation.vehicles.airsim.kernel import advance

        parameters = self._packed()

        def step(x: FloatArray, u: FloatArray, around: FloatArray, dt_s: float, steps: int) -> None:
            advance(x, u, around, parameters, dt_s, steps)

        return step

    def native_truth(self) -> NativeTruth | None:
        """Return the compiled :meth:`truth`; None without numba."""
        if not has_numba():
            return None
        from vil_simulation.vehicles.airsim import kernel

        max_radps = np.ascontiguousarray(
            np.broadcast_to(self.table.max_radps, len(self.airframe.rotors))
        )
        controls = self.state[self._pushing_field].start
        accelerations = self.state["a_world_mps2"].start

        def truth(
            t_ns: int,
            x: FloatArray,
            u: FloatArray,  # noqa: ARG001
            around: FloatArray,
        ) -> TrueState:
            found = empty_truth(t_ns, len(x), len(max_radps))
            kernel.truth(x, around, max_radps, controls, accelerations, *found[1:])
            return found

        return truth

    def truth(
        self,
        t_ns: int,
        x: FloatArray,
        u: FloatArray,  # noqa: ARG002
        around: FloatArray,
    ) -> TrueState:
        """Return what sensors measure, with the accelerations of the newest step."""
        s = {name: values.copy() for name, values in self.state.split(x).items()}
        up = around[:, ENVIRONMENT["gravity_mps2"]] * np.array([0.0, 0.0, 1.0])
        return TrueState(
            t_ns,
            s["p_world_m"],
            s["v_world_mps"],
            s["a_world_mps2"],
            s["q_world_body"],
            s["w_body_radps"],
            s["alpha_body_radps2"],
            q_rotate(q_conj(s["q_world_body"]), s["a_world_mps2"] + up),
            np.sqrt(s[self._pushing_field]) * self.table.max_radps,
        )

    def rotor_outputs(self, x: FloatArray, around: FloatArray) -> FloatArray:
        """Return thrusts, torques and speeds of the rotors, (n, rotors, 3).

        See :meth:`Model.rotor_outputs`.
        """
        controls = x[:, self.state[self._pushing_field]]
        air = around[:, ENVIRONMENT["density_kgpm3"]], around[:, ENVIRONMENT["thrust_factor"]]
        return self.rotor_states(controls, *air)

    def rotor_states(
        self,
        controls: FloatArray,
        density_kgpm3: FloatArray | float,
        thrust_factor: FloatArray | float,
    ) -> FloatArray:
        """Return thrusts (N), torques about the axes (N m, positive for clockwise rotors) and
        speeds (rad/s).

        Args:
            controls: that the rotors push with, (..., rotors).
            density_kgpm3: of the air.
            thrust_factor: more or less thrust, as near the ground.

        Returns:
            (..., rotors, 3).
        """
        air = controls * (density_kgpm3 / SEA_LEVEL_DENSITY_KGPM3)
        found = np.empty((*controls.shape, 3))  # np.stack takes as long as all the rest
        found[..., 0] = air * thrust_factor * self.table.max_thrust_n
        found[..., 1] = air * self.table.max_torque_nm
        found[..., 2] = np.sqrt(controls) * self.table.max_radps
        return found

    def rotor_places(self) -> tuple[FloatArray, FloatArray]:
        """Return hubs and axes of the rotors, (rotors, 3) each; none where servos turn them."""
        fixed = slice(0 if self.airframe.tilts else None)
        return self.table.positions_m[fixed, 0], self.table.axes[fixed, 0]

    def collide(
        self, x: FloatArray, contact: WorldContact, dt_s: float | None = None
    ) -> FloatArray:
        """Return states after a contact, (n, dx); landings lock to the ground.

        See :func:`contact.collide`.
        """
        frame = self.airframe
        body = Collider(frame.mass_kg, self.inertia_kgm2, frame.restitution, frame.friction)
        if dt_s is None:
            dt_s = float(self.dt_s)
        return collide(
            x, self.state, body, contact, ground_lock=True, compat=self.compat, dt_s=dt_s
        )

    def _packed(self) -> FloatArray:
        """Return the parameters as one array, in the order of
        :mod:`vil_simulation.vehicles.airsim.kernel_layout`.
        """
        table = self.table
        flight = self.flight
        rotors = len(self.airframe.rotors)
        tilts = len(self.airframe.tilts)
        head = (
            rotors,
            tilts,
            MODES.index(self.mode),
            self.compat is not None,
            self.airframe.mass_kg,
        )
        body = (*self.inertia_kgm2, *self.drag_factors_m2)
        gains = (
            *(
                *flight.position.p,
                *flight.velocity.p,
                flight.velocity.i[2],
                *flight.angle.p,
                *flight.rate.p,
            ),
            *(flight.max_speed_mps, flight.max_angle_rad, flight.max_rate_radps),
            *(flight.min_throttle, flight.min_angling_throttle),
        )
        servos = np.column_stack((table.tilt_tau_s, table.tilt_low_rad, table.tilt_high_rad))
        geometry = (table.positions_m.reshape(rotors, 9), table.axes.reshape(rotors, 9))
        motors = (
            table.max_thrust_n,
            table.max_torque_nm,
            table.servo,
            table.mixing,
            table.control_max,
            table.tau_s,
        )
        each = np.column_stack((*geometry, *motors))
        return np.concatenate((head, body, gains, servos.ravel(), each.ravel())).astype(np.float64)

    def _commanded(
        self, x: FloatArray, u: FloatArray, dt_s: float
    ) -> tuple[FloatArray, FloatArray, ControllerState]:
        """Return targets of rotors and servos, and the controller's state."""
        s = self.state.split(x)
        command = self.command.split(u)
        memory = ControllerState(*(s[name] for name in ControllerState._fields))
        controls, memory = cascade(
            self.flight,
            self.mode,
            self.table.mixing,
            s,
            command,
            memory,
            dt_s,
            compat=self.compat is not None,
        )
        tilts = np.clip(
            command.get("tilt_rad", s["tilt_rad"]),
            self.table.tilt_low_rad,
            self.table.tilt_high_rad,
        )
        return np.minimum(controls, self.table.control_max), tilts, memory

    def _locked(
        self,
        s: dict[str, FloatArray],
        moved: dict[str, FloatArray],
        controls: FloatArray,
        tilts: FloatArray,
        around: FloatArray,
    ) -> dict[str, FloatArray]:
        """Return fields of grounded vehicles, and whether they stay on the ground after this
        step.
        """
        held = s | dict.fromkeys(_STILL, np.zeros((len(controls), 3)))
        free = s["grounded"] < 0.5
        lift, _ = self.table.wrench(controls, tilts, around)
        weight = self.airframe.mass_kg * around[:, ENVIRONMENT["gravity_mps2"]]
        stays = (lift * lift).sum(axis=1, keepdims=True) < weight * weight
        fields = {name: np.where(free, value, held[name]) for name, value in moved.items()}
        return fields | {"grounded": np.where(stays, s["grounded"], 0.0)}

    def _accelerations(
        self,
        q: FloatArray,
        v: FloatArray,
        w: FloatArray,
        controls: FloatArray,
        tilts: FloatArray,
        around: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Return acceleration (n, 3), ENU, and angular acceleration (n, 3), FLU.

        Of opposite faces the windward one has drag. A face's centre lies on its normal through the
        centre of gravity, so that its arm gives no torque and rotation gives it no speed: the box
        has no angular drag.
        """
        air = ENVIRONMENT.split(around)
        force, torque = self.table.wrench(controls, tilts, around)
        passing = q_rotate(q_conj(q), v - air["wind_world_mps"])
        pressing = np.where(np.abs(passing) > MIN_DRAG_SPEED_MPS, passing * np.abs(passing), 0.0)
        drag = -air["density_kgpm3"] * self.drag_factors_m2 * pressing
        a = (q_rotate(q, force + drag) + air["force_world_n"]) / self.airframe.mass_kg
        a[:, 2:] -= air["gravity_mps2"]
        torque = torque + air["torque_body_nm"]
        return a, (torque - cross(w, self.inertia_kgm2 * w)) / self.inertia_kgm2

    def _moved(
        self,
        s: dict[str, FloatArray],
        controls: FloatArray,
        tilts: FloatArray,
        around: FloatArray,
        dt_s: float,
    ) -> dict[str, FloatArray]:
        """Return the rigid body one step later."""
        q = s["q_world_body"]
        v = s["v_world_mps"]
        w = s["w_body_radps"]
        a = s["a_world_mps2"]
        alpha = s["alpha_body_radps2"]
        if not self.compat:
            a, alpha = self._accelerations(q, v, w, s["rotors_control"], s["tilt_rad"], around)
        q_end = q_normalize(q_mul(q, q_exp((w + 0.5 * dt_s * alpha) * dt_s)))
        # The original takes the new forces at the attitude of the beginning and the velocities of
        # the middle.
        q_there, ahead_s = (q, 0.5 * dt_s) if self.compat else (q_end, dt_s)
        a_end, alpha_end = self._accelerations(
            q_there, v + ahead_s * a, w + ahead_s * alpha, controls, tilts, around
        )
        return {
            "p_world_m": s["p_world_m"] + (v + 0.5 * dt_s * a) * dt_s,
            "v_world_mps": v + (0.5 * dt_s) * (a + a_end),
            "q_world_body": q_end,
            "w_body_radps": w + (0.5 * dt_s) * (alpha + alpha_end),
            "a_world_mps2": a_end,
            "alpha_body_radps2": alpha_end,
        }


def _able_to_sink(
    flight: SimpleFlight, airframe: AirsimAirframe, gravity_mps2: float
) -> SimpleFlight:
    """Limit the least throttle.

    0.3 is more than the eight rotors of ``octo_x`` need to hover, so it only climbs.
    """
    up_n = sum(rotor.propeller.max_thrust_n * rotor.axis[2] for rotor in airframe.rotors)
    if not up_n > 0.0:
        return flight
    return replace(
        flight,
        min_throttle=min(
            flight.min_throttle, _MOST_OF_HOVER * airframe.hover_control(gravity_mps2)
        ),
    )
