"""Pilot on board of a stand-in.

Arms, takes off, holds, follows set-points, lands, and flies a box by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from math import dist, hypot
from typing import Any, Final, Literal

from vil_simulation.autopilots.stand_ins import vectors
from vil_simulation.autopilots.stand_ins.flight_control import (
    STOPPED,
    FlightController,
    FlightTarget,
    Motors,
    NedState,
)
from vil_simulation.autopilots.stand_ins.vectors import ZERO, Vector

Flight = Literal["none", "hover", "box", "boxes"]
"""Flights without commands.

``none`` waits for them, ``hover`` takes off, ``box`` flies a square of 2 m and lands, ``boxes``
does so again and again.
"""

TAKE_OFF_HEIGHT_M: Final = 1.5
_FASTEST_MPS: Final = 1.0
_CLIMB_MPS: Final = 0.7
_DESCENT_MPS: Final = 0.5
_SETTLED_S: Final = 2.5
_LANDED_BELOW_M: Final = 0.4
_STILL_MPS: Final = 0.1
_LOST_TARGET_S: Final = 1.0
_BOX_M: Final = ((2.0, 0.0), (2.0, 2.0), (0.0, 2.0), (0.0, 0.0))
_MOST_HISTORY: Final = 3600


class PilotMode(Enum):
    """State of the pilot."""

    IDLE = "idle"
    TAKE_OFF = "take off"
    HOLD = "hold"
    FOLLOW = "follow"
    LAND = "land"


class FlightHistory:
    """Summary of a flight for the line of counters.

    Arming, altitude each second, errors at the box's corners, and the share of its steps at which a
    motor stood still or turned as fast as it can.
    """

    def __init__(self) -> None:
        self._armed: deque[tuple[float, bool]] = deque(maxlen=_MOST_HISTORY)
        self._altitude: deque[tuple[float, float]] = deque(maxlen=_MOST_HISTORY)
        self._corners: list[float] = []
        self._next_s = 0.0
        self._steps = 0
        self._saturated = 0

    def on_armed(self, t_s: float, armed: bool) -> None:
        """Record arming or disarming."""
        self._armed.append((round(t_s, 3), armed))

    def on_state(self, t_s: float, state: NedState) -> None:
        """Record the altitude once a second."""
        if t_s >= self._next_s:
            self._next_s = t_s + 1.0
            self._altitude.append((round(t_s, 3), round(-state.p_ned_m[2], 4)))

    def on_corner(self, error_m: float) -> None:
        """Record the distance from a corner after settling."""
        self._corners.append(round(error_m, 4))

    def on_motors(self, motors: Motors) -> None:
        """Count the outputs of a step in flight."""
        self._steps += 1
        self._saturated += min(motors) <= 0.0 or max(motors) >= 1.0

    def values(self) -> dict[str, Any]:
        """Return the history for the line of counters."""
        return {
            "armed": list(self._armed),
            "altitude_m": list(self._altitude),
            "corners_m": self._corners,
            "saturated": round(self._saturated / max(1, self._steps), 5),
        }


class OnboardPilot:
    """Pilot that turns states into motor commands.

    Args:
        flight: to make without commands; the first command ends it. controller: that turns states
            into motors; None = the stand-ins' own.

    Attributes:
        armed: whether motors may turn. mode: of flight. home_m: position at arming, NED. history:
            of the flight.
    """

    def __init__(self, flight: Flight = "none", controller: FlightController | None = None) -> None:
        self.armed = False
        self.mode = PilotMode.IDLE
        self.home_m = ZERO
        self.history: Final = FlightHistory()
        self._t_s = 0.0
        self._controller = FlightController() if controller is None else controller
        self._state: NedState | None = None
        self._reference = FlightTarget(ZERO)
        self._goal_m = ZERO
        self._followed = FlightTarget(ZERO)
        self._followed_s = -_LOST_TARGET_S
        self._plan: Flight = flight
        self._flight: Iterator[None] | None = None
        self.reboot()

    @property
    def ready(self) -> bool:
        """Return whether there is a position to fly with."""
        return self._state is not None

    @property
    def state(self) -> NedState | None:
        """Newest state, None before there is a position."""
        return self._state

    def reboot(self) -> None:
        """Begin again: disarmed, without a position, with the own flight before it."""
        self._set_armed(False)
        self._state = None
        self._flight = None if self._plan == "none" else self._fly(self._plan)

    def command_arm(self, armed: bool) -> bool:
        """Obey a command to arm or disarm, and give up the own flight.

        Returns whether it is accepted.
        """
        self._flight = None
        return self._set_armed(armed)

    def command_take_off(self, height_m: float | None = None) -> bool:
        """Obey a command to take off to a height above home; returns whether it is accepted."""
        self._flight = None
        if not self.armed:
            return False
        self._take_off(TAKE_OFF_HEIGHT_M if height_m is None else height_m)
        return True

    def command_land(self) -> None:
        """Obey a command to land here."""
        self._flight = None
        self._land()

    def command_hold(self) -> None:
        """Obey a command to stay here."""
        self._flight = None
        self._hold()

    def command_follow(self) -> bool:
        """Obey a command to follow set-points; returns whether there are any."""
        if self._t_s - self._followed_s >= _LOST_TARGET_S:
            return False
        self._flight = None
        self.mode = PilotMode.FOLLOW
        return True

    def command_go_to(self, p_ned_m: Vector, yaw_rad: float | None) -> bool:
        """Obey a command to fly to a position and stay there; returns whether the vehicle flies."""
        self._flight = None
        if not self.armed or self.mode is PilotMode.IDLE:
            return False
        if self.mode is not PilotMode.HOLD:
            self._hold()
        self._goal_m = p_ned_m
        if yaw_rad is not None:
            self._reference = self._reference._replace(yaw_rad=yaw_rad)
        return True

    def set_target(self, target: FlightTarget) -> None:
        """Take a set-point, followed in the mode FOLLOW."""
        self._followed = target
        self._followed_s = self._t_s

    def step(self, t_s: float, state: NedState | None, dt_s: float) -> Motors:
        """Return the motors' commands at a time; without a state they stop."""
        self._t_s = t_s
        self._state = state
        if state is None:
            return STOPPED
        self.history.on_state(t_s, state)
        if self._flight is not None:
            next(self._flight, None)
        if not self.armed or self.mode is PilotMode.IDLE:
            self._controller.reset()
            if not self.armed:
                return STOPPED
            return (0.08, 0.08, 0.08, 0.08)
        self._update_reference(state, dt_s)
        return self._flown(state, dt_s)

    def _flown(self, state: NedState, dt_s: float) -> Motors:
        """Return the motors' commands towards the reference.

        A vehicle that has just landed is not armed any more.
        """
        if not self.armed:
            return STOPPED
        motors = self._controller.motors(state, self._reference, dt_s)
        self.history.on_motors(motors)
        return motors

    def _update_reference(self, state: NedState, dt_s: float) -> None:
        if self.mode is PilotMode.FOLLOW:
            if self._t_s - self._followed_s < _LOST_TARGET_S:
                self._reference = self._followed
                return
            self._hold()
        at = self._reference.p_ned_m or state.p_ned_m
        if self.mode is PilotMode.LAND:
            velocity = (0.0, 0.0, _DESCENT_MPS)
            if at[2] - state.p_ned_m[2] > _LANDED_BELOW_M and hypot(*state.v_ned_mps) < _STILL_MPS:
                self._set_armed(False)
        else:
            ahead = vectors.minus(self._goal_m, at)
            fastest = _CLIMB_MPS if self.mode is PilotMode.TAKE_OFF else _FASTEST_MPS
            velocity = vectors.clipped(vectors.scaled(ahead, 1.0 / dt_s), fastest)
        moved = vectors.add(at, velocity, dt_s)
        self._reference = FlightTarget(moved, velocity, self._reference.yaw_rad)

    def _set_armed(self, armed: bool) -> bool:
        if armed and self._state is None:
            return False
        if armed != self.armed:
            self.armed = armed
            if not armed or self.mode is not PilotMode.FOLLOW:
                self.mode = PilotMode.IDLE
            self.history.on_armed(self._t_s, armed)
            if armed and self._state is not None:
                self.home_m = self._state.p_ned_m
        return True

    def _take_off(self, height_m: float) -> None:
        if self._state is not None:
            self._stay_at(self._state)
            north, east, _ = self._goal_m
            self._goal_m = north, east, self.home_m[2] - height_m
            self.mode = PilotMode.TAKE_OFF

    def _land(self) -> None:
        if self._state is not None:
            self._stay_at(self._state)
            self.mode = PilotMode.LAND

    def _hold(self) -> None:
        if self._state is not None:
            self._stay_at(self._state)
            self.mode = PilotMode.HOLD

    def _stay_at(self, state: NedState) -> None:
        yaw_rad = vectors.roll_pitch_yaw(state.q_wxyz)[2]
        self._goal_m = state.p_ned_m
        self._reference = FlightTarget(state.p_ned_m, ZERO, yaw_rad)

    def _fly(self, plan: Flight) -> Iterator[None]:
        """Make the own flight, one step at each turn."""
        yield from self._start()
        if plan == "hover":
            return
        yield from self._box()
        while plan == "boxes":
            while self.armed:
                yield
            yield from self._start()
            yield from self._box()

    def _start(self) -> Iterator[None]:
        while not self._set_armed(True):
            yield
        self._take_off(TAKE_OFF_HEIGHT_M)
        yield from self._settle(self._goal_m)

    def _box(self) -> Iterator[None]:
        for north, east in _BOX_M:
            home = self.home_m
            self._goal_m = corner = home[0] + north, home[1] + east, home[2] - TAKE_OFF_HEIGHT_M
            self.mode = PilotMode.HOLD
            yield from self._settle(corner)
            self.history.on_corner(self._distance(corner))
        self._land()

    def _settle(self, goal: Vector) -> Iterator[None]:
        while self._reference.p_ned_m is None or dist(self._reference.p_ned_m, goal) > 1e-3:
            yield
        until_s = self._t_s + _SETTLED_S
        while self._t_s < until_s:
            yield

    def _distance(self, goal: Vector) -> float:
        return float("inf") if self._state is None else dist(self._state.p_ned_m, goal)
