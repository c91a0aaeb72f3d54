"""Vectors and attitudes as tuples of floats.

For one vehicle at a thousand steps a second, arrays cost more.

Attitudes are (w, x, y, z) of the body, forward-right-down, in the local frame, north-east-down.
"""

from __future__ import annotations

from math import asin, atan2, cos, hypot, pi, sin, sqrt
from typing import Final

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

ZERO: Final[Vector] = (0.0, 0.0, 0.0)
LEVEL: Final[Quaternion] = (1.0, 0.0, 0.0, 0.0)


def text_of(a: Vector, digits: int = 3) -> str:
    """Return the components with so many digits after the point."""
    return ", ".join(f"{component:.{digits}f}" for component in a)


def add(a: Vector, b: Vector, scale: float = 1.0) -> Vector:
    """Return a + scale b."""
    return a[0] + scale * b[0], a[1] + scale * b[1], a[2] + scale * b[2]


def minus(a: Vector, b: Vector) -> Vector:
    """Return a - b."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def scaled(a: Vector, scale: float) -> Vector:
    """Return scale a."""
    return a[0] * scale, a[1] * scale, a[2] * scale


def dot(a: Vector, b: Vector) -> float:
    """Return the scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def vector_product(a: Vector, b: Vector) -> Vector:
    """Return a x b."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def clipped(a: Vector, longest: float) -> Vector:
    """Return the vector, shortened to a length where it is longer."""
    size = hypot(*a)
    return a if size <= longest else scaled(a, longest / size)


def product(a: Quaternion, b: Quaternion) -> Quaternion:
    """Return the quaternion a b: first b, then a."""
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )


def inverse(q: Quaternion) -> Quaternion:
    """Return the opposite rotation of a unit quaternion."""
    return q[0], -q[1], -q[2], -q[3]


def unit(q: Quaternion) -> Quaternion:
    """Return a quaternion of length one."""
    size = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    return q[0] / size, q[1] / size, q[2] / size, q[3] / size


def rotate(q: Quaternion, v: Vector) -> Vector:
    """Return a vector of the body in the local frame."""
    w, x, y, z = q
    tx = 2.0 * (y * v[2] - z * v[1])
    ty = 2.0 * (z * v[0] - x * v[2])
    tz = 2.0 * (x * v[1] - y * v[0])
    return (
        v[0] + w * tx + y * tz - z * ty,
        v[1] + w * ty + z * tx - x * tz,
        v[2] + w * tz + x * ty - y * tx,
    )


def exponential(turn: Vector) -> Quaternion:
    """Return the rotation by a rotation vector, radians."""
    angle = hypot(*turn)
    if angle < 1e-9:
        return 1.0, 0.5 * turn[0], 0.5 * turn[1], 0.5 * turn[2]
    share = sin(0.5 * angle) / angle
    return cos(0.5 * angle), share * turn[0], share * turn[1], share * turn[2]


def rotation_vector(q: Quaternion) -> Vector:
    """Return the shorter rotation vector of a rotation, radians."""
    w, x, y, z = q if q[0] >= 0.0 else (-q[0], -q[1], -q[2], -q[3])
    size = hypot(x, y, z)
    share = 2.0 * atan2(size, w) / size if size > 1e-9 else 2.0
    return share * x, share * y, share * z


def heading(yaw_rad: float) -> Quaternion:
    """Return the level attitude with a yaw."""
    return cos(0.5 * yaw_rad), 0.0, 0.0, sin(0.5 * yaw_rad)


def attitude(roll_rad: float, pitch_rad: float, yaw_rad: float) -> Quaternion:
    """Return the attitude of a roll, a pitch and a yaw (intrinsic Z-Y-X)."""
    return product(
        heading(yaw_rad),
        product(exponential((0.0, pitch_rad, 0.0)), exponential((roll_rad, 0.0, 0.0))),
    )


def roll_pitch_yaw(q: Quaternion) -> Vector:
    """Return roll, pitch and yaw, radians."""
    w, x, y, z = q
    pitch = asin(min(1.0, max(-1.0, 2.0 * (w * y - z * x))))
    roll = atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    return roll, pitch, atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def wrapped(angle_rad: float) -> float:
    """Return an angle between -pi and pi."""
    return (angle_rad + pi) % (2.0 * pi) - pi


def cosine_deg(angle_deg: float) -> float:
    """Return the cosine of an angle in degrees."""
    return cos(angle_deg * pi / 180.0)
