"""Domains of the arguments of AirSim's calls.

How a right value is drawn, and values that the server refuses.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Draw = Callable[[random.Random], Any]

NAN: Final = math.nan
LENSES: Final = (0.0, 0.001)
"""K1 of the only camera whose lens programs change.

The renderer holds 128 MB of lenses, which hide what else grows.
"""
LENS_CAMERA: Final = "back_center"


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument: how a right value is drawn, and values that the server refuses."""

    draw: Draw
    refused: tuple[Any, ...] = ()


NO_NUMBER: Final[tuple[Any, ...]] = ("far", None, [], {})
NO_STRUCT: Final[tuple[Any, ...]] = (7, "x", None, [1, 2])


def number(least: float, most: float, *refused: Any) -> Argument:
    """Return a domain of floats, and of whole numbers, which clients send for them."""
    low, high = math.ceil(least), math.floor(most)

    def draw(r: random.Random) -> float:
        return r.randint(low, high) if low <= high and r.random() < 0.3 else r.uniform(least, most)

    return Argument(draw, (*NO_NUMBER, *refused))


def whole(least: int, most: int, *refused: Any) -> Argument:
    return Argument(lambda r: r.randint(least, most), ("many", None, 1.5, [], *refused))


def one_of(*values: Any, refused: tuple[Any, ...] = (5, None, [])) -> Argument:
    return Argument(lambda r: r.choice(values), refused)


def list_of(item: Draw, most: int, refused: tuple[Any, ...] = (5, None, "x")) -> Argument:
    return Argument(lambda r: [item(r) for _ in range(r.randint(0, most))], refused)


def vector_of(reach: float) -> Draw:
    return lambda r: {key: r.uniform(-reach, reach) for key in ("x_val", "y_val", "z_val")}


def high_point(r: random.Random) -> dict[str, float]:
    """Return a point above the floor, 15 m around."""
    return {
        "x_val": r.uniform(-15.0, 15.0),
        "y_val": r.uniform(-15.0, 15.0),
        "z_val": r.uniform(-12.0, -2.0),
    }


def attitude(r: random.Random) -> dict[str, float]:
    return {key: r.gauss(0.0, 1.0) for key in ("w_val", "x_val", "y_val", "z_val")}


def random_pose(r: random.Random) -> dict[str, Any]:
    unknown = {"x_val": NAN, "y_val": NAN, "z_val": NAN}
    return {
        "position": r.choice((high_point(r), high_point(r), unknown)),
        "orientation": attitude(r),
    }


def kinematics(r: random.Random) -> dict[str, Any]:
    return {
        "position": high_point(r),
        "orientation": attitude(r),
        "linear_velocity": vector_of(3.0)(r),
        "angular_velocity": vector_of(1.0)(r),
    }


def geo_point(r: random.Random) -> dict[str, float]:
    return {
        "latitude": 47.641468 + r.uniform(-1e-4, 1e-4),
        "longitude": -122.140165 + r.uniform(-1e-4, 1e-4),
        "altitude": 122.0 + r.uniform(1.0, 10.0),
    }


def image_request(r: random.Random) -> dict[str, Any]:
    return {
        "camera_name": r.choice(("0", "front_center", "front_right", LENS_CAMERA)),
        "image_type": r.randint(0, 9),
        "pixels_as_float": r.random() < 0.4,
        "compress": r.random() < 0.4,
    }


def car_controls(r: random.Random) -> dict[str, Any]:
    return {
        "throttle": r.uniform(-1.0, 1.0),
        "steering": r.uniform(-1.0, 1.0),
        "brake": r.choice((0.0, 0.0, 1.0)),
        "is_manual_gear": r.random() < 0.3,
        "manual_gear": r.choice((-1, 0, 1)),
    }


def sticks(r: random.Random) -> dict[str, Any]:
    return {"is_valid": r.random() < 0.7} | {
        key: r.uniform(-1.0, 1.0) for key in ("pitch", "roll", "throttle", "yaw")
    }


FLAG: Final = one_of(True, False, refused=("perhaps", None, []))
YAW: Final = Argument(
    lambda r: {"is_rate": r.random() < 0.5, "yaw_or_rate": r.uniform(-180.0, 180.0)},
    (*NO_STRUCT, {"is_rate": "perhaps"}),
)
NEVER_RATE: Final = Argument(
    lambda r: {"is_rate": False, "yaw_or_rate": r.uniform(-180.0, 180.0)}, YAW.refused
)
TRACKER_GAINS: Final = Argument(
    lambda r: [
        g * r.uniform(0.5, 2.0)
        for g in (7.5, 0.0, 5.0, 0.0, 0.4, 0.0, 0.04, 0.0, 2.0, 0.0, 0.4, 0.0, 3.0, 0.1)
    ],
    (5, None, [], [1.0] * 13, [1.0] * 15),
)
GAINS: Final = Argument(
    lambda r: [r.choice((0.0, 0.2, r.uniform(0.0, 1.0))) for _ in range(3)],
    (5, None, [], [1.0, 1.0], [NAN] * 3, [1e9] * 3),
)
STICKS: Final = Argument(
    sticks, (*NO_STRUCT, {"is_valid": True, "roll": 1.5}, {"is_valid": True, "yaw": NAN})
)
DRIVETRAIN: Final = whole(0, 1)
DURATION: Final = number(0.0, 1.0)
TIMEOUT: Final = number(0.5, 3.0)
CAMERA: Final = one_of("0", "1", "front_center", LENS_CAMERA, refused=("no such camera", 5, None))
TYPE: Final = whole(0, 9, -1, 10, 1 << 40)
POSE: Final = Argument(random_pose, (*NO_STRUCT, {"position": {"x_val": "far"}}))
POINT: Final = Argument(high_point, (*NO_STRUCT, {"z_val": []}))
GEO: Final = Argument(geo_point, (*NO_STRUCT, {"altitude": "high"}))
SCALE: Final = Argument(
    lambda r: {key: r.uniform(0.2, 3.0) for key in ("x_val", "y_val", "z_val")},
    (
        *NO_STRUCT,
        {"x_val": 0.0, "y_val": 1.0, "z_val": 1.0},
        {"x_val": 1e9, "y_val": 1.0, "z_val": 1.0},
    ),
)
COLOUR: Final = Argument(lambda r: [r.random() for _ in range(4)], (5, None, ["red", 0, 0, 1]))
POINTS: Final = list_of(high_point, 5)
SIZE: Final = number(0.0, 10.0)
TEXT: Final = Argument(lambda r: "".join(r.choices("abc ü\n", k=r.randint(0, 30))), (5, None, []))
