"""PX4's inner loops with its own gains.

Attitude P, rate PID, control allocation of the airframe ``none_iris``.

Written from PX4's documentation of its multicopter controllers and parameters (docs.px4.io): gains
act on normalised torques, which the allocation turns into motor outputs by the geometry and the
torque/thrust ratio (``CA_ROTORn_KM``) of the airframe. They fit a vehicle only where that airframe
does.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import cos, pi, radians, sin, sqrt
from typing import Final

import numpy as np

from vil_bridge.core.geometry import GRAVITY_MPS2
from vil_bridge.core.types import FloatArray
from vil_simulation.autopilots.stand_ins import vectors
from vil_simulation.autopilots.stand_ins.flight_control import (
    FlightController,
    FlightTarget,
    Motors,
    NedState,
    attitude_of,
)
from vil_simulation.autopilots.stand_ins.vectors import ZERO, Vector

IRIS: Final[Mapping[str, float]] = {
    "CA_ROTOR0_PX": 0.1515,
    "CA_ROTOR0_PY": 0.245,
    "CA_ROTOR0_KM": 0.05,
    "CA_ROTOR1_PX": -0.1515,
    "CA_ROTOR1_PY": -0.1875,
    "CA_ROTOR1_KM": 0.05,
    "CA_ROTOR2_PX": 0.1515,
    "CA_ROTOR2_PY": -0.245,
    "CA_ROTOR2_KM": -0.05,
    "CA_ROTOR3_PX": -0.1515,
    "CA_ROTOR3_PY": 0.1875,
    "CA_ROTOR3_KM": -0.05,
    "IMU_DGYRO_CUTOFF": 20.0,
    "IMU_GYRO_CUTOFF": 40.0,
    "MC_PITCHRATE_D": 0.003,
    "MC_PITCHRATE_I": 0.2,
    "MC_PITCHRATE_P": 0.15,
    "MC_PITCH_P": 6.5,
    "MC_ROLLRATE_D": 0.003,
    "MC_ROLLRATE_I": 0.2,
    "MC_ROLLRATE_P": 0.15,
    "MC_ROLL_P": 6.5,
    "MC_YAWRATE_D": 0.0,
    "MC_YAWRATE_I": 0.1,
    "MC_YAWRATE_P": 0.2,
    "MC_YAW_P": 2.8,
    "MC_YAW_TQ_CUTOFF": 2.0,
    "MPC_THR_HOVER": 0.5,
}
"""PX4's values for the airframe ``none_iris``."""

_AXES: Final = ("ROLL", "PITCH", "YAW")
_FASTEST_RADPS: Final = (radians(220.0), radians(220.0), radians(200.0))
_MOST_INTEGRAL: Final = 0.3
_FADE_RADPS: Final = radians(400.0)
"""Error of a rate at which its integral stops growing."""
_YAW_MARGIN: Final = 0.15
_WEAK: Final = 0.2


class Px4Controller(FlightController):
    """Cascade whose attitude, rate and allocation are PX4's.

    Args:
        parameters: that differ from :data:`IRIS`, by PX4's names; others are ignored.
    """

    def __init__(self, parameters: Mapping[str, float] | None = None) -> None:
        super().__init__()
        values = dict(IRIS)
        values.update(
            {name: float(value) for name, value in (parameters or {}).items() if name in IRIS}
        )
        self._hover = values["MPC_THR_HOVER"]
        self._attitude_p = _gains(values, "MC_{}_P")
        self._p = _gains(values, "MC_{}RATE_P")
        self._i = _gains(values, "MC_{}RATE_I")
        self._d = _gains(values, "MC_{}RATE_D")
        self._rate_hz = values["IMU_GYRO_CUTOFF"]
        self._slope_hz = values["IMU_DGYRO_CUTOFF"]
        self._yaw_hz = values["MC_YAW_TQ_CUTOFF"]
        self._allocation = Allocation(values)
        self.reset()

    def reset(self) -> None:
        """Begin again on the ground."""
        super().reset()
        self._rate_filters: list[LowPass] = []
        self._slope_filters: list[LowPass] = []
        self._rates = ZERO
        self._sums = [0.0, 0.0, 0.0]
        self._yaw_torque = 0.0

    def motors(self, state: NedState, target: FlightTarget, dt_s: float) -> Motors:
        """Return the motors' outputs that fly towards the target."""
        force = self._specific_force(state, target, dt_s)
        up = vectors.rotate(state.q_wxyz, (0.0, 0.0, -1.0))
        lift = self._hover * max(0.0, vectors.dot(force, up)) / GRAVITY_MPS2
        wanted = self._wanted_rates(state, force, target.yaw_rad)
        roll, pitch, yaw = self._torques(state.w_frd_radps, wanted, dt_s)
        if self._yaw_hz > 0.0:
            share = dt_s / (dt_s + 1.0 / (2.0 * pi * self._yaw_hz))
            self._yaw_torque += share * (yaw - self._yaw_torque)
            yaw = self._yaw_torque
        return self._allocation.motors((roll, pitch, yaw), lift)

    def _wanted_rates(self, state: NedState, force: Vector, yaw_rad: float) -> Vector:
        w, x, y, z = vectors.product(vectors.inverse(state.q_wxyz), attitude_of(force, yaw_rad))
        sign = 2.0 if w >= 0.0 else -2.0
        errors = (sign * x, sign * y, sign * z)
        rates = [gain * error for gain, error in zip(self._attitude_p, errors, strict=True)]
        roll, pitch, yaw = (
            max(-most, min(most, rate)) for rate, most in zip(rates, _FASTEST_RADPS, strict=True)
        )
        return roll, pitch, yaw

    def _torques(self, gyro: Vector, wanted: Vector, dt_s: float) -> Vector:
        if not self._rate_filters:
            self._rate_filters = [LowPass(self._rate_hz, dt_s, rate) for rate in gyro]
            self._slope_filters = [LowPass(self._slope_hz, dt_s, 0.0) for _ in gyro]
            self._rates = gyro
        torques = []
        rates = []
        for axis in range(3):
            rate = self._rate_filters[axis].next(gyro[axis])
            slope = self._slope_filters[axis].next((rate - self._rates[axis]) / dt_s)
            error = wanted[axis] - rate
            torques.append(self._p[axis] * error + self._sums[axis] - self._d[axis] * slope)
            fade = max(0.0, 1.0 - (error / _FADE_RADPS) ** 2)
            grown = self._sums[axis] + fade * self._i[axis] * error * dt_s
            self._sums[axis] = max(-_MOST_INTEGRAL, min(_MOST_INTEGRAL, grown))
            rates.append(rate)
        self._rates = (rates[0], rates[1], rates[2])
        return torques[0], torques[1], torques[2]


class LowPass:
    """Butterworth filter of second order.

    Args:
        cutoff_hz: its frequency. dt_s: between two values. start: that it rests at.
    """

    def __init__(self, cutoff_hz: float, dt_s: float, start: float) -> None:
        ohm = sin(pi * cutoff_hz * dt_s) / cos(pi * cutoff_hz * dt_s)
        scale = 1.0 + sqrt(2.0) * ohm + ohm * ohm
        self._b = ohm * ohm / scale
        self._a1 = 2.0 * (ohm * ohm - 1.0) / scale
        self._a2 = (1.0 - sqrt(2.0) * ohm + ohm * ohm) / scale
        rest = start / (1.0 + self._a1 + self._a2)
        self._z1 = rest
        self._z2 = rest

    def next(self, value: float) -> float:
        """Return the filtered value."""
        z0 = value - self._a1 * self._z1 - self._a2 * self._z2
        filtered = self._b * (z0 + 2.0 * self._z1 + self._z2)
        self._z2 = self._z1
        self._z1 = z0
        return filtered


class Allocation:
    """Torques and thrust to motor outputs.

    The airframe's pseudo-inverse, normalised, and less of what saturates.

    Roll and pitch go before height, height before yaw (PX4's ``MC_AIRMODE`` 0).

    Args:
        values: ``CA_ROTORn_PX``, ``_PY`` (metres, forward and right) and ``_KM`` (metres) of four
            rotors.
    """

    def __init__(self, values: Mapping[str, float]) -> None:
        effectiveness = np.array(
            [
                [
                    -values[f"CA_ROTOR{n}_PY"],
                    values[f"CA_ROTOR{n}_PX"],
                    values[f"CA_ROTOR{n}_KM"],
                    1.0,
                ]
                for n in range(4)
            ]
        ).T
        mix = np.linalg.pinv(effectiveness)
        across = max(_strength(mix[:, 0]), _strength(mix[:, 1]))
        mix[:, :2] /= across
        mix[:, 2] /= mix[:, 2].max()
        mix[:, 3] /= np.abs(mix[:, 3]).mean()
        self._roll, self._pitch, self._yaw, self._thrust = (
            tuple(column) for column in mix.T.tolist()
        )

    def motors(self, torques: Vector, lift: float) -> Motors:
        """Return motor outputs, 0 to 1."""
        roll, pitch, yaw = torques
        outputs = [
            r * roll + p * pitch + t * lift
            for r, p, t in zip(self._roll, self._pitch, self._thrust, strict=True)
        ]
        _desaturate(outputs, self._thrust, 1.0, lowers_only=True)
        _desaturate(outputs, self._roll, 1.0)
        _desaturate(outputs, self._pitch, 1.0)
        for n in range(4):
            outputs[n] += self._yaw[n] * yaw
        _desaturate(outputs, self._yaw, 1.0 + _YAW_MARGIN)
        _desaturate(outputs, self._thrust, 1.0, lowers_only=True)
        front_right, rear_left, front_left, rear_right = (
            max(0.0, min(1.0, output)) for output in outputs
        )
        return front_right, rear_left, front_left, rear_right


def _gains(values: Mapping[str, float], name: str) -> Vector:
    roll, pitch, yaw = (values[name.format(axis)] for axis in _AXES)
    return roll, pitch, yaw


def _strength(column: FloatArray) -> float:
    """Return the size of a column of the mix, by which it is normalised."""
    used = np.count_nonzero(np.abs(column) > 1e-3)
    return float(np.sqrt(column @ column / (used / 2.0)))


def _desaturate(
    outputs: list[float], along: tuple[float, ...], most: float, *, lowers_only: bool = False
) -> None:
    """Shift outputs along a direction so that they exceed 0 and ``most`` as little as they can."""
    gain = _desaturation(outputs, along, most)
    if lowers_only and gain > 0.0:
        return
    for n, share in enumerate(along):
        outputs[n] += gain * share
    gain = 0.5 * _desaturation(outputs, along, most)
    for n, share in enumerate(along):
        outputs[n] += gain * share


def _desaturation(outputs: list[float], along: tuple[float, ...], most: float) -> float:
    lowest = highest = 0.0
    for output, share in zip(outputs, along, strict=True):
        if abs(share) < _WEAK or 0.0 <= output <= most:
            continue
        bound = most if output > most else 0.0
        gain = (bound - output) / share
        lowest = min(lowest, gain)
        highest = max(highest, gain)
    return lowest + highest
