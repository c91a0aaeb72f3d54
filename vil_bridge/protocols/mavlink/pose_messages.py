"""A measured pose as the messages that autopilots fuse; pure functions."""

from __future__ import annotations

import math
from math import nan
from typing import Final, Literal, NamedTuple

import numpy as np

from vil_bridge.core.geometry import Transform, flu_to_frd
from vil_bridge.core.motion import pose_covariance, velocity_covariance
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.frames import (
    FRAMES,
    Q_FRD_FLU,
    euler_rad,
    euler_slopes,
    in_frame,
    parallel_axes,
)

FRAME_IDS: Final = {"frd": mavlink.FRAME_LOCAL_FRD, "ned": mavlink.FRAME_LOCAL_NED}
_DIAGONAL: Final = (0, 6, 11, 15, 18, 20)
_UNKNOWN: Final = (nan, nan, nan)
_RATE_STD_RADPS: Final = 0.05
_UPPER: Final = np.triu_indices(6)
_GOOD: Final = 100


class Measured(NamedTuple):
    """One pose.

    Attributes:
        v_body_mps, w_body_radps: shapes (3,), FLU; None = not known yet.
        resets: how often the pose jumped so far.
        covariance: shape (9, 9), as :attr:`~vil_bridge.core.motion.BodyMotion.covariance`; None =
            not known.
    """

    t_ns: int
    T_world_body: Transform
    v_body_mps: FloatArray | None
    w_body_radps: FloatArray | None
    resets: int
    covariance: FloatArray | None = None


class Spread(NamedTuple):
    """Standard deviations of what is sent, where no covariance is known."""

    position_m: float
    attitude_rad: float
    velocity_mps: float


def message_of(
    kind: Literal["odometry", "vision-position", "att-pos-mocap"],
    frame_id: int,
    pose: Measured,
    spread: Spread,
) -> mavlink.Body:
    """Return the message of a pose.

    Only ODOMETRY names its frame; of the others the receivers say that it is NED. The short form of
    VISION_POSITION_ESTIMATE leaves the covariance out.
    """
    t_us = pose.t_ns // 1000
    p_m, q_wxyz = in_frame(frame_id, pose.T_world_body)
    resets = pose.resets % 256
    if kind == "vision-position":
        return mavlink.VisionPositionEstimate(t_us, *p_m, *euler_rad(q_wxyz), reset_counter=resets)
    of_pose = _covariance(spread.position_m, spread.attitude_rad)
    of_twist = _covariance(spread.velocity_mps, _RATE_STD_RADPS)
    if pose.covariance is not None:
        of_pose, of_twist = _estimated(frame_id, pose.T_world_body, q_wxyz, pose.covariance)
    if kind == "att-pos-mocap":
        return mavlink.AttPosMocap(t_us, q_wxyz, *p_m, of_pose)
    return mavlink.Odometry(
        t_us,
        *p_m,
        q_wxyz,
        *_frd(pose.v_body_mps),
        *_frd(pose.w_body_radps),
        of_pose,
        _covariance(nan, nan) if pose.v_body_mps is None else of_twist,
        frame_id,
        mavlink.FRAME_BODY_FRD,
        resets,
        mavlink.ESTIMATOR_VISION,
        _GOOD,
    )


def _estimated(
    frame_id: int,
    T_world_body: Transform,
    q_wxyz: tuple[float, float, float, float],
    covariance: FloatArray,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the upper triangles of what was estimated: position, roll, pitch, yaw in the frame.

    Twist in FRD.
    """
    turned = np.zeros((6, 6))
    frd = parallel_axes(Q_FRD_FLU)
    turned[:3, :3] = parallel_axes(FRAMES[frame_id]).T
    turned[3:, 3:] = euler_slopes(q_wxyz) @ frd
    of_pose = turned @ pose_covariance(covariance) @ turned.T
    twist = np.diag([_RATE_STD_RADPS**2] * 6)
    to_body = frd @ T_world_body.rotation().T
    twist[:3, :3] = to_body @ velocity_covariance(covariance) @ to_body.T
    return tuple(of_pose[_UPPER].tolist()), tuple(twist[_UPPER].tolist())


def _frd(v_flu: FloatArray | None) -> tuple[float, float, float]:
    if v_flu is None:
        return _UNKNOWN
    x, y, z = flu_to_frd(v_flu).tolist()
    return x, y, z


def _covariance(first_std: float, second_std: float) -> tuple[float, ...]:
    """Return the upper triangle of a diagonal 6 x 6, row by row: three variances of each kind.

    NaN first = unknown.
    """
    triangle = [0.0] * 21
    if math.isnan(first_std):
        triangle[0] = nan
    else:
        for at, std in zip(_DIAGONAL, (first_std,) * 3 + (second_std,) * 3, strict=True):
            triangle[at] = std * std
    return tuple(triangle)
