"""Cameras that every vehicle has, where AirSim mounts them.

FLU, metres, from the vehicle's origin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vil_bridge.core.geometry import Transform

_BACKWARDS: Final = (0.0, 0.0, 1.0, 0.0)
_DOWN: Final = (0.0, 0.5**0.5, 0.0, 0.5**0.5)
_MULTIROTOR: Final[Mapping[str, Transform]] = {
    "front_center": Transform.of((0.46, 0.0, 0.0)),
    "front_right": Transform.of((0.46, -0.125, 0.0)),
    "front_left": Transform.of((0.46, 0.125, 0.0)),
    "bottom_center": Transform.of((0.0, 0.0, -0.1), _DOWN),
    "back_center": Transform.of((-0.46, 0.0, 0.0), _BACKWARDS),
}
_CAR: Final[Mapping[str, Transform]] = {
    "front_center": Transform.of((2.0, 0.0, 1.0)),
    "front_right": Transform.of((2.0, -1.0, 1.0)),
    "front_left": Transform.of((2.0, 1.0, 1.0)),
    "fpv": Transform.of((0.0, 0.25, 1.25)),
    "back_center": Transform.of((-4.0, 0.0, 1.0), _BACKWARDS),
}
CAMERA_NUMBERS: Final[Mapping[str, str]] = {
    "": "front_center",
    "0": "front_center",
    "1": "front_right",
    "2": "front_left",
    "3": "bottom_center",
    "4": "back_center",
}
"""Names that programs of older versions use.

A vehicle without the camera has the one of that place in its list.
"""


def default_cameras(car: bool) -> Mapping[str, Transform]:
    """Return the poses of a car's or another vehicle's cameras on its body, by name."""
    return _CAR if car else _MULTIROTOR
