"""Copies of tasks and environments.

They go on where the original was, and each flies for itself.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vil_simulation.learning import TaskEnv, TaskVectorEnv
from vil_simulation.vehicles.envs.base import VehicleTask
from vil_simulation.vehicles.envs.hover import HoverTask
from vil_simulation.vehicles.envs.race import RaceTask
from vil_simulation.vehicles.envs.stabilise import ThreeRotorsTask

WAYS = pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))],
    ids=["deepcopy", "pickle"],
)


def actions(task: VehicleTask, k: int) -> Any:
    return np.random.default_rng(k).uniform(-0.4, 0.4, (task.n, task.action_size))


@WAYS
@pytest.mark.parametrize("engine", ["numpy", "auto"])
@pytest.mark.parametrize("make", [HoverTask, ThreeRotorsTask, RaceTask])
def test_a_copied_task_flies_the_same_bits_and_leaves_the_original_alone(
    make: Callable[..., VehicleTask], engine: str, copied: Callable[[VehicleTask], VehicleTask]
) -> None:
    task = make(5, 3, engine=engine, time_limit_s=0.6, autoreset="same_step")
    task.reset()
    for k in range(7):
        task.step(actions(task, k))
    before = task.x.copy()
    other = copied(task)
    assert other.engine == task.engine
    flown: list[tuple[Any, ...]] = [
        copy.deepcopy(tuple(other.step(actions(task, k)))) for k in range(7, 60)
    ]
    assert np.array_equal(task.x, before)
    for k, results in enumerate(flown, 7):
        for mine, its in zip(task.step(actions(task, k)), results, strict=True):
            assert np.array_equal(np.asarray(mine), np.asarray(its)), k
    assert task.episode.min() > 0
    assert np.array_equal(task.episode, other.episode)


@pytest.mark.process
@WAYS
def test_environments_are_copied_with_their_seeds_and_pictures(
    copied: Callable[[Any], Any],
) -> None:
    env = TaskEnv("hover", reward="flightmare")
    env.reset(seed=4)
    env.step(np.zeros(4, np.float32))
    other = copied(env)
    for action in (np.zeros(4, np.float32), np.full(4, 0.2, np.float32)):
        assert np.array_equal(env.step(action)[0], other.step(action)[0])
    assert np.array_equal(env.reset()[0], other.reset()[0])
    envs = TaskVectorEnv(2, "gates", "depth", 16)
    try:
        seen, _ = envs.reset(seed=1)
        others = copied(envs)
        again, _ = others.reset(seed=1)
        others.close()
        assert np.array_equal(seen, again)
    finally:
        envs.close()


@pytest.mark.parametrize("limit_s", [0.0, -1.0, float("nan"), float("inf")])
def test_an_episode_has_an_end_after_its_beginning(limit_s: float) -> None:
    with pytest.raises(ValueError, match=r"time_limit_s must be 0\.02 to 1e\+06"):
        TaskEnv("gates", time_limit_s=limit_s)
