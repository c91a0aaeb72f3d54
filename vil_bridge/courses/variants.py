"""Random variants of race courses: the same seed gives the same course on every machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from vil_bridge.core.geometry import Transform
from vil_bridge.core.random.noise import NoiseStream
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course, PoseSpread, moved
from vil_bridge.courses.layouts import laid_out

_GATES: Final = 0x6A7E
_OBSTACLES: Final = 0x6A7F
_START: Final = 0x6A80
_LAYOUT: Final = 0x6A81


def ruled(course: Course, seed: int | None, laps: int | None, timeout_s: float | None) -> Course:
    """Return a course with gates moved by a seed, and with other laps and another longest time.

    None = its own.
    """
    moved = course if seed is None else perturbed(course, seed)
    longest_s = moved.rules.timeout_s if timeout_s is None else timeout_s
    return replace(moved, laps=laps or moved.laps, rules=replace(moved.rules, timeout_s=longest_s))


def perturbed(course: Course, seed: int) -> Course:
    """Return the course with gates, obstacles and start moved by uniform numbers within their
    spreads.

    Args:
        course: nominal course; a random layout is drawn first. The result has no spreads left.
        seed: of the numbers, not negative.

    Raises:
        ValueError: a negative seed.
    """
    if course.layout == "random":
        course = laid_out(course, _uniforms(seed, _LAYOUT, len(course.gates) + 1))
    gates = _uniforms(seed, _GATES, len(course.gates))
    obstacles = _uniforms(seed, _OBSTACLES, len(course.obstacles))
    start = _uniforms(seed, _START, 1)[0]
    none = PoseSpread()
    return replace(
        course,
        gates=tuple(
            replace(gate, T_world_gate=moved(gate.T_world_gate, gate.spread, numbers), spread=none)
            for gate, numbers in zip(course.gates, gates, strict=True)
        ),
        obstacles=tuple(
            replace(one, top_m=moved(Transform.of(one.top_m), one.spread, numbers).p_m, spread=none)
            for one, numbers in zip(course.obstacles, obstacles, strict=True)
        ),
        start=moved(course.start, course.spread, start),
        spread=none,
    )


def _uniforms(seed: int, stream: int, count: int) -> FloatArray:
    return NoiseStream(seed, stream).uniforms(0, count, 6, compiled=False)
