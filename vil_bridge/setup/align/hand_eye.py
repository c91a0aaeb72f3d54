"""Hand-eye calibration: where the marker frame is in the IMU's axes, from poses and inertial
samples.

Rotation: over windows of 80 ms the rotation vector that the gyroscope integrates is the markers'
one, turned by the wanted rotation; bias and clock offset are found with it. Translation: the
markers' acceleration is gravity, specific force and the lever arm's share. Both sides are passed
through the same smooth kernel, whose second derivative stands in for the poses' (the weak form of
the equation), so that no noisy trajectory is ever differentiated. Uncertainty: jackknife over ten
blocks of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import (
    Transform,
    q_conj,
    q_exp,
    q_from_matrix,
    q_log,
    q_mul,
    q_to_matrix,
)
from vil_bridge.core.types import FloatArray
from vil_bridge.setup.align.resample import LARGEST_OFFSET_S, STEP_S, Samples, Stretch, resample
from vil_bridge.setup.align.robust import ROUNDS, fit, solve, weights
from vil_bridge.setup.align.segmentation import CalibrationError, ImuTrack, PoseTrack

_TURN_STEPS: Final = 16
"""Grid steps of one rotation window: 80 ms."""
_KERNEL_HALF_S: Final = 0.1
_BLOCKS: Final = 10
_FINE_S: Final = 0.015
_LEAST_RATE_RADPS: Final = 0.3
_WORST_SD_RAD: Final = np.radians(1.0)
_WORST_SD_M: Final = 0.02


@dataclass(frozen=True, slots=True)
class HandEye:
    """The calibration.

    Attributes:
        T_imu_markers: marker frame in the IMU's axes.
        sd_rad, sd_m: standard deviation of its rotation and translation, the worst axis.
        offset_ns: stamps of the IMU minus stamps of the poses, for the same instant.
        gyro_bias_radps, accel_bias_mps2: shape (3,), IMU axes.
        gravity_room_mps2: shape (3,), as found; its direction shows how level the room's frame is.
        seconds: how much motion it rests on.
    """

    T_imu_markers: Transform
    sd_rad: float
    sd_m: float
    offset_ns: int
    gyro_bias_radps: FloatArray
    accel_bias_mps2: FloatArray
    gravity_room_mps2: FloatArray
    seconds: float

    @property
    def room_tilt_deg(self) -> float:
        """Angle between the room's z and the vertical."""
        horizontal = float(np.linalg.norm(self.gravity_room_mps2[:2]))
        return float(np.degrees(np.arctan2(horizontal, -self.gravity_room_mps2[2])))


def calibrate(poses: PoseTrack, imu: ImuTrack) -> HandEye:
    """Find the marker frame in the IMU's axes.

    Args:
        poses: in the room's frame, z up.
        imu: its stamps are of (nearly) the same clock, within half a second.

    Raises:
        CalibrationError: too little data, or not enough motion: says which motion is missing.
    """
    samples = resample(poses, imu)
    coarse_s = _coarse_offset_s(samples)

    def misfit(offset_s: float) -> float:
        return _fit_rotation(samples, offset_s).misfit

    found: Any = minimize_scalar(
        misfit,
        bounds=(coarse_s - _FINE_S, coarse_s + _FINE_S),
        method="bounded",
        options={"xatol": 5e-5},
    )
    offset_s = float(found.x)
    rotation = _fit_rotation(samples, offset_s)
    if rotation.sd_rad > _WORST_SD_RAD:
        raise CalibrationError(
            f"the rotation is known to {np.degrees(rotation.sd_rad):.1f} degrees only: "
            f"{_MORE_TURNS}"
        )
    lever = _fit_lever(samples, offset_s, rotation.q_imu_markers)
    if lever.sd_m > _WORST_SD_M:
        raise CalibrationError(
            f"the translation is known to {1e3 * lever.sd_m:.0f} mm only: {_FASTER_TURNS}"
        )
    return HandEye(
        Transform(lever.p_imu_markers_m, rotation.q_imu_markers),
        rotation.sd_rad,
        lever.sd_m,
        round(offset_s * NS_PER_S),
        rotation.bias_radps,
        lever.accel_bias_mps2,
        lever.gravity_room_mps2,
        STEP_S * sum(len(s.t_s) for s in samples.stretches),
    )


_MORE_TURNS: Final = (
    "turn the body briskly about all of its axes, for a minute, in sight of the cameras"
)
_FASTER_TURNS: Final = (
    "turn the body faster and with quick changes of direction, about all of its axes"
)


# --- clock offset ---------------------------------------------------------------------------------


def _coarse_offset_s(samples: Samples) -> float:
    """Return the lag at which the two sensors' turning speeds look most alike.

    Needs no rotation and hardly a bias.
    """
    from scipy.signal import correlate  # takes longer to import than all else here

    reach = round(LARGEST_OFFSET_S / STEP_S)
    total = np.zeros(2 * reach + 1)
    for stretch in samples.stretches:
        q = stretch.q_room_markers
        speed = np.linalg.norm(q_log(q_mul(q_conj(q[:-1]), q[1:])), axis=1) / STEP_S
        padded = np.arange(-reach, len(speed) + reach) * STEP_S + stretch.t_s[0]
        w = np.stack(
            [np.interp(padded, samples.imu_t_s, column) for column in samples.imu[:, :3].T], axis=1
        )
        total += correlate(
            np.linalg.norm(w, axis=1), speed - speed.mean(), mode="valid", method="fft"
        )
    # Speeds are of the middle of their step.
    return (int(np.argmax(total)) - reach + 0.5) * STEP_S


# --- rotation -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rotation:
    q_imu_markers: FloatArray
    bias_radps: FloatArray
    misfit: float
    sd_rad: float


def _fit_rotation(samples: Samples, offset_s: float) -> _Rotation:
    """Fit rotation vectors robustly (Kabsch) of the windows, the gyroscope's bias found with it."""
    pairs = [_windows(samples, stretch, offset_s) for stretch in samples.stretches]
    turn_markers = np.concatenate([markers for markers, _ in pairs])
    rates = np.concatenate([w for _, w in pairs])
    _require_turns(turn_markers)
    span_s = _TURN_STEPS * STEP_S
    bias = np.zeros(3)
    weight = np.ones(len(rates))
    R = np.eye(3)
    residual = np.zeros_like(turn_markers)
    turn_imu = turn_markers
    for _ in range(ROUNDS):
        turn_imu = _integrate(rates - bias)
        R = _kabsch(turn_imu, turn_markers, weight)
        residual = turn_imu - turn_markers @ R.T
        bias = bias + np.average(residual, axis=0, weights=weight) / span_s
        weight = weights(residual)
    jackknife = [
        q_log(
            q_mul(
                q_conj(q_from_matrix(R)),
                q_from_matrix(_kabsch(turn_imu[keep], turn_markers[keep], weight[keep])),
            )
        )
        for keep in _leave_one_out(len(rates))
    ]
    misfit = float((weight * (residual**2).sum(axis=1)).mean())
    return _Rotation(q_from_matrix(R), bias, misfit, _jackknife_sd(np.array(jackknife)))


def _windows(samples: Samples, stretch: Stretch, offset_s: float) -> tuple[FloatArray, FloatArray]:
    """Return the rotation vectors (m, 3) of the markers, and the gyroscope's rates (m, steps, 3)
    in their windows.
    """
    count = (len(stretch.t_s) - 1) // _TURN_STEPS
    q = stretch.q_room_markers[: count * _TURN_STEPS + 1 : _TURN_STEPS]
    w = samples.imu_at(stretch, offset_s)[: count * _TURN_STEPS + 1, :3]
    middle = 0.5 * (w[:-1] + w[1:])
    return q_log(q_mul(q_conj(q[:-1]), q[1:])), middle.reshape(count, _TURN_STEPS, 3)


def _integrate(rates: FloatArray) -> FloatArray:
    """Return the rotation vectors (m, 3) of rates (m, steps, 3)."""
    steps = q_exp(rates * STEP_S)
    turned = steps[:, 0]
    for k in range(1, _TURN_STEPS):
        turned = q_mul(turned, steps[:, k])
    return q_log(turned)


def _require_turns(turn: FloatArray) -> None:
    """Require that the windows (m, 3) turn about at least two axes. Raises CalibrationError."""
    rate_radps = np.sqrt(np.linalg.eigvalsh(turn.T @ turn / len(turn))) / (_TURN_STEPS * STEP_S)
    if rate_radps[1] < _LEAST_RATE_RADPS:
        raise CalibrationError(
            f"the body turned at {rate_radps[2]:.1f} rad/s about one axis and at "
            f"{rate_radps[1]:.1f} about the "
            f"next (at least {_LEAST_RATE_RADPS} about two are needed): {_MORE_TURNS}"
        )


def _kabsch(imu: FloatArray, markers: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the rotation matrix with imu = R markers in the least-squares sense."""
    u, _, vt = np.linalg.svd((imu * weight[:, None]).T @ markers)
    R: FloatArray = u @ np.diag([1.0, 1.0, np.linalg.det(u @ vt)]) @ vt
    return R


# --- translation ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Lever:
    p_imu_markers_m: FloatArray
    accel_bias_mps2: FloatArray
    gravity_room_mps2: FloatArray
    sd_m: float


def _fit_lever(samples: Samples, offset_s: float, q_imu_markers: FloatArray) -> _Lever:
    """Fit lever arm, accelerometer bias and gravity by robust least squares over all kernel
    windows.
    """
    parts = [_equations(samples, stretch, offset_s, q_imu_markers) for stretch in samples.stretches]
    A, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    x, weight = fit(A, y)
    jackknife = [
        solve(A[keep], y[keep], weight[keep])[:3] - x[:3] for keep in _leave_one_out(len(y))
    ]
    return _Lever(x[:3], x[3:6], x[6:], _jackknife_sd(np.array(jackknife)))


def _equations(
    samples: Samples, stretch: Stretch, offset_s: float, q_imu_markers: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the coefficients (m, 3, 9) of (lever arm, accelerometer bias, gravity) and
    right-hand sides (m, 3).
    """
    kernel, curvature = _kernel()
    stride = len(kernel) // 4
    R = q_to_matrix(q_mul(stretch.q_room_markers, q_conj(q_imu_markers)))
    f_room = (R @ samples.imu_at(stretch, offset_s)[:, 3:, None])[..., 0]
    flat = R.reshape(-1, 9)
    y = _smooth(stretch.p_room_m, curvature, stride) - _smooth(f_room, kernel, stride)
    lever = _smooth(flat, curvature, stride).reshape(-1, 3, 3)
    bias = -_smooth(flat, kernel, stride).reshape(-1, 3, 3)
    return np.concatenate((lever, bias, np.broadcast_to(np.eye(3), lever.shape)), axis=2), y


def _kernel() -> tuple[FloatArray, FloatArray]:
    """Return the kernel (1 - x^2)^4 with unit integral, and its second derivative, both times
    the step.
    """
    half = round(_KERNEL_HALF_S / STEP_S)
    s = np.linspace(-1.0, 1.0, 2 * half + 1)
    inside = 1.0 - s**2
    scale = (inside**4).sum()
    return inside**4 / scale, (
        48.0 * s**2 * inside**2 - 8.0 * inside**3
    ) / scale / _KERNEL_HALF_S**2


def _smooth(values: FloatArray, kernel: FloatArray, stride: int) -> FloatArray:
    """Return the convolution of the columns of (n, k) where the kernel fits, every ``stride``-th
    row.
    """
    return np.stack([np.convolve(column, kernel, "valid")[::stride] for column in values.T], axis=1)


# --- uncertainty ----------------------------------------------------------------------------------


def _leave_one_out(count: int) -> list[npt.NDArray[np.int_]]:
    """Return the rows outside each block of time."""
    rows = np.arange(count)
    return [np.delete(rows, block) for block in np.array_split(rows, _BLOCKS)]


def _jackknife_sd(deviations: FloatArray) -> float:
    """Return the standard deviation of the worst axis, from leave-one-out deviations.

    Blocks, 3.
    """
    spread = deviations - deviations.mean(axis=0)
    return float(np.sqrt((len(spread) - 1) / len(spread) * (spread**2).sum(axis=0)).max())
