"""FlightGoggles' AlphaPilot courses, and its own passing test and score.

Gates of the final qualifier and of the training courses, in our world (ENU; the files are north-west-up), markers to
the millimetre. :class:`~vil_bridge.vehicles.envs.course.Course` asks whether a gate's opening was flown through;
:func:`original_score` judges as the original does: samples in boxes, no direction, later gates may be taken first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.geometry import yaw_matrix
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.vehicles.envs.course import Course
from vil_bridge.vehicles.random.noise import NoiseStream

FINAL_ORDER: Final = (10, 21, 2, 13, 9, 14, 1, 22, 15, 23, 6)
"""Gates of the final in the order of the race."""

_STREAM: Final = 0x6A7E
_FRAME_M: Final = 0.3
_POINTS_PER_GATE: Final = 10.0

# Of each gate: markers, north-west-up; bounds of dx, dy (m) and dyaw (degrees, clockwise from above).
_FINAL: Final[Mapping[int, tuple[tuple[tuple[float, float, float], ...], tuple[float, float, float]]]] = {
    1: (((-0.009, -32.951, 3.072), (-0.009, -34.876, 3.072), (-0.009, -34.876, 1.134), (-0.009, -32.951, 1.134)),
        (2.5, 2.5, 5.0)),
    2: (((-0.255, 27.868, 4.160), (4.434, 27.868, 4.160), (4.434, 27.868, 0.933), (-0.255, 27.868, 0.933)),
        (0.0, 1.0, 5.0)),
    6: (((-9.149, 30.623, 3.821), (-10.949, 30.623, 3.821), (-9.149, 30.623, 1.975), (-10.949, 30.623, 1.975)),
        (0.0, 0.0, 2.0)),
    9: (((-6.409, -12.137, 4.153), (-8.209, -12.137, 4.153), (-6.409, -12.137, 2.307), (-8.209, -12.137, 2.307)),
        (0.0, 0.0, 2.0)),
    10: (((18.151, 3.631, 7.229), (16.351, 3.632, 7.229), (18.151, 3.631, 5.383), (16.351, 3.632, 5.383)),
         (1.0, 1.0, 5.0)),
    13: (((1.237, 9.002, 2.963), (3.162, 9.002, 2.963), (3.162, 9.002, 1.025), (1.237, 9.002, 1.025)),
         (2.5, 2.5, 5.0)),
    14: (((-10.450, -31.312, 4.256), (-6.546, -27.408, 4.256), (-6.546, -27.408, 1.029), (-10.450, -31.312, 1.029)),
         (1.0, 1.0, 5.0)),
    15: (((5.745, -11.792, 4.160), (8.755, -11.792, 4.160), (8.755, -11.792, 0.933), (5.745, -11.792, 0.933)),
         (0.0, 2.5, 5.0)),
    21: (((15.154, 37.634, 8.376), (18.430, 41.250, 8.376), (18.430, 41.250, 5.149), (15.154, 37.634, 5.149)),
         (0.0, 0.0, 2.0)),
    22: (((4.798, -27.371, 4.181), (8.703, -31.276, 4.181), (8.703, -31.276, 0.954), (4.798, -27.371, 0.954)),
         (1.0, 1.0, 5.0)),
    23: (((-9.329, 7.773, 2.943), (-11.129, 7.773, 2.943), (-9.329, 7.773, 1.097), (-11.129, 7.773, 1.097)),
         (2.5, 2.5, 5.0)),
}  # fmt: skip

_NWU_TO_ENU: Final = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
_FINAL_START_NWU: Final = (18.0, -23.0, 5.3)
_WEST_RAD: Final = math.pi
"""The final's start looks west: 90 degrees left of north."""


def final_markers(perturbation_seed: int | None = None) -> FloatArray:
    """Return markers of the final's gates in the order of the race, ENU, shape (11, 4, 3).

    Args:
        perturbation_seed: gates are moved and turned by uniform numbers within their bounds; None = nominal.
    """
    markers = np.array([_FINAL[gate][0] for gate in FINAL_ORDER])
    if perturbation_seed is not None:
        bounds = np.array([_FINAL[gate][1] for gate in FINAL_ORDER])
        numbers = NoiseStream(perturbation_seed, _STREAM).uniforms(0, len(bounds), 3)
        moves = bounds * (2.0 * numbers - 1.0)
        for gate, (dx, dy, clockwise_deg) in zip(markers, moves, strict=True):
            centre = gate.mean(axis=0)
            gate[:] = (gate - centre) @ yaw_matrix(-math.radians(clockwise_deg)).T + centre + (dx, dy, 0.0)
    enu: FloatArray = markers @ _NWU_TO_ENU.T
    return enu


def _final() -> Course:
    """Return the AlphaPilot final's eleven gates, each flown in the direction from the one before it."""
    start = _NWU_TO_ENU @ np.array(_FINAL_START_NWU)
    return _course(final_markers(), start, _WEST_RAD)


def _course(markers_m: FloatArray, start_m: FloatArray, start_yaw_rad: float) -> Course:
    """Return course of upright gates from their markers (g, 4, 3), in any order each."""
    centres = markers_m.mean(axis=1)
    before = np.vstack((start_m, centres[:-1]))
    low, high = markers_m.min(axis=1), markers_m.max(axis=1)
    across = np.array([_across(gate) for gate in markers_m])
    yaws = np.arctan2(-across[:, 0], across[:, 1])
    backwards = np.cos(yaws) * (centres - before)[:, 0] + np.sin(yaws) * (centres - before)[:, 1] < 0.0
    widths = np.hypot(across[:, 0], across[:, 1])
    openings = np.stack((widths, high[:, 2] - low[:, 2]), axis=1)
    return Course(centres, yaws + np.pi * backwards, openings, start_m, start_yaw_rad, _FRAME_M)


def _across(markers_m: FloatArray) -> FloatArray:
    """Return horizontal vector (2,) from one side of a gate to the other, from its markers (4, 3) in any order."""
    offsets = markers_m[:, :2] - markers_m[0, :2]
    across: FloatArray = offsets[(offsets**2).sum(axis=1).argmax()]
    return across


FLIGHTGOGGLES_COURSES: Final = {"alphapilot": _final}


@dataclass(frozen=True, slots=True)
class OriginalScore:
    """Score of a flight as FlightGoggles judges it.

    Attributes:
        passed: of each gate. last_s: time of the last gate passed, 0 = none. finished: the last gate was hit.
        score: 10 points a gate minus ``last_s``; 0 unless finished.
    """

    passed: tuple[bool, ...]
    last_s: float
    finished: bool
    score: float


def original_score(
    t_s: Sequence[float] | FloatArray,
    p_world_m: FloatArray,
    markers_m: FloatArray,
    *,
    gate_width_m: float = 0.3,
    inflation_m: float = 0.1,
    timeout_s: float = 300.0,
) -> OriginalScore:
    """Return the score of FlightGoggles' race reporter (1000 Hz samples in version 3, 150 Hz in version 2).

    A sample is in a gate when it is strictly inside the axis-aligned box of the markers, grown by ``inflation_m``,
    and closer than ``gate_width_m`` to the plane through the first three. A later gate makes those before it
    missed for good; the last one ends the race.

    Args:
        t_s: times of the samples from the start of the race, (k,).
        p_world_m: positions, (k, 3).
        markers_m: of the gates in order, (g, 4, 3), same axes.
        gate_width_m: how far before and behind a gate's plane counts.
        inflation_m: by which boxes grow on every side.
        timeout_s: later samples do not count.

    Raises:
        ValueError: shapes that do not fit.
    """
    times, points = np.asarray(t_s, np.float64), np.asarray(p_world_m, np.float64)
    if points.shape != (len(times), 3) or markers_m.ndim != 3 or markers_m.shape[1:] != (4, 3) or not len(markers_m):
        raise ValueError("samples are t_s (k,) and p_world_m (k, 3), gates markers_m (g, 4, 3)")
    inside = _in_gates(points, markers_m, gate_width_m, inflation_m) & (times <= timeout_s)[:, None]
    passed = np.zeros(len(markers_m), np.bool_)
    due, last_s = 0, 0.0
    for row in np.flatnonzero(inside.any(axis=1)):
        for gate in np.flatnonzero(inside[row, due:]) + due:
            passed[gate], due, last_s = True, int(gate) + 1, float(times[row])
        if due == len(passed):
            break
    finished = due == len(passed)
    score = _POINTS_PER_GATE * int(passed.sum()) - last_s if finished else 0.0
    return OriginalScore(tuple(bool(p) for p in passed), last_s, finished, score)


def _in_gates(points: FloatArray, markers_m: FloatArray, width_m: float, inflation_m: float) -> BoolArray:
    low, high = markers_m.min(axis=1) - inflation_m, markers_m.max(axis=1) + inflation_m
    first, second, third = markers_m[:, 0], markers_m[:, 1], markers_m[:, 2]
    normals = np.cross(second - first, third - first)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    in_box = ((points[:, None] > low) & (points[:, None] < high)).all(axis=2)
    inside: BoolArray = in_box & (np.abs(np.einsum("kgi,gi->kg", points[:, None] - first, normals)) < width_m)
    return inside
