"""AirSim's flight controller simple_flight.

Position, velocity, angle and rate loops around each other, and the mixer.

Every level may be commanded; the levels above it rest. All in ENU/FLU: a positive pitch lowers the
nose, a positive yaw turns left. The state is the true one, no estimator.

Some things differ from the original, which is wrong there. Velocities are compared in the heading
frame: it uses the rolled and pitched body, so that it climbs while it gains or loses speed. A
position error acts through all axes: it drops the cross terms, so that positions are missed when
the nose does not point north (y). The integral of the climb loop goes on when a command times out:
it begins again, and fades besides; the heading is not held then, but a rate of zero. ``compat``
does as the original.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

import numpy as np

from vil_bridge.core.geometry import q_conj, q_rotate
from vil_bridge.core.matrices import product
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.interfaces.vehicle_moves import Loop, LoopGains
from vil_simulation.vehicles.layout import Field, StateLayout

Mode = Literal["rotors", "rates", "attitude", "velocity", "position"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
LOOPS: Final[tuple[Loop, ...]] = get_args(Loop)

FOREVER_S: Final = 1e9
EXPIRED_S: Final = 1e-9
HOLDING_S: Final = -1.0
FADING: Final = 0.9999
"""Share of the climb loop's integral that the original keeps in every update."""

CONTROLLER_FIELDS: Final = (
    Field("climb_integral", 1, "1", "integral of the climb rate loop, within +-1"),
    Field(
        "command_left_s",
        1,
        "s",
        "until the command times out; set with every command; below 0: holding",
    ),
    Field("hold_p_world_m", 3, "m", "where the vehicle was when its command timed out, ENU"),
    Field("hold_yaw_rad", 1, "rad", "and its heading"),
)
"""State of every controller, columns of the vehicle's state."""
_MEMORY: Final = 3 * len(LOOPS)


def controller_fields(flight: SimpleFlight) -> tuple[Field, ...]:
    """Return the state of a controller.

    One that integrates or differentiates errors remembers them.
    """
    size = _MEMORY if flight.remembers else 0
    return (
        *CONTROLLER_FIELDS,
        Field(
            "loop_integrals",
            size,
            "1",
            "integrals of the loops' errors, within +-1, three axes each",
        ),
        Field("loop_errors", size, "1", "the loops' newest errors"),
        Field(
            "loop_level",
            1 if size else 0,
            "1",
            "1 + number of the mode that they are of; 0: they are of none",
        ),
    )


_YAW: Final = (
    Field("yaw_rad", 1, "rad", "heading, counter-clockwise from east"),
    Field("yaw_rate_radps", 1, "rad/s", "where yaw_by_rate is set"),
    Field("yaw_by_rate", 1, "1", "0: hold yaw_rad, 1: turn at yaw_rate_radps"),
)
_THROTTLE: Final = Field("throttle", 1, "1", "0 to 1")


_POSITION: Final = LoopGains((0.25, 0.25, 0.25))
_VELOCITY: Final = LoopGains((0.2, 0.2, 2.0), (0.0, 0.0, 2.0))
_ANGLE: Final = LoopGains((2.5, 2.5, 2.5))
_RATE: Final = LoopGains((0.25, 0.25, 0.25))


@dataclass(frozen=True, slots=True)
class SimpleFlight:
    """Gains and limits.

    Each loop's output is limited to +-1 and scales the limit of the level below.

    Attributes:
        position, velocity, angle, rate: gains of the loops.
        timeout_s: what those who want the original's time-out put into ``command_left_s`` with
            every command.
        max_speed_mps: towards a position; commanded velocities have no limit.
        min_throttle: of the climb loop; below the control that hovers, or the vehicle only climbs.
        min_angling_throttle: below it all rotors get the throttle alone.
    """

    position: LoopGains = _POSITION
    velocity: LoopGains = _VELOCITY
    angle: LoopGains = _ANGLE
    rate: LoopGains = _RATE
    max_speed_mps: float = 6.0
    max_angle_rad: float = math.pi / 5.5
    max_rate_radps: float = 2.5
    min_throttle: float = 0.3
    min_angling_throttle: float = 0.05
    timeout_s: float = 0.06

    @property
    def remembers(self) -> bool:
        """True if a loop other than that of the climb rate integrates, or one differentiates."""
        position = self.position
        velocity = self.velocity
        angle = self.angle
        rate = self.rate
        integrates = any((*position.i, *velocity.i[:2], *angle.i, *rate.i))
        return integrates or any((*position.d, *velocity.d, *angle.d, *rate.d))


class ControllerState(NamedTuple):
    """:func:`controller_fields` of n vehicles: (n, 1), (n, 1), (n, 3), (n, 1).

    (n, 12), (n, 12), (n, 1), or empty.
    """

    climb_integral: FloatArray
    command_left_s: FloatArray
    hold_p_world_m: FloatArray
    hold_yaw_rad: FloatArray
    loop_integrals: FloatArray
    loop_errors: FloatArray
    loop_level: FloatArray


class _Loops:
    """The loops of n controllers in one update.

    A level that is commanded from now on begins without a memory.

    Args:
        level: number of the mode in effect, (n, 1).

    """

    def __init__(
        self, flight: SimpleFlight, memory: ControllerState, level: FloatArray, dt_s: float
    ) -> None:
        self._flight = flight
        self._dt_s = dt_s
        self._level = level + 1.0 if flight.remembers else memory.loop_level
        self._begins = memory.loop_level != self._level
        self._integrals = np.where(self._begins, 0.0, memory.loop_integrals)
        self._errors = memory.loop_errors.copy()

    def output(self, loop: Loop, error: FloatArray) -> FloatArray:
        """Return what a loop adds to the level below, (n, 3), not limited.

        Without the climb loop's integral.
        """
        gains: LoopGains = getattr(self._flight, loop)
        out: FloatArray = np.array(gains.p) * error
        if not self._flight.remembers or self._dt_s == 0.0:
            return out
        at = slice(3 * LOOPS.index(loop), 3 * LOOPS.index(loop) + 3)
        i = np.array(gains.i) * ((1.0, 1.0, 0.0) if loop == "velocity" else 1.0)
        self._integrals[:, at] = np.clip(self._integrals[:, at] + i * self._dt_s * error, -1.0, 1.0)
        before = np.where(self._begins, error, self._errors[:, at])
        self._errors[:, at] = error
        return out + self._integrals[:, at] + np.array(gains.d) * (error - before) / self._dt_s

    def remembered(self, memory: ControllerState) -> ControllerState:
        """Return a controller's state with the new memory of its loops."""
        return memory._replace(
            loop_integrals=self._integrals, loop_errors=self._errors, loop_level=self._level
        )


def commands_of(rotors: int, tilts: int) -> dict[str, StateLayout]:
    """Return columns of the commands of every mode, for a vehicle of so many rotors and tilt
    servos.
    """
    servos = (Field("tilt_rad", tilts, "rad", "angles of the tilt servos"),) if tilts else ()
    return {
        "rotors": StateLayout(Field("rotors_control", rotors, "1",
        "0 to 1, square of the speed ratio"), *servos),
        "rates": StateLayout(Field("rates_body_radps", 3, "rad/s", "FLU"), _THROTTLE, *servos),
        "attitude": StateLayout(
            Field("roll_rad", 1, "rad", "right side down"),
            Field("pitch_rad", 1, "rad", "nose down"), _THROTTLE,
            *_YAW, *servos,
        ),
        "velocity": StateLayout(Field("v_world_mps", 3, "m/s", "ENU"), *_YAW, *servos),
        "position": StateLayout(Field("p_world_m", 3, "m", "ENU"), *_YAW, *servos),
    }  # fmt: skip


def mix(
    demand: FloatArray, throttle: FloatArray, mixing: FloatArray, flight: SimpleFlight
) -> FloatArray:
    """Return controls of the rotors, 0 to 1.

    Args:
        demand: roll, pitch, yaw, (n, 3).
        throttle: (n, 1).
        mixing: what each demand adds to each rotor, (rotors, 3).
        flight: for min_angling_throttle.

    Returns:
        (n, rotors): too low ones lift all, too high ones scale all down, what is left is clipped.
    """
    turning: FloatArray = throttle + product(demand, mixing.T)
    turning = turning + np.maximum(-turning.min(axis=1, keepdims=True), 0.0)
    turning = turning / np.maximum(turning.max(axis=1, keepdims=True), 1.0)
    return np.clip(np.where(throttle < flight.min_angling_throttle, throttle, turning), 0.0, 1.0)


def cascade(
    flight: SimpleFlight,
    mode: Mode,
    mixing: FloatArray,
    body: Mapping[str, FloatArray],
    command: Mapping[str, FloatArray],
    memory: ControllerState,
    dt_s: float,
    *,
    compat: bool = False,
) -> tuple[FloatArray, ControllerState]:
    """Update the controller once.

    Args:
        flight: gains and limits.
        mode: the level that is commanded.
        mixing: see :func:`mix`.
        body: position, velocity, attitude and rates of n vehicles by the names of
            :data:`~vil_simulation.vehicles.layout.RIGID_BODY`.
        command: fields of :func:`commands_of`.
        memory: state of the controller.
        dt_s: since its last update.
        compat: do as the original where it is wrong.

    Returns:
        The rotors' controls (n, rotors) and the controller's new state. Vehicles whose command
            timed out hold the
        position and heading of that moment, whatever the mode.
    """
    angles = _euler(body["q_world_body"])
    held = memory.command_left_s
    memory, holding = _time_out(memory, body["p_world_m"], angles[:, 2:], dt_s)
    if compat and mode != "position":
        begins = holding & (held > HOLDING_S)
        memory = memory._replace(climb_integral=np.where(begins, 0.0, memory.climb_integral))
    level = np.where(holding, MODES.index("position"), MODES.index(mode)).astype(np.float64)
    loops = _Loops(flight, memory, level, dt_s)
    v_error = _velocity_error(
        flight, loops, mode, body, command, memory, holding, angles, compat=compat
    )
    lean, throttle, integral = _push(
        flight, loops, v_error, memory.climb_integral * (FADING if compat else 1.0), dt_s
    )
    if mode not in ("velocity", "position"):
        integral = np.where(holding, integral, 0.0)
    if mode == "attitude":
        lean = np.where(
            holding, lean, np.concatenate((command["roll_rad"], command["pitch_rad"]), axis=1)
        )
    if mode in ("rates", "attitude"):
        throttle = np.where(holding, throttle, command["throttle"])
    rates = _rates(flight, loops, lean, angles, command, memory, holding)
    if compat:
        rates[:, 2:] = np.where(holding, 0.0, rates[:, 2:])
    if mode == "rates":
        rates = np.where(holding, rates, command["rates_body_radps"])
    limited = np.clip(rates, -flight.max_rate_radps, flight.max_rate_radps)
    demand = np.clip(loops.output("rate", limited - body["w_body_radps"]), -1.0, 1.0)
    controls = mix(demand, throttle, mixing, flight)
    if mode == "rotors":
        controls = np.where(holding, controls, np.clip(command["rotors_control"], 0.0, 1.0))
    return controls, loops.remembered(memory._replace(climb_integral=integral))


def climb_rate_to(flight: SimpleFlight, above_m: float) -> float:
    """Return the climb rate that the position loop wants towards a height that is so far above."""
    return flight.max_speed_mps * min(max(flight.position.p[2] * above_m, -1.0), 1.0)


def climb(
    flight: SimpleFlight, error_mps: float, integral: float, dt_s: float
) -> tuple[float, float]:
    """Return throttle and the new integral of the climb loop of one vehicle, from an error of
    its climb rate.
    """
    after = min(max(integral + flight.velocity.i[2] * dt_s * error_mps, -1.0), 1.0)
    return float(_throttle(flight, np.array(flight.velocity.p[2] * error_mps + after))), after


def _euler(q: FloatArray) -> FloatArray:
    """Return roll, pitch, yaw (n, 3) of attitudes (n, 4), intrinsic Z-Y-X."""
    x = q[:, 0:1]
    y = q[:, 1:2]
    z = q[:, 2:3]
    w = q[:, 3:4]
    roll = np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = np.arcsin(np.clip(2.0 * (w * y - z * x), -1.0, 1.0))
    yaw = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    return np.concatenate((roll, pitch, yaw), axis=1)


def _time_out(
    memory: ControllerState, p_world_m: FloatArray, yaw: FloatArray, dt_s: float
) -> tuple[ControllerState, BoolArray]:
    """Count down, store where the command timed out, and return which vehicles hold, (n, 1)."""
    holding: BoolArray = memory.command_left_s <= EXPIRED_S
    now = holding & (memory.command_left_s > HOLDING_S)
    return memory._replace(
        command_left_s=np.where(holding, HOLDING_S, memory.command_left_s - dt_s),
        hold_p_world_m=np.where(now, p_world_m, memory.hold_p_world_m),
        hold_yaw_rad=np.where(now, yaw, memory.hold_yaw_rad),
    ), holding


def _velocity_error(
    flight: SimpleFlight,
    loops: _Loops,
    mode: Mode,
    body: Mapping[str, FloatArray],
    command: Mapping[str, FloatArray],
    memory: ControllerState,
    holding: BoolArray,
    angles: FloatArray,
    *,
    compat: bool,
) -> FloatArray:
    """Return the wanted minus the true velocity ahead, to the left and up, (n, 3)."""
    p_goal = np.where(
        holding, memory.hold_p_world_m, command["p_world_m"] if mode == "position" else 0.0
    )
    v_goal = flight.max_speed_mps * np.clip(
        loops.output("position", p_goal - body["p_world_m"]), -1.0, 1.0
    )
    towards = holding if mode == "velocity" else np.ones_like(holding)
    if mode == "velocity":
        v_goal = np.where(holding, v_goal, command["v_world_mps"])
    if not compat:
        return _in_heading(v_goal - body["v_world_mps"], angles[:, 2:])
    turn = q_conj(body["q_world_body"])
    along_own_axes = np.where(
        towards, _own_axes(v_goal, body["q_world_body"]), q_rotate(turn, v_goal)
    )
    return along_own_axes - q_rotate(turn, body["v_world_mps"])


def _own_axes(v_goal: FloatArray, q: FloatArray) -> FloatArray:
    """Return velocities in body axes of which each has only what its own axis gives.

    Ahead y, left x, up z, (n, 3).
    """
    x, y, z, w = q.T
    ahead = 2.0 * (x * y + w * z) * v_goal[:, 1]
    left = 2.0 * (x * y - w * z) * v_goal[:, 0]
    up = (w * w - x * x - y * y + z * z) * v_goal[:, 2]
    return np.stack((ahead, left, up), axis=1)


def _push(
    flight: SimpleFlight, loops: _Loops, v_error: FloatArray, integral: FloatArray, dt_s: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return roll and pitch (n, 2), throttle and climb integral (n, 1) that reduce an error of
    velocity, body axes.
    """
    push = loops.output("velocity", v_error)
    lean = flight.max_angle_rad * np.clip(
        np.concatenate((-push[:, 1:2], push[:, 0:1]), axis=1), -1.0, 1.0
    )
    integral = np.clip(integral + flight.velocity.i[2] * dt_s * v_error[:, 2:], -1.0, 1.0)
    return lean, _throttle(flight, push[:, 2:] + integral), integral


def _in_heading(v_error: FloatArray, yaw: FloatArray) -> FloatArray:
    """Return errors of velocity ahead, to the left and up, (n, 3)."""
    cos = np.cos(yaw)
    sin = np.sin(yaw)
    ahead = cos * v_error[:, 0:1] + sin * v_error[:, 1:2]
    left = cos * v_error[:, 1:2] - sin * v_error[:, 0:1]
    return np.concatenate((ahead, left, v_error[:, 2:]), axis=1)


def _throttle(flight: SimpleFlight, out: FloatArray) -> FloatArray:
    """Return throttles from outputs of the climb loop."""
    throttle: FloatArray = np.maximum(0.5 * (np.clip(out, -1.0, 1.0) + 1.0), flight.min_throttle)
    return throttle


def _rates(
    flight: SimpleFlight,
    loops: _Loops,
    lean: FloatArray,
    angles: FloatArray,
    command: Mapping[str, FloatArray],
    memory: ControllerState,
    holding: BoolArray,
) -> FloatArray:
    """Return wanted rates (n, 3) from wanted roll and pitch (n, 2) and the commanded or held
    heading.
    """
    heading = memory.hold_yaw_rad
    turn = np.zeros_like(memory.hold_yaw_rad)
    by_rate = np.zeros_like(holding)
    if "yaw_rad" in command:
        heading = np.where(holding, heading, command["yaw_rad"])
        turn = command["yaw_rate_radps"]
        by_rate = ~holding & (command["yaw_by_rate"] > 0.5)
    goals = np.concatenate(
        (np.clip(lean, -flight.max_angle_rad, flight.max_angle_rad), heading), axis=1
    )
    error = goals - angles
    error = error - math.tau * np.floor(error / math.tau + 0.5)
    rates = flight.max_rate_radps * np.clip(loops.output("angle", error), -1.0, 1.0)
    rates[:, 2:] = np.where(by_rate, turn, rates[:, 2:])
    return rates
