"""The AlphaPilot challenge's own score.

Of a flight by its samples, and of a log of FlightGoggles' reporter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import yaml
from pydantic import RootModel, model_validator

from vil_bridge.config.base import StrictModel, custom
from vil_bridge.config.pose import Point
from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.race.alphapilot import POINTS_PER_GATE, AlphaPilotChallenge, read_model

Outcome = Literal["Challenge Completed", "Timed out", "Collision", "Interrupted"]


@dataclass(frozen=True, slots=True)
class AlphaPilotScore:
    """Score of a flight as FlightGoggles judges it.

    Attributes:
        times_s: of each gate in flight order, None = missed or not reached.
        last_s: time of the last gate passed, 0 = none. outcome: as the challenge's results name it.
        score: 10 points a gate minus ``last_s``; 0 unless completed.
    """

    times_s: tuple[float | None, ...]
    last_s: float
    outcome: Outcome
    score: float

    @property
    def passed(self) -> tuple[bool, ...]:
        """Return whether each gate was passed, in flight order."""
        return tuple(time is not None for time in self.times_s)


def alphapilot_score(
    t_s: Sequence[float] | FloatArray,
    p_world_m: FloatArray,
    challenge: AlphaPilotChallenge,
    *,
    collision_s: float | None = None,
) -> AlphaPilotScore:
    """Return the score of FlightGoggles' race reporter (1000 Hz samples in version 3, 150 Hz in
    version 2).

    A sample is in a gate when it is strictly inside the axis-aligned box of the markers, grown on
    every side, and closer than the gate width to the plane through the first three. No direction
    and no sweep. A later gate makes those before it missed for good; the last one ends the race.

    Args:
        t_s: times of the samples from the start of the race, (k,).
        p_world_m: positions, (k, 3), ENU.
        challenge: gates in flight order, width, inflation, time-out.
        collision_s: time of the first collision, which ends the race; None = none.

    Raises:
        ValueError: shapes that do not fit.
    """
    times = np.asarray(t_s, np.float64)
    points = np.asarray(p_world_m, np.float64)
    if points.shape != (len(times), 3):
        raise ValueError("samples are t_s (k,) and p_world_m (k, 3)")
    timeout_s = challenge.course.rules.timeout_s or math.inf
    end_s = timeout_s
    if collision_s is not None:
        end_s = min(timeout_s, collision_s)
    inside = _in_gates(points, challenge.markers_m, challenge.gate_width_m, challenge.inflation_m)
    inside &= (times <= end_s)[:, None]
    passed: list[float | None] = [None] * len(challenge.markers_m)
    due = 0
    last_s = 0.0
    for row in np.flatnonzero(inside.any(axis=1)):
        for gate in np.flatnonzero(inside[row, due:]) + due:
            passed[gate], due, last_s = float(times[row]), int(gate) + 1, float(times[row])
        if due == len(passed):
            break
    if due == len(passed):
        return _score(tuple(passed), last_s, "Challenge Completed")
    outcome: Outcome = "Interrupted"
    if collision_s is not None and collision_s <= timeout_s:
        outcome = "Collision"
    elif len(times) and times[-1] > timeout_s:
        outcome = "Timed out"
    return _score(tuple(passed), last_s, outcome)


def _score(times_s: tuple[float | None, ...], last_s: float, outcome: Outcome) -> AlphaPilotScore:
    points = 0.0
    if outcome == "Challenge Completed":
        points = POINTS_PER_GATE * sum(time is not None for time in times_s) - last_s
    return AlphaPilotScore(times_s, last_s, outcome, points)


def _in_gates(
    points: FloatArray, markers_m: FloatArray, width_m: float, inflation_m: float
) -> BoolArray:
    low = markers_m.min(axis=1) - inflation_m
    high = markers_m.max(axis=1) + inflation_m
    first = markers_m[:, 0]
    second = markers_m[:, 1]
    third = markers_m[:, 2]
    normals = np.cross(second - first, third - first)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    in_box = ((points[:, None] > low) & (points[:, None] < high)).all(axis=2)
    inside: BoolArray = in_box & (
        np.abs(np.einsum("kgi,gi->kg", points[:, None] - first, normals)) < width_m
    )
    return inside


# --- logs -----------------------------------------------------------------------------------------


class _LoggedGate(StrictModel):
    Name: str
    Success: Literal["True", "False"]
    Time: float | None = None
    Location: Point | None = None

    @model_validator(mode="after")
    def _timed(self) -> Self:
        if (self.Success == "True") != (self.Time is not None):
            raise custom("a gate with Success 'True' has a Time, and no other has one")
        return self


class _ResultsFile(RootModel[dict[str, _LoggedGate | Outcome]]):
    pass


def read_results(path: Path, gates: int) -> AlphaPilotScore:
    """Return the score of a log of the challenge.

    ``Gate0`` to ``GateN`` in flight order, and ``Result``.

    Args:
        path: ``results.yaml``.
        gates: of the challenge; those that were not reached are not in the log.

    Raises:
        ConfigError: one line for every problem.
    """
    logged = read_model(path, _ResultsFile, "`Gate0: {...}` and `Result: ...` make a log")[0].root
    entries = [logged.get(f"Gate{number}") for number in range(gates)]
    times = tuple(entry.Time if isinstance(entry, _LoggedGate) else None for entry in entries)
    outcome = logged.get("Result", "Interrupted")
    if isinstance(outcome, _LoggedGate):
        outcome = "Interrupted"
    last_s = max((time for time in times if time is not None), default=0.0)
    return _score(times, last_s, outcome)


def write_results(score: AlphaPilotScore, challenge: AlphaPilotChallenge, path: Path) -> None:
    """Write a log as the challenge's reporter does, without the places of the passes.

    Raises:
        OSError: the file cannot be written.
    """
    course = challenge.course
    reached = max(
        (number + 1 for number, time in enumerate(score.times_s) if time is not None), default=0
    )
    entries: dict[str, Any] = {}
    for number, index in enumerate(course.order[:reached]):
        time = score.times_s[number]
        entry: dict[str, Any] = {"Name": course.gates[index].name, "Success": "False"}
        if time is not None:
            entry |= {"Success": "True", "Time": time}
        entries[f"Gate{number}"] = entry
    path.write_text(
        yaml.safe_dump({**entries, "Result": score.outcome}, sort_keys=False), encoding="utf-8"
    )
