"""Naive peers of the autopilots' stand-ins.

A multicopter on a floor, and what a bridge would send of it.
"""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import hil_messages as hil
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_simulation.autopilots.stand_ins.ardupilot import ArduPilotStandIn
from vil_simulation.autopilots.stand_ins.betaflight import BetaflightStandIn
from vil_simulation.autopilots.stand_ins.px4 import STEP_US, Px4StandIn
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.multicopter import MulticopterParameters, Rotor

Vector3 = tuple[float, float, float]
Vector4 = tuple[float, float, float, float]

S = 0.5**0.5
FASTEST_RADPS = 2200.0
ARM_M = 0.08
ROTORS = (
    Rotor((ARM_M, -ARM_M, 0.0), direction=-1.0),  # front right, turns counter-clockwise
    Rotor((-ARM_M, ARM_M, 0.0), direction=-1.0),  # rear left, likewise
    Rotor((ARM_M, ARM_M, 0.0), direction=1.0),
    Rotor((-ARM_M, -ARM_M, 0.0), direction=1.0),
)
FIELD_NED_GAUSS = 0.21, 0.01, 0.43
GRAVITY = 9.81
ZURICH = 47.3977, 8.5456, 488.0
M_PER_DEG = 111_319.5


class Motion(NamedTuple):
    """State in an autopilot's axes: NED and FRD."""

    gyro: Vector3
    force: Vector3
    p: Vector3
    v: Vector3
    q: Vector4


class FloorVehicle:
    """One multicopter with the motor order of the autopilots.

    A floor at z = 0 holds it as long as it weighs more.

    Args:
        step_s: of the physics. yaw_rad: heading at the start, from east to north.
    """

    def __init__(self, step_s: Fraction = Fraction(1, 1000), yaw_rad: float = 0.0) -> None:
        parameters = replace(MulticopterParameters(), rotors=ROTORS)
        self.fleet = Fleet(FlightGogglesMulticopter(parameters), dt_s=step_s)
        self.fleet.place(
            rotors_radps=0.0, q_world_body=(0.0, 0.0, math.sin(yaw_rad / 2), math.cos(yaw_rad / 2))
        )
        self.fleet.command([0.0] * 4)
        self._hover_radps2 = parameters.hover_radps**2
        self.grounded = True
        state = self.fleet.model.state
        fields = "p_world_m", "v_world_mps", "q_world_body", "w_body_radps"
        self._columns = [k for name in fields for k in range(*state[name].indices(state.size))]
        self._before: tuple[int, Vector3] = 0, (0.0, 0.0, 0.0)

    def advance(self, motors: tuple[float, ...], steps: int) -> None:
        """Make steps with the motors' commands, 0 to 1."""
        self.fleet.u[0] = [FASTEST_RADPS * min(1.0, max(0.0, motor)) for motor in motors]
        state, x = self.fleet.model.state, self.fleet.x
        if self.grounded:
            before = x.copy()
            self.fleet.advance(steps)
            rotors = self.fleet.x[0, state["rotors_radps"]]
            if float(rotors @ rotors) / 4.0 <= self._hover_radps2:
                before[0, state["rotors_radps"]] = rotors
                self.fleet.x[:] = before
                return
            self.grounded = False
            return
        self.fleet.advance(steps)
        if self.fleet.x[0, state["p_world_m"]][2] <= 0.0:
            self._land()

    def _land(self) -> None:
        state, row = self.fleet.model.state, self.fleet.x[0]
        x, y, z, w = row[state["q_world_body"]]
        yaw = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        row[state["q_world_body"]] = 0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)
        row[state["v_world_mps"]] = row[state["w_body_radps"]] = 0.0
        row[state["p_world_m"]][2] = 0.0
        self.grounded = True

    @property
    def position(self) -> FloatArray:
        """East, north, up."""
        return self.fleet.x[0, self.fleet.model.state["p_world_m"]]

    def motion(self) -> Motion:
        """Return the motion as the autopilots name it.

        The specific force is the mean since the last time.
        """
        row, steps = self.fleet.x[0].tolist(), self.fleet.steps
        e, n, u, ve, vn, vu, x, y, z, w, p, q, r = (row[k] for k in self._columns)
        attitude = S * (w + z), S * (x + y), S * (x - y), S * (w - z)
        velocity = vn, ve, -vu
        if self.grounded or steps == self._before[0]:
            force = 0.0, 0.0, -GRAVITY
        else:
            span = (steps - self._before[0]) * float(self.fleet.dt_s)
            north, east, down = (
                (a - b) / span for a, b in zip(velocity, self._before[1], strict=True)
            )
            force = turned_back(attitude, (north, east, down - GRAVITY))
        self._before = steps, velocity
        return Motion((p, -q, -r), force, (n, e, -u), velocity, attitude)


def turned_back(q: Vector4, v: Vector3) -> Vector3:
    """Return a vector of the local frame in the body's axes."""
    w, x, y, z = q
    a, b, c = v
    tx, ty, tz = 2.0 * (z * b - y * c), 2.0 * (x * c - z * a), 2.0 * (y * a - x * b)
    return a + w * tx - y * tz + z * ty, b + w * ty - z * tx + x * tz, c + w * tz - x * ty + y * tx


class Px4Peer:
    """A simulator of PX4 that computes naively; what it sends can be changed packet by packet.

    Args:
        stand_in: its autopilot. odometry: send poses at 50 Hz; else GPS at 10 Hz.
    """

    def __init__(
        self, stand_in: Px4StandIn, *, odometry: bool = True, yaw_rad: float = 0.0
    ) -> None:
        self.stand_in = stand_in
        self.vehicle = FloorVehicle(yaw_rad=yaw_rad)
        self.time_us = 1_000_000
        self.motors: tuple[float, ...] = (0.0,) * 4
        self.modes: list[int] = []
        self.odometry = odometry
        self.packets = 0
        self._sequence = 0
        deviations = [0.02] * 3 + [0.001] * 3 + [0.0005] * 3 + [0.08]
        self._noise = (np.random.default_rng(7).normal(size=(997, 10)) * deviations).tolist()

    def frame(self, body: mavlink.Body) -> bytes:
        """Return the next frame."""
        self._sequence += 1
        return framing.encode(body, self._sequence - 1, system=1, component=51)

    def run(self, seconds: float) -> None:
        """Fly."""
        for _ in range(round(seconds * 250)):
            self.step()

    def step(self) -> bytes:
        """Send one packet, and move by the answer."""
        self.vehicle.advance(self.motors, STEP_US // 1000)
        self.time_us += STEP_US
        motion = self.vehicle.motion()
        data = self.other(motion) + self.frame(self.sensor(motion))
        self.packets += 1
        self.stand_in.receive(data)
        answer = self.stand_in.answer()
        for message in framing.MavlinkParser().feed(answer):
            assert isinstance(message.body, hil.HilActuatorControls)
            assert (message.body.time_usec, message.body.flags) == (self.time_us, 1)
            self.motors = message.body.controls[:4]
            self.modes.append(message.body.mode)
        return answer

    def sensor(self, motion: Motion) -> hil.HilSensor:
        """Return a sample of all sensors."""
        noise = self._noise[self.packets % len(self._noise)]
        right = *motion.force, *motion.gyro, *turned_back(motion.q, FIELD_NED_GAUSS)
        altitude = ZURICH[2] - motion.p[2] + noise[9]
        pressure = 1013.25 * (1.0 - altitude / 44330.77) ** 5.25588
        axes = [value + error for value, error in zip(right, noise, strict=False)]
        return hil.HilSensor(*(self.time_us, *axes, pressure, 0.0, altitude, 15.0, 0x1BFF))

    def other(self, motion: Motion) -> bytes:
        """Return what goes before the sample."""
        data = self.frame(self.truth(motion))
        if self.odometry and self.packets % 5 == 0:
            return data + self.frame(self.pose(motion))
        if not self.odometry and self.packets % 25 == 0:
            return data + self.frame(self.fix(motion))
        return data

    def truth(self, motion: Motion) -> hil.HilStateQuaternion:
        """Return HIL_STATE_QUATERNION, which only the log of PX4 has."""
        return hil.HilStateQuaternion(self.time_us, motion.q, *motion.gyro, *(0,) * 11)

    def pose(self, motion: Motion) -> mavlink.Odometry:
        """Return ODOMETRY."""
        velocity = turned_back(motion.q, motion.v)
        covariance = tuple(1e-4 if k in (0, 6, 11, 15, 18, 20) else 0.0 for k in range(21))
        return mavlink.Odometry(
            self.time_us,
            *motion.p,
            motion.q,
            *velocity,
            *motion.gyro,
            covariance,
            covariance,
            20,
            12,
            0,
            3,
            100,
        )

    def fix(self, motion: Motion) -> hil.HilGps:
        """Return HIL_GPS."""
        lat = ZURICH[0] + motion.p[0] / M_PER_DEG
        lon = ZURICH[1] + motion.p[1] / (M_PER_DEG * math.cos(math.radians(ZURICH[0])))
        vn, ve, vd = (round(100.0 * v) for v in motion.v)
        alt_mm = round(1e3 * (ZURICH[2] - motion.p[2]))
        speed = round(math.hypot(vn, ve))
        return hil.HilGps(
            self.time_us,
            round(lat * 1e7),
            round(lon * 1e7),
            alt_mm,
            30,
            40,
            speed,
            vn,
            ve,
            vd,
            65535,
            3,
            12,
        )


class ArduPilotPeer:
    """A physics of ArduPilot that computes naively; wall time is the simulated time.

    Args:
        stand_in: its autopilot. rate_hz: of the frames.
    """

    def __init__(
        self, stand_in: ArduPilotStandIn, rate_hz: int = 400, yaw_rad: float = 0.0
    ) -> None:
        self.stand_in = stand_in
        self.rate_hz = rate_hz
        self.vehicle = FloorVehicle(Fraction(1, rate_hz), yaw_rad)
        self.now_s = 0.0
        self.packets: list[tuple[int, ...]] = []
        self._count = -1
        self._line = b""

    def run(self, seconds: float) -> None:
        """Fly."""
        for _ in range(round(seconds * self.rate_hz)):
            self.step()

    def step(self) -> None:
        """Answer what is due."""
        self.now_s += 1.0 / self.rate_hz
        for data in self.stand_in.poll(self.now_s):
            self.stand_in.receive(self.answer(data), self.now_s)

    def answer(self, data: bytes) -> bytes:
        """Return the line for a servo packet: the same one for the same frame."""
        magic, _, count, *pwm = struct.unpack(f"<HHI{(len(data) - 8) // 2}H", data)
        assert (magic, len(pwm)) in ((18458, 16), (29569, 32))
        if count != self._count:
            self._count = count
            self.packets = [*self.packets[-9:], tuple(pwm[:4])]
            self.vehicle.advance(tuple((us - 1000) / 1000.0 if us else 0.0 for us in pwm[:4]), 1)
            self._line = self.line(self.vehicle.motion())
        return self._line

    def line(self, motion: Motion) -> bytes:
        """Return the line of a motion."""
        p, q, r = motion.gyro
        x, y, z = motion.force
        return (
            f'\n{{"timestamp":{self.vehicle.fleet.t_ns * 1e-9:.9f},'
            f'"imu":{{"gyro":[{p:.8f},{q:.8f},{r:.8f}],"accel_body":[{x:.6f},{y:.6f},{z:.6f}]}},'
            f'"position":{_list(motion.p)},"quaternion":{_list(motion.q)},'
            f'"velocity":{_list(motion.v)}}}\n'
        ).encode()


def _list(values: tuple[float, ...]) -> str:
    return "[" + ", ".join(f"{value:.8f}" for value in values) + "]"


class BetaflightPeer:
    """A physics of Betaflight that computes naively, on a wall time of its own.

    A state each millisecond.

    Args:
        stand_in: its autopilot.
    """

    def __init__(self, stand_in: BetaflightStandIn, yaw_rad: float = 0.0) -> None:
        self.stand_in = stand_in
        self.vehicle = FloorVehicle(yaw_rad=yaw_rad)
        self.now_s = 100.0
        self.stamp_s = 0.0
        self.motors: tuple[float, ...] = (0.0,) * 4
        self.answers = 0
        self.sticks = [1500, 1500, 1000, 1500, 1000]
        self.sends_rc = True
        self._steps = 0
        self._integral = 0.0

    def run(self, seconds: float) -> None:
        """Fly."""
        for _ in range(round(seconds * 1000)):
            self.step()

    def step(self, wall_s: float = 1e-3, stamp_s: float = 1e-3) -> bool:
        """Send a state after a wall time, with a time of its own.

        Returns whether it is answered.
        """
        self.now_s += wall_s
        self.stamp_s += stamp_s
        self.vehicle.advance(self.motors, 1)
        self._steps += 1
        if self.sends_rc and self._steps % 10 == 0:
            channels = [*self.sticks, *[1000] * (16 - len(self.sticks))]
            self.stand_in.on_rc(struct.pack("<d16H", self.stamp_s, *channels), self.now_s)
        self.stand_in.on_state(self.packet(self.vehicle.motion()), self.now_s)
        packets = self.stand_in.poll(self.now_s + 2e-4)
        if packets is None:
            return False
        self.motors = struct.unpack("<4f", packets[0])
        self.answers += 1
        return True

    def packet(self, motion: Motion) -> bytes:
        """Return a state of 144 bytes."""
        return struct.pack("<18d", *betaflight_state(self.stamp_s, motion))

    def hold_height(self, seconds: float, height_m: float) -> None:
        """Fly by the throttle."""
        state = self.vehicle.fleet.model.state
        for _ in range(round(seconds * 1000)):
            climb = float(self.vehicle.fleet.x[0, state["v_world_mps"]][2])
            wanted = max(-0.5, min(0.7, height_m - float(self.vehicle.position[2])))
            self._integral += 0.04 * (wanted - climb)
            self.sticks[2] = round(1515.0 + 120.0 * (wanted - climb) + self._integral)
            self.step()


def betaflight_state(t_s: float, motion: Motion) -> tuple[float, ...]:
    """Return a motion as 18 numbers.

    Rates FRD, minus specific force FLU, attitude, ENU velocity, place, pressure.
    """
    x, y, z = motion.force
    n, e, d = motion.p
    vn, ve, vd = motion.v
    pressure = 101325.0 * (1.0 + d / 44330.77) ** 5.25588
    return (
        t_s,
        *motion.gyro,
        -x,
        y,
        z,
        *motion.q,
        ve,
        vn,
        -vd,
        e / M_PER_DEG,
        n / M_PER_DEG,
        -d,
        pressure,
    )
