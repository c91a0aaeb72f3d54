"""Curves over courses.

Through the centres of all gates, around poles and frames, and within the bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import q_to_euler_zyx
from vil_bridge.core.matrices import dot, length
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course
from vil_bridge.interfaces.trajectory import Polynomials
from vil_simulation.vehicles.trajectories import minimum_snap

_RUN_OUT_M: Final = 4.0
_SPEED_MPS: Final = 8.0
_CLEAR_M: Final = 0.06
"""Distance to poles and frames, for errors of the flight; and by how much a detour grows."""
_INSIDE_M: Final = 0.15
"""Distance to the bounds of a point that leads back."""
_LEAST_STEP_M: Final = 0.05
"""Between two points: a detour that needs less leads nowhere."""
_MOST_DETOURS: Final = 40
_MOST_AROUND_ONE: Final = 5
_SAMPLES_PER_PIECE: Final = 60


def race_order(course: Course) -> tuple[int, ...]:
    """Return the gates of a race in the order in which they are flown."""
    order = course.order * course.laps
    if course.rules.clock == "first_gate":
        order += course.order[:1]
    return order


def through_gates(course: Course, radius_m: float = 0.0, straight_m: float = 0.0) -> Polynomials:
    """Return the minimum-snap curve from the start through the centres of all gates of a race, to
    rest behind the last.

    The heading is that of the start. Where the curve comes too near to a pole or a frame, or leaves
    the bounds, points are added that lead around it; a course without room for them gets the curve
    that is left.

    Args:
        course: with the gates where they are.
        radius_m: of the vehicle.
        straight_m: how far before and behind each gate the curve leads along its direction; 0 = as
            it comes.

    Raises:
        ValueError: the same gate twice in a row.
    """
    order = race_order(course)
    last = course.gates[order[-1]].T_world_gate
    forward = last.rotation()[:, 0]
    points = np.vstack(
        (
            course.start.p_m,
            course.centres_m[list(order)],
            last.p_m + _run_out_m(course, last.p_m, forward) * forward,
        )
    )
    if (np.diff(points, axis=0) == 0.0).all(axis=1).any():
        raise ValueError(
            f"course {course.name!r} has one gate twice in a row: put another gate "
            "between, in `order`"
        )
    yaw_rad = float(q_to_euler_zyx(course.start.q_xyzw)[0])
    if straight_m:
        ahead = straight_m * course.axes[list(order), :, 0]
        gates = course.centres_m[list(order)]
        sides = [_off_poles(course, points, radius_m) for points in (gates - ahead, gates + ahead)]
        rows = np.stack((sides[0], gates, sides[1]), axis=1).reshape(-1, 3)
        points = np.vstack((points[:1], rows[:-1], points[-1:]))
    route = _Route(points, {})
    curve = minimum_snap(route.points_m, speed_mps=_SPEED_MPS, yaw_rad=yaw_rad)
    for _ in range(_MOST_DETOURS):
        if not _lead_around(course, curve, radius_m, route):
            break
        curve = minimum_snap(route.points_m, speed_mps=_SPEED_MPS, yaw_rad=yaw_rad)
    return curve


def _off_poles(course: Course, points_m: FloatArray, radius_m: float) -> FloatArray:
    """Return points (n, 3), those too near to a pole moved away from it.

    No curve through them would be clear of it.
    """
    moved = points_m.copy()
    for pole in course.obstacles:
        near_m = pole.radius_m + radius_m + _CLEAR_M
        off = moved[:, :2] - pole.top_m[:2]
        away_m = np.sqrt((off * off).sum(axis=1))
        rows = (away_m < near_m) & (moved[:, 2] < pole.top_m[2] + radius_m) & (away_m > 0.0)
        moved[rows, :2] = pole.top_m[:2] + off[rows] * (near_m / away_m[rows])[:, None]
    return moved


def _run_out_m(course: Course, p_m: FloatArray, forward: FloatArray) -> float:
    """Return how far behind the last gate there is room to brake.

    Half the way to the bounds at most.
    """
    if course.bounds_m is None:
        return _RUN_OUT_M
    low, high = course.bounds_m
    rooms = np.where(forward > 0.0, high - p_m, low - p_m)
    ways = np.divide(rooms, forward, out=np.full(3, math.inf), where=np.abs(forward) > 1e-9)
    return float(np.clip(0.5 * ways.min(), 0.1, _RUN_OUT_M))


@dataclass(slots=True, eq=False)
class _Route:
    """Points that a curve leads through.

    Attributes:
        points_m: (n, 3).
        made: number of detours around each thing.
    """

    points_m: FloatArray
    made: dict[str, int]


def _lead_around(course: Course, curve: Polynomials, radius_m: float, route: _Route) -> bool:
    """Add the first point that a curve needs; False = it needs none."""
    pieces = len(curve.lengths_s)
    shares = np.tile(np.arange(_SAMPLES_PER_PIECE) / _SAMPLES_PER_PIECE, pieces)
    piece_of = np.repeat(np.arange(pieces), _SAMPLES_PER_PIECE)
    rows = curve.derivatives(curve.knots_s[piece_of] + shares * curve.lengths_s[piece_of])
    p_m = rows[:, 0, :3]
    v_mps = rows[:, 1, :3]
    found = [
        *_around_poles(course, p_m, v_mps, radius_m, route.made),
        *_around_frames(course, p_m, radius_m, route.made),
        *_inside(course, p_m),
    ]
    if not found:
        return False
    row, point, name = min(found, key=lambda one: one[0])
    if route.made.get(name, 0) >= _MOST_AROUND_ONE:
        return False
    route.made[name] = route.made.get(name, 0) + 1
    index = int(piece_of[row]) + 1
    if np.linalg.norm(route.points_m[index - 1 : index + 1] - point, axis=1).min() < _LEAST_STEP_M:
        return False
    route.points_m = np.insert(route.points_m, index, point, axis=0)
    return True


_Found = tuple[int, FloatArray, str]
"""Sample of the curve, point to add, and what it leads around."""


def _around_poles(
    course: Course, p_m: FloatArray, v_mps: FloatArray, radius_m: float, made: dict[str, int]
) -> list[_Found]:
    found: list[_Found] = []
    for pole in course.obstacles:
        name = f"pole {pole.name}"
        near_m = pole.radius_m + radius_m + _CLEAR_M
        off = p_m[:, :2] - pole.top_m[:2]
        away_m = np.linalg.norm(off, axis=1)
        hit = np.flatnonzero((away_m < near_m) & (p_m[:, 2] < pole.top_m[2] + radius_m))
        if not len(hit):
            continue
        row = _nearest(hit, away_m)
        side = np.array([-v_mps[row, 1], v_mps[row, 0]])
        side *= math.copysign(1.0, dot(side, off[row])) / max(length(side), 1e-9)
        place = pole.top_m[:2] + (near_m + _CLEAR_M * (1 + made.get(name, 0))) * side
        found.append((row, np.array([*place, p_m[row, 2]]), name))
    return found


def _nearest(rows: npt.NDArray[np.intp], away_m: FloatArray) -> int:
    """Return the row of the least distance among the first rows that follow one another."""
    ends = np.flatnonzero(np.diff(rows) > 1)
    first = rows
    if len(ends):
        first = rows[: ends[0] + 1]
    return int(first[np.argmin(away_m[first])])


def _around_frames(
    course: Course, p_m: FloatArray, radius_m: float, made: dict[str, int]
) -> list[_Found]:
    found: list[_Found] = []
    seen = course.from_gates(p_m)
    for index, gate in enumerate(course.gates):
        name = f"gate {gate.name}"
        x, y, z = seen[:, index].T
        half = 0.5 * course.openings_m[index]
        for row in np.flatnonzero((x[:-1] < 0.0) != (x[1:] < 0.0)).tolist():
            share = x[row] / (x[row] - x[row + 1])
            at = np.array(
                [y[row] + share * (y[row + 1] - y[row]), z[row] + share * (z[row + 1] - z[row])]
            )
            outside = float((np.abs(at) - half).max())
            if not -(radius_m + _CLEAR_M) < outside < gate.bar_m + radius_m + _CLEAR_M:
                continue
            beyond = gate.bar_m + radius_m + _CLEAR_M * (2 + made.get(name, 0))
            if at[1] > half[1]:
                at[1] = half[1] + beyond
            else:
                at[0] = math.copysign(half[0] + beyond, at[0])
            found.append((row, gate.T_world_gate.apply(np.array([0.0, *at])), name))
            break
    return found


def _inside(course: Course, p_m: FloatArray) -> list[_Found]:
    if course.bounds_m is None:
        return []
    low, high = course.bounds_m
    out = np.flatnonzero(((p_m < low) | (p_m > high)).any(axis=1))
    if not len(out):
        return []
    beyond = np.maximum(low - p_m, p_m - high).max(axis=1)
    row = _nearest(out, -beyond)
    return [(row, np.clip(p_m[row], low + _INSIDE_M, high - _INSIDE_M), "bounds")]
