"""Betaflight's side of its simulator link: states and sticks in, motors out.

Its clock follows the states' by pairs.
"""

from __future__ import annotations

from collections import deque
from math import cos, dist, pi, radians
from struct import Struct
from typing import Any, Final

from vil_simulation.autopilots.stand_ins import vectors
from vil_simulation.autopilots.stand_ins.ardupilot_lines import PhysicsLine
from vil_simulation.autopilots.stand_ins.flight_control import (
    STOPPED,
    Motors,
    NedState,
    attitude_rates,
    motors_for,
)
from vil_simulation.autopilots.stand_ins.motion_rules import MotionRules
from vil_simulation.autopilots.stand_ins.pilot import FlightHistory
from vil_simulation.autopilots.stand_ins.violations import require

_STATE: Final = Struct("<18d")
_RC: Final = Struct("<d16H")
_MOTORS: Final = Struct("<4f")
_RAW: Final = Struct("<H2x16f")
_SILENCE_S: Final = 0.5
"""Silence after which a state is swallowed: motors come at once, and nothing of it counts."""
_LONGEST_PAIR_S: Final = 0.02
_STANDING: Final = 1e-7
"""Rate of the clock after the second state.

The gap is counted from the boot, as the first was swallowed.
"""
_BURST = 3
_BURST_S = 1e-3
_LOOP_S: Final = 1e-4
_PID_S: Final = 125e-6
_BOOT_GRACE_S: Final = 5.0
_RC_LOST_S: Final = 0.3
_IDLE: Final = 0.055
_LOW_US = 1050
_HIGH_US = 1700
_LARGEST_ANGLE_RAD: Final = pi / 3.0
_FASTEST_YAW_RADPS: Final = 3.5
_M_PER_DEG: Final = 111_319.5
_PLACE_TOLERANCE_M: Final = 1.5
"""Of a receiver's reading, which is late and stays until there is another."""
_PROBE_BYTES: Final = 1
"""Of a datagram by which a peer finds out whether the port is open; Betaflight drops it."""
_OWN_ORDER: Final = (3, 0, 1, 2)
"""Betaflight's motors 1 to 4 (rear right, front right, rear left, front left) in the order of
the motor packet.
"""


class BetaflightStandIn:
    """Betaflight of one vehicle, on the wall time that it is given.

    Sticks in ANGLE mode always; AUX1 above 1700 arms. The attitude is that of the states.

    Attributes:
        states: taken. swallowed: of them, after a silence. probes: of the port. answers: motor
            packets. t_s: its clock. armed: motors turn.
    """

    def __init__(self) -> None:
        self.states = self.swallowed = self.probes = self.answers = 0
        self.t_s = 0.0
        self.armed = False
        self._rate = 0.0
        self._at_once = False
        self._taken_s: float | None = None
        self._arrivals_s: deque[float] = deque(maxlen=_BURST + 1)
        self._stamp_s = self._arrival_s = 0.0
        self._now_s: float | None = None
        self._line: PhysicsLine | None = None
        self._p_ned_m: vectors.Vector = vectors.ZERO
        self._origin: tuple[tuple[float, float, float], vectors.Vector] | None = None
        self._sticks: tuple[int, ...] = ()
        self._sticks_s = self._tick_s = 0.0
        self._was_low = False
        self._unanswered = False
        self._due_s = 0.0
        self._rules = MotionRules()
        self._history = FlightHistory()

    def on_state(self, data: bytes, now_s: float) -> None:
        """Take a state at a wall time.

        Raises:
            WireViolation: a rule is broken.
        """
        if len(data) == _PROBE_BYTES:
            self.probes += 1
            return
        require(
            len(data) == _STATE.size,
            f"a state has {len(data)} bytes, not {_STATE.size}: Betaflight drops it.",
        )
        self._run_clock(now_s)
        values = _STATE.unpack(data)
        self._arrivals_s.append(now_s)
        full = len(self._arrivals_s) > _BURST
        require(
            not full or now_s - self._arrivals_s[0] > _BURST_S,
            f"{_BURST + 1} states came within {1e3 * _BURST_S:.0f} ms: the clock would run ahead.",
        )
        stamp_s = values[0]
        require(
            self.states == 0 or stamp_s >= self._stamp_s,
            f"the time goes back: {self._stamp_s} s, then {stamp_s} s.",
        )
        silent = self.states == 0 or now_s - self._arrival_s > _SILENCE_S
        self.states += 1
        pair_s = stamp_s - self._stamp_s
        self._stamp_s = stamp_s
        self._arrival_s = now_s
        self._unanswered = True
        self._at_once = silent
        self._due_s = now_s + _LOOP_S
        self._tick_s = (self.t_s // _PID_S + 1.0) * _PID_S
        if silent:
            self.swallowed += 1
            self._rules.restart()
            return
        if 0.0 < pair_s < _LONGEST_PAIR_S:
            if self._taken_s is None:
                self._rate = _STANDING
            else:
                self._rate = pair_s / max(now_s - self._taken_s, 1e-6)
        self._taken_s = now_s
        if pair_s >= _LONGEST_PAIR_S:
            self._rules.restart()
        self._line = self._state(values)
        self._rules.check(self._line, off=not self.armed)

    def on_rc(self, data: bytes, now_s: float) -> None:
        """Take sticks and switches at a wall time.

        Raises:
            WireViolation: the packet has another size.
        """
        require(len(data) == _RC.size, f"an RC packet has {len(data)} bytes, not {_RC.size}.")
        self._run_clock(now_s)
        self._sticks, self._sticks_s = _RC.unpack(data)[1:], self.t_s

    def poll(self, now_s: float) -> tuple[bytes, bytes] | None:
        """Return the motor packet and the raw one that are due, None = there are none."""
        self._run_clock(now_s)
        ran = self._at_once or (now_s >= self._due_s and self.t_s >= self._tick_s)
        if not self._unanswered or not ran:
            return None
        self._unanswered = False
        self.answers += 1
        motors = self._control()
        own = (1000.0 + 1000.0 * motors[n] for n in _OWN_ORDER)
        return _MOTORS.pack(*motors), _RAW.pack(4, *own, *([0.0] * 12))

    def waits(self) -> bool:
        """Return whether a state is not answered yet."""
        return self._unanswered

    def counters(self) -> dict[str, Any]:
        """Return the counters and the flight for the line at the end."""
        counts = {
            "states": self.states,
            "swallowed": self.swallowed,
            "probes": self.probes,
            "answers": self.answers,
        }
        return {**counts, "clock_s": round(self.t_s, 3), **self._history.values()}

    def _run_clock(self, now_s: float) -> None:
        before_s = now_s if self._now_s is None else self._now_s
        # A state's arrival may be before the newest turn of the loop.
        self._now_s = max(now_s, before_s)
        self.t_s += self._rate * (self._now_s - before_s)
        if self.armed and self.t_s - self._sticks_s > _RC_LOST_S:
            self._set_armed(False)

    def _state(self, values: tuple[float, ...]) -> PhysicsLine:
        """Return the state in NED and FRD.

        The acceleration on the wire is minus the specific force, FLU.
        """
        x, y, z = values[4:7]
        east, north, up = values[11:14]
        velocity = north, east, -up
        if self._line is not None:
            way = vectors.scaled(vectors.add(self._line.v_ned_mps, velocity), 0.5)
            self._p_ned_m = vectors.add(self._p_ned_m, way, values[0] - self._line.timestamp_s)
        self._check_place(values[14], values[15], values[16])
        w, i, j, k = values[7:11]
        size = (w * w + i * i + j * j + k * k) ** 0.5
        require(abs(size - 1.0) < 1e-3, f"the quaternion has the length {size:.4f}.")
        gyro = values[1], values[2], values[3]
        return PhysicsLine(values[0], gyro, (-x, y, z), self._p_ned_m, velocity, (w, i, j, k))

    def _check_place(self, longitude: float, latitude: float, altitude: float) -> None:
        """Check a place against the way by the velocity; 0, 0 is none."""
        if not longitude and not latitude:
            return
        if self._origin is None:
            self._origin = (longitude, latitude, altitude), self._p_ned_m
        (first_longitude, first_latitude, first_altitude), p_0 = self._origin
        wide = _M_PER_DEG * cos(radians(first_latitude))
        place = (
            (latitude - first_latitude) * _M_PER_DEG,
            (longitude - first_longitude) * wide,
            first_altitude - altitude,
        )
        away_m = dist(place, vectors.minus(self._p_ned_m, p_0))
        require(
            away_m < _PLACE_TOLERANCE_M,
            f"the position does not move by the velocity: it is {away_m:.1f} m from where "
            "that leads.",
        )

    def _control(self) -> Motors:
        line = self._line
        sticks = self._sticks
        if line is None:
            return STOPPED
        state = NedState(line.p_ned_m, line.v_ned_mps, line.q_wxyz, line.gyro_radps)
        self._history.on_state(self.t_s, state)
        if not sticks:
            return STOPPED
        roll, pitch, throttle, yaw, switch = sticks[:5]
        self._was_low |= switch < _HIGH_US
        if switch < _HIGH_US:
            self._set_armed(False)
        elif self._was_low and not self.armed:
            self._was_low = False
            fresh = self.t_s - self._sticks_s <= _RC_LOST_S
            self._set_armed(fresh and throttle < _LOW_US and self.t_s > _BOOT_GRACE_S)
        if not self.armed:
            return STOPPED
        lift = max(_IDLE, (throttle - 1000) / 1000.0) ** 2
        if throttle < _LOW_US:
            return _IDLE, _IDLE, _IDLE, _IDLE
        heading = vectors.heading(vectors.roll_pitch_yaw(line.q_wxyz)[2])
        lean = vectors.product(
            vectors.exponential((0.0, -(pitch - 1500) / 500.0 * _LARGEST_ANGLE_RAD, 0.0)),
            vectors.exponential(((roll - 1500) / 500.0 * _LARGEST_ANGLE_RAD, 0.0, 0.0)),
        )
        rates = attitude_rates(line.q_wxyz, vectors.product(heading, lean))
        wanted = rates[0], rates[1], (yaw - 1500) / 500.0 * _FASTEST_YAW_RADPS
        return motors_for(lift, wanted, line.gyro_radps, _IDLE)

    def _set_armed(self, armed: bool) -> None:
        if armed != self.armed:
            self.armed = armed
            self._history.on_armed(self.t_s, armed)
