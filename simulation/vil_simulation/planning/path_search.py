"""Search of a free path with OMPL: RRTConnect, then shortcuts.

The same seed gives the same path.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.matrices import dot
from vil_bridge.core.types import FloatArray
from vil_bridge.registry import explain_missing
from vil_simulation.planning.free_space import FreeSpace

MOST_ROUNDS: Final = 20_000
"""Samples after which a search gives up."""
_RANGE_M: Final = 8.0
_ROUNDS: Final = 3
_PULLS: Final = (1.0, 0.75, 0.5, 0.25, 0.1)


def find_path(
    space: FreeSpace, start_m: FloatArray, goal_m: FloatArray, *, seed: int = 1
) -> FloatArray | None:
    """Return the corners (m, 3) of a free path, ends included; None = none was found.

    Args:
        space: where the vehicle has room.
        start_m: (3,).
        goal_m: (3,).
        seed: of the search, from 1 on.

    Raises:
        ConfigError: the start or the goal is not free, or OMPL is not installed.
    """
    for name, place in (("start", start_m), ("goal", goal_m)):
        if not space.free(place[None])[0]:
            raise ConfigError(
                f"the {name} {_text(place)} is outside the map, or has no "
                f"{space.radius_m:.2f} m of room. Move it"
            )
    if space.line_free(start_m, goal_m):
        return np.stack((start_m, goal_m))
    path = _search(space, start_m, goal_m, seed)
    if path is None or not all(space.line_free(a, b) for a, b in pairwise(path)):
        return None
    return path


def tightened(space: FreeSpace, path_m: FloatArray) -> FloatArray:
    """Return a free path whose corners are nearer to the lines between their neighbours, as far
    as it stays free.
    """
    path = path_m.copy()
    for _ in range(_ROUNDS):
        for k in range(1, len(path) - 1):
            before, corner, after = path[k - 1 : k + 2]
            way = after - before
            share = float(np.clip(dot(corner - before, way) / max(dot(way, way), 1e-12), 0.0, 1.0))
            for step in _PULLS:
                pulled = corner + step * (before + share * way - corner)
                if space.line_free(before, pulled) and space.line_free(pulled, after):
                    path[k] = pulled
                    break
    return path


def _search(
    space: FreeSpace, start_m: FloatArray, goal_m: FloatArray, seed: int
) -> FloatArray | None:
    base, geometric, util = _ompl()
    util.setLogLevel(util.LOG_NONE)
    util.RNG.setSeed(seed)
    states = base.RealVectorStateSpace(3)
    bounds = base.RealVectorBounds(3)
    for axis in range(3):
        bounds.setLow(axis, float(space.low_m[axis]))
        bounds.setHigh(axis, float(space.high_m[axis]))
    states.setBounds(bounds)
    information = base.SpaceInformation(states)
    information.setStateValidityChecker(lambda state: space.free_at(state[0], state[1], state[2]))

    class Lines(base.MotionValidator):  # type: ignore[misc, name-defined]
        # OMPL's name.
        def checkMotion(self, start: Any, end: Any, _last: Any = None) -> bool:  # noqa: N802
            return space.line_free(_point(start), _point(end))

    lines = Lines(information)  # held here: OMPL does not hold Python's part of it
    information.setMotionValidator(lines)
    information.setup()
    problem = base.ProblemDefinition(information)
    problem.setStartAndGoalStates(_state(states, start_m), _state(states, goal_m))
    planner = geometric.RRTConnect(information)
    planner.setRange(_RANGE_M)
    planner.setProblemDefinition(problem)
    planner.setup()
    rounds = iter(range(MOST_ROUNDS))
    planner.solve(base.PlannerTerminationCondition(lambda: next(rounds, None) is None))
    if not problem.hasExactSolution():
        return None
    path = problem.getSolutionPath()
    shorter = geometric.PathSimplifier(information)
    shorter.reduceVertices(path)
    shorter.partialShortcutPath(path)
    shorter.reduceVertices(path)
    return np.array([_point(state) for state in path.getStates()])


def _ompl() -> tuple[Any, Any, Any]:
    """Return OMPL's modules.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        from ompl import base, geometric, util
    except ModuleNotFoundError as exc:
        raise ConfigError(f"a path is searched by OMPL: {explain_missing(exc)}") from exc
    return base, geometric, util


def _state(states: Any, p_m: FloatArray) -> Any:
    state = states.allocState()
    for axis in range(3):
        state[axis] = float(p_m[axis])
    return state


def _point(state: Any) -> FloatArray:
    return np.array((state[0], state[1], state[2]))


def _text(p_m: FloatArray) -> str:
    return ",".join(f"{value:g}" for value in p_m)
