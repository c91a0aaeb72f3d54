"""Error-state Kalman filter of a body that mocap sees and that carries an IMU.

One step, as functions.

The state is that of the IMU's axes at an instant of the IMU's stamps. Its 25 errors are, in this
order: attitude (rad, a turn in the IMU's axes), velocity and position (world axes), biases of
gyroscope and accelerometer, lateness of the IMU's stamps, turn of the markers' axes against the
IMU's, gain of the gyroscope, and place of the body's origin in the IMU's axes. Errors are true
minus estimated; a turn is applied on the right. Source: Sola, "Quaternion kinematics for the
error-state Kalman filter" (2017), sections 5 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import (
    Transform,
    cross,
    q_conj,
    q_exp,
    q_log,
    q_mul,
    q_normalize,
    q_rotate,
    q_to_matrix,
)
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.covariance import ImuNoise, increments_jacobians, skew
from vil_bridge.world.inertial.preintegration import NavState, integrate
from vil_bridge.world.inertial.preintegration import propagate as propagate_nav

SIZE: Final = 25
ATTITUDE: Final = slice(0, 3)
VELOCITY: Final = slice(3, 6)
POSITION: Final = slice(6, 9)
GYRO_BIAS: Final = slice(9, 12)
ACCEL_BIAS: Final = slice(12, 15)
LATE: Final = 15
MOUNT: Final = slice(16, 19)
SCALE: Final = slice(19, 22)
LEVER: Final = slice(22, 25)

_FIRST_STDS: Final = np.repeat(
    (0.2, 5.0, 0.2, 0.1, 0.1, 5e-3, 0.01, 2e-3, 0.005), (3, 3, 3, 3, 3, 1, 3, 3, 3)
)
FIRST_P: Final[FloatArray] = np.diag(_FIRST_STDS**2)
"""Covariance before anything is measured."""

_WALKS: Final[FloatArray] = np.repeat(
    (0.0, 1e-4, 1e-3, 2e-5, 1e-5, 1e-5, 1e-6), (9, 3, 3, 1, 3, 3, 3)
)
"""Random walk of each error, its unit per square root of a second."""
_LATEST_S: Final = 0.1
_LARGEST_BIAS_RADPS: Final = 0.35
"""Of a gyroscope without calibration.

More is motion that mocap does not see, since its poses are frozen.
"""
_STILL_RADPS: Final = 0.5
_STILL_MPS: Final = 0.1
"""Motion below these is noise, which the propagated pose shares.

Taken for motion, it would be taken for lateness.
"""


@dataclass(frozen=True, slots=True, eq=False)
class FilterState:
    """Estimate at ``t_ns``, an instant by the IMU's stamps.

    Attributes:
        q_world_imu_xyzw: shape (4,).
        v_world_mps, p_world_m: shape (3,), of the IMU.
        w_imu_radps: shape (3,), rate at ``t_ns``, free of bias.
        gyro_bias_radps, accel_bias_mps2: shape (3,), to subtract from the samples, IMU axes.
        late_s: how much later the IMU's stamps are than mocap's of the same instant.
        mount_rad: shape (3,), rotation vector from the configured axes of the body to those that
            mocap sees, IMU axes.
        gyro_scale: shape (3,), true rate over measured rate, less 1.
        p_imu_body_m: shape (3,), body's origin in the IMU's axes.
        P: shape (25, 25), covariance of the errors.
    """

    t_ns: int
    q_world_imu_xyzw: FloatArray
    v_world_mps: FloatArray
    p_world_m: FloatArray
    w_imu_radps: FloatArray
    gyro_bias_radps: FloatArray
    accel_bias_mps2: FloatArray
    late_s: float
    mount_rad: FloatArray
    gyro_scale: FloatArray
    p_imu_body_m: FloatArray
    P: FloatArray

    @classmethod
    def unknown(cls, p_imu_body_m: FloatArray) -> FilterState:
        """Return the state before anything is measured.

        The body's origin is where the configuration puts it.
        """
        v = np.zeros(3)
        return cls(
            0, np.array([0.0, 0.0, 0.0, 1.0]), v, v, v, v, v, 0.0, v, v, p_imu_body_m, FIRST_P
        )

    @property
    def late_ns(self) -> int:
        """:attr:`late_s` in nanoseconds."""
        return round(self.late_s * NS_PER_S)

    @property
    def gyro_bias_std_radps(self) -> FloatArray:
        """Standard deviation of the gyroscope's bias, shape (3,)."""
        return np.sqrt(self.P.diagonal()[GYRO_BIAS])

    @property
    def nav(self) -> NavState:
        """Pose and velocity of the IMU."""
        return NavState(
            self.t_ns, Transform(self.p_world_m, self.q_world_imu_xyzw), self.v_world_mps
        )

    def corrected(self, samples: ImuWindow) -> ImuWindow:
        """Return samples free of bias and gain, by the IMU's stamps."""
        w_radps = (samples.w_radps - self.gyro_bias_radps) * (1.0 + self.gyro_scale)
        return ImuWindow(samples.t_ns, w_radps, samples.f_mps2 - self.accel_bias_mps2)


class MocapPose(NamedTuple):
    """Pose of the body at ``t_ns`` by mocap's stamps, its attitude times the configured mount of
    the IMU.
    """

    t_ns: int
    p_m: FloatArray
    q_imu_xyzw: FloatArray


class Innovation(NamedTuple):
    """Difference of a mocap pose from its forecast.

    Attributes:
        t_ns: capture time of the pose.
        residual: shape (6,), attitude (rad, body axes of the IMU as mocap sees them) and position
            (m, world axes).
        S: shape (6, 6), covariance of the residual.
        nis: normalized innovation squared.
        accepted: False when the pose was refused as an outlier.
        seen: shape (6,), squares of what the update left, and the state's own variances in it: what
            the pose shows of its noise; None where it was refused, or where lateness makes more of
            it than the noise.
    """

    t_ns: int
    residual: FloatArray
    S: FloatArray
    nis: float
    accepted: bool
    seen: FloatArray | None


def propagated(state: FilterState, samples: ImuWindow, noise: ImuNoise) -> FilterState:
    """Return the state at the end of the samples' interval.

    Args:
        state: at the start of the interval.
        samples: as measured, IMU's stamps, from the state's instant on.
        noise: of the samples.
    """
    free = state.corrected(samples)
    path = integrate(*free)
    increments = path.last
    nav = propagate_nav(state.nav, increments)
    on = increments_jacobians(free, path, noise)
    R = q_to_matrix(state.q_world_imu_xyzw)
    G = np.zeros((9, 9))
    G[:3, :3] = np.eye(3)
    G[3:6, 3:6] = G[6:, 6:] = R
    F = np.zeros((9, SIZE))
    F[:, :9] = np.eye(9)
    F[ATTITUDE, ATTITUDE] = q_to_matrix(increments.dR_q_xyzw).T
    F[VELOCITY, ATTITUDE] = -R @ skew(increments.beta_mps)
    F[POSITION, ATTITUDE] = -R @ skew(increments.alpha_m)
    F[POSITION, VELOCITY] = increments.dt_s * np.eye(3)
    F[:, GYRO_BIAS] = -G @ on.rate
    F[:, ACCEL_BIAS] = -G @ on.force
    F[:, SCALE] = G @ on.scale
    top = F @ state.P
    P = state.P.copy()
    P[:9, 9:] = top[:, 9:]
    P[9:, :9] = top[:, 9:].T
    P[:9, :9] = top @ F.T + G @ on.noise @ G.T
    P.flat[:: SIZE + 1] += _WALKS**2 * increments.dt_s
    return replace(
        state,
        t_ns=int(samples.t_ns[-1]),
        q_world_imu_xyzw=nav.T_world_body.q_xyzw,
        v_world_mps=nav.v_world_mps,
        p_world_m=nav.T_world_body.p_m,
        w_imu_radps=free.w_radps[-1],
        P=0.5 * (P + P.T),
    )


def corrected(
    state: FilterState, pose: MocapPose, variances: FloatArray, gate: float
) -> tuple[FilterState, Innovation]:
    """Return the state after a pose, and its innovation.

    The state is the same where the gate refuses the pose.

    Args:
        state: near the pose's instant.
        pose: as measured.
        variances: shape (6,), of the pose's attitude and position.
        gate: largest normalized innovation squared.
    """
    residual, H, beyond = measured(state, pose.p_m, pose.q_imu_xyzw)
    residual -= H[:, LATE] * after_s(state, pose)
    R = variances + beyond
    S = H @ state.P @ H.T + np.diag(R)
    solved = np.linalg.solve(S, residual)
    nis = float(residual @ solved)
    if not nis <= gate:
        return state, Innovation(pose.t_ns, residual, S, nis, False, None)
    after = updated(state, residual, H, S, R)
    # The residual of the updated state is (1 - H K) r = R / S r.
    seen = (
        (R * solved) ** 2 + ((H @ after.P) * H).sum(axis=1) - beyond
        if is_clear(variances[3], beyond[3])
        else None
    )
    return after, Innovation(pose.t_ns, residual, S, nis, True, seen)


def after_s(state: FilterState, pose: MocapPose) -> float:
    """Return the time from a state to a pose."""
    return (pose.t_ns + state.late_ns - state.t_ns) / NS_PER_S


def is_clear(variance_m2: float, beyond_m2: float) -> bool:
    """Return True when a residual is the noise of the pose: lateness adds little to it."""
    return 3.0 * beyond_m2 < variance_m2


def measured(
    state: FilterState, p_world_body_m: FloatArray, q_world_imu_xyzw: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the residual (6,) of a mocap pose, its derivative by the errors (6, 25), and variances
    (6,) beyond that.

    The last are of the second order: what lateness makes of a velocity and a rate that are not
    known yet.

    Args:
        state: at the pose's instant.
        p_world_body_m: shape (3,), body's origin as measured.
        q_world_imu_xyzw: shape (4,), measured attitude of the body times the configured mount of
            the IMU.
    """
    q_mount = q_exp(state.mount_rad)
    lever_m = q_rotate(q_mount, state.p_imu_body_m)
    R = q_to_matrix(state.q_world_imu_xyzw)
    R_mount = q_to_matrix(q_mount)
    seen_xyzw = q_mul(state.q_world_imu_xyzw, q_mount)
    variance = state.P.diagonal()
    w_radps = _beyond_noise(state.w_imu_radps, _STILL_RADPS**2 + float(variance[GYRO_BIAS].sum()))
    v_mps = _beyond_noise(state.v_world_mps, _STILL_MPS**2 + float(variance[VELOCITY].sum()))
    beyond = np.empty(6)
    beyond[:3] = (
        float((state.w_imu_radps**2 - w_radps**2 + variance[GYRO_BIAS]).mean()) * variance[LATE]
    )
    beyond[3:] = (
        float((state.v_world_mps**2 - v_mps**2 + variance[VELOCITY]).mean()) * variance[LATE]
    )
    residual = np.empty(6)
    residual[:3] = q_log(q_mul(q_conj(seen_xyzw), q_world_imu_xyzw))
    residual[3:] = p_world_body_m - state.p_world_m - R @ lever_m
    H = np.zeros((6, SIZE))
    H[:3, ATTITUDE] = R_mount.T
    H[:3, LATE] = R_mount.T @ w_radps
    H[:3, MOUNT] = np.eye(3)
    H[3:, ATTITUDE] = -R @ skew(lever_m)
    H[3:, POSITION] = np.eye(3)
    H[3:, LATE] = v_mps + R @ cross(w_radps, lever_m)
    H[3:, MOUNT] = -R @ R_mount @ skew(state.p_imu_body_m)
    H[3:, LEVER] = R @ R_mount
    return residual, H, beyond


def updated(
    state: FilterState, residual: FloatArray, H: FloatArray, S: FloatArray, R: FloatArray
) -> FilterState:
    """Return the state after a measurement.

    Args:
        state: before it.
        residual: shape (m,).
        H: shape (m, 25), its derivative by the errors.
        S: shape (m, m), its covariance.
        R: shape (m,), the noise's variances.
    """
    gain = np.linalg.solve(S, H @ state.P).T
    e = gain @ residual
    rest = np.eye(SIZE) - gain @ H
    P = rest @ state.P @ rest.T + (gain * R) @ gain.T
    return replace(
        state,
        q_world_imu_xyzw=q_normalize(q_mul(state.q_world_imu_xyzw, q_exp(e[ATTITUDE]))),
        v_world_mps=state.v_world_mps + e[VELOCITY],
        p_world_m=state.p_world_m + e[POSITION],
        gyro_bias_radps=np.clip(
            state.gyro_bias_radps + e[GYRO_BIAS], -_LARGEST_BIAS_RADPS, _LARGEST_BIAS_RADPS
        ),
        accel_bias_mps2=state.accel_bias_mps2 + e[ACCEL_BIAS],
        late_s=min(max(state.late_s + float(e[LATE]), -_LATEST_S), _LATEST_S),
        mount_rad=q_log(q_mul(q_exp(state.mount_rad), q_exp(e[MOUNT]))),
        gyro_scale=state.gyro_scale + e[SCALE],
        p_imu_body_m=state.p_imu_body_m + e[LEVER],
        P=P,
    )


def _beyond_noise(v: FloatArray, variance: float) -> FloatArray:
    """Return a vector that vanishes where it is small against its noise."""
    v2 = float(v @ v)
    return v * (v2 / (v2 + variance))
