"""Tasks by name: constructor, range of observations, further information, gates in the pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.courses.course import Course
from vil_simulation.vehicles.envs.base import VehicleTask
from vil_simulation.vehicles.envs.hover import GOAL_WORLD_M, HoverTask, distance_m
from vil_simulation.vehicles.envs.race import RaceTask
from vil_simulation.vehicles.envs.stabilise import SettleTask, ThreeRotorsTask

Infos = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class TaskKind:
    """A kind of task.

    Attributes:
        make: takes the number of vehicles and the task's own options.
        reach: observations are clipped to +- this, one value a column.
        info: arrays (n,) by name. course: the gates that pictures show.
    """

    make: Callable[..., VehicleTask]
    reach: npt.NDArray[np.float32]
    info: Callable[[Any], Infos]
    course: Callable[[Any], Course]


def _hover(n: int, *, reward: str = "near", **options: Any) -> VehicleTask:
    if reward not in _REWARDS:
        raise ValueError(f"no reward named {reward!r}; known: {', '.join(_REWARDS)}")
    return _REWARDS[reward](n, **options)


def _gates(n: int, **options: Any) -> RaceTask:
    chosen: dict[str, Any] = {"course": "slalom", "laps": 1, "time_limit_s": 10.0} | options
    return RaceTask(n, **chosen)


def _race(n: int, **options: Any) -> RaceTask:
    chosen: dict[str, Any] = {"course": "oval", "laps": 3, "time_limit_s": 60.0} | options
    return RaceTask(n, **chosen)


def _hover_from_goal(task: HoverTask) -> Infos:
    return {"distance_m": task.distance_m()}


def _from_goal(task: VehicleTask) -> Infos:
    return {"distance_m": distance_m(task.x)}


def _from_gates(task: RaceTask) -> Infos:
    return {"gates_passed": task.passed.copy(), "last_gate_s": task.last_s.copy()}


def _around_goal(task: VehicleTask) -> Course:  # noqa: ARG001 - as every kind's
    """Return four gates that face the goal: something to see in every direction."""
    yaws = np.radians([0.0, 90.0, 180.0, 270.0])
    sides = 4.0 * np.stack((np.cos(yaws), np.sin(yaws), np.zeros(4)), axis=1)
    return Course.upright(
        np.array(GOAL_WORLD_M) + sides, yaws, np.full((4, 2), 1.5), np.array(GOAL_WORLD_M)
    )


def _of_race(task: RaceTask) -> Course:
    return task.course


_REWARDS: Final[Mapping[str, type[HoverTask]]] = {"near": SettleTask, "flightmare": HoverTask}
_POSE_REACH: Final = np.repeat(np.array([20.0, 1.0, 40.0, 100.0], np.float32), (3, 9, 3, 3))
_GATES_REACH: Final = np.repeat(np.array([200.0, 1.0, 200.0, 1.0, 100.0, 100.0], np.float32), 3)

TASKS: Final[Mapping[str, TaskKind]] = {
    "hover": TaskKind(_hover, _POSE_REACH, _hover_from_goal, _around_goal),
    "three_rotors": TaskKind(ThreeRotorsTask, _POSE_REACH, _from_goal, _around_goal),
    "gates": TaskKind(_gates, _GATES_REACH, _from_gates, _of_race),
    "race": TaskKind(_race, _GATES_REACH, _from_gates, _of_race),
}
"""Kinds of tasks by name."""


def kind_named(name: str) -> TaskKind:
    """Return a kind of task. Raises ValueError: no such task."""
    if name not in TASKS:
        raise ValueError(f"no task named {name!r}; known: {', '.join(TASKS)}")
    return TASKS[name]
