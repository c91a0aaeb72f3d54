"""Filter of one body with an IMU: samples and mocap poses in, in any order of arrival.

The body at any instant out.

The samples drive the state; each mocap pose corrects it at its own instant, as soon as the samples
cover that. Poses that are newer than the samples wait; what they say is used at once, for the
answer only.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import Transform, q_mul, q_rotate
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.covariance import ImuNoise
from vil_bridge.world.inertial.error_state import (
    ACCEL_BIAS,
    FIRST_P,
    GYRO_BIAS,
    LATE,
    VELOCITY,
    FilterState,
    Innovation,
    MocapPose,
)
from vil_bridge.world.inertial.filter_steps import corrected, propagated
from vil_bridge.world.inertial.imu_buffer import ImuBuffer

# Of a pose that fits, 6 on average; in fast motion the model alone makes it ten times that.
_GATE: Final = 200.0
_REJECTED_LIMIT: Final = 8  # so many in a row cannot all be outliers
_LONGEST_GAP_NS: Final = 50 * NS_PER_MS
_BEHIND_NS: Final = 2 * NS_PER_S
"""A state that lies this far behind the newest sample is of no use: the body is lost."""
_TOO_LATE_NS: Final = 20 * NS_PER_MS
_WAITING: Final = 64
_TRUST_GAIN: Final = 0.05
_MOST_REFUSED: Final = 0.3
"""An IMU that contradicts more than this share of the newest twenty poses is not believed."""
_KNOWN_VELOCITY_M2PS2: Final = 0.75
_LONGEST: Final = 400.0
_LEAST_RAD: Final = 5e-4
_LEAST_M: Final = 1.5e-4
_MOST_RAD: Final = 0.01
_MOST_M: Final = 5e-3
"""Noisier poses than that are none.

The IMU is mounted or scaled otherwise than the configuration says.
"""


@dataclass(slots=True)
class MocapNoise:
    """Noise of mocap poses, learnt from what is left of them after the update.

    What a mocap system smooths away is not gone but lasts: below a least noise, poses are not
    believed to be white.

    Attributes:
        attitude_rad2, position_m2: variance of each axis.
    """

    attitude_rad2: float = 2e-3**2
    position_m2: float = 5e-4**2
    _weight: float = 20.0

    @property
    def variances(self) -> FloatArray:
        """Variances of the six numbers of a residual."""
        attitude_rad2 = max(self.attitude_rad2, _LEAST_RAD**2)
        position_m2 = max(self.position_m2, _LEAST_M**2)
        return np.array(
            (attitude_rad2, attitude_rad2, attitude_rad2, position_m2, position_m2, position_m2)
        )

    def learn(self, seen: FloatArray) -> None:
        """Account a pose.

        ``seen`` shape (6,), squares of what the update left, and the state's own variances in it.
        """
        self._weight = min(self._weight + 1.0, _LONGEST)
        a, b, c, x, y, z = seen.tolist()
        attitude_rad2 = (a + b + c) / 3.0
        position_m2 = (x + y + z) / 3.0
        self.attitude_rad2 += (
            min(max(attitude_rad2, 1e-10), _MOST_RAD**2) - self.attitude_rad2
        ) / self._weight
        self.position_m2 += (
            min(max(position_m2, 1e-10), _MOST_M**2) - self.position_m2
        ) / self._weight


class BodyFilter:
    """Error-state Kalman filter of one body (:mod:`~vil_bridge.world.inertial.error_state`).

    Args:
        T_body_imu: configured mount of the IMU.

    Attributes:
        imu: samples as measured.
        state: after the newest pose that the samples cover; None before it.
        innovation: of that pose.
        mocap: noise of its poses.
        rejected: poses refused as outliers.
        restarts: times that pose and velocity started over.
        version: changes with whatever came in.
    """

    def __init__(self, T_body_imu: Transform) -> None:
        self.imu = ImuBuffer()
        self.noise = ImuNoise()
        self.mocap = MocapNoise()
        self.state: FilterState | None = None
        self.innovation: Innovation | None = None
        self.rejected = 0
        self.restarts = 0
        self._T_body_imu = T_body_imu
        self._sensors = FilterState.unknown(T_body_imu.inverse().p_m)
        self._waiting: deque[MocapPose] = deque(maxlen=_WAITING)
        self._rejected_in_a_row = 0
        self._refused = 0.0
        self.version = 0
        self._newest: tuple[int, FilterState | None] = (-1, None)

    def add_imu(self, t_ns: int, w_radps: FloatArray, f_mps2: FloatArray) -> None:
        """Account a sample: IMU's stamps, IMU axes."""
        if self.imu.append(t_ns, w_radps, f_mps2):
            self.version += 1
            self.noise.learn(self.imu, t_ns)
            self._replay(t_ns)

    def add_pose(self, t_ns: int, p_world_m: FloatArray, q_world_xyzw: FloatArray) -> None:
        """Account a pose of the body as mocap sees it."""
        self._waiting.append(
            MocapPose(t_ns, p_world_m, q_mul(q_world_xyzw, self._T_body_imu.q_xyzw))
        )
        self.version += 1
        newest_ns = self.imu.newest_t_ns
        if newest_ns is not None:
            self._replay(newest_ns)

    def reset_poses(self) -> None:
        """Forget where the body is, and how sure the lateness is: mocap started over."""
        self._waiting.clear()
        self._forget_pose()
        self._doubt(slice(LATE, LATE + 1))

    def reset_imu(self) -> None:
        """Drop the samples, and how sure lateness and biases are.

        The IMU started over, perhaps after a power cycle.
        """
        self.imu.clear()
        self._forget_pose()
        self._doubt(slice(LATE, LATE + 1), GYRO_BIAS, ACCEL_BIAS)

    def shift_poses(self, by_ns: int) -> None:
        """Move the stamps of all poses: their clock is known better now."""
        self._waiting = deque(
            (pose._replace(t_ns=pose.t_ns + by_ns) for pose in self._waiting), _WAITING
        )
        self._shift_late(-by_ns)

    def shift_imu(self, by_ns: int) -> None:
        """Move the stamps of all samples: their clock is known better now."""
        self.imu.shift(by_ns)
        if self.state is not None:
            self.state = replace(self.state, t_ns=self.state.t_ns + by_ns)
        self._shift_late(by_ns)

    @property
    def believed(self) -> bool:
        """False while the IMU contradicts the poses."""
        return self._refused <= _MOST_REFUSED

    @property
    def is_settled(self) -> bool:
        """False while the velocity is hardly known: after a start, or with no poses."""
        return (
            self.state is not None
            and float(self.state.P.diagonal()[VELOCITY].sum()) < _KNOWN_VELOCITY_M2PS2
        )

    @property
    def sensors(self) -> FilterState:
        """Newest estimate of the sensors' errors.

        Before the first pose, nothing is known of the rest.
        """
        return self.state or self._sensors

    def newest(self) -> FilterState | None:
        """Return the state after the newest pose.

        The newest sample is held where the pose is newer. None = unknown.

        Cached until something comes in.
        """
        if self._newest[0] != self.version:
            state = self.state
            newest_ns = self.imu.newest_t_ns
            for pose in self._waiting:
                state = (
                    None
                    if state is None or newest_ns is None
                    else self._held(state, pose, newest_ns)
                )
            self._newest = self.version, state
        return self._newest[1]

    def _held(self, state: FilterState, pose: MocapPose, newest_ns: int) -> FilterState | None:
        t_ns = pose.t_ns + state.late_ns
        if t_ns > state.t_ns:
            samples = self.imu.between(state.t_ns, t_ns)
            if samples is None:
                return None
            state = propagated(state, samples, self.noise.held(max(0, t_ns - newest_ns)))
        return self._corrected(state, pose)[0]

    def _forget_pose(self) -> None:
        if self.state is not None:
            self._sensors = self.state
        self.state = None
        self.version += 1

    def _doubt(self, *errors: slice) -> None:
        """Forget how sure some errors are, not their estimates."""
        P = self._sensors.P.copy()
        for of in errors:
            P[of] = P[:, of] = 0.0
            P[of, of] = FIRST_P[of, of]
        self._sensors = replace(self._sensors, P=P)

    def _shift_late(self, by_ns: int) -> None:
        """Keep samples and poses together, but no surer than the change was large."""
        by_s = by_ns / NS_PER_S
        P = self.sensors.P.copy()
        P[LATE, LATE] += by_s**2
        moved = replace(self.sensors, late_s=self.sensors.late_s + by_s, P=P)
        self._sensors = moved
        if self.state is not None:
            self.state = moved
        self.version += 1

    def _replay(self, newest_ns: int) -> None:
        while self._waiting and self._waiting[0].t_ns + self._late_ns <= newest_ns:
            self._correct(self._waiting.popleft())
        if self.state is not None and newest_ns - self.state.t_ns > _BEHIND_NS:
            self._forget_pose()

    @property
    def _late_ns(self) -> int:
        return self.sensors.late_ns

    def _correct(self, pose: MocapPose) -> None:
        t_ns = pose.t_ns + self._late_ns
        if self.state is not None and self.state.t_ns - t_ns > _TOO_LATE_NS:
            self.rejected += 1
            return
        ahead = None if self.state is None else self._carried(self.state, t_ns)
        if ahead is None:
            self._start(pose)
            return
        self.state, self.innovation = self._corrected(ahead, pose)
        if self.innovation.seen is not None:
            self.mocap.learn(self.innovation.seen)
        self._refused += _TRUST_GAIN * (float(not self.innovation.accepted) - self._refused)
        if self.innovation.accepted:
            self._rejected_in_a_row = 0
            return
        self.rejected += 1
        self._rejected_in_a_row += 1
        if self._rejected_in_a_row >= _REJECTED_LIMIT:
            self._start(pose)

    def _carried(self, state: FilterState, t_ns: int) -> FilterState | None:
        """Return the state at an instant of the IMU's stamps.

        None when the samples do not cover the way.
        """
        if t_ns <= state.t_ns:
            return state
        samples = self.imu.between(state.t_ns, t_ns)
        if samples is None or self.imu.widest_gap_ns(state.t_ns, t_ns) > _LONGEST_GAP_NS:
            return None
        return propagated(state, samples, self.noise)

    def _corrected(self, state: FilterState, pose: MocapPose) -> tuple[FilterState, Innovation]:
        return corrected(state, pose, self.mocap.variances, _GATE)

    def _start(self, pose: MocapPose) -> None:
        """Begin with a pose; what is known of the sensors stays."""
        self.restarts += self.state is not None
        self._rejected_in_a_row = 0
        before = self.sensors
        P = before.P.copy()
        P[:9] = P[:, :9] = 0.0
        P[:9, :9] = FIRST_P[:9, :9]
        t_ns = pose.t_ns + before.late_ns
        samples = self.imu.between(t_ns - 1, t_ns)
        guess = replace(
            before,
            t_ns=t_ns,
            q_world_imu_xyzw=pose.q_imu_xyzw,
            v_world_mps=np.zeros(3),
            p_world_m=pose.p_m + q_rotate(pose.q_imu_xyzw, -before.p_imu_body_m),
            w_imu_radps=np.zeros(3) if samples is None else before.corrected(samples).w_radps[-1],
            P=P,
        )
        # Ties the attitude to the mount, the position to the lever.
        self.state, _ = self._corrected(guess, pose)
