"""Learning tasks of n vehicles side by side.

Episodes, random starts, rewards, ends, in arrays that are used again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.installation import install_command
from vil_bridge.core.random.noise import NoiseStream
from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.vehicles.model import Model

if TYPE_CHECKING:
    from vil_simulation.vehicles.fleet import Engine

AutoReset = Literal["same_step", "next_step", "disabled"]
"""Time at which a finished vehicle begins again: gymnasium's three modes of vector environments."""

Observations = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]

NUMBERS: Final = 8
"""Random numbers of each kind that a start is made of."""

NOT_FINITE: Final = "an action is not finite"

_LONGEST_S: Final = 1e6
_UNIFORM_STREAM: Final = 0x5E7
_NORMAL_STREAM: Final = 0x5E8


_SHARED: Final = ("_keys", "age", "episode", "vehicles", "finished", "_measured", "_result")


class StepResult(NamedTuple):
    """Of one step; the arrays belong to the task and change with the next step: copy what you need.

    Attributes:
        obs: (n, k) float32; of vehicles that began again: of their new episode.
        reward: (n,). terminated: (n,), the task ended the episode. truncated: (n,), time did.
        final_obs: (n, k) float32; rows where terminated or truncated: the last observation of the
            episode.
    """

    obs: Observations
    reward: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    final_obs: Observations


class VehicleTask(ABC):
    """A task says how actions command, what is observed and rewarded, when it ends and how it
    starts.

    Starts are functions of (seed, vehicle, episode) alone: any split of the vehicles over tasks
    gives the same.

    Args:
        model: the vehicles. n: how many. seed: of the random starts, not negative.
        observation_size: columns of an observation. action_size: columns of an action, each in [-1,
            1].
        dt_s: from action to action. time_limit_s: episodes are truncated then.
        autoreset: ``same_step`` = within the step that ends an episode; ``next_step`` = the next
            step begins the new one, its action ignored and its reward 0; ``disabled`` = by
            :meth:`reset` with a mask.
        first_vehicle: identity of the first vehicle, where a task holds a part of a larger one.
        engine: ``native`` = compiled physics, ``numpy`` = the reference, ``auto`` = compiled where
            possible.

    Attributes:
        x: states (n, dx). age: steps made in the episode, (n,). episode: number of the episode,
            (n,), from 0.
        finished: whether the newest step ended the episode, (n,).

    Raises:
        ValueError: no vehicles, a negative seed, no time, or ``native`` without a kernel.
    """

    def __init__(
        self,
        model: Model,
        n: int,
        *,
        observation_size: int,
        action_size: int,
        seed: int = 0,
        dt_s: Fraction = Fraction(1, 50),
        time_limit_s: float = 5.0,
        autoreset: AutoReset = "same_step",
        first_vehicle: int = 0,
        engine: Engine = "auto",
    ) -> None:
        if n < 1:
            raise ValueError(f"a task has at least one vehicle, not {n}")
        self._native = None if engine == "numpy" else model.native()
        if self._native is None and engine == "native":
            raise ValueError(
                f"{type(model).__name__} has no compiled kernel here: {install_command('sim')}"
            )
        self.model: Final = model
        self.n: Final = n
        self.dt_s: Final = dt_s
        self.limit: Final = _steps(time_limit_s, dt_s)
        self.autoreset: Final = autoreset
        self.action_size: Final = action_size
        self._shape: Final = (n, action_size)
        self.x = model.initial(n)
        self.around: Final = model.calm(n)
        self._observation_size: Final = observation_size
        # One piece, since handing an array to compiled code costs as much as stepping two vehicles.
        self._memory: Final = np.zeros(self._places()[-1], np.uint8)
        self._share()
        self.vehicles[:] = first_vehicle + np.arange(n)
        self.seed(seed)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs; compiled code and views of arrays are made again."""
        state = self.__dict__.copy()
        for name in _SHARED:
            del state[name]
        return state | {"_native": self._native is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Continue as a copy where the original was, sharing nothing with it."""
        vars(self).update(state)
        self._native = self.model.native() if state["_native"] else None
        self._share()

    def _places(self) -> list[int]:
        """Return offsets of the memory.

        Keys of random numbers, counts, measures, observations, flags; and its end.
        """
        n = self.n
        return [0, *accumulate((32, 24 * n, 16 * n, 8 * n * self._observation_size, 3 * n))]

    def _share(self) -> None:
        """Name parts of the memory."""
        n = self.n
        keys, counts, measures, obs, flags = (
            self._memory[first:end] for first, end in pairwise(self._places())
        )
        self._keys = keys.view(np.uint64).reshape(2, 2)
        self.age, self.episode, self.vehicles = counts.view(np.int64).reshape(3, n)
        seen, last = obs.view(np.float32).reshape(2, n, self._observation_size)
        reward, self._measured = measures.view(np.float64).reshape(2, n)
        terminated, truncated, self.finished = flags.view(np.bool_).reshape(3, n)
        self._result = StepResult(seen, reward, terminated, truncated, last)

    @abstractmethod
    def commands(self, actions: FloatArray) -> FloatArray:
        """Return commands of the model, (n, du), for actions (n, action_size) within [-1, 1]."""

    @abstractmethod
    def start(self, which: Indices, uniforms: FloatArray, normals: FloatArray) -> FloatArray:
        """Return first states (m, dx) of vehicles ``which`` (m,) from random numbers (m, NUMBERS).

        In (0, 1), and normal.
        """

    @abstractmethod
    def observe(self, which: Indices | slice) -> FloatArray:
        """Return observations (m, k) of the given vehicles' states."""

    @abstractmethod
    def judge(self, actions: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return reward (n,) of the step just made with actions (n, action_size), and whether
        the task ended, (n,).
        """

    @property
    def engine(self) -> Literal["numpy", "native"]:
        """Engine that steps the vehicles."""
        return "numpy" if self._native is None else "native"

    def seed(self, seed: int) -> None:
        """Use another seed for random starts from now on, from episode 0."""
        self._uniforms = NoiseStream(seed, _UNIFORM_STREAM)
        self._normals = NoiseStream(seed, _NORMAL_STREAM)
        self._keys[:] = self._uniforms.key, self._normals.key
        self.episode[:] = -1
        self._begun = False

    def reset(self, mask: BoolArray | None = None) -> Observations:
        """Begin the next episode of all vehicles, or of those of a mask (n,).

        The observations (n, k).
        """
        which = np.arange(self.n) if mask is None else np.flatnonzero(mask)
        self._begun = True
        self._begin(which)
        self.finished[which] = False
        return self._result.obs

    def step(self, actions: npt.ArrayLike) -> StepResult:
        """Make one step with actions (n, action_size); values beyond [-1, 1] are clipped.

        Raises:
            ValueError: wrong shape, a value that is not finite, or no :meth:`reset` before.
        """
        rows = self._rows(actions)
        if not np.isfinite(rows).all():
            raise ValueError(NOT_FINITE)
        wishes = np.clip(rows, -1.0, 1.0)
        waiting = self.finished & (self.autoreset == "next_step")
        self._advance(self.commands(wishes))
        result = self._result
        np.add(self.age, 1, out=self.age)
        reward, terminated = self.judge(wishes)
        result.obs[:] = self.observe(slice(None))
        np.copyto(result.reward, reward)
        np.copyto(result.terminated, terminated)
        np.logical_and(self.age >= self.limit, ~terminated, out=result.truncated)
        if waiting.any():
            result.reward[waiting] = 0.0
            result.terminated[waiting] = result.truncated[waiting] = False
            self._begin(np.flatnonzero(waiting))
        np.logical_or(result.terminated, result.truncated, out=self.finished)
        self._end(np.flatnonzero(self.finished))
        return result

    def _end(self, which: Indices) -> None:
        if len(which):
            self._result.final_obs[which] = self._result.obs[which]
            if self.autoreset == "same_step":
                self._begin(which)

    def _advance(self, u: FloatArray) -> None:
        if self._native is None:
            self.x = self.model.step(self.x, u, self.around, float(self.dt_s))
        else:
            self._native(self.x, u, self.around, float(self.dt_s), 1)

    def _begin(self, which: Indices) -> None:
        """Start the next episode of vehicles.

        All that begin the same episode draw their numbers together.
        """
        self.episode[which] += 1
        self.age[which] = 0
        for episode in np.unique(self.episode[which]):
            together = which[self.episode[which] == episode]
            who = self.vehicles[together]
            uniforms = self._uniforms.uniforms(int(episode), who, NUMBERS)
            normals = self._normals.normals(int(episode), who, NUMBERS)
            self.x[together] = self.start(together, uniforms, normals)
        self._result.obs[which] = self.observe(which)

    def _rows(self, actions: npt.ArrayLike) -> FloatArray:
        rows = np.ascontiguousarray(actions, dtype=np.float64)
        if rows.shape != self._shape:
            raise ValueError(f"actions have shape {self._shape}, not {rows.shape}")
        if not self._begun:
            raise ValueError("reset() comes before step()")
        return rows


def _steps(time_limit_s: float, dt_s: Fraction) -> int:
    """Return steps of an episode. Raises ValueError: not even one, or no end."""
    if not dt_s <= time_limit_s <= _LONGEST_S:
        raise ValueError(
            f"time_limit_s must be {float(dt_s):g} to {_LONGEST_S:g}, got {time_limit_s}"
        )
    return round(time_limit_s / dt_s)
