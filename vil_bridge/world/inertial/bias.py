"""Online estimates of an IMU's biases, and of its clock's, from the attitudes that a mocap system sees."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_conj, q_log, q_mul, q_rotate, q_to_matrix
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.imu_buffer import ImuBuffer
from vil_bridge.world.inertial.preintegration import GRAVITY_WORLD_MPS2, integrate

WINDOW_NS: Final = 700_000_000
"""Attitudes this far apart are compared; twice as far apart (tracking was lost), the comparison starts over."""

_INITIAL_STD_RADPS: Final = 0.3
_WALK_RADPS_PER_SQRT_S: Final = 5e-4
_ATTITUDE_STD_RAD: Final = 2.5e-3  # one mocap attitude
_SYNC_STD_S: Final = 1e-3  # of the clock mapping between mocap and IMU, from window to window
_INITIAL_LATE_STD_S: Final = 5e-3
_LATE_WALK_PER_SQRT_S: Final = 5e-5
_LATEST_S: Final = 0.02
_SCALE_STD: Final = 3e-3  # gain and misalignment of the gyroscope, of all the way turned
_GATE: Final = 16.3  # chi square, 3 degrees of freedom, 0.1 %
_REJECTED_LIMIT: Final = 8  # so many windows in a row cannot all be outliers: the bias jumped

_REST_GYRO_STD_RADPS: Final = 0.02
_REST_TURN_RADPS: Final = 0.008
_REST_MOVE_MPS: Final = 0.005
_REST_STD_RADPS: Final = 2e-3

_REST_ACCEL_STD_MPS2: Final = 0.3
_INITIAL_ACCEL_STD_MPS2: Final = 0.3
_ACCEL_WALK_PER_SQRT_S: Final = 1e-3
_REST_FORCE_STD_MPS2: Final = 0.03  # gravity's direction in an attitude known to 2.5 mrad
_LARGEST_ACCEL_BIAS_MPS2: Final = 1.0

_INITIAL_P: Final[FloatArray] = np.diag([_INITIAL_STD_RADPS] * 3 + [_INITIAL_LATE_STD_S]) ** 2
_WITHOUT_LATE: Final[FloatArray] = np.outer((1.0, 1.0, 1.0, 0.0), (1.0, 1.0, 1.0, 0.0))
_WALK_Q: Final[FloatArray] = np.diag([_WALK_RADPS_PER_SQRT_S] * 3 + [_LATE_WALK_PER_SQRT_S]) ** 2


class AccelBias:
    """The accelerometer's bias: at rest it must feel gravity alone, in the attitude that mocap sees.

    In one attitude an error of scale or of mounting looks the same, and taking it off is right there.

    Attributes:
        bias_mps2: shape (3,), to subtract from the specific force, IMU axes.
        updates: rests used.
    """

    def __init__(self) -> None:
        self.bias_mps2: FloatArray = np.zeros(3)
        self.updates = 0
        self._variance = _INITIAL_ACCEL_STD_MPS2**2

    @property
    def std_mps2(self) -> float:
        """Standard deviation of the estimate, of each axis."""
        return math.sqrt(self._variance)

    def rest(self, dt_s: float, q_world_imu_xyzw: FloatArray, f_mps2: FloatArray) -> bool:
        """Account a rest; False when the samples are not those of a rest.

        Args:
            dt_s: since the last one, or the length of this one.
            q_world_imu_xyzw: shape (4,).
            f_mps2: shape (n, 3), samples, IMU axes.
        """
        seen_mps2 = f_mps2.mean(axis=0) + q_rotate(q_conj(q_world_imu_xyzw), GRAVITY_WORLD_MPS2)
        if f_mps2.std(axis=0).max() > _REST_ACCEL_STD_MPS2 or np.abs(seen_mps2).max() > _LARGEST_ACCEL_BIAS_MPS2:
            return False
        self._variance += _ACCEL_WALK_PER_SQRT_S**2 * dt_s
        gain = self._variance / (self._variance + _REST_FORCE_STD_MPS2**2)
        self.bias_mps2 = self.bias_mps2 + gain * (seen_mps2 - self.bias_mps2)
        self._variance *= 1.0 - gain
        self.updates += 1
        return True


class GyroBias:
    """A four-state Kalman filter fed with mocap poses; needs no rest, uses it when it comes.

    Over a window the bias turns the integrated attitude away from the observed one by about bias
    times time: one measurement per window, weighted by what the attitudes, the clock mapping and the
    gyroscope's gain leave uncertain, and refused where it contradicts the estimate (a rigid body
    that the mocap system mistook). While gyroscope and mocap agree that nothing moves, the mean
    rate itself is the measurement. Without mocap the estimate stays and its uncertainty grows.

    Stamps that are late by the same time always (a sensor's filter, a line's delay, an exposure that
    is not known) turn it away by that time and the difference of the rates at both ends, which bias
    does not do: the fourth state. It is measured while the body turns; until then it is 0.

    Attributes:
        bias_radps: shape (3,), to subtract from the gyroscope, IMU axes.
        late_s: how much later the IMU's stamps are than mocap's of the same instant.
        accel: the accelerometer's bias, learnt in the same rests.
        rejected: windows refused as outliers.
        updates: windows used.
    """

    def __init__(self) -> None:
        self.bias_radps: FloatArray = np.zeros(3)
        self.late_s = 0.0
        self.accel = AccelBias()
        self.rejected = 0
        self.updates = 0
        self._P = _INITIAL_P
        self._rejected_in_a_row = 0
        self.clear_window()

    @property
    def std_radps(self) -> FloatArray:
        """Standard deviation of the bias, shape (3,)."""
        return np.sqrt(np.diag(self._P)[:3])

    @property
    def late_ns(self) -> int:
        """:attr:`late_s` in nanoseconds."""
        return round(self.late_s * NS_PER_S)

    def corrected(self, imu: ImuWindow) -> ImuWindow:
        """Return the same samples without the biases, at mocap's times."""
        return ImuWindow(imu.t_ns - self.late_ns, imu.w_radps - self.bias_radps, imu.f_mps2 - self.accel.bias_mps2)

    def clear_window(self) -> None:
        """Forget the poses of the window in progress, not the estimate: a clock or the world jumped."""
        self._start: tuple[int, FloatArray, FloatArray] | None = None
        self._end: tuple[int, FloatArray, FloatArray] | None = None

    def reset_clock(self) -> None:
        """Drop the window in progress and the certainty of the lateness: one of the clocks started over."""
        self.clear_window()
        self._P = self._P * _WITHOUT_LATE + _INITIAL_P * (1.0 - _WITHOUT_LATE)

    def observe(self, t_ns: int, p_world_m: FloatArray, q_world_imu_xyzw: FloatArray, imu: ImuBuffer) -> bool:
        """Account a tracked pose of the IMU; True when the estimate was updated. Cheap between windows.

        Args:
            t_ns: capture time, bridge clock.
            p_world_m: shape (3,).
            q_world_imu_xyzw: shape (4,).
            imu: samples of the same IMU; may lag behind ``t_ns``, the window then waits for them.
        """
        pose = (t_ns, p_world_m, q_world_imu_xyzw)
        if self._start is None or not 0 <= t_ns - self._start[0] <= 2 * WINDOW_NS:
            self._start, self._end = pose, None
            return False
        if self._end is None:
            if t_ns - self._start[0] < WINDOW_NS:
                return False
            self._end = pose
        newest_ns = imu.newest_t_ns
        if newest_ns is None or newest_ns < self._end[0] + self.late_ns:
            return False
        start, end = self._start, self._end
        self._start, self._end = end, None
        window = imu.between(start[0] + self.late_ns, end[0] + self.late_ns)
        return window is not None and self._compare(start, end, window)

    def _compare(
        self, start: tuple[int, FloatArray, FloatArray], end: tuple[int, FloatArray, FloatArray], imu: ImuWindow
    ) -> bool:
        dt_s = (end[0] - start[0]) / NS_PER_S
        self._P = self._P + _WALK_Q * dt_s
        seen_xyzw = q_mul(q_conj(start[2]), end[2])
        turn_radps = float(np.linalg.norm(q_log(seen_xyzw))) / dt_s
        speed_mps = float(np.linalg.norm(end[1] - start[1])) / dt_s
        still = turn_radps < _REST_TURN_RADPS and speed_mps < _REST_MOVE_MPS
        if still and float(imu.w_radps.std(axis=0).max()) < _REST_GYRO_STD_RADPS:
            self.accel.rest(dt_s, end[2], imu.f_mps2)
            return self._update(imu.w_radps.mean(axis=0) - self.bias_radps, np.eye(3, 4), _REST_STD_RADPS)
        path = integrate(imu.t_ns, imu.w_radps - self.bias_radps, imu.f_mps2)
        # A constant error of the rate turns the end attitude by the integral of R_end_t times itself.
        R_end_t = q_to_matrix(q_mul(q_conj(path.dR_q_xyzw[-1]), path.dR_q_xyzw))
        steps_s = np.diff(path.dt_s)
        J = np.einsum("n,nij->ij", steps_s, 0.5 * (R_end_t[:-1] + R_end_t[1:]))
        residual_rad = q_log(q_mul(q_conj(seen_xyzw), path.dR_q_xyzw[-1]))
        shear_radps = imu.w_radps[-1] - q_rotate(q_conj(path.dR_q_xyzw[-1]), imu.w_radps[0])
        variance_rad2 = (
            2.0 * _ATTITUDE_STD_RAD**2
            + _SYNC_STD_S**2 * float(shear_radps @ shear_radps)
            + (_SCALE_STD * float(np.linalg.norm(imu.w_radps[1:], axis=1) @ steps_s)) ** 2
        )
        return self._update(residual_rad, np.column_stack((J, -shear_radps)), math.sqrt(variance_rad2))

    def _update(self, residual: FloatArray, J: FloatArray, std: float) -> bool:
        S = J @ self._P @ J.T + np.eye(3) * std**2
        if float(residual @ np.linalg.solve(S, residual)) > _GATE:
            self.rejected += 1
            self._rejected_in_a_row += 1
            if self._rejected_in_a_row >= _REJECTED_LIMIT:
                self._P = _INITIAL_P
            return False
        gain = np.linalg.solve(S, J @ self._P).T
        change = gain @ residual
        self.bias_radps = self.bias_radps + change[:3]
        self.late_s = min(max(self.late_s + float(change[3]), -_LATEST_S), _LATEST_S)
        rest = np.eye(4) - gain @ J
        self._P = rest @ self._P @ rest.T + gain @ gain.T * std**2
        self._rejected_in_a_row = 0
        self.updates += 1
        return True
