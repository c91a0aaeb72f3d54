"""Moves of simulated vehicles: goals that take a while and end by themselves.

Room frame ENU, body FLU, SI units.

They are AirSim's (microsoft/AirSim, MultirotorApiBase.cpp), in this project's axes. The simulation
flies them in its own time, so that they take as many simulated seconds at any speed of the clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import msgspec

Point = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

MOST_POINTS: Final = 5_000
"""Corners of a path, at most: as many are checked and sent to a simulation within a millisecond."""
MOST_SPLINE_POINTS: Final = 200
"""Points of a spline, at most: they are solved for together."""


Loop = Literal["rate", "angle", "velocity", "position"]
"""Loops of AirSim's flight controller, from the innermost one."""


class LoopGains(msgspec.Struct, frozen=True):
    """Gains of a loop along its axes.

    Attributes:
        p, i, d: of the error, of its integral and of its rate of change. Axes of ``rate`` and
            ``angle``: roll, pitch, yaw; of ``velocity``: ahead, left, up; of ``position``: x, y, z
            of the room.
    """

    p: Point
    i: Point = (0.0, 0.0, 0.0)
    d: Point = (0.0, 0.0, 0.0)


class YawGoal(msgspec.Struct, frozen=True):
    """Heading during a move.

    Attributes:
        value: rad/s counter-clockwise with ``by_rate``, else rad from the room's x axis.
        ahead: the heading is relative to the course (AirSim's ForwardOnly). A path refuses it
            together with ``by_rate``; elsewhere the rate holds then.
    """

    value: float = 0.0
    by_rate: bool = True
    ahead: bool = False


class PathMove(msgspec.Struct, frozen=True, tag="path"):
    """Fly along a polyline from the present position at a constant speed.

    Attributes:
        points_m: corners, room frame, at most :data:`MOST_POINTS`. timeout_s: simulated seconds.
        lookahead_m: distance of the point that is followed; negative = from the speed.
        adaptive: AirSim's adaptive lookahead: share of the distance from the path that is added; 0
            = none.
    """

    points_m: tuple[Point, ...]
    speed_mps: float
    timeout_s: float
    yaw: YawGoal = YawGoal()
    lookahead_m: float = -1.0
    adaptive: float = 1.0


class TrackerGains(msgspec.Struct, frozen=True):
    """Factors on the gains with which a vehicle follows a spline.

    Attributes:
        cross, along: of the distance from the curve's point, across the way and along it.
            cross_speed, along_speed: of the difference of the velocities. height: of the vertical
            distance.
    """

    cross: float = 1.0
    cross_speed: float = 1.0
    along: float = 1.0
    along_speed: float = 1.0
    height: float = 1.0


class SplineMove(msgspec.Struct, frozen=True, tag="spline"):
    """Fly along a smooth curve from the present motion through points, looking ahead.

    It ends at rest.

    Attributes:
        points_m: room frame, at most :data:`MOST_SPLINE_POINTS`.
        v_mps: velocity at each point; empty = free, and at rest at the end.
        speed_mps, acceleration_mps2: of the curve, at most.
    """

    points_m: tuple[Point, ...]
    speed_mps: float
    acceleration_mps2: float
    v_mps: tuple[Point, ...] = ()
    gains: TrackerGains = TrackerGains()


class VelocityMove(msgspec.Struct, frozen=True, tag="velocity"):
    """Fly at a velocity for a while.

    Attributes:
        v_mps: room frame; with ``in_heading`` x ahead and y left of the heading at the start, z up.
        z_m: height to hold instead of the vertical velocity; None = the velocity holds.
    """

    v_mps: Point
    duration_s: float
    yaw: YawGoal = YawGoal()
    in_heading: bool = False
    z_m: float | None = None


class AttitudeMove(msgspec.Struct, frozen=True, tag="attitude"):
    """Hold roll and pitch for a while, a heading or yaw rate, and a throttle or a height.

    Attributes:
        roll_rad: right side down. pitch_rad: nose down. throttle: 0..1; None = ``z_m`` holds.
    """

    roll_rad: float
    pitch_rad: float
    yaw: YawGoal
    duration_s: float
    throttle: float | None = None
    z_m: float | None = None


class RatesMove(msgspec.Struct, frozen=True, tag="rates"):
    """Turn at body rates for a while, with a throttle (0..1) or a height."""

    w_body_radps: Point
    duration_s: float
    throttle: float | None = None
    z_m: float | None = None


class RotorsMove(msgspec.Struct, frozen=True, tag="rotors"):
    """Give each rotor a control value (0..1, the model's order of rotors) for a while."""

    controls: tuple[float, ...]
    duration_s: float


class TurnMove(msgspec.Struct, frozen=True, tag="turn"):
    """Turn to a heading in place; ends within ``margin_rad`` of it and at rest."""

    yaw_rad: float
    margin_rad: float
    timeout_s: float


class TurnRateMove(msgspec.Struct, frozen=True, tag="turn_rate"):
    """Hold the position and turn at a rate (counter-clockwise) for a while."""

    yaw_radps: float
    duration_s: float


class TakeoffMove(msgspec.Struct, frozen=True, tag="takeoff"):
    """Climb by two metres at 0.5 m/s; refused while the vehicle moves."""

    timeout_s: float


class LandMove(msgspec.Struct, frozen=True, tag="land"):
    """Sink at 0.2 m/s until the vehicle sinks no more."""

    timeout_s: float


class HomeMove(msgspec.Struct, frozen=True, tag="home"):
    """Fly back to the start at 0.5 m/s."""

    timeout_s: float


class StickPositions(msgspec.Struct, frozen=True):
    """StickPositions of a remote control, -1 to 1: right, ahead, up, clockwise."""

    roll: float = 0.0
    pitch: float = 0.0
    throttle: float = 0.0
    yaw: float = 0.0


class ManualMove(msgspec.Struct, frozen=True, tag="manual"):
    """Fly as the sticks of the vehicle's remote control say, for a while.

    Without sticks the vehicle stays.

    Attributes:
        ahead_mps, right_mps: velocity in the heading at the start, at a stick of 1. up_m: height of
            the goal above the vehicle, at a throttle of 1.
        yaw: turned further by the yaw stick, as AirSim's.
    """

    ahead_mps: float
    right_mps: float
    up_m: float
    duration_s: float
    yaw: YawGoal = YawGoal()


class HoverMove(msgspec.Struct, frozen=True, tag="hover"):
    """Stay at the present position; ends at once with ``reached`` False, as AirSim's does."""


Move = (
    PathMove
    | SplineMove
    | VelocityMove
    | AttitudeMove
    | RatesMove
    | RotorsMove
    | TurnMove
    | TurnRateMove
    | TakeoffMove
    | LandMove
    | HomeMove
    | HoverMove
    | ManualMove
)


@dataclass(frozen=True, slots=True)
class MoveEnd:
    """End of a move.

    Attributes:
        reached: the goal was reached, or the whole duration passed.
        problem: why the move was refused, in AirSim's words; empty = it was flown.
    """

    reached: bool
    problem: str = ""


@dataclass(frozen=True, slots=True)
class VehiclePlacement:
    """State that a simulated vehicle is put into, room frame ENU and body FLU.

    It holds at once, at any state of the clock, and ends the running move.

    Attributes:
        sweep: stop at the first contact between here and there.
    """

    p_world_m: Point
    q_world_body: Quaternion
    v_world_mps: Point = (0.0, 0.0, 0.0)
    w_body_radps: Point = (0.0, 0.0, 0.0)
    sweep: bool = False


class VehicleDisturbance(msgspec.Struct, frozen=True, array_like=True):
    """Air, force and broken rotors of a simulated vehicle from now on, a reset included.

    None = unchanged.

    Attributes:
        wind_world_mps: mean velocity of the air, room frame, instead of the configured one; gusts
            go on.
        force_world_n: on the centre of gravity, room frame.
        lost_shares: of thrust and torque that each rotor loses at once, 0 to 1, in the model's
            order.
    """

    wind_world_mps: Point | None = None
    force_world_n: Point | None = None
    lost_shares: tuple[float, ...] | None = None


class VehicleCollision(msgspec.Struct, frozen=True, array_like=True):
    """Newest contact of a vehicle with the world or another vehicle, room frame ENU.

    Attributes:
        t_ns: bridge time. normal_world: unit, out of the obstacle.
        point_world_m: where they touch. p_world_m: the vehicle then. depth_m: how far it was
            inside.
        other: name of what it hit; empty = unknown.
    """

    t_ns: int
    normal_world: Point
    point_world_m: Point
    p_world_m: Point
    depth_m: float
    other: str = ""


@dataclass(frozen=True, slots=True)
class RotorOutput:
    """A rotor: thrust, torque about the upward axis (positive for clockwise rotors, as
    AirSim's), speed.
    """

    thrust_n: float
    torque_nm: float
    speed_radps: float
