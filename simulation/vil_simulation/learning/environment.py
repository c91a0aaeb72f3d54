"""One vehicle as a gymnasium environment."""

from __future__ import annotations

from typing import Any, Final

import gymnasium
import numpy as np
import numpy.typing as npt

from vil_simulation.learning.batch import Observed, TaskBatch


class TaskEnv(gymnasium.Env[npt.NDArray[Any], npt.NDArray[np.float32]]):
    """A vehicle that learns a task.

    The same bits as vehicle 0 of a vector environment with the same seed.

    Args:
        task: ``hover``, ``three_rotors``, ``gates`` or ``race``.
        observed: ``state``, or a picture from the drone: ``gray``, ``rgb`` or ``depth`` (metres).
        size_px: width and height of such pictures.
        render_mode: ``rgb_array`` = :meth:`render` shows the vehicle from behind.
        options: of the task: see :mod:`vil_simulation.learning.tasks`.

    Raises:
        ValueError: an unknown task, observation, or option.
    """

    # Gymnasium's own.
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(
        self,
        task: str = "hover",
        observed: Observed = "state",
        size_px: int = 84,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self._batch: Final = TaskBatch(1, task, observed, size_px, options)
        self.observation_space = self._batch.observation_space
        self.action_space = self._batch.action_space
        self.render_mode = render_mode

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002 - its interface
    ) -> tuple[npt.NDArray[Any], dict[str, Any]]:
        """Begin an episode: the first of a seed, or the next. ``options`` are not used."""
        super().reset(seed=seed)
        self._batch.begin(np.ones(1, np.bool_), None if seed is None else [seed], self.np_random)
        return self._batch.observe()[0], self._info()

    def step(
        self, action: npt.ArrayLike
    ) -> tuple[npt.NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Fly for 20 ms.

        Raises:
            ValueError: wrong shape or a value that is not finite.
        """
        reward, terminated, truncated = self._batch.step(np.asarray(action)[None])
        return (
            self._batch.observe()[0],
            float(reward[0]),
            bool(terminated[0]),
            bool(truncated[0]),
            self._info(),
        )

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return the vehicle from behind, (480, 640, 3); None without a render mode."""
        if self.render_mode != "rgb_array":
            return None
        return self._batch.picture(0)

    def close(self) -> None:
        """Close the renderer."""
        self._batch.close()

    def _info(self) -> dict[str, Any]:
        return {name: values[0].item() for name, values in self._batch.info().items()}
