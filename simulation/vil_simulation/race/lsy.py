"""TOML files of lsy_drone_racing: levels read as courses, courses written as levels.

Their gates are flown from -x to +x in the order of ``gate_order``, or of the file without it. All
have the same frame: 0.4 m opening, 0.72 m outside; a pass counts within 0.45 m.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar

import numpy as np
from pydantic import (
    AliasChoices,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from vil_bridge.config.base import StrictModel, custom
from vil_bridge.config.error_report import explain, written
from vil_bridge.config.pose import Point
from vil_bridge.config.yaml_positions import Path as KeyPath
from vil_bridge.config.yaml_positions import Place, Tree
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_from_euler_zyx, q_to_euler_zyx
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import (
    Course,
    CourseGate,
    CourseObstacle,
    PoseSpread,
    RaceRules,
    Three,
)
from vil_simulation.race.toml_text import toml_text

_OPENING_M: Final = 0.4
_MARGIN_M: Final = -0.025
_BAR_M: Final = 0.16
_POLE_RADIUS_M: Final = 0.015
_STEPS: Final = 1500
_MOST_BYTES: Final = 1 << 20
_SAME: Final = 1e-9
_Named = TypeVar("_Named", CourseGate, CourseObstacle)


class _LsySection(StrictModel):
    model_config = ConfigDict(extra="ignore")


class _Kwargs(_LsySection):
    minval: Point
    maxval: Point


class _Uniform(_LsySection):
    fn: Literal["uniform"]
    ends: _Kwargs = Field(validation_alias=AliasChoices("kwargs"))


class _Randomizations(_LsySection):
    drone_pos: _Uniform | None = None
    drone_rpy: _Uniform | None = None
    gate_pos: _Uniform | None = None
    gate_rpy: _Uniform | None = None
    obstacle_pos: _Uniform | None = None


class _Posed(_LsySection):
    pos: Point
    rpy: Point


class _Placed(_LsySection):
    pos: Point


class _Limits(_LsySection):
    pos_limit_low: Point
    pos_limit_high: Point

    def value(self) -> tuple[FloatArray, FloatArray]:
        return np.array(self.pos_limit_low), np.array(self.pos_limit_high)


class _Track(_LsySection):
    randomize: bool = False
    gates: Annotated[tuple[_Posed, ...], Field(min_length=1)]
    obstacles: tuple[_Placed, ...]
    drones: Annotated[tuple[_Posed, ...], Field(min_length=1)]
    safety_limits: _Limits | None = None
    gate_order: Annotated[tuple[int, ...], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.randomize and self.safety_limits is None:
            raise custom("randomize = true needs safety_limits: the space in which gates may stand")
        return self

    @field_validator("gate_order")
    @classmethod
    def _forward(cls, order: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if order is not None and min(order) < 1:
            raise custom(
                f"has {min(order)}: gates are flown forwards here. Turn that gate, or "
                "list another one"
            )
        return order

    @model_validator(mode="after")
    def _listed(self) -> Self:
        if self.gate_order is not None and max(self.gate_order) > len(self.gates):
            raise custom(
                f"gate_order has {max(self.gate_order)}: there are gates 1 to "
                f"{len(self.gates)}. Correct it"
            )
        return self


class _Env(_LsySection):
    freq: Annotated[float, Field(gt=0)] = 50.0
    track: _Track
    randomizations: _Randomizations = _Randomizations()


class _Level(_LsySection):
    env: _Env


@dataclass(frozen=True, slots=True, eq=False)
class LsyLevel:
    """A level of lsy_drone_racing.

    Attributes:
        course: gates ``gate1``..., obstacles ``obstacle1``... as the mocap names them; start of the
            first drone.
        document: the whole file, with what a course does not hold: controller, drones, simulation,
            disturbances.
    """

    course: Course
    document: Mapping[str, Any]


def read_lsy(path: Path) -> LsyLevel:
    """Read a level.

    Raises:
        ConfigError: one line for every problem, with the file and the key.
    """
    document = _document(path)
    try:
        level = _Level.model_validate(document)
    except ValidationError as exc:
        tree = Tree(document, dict.fromkeys(_paths(document), Place(0, 0, 0, str(path))))
        raise ConfigError(written(explain(exc, tree, _Level))) from None
    track = level.env.track
    ranges = level.env.randomizations
    gate_spread = _spread(ranges.gate_pos, ranges.gate_rpy)
    drone_spread = _spread(ranges.drone_pos, ranges.drone_rpy)
    size = _OPENING_M, _OPENING_M, _MARGIN_M, _BAR_M
    limits = track.safety_limits
    course = Course(
        path.stem,
        tuple(
            CourseGate(f"gate{number}", _pose(gate), *size, gate_spread)
            for number, gate in enumerate(track.gates, start=1)
        ),
        _pose(track.drones[0]),
        order=tuple(number - 1 for number in track.gate_order or ()),
        obstacles=tuple(
            CourseObstacle(
                f"obstacle{number}",
                np.array(one.pos),
                _POLE_RADIUS_M,
                _spread(ranges.obstacle_pos, None),
            )
            for number, one in enumerate(track.obstacles, start=1)
        ),
        bounds_m=None if limits is None else limits.value(),
        rules=RaceRules(timeout_s=_STEPS / level.env.freq),
        spread=drone_spread,
        layout="random" if track.randomize else "fixed",
    )
    return LsyLevel(course, document)


def _document(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise ConfigError(
                f"{path}: larger than {_MOST_BYTES} bytes: this is not a level. Name another file"
            )
        return tomllib.loads(raw.decode("utf-8"))
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror}. Check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ConfigError(f"{path}: is not TOML: {exc}. Correct that place") from None


def _paths(data: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    yield path
    entries: Iterable[tuple[Any, Any]] = ()
    if isinstance(data, dict):
        entries = data.items()
    elif isinstance(data, list):
        entries = enumerate(data)
    for key, value in entries:
        yield from _paths(value, (*path, key))


def _pose(posed: _Posed) -> Transform:
    roll, pitch, yaw = posed.rpy
    return Transform.of(posed.pos, q_from_euler_zyx(yaw, pitch, roll))


def _spread(pos: _Uniform | None, rpy: _Uniform | None) -> PoseSpread:
    low, high = _ends(pos)
    low_rpy, high_rpy = _ends(rpy)
    return PoseSpread(low, high, low_rpy, high_rpy)


def _ends(spread: _Uniform | None) -> tuple[Three, Three]:
    if spread is None:
        return (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    return spread.ends.minval, spread.ends.maxval


# --- writing --------------------------------------------------------------------------------------

_DEFAULT: Final[Mapping[str, Any]] = {
    "controller": {"file": "state_controller.py"},
    "deploy": {
        "check_race_track": True,
        "check_drone_start_pos": True,
        "real_track_objects": True,
        "drones": [{"id": 10, "channel": 100, "drone_model": "cf21B_500"}],
    },
    "sim": {
        "physics": "first_principles",
        "drone_model": "cf21B_500",
        "freq": 500,
        "attitude_freq": 500,
        "render": False,
        "camera": -1,
        "camera_view": [5.0, 180.0, -25.0, 0.0, 0.0, 0.0],
        "cam_config": [
            {"distance": 5.0, "azimuth": 180.0, "elevation": -25.0, "lookat": [0.0, 0.0, 0.0]}
        ],
    },
    "env": {
        "id": "DroneRacing-v0",
        "seed": -1,
        "freq": 50,
        "sensor_range": 0.7,
        "control_mode": "state",
    },
}


def write_lsy(course: Course, path: Path, document: Mapping[str, Any] | None = None) -> None:
    """Write a course as a level.

    Args:
        course: gates of 0.4 m. Where each is flown once, they stand in the file in that order,
            which older versions of lsy_drone_racing ask for.
        path: of the file.
        document: what stands in the file besides the course, as :func:`read_lsy` gives it; None =
            defaults.

    Raises:
        ConfigError: the course has what these files cannot express.
        OSError: the file cannot be written.
    """
    problems = list(_inexpressible(course))
    if problems:
        raise ConfigError([f"course {course.name!r}: {problem}" for problem in problems])
    made: dict[str, Any] = copy.deepcopy(dict(_DEFAULT if document is None else document))
    env = made.setdefault("env", {})
    low, high = course.room_m
    order = course.order * course.laps
    listed = tuple(range(len(course.gates)))
    if sorted(order) == list(listed):
        listed = order
    drone = {**_posed(course.start), "vel": [0.0, 0.0, 0.0], "ang_vel": [0.0, 0.0, 0.0]}
    others = env.get("track", {}).get("drones", [])[1:]
    env["track"] = {
        "randomize": course.layout == "random",
        "gate_order": [listed.index(index) + 1 for index in order],
        "gates": [_posed(course.gates[index].T_world_gate) for index in listed],
        "obstacles": [{"pos": _numbers(one.top_m)} for one in course.obstacles],
        "drones": [drone, *others],
        "safety_limits": {"pos_limit_low": _numbers(low), "pos_limit_high": _numbers(high)},
    }
    env.setdefault("disturbances", {})
    ranges = {
        key: value
        for key, value in env.get("randomizations", {}).items()
        if key not in _Randomizations.model_fields
    }
    env["randomizations"] = {**ranges, **_ranges(course)}
    path.write_text(f"# Course {course.name}\n{toml_text(made)}", encoding="utf-8")


def _inexpressible(course: Course) -> list[str]:
    problems = []
    for gate in course.gates:
        if max(abs(gate.width_m - _OPENING_M), abs(gate.height_m - _OPENING_M)) > _SAME:
            size = f"{gate.width_m:g} x {gate.height_m:g} m"
            problems.append(
                f"gate {gate.name!r} is {size}, and there all are {_OPENING_M} m. Change its size"
            )
    for kind, listed in (("gates", course.gates), ("obstacles", course.obstacles)):
        if len({one.spread for one in listed}) > 1:
            problems.append(f"there is one spread for all {kind}. Give all of them the same")
    return problems


def _ranges(course: Course) -> dict[str, Any]:
    made: dict[str, Any] = {}
    gate = _common(course.gates)
    pole = _common(course.obstacles)
    for name, low, high in (
        ("drone_pos", course.spread.low_m, course.spread.high_m),
        ("drone_rpy", course.spread.low_rpy_rad, course.spread.high_rpy_rad),
        ("gate_pos", gate.low_m, gate.high_m),
        ("gate_rpy", gate.low_rpy_rad, gate.high_rpy_rad),
        ("obstacle_pos", pole.low_m, pole.high_m),
    ):
        if any((*low, *high)):
            made[name] = {
                "fn": "uniform",
                "kwargs": {"minval": _numbers(low), "maxval": _numbers(high)},
            }
    return made


def _common(listed: Sequence[_Named]) -> PoseSpread:
    return listed[0].spread if listed else PoseSpread()


def _posed(pose: Transform) -> dict[str, list[float]]:
    yaw, pitch, roll = q_to_euler_zyx(pose.q_xyzw)
    return {"pos": _numbers(pose.p_m), "rpy": _numbers((roll, pitch, yaw))}


def _numbers(values: Any) -> list[float]:
    return [round(float(value), 9) + 0.0 for value in values]
