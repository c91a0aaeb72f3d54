"""AlphaPilot challenge files of FlightGoggles.

A challenge is two YAML files: the gates (``Gate21: {location: [[x, y, z] x 4]}``, with
``perturbation``, or ``nominal_location`` with ``perturbation_bound``: ``[dx, dy, dyaw]``) and the
challenge (``gate_names``, ``timeout``, ``gate_width``, ``flightgoggles_uav_dynamics:
{init_pose}``). Files are north-west-up; courses are ENU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar

import numpy as np
import yaml
from pydantic import BaseModel, Field, RootModel, ValidationError, model_validator

from vil_bridge.config.base import StrictModel, custom
from vil_bridge.config.error_report import explain, read_tree, written
from vil_bridge.config.pose import Coordinate, Point
from vil_bridge.config.references import similar
from vil_bridge.config.yaml_positions import Tree
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_conj, q_mul
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course, CourseGate, PoseSpread, RaceRules

PUBLIC_SEEDS: Final = range(25)
"""Seeds of the perturbed courses that take the place of the 25 public ones."""
HIDDEN_SEEDS: Final = range(25, 50)
"""Seeds of those that take the place of the 25 hidden ones."""

POINTS_PER_GATE: Final = 10.0
"""In the score, and as seconds of penalty."""
_UNIT_ERROR: Final = 0.01
_FLAT_M: Final = 0.1
_NWU_TO_ENU: Final = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
_Q_ENU_NWU: Final = np.array([0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)])

_Model = TypeVar("_Model", bound=BaseModel)


class _GateEntry(StrictModel):
    location: tuple[Point, Point, Point, Point] | None = None
    nominal_location: tuple[Point, Point, Point, Point] | None = None
    perturbation: Point | None = None
    perturbation_bound: Point | None = None

    @model_validator(mode="after")
    def _one_location(self) -> Self:
        if (self.location is None) == (self.nominal_location is None):
            raise custom("give either location or nominal_location: four markers [x, y, z]")
        markers = self.markers()
        problem = (
            "the four markers are not the corners of one opening; give its corners, in any order"
        )
        if np.linalg.svd(markers - markers.mean(axis=0))[1][2] > _FLAT_M:
            raise custom(problem)
        try:
            _gate("", markers, np.ones(3))
        except ValueError:
            raise custom(problem) from None
        return self

    def markers(self) -> FloatArray:
        markers: FloatArray = np.array(self.location or self.nominal_location) @ _NWU_TO_ENU.T
        return markers

    def spread(self) -> PoseSpread:
        north, west, yaw = (
            abs(value) for value in self.perturbation_bound or self.perturbation or (0.0, 0.0, 0.0)
        )
        high = (west, north, 0.0)
        turn = (0.0, 0.0, math.radians(yaw))
        return PoseSpread(_negative(high), high, _negative(turn), turn)


class _GatesFile(RootModel[dict[str, _GateEntry]]):
    pass


_Pose = tuple[Coordinate, Coordinate, Coordinate, Coordinate, Coordinate, Coordinate, Coordinate]


class _Dynamics(StrictModel):
    init_pose: _Pose


class _ChallengeFile(StrictModel):
    challenge_name: str = "challenge"
    timeout: Annotated[float, Field(gt=0)] = 300.0
    gate_names: Annotated[tuple[str, ...], Field(min_length=1)]
    gate_width: Annotated[float, Field(gt=0)] = 0.3
    inflation: Annotated[float, Field(ge=0)] = 0.1
    results_location: str | None = None
    flightgoggles_uav_dynamics: _Dynamics | None = None
    init_pose: _Pose | None = None

    @model_validator(mode="after")
    def _one_pose(self) -> Self:
        if (self.init_pose is None) == (self.flightgoggles_uav_dynamics is None):
            raise custom(
                "give init_pose: [x, y, z, qx, qy, qz, qw], in "
                "flightgoggles_uav_dynamics or outside it"
            )
        length = math.hypot(*self.pose()[3:])
        if abs(length - 1.0) > _UNIT_ERROR:
            raise custom(
                f"the quaternion of init_pose has length {length:.3g}; a rotation has length 1"
            )
        return self

    def pose(self) -> _Pose:
        nested = self.flightgoggles_uav_dynamics
        given = self.init_pose
        if nested is not None:
            given = nested.init_pose
        assert given is not None
        return given


@dataclass(frozen=True, slots=True, eq=False)
class AlphaPilotChallenge:
    """A challenge of FlightGoggles.

    Attributes:
        course: in our format; a gate left out costs the ten points that it is worth, as seconds.
        markers_m: of the gates in flight order, (g, 4, 3), ENU, each in the order of the file.
        gate_width_m: distance to a gate's plane that counts as in the gate. inflation_m: by which
            its box grows.
    """

    course: Course
    markers_m: FloatArray
    gate_width_m: float = 0.3
    inflation_m: float = 0.1

    @classmethod
    def of(cls, course: Course) -> AlphaPilotChallenge:
        """Return the challenge that flies one lap of a course."""
        return cls(course, np.array([course.gates[index].corners_m for index in course.order]))


def read_challenge(gates: Path, challenge: Path) -> AlphaPilotChallenge:
    """Read a challenge. Each gate is flown in the direction from the gate before it.

    Args:
        gates: file of the gates' locations.
        challenge: file of the challenge.

    Raises:
        ConfigError: one line for every problem, with file, line and cure.
    """
    entries = read_model(gates, _GatesFile, "`Gate1: {location: ...}` for each gate makes one")[
        0
    ].root
    asked, places = read_model(
        challenge, _ChallengeFile, "`gate_names: [...]` and `init_pose: [...]` make one"
    )
    unknown = [
        ((("gate_names", index)), f"no gate of {gates} is named {name!r}{similar(name, entries)}")
        for index, name in enumerate(asked.gate_names)
        if name not in entries
    ]
    if unknown:
        raise ConfigError(written(explain(None, places, _ChallengeFile, unknown)))
    start = Transform.of(
        np.array(asked.pose()[:3]) @ _NWU_TO_ENU.T, q_mul(_Q_ENU_NWU, np.array(asked.pose()[3:]))
    )
    before = {
        name: asked.gate_names[max(number - 1, 0)] for number, name in enumerate(asked.gate_names)
    }
    made = []
    for name, entry in entries.items():
        here = entry.markers()
        come = start.p_m
        if before.get(name, name) != name:
            come = entries[before[name]].markers().mean(axis=0)
        made.append(replace(_gate(name, here, here.mean(axis=0) - come), spread=entry.spread()))
    index = {name: number for number, name in enumerate(entries)}
    rules = RaceRules("signal", "penalise", "stop", POINTS_PER_GATE, asked.timeout)
    order = tuple(index[name] for name in asked.gate_names)
    course = Course(asked.challenge_name, tuple(made), start, order, rules=rules)
    markers = np.array([entries[name].markers() for name in asked.gate_names])
    return AlphaPilotChallenge(course, markers, asked.gate_width, asked.inflation)


def read_model(path: Path, model: type[_Model], cure: str) -> tuple[_Model, Tree]:
    """Return a YAML file as a value, and with its places.

    Args:
        path: file.
        model: of the file.
        cure: what to do about a file without keys.

    Raises:
        ConfigError: one line for every problem.
    """
    tree = read_tree(path, cure)
    problems = list(tree.problems)
    if isinstance(tree.data, dict):
        try:
            made = model.model_validate(tree.data)
        except ValidationError as exc:
            problems += explain(exc, tree, model)
        else:
            if not problems:
                return made, tree
    raise ConfigError(written(problems))


def _gate(name: str, markers_m: FloatArray, approach: FloatArray) -> CourseGate:
    """Return a gate from markers (4, 3) in any order that is flown along ``approach``."""
    away = markers_m - markers_m.mean(axis=0)
    forward = np.linalg.svd(away)[2][2]
    along = forward @ approach >= 0.0
    if not along:
        forward = -forward
    if abs(forward[2]) < 0.9:
        left = np.cross((0.0, 0.0, 1.0), forward)
    else:
        left = np.cross(forward, (1.0, 0.0, 0.0))
    up = np.cross(forward, left)
    turn = np.arctan2(away @ up, away @ left) % (2.0 * math.pi)
    return CourseGate.of_corners(name, markers_m[np.argsort(turn)])


def write_challenge(made: AlphaPilotChallenge, gates: Path, challenge: Path) -> None:
    """Write a challenge's two files.

    Gates with random offsets get the nominal location and their bounds.

    Raises:
        OSError: a file cannot be written.
    """
    course = made.course
    entries: dict[str, Any] = {}
    for index, gate in enumerate(course.gates):
        corners = gate.corners_m
        if index in course.order:
            corners = made.markers_m[course.order.index(index)]
        location = [_micrometres(corner) for corner in corners @ _NWU_TO_ENU]
        if gate.spread == PoseSpread():
            entries[gate.name] = {"location": location}
            continue
        bound = [
            gate.spread.high_m[1],
            gate.spread.high_m[0],
            round(math.degrees(gate.spread.high_rpy_rad[2]), 6),
        ]
        entries[gate.name] = {"nominal_location": location, "perturbation_bound": bound}
    q_xyzw = q_mul(q_conj(_Q_ENU_NWU), course.start.q_xyzw)
    pose = [*(course.start.p_m @ _NWU_TO_ENU), *q_xyzw]
    asked: dict[str, Any] = {
        "flightgoggles_uav_dynamics": {
            "init_pose": [round(float(value), 6) + 0.0 for value in pose]
        },
        "challenge_name": course.name,
        "timeout": course.rules.timeout_s or 300.0,
        "gate_names": [course.gates[index].name for index in course.order],
        "gate_width": made.gate_width_m,
        "inflation": made.inflation_m,
    }
    for path, data in ((gates, entries), (challenge, asked)):
        path.write_text(
            yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=200),
            encoding="utf-8",
        )


def _micrometres(values: FloatArray) -> list[float]:
    return [round(float(value), 6) for value in values]


def _negative(values: tuple[float, float, float]) -> tuple[float, float, float]:
    return 0.0 - values[0], 0.0 - values[1], 0.0 - values[2]
