"""Many vehicles as one gymnasium vector environment: what as many single ones do, and faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.learning.batch import Observed, TaskBatch
from vil_simulation.learning.environment import TaskEnv
from vil_simulation.vehicles.envs.base import AutoReset

_Observations = npt.NDArray[Any]


class TaskVectorEnv(VectorEnv[_Observations, npt.NDArray[np.float32], npt.NDArray[Any]]):
    """n vehicles of a task, stepped together.

    Observations, rewards and infos are those of :class:`gymnasium.vector.SyncVectorEnv` over n
    :class:`~vil_simulation.learning.environment.TaskEnv`, to the bit, in each of the three modes of
    resetting.

    Args:
        num_envs: vehicles. task, observed, size_px, render_mode, options: as of :class:`TaskEnv`.
        autoreset_mode: ``NextStep`` = the step after an episode's last begins the next one;
            ``SameStep`` = the last step itself does, and ``final_obs`` and ``final_info`` describe
            its end; ``Disabled`` = only ``reset(options={"reset_mask": ...})`` does.

    Raises:
        ValueError: an unknown mode, task, observation, or option.
    """

    metadata: dict[str, Any] = TaskEnv.metadata | {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        task: str = "hover",
        observed: Observed = "state",
        size_px: int = 84,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self._mode: Final = AutoresetMode(autoreset_mode)
        # Within the same step there is something to see between an end and the next start.
        autoreset: AutoReset = "next_step" if self._mode is AutoresetMode.NEXT_STEP else "disabled"
        self._batch: Final = TaskBatch(num_envs, task, observed, size_px, options, autoreset)
        self.metadata = TaskEnv.metadata | {"autoreset_mode": self._mode}
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = self._batch.observation_space
        self.single_action_space = self._batch.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._every: Final = np.ones(num_envs, np.bool_)
        self._over: BoolArray = np.zeros(num_envs, np.bool_)
        self._seen: _Observations | None = None

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[_Observations, dict[str, Any]]:
        """Begin episodes: the first ones of a seed, or the next.

        Args:
            seed: vehicle i has ``seed + i``, or the i-th of a list; None = as they are.
            options: ``reset_mask``, bool (n,): only of these vehicles.

        Raises:
            ValueError: a list or a mask of the wrong length.
        """
        super().reset(seed=seed if isinstance(seed, int) else None)
        which = masked(options, self.num_envs) | (self._seen is None)
        self._batch.begin(which, seeds_of(seed, self.num_envs), self.np_random)
        self._over[which] = False
        return self._look(which).copy(), self._infos(which)

    def step(
        self, actions: npt.ArrayLike
    ) -> tuple[_Observations, FloatArray, BoolArray, BoolArray, dict[str, Any]]:
        """Fly for 20 ms.

        Raises:
            ValueError: wrong shape, a value that is not finite, or resets are disabled and an
                episode is over.
        """
        if self._mode is AutoresetMode.DISABLED and self._over.any():
            raise ValueError(
                f"episodes of {np.flatnonzero(self._over)} are over: reset them with a reset_mask"
            )
        reward, terminated, truncated = self._batch.step(actions)
        self._seen = self._batch.observe()
        over = self._batch.task.finished
        final: dict[str, Any] = {}
        if self._mode is AutoresetMode.DISABLED:
            self._over = over.copy()
        elif self._mode is AutoresetMode.SAME_STEP and over.any():
            final = self._restart(self._seen, over)
        return self._seen.copy(), reward, terminated, truncated, final | self._infos()

    def render(self) -> tuple[npt.NDArray[np.uint8], ...] | None:
        """Return each vehicle from behind, (480, 640, 3); None without a render mode."""
        if self.render_mode != "rgb_array":
            return None
        return tuple(self._batch.picture(index) for index in range(self.num_envs))

    def close_extras(self, **_: Any) -> None:
        """Close the renderer."""
        self._batch.close()

    def _restart(self, seen: _Observations, over: BoolArray) -> dict[str, Any]:
        """Begin the episodes that follow, with their first observations in ``seen``.

        Return how those before ended.
        """
        last = np.empty(self.num_envs, object)  # of None
        over, rows = over.copy(), np.flatnonzero(over)
        for index, row in zip(rows.tolist(), seen.take(rows, axis=0), strict=True):
            last[index] = row
        ends = {"final_obs": last, "final_info": self._infos(over)}
        self._batch.begin(over, None, self.np_random)
        seen[rows] = self._batch.observe(rows)
        return ends | {f"_{name}": over.copy() for name in ends}

    def _look(self, which: BoolArray) -> _Observations:
        """Return the newest observations of all vehicles.

        Those of the given ones are made again.
        """
        if self._seen is None or which.all():
            self._seen = self._batch.observe()
        else:
            self._seen[which] = self._batch.observe(np.flatnonzero(which))
        return self._seen

    def _infos(self, which: BoolArray | None = None) -> dict[str, Any]:
        """Return infos of the given vehicles, None = all, and which those are."""
        infos: dict[str, Any] = {}
        for name, values in self._batch.info().items():
            if which is not None:
                values[~which] = 0
            infos[name] = values
            infos[f"_{name}"] = (self._every if which is None else which).copy()
        return infos


def masked(options: dict[str, Any] | None, n: int) -> BoolArray:
    """Return which of n vehicles gymnasium's options ask to reset.

    Raises ValueError: a mask of another shape.
    """
    mask = np.asarray((options or {}).get("reset_mask", np.ones(n, np.bool_)), np.bool_)
    if mask.shape != (n,):
        raise ValueError(f"reset_mask must have the shape ({n},), not {mask.shape}")
    return mask


def seeds_of(seed: int | Sequence[int] | None, n: int) -> Sequence[int] | None:
    """Return seeds of n vehicles from gymnasium's argument.

    Raises ValueError: a list of another length.
    """
    if seed is None:
        return None
    seeds = range(seed, seed + n) if isinstance(seed, int) else list(seed)
    if len(seeds) != n:
        raise ValueError(f"{n} vehicles have {n} seeds, not {len(seeds)}")
    return seeds
