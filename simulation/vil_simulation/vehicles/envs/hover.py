"""Stabilise: from a random pose and velocity to rest, level, at the goal."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import astuple, dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.compile import LANES
from vil_bridge.core.geometry import q_normalize, q_to_matrix
from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.vehicles.envs.base import (
    NOT_FINITE,
    AutoReset,
    Indices,
    StepResult,
    VehicleTask,
)
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor, motor_fades
from vil_simulation.vehicles.flightmare.parameters import QUADROTOR_ENV, QuadrotorParameters

if TYPE_CHECKING:
    from vil_simulation.vehicles.fleet import Engine

GOAL_WORLD_M: Final = (0.0, 0.0, 5.0)

_GOAL: Final = np.array(GOAL_WORLD_M)[:, None]
_FLOOR_M: Final = 0.02
_FASTEST_RADPS: Final = 50.0
_SHARED_FROM: Final = 8192


_FusedStep = Callable[[FloatArray, int, int], bool]
"""Compiled step of some tiles with actions.

False, and nothing done, if any action is not finite.
"""
_FusedStart = Callable[[Indices], None]
"""Compiled start of some vehicles' next episodes."""


@dataclass(frozen=True, slots=True)
class HoverReward:
    """Weights of the reward, those of Flightmare's ``QuadrotorEnv_v1``.

        alive - position |p - goal|^2 - attitude (3 - trace R)
            - velocity |v|^2 - rates |w|^2 - action |a|

    and ``end`` more when the task ends the episode. 3 - trace R is the square of the angle from the
    identity where that is small, as is the square of Flightmare's Euler angles, and has no jumps.
    """

    position: float = 0.002
    attitude: float = 0.002
    velocity: float = 0.0002
    rates: float = 0.0002
    action: float = 0.0002
    alive: float = 0.1
    end: float = -0.02


class HoverTask(VehicleTask):
    """Stabilise n quadrotors at (0, 0, 5) m, in the manner of Flightmare's ``QuadrotorEnv_v1``.

    Action (4): rotor thrusts f_i = m g (1/4 + a_i / 2), so that 0 hovers level and 1 is 0.75 m g;
    negative ones are 0. Observation (18): p - goal 3, columns of R_world_body 9, velocity 3
    (world), body rates 3. Start: position within 1 m of the goal along each axis, velocity within 1
    m/s along each, attitude uniform over all rotations, body rates 0, rotors stopped. End: z at
    most 0.02 m, or body rates beyond 50 rad/s, which steps of 20 ms do not follow.

    The air is calm: ``around`` cannot be written where the step is compiled in one piece.

    Args:
        n: vehicles. seed, time_limit_s, autoreset, first_vehicle, engine: see
            :class:`~vil_simulation.vehicles.envs.base.VehicleTask`.
        threads: that share a step, used from 8,192 vehicles on: below, handing over costs more than
            it gains.
        reward: weights. parameters: the vehicle.

    Raises:
        ValueError: as VehicleTask, or fewer than one thread.
    """

    # Limits and scale of the kernel's other reward; zeros: this one. Only a class with its own
    # value is compiled.
    _near: ClassVar[tuple[float, float, float]] = (0.0, 0.0, 0.0)

    def __init__(
        self,
        n: int,
        seed: int = 0,
        *,
        time_limit_s: float = 5.0,
        autoreset: AutoReset = "same_step",
        first_vehicle: int = 0,
        threads: int = 1,
        reward: HoverReward | None = None,
        parameters: QuadrotorParameters = QUADROTOR_ENV,
        engine: Engine = "auto",
    ) -> None:
        dt_s = Fraction(1, 50)
        super().__init__(
            FlightmareQuadrotor(parameters, longest_substep_s=float(dt_s)),
            n,
            observation_size=18,
            action_size=4,
            seed=seed,
            dt_s=dt_s,
            time_limit_s=time_limit_s,
            autoreset=autoreset,
            first_vehicle=first_vehicle,
            engine=engine,
        )
        if threads < 1:
            raise ValueError(f"a step is made by at least one thread, not {threads}")
        self.weights: Final = reward or HoverReward()
        self._weight_n: Final = parameters.mass_kg * self.model.gravity_mps2
        self._goal: Final = np.array(GOAL_WORLD_M)
        self._tiles: Final = -(-n // LANES)
        self._threads: Final = threads if n >= _SHARED_FROM else 1
        self._begin_fused()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs."""
        state = super().__getstate__()
        del state["_fused"], state["_start"], state["_pool"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Give the copy compiled code and threads of its own."""
        super().__setstate__(state)
        x = self.x
        self._begin_fused()
        self.x[:] = x

    def _begin_fused(self) -> None:
        self._fused: _FusedStep | None = None
        self._start: _FusedStart | None = None
        if self.engine == "native" and "_near" in vars(type(self)):
            self._fused, self._start = self._fuse()
        self._pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None

    def step(self, actions: npt.ArrayLike) -> StepResult:
        """Make one step; compiled in one piece unless a subclass changes the task."""
        if self._fused is None:
            return super().step(actions)
        rows = self._rows(actions)
        if self._pool is None:
            good = self._fused(rows, 0, self._tiles)
        else:
            bounds = [self._tiles * part // self._threads for part in range(self._threads + 1)]
            parts = [self._pool.submit(self._fused, rows, *pair) for pair in pairwise(bounds)]
            wait(parts)
            good = all(part.result() for part in parts)
        if not good:
            raise ValueError(NOT_FINITE)
        return self._result

    def distance_m(self) -> FloatArray:
        """Return distances from the goal after the newest step, a new array (n,)."""
        return distance_m(self.x) if self._fused is None else self._measured.copy()

    def _begin(self, which: Indices) -> None:
        if self._start is None:
            super()._begin(which)
        else:
            self._start(which)

    def commands(self, actions: FloatArray) -> FloatArray:
        """Return rotor thrusts, (n, 4), N; the model clips what rotors cannot give."""
        return self._weight_n * (0.25 + 0.5 * actions)

    def _fuse(self) -> tuple[_FusedStep, _FusedStart]:
        from vil_simulation.vehicles.envs import hover_kernel as hover

        assert isinstance(self.model, FlightmareQuadrotor)
        h_s = float(self.dt_s)
        fades = motor_fades(h_s, float(self.model.motor_time_s[0]))
        limits = (self._weight_n, self.limit, *GOAL_WORLD_M, _FLOOR_M, _FASTEST_RADPS**2)
        mode = hover.AUTORESET[self.autoreset]
        task = np.array(
            (h_s, *fades, *limits, *astuple(self.weights), *self.around[0], mode, *self._near)
        )
        constants = np.concatenate((self.model.packed(), task))
        self.around.flags.writeable = False
        # The kernel has the states column by column, so that vehicles of a tile are neighbours; x
        # is a view of them.
        columns = np.zeros((self.model.state.size, self._tiles * LANES))
        self.x = columns[:, : self.n].T
        memory = self._memory
        kernel = hover.step
        n = self.n

        def step(actions: FloatArray, first: int, end: int) -> bool:
            return kernel(columns, actions, constants, memory, first, end)  # type: ignore[no-any-return]

        def start(which: Indices) -> None:
            hover.begin(columns, which, n, constants, memory)

        return step, start

    def start(self, which: Indices, uniforms: FloatArray, normals: FloatArray) -> FloatArray:
        """Return first states, (m, 17)."""
        x = np.zeros((len(which), self.model.state.size))
        x[:, 0:3] = self._goal + (2.0 * uniforms[:, 0:3] - 1.0)
        x[:, 3:6] = 2.0 * uniforms[:, 3:6] - 1.0
        x[:, 6:10] = q_normalize(normals[:, 0:4])
        return x

    def observe(self, which: Indices | slice) -> FloatArray:
        """Return observations, (m, 18)."""
        x = self.x[which]
        obs = np.empty((len(x), 18))
        obs[:, 0:3] = x[:, 0:3] - self._goal
        obs[:, 3:12] = q_to_matrix(x[:, 6:10]).swapaxes(1, 2).reshape(-1, 9)
        obs[:, 12:15] = x[:, 3:6]
        obs[:, 15:18] = x[:, 10:13]
        return obs

    def judge(self, actions: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return reward and end, (n,) each."""
        x = self.x
        weights = self.weights
        ended = (x[:, 2] <= _FLOOR_M) | (_squares(x[:, 10:13]) > _FASTEST_RADPS**2)
        reward = (
            weights.alive
            - weights.position * _squares(x[:, 0:3] - self._goal)
            - weights.attitude * (4.0 * _squares(x[:, 6:9]))
            - weights.velocity * _squares(x[:, 3:6])
            - weights.rates * _squares(x[:, 10:13])
            - weights.action * np.sqrt(_squares(actions))
            + weights.end * ended
        )
        return reward, ended


def distance_m(x: FloatArray) -> FloatArray:
    """Return distances (n,) of states from the goal."""
    dx, dy, dz = x.T[0:3] - _GOAL
    distance: FloatArray = np.sqrt(dx * dx + dy * dy + dz * dz)
    return distance


def _squares(rows: FloatArray) -> FloatArray:
    squares: FloatArray = (rows * rows).sum(axis=1)
    return squares
