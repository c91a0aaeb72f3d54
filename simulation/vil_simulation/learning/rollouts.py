"""A vector environment whose vehicles fly in several processes or on several machines.

Ray (extra ``ray``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from vil_bridge.core.installation import install_command

try:
    import ray
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        f"roll-outs over several machines need Ray: {install_command('ray')}"
    ) from exc

from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.learning.batch import SEEDS
from vil_simulation.learning.environment import TaskEnv
from vil_simulation.learning.vector import TaskVectorEnv, masked, seeds_of

_Answer = tuple[Any, ...]


class RayVectorEnv(VectorEnv[npt.NDArray[Any], npt.NDArray[np.float32], npt.NDArray[Any]]):
    """Ray actors with a :class:`~vil_simulation.learning.vector.TaskVectorEnv` each.

    The same bits as one of all vehicles.

    Call ``ray.init()`` (or ``ray.init(address=...)`` for a cluster whose machines all have this
    package) first. An actor takes one CPU unless ``resources`` say otherwise.

    Args:
        actors: how many. num_envs: vehicles of each.
        task, autoreset_mode, render_mode, options: as of :class:`TaskVectorEnv`.
        timeout_s: a step or reset that takes longer fails. resources: options of Ray's actors
            (``num_cpus``...).

    Raises:
        ValueError: fewer than one actor or vehicle; or as :class:`TaskVectorEnv`.
        RuntimeError: Ray has not been initialised.
    """

    def __init__(
        self,
        actors: int,
        num_envs: int,
        task: str = "hover",
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        timeout_s: float = 60.0,
        resources: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if actors < 1 or num_envs < 1:
            raise ValueError(
                f"at least one actor with at least one vehicle, not {actors} with {num_envs}"
            )
        if not ray.is_initialized():
            raise RuntimeError("call ray.init() first")
        mode = AutoresetMode(autoreset_mode)
        few = TaskVectorEnv(1, task, autoreset_mode=mode, render_mode=render_mode, **options)
        few.close()
        self.num_envs = actors * num_envs
        self.metadata = TaskEnv.metadata | {"autoreset_mode": mode}
        self.render_mode = render_mode
        self.single_observation_space = few.single_observation_space
        self.single_action_space = few.single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._timeout_s: Final = timeout_s
        self._parts: Final = tuple(slice(k * num_envs, (k + 1) * num_envs) for k in range(actors))
        remote = ray.remote(TaskVectorEnv).options(**(resources or {"num_cpus": 1}))
        settings = {"autoreset_mode": mode.value, "render_mode": render_mode, **options}
        self._actors: Final[tuple[Any, ...]] = tuple(
            remote.remote(num_envs, task, **settings) for _ in self._parts
        )
        self._seeded = False

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[Any], dict[str, Any]]:
        """Reset as :meth:`TaskVectorEnv.reset`.

        Raises:
            ValueError: a list or a mask of the wrong length.
            ray.exceptions.RayError: an actor is lost, or does not answer in time.
        """
        super().reset(seed=seed if isinstance(seed, int) else None)
        seeds = seeds_of(seed, self.num_envs)
        which = masked(options, self.num_envs)
        if seeds is None and not self._seeded:
            seeds = seeds_of(int(self.np_random.integers(SEEDS)), self.num_envs)
            which = np.ones_like(which)
        self._seeded = True
        answers = self._ask(
            "reset",
            [
                {
                    "seed": None if seeds is None else list(seeds[part]),
                    "options": {"reset_mask": which[part]},
                }
                for part in self._parts
            ],
        )
        return _column(answers, 0), _joined([answer[1] for answer in answers])

    def step(
        self, actions: npt.ArrayLike
    ) -> tuple[npt.NDArray[Any], FloatArray, BoolArray, BoolArray, dict[str, Any]]:
        """Step as :meth:`TaskVectorEnv.step`.

        Raises:
            ValueError: a wrong shape.
            ray.exceptions.RayError: an actor failed, is lost, or does not answer in time.
        """
        rows = np.asarray(actions)
        if rows.shape != self.action_space.shape:
            raise ValueError(
                f"actions must have the shape {self.action_space.shape}, not {rows.shape}"
            )
        answers = self._ask("step", [{"actions": rows[part]} for part in self._parts])
        return (
            _column(answers, 0),
            _column(answers, 1),
            _column(answers, 2),
            _column(answers, 3),
            _joined([answer[4] for answer in answers]),
        )

    def render(self) -> tuple[npt.NDArray[np.uint8], ...] | None:
        """Render as :meth:`TaskVectorEnv.render`."""
        if self.render_mode is None:
            return None
        answers = self._ask("render", [{} for _ in self._parts])
        return tuple(picture for answer in answers for picture in answer)

    def close_extras(self, **_: Any) -> None:
        """End the actors."""
        for actor in self._actors:
            ray.kill(actor)

    def _ask(self, verb: str, arguments: list[dict[str, Any]]) -> list[_Answer]:
        asked = [
            getattr(actor, verb).remote(**given)
            for actor, given in zip(self._actors, arguments, strict=True)
        ]
        answers: list[_Answer] = ray.get(asked, timeout=self._timeout_s)
        return answers


def _column(answers: list[_Answer], column: int) -> npt.NDArray[Any]:
    """Return the arrays in a column of the parts' answers, one after another."""
    return np.concatenate([answer[column] for answer in answers])


def _joined(infos: list[dict[str, Any]]) -> dict[str, Any]:
    """Return infos of all vehicles from those of the parts, which are of one size.

    A part that lacks a name, since none of its episodes ended, has it of none of its vehicles.
    """
    joined: dict[str, Any] = {}
    for name in dict.fromkeys(name for info in infos for name in info):
        example = next(info[name] for info in infos if name in info)
        parts = [info[name] if name in info else _nothing(example) for info in infos]
        if isinstance(example, dict):
            joined[name] = _joined(parts)
        else:
            joined[name] = np.concatenate(parts)
    return joined


def _nothing(example: Any) -> Any:
    if isinstance(example, dict):
        return {name: _nothing(values) for name, values in example.items()}
    return np.full_like(example, None if example.dtype == object else 0)
