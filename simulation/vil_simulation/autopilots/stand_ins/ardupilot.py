"""ArduPilot's side of its JSON link: servo packets out, lines of the physics in.

The wall time is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from math import dist
from struct import Struct
from typing import Any, Final

from vil_simulation.autopilots.stand_ins.ardupilot_lines import PhysicsLine, parse
from vil_simulation.autopilots.stand_ins.command_link import CommandLink
from vil_simulation.autopilots.stand_ins.dialects import ArduPilotDialect
from vil_simulation.autopilots.stand_ins.flight_control import NedState
from vil_simulation.autopilots.stand_ins.motion_rules import MotionRules
from vil_simulation.autopilots.stand_ins.pilot import Flight, OnboardPilot
from vil_simulation.autopilots.stand_ins.pose_rules import PoseRules
from vil_simulation.autopilots.stand_ins.vectors import Vector
from vil_simulation.autopilots.stand_ins.violations import WireViolation, require

RATE_HZ: Final = 1200
_MAGICS: Final = {16: 18458, 32: 29569}
_RESEND_S: Final = 1.0
_DRAIN_S: Final = 0.5
"""Wait after a duplicate for its answer before the next frame; one that was lost costs no more."""
_BURST: Final = 13
_STAMP_TOLERANCE_S: Final = 1e-6
_CONTROL_S: Final = 1.0 / 400.0
_OUTPUTS_S: Final = 0.5
"""Simulated time until outputs are set up; they are 0 before."""
_BOOT_S: Final = 4.0
"""Simulated time until there is a position and the vehicle can be armed."""
_BEGIN_S: Final = 0.1
"""Simulated time before which a timestamp that goes back is that of a physics that has begun
again.
"""
_CREEP_M: Final = 0.05
_DISARMED_US = 1000
_LEAST_US = 1150


@dataclass(frozen=True, slots=True)
class ArduPilotDay:
    """Course of a run.

    Attributes:
        rate_hz: frames of simulated time, which the answers' timestamps follow. channels: 16 or 32.
        restart_at_s, burst_at_s, pause_at_s: simulated times at which it restarts with count 0,
            sends a frame 13 times more, or is silent; 0 = never. pause_s: wall time of the silence.
        reconnect: boot again where the physics begins again at time 0, instead of judging it.
    """

    rate_hz: int = RATE_HZ
    channels: int = 16
    restart_at_s: float = 0.0
    burst_at_s: float = 0.0
    pause_at_s: float = 0.0
    pause_s: float = 3.0
    reconnect: bool = False


class ArduPilotStandIn:
    """ArduPilot of one vehicle, in lockstep by frame count.

    Args:
        instance: MAVLink system - 1.
        flight: to make without commands.
        day: of the run.

    Attributes:
        pilot: on board. frames: sent for the first time. duplicates: sent again. answers: lines
            taken. t_s: simulated time since the start.
    """

    def __init__(
        self, instance: int = 0, flight: Flight = "none", day: ArduPilotDay | None = None
    ) -> None:
        self.pilot: Final = OnboardPilot(flight)
        self.frames = self.duplicates = self.answers = 0
        self.t_s = 0.0
        self._system = instance + 1
        self._day = day or ArduPilotDay()
        self._dialect = ArduPilotDialect()
        self._links: list[CommandLink] = []
        self._digest = sha256()
        self._layout = Struct(f"<HHI{self._day.channels}H")
        self._rules = MotionRules()
        self._poses = PoseRules()
        self._events = {
            "restart": self._day.restart_at_s,
            "burst": self._day.burst_at_s,
            "pause": self._day.pause_at_s,
        }
        self._boot_s = 0.0
        self._count = 0
        self._rate_hz = self._day.rate_hz
        self._pwm = [0] * 4
        self._awaiting = False
        self._repeats = self._waiting_repeats = 0
        self._t_sent_s = self._quiet_until_s = self._drain_until_s = 0.0
        self._stamp_s: float | None = None
        self._start_m: Vector | None = None
        self._t_control_s = -1.0

    def open_link(self) -> CommandLink:
        """Return a new link to a ground station or an onboard computer."""
        link = CommandLink(self.pilot, self._dialect, self._system, self._poses)
        self._links.append(link)
        return link

    def poll(self, now_s: float) -> list[bytes]:
        """Return the servo packets that are due at a wall time."""
        if now_s < self._quiet_until_s:
            return []
        if self._repeats:
            repeats = self._repeats
            self._repeats = 0
            return [self._again(now_s) for _ in range(repeats)]
        if self._awaiting and now_s - self._t_sent_s >= _RESEND_S:
            return [self._again(now_s)]
        if self._awaiting:
            return []
        if self._waiting_repeats and now_s < self._drain_until_s:
            return []
        self._awaiting = True
        self.frames += 1
        self._t_sent_s = now_s
        return [self._packet()]

    def receive(self, data: bytes, now_s: float) -> None:
        """Take a line of the physics at a wall time.

        Raises:
            WireViolation: a rule is broken.
        """
        line = parse(data)
        self.answers += 1
        if (
            self._day.reconnect
            and self._awaiting
            and line.timestamp_s < min(_BEGIN_S, self._stamp_s or 0.0)
        ):
            self._waiting_repeats = 0
            self._happen("restart", now_s)
        if self._stamp_s is None:
            require(self._awaiting, "an answer came before the first servo packet.")
            self._digest.update(data)
            self._advance(line, 0.0, now_s)
            return
        rise_s = line.timestamp_s - self._stamp_s
        require(
            rise_s >= 0.0,
            f"timestamp goes back: {self._stamp_s:.6f} s, then {line.timestamp_s:.6f} s.",
        )
        if rise_s == 0.0:
            require(
                self._waiting_repeats > 0,
                "timestamp stands still although the frame count went on.",
            )
            self._waiting_repeats -= 1
            return
        if not self._awaiting:
            at = "no frame"
            if self._waiting_repeats > 0:
                at = f"a repeated frame {self._count - 1}"
            raise WireViolation(f"timestamp rises by {1e6 * rise_s:.1f} us in the answer to {at}.")
        steps_s = 1.0 / self._day.rate_hz, 1.0 / self._rate_hz
        require(
            any(abs(rise_s - step_s) <= _STAMP_TOLERANCE_S for step_s in steps_s),
            f"timestamp rises by {1e6 * rise_s:.1f} us, not by {1e6 * steps_s[0]:.1f} us "
            f"(1/{self._day.rate_hz}).",
        )
        self._digest.update(data)
        self._advance(line, rise_s, now_s)

    def counters(self) -> dict[str, Any]:
        """Return the counters and the flight for the line at the end."""
        counts = {"frames": self.frames, "answers": self.answers, "duplicates": self.duplicates}
        links = {"commands": sum(link.commands for link in self._links), "poses": self._poses.poses}
        digests = {
            "received_sha256": self._digest.hexdigest(),
            "poses_sha256": self._poses.digest(),
        }
        return {
            **counts,
            **links,
            "simulated_s": round(self.t_s, 3),
            **digests,
            **self.pilot.history.values(),
        }

    def _packet(self, count: int | None = None) -> bytes:
        unused = [0] * (self._day.channels - len(self._pwm))
        if count is None:
            count = self._count
        return self._layout.pack(
            _MAGICS[self._day.channels], self._rate_hz, count, *self._pwm, *unused
        )

    def _again(self, now_s: float) -> bytes:
        """Return the newest frame again: the one that waits, or the one that was answered last."""
        self.duplicates += 1
        self._waiting_repeats += 1
        self._t_sent_s = now_s
        self._drain_until_s = now_s + _DRAIN_S
        if self._awaiting:
            return self._packet()
        return self._packet(max(0, self._count - 1))

    def _advance(self, line: PhysicsLine, rise_s: float, now_s: float) -> None:
        self._awaiting = False
        self._stamp_s = line.timestamp_s
        self._count += 1
        self.t_s += rise_s
        if rise_s > 0.0:
            self._rate_hz = int(1.0 / rise_s)
        self._rules.check(line, off=not self.pilot.armed)
        self._poses.check(line)
        self._check_outputs(line.p_ned_m)
        self._control(line)
        for name, at_s in self._events.items():
            if 0.0 < at_s <= self.t_s:
                self._events[name] = 0.0
                self._happen(name, now_s)

    def _check_outputs(self, p_ned_m: Vector) -> None:
        """Check that outputs of 0 leave the motors off."""
        if self.t_s - self._boot_s >= _OUTPUTS_S:
            return
        if self._start_m is None:
            self._start_m = p_ned_m
        moved = dist(p_ned_m, self._start_m)
        require(
            moved < _CREEP_M,
            f"the vehicle moves {moved:.2f} m while all outputs are 0 us: motors must be off.",
        )

    def _control(self, line: PhysicsLine) -> None:
        since_boot_s = self.t_s - self._boot_s
        if since_boot_s < _OUTPUTS_S:
            return
        dt_s = self.t_s - self._t_control_s
        if dt_s < _CONTROL_S - 1e-7:
            return
        self._t_control_s = self.t_s
        state: NedState | None = None
        if since_boot_s >= _BOOT_S:
            state = NedState(line.p_ned_m, line.v_ned_mps, line.q_wxyz, line.gyro_radps)
        motors = self.pilot.step(self.t_s, state, min(dt_s, 0.1))
        least = _LEAST_US if self.pilot.armed else _DISARMED_US
        self._pwm = [max(least, round(1000.0 + 1000.0 * motor)) for motor in motors]

    def _happen(self, name: str, now_s: float) -> None:
        if name == "burst":
            self._repeats = _BURST
        elif name == "pause":
            self._quiet_until_s = now_s + self._day.pause_s
        else:
            self._count = 0
            self._stamp_s = None
            self._start_m = None
            self._boot_s = self.t_s
            self._pwm = [0] * 4
            self._rate_hz = self._day.rate_hz
            self._rules.restart()
            self._poses.restart()
            self.pilot.reboot()
