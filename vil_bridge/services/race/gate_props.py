"""Gates and poles of a course in the world."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, ActorState, TrackingState
from vil_bridge.courses.course import Course
from vil_bridge.services.race.config import MOST_GATES

__all__ = ["gate_props"]

_GATE_DEPTH_M: Final = 0.2
_GATE_BAR: Final = 0.12
"""Of the renderers' model ``gate``: share of a bar in its side."""


def gate_props(course: Course) -> tuple[ActorState, ...]:
    """Return the gates and poles of a course as renderers draw them.

    Models ``gate`` whose openings are the gates'.

    Raises:
        ValueRefused: there are more than 64.
    """
    if len(course.gates) + len(course.obstacles) > MOST_GATES:
        raise ValueRefused(
            f"course {course.name!r} has more than {MOST_GATES} gates and poles: choose another one"
        )
    inner = 1.0 - 2.0 * _GATE_BAR
    gates = [
        ("gate", gate.T_world_gate, (_GATE_DEPTH_M, gate.width_m / inner, gate.height_m / inner))
        for gate in course.gates
    ]
    for pole in course.obstacles:
        height_m = max(float(pole.top_m[2]), 2.0 * pole.radius_m)
        middle = Transform(
            pole.top_m - np.array((0.0, 0.0, 0.5 * height_m)), np.array((0.0, 0.0, 0.0, 1.0))
        )
        gates.append(("", middle, (2.0 * pole.radius_m, 2.0 * pole.radius_m, height_m)))
    return tuple(
        # Renderers remember every name, so each race uses the same ones; no actor's name has a
        # space.
        ActorState(
            f"race {i}",
            ActorKind.PROP,
            TrackingState.TRACKED,
            0,
            place,
            prefab=prefab,
            size_m=size_m,
        )
        for i, (prefab, place, size_m) in enumerate(gates)
    )
