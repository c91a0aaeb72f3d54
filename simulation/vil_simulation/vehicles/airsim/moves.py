"""AirSim's moves of a multirotor, update by update: states in, commands of a mode out.

No clock, no threads.

Room frame ENU, body FLU. Source: microsoft/AirSim, MultirotorApiBase.cpp. Where the original
differs, the move says so; ``compat`` does as the original: paths at a constant speed that end short
of their goal or beyond it, landings that begin as the controller left off, headings compared
without wrapping, velocities at a height that are disturbed by it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Final, NamedTuple

from msgspec.structs import replace

from vil_bridge.core.geometry import GRAVITY_MPS2, turned
from vil_bridge.interfaces.vehicle_moves import (
    AttitudeMove,
    HomeMove,
    HoverMove,
    LandMove,
    ManualMove,
    Move,
    MoveEnd,
    PathMove,
    Point,
    Quaternion,
    RatesMove,
    RotorsMove,
    SplineMove,
    StickPositions,
    TakeoffMove,
    TurnMove,
    TurnRateMove,
    VelocityMove,
    YawGoal,
)
from vil_simulation.vehicles.airsim.path_following import (
    ACCURACY_M,
    CompatPathFollower,
    PathFollower,
    lookahead_of,
)
from vil_simulation.vehicles.airsim.simple_flight import Mode, SimpleFlight, climb, climb_rate_to
from vil_simulation.vehicles.airsim.spline_flight import NEAR_M, Spline

_STILL_MPS: Final = 0.05
_STILL_RADPS: Final = 0.01
_CLIMB_MPS: Final = 0.5
_TAKEOFF_M: Final = 2.0
_SINK_MPS: Final = 0.2
_LANDED_AFTER: Final = 10
_QUICKER: Final = 2.0
"""Factor by which path following raises the gain of the controller's horizontal velocity loop
(1.1 per second).
"""

_TURN_RAD: Final = math.radians(0.01)
"""Of the yaw stick, each 20 ms: of the heading, or per second of its rate."""
_NO_TURN: Final = YawGoal()
_AHEAD: Final = YawGoal(by_rate=False, ahead=True)
_LATE_S: Final = 3.0
"""A vehicle that is not at the end of its spline so long after the time has missed it."""


class FlightState(NamedTuple):
    """State of a vehicle that a move sees.

    Position, velocity, heading, its rate, climb integral, remote control, attitude.
    """

    p_m: Point
    v_mps: Point
    yaw_rad: float
    yaw_radps: float
    climb_integral: float = 0.0
    sticks: StickPositions | None = None
    q_world_body: Quaternion = (0.0, 0.0, 0.0, 1.0)


class FlightCommand(NamedTuple):
    """Command of a mode, its values in the order of the mode's fields without tilt servos.

    Attributes:
        climb_integral: the controller's from now on; None = unchanged.
        holds_height: a vertical velocity among the values leads to a height.
    """

    mode: Mode
    values: tuple[float, ...]
    climb_integral: float | None = None
    holds_height: bool = False


class MoveFlight(ABC):
    """A move under way.

    Args:
        flight: gains and limits of the controller; may be replaced during the move.
    """

    def __init__(self, flight: SimpleFlight) -> None:
        self.flight = flight

    @abstractmethod
    def update(self, t_s: float, state: FlightState) -> FlightCommand | MoveEnd | None:
        """Return what the vehicle does for the next 20 ms, or how the move ended.

        None = no command.

        Args:
            t_s: simulated seconds since the move began; the first call is at 0.
            state: the vehicle now.
        """


def flight_of(
    move: Move,
    flight: SimpleFlight,
    state: FlightState,
    home_m: Point,
    hover: float,
    *,
    compat: bool = False,
) -> MoveFlight | MoveEnd:
    """Return a move that begins in a state, or its end where there is nothing to fly or it is
    refused.

    Args:
        move: its numbers are finite.
        flight: gains and limits of the controller.
        state: the vehicle now.
        home_m: start of the vehicle.
        hover: control of the rotors that carries the weight, 0 to 1.
        compat: do as the original where it is wrong.
    """
    match move:
        case PathMove():
            return _path_of(move, flight, state, compat=compat)
        case SplineMove():
            return _spline_of(move, flight, state)
        case TakeoffMove():
            return _takeoff_of(move, flight, state, compat=compat)
        case HomeMove():
            return _path_of(
                PathMove((home_m,), _CLIMB_MPS, move.timeout_s), flight, state, compat=compat
            )
        case HoverMove():
            return MoveEnd(reached=False)  # the original follows a path of length zero
        case LandMove():
            begins_at = None if compat else min(0.0, 2.0 * hover - 1.0)
            if move.timeout_s > 0.0:
                return _Landing(move, flight, begins_at)
            return MoveEnd(reached=False)
        case TurnMove():
            turning = _CompatTurning if compat else _Turning
            if move.timeout_s > 0.0:
                return turning(move, flight, state.p_m)
            return MoveEnd(reached=True)
        case VelocityMove() if move.duration_s <= 0.0:
            return MoveEnd(reached=move.z_m is None or move.in_heading)
        case _ if move.duration_s <= 0.0:
            return MoveEnd(reached=True)
        case VelocityMove() if compat and move.z_m is not None:
            return _CompatDrifting(move, flight, state.yaw_rad, move.z_m, home_m[2])
        case VelocityMove():
            return _Drifting(move, flight, state.yaw_rad)
        case TurnRateMove():
            return _Spinning(move, flight, state.p_m)
        case AttitudeMove() | RatesMove() if compat:
            return _CompatTilted(move, flight, 0.0)
        case AttitudeMove() | RatesMove():
            return _Tilted(move, flight, state.climb_integral or 2.0 * hover - 1.0)
        case RotorsMove():
            return _Direct(move, flight)
        case ManualMove():
            return _Manual(move, flight, state.yaw_rad)


class _Path(MoveFlight):
    def __init__(self, move: PathMove, flight: SimpleFlight, path: PathFollower) -> None:
        super().__init__(flight)
        self._move = move
        self._path = path

    def update(self, t_s: float, state: FlightState) -> FlightCommand | MoveEnd:
        if t_s > 0.0:
            self._path.advance(state.p_m, state.v_mps)
        if self._path.ended or t_s >= self._move.timeout_s:
            return _end_at(self._path.end_m, state)
        wanted, slowing = self._path.velocity(state.p_m, state.v_mps)
        vx, vy = (
            v + _QUICKER * (goal - v) + _speed_for(change, self.flight)
            for v, goal, change in zip(state.v_mps[:2], wanted[:2], slowing[:2], strict=True)
        )
        course = (self._path.target_m[0] - state.p_m[0], self._path.target_m[1] - state.p_m[1])
        return FlightCommand("velocity", (vx, vy, wanted[2], *_heading(self._move.yaw, course)))


class _CompatPath(MoveFlight):
    """At a constant speed, and to no goal nearer than 0.5 m.

    Reached where the progress is complete.
    """

    def __init__(self, move: PathMove, flight: SimpleFlight, path: CompatPathFollower) -> None:
        super().__init__(flight)
        self._move = move
        self._path = path

    def update(self, t_s: float, state: FlightState) -> FlightCommand | MoveEnd:
        if t_s >= self._move.timeout_s:
            return MoveEnd(reached=False)
        if t_s > 0.0:
            self._path.advance(state.p_m)
        if self._path.ended:
            return MoveEnd(reached=self._path.complete)
        goal = self._path.target_m
        here = state.p_m
        course = (goal[0] - here[0], goal[1] - here[1], goal[2] - here[2])
        return FlightCommand(
            "velocity", (*self._path.velocity(here), *_heading(self._move.yaw, course))
        )


class _Spline(MoveFlight):
    def __init__(self, move: SplineMove, flight: SimpleFlight, state: FlightState) -> None:
        super().__init__(flight)
        most_mps2 = GRAVITY_MPS2 * math.tan(flight.max_angle_rad)
        self._spline = Spline(move, state.p_m, state.v_mps, most_mps2)

    def update(self, t_s: float, state: FlightState) -> FlightCommand | MoveEnd:
        late_s = t_s - self._spline.duration_s
        if late_s >= 0.0:
            end = _end_at(self._spline.end_m, state)
            if end.reached or late_s > _LATE_S:
                return end
        (ax, ay, climb_mps), course = self._spline.command(t_s, state.p_m, state.v_mps)
        vx, vy = (
            v + _speed_for(a, self.flight) for v, a in zip(state.v_mps[:2], (ax, ay), strict=True)
        )
        return FlightCommand("velocity", (vx, vy, climb_mps, *_heading(_AHEAD, course[:2])))


def _speed_for(acceleration_mps2: float, flight: SimpleFlight) -> float:
    """Return how much faster than now the velocity loop must be commanded to accelerate so."""
    gain_ps = GRAVITY_MPS2 * flight.max_angle_rad * flight.velocity.p[0]
    return acceleration_mps2 / gain_ps if gain_ps > 0.0 else 0.0


class _Landing(MoveFlight):
    def __init__(self, move: LandMove, flight: SimpleFlight, integral: float | None) -> None:
        super().__init__(flight)
        self._timeout_s = move.timeout_s
        # The original begins with an integral of 0, with which a vehicle of strong rotors climbs
        # and counts as landed.
        self._integral = integral
        self._still = 0

    def update(self, t_s: float, state: FlightState) -> FlightCommand | MoveEnd:
        if t_s >= self._timeout_s:
            return MoveEnd(reached=False)
        if -state.v_mps[2] <= _STILL_MPS:
            self._still += 1
        else:
            self._still = 0
        if self._still > _LANDED_AFTER:
            return MoveEnd(reached=True)
        values = (0.0, 0.0, -_SINK_MPS, *_heading(_NO_TURN))
        return FlightCommand("velocity", values, self._integral if t_s == 0.0 else None)


class _Turning(MoveFlight):
    """The shorter way round.

    The original compares headings without wrapping and misses those near 180 degrees.
    """

    def __init__(self, move: TurnMove, flight: SimpleFlight, p_m: Point) -> None:
        super().__init__(flight)
        self._move = move
        self._p_m = p_m

    def update(self, t_s: float, state: FlightState) -> FlightCommand | MoveEnd:
        if t_s >= self._move.timeout_s:
            return MoveEnd(reached=False)
        yaw = YawGoal(self._move.yaw_rad, by_rate=False)
        if abs(self._away_rad(state)) <= self._move.margin_rad:
            if abs(state.yaw_radps) <= _STILL_RADPS:
                return MoveEnd(reached=True)
            yaw = _NO_TURN
        return FlightCommand("position", (*self._p_m, *_heading(yaw)))

    def _away_rad(self, state: FlightState) -> float:
        return math.remainder(state.yaw_rad - self._move.yaw_rad, math.tau)


class _CompatTurning(_Turning):
    """Headings clockwise from north, from -180 to 180 degrees, are compared without wrapping."""

    def _away_rad(self, state: FlightState) -> float:
        return _from_north(state.yaw_rad) - _from_north(self._move.yaw_rad)


class _Spinning(MoveFlight):
    def __init__(self, move: TurnRateMove, flight: SimpleFlight, p_m: Point) -> None:
        super().__init__(flight)
        self._move = move
        self._p_m = p_m

    def update(self, t_s: float, state: FlightState) -> FlightCommand | MoveEnd:  # noqa: ARG002
        if t_s >= self._move.duration_s:
            return MoveEnd(reached=True)
        return FlightCommand("position", (*self._p_m, *_heading(YawGoal(self._move.yaw_radps))))


class _Drifting(MoveFlight):
    def __init__(self, move: VelocityMove, flight: SimpleFlight, yaw_rad: float) -> None:
        super().__init__(flight)
        x, y, self._climb_mps = move.v_mps
        if move.in_heading:
            cos = math.cos(yaw_rad)
            sin = math.sin(yaw_rad)
            x, y = cos * x - sin * y, sin * x + cos * y
        self._move = move
        self._xy_mps = x, y
        self._heading = _heading(move.yaw, (x, y))

    def update(self, t_s: float, state: FlightState) -> FlightCommand | MoveEnd:
        z_m = self._move.z_m
        if t_s >= self._move.duration_s:
            return MoveEnd(reached=True)
        climb_mps = (
            self._climb_mps if z_m is None else climb_rate_to(self.flight, z_m - state.p_m[2])
        )
        return FlightCommand(
            "velocity", (*self._xy_mps, climb_mps, *self._heading), holds_height=z_m is not None
        )


class _CompatDrifting(_Drifting):
    """A horizontal velocity at a height, which the horizontal loops take for a vertical velocity.

    Args:
        z_m: the height. start_m: of the vehicle, where its height counts from.
    """

    def __init__(
        self, move: VelocityMove, flight: SimpleFlight, yaw_rad: float, z_m: float, start_m: float
    ) -> None:
        super().__init__(move, flight, yaw_rad)
        self._z_m = z_m
        self._above_start_m = z_m - start_m

    def update(self, t_s: float, state: FlightState) -> FlightCommand | MoveEnd:
        if t_s >= self._move.duration_s:
            return MoveEnd(reached=True)
        q = state.q_world_body
        ahead, left, _ = turned(_inverse(q), (*self._xy_mps, self._above_start_m))
        up = _up_of(q) * climb_rate_to(self.flight, self._z_m - state.p_m[2])
        v_mps = turned(q, (ahead, left, up))
        return FlightCommand("velocity", (*v_mps, *self._heading), holds_height=True)


class _Tilted(MoveFlight):
    """Angles or rates, with a throttle or a height; for the latter the climb loop runs here."""

    def __init__(
        self, move: AttitudeMove | RatesMove, flight: SimpleFlight, climb_integral: float
    ) -> None:
        super().__init__(flight)
        self._move = move
        self._integral = climb_integral
        self._t_s = 0.0

    def update(self, t_s: float, state: FlightState) -> FlightCommand | MoveEnd:
        move = self._move
        if t_s >= move.duration_s:
            return MoveEnd(reached=True)
        throttle = self._throttle(t_s, state)
        if isinstance(move, RatesMove):
            return FlightCommand("rates", (*move.w_body_radps, throttle))
        return FlightCommand(
            "attitude", (move.roll_rad, move.pitch_rad, throttle, *_heading(move.yaw))
        )

    def _throttle(self, t_s: float, state: FlightState) -> float:
        move = self._move
        if move.z_m is None:
            return min(max(move.throttle or 0.0, 0.0), 1.0)
        error = self._climb_error(climb_rate_to(self.flight, move.z_m - state.p_m[2]), state)
        throttle, self._integral = climb(self.flight, error, self._integral, t_s - self._t_s)
        self._t_s = t_s
        return throttle

    def _climb_error(self, climb_mps: float, state: FlightState) -> float:
        return climb_mps - state.v_mps[2]


class _CompatTilted(_Tilted):
    """The climb loop compares velocities along the body's own axis."""

    def _climb_error(self, climb_mps: float, state: FlightState) -> float:
        q = state.q_world_body
        return _up_of(q) * climb_mps - turned(_inverse(q), state.v_mps)[2]


class _Direct(MoveFlight):
    def __init__(self, move: RotorsMove, flight: SimpleFlight) -> None:
        super().__init__(flight)
        self._move = move

    def update(self, t_s: float, state: FlightState) -> FlightCommand | MoveEnd:  # noqa: ARG002
        if t_s >= self._move.duration_s:
            return MoveEnd(reached=True)
        return FlightCommand("rotors", self._move.controls)


class _Manual(MoveFlight):
    """The sticks as a velocity in the heading at the start.

    The original turns them the other way by that heading.
    """

    def __init__(self, move: ManualMove, flight: SimpleFlight, yaw_rad: float) -> None:
        super().__init__(flight)
        self._move = move
        self._cos = math.cos(yaw_rad)
        self._sin = math.sin(yaw_rad)
        self._yaw = move.yaw

    def update(self, t_s: float, state: FlightState) -> FlightCommand | MoveEnd | None:
        move = self._move
        sticks = state.sticks
        if t_s >= move.duration_s:
            return MoveEnd(reached=True)
        if sticks is None:
            return None
        ahead = move.ahead_mps * sticks.pitch
        right = move.right_mps * sticks.roll
        x = self._cos * ahead + self._sin * right
        y = self._sin * ahead - self._cos * right
        self._yaw = replace(self._yaw, value=self._yaw.value - _TURN_RAD * sticks.yaw)
        climb_mps = climb_rate_to(self.flight, move.up_m * sticks.throttle)
        return FlightCommand("velocity", (x, y, climb_mps, *_heading(self._yaw, (x, y))))


def _path_of(
    move: PathMove, flight: SimpleFlight, state: FlightState, *, compat: bool
) -> MoveFlight | MoveEnd:
    if not move.points_m:
        return MoveEnd(reached=True)
    if move.yaw.ahead and move.yaw.by_rate:
        return MoveEnd(
            reached=False, problem="Yaw cannot be specified as rate if drivetrain is ForwardOnly"
        )
    try:
        lookahead_m = lookahead_of(move.speed_mps, move.lookahead_m, move.adaptive)
    except ValueError as exc:
        return MoveEnd(reached=False, problem=str(exc))
    corners_m = (state.p_m, *move.points_m)
    if compat:
        follower = CompatPathFollower(corners_m, move.speed_mps, lookahead_m, move.adaptive)
        return MoveEnd(reached=False) if follower.ended else _CompatPath(move, flight, follower)
    path = PathFollower(corners_m, move.speed_mps, lookahead_m, move.adaptive)
    return _end_at(path.end_m, state) if path.ended else _Path(move, flight, path)


def _spline_of(move: SplineMove, flight: SimpleFlight, state: FlightState) -> MoveFlight | MoveEnd:
    if all(math.dist(point, state.p_m) < NEAR_M for point in move.points_m):
        return MoveEnd(reached=True)
    try:
        return _Spline(move, flight, state)
    except ValueError as exc:
        return MoveEnd(reached=False, problem=str(exc))


def _takeoff_of(
    move: TakeoffMove, flight: SimpleFlight, state: FlightState, *, compat: bool
) -> MoveFlight | MoveEnd:
    speed = math.hypot(*state.v_mps)
    if speed > _STILL_MPS:
        why = (
            f"Cannot perform takeoff because vehicle is already moving with velocity {speed:f} m/s"
        )
        return MoveEnd(reached=False, problem=why)
    x, y, z = state.p_m
    return _path_of(
        PathMove(((x, y, z + _TAKEOFF_M),), _CLIMB_MPS, move.timeout_s),
        flight,
        state,
        compat=compat,
    )


def _end_at(end_m: Point, state: FlightState) -> MoveEnd:
    """Return the end of a path.

    Reached within 0.5 m, where the original wants the progress to be complete.
    """
    return MoveEnd(reached=math.dist(end_m, state.p_m) <= ACCURACY_M)


def _from_north(yaw_rad: float) -> float:
    """Return a heading clockwise from north, from -pi to pi, of one counter-clockwise from east."""
    return math.remainder(0.5 * math.pi - yaw_rad, math.tau)


def _inverse(q: Quaternion) -> Quaternion:
    x, y, z, w = q
    return -x, -y, -z, w


def _up_of(q: Quaternion) -> float:
    """Return the vertical part of the body's axis upwards."""
    x, y, z, w = q
    return w * w - x * x - y * y + z * z


def _heading(yaw: YawGoal, course: tuple[float, ...] = (0.0, 0.0)) -> tuple[float, float, float]:
    """Return heading, rate and whether the rate holds.

    Args:
        yaw: the goal.
        course: metres or m/s, shorter than 0.5 = none; a vertical part counts for its length.
    """
    if yaw.by_rate:
        return 0.0, yaw.value, 1.0
    if not yaw.ahead:
        return yaw.value, 0.0, 0.0
    if math.hypot(*course) <= ACCURACY_M:
        return 0.0, 0.0, 1.0
    return yaw.value + math.atan2(course[1], course[0]), 0.0, 0.0
