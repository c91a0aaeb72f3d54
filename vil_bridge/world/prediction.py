"""Poses of a vehicle with an IMU at instants that mocap has not seen yet.

The newest mocap pose is the anchor. Its velocity comes from a fit over the last 70 ms of positions
with the measured acceleration removed; from there the bias-free inertial samples are integrated, and
beyond them the motion is forecast (docs/concepts/prediction.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform, cross, q_mul, q_rotate
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray
from vil_bridge.world.freeze import PoseAgainstImu
from vil_bridge.world.inertial.bias import GyroBias
from vil_bridge.world.inertial.extrapolation import RECENT_NS, forecast
from vil_bridge.world.inertial.imu_buffer import ImuBuffer
from vil_bridge.world.inertial.preintegration import NavState, preintegrate, propagate
from vil_bridge.world.inertial.velocity import FIT_WINDOW_NS, fit_velocity, inertial_displacement
from vil_bridge.world.tracks import TrackBank

_WINDOW_SAMPLES: Final = 32
_MOST: Final = 0.7
IMU_SILENCE_NS: Final = 100_000_000
"""An IMU that lags further behind the newest mocap pose has fallen silent and is not believed any more."""


@dataclass(frozen=True, slots=True)
class PredictedPose:
    """A pose and how it was found.

    Attributes:
        method: ``interpolated``, ``inertial`` or ``constant-twist``.
        imu_age_ns: instant asked for minus newest inertial sample; None without an IMU.
    """

    T_world_body: Transform
    method: str
    imu_age_ns: int | None


class InertialPredictor:
    """One vehicle's IMU: samples, gyroscope bias and prediction. The world's lock guards it.

    Attributes:
        against_pose: says whether the gyroscope contradicts the poses.
    """

    def __init__(self, T_body_imu: Transform) -> None:
        self.imu = ImuBuffer()
        self.bias = GyroBias()
        self.T_body_imu = T_body_imu
        self.against_pose = PoseAgainstImu(self.turned_rad)
        self._T_imu_body = T_body_imu.inverse()
        self._newest_anchor: tuple[int, NavState | None] = (-1, None)
        self._newest_pose: tuple[tuple[int, int, int], PredictedPose | None] = ((-1, -1, -1), None)

    def add_imu(self, t_ns: int, w_radps: FloatArray, f_mps2: FloatArray) -> None:
        """Store a sample: bridge time, IMU axes."""
        self.imu.append(t_ns, w_radps, f_mps2)

    def add_pose(self, t_ns: int, p_world_body_m: FloatArray, q_world_body_xyzw: FloatArray) -> None:
        """Give a tracked pose to the bias estimate, and compare it with the gyroscope."""
        self.against_pose.add(t_ns, p_world_body_m, q_world_body_xyzw)
        p, q = self._imu_pose(p_world_body_m, q_world_body_xyzw)
        self.bias.observe(t_ns, p, q, self.imu)

    def since(self, t_ns: int) -> ImuWindow | None:
        """Return the measured samples after ``t_ns``, an instant by mocap's stamps; None when there is none."""
        late_ns = self.bias.late_ns
        samples = self.imu.since(t_ns + late_ns)
        return None if samples is None else samples._replace(t_ns=samples.t_ns - late_ns)

    def turned_rad(self, t0_ns: int, t1_ns: int) -> float | None:
        """Return the net angle that the gyroscope turned by between two instants; None when it does not cover most."""
        newest_ns = self._newest_imu_ns()
        t_end_ns = t1_ns if newest_ns is None else min(t1_ns, newest_ns)
        if t_end_ns - t0_ns < _MOST * (t1_ns - t0_ns) or (samples := self._samples(t0_ns, t_end_ns)) is None:
            return None
        return float(np.linalg.norm(np.trapezoid(samples.w_radps, 1e-9 * (samples.t_ns - t0_ns), axis=0)))

    def counters(self) -> dict[str, int]:
        """Return the inertial samples dropped and bias windows refused, by reason."""
        return {
            "imu_out_of_order": self.imu.out_of_order,
            "imu_duplicates": self.imu.duplicates,
            "imu_rejected": self.imu.rejected,
            "imu_resets": self.imu.resets,
            "bias_windows_rejected": self.bias.rejected,
        }

    def reset_imu(self) -> None:
        """Drop the samples after a restart of the IMU's clock."""
        self.imu.clear()
        self.bias.reset_clock()

    def reset_poses(self) -> None:
        """Drop the bias window after a restart of the mocap system or a jump of the body."""
        self.bias.reset_clock()

    def predict(self, bank: TrackBank, row: int, t_ns: int, horizon_ns: int) -> PredictedPose | None:
        """Return the pose at ``t_ns``, at most ``horizon_ns`` after the anchor; None when the IMU does not cover it.

        Cached while nothing new came in, since a tick asks for its camera and for the scene.
        """
        newest_imu_ns = self._newest_imu_ns()
        if newest_imu_ns is None or bank.t_capture_ns.item(row) - newest_imu_ns > IMU_SILENCE_NS:
            return None
        key = (t_ns, bank.version, newest_imu_ns)
        if self._newest_pose[0] != key:
            state = self._propagated(bank, row, t_ns, horizon_ns)
            pose = None
            if state is not None:
                age_ns = max(0, t_ns - newest_imu_ns)
                pose = PredictedPose(state.T_world_body @ self._T_imu_body, "inertial", age_ns)
            self._newest_pose = (key, pose)
        return self._newest_pose[1]

    def twist(self, bank: TrackBank, row: int, t_ns: int, horizon_ns: int) -> tuple[FloatArray, FloatArray] | None:
        """Return velocity of the body's origin (world axes) and angular rate (body axes); None as :meth:`predict`."""
        newest_imu_ns = self._newest_imu_ns()
        if newest_imu_ns is None or bank.t_capture_ns.item(row) - newest_imu_ns > IMU_SILENCE_NS:
            return None
        state = self._propagated(bank, row, t_ns, horizon_ns)
        samples = self._samples(t_ns - 1, t_ns)
        if state is None or samples is None:
            return None
        w_imu_radps = samples.w_radps[-1]
        lever_mps = q_rotate(state.T_world_body.q_xyzw, cross(w_imu_radps, self._T_imu_body.p_m))
        return state.v_world_mps + lever_mps, q_rotate(self.T_body_imu.q_xyzw, w_imu_radps)

    def _propagated(self, bank: TrackBank, row: int, t_ns: int, horizon_ns: int) -> NavState | None:
        if self._newest_anchor[0] != bank.version or self._newest_anchor[1] is None:
            self._newest_anchor = (bank.version, self._anchor(bank, row))
        state = self._newest_anchor[1]
        if state is None:
            return None
        until_ns = min(t_ns, state.t_ns + horizon_ns)
        if until_ns <= state.t_ns:
            return state
        newest_imu_ns = self._newest_imu_ns()
        measured_ns = until_ns if newest_imu_ns is None else min(until_ns, newest_imu_ns)
        if measured_ns > state.t_ns:
            samples = self._samples(state.t_ns, measured_ns)
            if samples is None:
                return None
            state = propagate(state, preintegrate(*samples))
        if until_ns == state.t_ns:
            return state
        recent = self.imu.recent(RECENT_NS)
        return None if recent is None else forecast(state, self.bias.corrected(recent), until_ns)

    def _anchor(self, bank: TrackBank, row: int) -> NavState | None:
        """Return the newest mocap state of the IMU's axes, with its velocity."""
        window = bank.window(row, _WINDOW_SAMPLES)
        recent = window.t_ns >= window.t_ns[-1] - FIT_WINDOW_NS
        t_ns = window.t_ns[recent]
        p_m, q_xyzw = self._imu_pose(window.p_m[recent], window.q_xyzw[recent])
        if len(t_ns) < 2:
            return None
        samples = self._samples(int(t_ns[0]), int(t_ns[-1]))
        if samples is None:
            return None
        v_mps = fit_velocity(t_ns, p_m, inertial_displacement(t_ns, samples, q_xyzw[0]))
        if v_mps is None:
            return None
        return NavState(int(t_ns[-1]), Transform(p_m[-1], q_xyzw[-1]), v_mps)

    def _newest_imu_ns(self) -> int | None:
        """Return the instant of the newest sample by mocap's stamps."""
        newest_ns = self.imu.newest_t_ns
        return None if newest_ns is None else newest_ns - self.bias.late_ns

    def _samples(self, t0_ns: int, t1_ns: int) -> ImuWindow | None:
        """Return bias-free samples over an interval of mocap's stamps, as :meth:`ImuBuffer.between`."""
        late_ns = self.bias.late_ns
        samples = self.imu.between(t0_ns + late_ns, t1_ns + late_ns)
        return None if samples is None else self.bias.corrected(samples)

    def _imu_pose(self, p_world_body_m: FloatArray, q_world_body_xyzw: FloatArray) -> tuple[FloatArray, FloatArray]:
        p = p_world_body_m + q_rotate(q_world_body_xyzw, self.T_body_imu.p_m)
        return p, np.asarray(q_mul(q_world_body_xyzw, self.T_body_imu.q_xyzw))
