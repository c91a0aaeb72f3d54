"""Moves of an alignment, and the configuration that is proposed from their recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from vil_bridge.core.geometry import (
    Transform,
    q_conj,
    q_from_matrix,
    q_log,
    q_mul,
    q_rotate,
    q_to_euler_zyx,
    yup_to_zup,
)
from vil_bridge.core.types import FloatArray
from vil_bridge.setup.align.axes import Axes, attitude_problem, body_attitude, find_axes
from vil_bridge.setup.align.pivot import Pivot, find_pivot
from vil_bridge.setup.align.segmentation import CalibrationError, MotionSegment


class Step(NamedTuple):
    """One move between two rests."""

    name: str
    prompt: str


STEPS: Final = (
    Step(
        "forward",
        "move it forward, the way its nose points, by half a metre or more, without turning it",
    ),
    Step("left", "move it to its left by half a metre or more, without turning it"),
    Step("up", "move it straight up by half a metre"),
    Step("turn", "turn it to the left by a quarter turn, where it is"),
    Step("tilt", "tilt it forward, back and to both sides by 45 degrees, its centre in one place"),
)


UpAxis = Literal["y", "z"]

_ALIKE_RAD: Final = np.radians(15.0)
_YUP_TO_ZUP: Final = yup_to_zup(np.eye(3), np.zeros((3, 4)))[0].T
"""Coordinates in a y-up stream to the z-up room that the adapters make of it, shape (3, 3)."""


@dataclass(frozen=True, slots=True)
class EstimatedMount:
    """Result of the moves.

    Attributes:
        moves: by name of their step.
        T_body_markers: the marker frame in the body: nose in the direction walked, origin at the
            pivot.
    """

    axes: Axes
    pivot: Pivot
    moves: dict[str, MotionSegment]
    T_body_markers: Transform


@dataclass(frozen=True, slots=True)
class Proposal:
    """Keys to change; None = as configured.

    Attributes:
        R_world_seen: shape (3, 3), what turns the coordinates that were recorded into the world's,
            once all changes are made.
    """

    up_axis: UpAxis | None
    T_world_room: Transform | None
    T_body_markers: Transform
    R_world_seen: FloatArray


def mounting_of(moves: list[MotionSegment]) -> EstimatedMount:
    """Evaluate the moves of :data:`~vil_bridge.setup.align.proposal.STEPS`.

    Raises:
        CalibrationError: the moves are ambiguous, or the data cannot be right: the reason and what
            to check.
    """
    names = [step.name for step in STEPS]
    if len(moves) != len(names):
        raise CalibrationError(
            f"{len(moves)} moves between rests were seen, {len(names)} are wanted "
            f"({', '.join(names)}): "
            "hold the body still for a second after each of them, and move without a "
            "stop in between"
        )
    named = dict(zip(names, moves, strict=True))
    axes = find_axes(*(named[n].displacement_m for n in ("forward", "left", "up")))
    if axes.mirrored:
        forward, left, up = axes.names
        raise CalibrationError(
            f"mirrored: left-handed data (forward {forward}, left {left}, up {up}). No "
            "rotation cures that: check the "
            "axis settings of the mocap system's export or gateway (one axis negated, or "
            "two exchanged), "
            "or whether left and right were mixed up while moving"
        )
    problem = attitude_problem(axes, named["turn"])
    if problem:
        raise CalibrationError(problem)
    pivot = find_pivot(named["tilt"].path)
    q_body_markers = body_attitude(axes, named["forward"].before.q_xyzw)
    T_body_markers = Transform(-q_rotate(q_body_markers, pivot.p_markers_m), q_body_markers)
    return EstimatedMount(axes, pivot, named, T_body_markers)


def propose(
    mounting: EstimatedMount, *, T_world_room: Transform, up_axis: UpAxis | None
) -> Proposal:
    """Return the changes that make forward, left and up the world's x, y and z.

    Args:
        mounting: the result of the moves.
        T_world_room: as configured.
        up_axis: as configured at the source; None = it has no such key.
    """
    R_world_seen = mounting.axes.R_world_streamed
    T_body_markers = mounting.T_body_markers
    other, change = _other_axis(up_axis)
    if other is None or R_world_seen[2, 2] > 0.5 or (R_world_seen @ change)[2, 2] < 0.5:
        other = None
        change = np.eye(3)
    T_body_markers = Transform(
        T_body_markers.p_m, q_mul(T_body_markers.q_xyzw, q_from_matrix(change))
    )
    q_world_room = q_from_matrix(R_world_seen @ change)
    if np.linalg.norm(q_log(q_mul(q_conj(T_world_room.q_xyzw), q_world_room))) < _ALIKE_RAD:
        return Proposal(other, None, T_body_markers, T_world_room.rotation() @ change.T)
    return Proposal(other, Transform(T_world_room.p_m, q_world_room), T_body_markers, R_world_seen)


def _other_axis(up_axis: UpAxis | None) -> tuple[UpAxis | None, FloatArray]:
    """Return the other setting, and the matrix from coordinates under it to coordinates under
    this one.
    """
    match up_axis:
        case "y":
            return "z", _YUP_TO_ZUP
        case "z":
            return "y", _YUP_TO_ZUP.T
    return None, np.eye(3)


def transform_keys(T: Transform) -> dict[str, Any]:
    """Return a transform as the configuration writes it, millimetres and hundredths of a degree."""
    return {
        "p_m": [round(float(v), 4) + 0.0 for v in T.p_m],
        "ypr_deg": [round(float(np.degrees(a)), 2) + 0.0 for a in q_to_euler_zyx(T.q_xyzw)],
    }
