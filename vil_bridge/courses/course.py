"""Race courses as values: gates in their order, obstacles, start, bounds and rules.

And the gates that a way passes.

World ENU. A gate's x leads through its opening in the direction of flight, y to the left, z up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.elementary import sin_cos
from vil_bridge.core.geometry import (
    Transform,
    cross,
    q_from_euler_zyx,
    q_from_matrix,
    q_to_euler_zyx,
)
from vil_bridge.core.matrices import length, product
from vil_bridge.core.types import BoolArray, FloatArray

_BORDER_M: Final = 8.0
_ABOVE_M: Final = 6.0
_FLOOR_M: Final = 0.02
_LEAST_SIDE_M: Final = 1e-3
_CORNERS: Final = np.array([(1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0)])
"""Signs of y and z: top left, top right, bottom right, bottom left, as the pilot sees them."""

Three = tuple[float, float, float]
Consequence = Literal["stop", "penalise", "ignore"]
Layout = Literal["fixed", "random"]
ClockStart = Literal["signal", "motion", "first_gate"]


@dataclass(frozen=True, slots=True)
class PoseSpread:
    """Range of uniform random numbers that are added to a pose.

    Attributes:
        low_m, high_m: of the position, world axes. low_rpy_rad, high_rpy_rad: of roll, pitch and
            yaw (Z-Y-X).
    """

    low_m: Three = (0.0, 0.0, 0.0)
    high_m: Three = (0.0, 0.0, 0.0)
    low_rpy_rad: Three = (0.0, 0.0, 0.0)
    high_rpy_rad: Three = (0.0, 0.0, 0.0)

    def offsets(self, uniforms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return offsets of position and of roll, pitch, yaw, (3,) each, from numbers 0..1,
        (6,).
        """
        low = np.array((*self.low_m, *self.low_rpy_rad))
        drawn = low + uniforms * (np.array((*self.high_m, *self.high_rpy_rad)) - low)
        return drawn[:3], drawn[3:]


@dataclass(frozen=True, slots=True, eq=False)
class CourseGate:
    """Rectangular opening in a frame.

    Attributes:
        T_world_gate: its origin is the centre of the opening. width_m, height_m: of the opening.
        margin_m: distance to the opening's edge at which a pass counts; negative = outside the
            edge.
        bar_m: width of the solid frame around the opening. spread: random offsets of the pose.
    """

    name: str
    T_world_gate: Transform
    width_m: float
    height_m: float
    margin_m: float = 0.0
    bar_m: float = 0.3
    spread: PoseSpread = PoseSpread()

    @classmethod
    def of_corners(cls, name: str, corners_m: npt.ArrayLike) -> CourseGate:
        """Return the rectangle nearest to four corners, (4, 3).

        Top left, top right, bottom right, bottom left.

        Raises:
            ValueError: the corners are on one line.
        """
        corners = np.asarray(corners_m, np.float64)
        left = 0.5 * (corners[0] + corners[3] - corners[1] - corners[2])
        up = 0.5 * (corners[0] + corners[1] - corners[3] - corners[2])
        forward = cross(left, up)
        size = length(forward)
        width = length(left)
        height = length(up)
        if not (min(width, height) > _LEAST_SIDE_M and size > 0.5 * width * height):
            raise ValueError(
                f"corners of {name!r} span no opening. Give top left, top right, bottom "
                "right, bottom left"
            )
        x = forward / size
        y = left / width
        R = np.column_stack((x, y, cross(x, y)))
        return cls(name, Transform(corners.mean(axis=0), q_from_matrix(R)), width, height)

    @property
    def corners_m(self) -> FloatArray:
        """Corners of the opening, (4, 3).

        Top left, top right, bottom right, bottom left as the pilot sees them.
        """
        half = 0.5 * np.array((self.width_m, self.height_m))
        return self.T_world_gate.apply(np.column_stack((np.zeros(4), _CORNERS * half)))


@dataclass(frozen=True, slots=True, eq=False)
class CourseObstacle:
    """Upright pole from the floor to its top.

    Attributes:
        top_m: (3,).
    """

    name: str
    top_m: FloatArray
    radius_m: float
    spread: PoseSpread = PoseSpread()


@dataclass(frozen=True, slots=True)
class RaceRules:
    """Rules of a race.

    Attributes:
        clock: the race's time starts at the signal, at the first motion after it, or at the first
            gate. With ``first_gate`` a lap ends at the first gate again, otherwise at the last one.
        missed: consequence of a gate that is left out. collision: consequence of a collision.
        penalty_s: for each gate left out or collision, with ``penalise``.
        timeout_s: longest time of the race; None = unlimited.
    """

    clock: ClockStart = "signal"
    missed: Consequence = "ignore"
    collision: Consequence = "stop"
    penalty_s: float = 3.0
    timeout_s: float | None = None


class Crossings(NamedTuple):
    """Gates passed and hit by n vehicles on their way; all of shape (n, g).

    Attributes:
        passed: went through the opening in the gate's direction.
        hit: met the frame around it, from either side.
        fraction: of the way at which the gate's plane was crossed, 0..1; 1 where it was not.
    """

    passed: BoolArray
    hit: BoolArray
    fraction: FloatArray


@dataclass(frozen=True, eq=False)
class Course:
    """Race course.

    Attributes:
        gates: all that stand there. order: indices of those to fly through in one lap; () = all, as
            listed.
        start: pose of the vehicle at the start; spread: its random offsets.
        layout: ``random`` = a seed places gates, obstacles and start anywhere within the bounds.
        bounds_m: lower and upper corner of the space that vehicles may use, (3,) each; None =
            unlimited.

    Raises:
        ValueError: no gate, no lap, an order of gates that do not exist, or a random layout without
            bounds.
    """

    name: str
    gates: tuple[CourseGate, ...]
    start: Transform
    order: tuple[int, ...] = ()
    laps: int = 1
    obstacles: tuple[CourseObstacle, ...] = ()
    bounds_m: tuple[FloatArray, FloatArray] | None = None
    rules: RaceRules = RaceRules()
    spread: PoseSpread = PoseSpread()
    layout: Layout = "fixed"

    def __post_init__(self) -> None:
        if self.layout == "random" and self.bounds_m is None:
            raise ValueError(
                "a random layout needs bounds. Give the space in which gates may stand"
            )
        if not self.gates or self.laps < 1:
            raise ValueError(
                f"a course has at least one gate and one lap, not {len(self.gates)} and {self.laps}"
            )
        if not all(0 <= index < len(self.gates) for index in self.order):
            raise ValueError(
                f"the order of a course names gates 0 to {len(self.gates) - 1}, got {self.order}"
            )
        if not self.order:
            object.__setattr__(self, "order", tuple(range(len(self.gates))))

    @classmethod
    def upright(
        cls,
        centres_m: FloatArray,
        yaws_rad: FloatArray,
        openings_m: FloatArray,
        start_m: FloatArray,
        start_yaw_rad: float = 0.0,
        *,
        bar_m: float = 0.3,
    ) -> Course:
        """Return a course of upright gates in their order.

        Args:
            centres_m: of the openings, (g, 3).
            yaws_rad: of the flight directions through them, (g,).
            openings_m: width and height, (g, 2).
            start_m: place of the start, (3,).
            start_yaw_rad: view at the start.
            bar_m: width of the solid frame around each opening.

        Raises:
            ValueError: no gates, or arrays that do not fit together.
        """
        g = len(centres_m)
        if not g or [centres_m.shape, yaws_rad.shape, openings_m.shape] != [(g, 3), (g,), (g, 2)]:
            raise ValueError(
                "a course has centres (g, 3), yaws (g,) and openings (g, 2) of at least one gate"
            )
        gates = tuple(
            CourseGate(
                f"Gate{number}",
                _upright(centre, float(yaw)),
                float(width),
                float(height),
                bar_m=bar_m,
            )
            for number, (centre, yaw, (width, height)) in enumerate(
                zip(centres_m, yaws_rad, openings_m, strict=True), start=1
            )
        )
        return cls("course", gates, _upright(start_m, start_yaw_rad))

    @cached_property
    def centres_m(self) -> FloatArray:
        """Centres of the openings of all gates, (g, 3)."""
        return np.array([gate.T_world_gate.p_m for gate in self.gates])

    @cached_property
    def axes(self) -> FloatArray:
        """Rotation matrices of all gates, (g, 3, 3): x through the opening, y to its left, z up."""
        return np.array([gate.T_world_gate.rotation() for gate in self.gates])

    @cached_property
    def openings_m(self) -> FloatArray:
        """Width and height of all openings, (g, 2)."""
        return np.array([(gate.width_m, gate.height_m) for gate in self.gates])

    @cached_property
    def margins_m(self) -> FloatArray:
        """Margins of all gates, (g,)."""
        return np.array([gate.margin_m for gate in self.gates])

    @cached_property
    def bars_m(self) -> FloatArray:
        """Widths of the frames of all gates, (g,)."""
        return np.array([gate.bar_m for gate in self.gates])

    @property
    def room_m(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper corner of the space that vehicles may use, (3,) each.

        The bounds, or around the gates.
        """
        if self.bounds_m is not None:
            return self.bounds_m
        places = np.vstack((self.centres_m, self.start.p_m))
        low = places.min(axis=0) - _BORDER_M
        high = places.max(axis=0) + _BORDER_M
        low[2], high[2] = _FLOOR_M, places[:, 2].max() + _ABOVE_M
        return low, high

    def from_gates(self, p_world_m: FloatArray) -> FloatArray:
        """Return positions (..., 3) in the axes of every gate, (..., g, 3)."""
        # One product with all axes side by side: a third of the time of one for each gate.
        seen = product(p_world_m, self._side_by_side)
        return np.asarray(seen.reshape(*p_world_m.shape[:-1], -1, 3) - self._origins)

    @cached_property
    def _side_by_side(self) -> FloatArray:
        """Axes of all gates, (3, 3 g)."""
        return np.concatenate(self.axes, axis=1)

    @cached_property
    def _origins(self) -> FloatArray:
        """World's origin to the gates' centres in the gates' axes, (g, 3)."""
        return np.asarray(product(self.centres_m[:, None], self.axes)[:, 0])

    def outside_m(self, y_m: FloatArray, z_m: FloatArray) -> FloatArray:
        """Return distances beyond the nearest edge of the opening, negative inside, for (..., g)
        in the plane.
        """
        off_y = np.abs(y_m) - 0.5 * self.openings_m[:, 0]
        off: FloatArray = np.maximum(off_y, np.abs(z_m) - 0.5 * self.openings_m[:, 1])
        return off

    def crossings(self, before_m: FloatArray, after_m: FloatArray) -> Crossings:
        """Return which gates are passed or hit between positions (n, 3), on straight lines.

        The plane belongs to its far side: a way that ends on it has crossed it, one that begins on
        it has not.
        """
        (x0, y0, z0), (x1, y1, z1) = (
            np.moveaxis(self.from_gates(p_m), -1, 0) for p_m in (before_m, after_m)
        )
        forward = (x0 < 0.0) & (x1 >= 0.0)
        backward = (x0 >= 0.0) & (x1 < 0.0)
        crossed = forward | backward
        fraction = np.divide(x0, x0 - x1, out=np.ones_like(x0), where=crossed)
        off = self.outside_m(y0 + fraction * (y1 - y0), z0 + fraction * (z1 - z0))
        within = off <= -self.margins_m
        at_frame = off <= self.bars_m
        return Crossings(forward & within, crossed & at_frame & ~within, fraction)


def moved(pose: Transform, spread: PoseSpread, uniforms: FloatArray) -> Transform:
    """Return a pose with random offsets from numbers 0..1, (6,)."""
    if spread == PoseSpread():
        return pose
    p_m, (roll, pitch, yaw) = spread.offsets(uniforms)
    own_yaw, own_pitch, own_roll = q_to_euler_zyx(pose.q_xyzw)
    return Transform(
        pose.p_m + p_m, q_from_euler_zyx(own_yaw + yaw, own_pitch + pitch, own_roll + roll)
    )


def _upright(p_m: FloatArray, yaw_rad: float) -> Transform:
    return Transform.of(p_m, (0.0, 0.0, *sin_cos(0.5 * yaw_rad)))
