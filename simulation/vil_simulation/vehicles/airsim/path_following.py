"""Following of a polyline by a point ahead on it, as AirSim's moveOnPath.

Room frame ENU, SI units, no clock.

Two things are better than in the original. It reaches the end at rest, where the original flies
past it by up to three metres; and it corrects heights, where the original leaves half a metre.
:class:`CompatPathFollower` does as the original.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from vil_bridge.interfaces.vehicle_moves import Point

PERIOD_S: Final = 0.02
"""Between two commands of a move, simulated time."""
ACCURACY_M: Final = 0.5
"""AirSim's distance accuracy: a path's end within it is reached."""

_LAST_MPS: Final = 1.0
"""The original commands at most so much where nothing is left, ..."""
_FAST_MPS: Final = 3.0
"""... on paths that are faster than this."""

_ARRIVED_M: Final = 0.1
_SLOW_MPS: Final = 0.25
_NEARER_M: Final = 0.01
_STALLED_S: Final = 1.0
"""Near its end a path ends too if the vehicle comes no nearer for so long."""
_BRAKING_MPS2: Final = 2.0
_APPROACH_PS: Final = 1.2
"""Speed per metre left on the last stretch: as fast as the controller follows without overshoot."""


class _Place(NamedTuple):
    """Place on a polyline: its segment, the distance on it, the point."""

    segment: int
    offset_m: float
    p_m: Point


class Polyline:
    """Corners with the lengths between them.

    Attributes:
        end_m: the last corner.
    """

    def __init__(self, corners_m: Sequence[Point]) -> None:
        self._corners = tuple(corners_m)
        self._lengths = [math.dist(a, b) for a, b in pairwise(self._corners)]
        self._left_m = list(accumulate(reversed(self._lengths), initial=0.0))[::-1]
        self.end_m: Final = self._corners[-1]

    @property
    def begin(self) -> _Place:
        """The first corner."""
        return _Place(0, 0.0, self._corners[0])

    def is_end(self, place: _Place) -> bool:
        """Return True at the last corner."""
        return place.segment == len(self._lengths)

    def left_m(self, place: _Place) -> float:
        """Return the length from a place to the end."""
        return self._left_m[place.segment] - place.offset_m

    def ahead(self, place: _Place, distance_m: float) -> _Place:
        """Return the place a distance further on, at most the end."""
        segment = place.segment
        offset_m = place.offset_m
        while segment < len(self._lengths):
            length_m = self._lengths[segment]
            if length_m > 0.0 and length_m >= distance_m + offset_m:
                a = self._corners[segment]
                b = self._corners[segment + 1]
                offset_m += distance_m
                share = offset_m / length_m
                return _Place(segment, offset_m, _between(a, b, share))
            distance_m -= length_m - offset_m
            offset_m = 0.0
            segment += 1
        return _Place(segment, 0.0, self.end_m)


class _Carrot:
    """Point that is followed, and the progress on a path, which never goes back.

    Args:
        corners_m: the present position and the corners. speed_mps: along the path.
        lookahead_m: distance of the point. adaptive: share of the distance from the path that is
            added to it.

    Attributes:
        target_m: the point. ended: nothing is left to fly.
    """

    def __init__(
        self, corners_m: Sequence[Point], speed_mps: float, lookahead_m: float, adaptive: float
    ) -> None:
        self._path: Final = Polyline(corners_m)
        self._speed_mps: Final = speed_mps
        self._lookahead_m: Final = lookahead_m
        self._adaptive: Final = adaptive
        self._done = self._path.begin
        self._next = self._path.ahead(self._done, lookahead_m)
        self.ended = self._path.is_end(self._next)

    @property
    def target_m(self) -> Point:
        """The point."""
        return self._next.p_m

    @property
    def end_m(self) -> Point:
        """End of the path."""
        return self._path.end_m

    def _follow(self, p_m: Point) -> float:
        """Take the position one period after the last; return the progress, metres."""
        done = self._done.p_m
        goal = self._next.p_m
        away_m = math.dist(done, goal)
        error_m = progress_m = 0.0
        if away_m > 0.0:
            moved = [a - b for a, b in zip(p_m, done, strict=True)]
            along = [(a - b) / away_m for a, b in zip(goal, done, strict=True)]
            progress_m = sum(a * b for a, b in zip(moved, along, strict=True))
            error_m = self._adaptive * math.dist(moved, [progress_m * a for a in along])
            if progress_m >= 0.0:
                self._done = self._path.ahead(self._done, progress_m)
        self._next = self._path.ahead(self._done, self._lookahead_m + error_m)
        return progress_m


class PathFollower(_Carrot):
    """Follower that is at rest at the end; see :class:`_Carrot`."""

    def __init__(
        self, corners_m: Sequence[Point], speed_mps: float, lookahead_m: float, adaptive: float
    ) -> None:
        super().__init__(corners_m, speed_mps, lookahead_m, adaptive)
        self._nearest_m = math.inf
        self._stalled_s = 0.0

    def advance(self, p_m: Point, v_mps: Point) -> None:
        """Take the position and velocity one period after the last."""
        self._follow(p_m)
        self.ended = self._path.is_end(self._next) and self._is_over(p_m, v_mps)

    def velocity(self, p_m: Point, v_mps: Point) -> tuple[Point, Point]:
        """Return the velocity wanted at a position, and its rate of change with the present
        velocity, (3,) each.
        """
        away_m = math.dist(p_m, self.target_m)
        if away_m == 0.0:
            return (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
        x, y, z = ((a - b) / away_m for a, b in zip(self.target_m, p_m, strict=True))
        speed, slowing_ps = self._speed(away_m + self._path.left_m(self._next))
        change = -slowing_ps * (v_mps[0] * x + v_mps[1] * y + v_mps[2] * z)
        return (speed * x, speed * y, speed * z), (change * x, change * y, change * z)

    def _speed(self, left_m: float) -> tuple[float, float]:
        """Return the speed with which the vehicle can still stop at the end, and its change per
        metre flown.
        """
        # Linear on the last stretch, then as a constant braking allows; both meet with the same
        # slope.
        stretch_m = _BRAKING_MPS2 / _APPROACH_PS**2
        if left_m < stretch_m:
            speed = _APPROACH_PS * left_m
            slowing_ps = _APPROACH_PS
        else:
            speed = math.sqrt(2.0 * _BRAKING_MPS2 * (left_m - 0.5 * stretch_m))
            slowing_ps = _BRAKING_MPS2 / speed
        if speed < self._speed_mps:
            return speed, slowing_ps
        return self._speed_mps, 0.0

    def _is_over(self, p_m: Point, v_mps: Point) -> bool:
        """Return True if the vehicle reached the end, is slow and near it, or no longer comes
        nearer.
        """
        away_m = math.dist(p_m, self.end_m)
        if self._path.is_end(self._done) or (
            away_m <= _ARRIVED_M and math.hypot(*v_mps) <= _SLOW_MPS
        ):
            return True
        if away_m < self._nearest_m - _NEARER_M:
            self._nearest_m = away_m
            self._stalled_s = 0.0
        else:
            self._stalled_s += PERIOD_S
        return self._stalled_s >= _STALLED_S


class CompatPathFollower(_Carrot):
    """Follower at a constant speed, as the original; see :class:`_Carrot`.

    Attributes:
        complete: the progress has reached the end.
    """

    complete = False

    def advance(self, p_m: Point) -> None:
        """Take the position one period after the last."""
        self.complete = self._path.is_end(self._done)
        progress_m = self._follow(p_m)
        self.ended = self.complete or (self._path.is_end(self._next) and progress_m <= 0.0)

    def velocity(self, p_m: Point) -> Point:
        """Return the velocity wanted at a position.

        None within 0.5 m of the point, in a height or altogether.
        """
        away_m = math.dist(p_m, self.target_m)
        if away_m < ACCURACY_M:
            return 0.0, 0.0, 0.0
        slows = self._speed_mps > _FAST_MPS and self._path.left_m(self._done) <= 0.0
        speed = min(_LAST_MPS if slows else self._speed_mps, away_m / PERIOD_S)
        x, y, z = (speed * (a - b) / away_m for a, b in zip(self.target_m, p_m, strict=True))
        return x, y, 0.0 if abs(self.target_m[2] - p_m[2]) <= ACCURACY_M else z


def lookahead_of(speed_mps: float, lookahead_m: float, adaptive: float) -> float:
    """Return the distance of the point that is followed; a negative one follows from the speed.

    Raises:
        ValueError: it is too short; AirSim's words.
    """
    period_m = speed_mps * PERIOD_S
    if lookahead_m < 0.0:
        return max(period_m * (30.0 if adaptive > 0.0 else 40.0), 1.5 * ACCURACY_M)
    if lookahead_m == 0.0:
        raise ValueError("lookahead distance cannot be 0")
    if period_m > lookahead_m:
        raise ValueError(
            f"lookahead value {lookahead_m:f} is too small for velocity {speed_mps:f}. It "
            f"must be at least {period_m:f}"
        )
    if lookahead_m < ACCURACY_M:
        raise ValueError(
            f"lookahead value {lookahead_m:f} is smaller than drone's distance accuracy "
            f"{ACCURACY_M:f}."
        )
    return lookahead_m


def _between(a: Point, b: Point, share: float) -> Point:
    x, y, z = (p + share * (q - p) for p, q in zip(a, b, strict=True))
    return x, y, z
