"""A drone's smooth flight in closed form and the IMU it would carry.

Everything is a pure function of time, so an emulator, an evaluator and a test that ask for the same
instant get the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import GRAVITY_MPS2, Transform, cross, q_from_matrix
from vil_bridge.core.types import FloatArray, MotionFrame, SkeletonModel

_IntArray = npt.NDArray[np.int64]

Sine = tuple[float, float, float]
"""Amplitude, frequency in hertz, phase in radians."""


@dataclass(frozen=True, slots=True)
class SinePath:
    """A smooth path: each axis, and the heading, is a sum of sines.

    Attributes:
        position_m: terms of x, y and z about the centre of the flight volume.
        yaw_rad: terms of the heading.
    """

    position_m: tuple[tuple[Sine, ...], tuple[Sine, ...], tuple[Sine, ...]]
    yaw_rad: tuple[Sine, ...]


# Frequencies have no common divisor, so the paths do not repeat within a demonstration.
PATROL: Final = SinePath(
    (
        ((1.15, 0.101, 0.4), (0.35, 0.211, 2.1), (0.032, 0.930, 0.0)),
        ((1.50, 0.117, 1.3), (0.40, 0.233, 0.2), (0.032, 0.870, 1.1)),
        ((0.34, 0.113, 0.0), (0.12, 0.241, 0.9)),
    ),
    ((0.36, 0.121, 0.0), (0.09, 0.310, 0.7), (0.05, 0.830, 0.3)),
)
"""A slow patrol, and a small quick part that tilts the airframe as gusts and a human pilot do."""

BRISK: Final = SinePath(
    (
        ((0.61, 0.229, 3.9), (0.51, 0.274, 5.0), (0.35, 0.398, 3.3), (0.35, 0.402, 0.7)),
        ((0.72, 0.226, 6.2), (0.63, 0.261, 1.7), (0.60, 0.271, 5.1), (0.45, 0.364, 0.4)),
        ((0.39, 0.145, 2.7), (0.20, 0.288, 1.0), (0.15, 0.370, 3.8), (0.14, 0.411, 3.4)),
    ),
    ((0.74, 0.096, 4.8), (0.40, 0.178, 2.9), (0.40, 0.179, 2.9)),
)
"""2.0 m/s rms and 1.0 rad/s in the mean, tilted by up to 40 degrees, in a volume of 3.6 x 4.5 x
1.6 m.
"""

_MOTORS_HZ: Final = (57.0, 61.0, 64.0, 68.0)
_RAMP_S: Final = 2.0
_BLOCK: Final = 64


@dataclass(frozen=True, slots=True)
class ImuErrors:
    """Errors that a small MEMS IMU adds to the truth.

    Attributes:
        gyro_bias_radps: constant, body FLU.
        gyro_density: white noise, rad/s/sqrt(Hz).
        accel_density: white noise, m/s^2/sqrt(Hz).
        gyro_vibration_radps, accel_vibration_mps2: root mean square of each axis' vibration from
            idling motors.
        seed: of the noise; the same seed gives the same samples.
    """

    gyro_bias_radps: tuple[float, float, float] = (0.01, -0.02, 0.015)
    gyro_density: float = 2e-3
    accel_density: float = 2e-2
    gyro_vibration_radps: float = 0.0
    accel_vibration_mps2: float = 0.0
    seed: int = 1


@dataclass(frozen=True, slots=True)
class _Kinematics:
    """Path and attitude at n instants; all shapes (n, 3) but ``R_room_body`` (n, 3, 3)."""

    p_room_m: FloatArray
    a_room_mps2: FloatArray
    R_room_body: FloatArray
    w_body_radps: FloatArray


class DroneMotion:
    """A multirotor that rests for a while, then flies a path, by default a patrol of 3 x 4 x 1 m
    looking to +x.

    The attitude follows from the path (differential flatness): thrust points along acceleration
    minus gravity, and the heading sweeps. The room frame is z up; the body is FLU.
    """

    skeleton_models: tuple[SkeletonModel, ...] = ()

    def __init__(
        self,
        subject: str = "drone",
        *,
        path: SinePath = PATROL,
        rest_s: float = 1.0,
        center_m: tuple[float, float, float] = (-1.5, 0.0, 1.6),
        imu: ImuErrors | None = None,
        imu_rate_hz: int = 500,
    ) -> None:
        self.subjects: tuple[str, ...] = (subject,)
        self._position_m, self._yaw_rad = _Sines(path.position_m), _Sines((path.yaw_rad,))
        self._rest_s = rest_s
        self._center_m = np.array(center_m)
        self._imu = imu or ImuErrors()
        self._imu_period_ns = NS_PER_S // imu_rate_hz
        self._imu_block = lru_cache(maxsize=8)(self._make_imu_block)

    def at(self, t_ns: int) -> MotionFrame:
        """Return the drone's pose; always tracked."""
        T_room_body = self.truth(t_ns)
        return MotionFrame(
            subjects=self.subjects,
            p_m=T_room_body.p_m[None],
            q_xyzw=T_room_body.q_xyzw[None],
            tracked=np.ones(1, dtype=np.bool_),
        )

    def truth(self, t_ns: int) -> Transform:
        """Return T_room_body at one instant."""
        k = self._kinematics(np.array([t_ns]))
        return Transform(k.p_room_m[0], q_from_matrix(k.R_room_body[0]))

    def imu_between(self, after_ns: int, until_ns: int) -> list[tuple[int, FloatArray, FloatArray]]:
        """Return samples with after < t <= until.

        (t_ns, w_radps (3,), f_mps2 (3,)) in body FLU axes.

        Sample k is taken at k periods; its noise depends on k and the seed alone, however the
        samples are asked for.
        """
        first = max(0, after_ns // self._imu_period_ns + 1)
        last = until_ns // self._imu_period_ns
        samples = []
        for block in range(first // _BLOCK, last // _BLOCK + 1):
            begin = block * _BLOCK
            samples += self._imu_block(block)[max(0, first - begin) : max(0, last + 1 - begin)]
        return samples

    def _make_imu_block(self, block: int) -> list[tuple[int, FloatArray, FloatArray]]:
        """Return samples ``block * _BLOCK`` and on.

        Made together, since small arrays cost per call.
        """
        t_ns = (block * _BLOCK + np.arange(_BLOCK)) * self._imu_period_ns
        k = self._kinematics(t_ns)
        root_rate = math.sqrt(NS_PER_S / self._imu_period_ns)
        sigma = root_rate * np.repeat([self._imu.gyro_density, self._imu.accel_density], 3)
        noise = np.random.default_rng((self._imu.seed, block)).standard_normal((_BLOCK, 6)) * sigma
        noise += self._vibration(t_ns)
        w_radps = k.w_body_radps + np.array(self._imu.gyro_bias_radps) + noise[:, :3]
        f_room = k.a_room_mps2 + np.array([0.0, 0.0, GRAVITY_MPS2])
        f_mps2 = np.einsum("nji,nj->ni", k.R_room_body, f_room) + noise[:, 3:]
        return [(int(t), w, f) for t, w, f in zip(t_ns, w_radps, f_mps2, strict=True)]

    def _vibration(self, t_ns: _IntArray) -> FloatArray:
        """Return the share of the motors, shape (n, 6).

        Each turns at a rate of its own, so that they beat.
        """
        rms = np.repeat([self._imu.gyro_vibration_radps, self._imu.accel_vibration_mps2], 3)
        phase_rad = np.random.default_rng(self._imu.seed).uniform(
            0.0, 2.0 * math.pi, (len(_MOTORS_HZ), 6)
        )
        angle_rad = 2.0 * math.pi * np.multiply.outer(t_ns / NS_PER_S, _MOTORS_HZ)
        waves = np.sin(angle_rad[..., None] + phase_rad).sum(axis=1)
        return np.asarray(rms * math.sqrt(2.0 / len(_MOTORS_HZ)) * waves)

    def _kinematics(self, t_ns: _IntArray) -> _Kinematics:
        s, s1, s2, s3 = _path_time(t_ns / NS_PER_S - self._rest_s)
        d0, d1, d2, d3 = self._position_m(s)
        # Chain rule: the path runs in its own time s, which starts with rate 0.
        a = d2 * s1**2 + d1 * s2
        jerk = d3 * s1**3 + 3.0 * d2 * s1 * s2 + d1 * s3
        yaw, yaw1, *_ = self._yaw_rad(s)
        R, w = _flat_attitude(a, jerk, yaw[:, 0], (yaw1 * s1)[:, 0])
        return _Kinematics(self._center_m + d0, a, R, w)


def _path_time(t_s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return time along the path and its three derivatives, shape (n, 1) each, at times since the
    end of the rest.

    The rate is 0 during the rest, 1 after the ramp, and between them the fifth-order smooth step,
    so that the jerk (hence the body rate) is continuous.
    """
    u = np.clip(t_s[:, None] / _RAMP_S, 0.0, 1.0)
    after_ramp_s = np.maximum(t_s[:, None] - _RAMP_S, 0.0)
    s = _RAMP_S * u**4 * (2.5 - 3.0 * u + u**2) + after_ramp_s
    s1 = u**3 * (10.0 - 15.0 * u + 6.0 * u**2)
    s2 = 30.0 * u**2 * (1.0 - u) ** 2 / _RAMP_S
    s3 = 60.0 * u * (1.0 - u) * (1.0 - 2.0 * u) / _RAMP_S**2
    return s, s1, s2, s3


class _Sines:
    """Sums of sines, one per axis, with their derivatives."""

    def __init__(self, axes: Sequence[Sequence[Sine]]) -> None:
        terms = np.array([term for axis in axes for term in axis])
        self._omega = 2.0 * math.pi * terms[:, 1]
        self._phase = terms[:, 2]
        # Amplitude of every term (rows) in every axis (columns).
        which = np.repeat(np.arange(len(axes)), [len(axis) for axis in axes])
        self._amplitude = terms[:, :1] * (which[:, None] == np.arange(len(axes)))

    def __call__(self, s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return values and three derivatives at path times ``s`` (n, 1): shape (n, axes) each."""
        omega = self._omega
        angle = self._omega * s + self._phase
        sine = np.sin(angle)
        cosine = np.cos(angle)
        return (
            sine @ self._amplitude,
            (omega * cosine) @ self._amplitude,
            (-(omega**2) * sine) @ self._amplitude,
            (-(omega**3) * cosine) @ self._amplitude,
        )


def _flat_attitude(
    a_mps2: FloatArray, jerk_mps3: FloatArray, yaw_rad: FloatArray, yaw_rate_radps: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return attitude (n, 3, 3) and body rate (n, 3) of a multirotor on a given path with a given
    heading.

    Body z is the thrust direction, body x is horizontal-heading projected onto the rotor plane
    (Faessler, Franchi, Scaramuzza 2018, section III, without drag).
    """
    zero = np.zeros_like(yaw_rad)
    y_heading = np.stack((-np.sin(yaw_rad), np.cos(yaw_rad), zero), axis=-1)
    y_heading1 = -yaw_rate_radps[:, None] * np.stack(
        (np.cos(yaw_rad), np.sin(yaw_rad), zero), axis=-1
    )
    z, z1 = _unit(a_mps2 + np.array([0.0, 0.0, GRAVITY_MPS2]), jerk_mps3)
    x, x1 = _unit(cross(y_heading, z), cross(y_heading1, z) + cross(y_heading, z1))
    y = cross(z, x)
    # R' = R [w]x, so each component of w is the projection of one axis' motion onto another axis.
    y1 = cross(z1, x) + cross(z, x1)
    w = np.stack(((y1 * z).sum(-1), (z1 * x).sum(-1), (x1 * y).sum(-1)), axis=-1)
    return np.stack((x, y, z), axis=-1), w


def _unit(u: FloatArray, u1: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return direction of u and its derivative, given u and its derivative, shapes (n, 3)."""
    n = np.linalg.norm(u, axis=-1, keepdims=True)
    unit = u / n
    return unit, (u1 - unit * (unit * u1).sum(-1, keepdims=True)) / n
