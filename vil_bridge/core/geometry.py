"""Rotations, rigid transforms and the frame conversions of docs/concepts/conventions.md.

Quaternions are Hamilton, unit, scalar last (x, y, z, w), arrays of shape (..., 4); vectors are
arrays of shape (..., 3). ``T_a_b`` and ``q_a_b`` map coordinates in b to coordinates in a.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.elementary import arctan2, sin_cos

_Array = npt.NDArray[np.float64]
GRAVITY_MPS2 = 9.80665


def cross(a: _Array, b: _Array) -> _Array:
    """Return the cross product of vectors (..., 3).

    Np.cross costs twice as much for the few vectors of a frame.
    """
    ax = a[..., 0]
    ay = a[..., 1]
    az = a[..., 2]
    bx = b[..., 0]
    by = b[..., 1]
    bz = b[..., 2]
    return np.stack((ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx), axis=-1)


def yaw_matrix(yaw_rad: float) -> _Array:
    """Return the rotation matrix about z, shape (3, 3)."""
    s, c = sin_cos(yaw_rad)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


# Small arrays cost per call, not per element: products are written as matrix products, but only
# where no sum has more than two terms that are not 0, and those are exact: these sums have the same
# bits in every order, on every processor. Row 4 j + k of the table holds what a_j b_k adds to the
# components of a b.
_PRODUCT: _Array = np.zeros((4, 4, 4))
for _i, _j, _k, _sign in (
    *((0, 3, 0, 1), (0, 0, 3, 1), (0, 1, 2, 1), (0, 2, 1, -1)),
    *((1, 3, 1, 1), (1, 0, 2, -1), (1, 1, 3, 1), (1, 2, 0, 1)),
    *((2, 3, 2, 1), (2, 0, 1, 1), (2, 1, 0, -1), (2, 2, 3, 1)),
    *((3, 3, 3, 1), (3, 0, 0, -1), (3, 1, 1, -1), (3, 2, 2, -1)),
):
    _PRODUCT[_j, _i, _k] = _sign
_LEFT_FACTOR: _Array = _PRODUCT.reshape(4, 16)

# Column 3 r + c of the tables holds what q_j q_k adds to entry (r, c) of the rotation matrix: two
# terms of every entry in the first table, the others of the diagonal in the second.
_MATRIX: _Array = np.zeros((2, 4, 4, 9))
for _entry, _terms in enumerate(
    (
        ((0, 0, 1), (1, 1, -1), (2, 2, -1), (3, 3, 1)),
        ((0, 1, 2), (2, 3, -2)),
        ((0, 2, 2), (1, 3, 2)),
        ((0, 1, 2), (2, 3, 2)),
        ((0, 0, -1), (1, 1, 1), (2, 2, -1), (3, 3, 1)),
        ((1, 2, 2), (0, 3, -2)),
        ((0, 2, 2), (1, 3, -2)),
        ((1, 2, 2), (0, 3, 2)),
        ((0, 0, -1), (1, 1, -1), (2, 2, 1), (3, 3, 1)),
    )
):
    for _number, (_j, _k, _sign) in enumerate(_terms):
        _MATRIX[_number // 2, _j, _k, _entry] = _sign
_ROTATION, _REST_OF_ROTATION = _MATRIX.reshape(2, 16, 9)


def q_mul(a: _Array, b: _Array) -> _Array:
    """Return the Hamilton product a b (apply b first), broadcasting over leading axes."""
    left = (a @ _LEFT_FACTOR).reshape(*a.shape[:-1], 4, 4)
    product: _Array = np.add.reduce(left * b[..., None, :], axis=-1)
    return product


def q_conj(q: _Array) -> _Array:
    """Return the inverse of a unit quaternion."""
    conjugate: _Array = q * _CONJ
    return conjugate


_CONJ: _Array = np.array([-1.0, -1.0, -1.0, 1.0])


def q_normalize(q: _Array) -> _Array:
    """Scale to unit length; a zero quaternion becomes the identity."""
    n = np.linalg.norm(q, axis=-1, keepdims=True)
    return np.where(n > 0.0, q / np.where(n > 0.0, n, 1.0), _IDENTITY)


_IDENTITY: _Array = np.array([0.0, 0.0, 0.0, 1.0])


def q_rotate(q: _Array, v: _Array) -> _Array:
    """Rotate vectors (..., 3) by unit quaternions (..., 4)."""
    rotated: _Array = np.add.reduce(q_to_matrix(q) * v[..., None, :], axis=-1)
    return rotated


def turned(q_xyzw: Sequence[float], v: Sequence[float]) -> tuple[float, float, float]:
    """Rotate one vector, in plain numbers, which takes a third of the time of :func:`q_rotate`."""
    x, y, z, w = q_xyzw
    vx, vy, vz = v
    tx = 2.0 * (y * vz - z * vy)
    ty = 2.0 * (z * vx - x * vz)
    tz = 2.0 * (x * vy - y * vx)
    return (
        vx + w * tx + y * tz - z * ty,
        vy + w * ty + z * tx - x * tz,
        vz + w * tz + x * ty - y * tx,
    )


def q_to_matrix(q: _Array) -> _Array:
    """Return rotation matrices of unit quaternions, shape (..., 3, 3)."""
    squares = (q[..., :, None] * q[..., None, :]).reshape(*q.shape[:-1], 16)
    matrix: _Array = squares @ _ROTATION + squares @ _REST_OF_ROTATION
    return matrix.reshape(*q.shape[:-1], 3, 3)


def q_from_matrix(m: _Array) -> _Array:
    """Return quaternions of rotation matrices (..., 3, 3), by the largest-pivot rule.

    Shepperd 1978.
    """
    entries = m.reshape(-1, 9)
    products = (_UNIT_PRODUCTS + entries @ _PRODUCTS + entries @ _REST_OF_PRODUCTS).reshape(
        -1, 4, 4
    )
    pivot = products[:, _DIAGONAL, _DIAGONAL].argmax(axis=1)
    return q_normalize(products[np.arange(len(products)), pivot]).reshape(*m.shape[:-2], 4)


# Row r c of the table holds what entry (r, c) of a rotation matrix adds to the products 4 q_j q_k;
# the constant part stands apart. Each row of the products is the quaternion, scaled by one
# component.
_UNIT_PRODUCTS: _Array = np.eye(4).reshape(16)
_PRODUCTS: _Array = np.zeros((9, 4, 4))
for _row, _column, _j, _k, _sign in (
    *((0, 0, 0, 0, 1), (0, 0, 1, 1, -1), (0, 0, 2, 2, -1), (0, 0, 3, 3, 1)),
    *((1, 1, 0, 0, -1), (1, 1, 1, 1, 1), (1, 1, 2, 2, -1), (1, 1, 3, 3, 1)),
    *((2, 2, 0, 0, -1), (2, 2, 1, 1, -1), (2, 2, 2, 2, 1), (2, 2, 3, 3, 1)),
    *(
        (0, 1, 0, 1, 1),
        (1, 0, 0, 1, 1),
        (0, 2, 0, 2, 1),
        (2, 0, 0, 2, 1),
        (1, 2, 1, 2, 1),
        (2, 1, 1, 2, 1),
    ),
    *(
        (2, 1, 0, 3, 1),
        (1, 2, 0, 3, -1),
        (0, 2, 1, 3, 1),
        (2, 0, 1, 3, -1),
        (1, 0, 2, 3, 1),
        (0, 1, 2, 3, -1),
    ),
):
    _PRODUCTS[3 * _row + _column, _j, _k] = _PRODUCTS[3 * _row + _column, _k, _j] = _sign
_PRODUCTS = _PRODUCTS.reshape(9, 16)
_REST_OF_PRODUCTS: _Array = np.zeros((9, 16))
_REST_OF_PRODUCTS[8] = _PRODUCTS[8] * np.eye(4).ravel()
_PRODUCTS = _PRODUCTS - _REST_OF_PRODUCTS
_DIAGONAL = np.arange(4)


def q_exp(rotvec_rad: _Array) -> _Array:
    """Return the quaternion of a rotation vector (..., 3)."""
    half = 0.5 * np.sqrt((rotvec_rad * rotvec_rad).sum(axis=-1, keepdims=True))
    # numpy's sinc is sin(pi x) / (pi x), and 1 at 0.
    return np.concatenate((rotvec_rad * (0.5 * np.sinc(half / np.pi)), np.cos(half)), axis=-1)


def q_log(q: _Array) -> _Array:
    """Return the rotation vector (..., 3) of a unit quaternion, angle in [0, pi]."""
    w = q[..., 3:4]
    u = q[..., :3] * np.copysign(1.0, w)
    s = np.sqrt((u * u).sum(axis=-1, keepdims=True))
    rotvec: _Array = u * np.divide(
        2.0 * np.arctan2(s, np.abs(w)), s, out=np.full_like(s, 2.0), where=s > 1e-9
    )
    return rotvec


def q_slerp(a: _Array, b: _Array, fraction: float) -> _Array:
    """Interpolate along the shortest arc from a (0) to b (1); fractions outside extrapolate."""
    return q_mul(a, q_exp(fraction * q_log(q_mul(q_conj(a), b))))


def q_from_euler_zyx(yaw_rad: float, pitch_rad: float, roll_rad: float) -> _Array:
    """Return the quaternion of intrinsic Z-Y-X angles.

    Yaw about z, pitch about the new y, roll about the new x.
    """
    (sy, sp, sr), (cy, cp, cr) = sin_cos(0.5 * np.array((yaw_rad, pitch_rad, roll_rad)))
    return np.array(
        [
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
            cr * cp * cy + sr * sp * sy,
        ]
    )


def q_to_euler_zyx(q_xyzw: _Array) -> tuple[float, float, float]:
    """Return yaw, pitch, roll of :func:`q_from_euler_zyx`; for straight up or down roll is 0."""
    R = q_to_matrix(q_xyzw)
    level = math.sqrt(R[0, 0] ** 2 + R[1, 0] ** 2)
    if abs(R[2, 0]) > 1.0 - 1e-12:
        yaw, pitch = arctan2(np.array((-R[0, 1], -R[2, 0])), np.array((R[1, 1], level))).tolist()
        return yaw, pitch, 0.0
    across = np.array((R[1, 0], -R[2, 0], R[2, 1]))
    yaw, pitch, roll = arctan2(across, np.array((R[0, 0], level, R[2, 2]))).tolist()
    return yaw, pitch, roll


@dataclass(slots=True, eq=False)
class Transform:
    """A rigid transform ``T_a_b``: x_a = R(q) x_b + p. ``p_m`` shape (3,), ``q_xyzw`` shape (4,).

    It is a value: code makes another one instead of changing it. A frozen dataclass takes three
    times as long to make.
    """

    p_m: _Array
    q_xyzw: _Array

    @classmethod
    def identity(cls) -> Transform:
        """Return the transform that changes nothing."""
        return cls(np.zeros(3), _IDENTITY.copy())

    @classmethod
    def of(cls, p_m: npt.ArrayLike, q_xyzw: npt.ArrayLike = (0.0, 0.0, 0.0, 1.0)) -> Transform:
        """Make a transform from any sequences; the quaternion is normalised."""
        return cls(
            np.asarray(p_m, dtype=np.float64), q_normalize(np.asarray(q_xyzw, dtype=np.float64))
        )

    def __matmul__(self, other: Transform) -> Transform:
        """Return T_a_b @ T_b_c = T_a_c."""
        # Fourteen numbers: plain Python takes a third of the time of the array functions.
        x, y, z, w = q = self.q_xyzw.tolist()
        qx, qy, qz, qw = other.q_xyzw.tolist()
        px, py, pz = self.p_m.tolist()
        tx, ty, tz = turned(q, other.p_m.tolist())
        q_xyzw = (
            w * qx + x * qw + y * qz - z * qy,
            w * qy - x * qz + y * qw + z * qx,
            w * qz + x * qy - y * qx + z * qw,
            w * qw - x * qx - y * qy - z * qz,
        )
        return Transform(np.array((px + tx, py + ty, pz + tz)), np.array(q_xyzw))

    def inverse(self) -> Transform:
        """Return T_b_a."""
        x, y, z, w = self.q_xyzw.tolist()
        q_inverse = -x, -y, -z, w
        return Transform(-np.array(turned(q_inverse, self.p_m.tolist())), np.array(q_inverse))

    def apply(self, points_m: _Array) -> _Array:
        """Map points (..., 3) from b to a."""
        return self.p_m + q_rotate(self.q_xyzw, points_m)

    def rotation(self) -> _Array:
        """Return the rotation matrix R_a_b, shape (3, 3)."""
        x, y, z, w = self.q_xyzw.tolist()
        xx = x * x
        yy = y * y
        zz = z * z
        ww = w * w
        return np.array(
            (
                (ww + xx - yy - zz, 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)),
                (2.0 * (x * y + z * w), ww - xx + yy - zz, 2.0 * (y * z - x * w)),
                (2.0 * (x * z - y * w), 2.0 * (y * z + x * w), ww - xx - yy + zz),
            )
        )

    def matrix(self) -> _Array:
        """Return the transform as a matrix, shape (4, 4)."""
        m = np.eye(4)
        m[:3, :3] = self.rotation()
        m[:3, 3] = self.p_m
        return m


# --- frame conversions; each takes positions (..., 3) and quaternions (..., 4), or vectors (..., 3)


_YUP_TO_ZUP: _Array = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
_Q_YUP_TO_ZUP: _Array = np.block(
    [[_YUP_TO_ZUP, np.zeros((3, 1))], [np.zeros((1, 3)), np.ones((1, 1))]]
)
_FLU_TO_FRD: _Array = np.array([1.0, -1.0, -1.0])


def yup_to_zup(p_m: _Array, q_xyzw: _Array) -> tuple[_Array, _Array]:
    """Convert Motive's y-up world and body to z-up: +90 degrees about x (NatNet)."""
    return p_m @ _YUP_TO_ZUP.T, q_xyzw @ _Q_YUP_TO_ZUP.T


def zup_to_yup(p_m: _Array, q_xyzw: _Array) -> tuple[_Array, _Array]:
    """Apply the inverse of :func:`yup_to_zup`."""
    return p_m @ _YUP_TO_ZUP, q_xyzw @ _Q_YUP_TO_ZUP


def flu_to_frd(v: _Array) -> _Array:
    """Convert body vectors forward-left-up to forward-right-down; its own inverse."""
    turned: _Array = v * _FLU_TO_FRD
    return turned


# Both sides of R_unity = A R B are improper, so that with the signs moved inside R_unity = (-A) R
# (-B) is a product of rotations. The quaternions follow it, and since the outer two are constant,
# theirs is one orthogonal 4x4 matrix, to be multiplied from the right.
_ENU_TO_UNITY: _Array = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
_FLU_TO_UNITY: _Array = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
_EDN_TO_UNITY: _Array = np.diag([1.0, -1.0, 1.0])
_Q_FLU_TO_UNITY, _Q_EDN_TO_UNITY = (
    q_mul(q_mul(q_from_matrix(-_ENU_TO_UNITY), np.eye(4)), q_from_matrix(-axes))
    for axes in (_FLU_TO_UNITY, _EDN_TO_UNITY)
)


def enu_flu_to_unity(p_m: _Array, q_xyzw: _Array) -> tuple[_Array, _Array]:
    """Convert ENU world, FLU bodies to Unity's left-handed y-up world and bodies.

    X right, y up, z forward.
    """
    return p_m @ _ENU_TO_UNITY, q_xyzw @ _Q_FLU_TO_UNITY


def unity_to_enu_flu(p_m: _Array, q_xyzw: _Array) -> tuple[_Array, _Array]:
    """Apply the inverse of :func:`enu_flu_to_unity`."""
    return p_m @ _ENU_TO_UNITY, q_xyzw @ _Q_FLU_TO_UNITY.T


def optical_to_unity(p_m: _Array, q_xyzw: _Array) -> tuple[_Array, _Array]:
    """Convert ENU world and optical cameras (EDN) to Unity's world and cameras.

    X right, y up, z forward.
    """
    return p_m @ _ENU_TO_UNITY, q_xyzw @ _Q_EDN_TO_UNITY


def unity_to_optical(p_m: _Array, q_xyzw: _Array) -> tuple[_Array, _Array]:
    """Apply the inverse of :func:`optical_to_unity`."""
    return p_m @ _ENU_TO_UNITY, q_xyzw @ _Q_EDN_TO_UNITY.T


def flu_to_unity(v: _Array) -> _Array:
    """Convert vectors in a body's axes, forward-left-up, to the Unity body's right-up-forward."""
    turned: _Array = v @ _FLU_TO_UNITY
    return turned


def unity_to_flu(v: _Array) -> _Array:
    """Apply the inverse of :func:`flu_to_unity`."""
    turned: _Array = v @ _FLU_TO_UNITY.T
    return turned


T_FLU_OPTICAL: Final = Transform(
    np.zeros(3), q_from_matrix(np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]))
)
"""Optical axes (x right, y down, z forward) in those of a body (x forward, y left, z up)."""
