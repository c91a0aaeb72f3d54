"""Pilots of simulated races: they know the gates' true places, and command the vehicles from their states."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np

from vil_bridge.core.course import Course
from vil_bridge.core.geometry import q_to_euler_zyx
from vil_bridge.core.types import FloatArray
from vil_bridge.tools.race.simulated_race import PilotFactory, fly
from vil_bridge.vehicles.control.limits import Limits, fastest
from vil_bridge.vehicles.control.models import pilot_of, tracking
from vil_bridge.vehicles.control.optimal import time_optimal
from vil_bridge.vehicles.model import Model
from vil_bridge.vehicles.trajectories import minimum_snap
from vil_bridge.vehicles.trajectories.trajectory import Polynomials, Trajectory

_SHARES: Final = (0.8, 0.65, 0.5, 0.4, 0.3)
"""Of the rotors' thrust, the largest first; the rest is for control."""
_RATES_RADPS: Final = (8.0, 8.0, 3.0)
_LEAST_THRUST: Final = 0.1
"""Of the largest thrust: the attitude needs some."""
_RUN_OUT_M: Final = 4.0
_SPEED_MPS: Final = 8.0
_AFTER_S: Final = 1.0


class TrajectoryPilot:
    """Pilot that follows one trajectory for each course.

    Args:
        model: of the vehicles.
        trajectories: one a vehicle, from the start.
    """

    def __init__(self, model: Model, trajectories: Sequence[Trajectory]) -> None:
        self.until_s: FloatArray = np.array([one.duration_s for one in trajectories]) + _AFTER_S
        self._controller: Final = tracking(model, trajectories)

    def __call__(self, t_s: float, x: FloatArray) -> FloatArray:
        """Return commands, (n, du)."""
        return self._controller(t_s, x)


def minimum_snap_pilot(courses: Sequence[Course], model: Model) -> TrajectoryPilot:
    """Return a pilot along minimum-snap curves through the gates, each at one pace that the rotors allow.

    Raises:
        ValueError: a course that no curve goes through.
    """
    airframe = pilot_of(model).airframe
    limits = Limits(airframe=replace(airframe, most=_SHARES[0] * airframe.most), rates_radps=_RATES_RADPS)
    return TrajectoryPilot(model, [fastest(through_gates(course), limits) for course in courses])


def time_optimal_pilot(courses: Sequence[Course], model: Model) -> TrajectoryPilot:
    """Return a pilot along the same curves in the least time that thrust and drag allow.

    The acceleration of such a flight jumps, which no vehicle follows exactly. So each flight is rehearsed in
    simulation: one that does not finish gets a smaller share of the thrust, down to the last share.

    Raises:
        ValueError: a course that no curve goes through.
    """
    curves = [through_gates(course) for course in courses]
    flights: dict[int, Trajectory] = {}
    failed = list(range(len(courses)))
    for share in _SHARES:
        limits = _thrust_limits(model, share)
        flights |= {index: time_optimal(curves[index], limits) for index in failed}
        rehearsed = TrajectoryPilot(model, [flights[index] for index in failed])
        ends = [record.ended for record in fly([courses[index] for index in failed], model, rehearsed)]
        failed = [index for index, ended in zip(failed, ends, strict=True) if ended != "finished"]
        if not failed:
            break
    return TrajectoryPilot(model, [flights[index] for index in range(len(courses))])


def _thrust_limits(model: Model, share: float) -> Limits:
    airframe = pilot_of(model).airframe
    most = share * float(airframe.effects[0].sum()) * airframe.most / airframe.mass_kg
    return Limits(
        thrust_mps2=(_LEAST_THRUST * most, most),
        drag_1pm=airframe.drag_quadratic_ns2pm2 / airframe.mass_kg,
        gravity_mps2=airframe.gravity_mps2,
    )


PILOTS: Final[Mapping[str, PilotFactory]] = MappingProxyType(
    {"minimum-snap": minimum_snap_pilot, "time-optimal": time_optimal_pilot}
)
"""Pilots by name."""


def through_gates(course: Course) -> Polynomials:
    """Return the minimum-snap curve from the start through the centres of all gates of a race, to rest behind the last.

    The heading is that of the start.

    Raises:
        ValueError: the same gate twice in a row.
    """
    order = course.order * course.laps + (course.order[:1] if course.rules.clock == "first_gate" else ())
    last = course.gates[order[-1]].T_world_gate
    forward = last.rotation()[:, 0]
    points = np.vstack(
        (course.start.p_m, course.centres_m[list(order)], last.p_m + _run_out_m(course, last.p_m, forward) * forward)
    )
    if (np.diff(points, axis=0) == 0.0).all(axis=1).any():
        raise ValueError(f"course {course.name!r} has one gate twice in a row: put another gate between, in `order`")
    return minimum_snap(points, speed_mps=_SPEED_MPS, yaw_rad=float(q_to_euler_zyx(course.start.q_xyzw)[0]))


def _run_out_m(course: Course, p_m: FloatArray, forward: FloatArray) -> float:
    """Return how far behind the last gate there is room to brake: half the way to the bounds at most."""
    if course.bounds_m is None:
        return _RUN_OUT_M
    low, high = course.bounds_m
    rooms = np.where(forward > 0.0, high - p_m, low - p_m)
    ways = np.divide(rooms, forward, out=np.full(3, math.inf), where=np.abs(forward) > 1e-9)
    return float(np.clip(0.5 * ways.min(), 0.1, _RUN_OUT_M))
