"""MAVLink's frames and clocks (NED, FRD, boot time) to the room's (ENU, FLU) and back.

Pure functions.
"""

from __future__ import annotations

from math import nan
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.geometry import Transform, q_exp, q_mul, q_normalize
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.frames import (
    FRAMES,
    Q_FRD_FLU,
    Q_ROOM_NED,
    in_frame,
    parallel_axes,
)

_XYZW: Final = [1, 2, 3, 0]
_FARTHEST_M: Final = 1e5
_FASTEST_RADPS: Final = 100.0
_NORM: Final = (0.9, 1.1)
_OLDEST_ATTITUDE_NS: Final = 100 * NS_PER_MS


class VehiclePose(NamedTuple):
    """Pose of the vehicle at ``t_ns`` of its own clock (since boot).

    P (3,) metres, q (4,), body FLU in the room.
    """

    t_ns: int
    p_m: FloatArray
    q_xyzw: FloatArray

    @property
    def placed(self) -> Transform:
        """Return the pose without its time."""
        return Transform(self.p_m, self.q_xyzw)


def from_odometry(message: mavlink.Odometry) -> VehiclePose | None:
    """Return the pose of an ODOMETRY; None when the estimator failed or has none.

    The attitude is always that of the body FRD: ``child_frame_id`` is about the velocity.

    Raises:
        ProtocolError: a frame that is not local, or values that no pose has.
    """
    q_room_frame = FRAMES.get(message.frame_id)
    if q_room_frame is None:
        raise ProtocolError(f"ODOMETRY in frame {message.frame_id}, which is not a local one")
    p = np.array(message[1:4])
    q = np.array(message.q_wxyz)[_XYZW]
    if message.quality == mavlink.QUALITY_FAILED or np.isnan(p).any() or np.isnan(q).any():
        return None
    return VehiclePose(message.time_usec * 1000, *_to_room(q_room_frame, p, q))


def from_local_position(
    position: mavlink.LocalPositionNed, attitude: mavlink.AttitudeQuaternion | None
) -> VehiclePose | None:
    """Return the pose at the time of the position: the attitude is extrapolated to it by its rates.

    None without an attitude within 0.1 s of it.

    Raises:
        ProtocolError: values that no pose has.
    """
    t_ns = position.time_boot_ms * NS_PER_MS
    if attitude is None:
        return None
    ahead_ns = t_ns - attitude.time_boot_ms * NS_PER_MS
    if abs(ahead_ns) > _OLDEST_ATTITUDE_NS:
        return None
    q_frd = np.array(attitude[1:5])[_XYZW]
    w_radps = np.array(attitude[5:8])
    if not (np.abs(w_radps) < _FASTEST_RADPS).all():
        raise ProtocolError("ATTITUDE_QUATERNION with rates that no vehicle has")
    if not np.isfinite(q_frd).all():
        raise ProtocolError("ATTITUDE_QUATERNION with values that are not finite")
    q_ahead = q_mul(q_frd, q_exp(w_radps * (ahead_ns / NS_PER_S)))
    return VehiclePose(t_ns, *_to_room(Q_ROOM_NED, np.array(position[1:4]), q_ahead))


def healthy(status: mavlink.EstimatorStatus) -> bool:
    """Return whether the estimator knows attitude and position, rather than assuming a vehicle
    at rest.
    """
    if (
        status.flags & mavlink.ESTIMATE_CONSTANT_POSITION
        or not status.flags & mavlink.ESTIMATE_ATTITUDE
    ):
        return False
    return bool(status.flags & mavlink.ESTIMATE_POSITION)


def to_odometry(
    pose: VehiclePose, frame_id: int, reset_counter: int, *, tracked: bool
) -> mavlink.Odometry:
    """Return the ODOMETRY of a pose, without velocities."""
    p, q_wxyz = in_frame(frame_id, pose.placed)
    quality = 100 if tracked else mavlink.QUALITY_FAILED
    not_given = nan, nan, nan, nan, nan, nan
    message = mavlink.Odometry(pose.t_ns // 1000, *p, q_wxyz, *not_given)
    return message._replace(frame_id=frame_id, reset_counter=reset_counter, quality=quality)


def to_local_position(
    pose: VehiclePose,
) -> tuple[mavlink.AttitudeQuaternion, mavlink.LocalPositionNed]:
    """Return the two messages of a pose of a vehicle at rest (rates and velocities are zeros)."""
    p, q_wxyz = in_frame(mavlink.FRAME_LOCAL_NED, pose.placed)
    t_ms = pose.t_ns // NS_PER_MS
    still = 0.0, 0.0, 0.0
    return mavlink.AttitudeQuaternion(t_ms, *q_wxyz, *still), mavlink.LocalPositionNed(
        t_ms, *p, *still
    )


def _to_room(
    q_room_frame: FloatArray, p: FloatArray, q_frame_frd: FloatArray
) -> tuple[FloatArray, FloatArray]:
    # Written so that NaN fails too.
    if not ((np.abs(p) < _FARTHEST_M).all() and _NORM[0] < np.linalg.norm(q_frame_frd) < _NORM[1]):
        raise ProtocolError("a pose that no vehicle has")
    q_xyzw = q_mul(q_mul(q_room_frame, q_normalize(q_frame_frd)), Q_FRD_FLU)
    return parallel_axes(q_room_frame) @ p, q_xyzw
