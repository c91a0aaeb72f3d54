"""Limits of the numbers of moves and placements."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.vehicle_moves import (
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

_LARGEST: Final = 1e6
_LEAST: Final = 1e-6
_SLOWEST: Final = 0.05
"""Speed and acceleration of a spline."""
_TIMES: Final = ("timeout_s", "duration_s")


def check_move(move: Move, rotors: int) -> None:
    """Check a move of a vehicle with so many rotors.

    Raises:
        ValueRefused: a number is not finite or too large, or there are too many or too few of them.
    """
    if isinstance(move, PathMove) and len(move.points_m) > MOST_POINTS:
        raise ValueRefused(f"a path has at most {MOST_POINTS} points, not {len(move.points_m)}; fly it in parts")
    if isinstance(move, PathMove) and move.speed_mps < 0.0:
        raise ValueRefused(f"speed_mps must not be negative, got {move.speed_mps}")
    if isinstance(move, SplineMove):
        _check_spline(move)
    if isinstance(move, RotorsMove) and len(move.controls) != rotors:
        raise ValueRefused(f"the vehicle has {rotors} rotors, not {len(move.controls)}: give one control for each")
    for name in move.__struct_fields__:
        _check(name, getattr(move, name))


def _check_spline(move: SplineMove) -> None:
    if len(move.points_m) > MOST_SPLINE_POINTS:
        raise ValueRefused(
            f"a spline has at most {MOST_SPLINE_POINTS} points, not {len(move.points_m)}; fly it in parts"
        )
    if move.v_mps and len(move.v_mps) != len(move.points_m):
        raise ValueRefused(f"{len(move.v_mps)} velocities for {len(move.points_m)} points: give one for each")
    for name in ("speed_mps", "acceleration_mps2"):
        if not getattr(move, name) >= _SLOWEST:
            raise ValueRefused(f"{name} must be at least {_SLOWEST}, got {getattr(move, name)}")


def check_placement(placement: VehiclePlacement) -> None:
    """Check a placement.

    Raises:
        ValueRefused: a number is not finite or too large, or the attitude is zero.
    """
    for name in ("p_world_m", "q_world_body", "v_world_mps", "w_body_radps"):
        _check(name, getattr(placement, name))
    if math.hypot(*placement.q_world_body) < _LEAST:
        raise ValueRefused("q_world_body must not be zero (identity is (0, 0, 0, 1))")


def check_gains(gains: LoopGains) -> None:
    """Check gains of a loop. Raises ValueRefused: a number is not finite or too large."""
    for name in gains.__struct_fields__:
        _check(name, getattr(gains, name))


def check_sticks(sticks: StickPositions | None) -> None:
    """Check a remote control. Raises ValueRefused: a stick is not between its ends."""
    if sticks is not None and not all(abs(value) <= 1.0 for value in msgspec.structs.astuple(sticks)):
        raise ValueRefused(f"sticks must be from -1 to 1, not {sticks}")


def check_disturbance(disturbance: VehicleDisturbance, rotors: int) -> None:
    """Check what acts on a vehicle with so many rotors whose places are known.

    Raises:
        ValueRefused: a number is not finite or too large, or the shares are not one of each rotor from 0 to 1.
    """
    for name in disturbance.__struct_fields__:
        _check(name, getattr(disturbance, name))
    shares = disturbance.lost_shares
    if shares is None:
        return
    if not rotors:
        raise ValueRefused("lost_shares: the places of this model's rotors are not known; leave it out")
    if len(shares) != rotors or not all(0.0 <= share <= 1.0 for share in shares):
        raise ValueRefused(f"lost_shares takes one number from 0 to 1 for each of the {rotors} rotors, got {shares}")


def _check(name: str, value: Any) -> None:
    """Check the numbers of a field; times may be as large as they like."""
    for number in _numbers(value):
        if not (math.isfinite(number) and (name in _TIMES or abs(number) <= _LARGEST)):
            raise ValueRefused(f"{name} must be finite and at most {_LARGEST:g}, got {number}")


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.astuple(value)
    if isinstance(value, tuple):
        for part in value:
            yield from _numbers(part)
    elif value is not None:
        yield float(value)
