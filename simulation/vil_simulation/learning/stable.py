"""Our vector environments as Stable-Baselines3 wants them (extra ``train``).

No process, no copy per vehicle.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import Env
from gymnasium.vector import AutoresetMode, VectorEnv

from vil_bridge.core.installation import install_command

try:
    # Not among the locked packages: gigabytes that no test needs.
    from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as exc:
    raise ModuleNotFoundError(
        f"training needs Stable-Baselines3: {install_command('train')}"
    ) from exc

_Indices = int | Iterable[int] | None


# It is Any where the extra is absent.
class StableVecEnv(VecEnv):  # type: ignore[misc, unused-ignore]
    """A vector environment of ours, local or over Ray, for Stable-Baselines3's algorithms.

    ``infos`` hold ``terminal_observation`` and ``TimeLimit.truncated`` where an episode ended, and
    ``episode`` with its return ``r``, length ``l`` and what the environment's infos said at its
    end.

    Args:
        env: resets in the mode ``SameStep``, as Stable-Baselines3 expects.
        seed: of the first episodes.

    Raises:
        ValueError: another mode.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], seed: int = 0) -> None:
        if env.metadata["autoreset_mode"] is not AutoresetMode.SAME_STEP:
            raise ValueError("Stable-Baselines3 needs autoreset_mode='SameStep'")
        self.env = env
        self.render_mode = env.render_mode
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)
        self._seed: int | None = seed
        self._actions: npt.NDArray[np.float32] = np.zeros(env.action_space.shape or (), np.float32)
        self._returns = np.zeros(env.num_envs)
        self._lengths = np.zeros(env.num_envs, np.int64)

    def reset(self) -> npt.NDArray[Any]:
        """Begin new episodes of all vehicles; return their observations (n, ...)."""
        observations, _ = self.env.reset(seed=self._seed)
        self._seed = None
        self._returns[:] = 0.0
        self._lengths[:] = 0
        return np.asarray(observations)

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Set the seed with which the next :meth:`reset` begins for the first vehicle, one more
        for each other.
        """
        self._seed = seed
        if seed is None:
            return [None] * self.num_envs
        return [seed + i for i in range(self.num_envs)]

    def step_async(self, actions: npt.NDArray[np.float32]) -> None:
        """Remember the actions, (n, k)."""
        self._actions = actions

    def step_wait(
        self,
    ) -> tuple[
        npt.NDArray[Any], npt.NDArray[np.float32], npt.NDArray[np.bool_], list[dict[str, Any]]
    ]:
        """Fly: observations, rewards (n,), who ended (n,), infos."""
        observations, rewards, terminated, truncated, infos = self.env.step(self._actions)
        self._returns += rewards
        self._lengths += 1
        done = terminated | truncated
        reported: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for index in np.flatnonzero(done):
            reported[index] = {
                "terminal_observation": infos["final_obs"][index],
                "TimeLimit.truncated": bool(truncated[index]),
                "episode": self._episode(int(index), infos["final_info"]),
            }
        self._returns[done] = 0.0
        self._lengths[done] = 0
        return np.asarray(observations), rewards.astype(np.float32), done, reported

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: _Indices = None) -> list[Any]:
        """Return an attribute of the vector environment, once for each vehicle."""
        return [getattr(self.env, attr_name) for _ in self._get_indices(indices)]

    # The interface.
    def set_attr(
        self,
        attr_name: str,
        value: Any,  # noqa: ARG002
        indices: _Indices = None,  # noqa: ARG002
    ) -> None:
        """Raise AttributeError: vehicles have no attributes of their own."""
        raise AttributeError(f"vehicles of a vector environment have no {attr_name!r} of their own")

    def env_method(
        self,
        method_name: str,
        *args: Any,  # noqa: ARG002 - the interface
        indices: _Indices = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> list[Any]:
        """Raise AttributeError: vehicles have no methods of their own."""
        raise AttributeError(
            f"vehicles of a vector environment have no method {method_name!r} of their own"
        )

    def env_is_wrapped(
        self,
        wrapper_class: type[Env[Any, Any]],  # noqa: ARG002
        indices: _Indices = None,
    ) -> list[bool]:
        """Return False for each: vehicles are not wrapped."""
        return [False for _ in self._get_indices(indices)]

    def _episode(self, index: int, final: dict[str, Any]) -> dict[str, float]:
        extra = {
            name: values[index].item() for name, values in final.items() if not name.startswith("_")
        }
        return {"r": float(self._returns[index]), "l": int(self._lengths[index]), **extra}
