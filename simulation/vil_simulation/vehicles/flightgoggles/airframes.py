"""Airframes of the FlightGoggles multicopter by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from vil_bridge.core.elementary import sin_cos
from vil_simulation.vehicles.multicopter import MulticopterParameters, Rotor

_ARM_M: Final = 0.08

_AUTOPILOT_QUAD_X: Final = (
    Rotor((_ARM_M, -_ARM_M, 0.0), direction=-1.0),
    Rotor((-_ARM_M, _ARM_M, 0.0), direction=-1.0),
    Rotor((_ARM_M, _ARM_M, 0.0), direction=1.0),
    Rotor((-_ARM_M, -_ARM_M, 0.0), direction=1.0),
)
"""Front right, rear left, front left, rear right.

The first two turn counter-clockwise seen from above.
"""

_RING_M: Final = 0.2
_CLOCKWISE = 1.0
_COUNTER_CLOCKWISE = -1.0


def _ring(*rotors: tuple[float, float]) -> tuple[Rotor, ...]:
    """Return rotors at angles in degrees, clockwise from ahead as seen from above, each with its
    turning sense.
    """
    return tuple(Rotor(_on_ring(math.radians(deg)), direction=turn) for deg, turn in rotors)


def _on_ring(angle_rad: float) -> tuple[float, float, float]:
    sine, cosine = sin_cos(angle_rad)
    return _RING_M * float(cosine), -_RING_M * float(sine), 0.0


_AUTOPILOT_HEXA_X: Final = _ring(
    (90.0, _CLOCKWISE),
    (-90.0, _COUNTER_CLOCKWISE),
    (-30.0, _CLOCKWISE),
    (150.0, _COUNTER_CLOCKWISE),
    (30.0, _COUNTER_CLOCKWISE),
    (-150.0, _CLOCKWISE),
)
_AUTOPILOT_OCTO_X: Final = _ring(
    (22.5, _CLOCKWISE),
    (-157.5, _CLOCKWISE),
    (67.5, _COUNTER_CLOCKWISE),
    (157.5, _COUNTER_CLOCKWISE),
    (-22.5, _COUNTER_CLOCKWISE),
    (-112.5, _COUNTER_CLOCKWISE),
    (-67.5, _CLOCKWISE),
    (112.5, _CLOCKWISE),
)
"""Motors 1 to 6 and 1 to 8 of ArduPilot's frames hexa X and octa X (AP_MotorsMatrix), which PX4
numbers alike.
"""

PRESETS: Final[Mapping[str, MulticopterParameters]] = {
    "flightgoggles": MulticopterParameters(),
    "autopilot_quad_x": MulticopterParameters(rotors=_AUTOPILOT_QUAD_X),
    "autopilot_hexa_x": MulticopterParameters(rotors=_AUTOPILOT_HEXA_X),
    "autopilot_octo_x": MulticopterParameters(rotors=_AUTOPILOT_OCTO_X),
}
"""flightgoggles: the simulator's drone. autopilot_quad_x.

The same with rotors in the order and with the turning sense of PX4, ArduPilot and Betaflight.
autopilot_hexa_x, autopilot_octo_x: six and eight such rotors on a ring.
"""
