"""Flight along a spline through points, as in AirSim's drone racing lab.

Room frame ENU, SI units, no clock.

The spline has the least jerk. It begins with the vehicle's own motion and keeps to limits of speed
and acceleration. The lab's tracker commands accelerations; here they become commands of
simple_flight's velocity loop.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_bridge.core.matrices import dot
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import Polynomials
from vil_bridge.interfaces.vehicle_moves import Point, SplineMove
from vil_simulation.vehicles.trajectories.waypoints import minimum_jerk

NEAR_M: Final = 0.1
"""Points nearer than this to the last one are left out."""
_ROUNDS: Final = 8
_SAMPLES_PER_PIECE: Final = 16
_FASTER: Final = 0.98
_ROOM: Final = 0.8
"""Share of the largest acceleration that a spline may take: the rest corrects errors."""
_POSITION_PS: Final = 0.8
_VELOCITY_PS: Final = 2.2
_CLIMB_PS: Final = 1.0
_LAG_S: Final = 0.35
"""Time that the vehicle takes to tilt: accelerations are commanded so much earlier."""
_SLOW_MPS: Final = 0.1


class Spline:
    """Curve that is flown, and the accelerations that hold a vehicle on it.

    Args:
        move: points, not all at the vehicle, and limits. p_m, v_mps: the vehicle at the start.
        most_mps2: horizontal acceleration that the vehicle is able to.

    Raises:
        ValueError: no finite curve goes through the points.

    Attributes:
        duration_s: seconds. end_m: the last point.
    """

    def __init__(self, move: SplineMove, p_m: Point, v_mps: Point, most_mps2: float) -> None:
        points, velocities = _without_repeats(p_m, move)
        given = {0: v_mps} | dict(enumerate(velocities, 1))
        limits = move.speed_mps, min(move.acceleration_mps2, _ROOM * most_mps2)
        self._curve = _within_limits(np.array(points), given, *limits)
        self._gains = move.gains
        self.duration_s = self._curve.duration_s
        self.end_m = points[-1]

    def command(self, t_s: float, p_m: Point, v_mps: Point) -> tuple[Point, Point]:
        """Return the acceleration (x, y) with a climb rate (z) for a vehicle, and the velocity
        of the curve.
        """
        now = self._curve.at([t_s, t_s + _LAG_S])
        gains = self._gains
        p = now.p_world_m[0]
        v = now.v_world_mps[0]
        error = p - np.array(p_m)
        slow = v - np.array(v_mps)
        along = _along(v[:2])
        position = _weighted(error[:2], along, gains.along, gains.cross)
        velocity = _weighted(slow[:2], along, gains.along_speed, gains.cross_speed)
        ax, ay = (
            now.a_world_mps2[1, :2] + _VELOCITY_PS * (_POSITION_PS * position + velocity)
        ).tolist()
        vx, vy, vz = v.tolist()
        return (ax, ay, vz + _CLIMB_PS * gains.height * float(error[2])), (vx, vy, vz)


def _along(v_mps: FloatArray) -> FloatArray:
    """Return the direction of a velocity (2,); zero where it is slow."""
    speed = math.hypot(*v_mps.tolist())
    return v_mps / speed if speed > _SLOW_MPS else np.zeros(2)


def _weighted(error: FloatArray, along: FloatArray, by_along: float, by_cross: float) -> FloatArray:
    """Return an error (2,) with its parts along a direction and across it weighted."""
    part = dot(error, along) * along
    weighted: FloatArray = by_along * part + by_cross * (error - part)
    return weighted


def _without_repeats(p_m: Point, move: SplineMove) -> tuple[list[Point], list[Point]]:
    """Return points from the vehicle's own on, and the velocities at the others.

    None where they are free.
    """
    points = [p_m]
    velocities: list[Point] = []
    for index, point in enumerate(move.points_m):
        if math.dist(point, points[-1]) >= NEAR_M:
            points.append(point)
            velocities += move.v_mps[index : index + 1]
    return points, velocities


def _within_limits(
    points: FloatArray, given: dict[int, Point], speed_mps: float, most_mps2: float
) -> Polynomials:
    """Return the curve through points (m, 3) that is as fast as limits of its speed and
    acceleration allow.

    Velocities that are given may exceed the limit: then the fastest of them is the limit.
    """
    speed_mps = max(speed_mps, *(math.hypot(*v) for v in given.values()))
    chords = np.linalg.norm(np.diff(points, axis=0), axis=1)
    lengths = np.maximum(chords / speed_mps, np.sqrt(chords / most_mps2))
    curve = _timed(points, lengths, given)
    for _ in range(_ROUNDS):
        rows = curve.at(np.linspace(0.0, curve.duration_s, _SAMPLES_PER_PIECE * len(chords) + 1))
        speed = float(np.linalg.norm(rows.v_world_mps, axis=1).max())
        acceleration = float(np.linalg.norm(rows.a_world_mps2, axis=1).max())
        factor = max(speed / speed_mps, math.sqrt(acceleration / most_mps2))
        if _FASTER <= factor <= 1.0:
            break
        if not math.isfinite(factor):
            raise ValueError(
                "no smooth curve goes through the points: give ones that are more alike"
            )
        lengths = lengths * (factor / math.sqrt(_FASTER))
        curve = _timed(points, lengths, given)
    return curve


def _timed(points: FloatArray, lengths: FloatArray, given: dict[int, Point]) -> Polynomials:
    """Return the curve with the least jerk whose pieces last so many seconds (m - 1,)."""
    return minimum_jerk(
        points, times_s=np.concatenate(([0.0], np.cumsum(lengths))), velocities_mps=given
    )
