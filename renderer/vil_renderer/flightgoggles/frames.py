"""Whole arrays of poses between the world (ENU, FLU bodies, optical cameras) and Unity.

The same maps as ``enu_flu_to_unity`` and ``optical_to_unity`` of the core, which take one pose at a
time: a request holds a hundred. Both sides of R_unity = A R B are improper, so that with the signs
moved inside R_unity = (-A) R (-B) is a product of rotations. The quaternions follow it, and since
the outer two are constant, theirs is one orthogonal 4x4 matrix.
"""

from __future__ import annotations

import numpy as np

from vil_bridge.core.geometry import q_from_matrix, q_mul, q_normalize
from vil_bridge.core.types import FloatArray

__all__ = [
    "axes_to_unity",
    "axes_to_world",
    "bodies_to_unity",
    "bodies_to_world",
    "cameras_to_unity",
    "cameras_to_world",
]


def _quaternion_map(world: FloatArray, axes: FloatArray) -> FloatArray:
    """The matrix M, shape (4, 4), with q_unity = q_world M for rows of quaternions."""
    return q_mul(q_mul(q_from_matrix(-world), np.eye(4)), q_from_matrix(-axes))


_ENU_TO_UNITY = np.array([[1.0, 0, 0], [0, 0, 1], [0, 1, 0]])
_OF_BODIES = _quaternion_map(_ENU_TO_UNITY, np.array([[0.0, 0, 1], [-1, 0, 0], [0, 1, 0]]))
_OF_CAMERAS = _quaternion_map(_ENU_TO_UNITY, np.diag([1.0, -1.0, 1.0]))

_Poses = tuple[FloatArray, FloatArray]


def bodies_to_unity(p_world_m: FloatArray, q_world_body_xyzw: FloatArray) -> _Poses:
    """Positions (n, 3) and attitudes (n, 4) of FLU bodies in ENU to Unity."""
    return p_world_m[:, [0, 2, 1]], q_world_body_xyzw @ _OF_BODIES


def bodies_to_world(p_unity_m: FloatArray, q_unity_xyzw: FloatArray) -> _Poses:
    """Inverse of :func:`bodies_to_unity`; quaternions are normalised."""
    return p_unity_m[:, [0, 2, 1]], q_normalize(q_unity_xyzw) @ _OF_BODIES.T


def cameras_to_unity(p_world_m: FloatArray, q_world_camera_xyzw: FloatArray) -> _Poses:
    """Positions (n, 3) and attitudes (n, 4) of optical cameras (EDN) in ENU to Unity."""
    return p_world_m[:, [0, 2, 1]], q_world_camera_xyzw @ _OF_CAMERAS


def cameras_to_world(p_unity_m: FloatArray, q_unity_xyzw: FloatArray) -> _Poses:
    """Inverse of :func:`cameras_to_unity`; quaternions are normalised."""
    return p_unity_m[:, [0, 2, 1]], q_normalize(q_unity_xyzw) @ _OF_CAMERAS.T


def axes_to_unity(v_flu: FloatArray) -> FloatArray:
    """Vectors (n, 3) in a body's forward, left, up axes to the Unity body's right, up, forward."""
    return np.column_stack((-v_flu[:, 1], v_flu[:, 2], v_flu[:, 0]))


def axes_to_world(v_unity: FloatArray) -> FloatArray:
    """Inverse of :func:`axes_to_unity`."""
    return np.column_stack((v_unity[:, 2], -v_unity[:, 0], v_unity[:, 1]))
