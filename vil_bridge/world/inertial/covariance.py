"""Covariance of the increments of a preintegration, and their derivatives by errors of the samples.

An error of one step's rate turns all later steps' forces, one of its force adds to the velocity
from there on; sums over the steps after it give what each does to the end, so that no recursion is
needed, and the sum of all of them is what a constant bias does. Source: the noise propagation of
Forster, Carlone, Dellaert and Scaramuzza, "On-manifold preintegration" (2017), section VI, written
as sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_conj, q_exp, q_mul, q_to_matrix
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.imu_buffer import ImuBuffer
from vil_bridge.world.inertial.preintegration import PreintegratedTrajectory

_SPAN_NS: Final = NS_PER_S // 4
_WHITE_GAIN: Final = 70.0  # 1 + 16 + 36 + 16 + 1: variance of a fourth difference of white noise
_GYRO_DENSITIES: Final = (1e-3, 0.05)
_ACCEL_DENSITIES: Final = (5e-3, 1.0)

_TURNS_RADPS2: Final = 30.0
_JERKS_MPS3: Final = 200.0
"""Change of rate and force while the newest sample is held."""


@dataclass(slots=True)
class ImuNoise:
    """Errors of the samples of an IMU, learnt from the samples.

    Motion hardly shows in their fourth differences.

    Vibration does, and acts like noise.

    Attributes:
        gyro_density: white noise, rad/s/sqrt(Hz). accel_density: white noise, m/s^2/sqrt(Hz).
        gyro_per_rate: white noise in proportion to the rate, 1/sqrt(Hz): what no gain explains
            (axes that are not at right angles, a clock that jitters).
        accel_per_rate2: white noise in proportion to the squared rate, m/sqrt(Hz): the three axes
            of an accelerometer do not measure in one point.
    """

    gyro_density: float = 2e-3
    accel_density: float = 2e-2
    gyro_per_rate: float = 3e-4
    accel_per_rate2: float = 2e-4
    _learnt_ns: int = -_SPAN_NS
    _weight: float = 1.0

    def held(self, for_ns: int) -> ImuNoise:
        """Return the noise of samples whose newest is held for a time.

        Rate and force go on changing unseen.
        """
        h_s = for_ns / NS_PER_S
        grown = h_s**1.5
        return replace(
            self,
            gyro_density=math.hypot(self.gyro_density, _TURNS_RADPS2 * grown),
            accel_density=math.hypot(self.accel_density, _JERKS_MPS3 * grown),
        )

    def learn(self, imu: ImuBuffer, t_ns: int) -> None:
        """Account the samples up to ``t_ns``, some times a second."""
        if (
            0 <= t_ns - self._learnt_ns < _SPAN_NS
            or (recent := imu.recent(_SPAN_NS)) is None
            or len(recent.t_ns) < 8
        ):
            return
        self._learnt_ns = t_ns
        self._weight = min(self._weight + 1.0, 8.0)
        dt_s = 1e-9 * float(recent.t_ns[-1] - recent.t_ns[0]) / (len(recent.t_ns) - 1)
        for name, samples, (low, high) in (
            ("gyro_density", recent.w_radps, _GYRO_DENSITIES),
            ("accel_density", recent.f_mps2, _ACCEL_DENSITIES),
        ):
            variance = float((np.diff(samples, n=4, axis=0) ** 2).mean()) / _WHITE_GAIN * dt_s
            before = getattr(self, name) ** 2
            density = math.sqrt(before + (variance - before) / self._weight)
            setattr(self, name, min(max(density, low), high))


class IncrementsJacobians(NamedTuple):
    """Derivatives of the nine increments, and the covariance that the samples' noise gives them.

    The nine are: rotation (rad, a turn in the axes at the end), beta (m/s) and alpha (m), both in
    the axes at the start.

    Attributes:
        rate: shape (9, 3), by a constant error of the rate.
        force: shape (9, 3), by a constant error of the specific force.
        scale: shape (9, 3), by the gain of each axis of the gyroscope.
        noise: shape (9, 9).
    """

    rate: FloatArray
    force: FloatArray
    scale: FloatArray
    noise: FloatArray


def increments_jacobians(
    samples: ImuWindow, path: PreintegratedTrajectory, noise: ImuNoise
) -> IncrementsJacobians:
    """Return the derivatives and the noise of the samples' increments.

    Args:
        samples: n >= 2, free of bias.
        path: their increments, from :func:`~vil_bridge.world.inertial.preintegration.integrate`.
        noise: of the samples.
    """
    dt_s = np.diff(samples.t_ns) / NS_PER_S
    per_rate, per_force = _step_jacobians(samples, path, dt_s)
    w_radps = 0.5 * (samples.w_radps[:-1] + samples.w_radps[1:])
    # The mean over a step of white noise has the variance density^2 / dt.
    rate2 = np.einsum("ni,ni->n", w_radps, w_radps)
    gyro = (noise.gyro_density**2 + noise.gyro_per_rate**2 * rate2) / dt_s
    accel = (noise.accel_density**2 + (noise.accel_per_rate2 * rate2) ** 2) / dt_s
    by_rate = per_rate.swapaxes(0, 1).reshape(9, -1)
    by_force = per_force.swapaxes(0, 1).reshape(9, -1)
    covariance = (by_rate * np.repeat(gyro, 3)) @ by_rate.T + (
        by_force * np.repeat(accel, 3)
    ) @ by_force.T
    scale = (per_rate * w_radps[:, None, :]).sum(axis=0)
    return IncrementsJacobians(per_rate.sum(axis=0), per_force.sum(axis=0), scale, covariance)


def _step_jacobians(
    samples: ImuWindow, path: PreintegratedTrajectory, dt_s: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of the nine by each step's mean rate and by its mean force.

    Shapes (n - 1, 9, 3).
    """
    t_ns, w_radps, f_mps2 = samples
    q_xyzw = path.dR_q_xyzw
    half_rad = 0.25 * (w_radps[:-1] + w_radps[1:]) * dt_s[:, None]
    R_middle = q_to_matrix(q_mul(q_xyzw[:-1], q_exp(half_rad)))
    R_end_T = q_to_matrix(q_conj(q_xyzw[-1]))
    left_s = (t_ns[-1] - t_ns[:-1]) / NS_PER_S - 0.5 * dt_s  # from the middle of a step to the end
    force = np.einsum("nij,nj->ni", R_middle, 0.5 * (f_mps2[:-1] + f_mps2[1:]))
    turned = skew(force) * dt_s[:, None, None]
    # A turn in the middle of a step acts on half of its own force, too.
    on_beta = _after(turned)
    on_alpha = _after(turned * left_s[:, None, None])
    turn = R_middle * dt_s[:, None, None]
    per_rate = np.concatenate((R_end_T @ turn, -on_beta @ turn, -on_alpha @ turn), axis=1)
    per_force = np.concatenate((np.zeros_like(turn), turn, turn * left_s[:, None, None]), axis=1)
    return per_rate, per_force


def _after(parts: FloatArray) -> FloatArray:
    """Return the sum of the parts after each, and half of itself."""
    sums: FloatArray = np.cumsum(parts[::-1], axis=0)[::-1] - 0.5 * parts
    return sums


def skew(v: FloatArray) -> FloatArray:
    """Return the matrices of the cross product, shape (..., 3, 3)."""
    return (v @ _SKEW).reshape(*v.shape, 3)


_SKEW: Final[FloatArray] = np.cross(np.eye(3)[:, None, :], np.eye(3)).swapaxes(1, 2).reshape(3, 9)
