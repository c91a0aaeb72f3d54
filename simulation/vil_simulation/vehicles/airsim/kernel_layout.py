"""Memory layout of a tile of AirSim vehicles and of their parameters.

Offsets of rows of 16 numbers, and of numbers.

The rows of a rigid body, its controller and its surroundings are at constant offsets: so the
compiler knows that they do not overlap. Those of rotors and servos, whose number varies, follow
from :data:`VARYING`: controls, servo angles, with compat the controls that push, commanded
controls, commanded angles, wanted controls, cosines and sines of the angles.
"""

from __future__ import annotations

from typing import Final

from vil_bridge.core.compile import LANES

P: Final = 0
V: Final = 3 * LANES
Q: Final = 6 * LANES
W: Final = 10 * LANES
A: Final = 13 * LANES
ALPHA: Final = 16 * LANES
GROUNDED: Final = 19 * LANES
INTEGRAL: Final = 20 * LANES
LEFT: Final = 21 * LANES
HOLD: Final = 22 * LANES
HOLD_YAW: Final = 25 * LANES
"""The state without rotors and servos, in its order.

RIGID of its columns stand before those, STATE are there.
"""
RIGID: Final = 13
STATE: Final = 26

AROUND: Final = STATE * LANES
DENSITY: Final = AROUND + 9 * LANES
GRAVITY: Final = AROUND + 10 * LANES
FACTOR: Final = AROUND + 11 * LANES
"""The surroundings, 12 rows."""

COMMAND: Final = 38 * LANES
"""The command but for rotors and servos, up to 6 rows."""

FORCE: Final = 44 * LANES
TORQUE: Final = 47 * LANES
"""Of the rotors, body."""

Q1: Final = 50 * LANES
V1: Final = 54 * LANES
W1: Final = 57 * LANES
A1: Final = 60 * LANES
ALPHA1: Final = 63 * LANES
"""The step's other end."""

DEMAND: Final = 66 * LANES
THROTTLE: Final = 69 * LANES
HOLDING: Final = 70 * LANES
LOWEST: Final = 71 * LANES
HIGHEST: Final = 72 * LANES
"""Demands of the controller to the mixer; 1 where a command timed out; extremes of the rotors."""

VARYING: Final = 73 * LANES

COUNT = 0
SERVOS = 1
MODE = 2
COMPAT = 3
MASS = 4
INERTIA = 5
DRAG = 8
GAINS: Final = 11
POSITION_P = GAINS
VELOCITY_P = GAINS + 3
CLIMB_I = GAINS + 6
ANGLE_P = GAINS + 7
RATE_P = GAINS + 10
LIMITS = GAINS + 13
"""Of simple_flight: three axes of each loop.

Then the limits in the order of its fields, 5 numbers.
"""
TILTS: Final = 29
TILT_SIZE: Final = 3
"""Of each servo: lag, stops.

The rotors follow, each with position 9, axis 9, thrust, torque, servo, mixing 3, largest control,
lag.
"""
ROTOR_SIZE: Final = 26
