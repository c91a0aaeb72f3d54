"""Shared parts of single and vector environments.

A task, its spaces, its pictures, seeds and episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.learning.pictures import Eyes
from vil_simulation.learning.tasks import Infos, TaskKind, kind_named
from vil_simulation.vehicles.envs.base import AutoReset

Observed = Literal["state", "gray", "rgb", "depth"]

SEEDS: Final = 1 << 32
"""Seeds are taken modulo this: vehicle i of seed s is the vehicle of seed s + i."""


class TaskBatch:
    """n vehicles of one task with their gymnasium spaces.

    Args:
        task: name of the task. observed: what an observation is: the ``state``, or a picture from
            the drone.
        size_px: width and height of such pictures. options: of the task. autoreset: when
            :meth:`step` begins episodes.

    Attributes:
        observation_space, action_space: of one vehicle.

    Raises:
        ValueError: no such task, kind of observation or size.
    """

    def __init__(
        self,
        n: int,
        task: str,
        observed: Observed,
        size_px: int,
        options: dict[str, Any],
        autoreset: AutoReset = "disabled",
    ) -> None:
        kind = kind_named(task)
        if observed not in _PIXELS and observed != "state":
            raise ValueError(
                f"no observation named {observed!r}; known: state, {', '.join(_PIXELS)}"
            )
        if not 8 <= size_px <= 2048:
            raise ValueError(f"size_px must be 8 to 2048, got {size_px}")
        self.task: Final = kind.make(n, autoreset=autoreset, **options)
        self.n: Final = n
        self.observed: Final = observed
        self._kind: Final = kind
        self._eyes: Final = Eyes(kind.course(self.task), size_px)
        self._seeded = False
        # The task's own array, once it began.
        self._state = np.zeros((n, len(kind.reach)), np.float32)
        self._low = np.tile(-kind.reach, (n, 1))
        self._high = np.tile(kind.reach, (n, 1))
        self.action_space: Final = spaces.Box(-1.0, 1.0, (self.task.action_size,), np.float32)
        self.observation_space: Final = _space(kind, observed, size_px)

    def begin(
        self, which: BoolArray, seeds: Sequence[int] | None, fallback: np.random.Generator
    ) -> None:
        """Begin new episodes.

        Args:
            which: of those vehicles, (n,).
            seeds: one for each vehicle; None = the next episode of the seeds that they have.
            fallback: seeds vehicles that never got one.
        """
        if seeds is None and not self._seeded:
            first = int(fallback.integers(SEEDS))
            seeds = range(first, first + self.n)
            which = np.ones(self.n, np.bool_)
        if seeds is not None:
            self.task.vehicles[which] = np.array([seed % SEEDS for seed in seeds], np.int64)[which]
            self.task.episode[which] = -1
            self._seeded = True
        self._state = self.task.reset(which)

    def step(self, actions: npt.ArrayLike) -> tuple[FloatArray, BoolArray, BoolArray]:
        """Step, and return reward, terminated and truncated, (n,) each and new.

        Raises:
            ValueError: wrong shape or a value that is not finite.
        """
        result = self.task.step(actions)
        self._state = result.obs
        return result.reward.copy(), result.terminated.copy(), result.truncated.copy()

    def observe(self, which: npt.NDArray[np.intp] | None = None) -> npt.NDArray[Any]:
        """Return observations of all vehicles, or of those of the given indices; a new array."""
        if self.observed != "state":
            x = self.task.x
            if which is not None:
                x = x[which]
            return self._eyes.see(self.observed, x)
        rows = self._state
        if which is not None:
            rows = rows.take(which, axis=0)
        # As np.clip, at a third of its time.
        clipped: npt.NDArray[Any] = np.maximum(rows, self._low[: len(rows)])
        np.minimum(clipped, self._high[: len(rows)], out=clipped)
        return clipped

    def info(self) -> Infos:
        """Return further information about the vehicles, new arrays (n,)."""
        return self._kind.info(self.task)

    def picture(self, index: int) -> npt.NDArray[np.uint8]:
        """Return the vehicle from behind, (480, 640, 3), for people."""
        return self._eyes.behind(self.task.x[index])

    def close(self) -> None:
        """Close the renderer."""
        self._eyes.close()


def _space(kind: TaskKind, observed: Observed, size_px: int) -> spaces.Box:
    if observed == "state":
        return spaces.Box(-kind.reach, kind.reach, dtype=np.float32)
    channels, most, dtype = _PIXELS[observed]
    return spaces.Box(0, most, (size_px, size_px, channels), dtype)


_PIXELS: Final[dict[str, tuple[int, float, Any]]] = {
    "gray": (1, 255, np.uint8),
    "rgb": (3, 255, np.uint8),
    "depth": (1, 100.0, np.float32),
}
"""Channels, largest value and type."""
