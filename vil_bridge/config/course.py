"""Files of race courses (docs/guides/racing.md).

Every problem at once, as ``file:line:column: key: reason``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Annotated, Any, Final, Self

import numpy as np
import yaml
from pydantic import Field, ValidationError, model_validator

from vil_bridge.config.base import StrictModel, custom
from vil_bridge.config.courses import course_names, course_text
from vil_bridge.config.error_report import explain, read_tree, written
from vil_bridge.config.pose import Angle, Label, Length, Point, PoseConfig
from vil_bridge.config.references import similar
from vil_bridge.config.yaml_positions import Path, Tree, parse
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_to_euler_zyx
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import (
    ClockStart,
    Consequence,
    Course,
    CourseGate,
    CourseObstacle,
    Layout,
    PoseSpread,
    RaceRules,
)

_SQUARE_M: Final = 0.05
_Angles = tuple[Angle, Angle, Angle]
Seconds = Annotated[float, Field(gt=0, le=100_000)]


class PoseSpreadConfig(StrictModel):
    """Range of random offsets of a pose."""

    low_m: Point = Field(
        default=(0.0, 0.0, 0.0), description="Least offset of the position, world axes, metres."
    )
    high_m: Point = Field(
        default=(0.0, 0.0, 0.0), description="Largest offset of the position, metres."
    )
    low_rpy_deg: _Angles = Field(
        default=(0.0, 0.0, 0.0), description="Least offset of roll, pitch, yaw, degrees."
    )
    high_rpy_deg: _Angles = Field(
        default=(0.0, 0.0, 0.0), description="Largest offset of roll, pitch, yaw, degrees."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        pairs = zip(
            (*self.low_m, *self.low_rpy_deg), (*self.high_m, *self.high_rpy_deg), strict=True
        )
        if any(low > high for low, high in pairs):
            raise custom("a lower end is above the higher one; swap them")
        return self

    def value(self) -> PoseSpread:
        """Return the range as a value."""
        low = np.radians(self.low_rpy_deg).tolist()
        high = np.radians(self.high_rpy_deg).tolist()
        return PoseSpread(self.low_m, self.high_m, tuple(low), tuple(high))


class CourseGateConfig(PoseConfig):
    """An opening to fly through along its +x: a pose with a size, or four corners."""

    name: Label = Field(description="Unique among the gates.")
    width_m: Length | None = Field(
        default=None, description="Width of the opening, along y, metres."
    )
    height_m: Length | None = Field(
        default=None, description="Height of the opening, along z, metres."
    )
    corners_m: tuple[Point, Point, Point, Point] | None = Field(
        default=None,
        description="Top left, top right, bottom right, bottom left as the pilot sees them, "
        "metres.",
    )
    margin_m: Annotated[float, Field(ge=-10, le=100)] = Field(
        default=0.0,
        description="Distance to the edge at which a pass counts, metres; negative = outside the "
        "edge.",
    )
    bar_m: Annotated[float, Field(ge=0, le=100)] = Field(
        default=0.3, description="Width of the solid frame around the opening, metres."
    )
    spread: PoseSpreadConfig = Field(
        default=PoseSpreadConfig(), description="Random offsets of its pose."
    )

    @model_validator(mode="after")
    def _one_shape(self) -> Self:
        sized = self.width_m is not None and self.height_m is not None
        if self.corners_m is None and not sized:
            raise custom("give width_m and height_m, or corners_m")
        posed = self.model_fields_set & {
            "p_m",
            "yaw_deg",
            "ypr_deg",
            "q_xyzw",
            "width_m",
            "height_m",
        }
        if self.corners_m is not None and posed:
            raise custom(
                "corners_m say where the gate is and how large: leave "
                f"{', '.join(sorted(posed))} out"
            )
        if self.corners_m is not None:
            self._check_corners(np.array(self.corners_m))
        gate = self.value()
        if 2.0 * self.margin_m >= min(gate.width_m, gate.height_m):
            size = f"{gate.width_m:g} x {gate.height_m:g} m"
            raise custom(
                f"margin_m {self.margin_m:g} leaves nothing of an opening of {size}; give "
                "a smaller one"
            )
        return self

    def _check_corners(self, corners_m: Any) -> None:
        try:
            made = CourseGate.of_corners(self.name, corners_m).corners_m
        except ValueError as exc:
            raise custom(str(exc)) from None
        off = np.linalg.norm(made - corners_m, axis=1)
        if off.max() > _SQUARE_M:
            order = "top left, top right, bottom right, bottom left"
            raise custom(
                f"corners_m are {off.max():.2f} m off a rectangle; give them in the order {order}"
            )

    def value(self) -> CourseGate:
        """Return the gate as a value."""
        if self.corners_m is not None:
            made = CourseGate.of_corners(self.name, self.corners_m)
            pose = made.T_world_gate
            width = made.width_m
            height = made.height_m
        else:
            assert self.width_m is not None
            assert self.height_m is not None
            pose = self.transform()
            width = self.width_m
            height = self.height_m
        return CourseGate(
            self.name, pose, width, height, self.margin_m, self.bar_m, self.spread.value()
        )


class CourseObstacleConfig(StrictModel):
    """A pole from the floor to its top."""

    name: Label = Field(description="Unique among the obstacles.")
    p_m: Point = Field(description="Its top, metres.")
    radius_m: Length = Field(description="Metres.")
    spread: PoseSpreadConfig = Field(
        default=PoseSpreadConfig(), description="Random offsets of its place."
    )


class CourseStartConfig(PoseConfig):
    """The vehicle at the start."""

    spread: PoseSpreadConfig = Field(
        default=PoseSpreadConfig(), description="Random offsets of its pose."
    )


class CourseBoundsConfig(StrictModel):
    """The space that vehicles may use."""

    low_m: Point = Field(description="Lower corner, metres.")
    high_m: Point = Field(description="Upper corner, metres.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if any(low >= high for low, high in zip(self.low_m, self.high_m, strict=True)):
            raise custom("low_m must be below high_m along every axis; swap them")
        return self

    def value(self) -> tuple[FloatArray, FloatArray]:
        """Return both corners, (3,) each."""
        return np.array(self.low_m), np.array(self.high_m)


class RaceRulesConfig(StrictModel):
    """Rules of a race."""

    clock: ClockStart = Field(
        default="signal",
        description="What starts the time: the signal, the first motion after it, the first gate.",
    )
    missed: Consequence = Field(
        default="ignore", description="Consequence of a gate that is left out."
    )
    collision: Consequence = Field(default="stop", description="Consequence of a collision.")
    penalty_s: Annotated[float, Field(ge=0, le=100_000)] = Field(
        default=3.0,
        description="Seconds for each gate left out and each collision, with `penalise`.",
    )
    timeout_s: Seconds | None = Field(
        default=None, description="Longest time of the race, seconds; none = unlimited."
    )

    def value(self) -> RaceRules:
        """Return the rules as a value."""
        return RaceRules(self.clock, self.missed, self.collision, self.penalty_s, self.timeout_s)


class CourseFile(StrictModel):
    """A whole course file."""

    course: Label = Field(description="Name of the course.")
    gates: Annotated[tuple[CourseGateConfig, ...], Field(min_length=1, max_length=1000)] = Field(
        description="Gates, in the order of the race unless `order` says another."
    )
    order: Annotated[tuple[str, ...], Field(max_length=1000)] = Field(
        default=(),
        description="Names of the gates of one lap; a gate may come twice. None = all, as listed.",
    )
    start: CourseStartConfig = Field(description="Pose of the vehicle at the start.")
    laps: Annotated[int, Field(ge=1, le=1000)] = Field(default=1, description="Laps of the race.")
    obstacles: tuple[CourseObstacleConfig, ...] = Field(
        default=(), description="Poles on the course."
    )
    bounds: CourseBoundsConfig | None = Field(
        default=None, description="Space that vehicles may use; none = all."
    )
    rules: RaceRulesConfig = Field(default=RaceRulesConfig(), description="Rules of the race.")
    layout: Layout = Field(
        default="fixed",
        description="random = a seed places gates, obstacles and start anywhere within the bounds.",
    )

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.layout == "random" and self.bounds is None:
            raise custom("a random layout needs bounds: give the space in which gates may stand")
        return self

    def value(self) -> Course:
        """Return the course as a value."""
        index = {gate.name: number for number, gate in enumerate(self.gates)}
        bounds = None if self.bounds is None else self.bounds.value()
        obstacles = tuple(
            CourseObstacle(one.name, np.array(one.p_m), one.radius_m, one.spread.value())
            for one in self.obstacles
        )
        return Course(
            self.course,
            tuple(gate.value() for gate in self.gates),
            self.start.transform(),
            tuple(index[name] for name in self.order),
            self.laps,
            obstacles,
            bounds,
            self.rules.value(),
            self.start.spread.value(),
            self.layout,
        )


def load_course(name_or_path: str | FilePath) -> Course:
    """Return a shipped course by its name, or the course that a file describes.

    Args:
        name_or_path: a text with a suffix or a slash is a file.

    Raises:
        ConfigError: one line for every problem.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, FilePath) or "/" in text or FilePath(text).suffix:
        return _understood(
            read_tree(FilePath(name_or_path), "`course: NAME` and `gates:` make a course")
        )
    if text not in course_names():
        hint = similar(text, course_names()) or "; a course file is named with its suffix (.yaml)"
        raise ConfigError(f"no course is named {text!r}; known: {', '.join(course_names())}{hint}")
    return read_course(course_text(text), f"{text}.yaml")


def read_course(text: str, name: str) -> Course:
    """Return the course that the text of a course file describes.

    Args:
        text: YAML.
        name: of the file, for messages.

    Raises:
        ConfigError: one line for every problem.
    """
    return _understood(parse(text, name))


def _understood(tree: Tree) -> Course:
    config: CourseFile | None = None
    wrong: ValidationError | None = None
    named: list[tuple[Path, str]] = []
    if isinstance(tree.data, dict):
        try:
            config = CourseFile.model_validate(tree.data)
        except ValidationError as exc:
            wrong = exc
        named += _names(tree.data)
    problems = tree.problems + explain(wrong, tree, CourseFile, named)
    if config is None or problems:
        raise ConfigError(written(problems))
    return config.value()


def _names(data: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield problems of names: given twice, or without a gate."""
    for kind in ("gates", "obstacles"):
        seen: set[str] = set()
        for index, entry in enumerate(_listed(data, kind)):
            name = entry.get("name") if isinstance(entry, dict) else None
            if isinstance(name, str) and name in seen:
                yield (kind, index, "name"), f"{name!r} is named twice; give each its own name"
            elif isinstance(name, str):
                seen.add(name)
        if kind == "gates":
            for index, name in enumerate(_listed(data, "order")):
                if isinstance(name, str) and name not in seen:
                    reason = (
                        f"no gate is named {name!r}; known: "
                        f"{', '.join(sorted(seen))}{similar(name, seen)}"
                    )
                    yield ("order", index), reason


def _listed(data: dict[str, Any], key: str) -> list[Any]:
    """Return the list at a key, empty where anything else stands there."""
    found = data.get(key)
    if not isinstance(found, list):
        return []
    return found


# --- writing --------------------------------------------------------------------------------------


def write_course(course: Course) -> str:
    """Return the text of a course file.

    Lengths to a micrometre, angles to a millionth of a degree.
    """
    data: dict[str, Any] = {"course": course.name, "laps": course.laps}
    if course.layout != "fixed":
        data["layout"] = course.layout
    data["start"] = {**_pose(course.start), **_spread(course.spread)}
    if course.bounds_m is not None:
        data["bounds"] = {
            "low_m": _numbers(course.bounds_m[0]),
            "high_m": _numbers(course.bounds_m[1]),
        }
    data["rules"] = {key: value for key, value in _rules(course.rules).items() if value is not None}
    if course.order != tuple(range(len(course.gates))):
        data["order"] = [course.gates[index].name for index in course.order]
    lines = [f"{key}: {_inline(value)}" for key, value in data.items()]
    lines += ["gates:", *(f"  - {_inline(_gate(gate))}" for gate in course.gates)]
    if course.obstacles:
        lines += ["obstacles:", *(f"  - {_inline(_obstacle(one))}" for one in course.obstacles)]
    return "\n".join(lines) + "\n"


def _inline(value: Any) -> str:
    """Return YAML on one line."""
    text = yaml.safe_dump(
        value, sort_keys=False, default_flow_style=True, width=math.inf, allow_unicode=True
    )
    return text.removesuffix("...\n").strip()


def _rules(rules: RaceRules) -> dict[str, Any]:
    return {name: getattr(rules, name) for name in RaceRules.__slots__}


def _gate(gate: CourseGate) -> dict[str, Any]:
    size = {"width_m": round(gate.width_m, 6), "height_m": round(gate.height_m, 6)}
    if gate.margin_m:
        size["margin_m"] = gate.margin_m
    return {
        "name": gate.name,
        **_pose(gate.T_world_gate),
        **size,
        "bar_m": gate.bar_m,
        **_spread(gate.spread),
    }


def _obstacle(one: CourseObstacle) -> dict[str, Any]:
    return {
        "name": one.name,
        "p_m": _numbers(one.top_m),
        "radius_m": one.radius_m,
        **_spread(one.spread),
    }


def _pose(pose: Transform) -> dict[str, Any]:
    yaw, pitch, roll = (round(math.degrees(a), 6) + 0.0 for a in q_to_euler_zyx(pose.q_xyzw))
    place: dict[str, Any] = {"p_m": _numbers(pose.p_m)}
    if pitch == roll == 0.0:
        return {**place, "yaw_deg": yaw}
    return {**place, "ypr_deg": [yaw, pitch, roll]}


def _spread(spread: PoseSpread) -> dict[str, Any]:
    if spread == PoseSpread():
        return {}
    ends = {"low_m": _numbers(spread.low_m), "high_m": _numbers(spread.high_m)}
    angles = {
        "low_rpy_deg": _numbers(np.degrees(spread.low_rpy_rad)),
        "high_rpy_deg": _numbers(np.degrees(spread.high_rpy_rad)),
    }
    return {"spread": {key: value for key, value in {**ends, **angles}.items() if any(value)}}


def _numbers(values: Any) -> list[float]:
    return [round(float(value), 6) + 0.0 for value in values]
