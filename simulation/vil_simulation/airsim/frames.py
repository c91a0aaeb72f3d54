"""Values between the bridge's axes (ENU, FLU, scalar last) and AirSim's (NED, FRD, scalar first).

A vehicle's positions are relative to its start in AirSim, those of objects to the origin of the
world.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform, q_mul, q_normalize
from vil_bridge.core.types import FloatArray
from vil_simulation.airsim.values import Pose, Quaternionr, Vector3r

_HALF: Final = math.sqrt(0.5)
_ENU_NED: Final = np.array([_HALF, _HALF, 0.0, 0.0])
"""q_enu_ned, which is its own inverse but for the sign."""
_FLU_FRD: Final = np.array([1.0, 0.0, 0.0, 0.0])
"""q_flu_frd: half a turn about x."""


def world_of(v: Vector3r) -> FloatArray:
    """Return a vector of the world (NED) in ENU, (3,)."""
    return np.array([v.y_val, v.x_val, -v.z_val])


def world_points(points_ned: FloatArray) -> FloatArray:
    """Return points of the world (NED) in ENU, (n, 3)."""
    return points_ned[:, [1, 0, 2]] * (1.0, 1.0, -1.0)


def ned_points(points_world: FloatArray) -> FloatArray:
    """Return points of the world (ENU) in NED, (n, 3): the turn is its own inverse."""
    return world_points(points_world)


def ned_of(v: Sequence[float] | FloatArray) -> Vector3r:
    """Return a vector of the world (ENU) in NED."""
    return Vector3r(float(v[1]), float(v[0]), -float(v[2]))


def frd_of(v: Sequence[float] | FloatArray) -> Vector3r:
    """Return a vector of the body (FLU) in FRD."""
    return Vector3r(float(v[0]), -float(v[1]), -float(v[2]))


def body_of(v: Vector3r) -> FloatArray:
    """Return a vector of the body (FRD) in FLU, (3,)."""
    return np.array([v.x_val, -v.y_val, -v.z_val])


def attitude_of(q: Quaternionr) -> FloatArray:
    """Return an attitude (FRD in NED) as FLU in ENU, (4,), unit length whatever length it came
    with.
    """
    given = _unit(q.x_val, q.y_val, q.z_val, q.w_val)
    return q_mul(q_mul(_ENU_NED, given), _FLU_FRD)


def mounted_attitude_of(q: Quaternionr) -> FloatArray:
    """Return an attitude on the body (FRD in FRD) in FLU, (4,), unit length."""
    return _unit(q.x_val, -q.y_val, -q.z_val, q.w_val)


def mounted_quaternion_of(q_xyzw: FloatArray) -> Quaternionr:
    """Return an attitude on the body (FLU in FLU) in FRD."""
    x, y, z, w = q_xyzw.tolist()
    return Quaternionr(w, x, -y, -z)


def quaternion_of(q_xyzw: Sequence[float] | FloatArray) -> Quaternionr:
    """Return an attitude (FLU in ENU) as FRD in NED, the scalar positive."""
    x, y, z, w = map(float, q_xyzw)
    half = _HALF if w + z > 0.0 else -_HALF  # the product q_ned_enu q_xyzw q_flu_frd, written out
    return Quaternionr(half * (w + z), half * (x + y), half * (x - y), half * (w - z))


def pose_of(T_world_body: Transform, origin_m: FloatArray) -> Pose:
    """Return a pose relative to an origin (ENU, (3,)), with the world's axes."""
    return Pose(ned_of(T_world_body.p_m - origin_m), quaternion_of(T_world_body.q_xyzw))


def transform_of(pose: Pose, origin_m: FloatArray, before: Transform) -> Transform:
    """Return a pose as T_world_body; components that are NaN stay as they were ``before``."""
    p_m = world_of(_filled(pose.position, ned_of(before.p_m - origin_m))) + origin_m
    return Transform(
        p_m, before.q_xyzw if _is_unknown(pose.orientation) else attitude_of(pose.orientation)
    )


def mount_of(pose: Pose, before: Transform) -> Transform:
    """Return a pose on the body as T_body_part.

    Components that are NaN stay as they were ``before``.
    """
    p_m = body_of(_filled(pose.position, frd_of(before.p_m)))
    q = pose.orientation
    return Transform(p_m, before.q_xyzw if _is_unknown(q) else mounted_attitude_of(q))


def heading_of(yaw_deg: float) -> float:
    """Return a heading (clockwise from north, degrees) counter-clockwise from east, radians."""
    return math.radians(90.0 - yaw_deg)


def _unit(*q_xyzw: float) -> FloatArray:
    """Return a quaternion of unit length, however short or long it is; the identity for zero."""
    largest = max(map(abs, q_xyzw))
    return q_normalize(np.array(q_xyzw) / (largest or 1.0))


def _filled(v: Vector3r, before: Vector3r) -> Vector3r:
    """Return a vector whose components that are NaN are those of another one."""
    return Vector3r(
        _known(v.x_val, before.x_val), _known(v.y_val, before.y_val), _known(v.z_val, before.z_val)
    )


def _known(value: float, before: float) -> float:
    if math.isnan(value):
        return before
    return value


def _is_unknown(q: Quaternionr) -> bool:
    return any(map(math.isnan, (q.w_val, q.x_val, q.y_val, q.z_val)))
