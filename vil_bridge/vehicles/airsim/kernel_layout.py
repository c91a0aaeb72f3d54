"""How a tile of AirSim vehicles and their parameters lie in memory: offsets of rows of 16 numbers, and of numbers.

The rows of a rigid body, its controller and its surroundings are at constant offsets: so the compiler knows that
they do not overlap. Those of rotors and servos, whose number varies, follow from :data:`VARYING`: controls,
servo angles, with compat the controls that push, commanded controls, commanded angles, wanted controls, cosines and
sines of the angles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.vehicles.airsim.simple_flight import MODES
from vil_bridge.vehicles.compile import LANES

if TYPE_CHECKING:
    from vil_bridge.vehicles.airsim.model import AirsimMultirotor

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
"""The state without rotors and servos, in its order; RIGID of its columns stand before those, STATE are there."""
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
"""What the controller asks of the mixer; 1 where a command timed out; extremes of the rotors."""

VARYING: Final = 73 * LANES

COUNT, SERVOS, MODE, COMPAT, MASS, INERTIA, DRAG = 0, 1, 2, 3, 4, 5, 8
GAINS: Final = 11
"""Of simple_flight, 11 numbers in the order of its fields."""
TILTS: Final = 22
TILT_SIZE: Final = 3
"""Of each servo: lag, stops. The rotors follow, each with position 9, axis 9, thrust, torque, servo, mixing 3,
largest control, lag."""
ROTOR_SIZE: Final = 26


def pack(model: AirsimMultirotor) -> FloatArray:
    """The parameters of a model as one array."""
    table, flight = model.table, model.flight
    rotors, tilts = len(model.airframe.rotors), len(model.airframe.tilts)
    head = (rotors, tilts, MODES.index(model.mode), model.compat is not None, model.airframe.mass_kg)
    gains = (
        *(flight.position_p, flight.velocity_p, flight.climb_p, flight.climb_i, flight.angle_p, flight.rate_p),
        *(flight.max_speed_mps, flight.max_angle_rad, flight.max_rate_radps),
        *(flight.min_throttle, flight.min_angling_throttle),
    )
    servos = np.column_stack((table.tilt_tau_s, table.tilt_low_rad, table.tilt_high_rad))
    each = np.column_stack(
        (
            table.positions_m.reshape(rotors, 9),
            table.axes.reshape(rotors, 9),
            table.max_thrust_n,
            table.max_torque_nm,
            table.servo,
            table.mixing,
            table.control_max,
            table.tau_s,
        )
    )
    body = (*model.inertia_kgm2, *model.drag_factors_m2)
    return np.concatenate((head, body, gains, servos.ravel(), each.ravel())).astype(np.float64)
