"""Poses of a vehicle with an IMU at instants that mocap has not seen yet.

A filter of mocap and IMU gives the state at the newest pose; from there the samples, free of bias,
are integrated, and beyond them the motion is forecast (docs/concepts/prediction.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, q_conj
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray
from vil_bridge.world.freeze import PoseAgainstImu
from vil_bridge.world.inertial.body_estimate import BodyEstimate, body_of, carried, covariance_at
from vil_bridge.world.inertial.body_filter import BodyFilter

_MOST: Final = 0.7
_SAME_NS: Final = 100_000
_OF_POSE: Final = np.array([0, 1, 2, 6, 7, 8]) * 10
"""Variances of attitude and position in a covariance (9, 9)."""
IMU_SILENCE_NS: Final = 100_000_000
"""An IMU that lags further behind the newest mocap pose has fallen silent and is not believed
any more.
"""


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
    """One vehicle's IMU and its filter. The world's lock guards it.

    Attributes:
        body: filter of mocap and IMU.
        against_pose: says whether the gyroscope contradicts the poses.
    """

    def __init__(self, T_body_imu: Transform) -> None:
        self.body = BodyFilter(T_body_imu)
        self.T_body_imu = T_body_imu
        self.against_pose = PoseAgainstImu(self.turned_rad)
        self._q_imu_body_xyzw = q_conj(T_body_imu.q_xyzw)
        self._newest: tuple[tuple[int, int], BodyEstimate | None] = ((-1, -1), None)

    def add_imu(self, t_ns: int, w_radps: FloatArray, f_mps2: FloatArray) -> None:
        """Account a sample: bridge time, IMU axes."""
        self.body.add_imu(t_ns, w_radps, f_mps2)

    def add_pose(
        self, t_ns: int, p_world_body_m: FloatArray, q_world_body_xyzw: FloatArray
    ) -> None:
        """Account a tracked pose, and compare it with the gyroscope."""
        self.against_pose.add(t_ns, p_world_body_m, q_world_body_xyzw)
        self.body.add_pose(t_ns, p_world_body_m, q_world_body_xyzw)

    def since(self, t_ns: int) -> ImuWindow | None:
        """Return the measured samples after ``t_ns``, an instant by mocap's stamps.

        None when there is none.

        The lateness changes a little from call to call: a sample that hardly differs from ``t_ns``
        is not new.
        """
        late_ns = self.body.sensors.late_ns
        samples = self.body.imu.since(t_ns + late_ns + _SAME_NS)
        return None if samples is None else samples._replace(t_ns=samples.t_ns - late_ns)

    def turned_rad(self, t0_ns: int, t1_ns: int) -> float | None:
        """Return the net angle that the gyroscope turned by between two instants.

        None when it does not cover most.
        """
        newest_ns = self._newest_imu_ns()
        sensors = self.body.sensors
        t_end_ns = t1_ns if newest_ns is None else min(t1_ns, newest_ns)
        if t_end_ns - t0_ns < _MOST * (t1_ns - t0_ns):
            return None
        samples = self.body.imu.between(t0_ns + sensors.late_ns, t_end_ns + sensors.late_ns)
        if samples is None:
            return None
        t_s = (samples.t_ns - samples.t_ns[0]) / NS_PER_S
        return float(np.linalg.norm(np.trapezoid(sensors.corrected(samples).w_radps, t_s, axis=0)))

    def counters(self) -> dict[str, int]:
        """Return the inertial samples dropped, and the poses that the filter refused, by reason."""
        imu = self.body.imu
        return {
            "imu_out_of_order": imu.out_of_order,
            "imu_duplicates": imu.duplicates,
            "imu_rejected": imu.rejected,
            "imu_resets": imu.resets,
            "filter_poses_rejected": self.body.rejected,
            "filter_restarts": self.body.restarts,
        }

    def estimate(
        self, t_capture_ns: int, t_ns: int, horizon_ns: int, parts_of: Callable[[float], FloatArray]
    ) -> BodyEstimate | None:
        """Return the body at an instant, None when its IMU does not cover it.

        Cached while nothing new came in, since a tick asks for its camera and for the scene.

        Args:
            t_capture_ns: of the newest pose.
            t_ns: instant asked for.
            horizon_ns: limit of a prediction.
            parts_of: as for :func:`~vil_bridge.world.inertial.body_estimate.carried`.
        """
        t_ns = min(t_ns, t_capture_ns + horizon_ns)
        key = t_ns, self.body.version
        if self._newest[0] != key:
            state = (
                carried(self.body, self.body.newest(), t_ns, parts_of)
                if self._covers(t_capture_ns)
                else None
            )
            self._newest = key, None if state is None else body_of(state, self._q_imu_body_xyzw)
        return self._newest[1]

    def covariance(
        self, t_capture_ns: int, t_ns: int, horizon_ns: int, *, measured: bool
    ) -> FloatArray | None:
        """Return the covariance (9, 9) of :meth:`estimate`.

        Attitude (body axes), velocity and position (world).

        That of a pose as measured has the noise of mocap in addition.
        """
        if not self._covers(t_capture_ns):
            return None
        covariance = covariance_at(
            self.body, min(t_ns, t_capture_ns + horizon_ns), self._q_imu_body_xyzw
        )
        if measured and covariance is not None:
            covariance.flat[_OF_POSE] += self.body.mocap.variances
        return covariance

    def age_ns(self, t_ns: int) -> int | None:
        """Return an instant minus the newest inertial sample, not negative.

        None without samples.
        """
        newest_ns = self._newest_imu_ns()
        return None if newest_ns is None else max(0, t_ns - newest_ns)

    def _covers(self, t_capture_ns: int) -> bool:
        newest_ns = self._newest_imu_ns()
        there = newest_ns is not None and t_capture_ns - newest_ns <= IMU_SILENCE_NS
        return there and self.body.believed and self.body.is_settled

    def _newest_imu_ns(self) -> int | None:
        """Return the instant of the newest sample by mocap's stamps."""
        newest_ns = self.body.imu.newest_t_ns
        return None if newest_ns is None else newest_ns - self.body.sensors.late_ns
