"""Limits of the numbers of moves and placements."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np

from vil_bridge.core.errors import ValueRefused
from vil_bridge.interfaces.vehicle_moves import (
    MOST_POINTS,
    MOST_SPLINE_POINTS,
    LoopGains,
    Move,
    PathMove,
    RotorsMove,
    SplineMove,
    StickPositions,
    VehicleDisturbance,
    VehiclePlacement,
)
from vil_simulation.vehicles.physical_ranges import (
    ACCELERATION,
    ANGLE,
    FACTOR,
    FORCE,
    GAIN,
    POSITION,
    QUATERNION,
    RATE,
    SHARE,
    SPEED,
    TIMEOUT,
    WIND,
)

_LEAST: Final = 1e-6
_SLOWEST: Final = 0.05
"""Speed and acceleration of a spline."""
_RANGES: Final = {
    "timeout_s": TIMEOUT,
    "duration_s": TIMEOUT,
    "points_m": POSITION,
    "lookahead_m": POSITION,
    "z_m": POSITION,
    "up_m": POSITION,
    "speed_mps": SPEED,
    "v_mps": SPEED,
    "ahead_mps": SPEED,
    "right_mps": SPEED,
    "acceleration_mps2": ACCELERATION,
    "yaw": ANGLE,
    "yaw_rad": ANGLE,
    "margin_rad": ANGLE,
    "roll_rad": ANGLE,
    "pitch_rad": ANGLE,
    "yaw_radps": RATE,
    "w_body_radps": RATE,
    "throttle": SHARE,
    "controls": SHARE,
    "adaptive": FACTOR,
    "gains": GAIN,
    "p_world_m": POSITION,
    "q_world_body": QUATERNION,
    "v_world_mps": SPEED,
    "p": GAIN,
    "i": GAIN,
    "d": GAIN,
    "wind_world_mps": WIND,
    "force_world_n": FORCE,
    "lost_shares": SHARE,
}
"""Of the fields of moves, placements, gains and disturbances."""


def check_move(move: Move, rotors: int) -> None:
    """Check a move of a vehicle with so many rotors.

    Raises:
        ValueRefused: a number is beyond the range of its kind, or there are too many or too few of
            them.
    """
    if isinstance(move, PathMove) and len(move.points_m) > MOST_POINTS:
        raise ValueRefused(
            f"a path has at most {MOST_POINTS} points, not {len(move.points_m)}; fly it in parts"
        )
    if isinstance(move, PathMove) and move.speed_mps < 0.0:
        raise ValueRefused(f"speed_mps must not be negative, got {move.speed_mps}")
    if isinstance(move, SplineMove):
        _check_spline(move)
    if isinstance(move, RotorsMove) and len(move.controls) != rotors:
        raise ValueRefused(
            f"the vehicle has {rotors} rotors, not {len(move.controls)}: give one control for each"
        )
    for name in move.__struct_fields__:
        _check(name, getattr(move, name))


def _check_spline(move: SplineMove) -> None:
    if len(move.points_m) > MOST_SPLINE_POINTS:
        raise ValueRefused(
            f"a spline has at most {MOST_SPLINE_POINTS} points, not {len(move.points_m)}; "
            "fly it in parts"
        )
    if move.v_mps and len(move.v_mps) != len(move.points_m):
        raise ValueRefused(
            f"{len(move.v_mps)} velocities for {len(move.points_m)} points: give one for each"
        )
    for name in ("speed_mps", "acceleration_mps2"):
        if not getattr(move, name) >= _SLOWEST:
            raise ValueRefused(f"{name} must be at least {_SLOWEST}, got {getattr(move, name)}")


def check_placement(placement: VehiclePlacement) -> None:
    """Check a placement.

    Raises:
        ValueRefused: a number is beyond the range of its kind, or the attitude is zero.
    """
    for name in ("p_world_m", "q_world_body", "v_world_mps", "w_body_radps"):
        _check(name, getattr(placement, name))
    if math.hypot(*placement.q_world_body) < _LEAST:
        raise ValueRefused("q_world_body must not be zero (identity is (0, 0, 0, 1))")


def check_gains(gains: LoopGains) -> None:
    """Check gains of a loop. Raises ValueRefused: a number is beyond the range of its kind."""
    for name in gains.__struct_fields__:
        _check(name, getattr(gains, name))


def check_sticks(sticks: StickPositions | None) -> None:
    """Check a remote control. Raises ValueRefused: a stick is not between its ends."""
    if sticks is not None and not all(
        abs(value) <= 1.0 for value in msgspec.structs.astuple(sticks)
    ):
        raise ValueRefused(f"sticks must be from -1 to 1, not {sticks}")


def check_disturbance(disturbance: VehicleDisturbance, rotors: int) -> None:
    """Check what acts on a vehicle with so many rotors whose places are known.

    Raises:
        ValueRefused: a number is beyond the range of its kind, or the shares are not one of each
            rotor from 0 to 1.
    """
    for name in disturbance.__struct_fields__:
        _check(name, getattr(disturbance, name))
    shares = disturbance.lost_shares
    if shares is None:
        return
    if not rotors:
        raise ValueRefused(
            "lost_shares: the places of this model's rotors are not known; leave it out"
        )
    if len(shares) != rotors or not all(0.0 <= share <= 1.0 for share in shares):
        raise ValueRefused(
            f"lost_shares takes one number from 0 to 1 for each of the {rotors} rotors, "
            f"got {shares}"
        )


def _check(name: str, value: Any) -> None:
    """Check the numbers of a field; what is not a number, such as a flag, has no range."""
    permitted = _RANGES.get(name)
    if permitted is None:
        return
    # Thousands, which are sought through one by one only where one of them is wrong.
    if name == "points_m":
        rows = np.fromiter(chain.from_iterable(value), np.float64)
        if permitted.has_all(rows):
            return
    permitted.check(name, _numbers(value))


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.astuple(value)
    if isinstance(value, tuple):
        for part in value:
            yield from _numbers(part)
    elif value is not None:
        yield float(value)
