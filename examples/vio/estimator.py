"""A small visual-inertial estimator.

Smart factors and preintegrated inertial factors in a fixed-lag smoother.

It shows what the bridge's pictures and stamps are worth; it is not flight code. Each picture gets a
state (pose and velocity of the IMU, biases). Inertial samples between two pictures become one
factor (Forster et al., "On-manifold preintegration for real-time visual-inertial odometry", T-RO
2017). A corner's track becomes one smart factor, which eliminates the landmark (Carlone et al.,
"Eliminating conditionally independent sets in factor graphs", ICRA 2014), once the corner is lost
or has been seen ``_LONGEST_TRACK`` times; so every observation is used once, and a factor never
changes (Mourikis and Roumeliotis, "A multi-state constraint Kalman filter", ICRA 2007). States
older than the lag are marginalised by gtsam.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Final, NamedTuple

import gtsam
import numpy as np
import numpy.typing as npt
from gtsam.symbol_shorthand import B, V, X
from tracker import Tracker

from vil_bridge.core.geometry import Transform, q_from_matrix

__all__ = ["ImuNoise", "State", "Vio"]

_LAG_STATES: Final = 18
_LONGEST_TRACK: Final = 12
_SHORTEST_TRACK: Final = 4
_PIXEL_SIGMA: Final = 0.7
_OUTLIER_PX: Final = 3.0
_FARTHEST_M: Final = 30.0
_GRAVITY_MPS2: Final = 9.80665
_REST_S: Final = 0.5
_REST_GAP_S: Final = 0.02
_REST_RADPS: Final = 0.15
_REST_MPS2: Final = 0.6
_STILL_RADPS: Final = 0.03
_STILL_MPS2: Final = 0.15
_STILL_PX: Final = 1.0
_STILL_PICTURES: Final = 3
_START_SIGMAS: Final = (0.02, 0.02, 1e-3, 1e-3, 1e-3, 1e-3)
_START_MPS: Final = 0.05
_START_BIAS: Final = (0.15, 0.15, 0.15, 5e-3, 5e-3, 5e-3)
_LONGEST_GAP_S: Final = 10.0

_Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ImuNoise:
    """White noise and random walk of the biases, continuous time, SI units."""

    gyro_density: float = 2e-3
    gyro_walk: float = 2e-5
    accel_density: float = 2e-2
    accel_walk: float = 3e-3


@dataclass(frozen=True, slots=True)
class State:
    """Pose and velocity (m/s, world) of the IMU at a picture, in a world with z up whose origin
    is where it started.
    """

    t_ns: int
    T_world_imu: Transform
    v_world_mps: _Array


class _Seen(NamedTuple):
    """A corner in a picture: number of the picture's state, pixel (2,)."""

    key: int
    pixel: _Array


class Vio:
    """Feed inertial samples, then pictures, each in order of time.

    Starts by itself when the vehicle rests.

    Motors may idle at rest: means over a quarter of a second with Hann's weights let vibration of
    20 Hz or more pass by less than 0.1 %, and corners of the pictures stay.

    Attributes:
        unusable: pictures without a state, since the vehicle had not rested yet, or its inertial
            samples are missing.
        restarts: times that the smoother could not be solved, and went on from the inertial
            prediction.
    """

    def __init__(self, K: _Array, T_imu_camera: Transform, noise: ImuNoise) -> None:
        """Begin.

        Args:
            K: intrinsic matrix of pictures without distortion, shape (3, 3).
            T_imu_camera: the camera's optical axes (x right, y down, z forward) in the IMU's.
            noise: of the IMU.
        """
        self.unusable = self.restarts = 0
        self._tracker = Tracker(K)
        self._R_imu_camera = T_imu_camera.rotation()
        self._camera = gtsam.Pose3(gtsam.Rot3(self._R_imu_camera), T_imu_camera.p_m)
        self._K = gtsam.Cal3_S2(K[0, 0], K[1, 1], 0.0, K[0, 2], K[1, 2])
        self._imu_params = _imu_params(noise)
        self._pixel_noise = gtsam.noiseModel.Isotropic.Sigma(2, _PIXEL_SIGMA)
        self._smart_params = _smart_params()
        self._times: list[int] = []
        self._samples: list[_Array] = []
        self._tracks: dict[int, list[_Seen]] = {}
        self._rest: _Array | None = None
        self._corners: dict[int, npt.NDArray[np.float32]] = {}
        self._still = 0
        self._key = -1
        self._t_ns = 0
        self._nav = gtsam.NavState()
        self._bias = gtsam.imuBias.ConstantBias()

    def add_imu(self, t_ns: int, w_radps: _Array, f_mps2: _Array) -> None:
        """Add a sample of angular rate and specific force, IMU axes, shapes (3,).

        Late ones are left out.
        """
        if not self._times or t_ns > self._times[-1]:
            self._times.append(t_ns)
            self._samples.append(np.concatenate((w_radps, f_mps2)))

    def add_picture(self, t_ns: int, gray: npt.NDArray[np.uint8]) -> State | None:
        """Add a picture of the instant ``t_ns``; the samples until then must have been fed.

        Returns:
            The state at the picture; None while there is none.
        """
        recent = self._recent(t_ns) if self._key < 0 else None
        if self._key < 0 and recent is None:  # too few samples to distinguish rest from motion
            self.unusable += 1
            return None
        if (recent is None or not self._rests(recent, t_ns, gray)) and not self._advance(
            t_ns, gray
        ):
            self.unusable += 1
            return None
        q_xyzw = q_from_matrix(np.asarray(self._nav.attitude().matrix()))
        return State(
            t_ns,
            Transform(np.asarray(self._nav.position()), q_xyzw),
            np.asarray(self._nav.velocity()),
        )

    def _rests(self, recent: _Array, t_ns: int, gray: npt.NDArray[np.uint8]) -> bool:
        """Return True if the vehicle rests at an image.

        Then the state is level, heading along x, not moving.
        """
        mean = _steady_mean(recent)
        if self._rest is None:
            if mean is None or not _plausible_rest(mean):
                return False
            self._rest, self._corners, self._still = mean, {}, 0
            self._nav = gtsam.NavState(_level(mean[3:]), np.zeros(3), np.zeros(3))
            self._bias = gtsam.imuBias.ConstantBias(np.zeros(3), mean[:3])
        moved_px = self._corners_moved(gray)
        steady = mean is not None and _still(mean - self._rest, recent)
        moved = moved_px is None or moved_px > _STILL_PX
        if moved_px is not None and moved and steady:  # the bridge still learns where the camera is
            self._corners = {}
        # Either alone may be wrong, and a start without parallax drifts away.
        elif moved and not steady:
            if self._still < _STILL_PICTURES:  # a slow motion looked like rest
                self._rest = None
            return False
        self._still += 1
        self._t_ns = t_ns
        return True

    def _recent(self, t_ns: int) -> _Array | None:
        """Return the samples of the last half second, shape (n, 6); None where some are missing."""
        begin = bisect.bisect_left(self._times, t_ns - round(_REST_S * 1e9))
        end = bisect.bisect_right(self._times, t_ns)
        times = np.array(self._times[begin:end])
        if (
            len(times) < 20
            or times[-1] - times[0] < 0.9e9 * _REST_S
            or np.diff(times).max() > 1e9 * _REST_GAP_S
        ):
            return None
        return np.array(self._samples[begin:end])

    def _corners_moved(self, gray: npt.NDArray[np.uint8]) -> float | None:
        """Return how far the corners have moved since the rest began, pixels, the median.

        None without corners.
        """
        corners = self._tracker.track(gray, np.eye(3))
        moved_px = [
            np.linalg.norm(pixel - self._corners[n])
            for n, pixel in corners.items()
            if n in self._corners
        ]
        self._corners |= {n: pixel for n, pixel in corners.items() if n not in self._corners}
        return float(np.median(moved_px)) if moved_px else None

    def _advance(self, t_ns: int, gray: npt.NDArray[np.uint8]) -> bool:
        """Go on from the last state.

        False where there is none, or the samples since then are missing.
        """
        between = None if self._rest is None else self._preintegrate(t_ns)
        if between is None:
            return False
        if self._key < 0:
            self._begin(self._t_ns)
        R_before_now = self._R_imu_camera.T @ between.deltaRij().matrix() @ self._R_imu_camera
        corners = self._tracker.track(gray, R_before_now)
        self._nav = between.predict(self._nav, self._bias)
        i, j = self._key, self._key + 1
        graph = gtsam.NonlinearFactorGraph()
        graph.add(gtsam.CombinedImuFactor(X(i), V(i), X(j), V(j), B(i), B(j), between))
        self._key = j
        for factor in self._finished(corners):
            graph.add(factor)
        try:
            self._update(t_ns, graph)
        except RuntimeError:  # gtsam's indeterminate system
            self.restarts += 1
            self._begin(t_ns)
        return True

    def _begin(self, t_ns: int) -> None:
        """Start the smoother, and the tracks, with the known state."""
        self._key += 1
        k, sigmas, graph = self._key, gtsam.noiseModel.Diagonal.Sigmas, gtsam.NonlinearFactorGraph()
        graph.addPriorPose3(X(k), self._nav.pose(), sigmas(np.array(_START_SIGMAS)))
        graph.addPriorVector(
            V(k), np.asarray(self._nav.velocity()), gtsam.noiseModel.Isotropic.Sigma(3, _START_MPS)
        )
        graph.addPriorConstantBias(B(k), self._bias, sigmas(np.array(_START_BIAS)))
        self._tracks.clear()
        self._smoother = gtsam.BatchFixedLagSmoother(_LAG_STATES, _optimiser())
        self._update(t_ns, graph)

    def _preintegrate(self, t_ns: int) -> gtsam.PreintegratedCombinedMeasurements | None:
        """Return the motion from the last state until ``t_ns``, each step with the mean of the
        samples at its ends.

        None where samples are missing. Samples that are not needed any more are forgotten.
        """
        first = bisect.bisect_right(self._times, self._t_ns) - 1
        last = bisect.bisect_left(self._times, t_ns)
        if (
            first < 0
            or last >= len(self._times)
            or not 0 < t_ns - self._t_ns < _LONGEST_GAP_S * 1e9
        ):
            return None
        times = np.array(self._times[first : last + 1])
        ends = np.unique(np.clip(times, self._t_ns, t_ns))
        at = (ends - times[0]).astype(float)
        values = np.array(self._samples[first : last + 1])
        samples = np.column_stack(
            [np.interp(at, (times - times[0]).astype(float), axis) for axis in values.T]
        )
        between = gtsam.PreintegratedCombinedMeasurements(self._imu_params, self._bias)
        for mean, dt_s in zip(
            0.5 * (samples[:-1] + samples[1:]), np.diff(ends) * 1e-9, strict=True
        ):
            between.integrateMeasurement(mean[3:], mean[:3], float(dt_s))
        del self._times[: last - 1], self._samples[: last - 1]
        return between

    def _finished(
        self, corners: dict[int, npt.NDArray[np.float32]]
    ) -> list[gtsam.SmartProjectionPoseFactorCal3_S2]:
        """Note where the corners are; one factor of each track that ended or is long enough."""
        for number, pixel in corners.items():
            self._tracks.setdefault(number, []).append(_Seen(self._key, pixel.astype(np.float64)))
        done = [
            n
            for n, track in self._tracks.items()
            if n not in corners or len(track) == _LONGEST_TRACK
        ]
        return [
            self._smart(track) for n in done if len(track := self._tracks.pop(n)) >= _SHORTEST_TRACK
        ]

    def _smart(self, track: list[_Seen]) -> gtsam.SmartProjectionPoseFactorCal3_S2:
        factor = gtsam.SmartProjectionPoseFactorCal3_S2(
            self._pixel_noise, self._K, self._camera, self._smart_params
        )
        for seen in track:
            factor.add(seen.pixel, X(seen.key))
        return factor

    def _update(self, t_ns: int, graph: gtsam.NonlinearFactorGraph) -> None:
        """Optimise with the new state, which starts where the inertial samples lead."""
        k, values = self._key, gtsam.Values()
        values.insert(X(k), self._nav.pose())
        values.insert(V(k), np.asarray(self._nav.velocity()))
        values.insert(B(k), self._bias)
        # The smoother's time is counted in states: seconds would make a pause of the stream empty
        # it.
        self._smoother.update(graph, values, {X(k): k, V(k): k, B(k): k})
        pose = self._smoother.calculateEstimatePose3(X(k))
        self._nav = gtsam.NavState(pose, self._smoother.calculateEstimateVector(V(k)))
        self._bias = self._smoother.calculateEstimateConstantBias(B(k))
        self._t_ns = t_ns


def _steady_mean(samples: _Array) -> _Array | None:
    """Return the mean of samples (n, 6), shape (6,).

    None where it changes from their first half to the second.
    """
    halves = np.array_split(samples, 2)
    first, second = (
        np.average(half, axis=0, weights=np.hanning(len(half) + 2)[1:-1]) for half in halves
    )
    return np.asarray(0.5 * (first + second)) if _still(second - first, samples) else None


def _still(difference: _Array, samples: _Array) -> bool:
    """Return True if two means of samples (n, 6), with their difference (6,), can belong to the
    same rest.

    A busy link loses samples, and the means of what is left spread like those of white noise.
    """
    turned, pushed = np.split(difference, 2)
    spread_radps, spread_mps2 = (
        np.linalg.norm(samples.std(0).reshape(2, 3), axis=1) * (6.0 / len(samples)) ** 0.5
    )
    return bool(
        np.linalg.norm(turned) < _STILL_RADPS + spread_radps
        and np.linalg.norm(pushed) < _STILL_MPS2 + spread_mps2
    )


def _plausible_rest(mean: _Array) -> bool:
    """Return True if a mean sample is no more than gravity and a gyroscope's bias."""
    force_mps2 = float(np.linalg.norm(mean[3:]))
    return bool(
        np.linalg.norm(mean[:3]) < _REST_RADPS and abs(force_mps2 - _GRAVITY_MPS2) < _REST_MPS2
    )


def _level(f_mps2: _Array) -> gtsam.Rot3:
    """Attitude that makes a specific force point up.

    X stays in the vertical plane through world x.
    """
    up = f_mps2 / np.linalg.norm(f_mps2)
    x = np.array([1.0, 0.0, 0.0]) - up[0] * up
    x /= np.linalg.norm(x)
    return gtsam.Rot3(np.vstack((x, np.cross(up, x), up)))


def _imu_params(noise: ImuNoise) -> gtsam.PreintegrationCombinedParams:
    params = gtsam.PreintegrationCombinedParams.MakeSharedU(_GRAVITY_MPS2)
    params.setGyroscopeCovariance(noise.gyro_density**2 * np.eye(3))
    params.setAccelerometerCovariance(noise.accel_density**2 * np.eye(3))
    params.setBiasOmegaCovariance(noise.gyro_walk**2 * np.eye(3))
    params.setBiasAccCovariance(noise.accel_walk**2 * np.eye(3))
    params.setIntegrationCovariance(1e-8 * np.eye(3))
    return params


def _smart_params() -> gtsam.SmartProjectionParams:
    params = gtsam.SmartProjectionParams(
        gtsam.LinearizationMode.HESSIAN, gtsam.DegeneracyMode.ZERO_ON_DEGENERACY
    )
    params.setDynamicOutlierRejectionThreshold(_OUTLIER_PX)
    params.setLandmarkDistanceThreshold(_FARTHEST_M)
    return params


def _optimiser() -> gtsam.LevenbergMarquardtParams:
    params = gtsam.LevenbergMarquardtParams()
    params.setMaxIterations(2)  # the inertial prediction is a good start
    return params
