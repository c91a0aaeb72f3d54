"""Evaluation of a policy: seeded episodes in parallel, one for each vehicle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv

from vil_bridge.core.types import BoolArray, FloatArray

Policy = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
"""Actions (n, k) of observations (n, ...)."""


class Episodes(NamedTuple):
    """One episode of each vehicle; arrays (n,).

    Attributes:
        returns: sums of rewards. lengths: steps. terminated: the task ended it, and not time.
        final: the environment's infos at its end, by name.
    """

    returns: FloatArray
    lengths: npt.NDArray[np.int64]
    terminated: BoolArray
    final: dict[str, npt.NDArray[Any]]


def fly_once(env: VectorEnv[Any, Any, Any], policy: Policy, seed: int) -> Episodes:
    """Fly one episode with every vehicle: vehicle i begins with the seed ``seed + i``.

    Args:
        env: a vector environment of ours.
        policy: what flies.
        seed: of the first vehicle.

    Raises:
        ValueError: the environment does not reset in the mode ``SameStep``.
    """
    if env.metadata["autoreset_mode"] is not AutoresetMode.SAME_STEP:
        raise ValueError("evaluation needs autoreset_mode='SameStep'")
    observations, infos = env.reset(seed=seed)
    n = env.num_envs
    episodes = Episodes(np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.bool_), {})
    for name, values in infos.items():
        if not name.startswith("_"):
            episodes.final[name] = values.copy()
    flying = np.ones(n, np.bool_)
    while flying.any():
        observations, rewards, terminated, truncated, infos = env.step(policy(observations))
        episodes.returns[flying] += rewards[flying]
        episodes.lengths[flying] += 1
        ended = (terminated | truncated) & flying
        episodes.terminated[ended] = terminated[ended]
        for name, values in episodes.final.items():
            if ended.any():
                values[ended] = infos["final_info"][name][ended]
        flying &= ~ended
    return episodes
