"""The interface of every simulated vehicle, and the integrators of those that only state their
derivative.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import ClassVar, Final, Literal, NamedTuple

import numpy as np

from vil_bridge.core.geometry import q_conj, q_normalize, q_rotate
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import ENVIRONMENT, calm
from vil_simulation.vehicles.layout import StateLayout, flush

Integrator = Literal["euler", "rk4"]

NativeStep = Callable[[FloatArray, FloatArray, FloatArray, float, int], None]
"""``step(x, u, around, dt_s, steps)``: compiled.

Advances x (n, dx) in place by equal steps with u and around held.

Shapes are not checked: what does not fit reads and writes other memory. Fleets check them.
"""

_UP: Final = np.array([0.0, 0.0, 1.0])


class TrueState(NamedTuple):
    """Quantities that sensors of n vehicles measure at one instant; world ENU, body FLU.

    Attributes:
        t_ns: simulation time. p_world_m, v_world_mps, a_world_mps2: (n, 3).
        q_world_body: (n, 4). w_body_radps, alpha_body_radps2: (n, 3).
        f_body_mps2: (n, 3), specific force at the centre of gravity (+g on z at rest).
        rotors_radps: (n, rotors), (n, 0) where there are none.
    """

    t_ns: int
    p_world_m: FloatArray
    v_world_mps: FloatArray
    a_world_mps2: FloatArray
    q_world_body: FloatArray
    w_body_radps: FloatArray
    alpha_body_radps2: FloatArray
    f_body_mps2: FloatArray
    rotors_radps: FloatArray


NativeTruth = Callable[[int, FloatArray, FloatArray, FloatArray], TrueState]
"""``truth(t_ns, x, u, around)``: compiled; its arrays are new.

Shapes are not checked, as of :data:`NativeStep`.
"""


def empty_truth(t_ns: int, n: int, rotors: int) -> TrueState:
    """Return a true state of n vehicles with ``rotors`` rotors each, to be filled."""
    empty = np.empty
    three = (n, 3)
    return TrueState(
        t_ns,
        empty(three),
        empty(three),
        empty(three),
        empty((n, 4)),
        empty(three),
        empty(three),
        empty(three),
        empty((n, rotors)),
    )


class Model(ABC):
    """Equations of motion of one kind of vehicle, for n vehicles at once.

    Arrays (n, columns), one row a vehicle.

    A user's vehicle derives from this: it states its columns and :meth:`derivative`; everything
    else has a default. Models hold parameters only; states, commands and noise belong to the fleet
    (:class:`vil_simulation.vehicles.fleet.Fleet`).

    Attributes:
        state: columns of x. A vehicle that sensors or the bridge see has the fields of
            :data:`~vil_simulation.vehicles.layout.RIGID_BODY`.
        commands: columns of u by mode (``motor_speeds``, ``rates``...). mode: the one in use.
        dt_s: the step that the model is meant for, seconds.
        gravity_mps2: its gravity unless the environment has another.
        rotors: field of x with the rotors' speeds, empty = none.
    """

    state: StateLayout
    commands: Mapping[str, StateLayout]
    mode: str
    dt_s: Fraction = Fraction(1, 960)
    gravity_mps2: float = 9.81
    integrator: Integrator = "rk4"
    rotors: ClassVar[str] = ""

    @property
    def command(self) -> StateLayout:
        """Columns of u in the mode in use."""
        return self.commands[self.mode]

    def initial(self, n: int) -> FloatArray:
        """Return states at rest at the origin, level, (n, dx)."""
        level: dict[str, tuple[float, ...]] = {}
        if "q_world_body" in self.state:
            level["q_world_body"] = (0.0, 0.0, 0.0, 1.0)
        return self.state.pack(level, n)

    def neutral(self, n: int) -> FloatArray:
        """Return commands that hold before any command, (n, du)."""
        return np.zeros((n, self.command.size))

    def calm(self, n: int) -> FloatArray:
        """Return an environment without wind, (n, 12)."""
        return calm(n, self.gravity_mps2)

    @abstractmethod
    def derivative(self, x: FloatArray, u: FloatArray, around: FloatArray) -> FloatArray:
        """Return time derivative of x, (n, dx)."""

    def constrain(self, x: FloatArray) -> FloatArray:
        """Return states that the equations allow: attitudes of unit length, speeds within limits.

        May change x.
        """
        if "q_world_body" in self.state:
            columns = self.state["q_world_body"]
            x[:, columns] = q_normalize(x[:, columns])
        return x

    def step(self, x: FloatArray, u: FloatArray, around: FloatArray, dt_s: float) -> FloatArray:
        """Return states one step later, a new array (n, dx); x is unchanged."""
        if self.integrator == "euler":
            return flush(self.constrain(x + dt_s * self.derivative(x, u, around)))
        k1 = self.derivative(x, u, around)
        k2 = self.derivative(self.constrain(x + 0.5 * dt_s * k1), u, around)
        k3 = self.derivative(self.constrain(x + 0.5 * dt_s * k2), u, around)
        k4 = self.derivative(self.constrain(x + dt_s * k3), u, around)
        return flush(self.constrain(x + dt_s / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)))

    def native(self) -> NativeStep | None:
        """Return the compiled :meth:`step` for the mode in use.

        None = there is none, or numba is not installed.
        """
        return None

    def native_truth(self) -> NativeTruth | None:
        """Return the compiled :meth:`truth`; None = there is none, or numba is not installed."""
        return None

    def rotor_outputs(self, x: FloatArray, around: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return what the rotors do, (n, rotors, 3).

        Returns:
            Thrusts (N), torques about the axes (N m, positive for clockwise rotors), speeds
                (rad/s). NaN = unknown:
            this default knows the speeds alone.
        """
        speeds = self._rotor_speeds(x)
        unknown = np.full(speeds.shape, np.nan)
        return np.stack((unknown, unknown, speeds), axis=2)

    def rotor_places(self) -> tuple[FloatArray, FloatArray]:
        """Return hubs and unit axes of thrust of the rotors, body FLU, (rotors, 3) each.

        (0, 3) = unknown.
        """
        return np.zeros((0, 3)), np.zeros((0, 3))

    def truth(self, t_ns: int, x: FloatArray, u: FloatArray, around: FloatArray) -> TrueState:
        """Return what sensors measure."""
        rates = self.derivative(x, u, around)
        state = self.state
        q = x[:, state["q_world_body"]]
        a_world = rates[:, state["v_world_mps"]]
        gravity = around[:, ENVIRONMENT["gravity_mps2"]] * _UP
        return TrueState(
            t_ns,
            x[:, state["p_world_m"]].copy(),
            x[:, state["v_world_mps"]].copy(),
            a_world,
            q.copy(),
            x[:, state["w_body_radps"]].copy(),
            rates[:, state["w_body_radps"]],
            q_rotate(q_conj(q), a_world + gravity),
            self._rotor_speeds(x).copy(),
        )

    def _rotor_speeds(self, x: FloatArray) -> FloatArray:
        """Return the columns of the rotors' speeds; none where it has no rotors."""
        if not self.rotors:
            return np.zeros((len(x), 0))
        return x[:, self.state[self.rotors]]
