"""Airframes of the FlightGoggles multicopter by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vil_bridge.vehicles.multicopter import MulticopterParameters, Rotor

_ARM_M: Final = 0.08

_AUTOPILOT_QUAD_X: Final = (
    Rotor((_ARM_M, -_ARM_M, 0.0), direction=-1.0),
    Rotor((-_ARM_M, _ARM_M, 0.0), direction=-1.0),
    Rotor((_ARM_M, _ARM_M, 0.0), direction=1.0),
    Rotor((-_ARM_M, -_ARM_M, 0.0), direction=1.0),
)
"""Front right, rear left, front left, rear right; the first two turn counter-clockwise seen from above."""

PRESETS: Final[Mapping[str, MulticopterParameters]] = {
    "flightgoggles": MulticopterParameters(),
    "autopilot_quad_x": MulticopterParameters(rotors=_AUTOPILOT_QUAD_X),
}
"""flightgoggles: the simulator's drone. autopilot_quad_x: the same with rotors in the order and with the turning sense
of PX4, ArduPilot and Betaflight."""
