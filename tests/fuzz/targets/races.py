"""Files of races: courses, levels of lsy_drone_racing, challenges and logs of AlphaPilot."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from tests.fuzz.target import Target, scratch
from tests.support.lsy_levels import level_text
from tests.unit.config.test_course_files import COURSE
from tests.unit.tools.test_race_alphapilot import CHALLENGE, GATES, LOG
from vil_bridge.config.course import load_course, write_course
from vil_bridge.core.errors import ConfigError
from vil_bridge.courses.variants import perturbed
from vil_simulation.race.alphapilot import read_challenge
from vil_simulation.race.alphapilot_score import read_results
from vil_simulation.race.lsy import read_lsy, write_lsy

__all__ = ["TARGETS"]

_FOLDER: Final = scratch()
(_FOLDER / "gates.yaml").write_text(GATES, encoding="utf-8")
(_FOLDER / "challenge.yaml").write_text(CHALLENGE, encoding="utf-8")


def _written(data: bytes, name: str) -> Path:
    path = _FOLDER / name
    path.write_bytes(data)
    return path


def _course(data: bytes) -> None:
    write_course(perturbed(load_course(_written(data, "course.yaml")), 3))


def _level(data: bytes) -> None:
    level = read_lsy(_written(data, "level.toml"))
    perturbed(level.course, 1)
    with contextlib.suppress(ConfigError):
        write_lsy(level.course, _FOLDER / "again.toml", level.document)


def _gates(data: bytes) -> None:
    read_challenge(_written(data, "some_gates.yaml"), _FOLDER / "challenge.yaml")


def _challenge(data: bytes) -> None:
    read_challenge(_FOLDER / "gates.yaml", _written(data, "some_challenge.yaml"))


def _log(data: bytes) -> None:
    read_results(_written(data, "results.yaml"), 11)


TARGETS: Final = (
    Target("course", _course, (ConfigError,), lambda: [COURSE.encode()], 2048, limit_ms=500),
    Target(
        "lsy-level",
        _level,
        (ConfigError,),
        lambda: [level_text(k).encode() for k in (0, 3)],
        4096,
        limit_ms=500,
    ),
    Target(
        "alphapilot-gates", _gates, (ConfigError,), lambda: [GATES.encode()], 2048, limit_ms=500
    ),
    Target(
        "alphapilot-challenge",
        _challenge,
        (ConfigError,),
        lambda: [CHALLENGE.encode()],
        1024,
        limit_ms=500,
    ),
    Target("alphapilot-log", _log, (ConfigError,), lambda: [LOG.encode()], 1024, limit_ms=500),
)
