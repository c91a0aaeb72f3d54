"""Naive peers of the autopilots' stand-ins: a multicopter on a floor, and what a bridge would send of it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import hil_messages as hil
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.tools.lab.autopilots.px4 import STEP_US, Px4StandIn
from vil_bridge.vehicles.fleet import Fleet
from vil_bridge.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_bridge.vehicles.multicopter import MulticopterParameters, Rotor

S = 0.5**0.5
FASTEST_RADPS = 2200.0
ARM_M = 0.08
ROTORS = (
    Rotor((ARM_M, -ARM_M, 0.0), direction=-1.0),  # front right, turns counter-clockwise
    Rotor((-ARM_M, ARM_M, 0.0), direction=-1.0),  # rear left, likewise
    Rotor((ARM_M, ARM_M, 0.0), direction=1.0),
    Rotor((-ARM_M, -ARM_M, 0.0), direction=1.0),
)
FIELD_NED_GAUSS = np.array([0.21, 0.01, 0.43])
ZURICH = 47.3977, 8.5456, 488.0
M_PER_DEG = 111_319.5


class Motion(NamedTuple):
    """State in an autopilot's axes: NED and FRD."""

    gyro: tuple[float, ...]
    force: tuple[float, ...]
    p: tuple[float, ...]
    v: tuple[float, ...]
    q: tuple[float, ...]


class FloorVehicle:
    """One multicopter with the motor order of the autopilots; a floor at z = 0 holds it as long as it weighs more.

    Args:
        step_s: of the physics. yaw_rad: heading at the start, from east to north.
    """

    def __init__(self, step_s: Fraction = Fraction(1, 1000), yaw_rad: float = 0.0) -> None:
        parameters = replace(MulticopterParameters(), rotors=ROTORS)
        self.fleet = Fleet(FlightGogglesMulticopter(parameters), dt_s=step_s)
        self.fleet.place(rotors_radps=0.0, q_world_body=(0.0, 0.0, math.sin(yaw_rad / 2), math.cos(yaw_rad / 2)))
        self.fleet.command([0.0] * 4)
        self._hover_radps2 = parameters.hover_radps**2
        self.grounded = True

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
        """Return the motion as the autopilots name it."""
        truth = self.fleet.truth()
        x, y, z, w = truth.q_world_body[0].tolist()
        e, n, u = truth.p_world_m[0].tolist()
        ve, vn, vu = truth.v_world_mps[0].tolist()
        p, q, r = truth.w_body_radps[0].tolist()
        fx, fy, fz = (0.0, 0.0, 9.81) if self.grounded else truth.f_body_mps2[0].tolist()
        attitude = S * (w + z), S * (x + y), S * (x - y), S * (w - z)
        return Motion((p, -q, -r), (fx, -fy, -fz), (n, e, -u), (vn, ve, -vu), attitude)


def turned_back(q: tuple[float, ...], v: FloatArray) -> FloatArray:
    """Return a vector of the local frame in the body's axes."""
    w, xyz = q[0], -np.array(q[1:])
    across = 2.0 * np.cross(xyz, v)
    return np.asarray(v + w * across + np.cross(xyz, across))


class Px4Peer:
    """A simulator of PX4 that computes naively; what it sends can be changed packet by packet.

    Args:
        stand_in: its autopilot. odometry: send poses at 50 Hz; else GPS at 10 Hz.
    """

    def __init__(self, stand_in: Px4StandIn, *, odometry: bool = True, yaw_rad: float = 0.0) -> None:
        self.stand_in = stand_in
        self.vehicle = FloorVehicle(yaw_rad=yaw_rad)
        self.time_us = 1_000_000
        self.motors: tuple[float, ...] = (0.0,) * 4
        self.modes: list[int] = []
        self.odometry = odometry
        self.packets = 0
        self._sequence = 0
        self._random = np.random.default_rng(7)

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
        noise = self._random.normal(size=10) * [*[0.02] * 3, *[0.001] * 3, *[0.0005] * 3, 0.01]
        force, gyro = np.array(motion.force) + noise[:3], np.array(motion.gyro) + noise[3:6]
        field = turned_back(motion.q, FIELD_NED_GAUSS) + noise[6:9]
        altitude = ZURICH[2] - motion.p[2] + 8.3 * noise[9]
        pressure = 1013.25 * (1.0 - altitude / 44330.77) ** 5.25588
        return hil.HilSensor(
            self.time_us, *force.tolist(), *gyro.tolist(), *field.tolist(), pressure, 0.0, altitude, 15.0, 0x1BFF
        )

    def other(self, motion: Motion) -> bytes:
        """Return what goes before the sample."""
        if self.odometry and self.packets % 5 == 0:
            return self.frame(self.pose(motion))
        if not self.odometry and self.packets % 25 == 0:
            return self.frame(self.fix(motion))
        return b""

    def pose(self, motion: Motion) -> mavlink.Odometry:
        """Return ODOMETRY."""
        velocity = turned_back(motion.q, np.array(motion.v)).tolist()
        covariance = tuple(1e-4 if k in (0, 6, 11, 15, 18, 20) else 0.0 for k in range(21))
        return mavlink.Odometry(
            self.time_us, *motion.p, motion.q, *velocity, *motion.gyro, covariance, covariance, 20, 12, 0, 3, 100
        )

    def fix(self, motion: Motion) -> hil.HilGps:
        """Return HIL_GPS."""
        lat = ZURICH[0] + motion.p[0] / M_PER_DEG
        lon = ZURICH[1] + motion.p[1] / (M_PER_DEG * math.cos(math.radians(ZURICH[0])))
        vn, ve, vd = (round(100.0 * v) for v in motion.v)
        alt_mm = round(1e3 * (ZURICH[2] - motion.p[2]))
        speed = round(math.hypot(vn, ve))
        return hil.HilGps(
            self.time_us, round(lat * 1e7), round(lon * 1e7), alt_mm, 30, 40, speed, vn, ve, vd, 65535, 3, 12
        )
