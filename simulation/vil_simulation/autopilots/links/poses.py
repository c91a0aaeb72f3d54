"""Poses of motion capture as the messages that autopilots' programs take; pure functions."""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

import numpy as np

from vil_bridge.core.geometry import Transform, q_conj, q_rotate
from vil_bridge.core.sensor_readings import Vector
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.frames import euler_rad, in_frame
from vil_bridge.protocols.mavlink.hil_messages import GpsInput
from vil_bridge.protocols.mavlink.pose_messages import Measured, Spread, message_of

PoseKind = Literal["ODOMETRY", "VISION_POSITION_ESTIMATE", "GPS_INPUT"]

_ESTIMATOR_VIO: Final = 3
_FIX_3D: Final = 3
_SATELLITES: Final = 16
_DILUTION: Final = 0.6
_WEEK: Final = 2400
"""GPS week, 2026-01-04, at the begin of which simulations begin.

The same flight has the same messages on any day.
"""
_WEEK_MS: Final = 7 * 24 * 3600 * 1000
_NORTH_CDEG: Final = 36_000


class TrueMotion(NamedTuple):
    """True motion of a vehicle in its room: world ENU, body FLU, x y z w."""

    p_world_m: Vector
    v_world_mps: Vector
    q_world_body: tuple[float, float, float, float]
    w_body_radps: Vector


class PoseSample(NamedTuple):
    """One pose as motion capture saw it.

    Attributes:
        kind: of the message that it becomes. t_ns: simulation time at which it was seen.
        place: latitude and longitude, degrees, and altitude, metres. spread: of the noise.
    """

    kind: PoseKind
    t_ns: int
    motion: TrueMotion
    place: tuple[float, float, float]
    spread: Spread


def pose_message(pose: PoseSample) -> mavlink.Body:
    """Return the message of a pose.

    ODOMETRY is forward, right, down in a room that is not aligned with north. The others name no
    frame: their receivers take north, east, down, so the room's y axis points north.
    """
    if pose.kind == "GPS_INPUT":
        return _gps_input(pose)
    motion = pose.motion
    q_world_body = np.array(motion.q_world_body)
    v_body_mps = q_rotate(q_conj(q_world_body), np.array(motion.v_world_mps))
    where = Transform(np.array(motion.p_world_m), q_world_body)
    seen = Measured(pose.t_ns, where, v_body_mps, np.array(motion.w_body_radps), 0)
    if pose.kind == "VISION_POSITION_ESTIMATE":
        return message_of("vision-position", mavlink.FRAME_LOCAL_NED, seen, pose.spread)
    body = message_of("odometry", mavlink.FRAME_LOCAL_FRD, seen, pose.spread)
    assert isinstance(body, mavlink.Odometry)
    return body._replace(estimator_type=_ESTIMATOR_VIO)


def _gps_input(pose: PoseSample) -> GpsInput:
    motion = pose.motion
    spread = pose.spread
    where = Transform(np.array(motion.p_world_m), np.array(motion.q_world_body))
    _, q_wxyz = in_frame(mavlink.FRAME_LOCAL_NED, where)
    yaw_cdeg = round(math.degrees(euler_rad(q_wxyz)[2]) * 100.0) % _NORTH_CDEG
    latitude, longitude, altitude = pose.place
    east, north, up = motion.v_world_mps
    since_ms = pose.t_ns // 1_000_000
    return GpsInput(
        pose.t_ns // 1000,
        since_ms % _WEEK_MS,
        round(latitude * 1e7),
        round(longitude * 1e7),
        altitude,
        _DILUTION,
        _DILUTION,
        *(north, east, -up),
        spread.velocity_mps,
        spread.position_m,
        spread.position_m,
        0,
        _WEEK + since_ms // _WEEK_MS,
        0,
        _FIX_3D,
        _SATELLITES,
        yaw_cdeg or _NORTH_CDEG,  # 0 = not given
    )
