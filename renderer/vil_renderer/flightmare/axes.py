"""Flightmare's axes: world and bodies with x to Unity's x, y to its z, z to its y.

Not FlightGoggles' mapping of bodies: there the body's x becomes Unity's z. A camera of Flightmare
looks along its y, with x right and z up; ours are optical (x right, y down, z forward).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.geometry import Transform, q_from_matrix, q_normalize
from vil_bridge.core.types import FloatArray
from vil_renderer.flightmare.messages import Quat, Vec3

LARGEST: Final = 1e7
"""Bound of received coordinates (m) and quaternion components, so that products stay finite."""

_SWAP: Final = [0, 2, 1]
_SWAP_ROWS: Final = [0, 2, 1, 3]
_Q_SIGNS: Final = np.array([-1.0, -1.0, -1.0, 1.0])
_Q_SWAP: Final = [0, 2, 1, 3]
_ROTATION_TOLERANCE: Final = 1e-2

T_CAMERA_OPTICAL: Final = Transform(
    np.zeros(3), q_from_matrix(np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]))
)
"""A camera's axes (x right, y forward, z up) from its optical ones."""


def swapped(v: Sequence[float]) -> Vec3:
    """Swap y and z of a vector, size or scale; its own inverse.

    Raises:
        ProtocolError: a component is beyond all measure.
    """
    x, y, z = v
    if not max(abs(x), abs(y), abs(z)) <= LARGEST:
        raise ProtocolError(f"a coordinate exceeds {LARGEST:g}")
    return x, z, y


def pose_to_unity(T_world_body: Transform) -> tuple[Vec3, Quat]:
    """Return position and rotation of a vehicle or object on the wire."""
    x, y, z = T_world_body.p_m[_SWAP].tolist()
    qx, qy, qz, qw = (T_world_body.q_xyzw[_Q_SWAP] * _Q_SIGNS).tolist()
    return (x, y, z), (qx, qy, qz, qw)


def pose_from_unity(position: Vec3, rotation: Quat) -> Transform:
    """Invert :func:`pose_to_unity`; the rotation need not have unit length.

    Raises:
        ProtocolError: a number is beyond all measure.
    """
    q = np.array(rotation)
    if not np.abs(q).max() <= LARGEST:
        raise ProtocolError(f"a rotation exceeds {LARGEST:g}")
    return Transform(np.array(swapped(position)), q_normalize((q * _Q_SIGNS)[_Q_SWAP]))


def matrix_to_unity(T_body_camera: Transform) -> list[float]:
    """Return the matrix ``T_BC`` or ``T_BS``, row by row."""
    values: list[float] = T_body_camera.matrix()[np.ix_(_SWAP_ROWS, _SWAP_ROWS)].ravel().tolist()
    return values


def matrix_from_unity(values: Sequence[float | None]) -> Transform:
    """Invert :func:`matrix_to_unity`.

    The newest results are cached, since clients repeat their matrices.

    Raises:
        ProtocolError: the matrix is not a pose, for example was never set.
    """
    return _pose_of(tuple(values))


@lru_cache(maxsize=1024)
def _pose_of(values: tuple[float | None, ...]) -> Transform:
    m: FloatArray = np.array(values, dtype=np.float64).reshape(4, 4)[np.ix_(_SWAP_ROWS, _SWAP_ROWS)]
    r = m[:3, :3]
    p_m = m[:3, 3]
    if not np.abs(m).max() <= LARGEST:
        raise ProtocolError(f"a matrix exceeds {LARGEST:g}")
    if not (np.abs(r @ r.T - np.eye(3)).max() < _ROTATION_TOLERANCE and np.linalg.det(r) > 0.0):
        raise ProtocolError("T_BC or T_BS is not the matrix of a pose")
    return Transform(p_m.copy(), q_from_matrix(r))
