"""Vectors in kernels: tuples of three numbers."""

from __future__ import annotations

from typing import Any

from vil_bridge.core.compile import compiled


@compiled(inline=True)
def dot(a: Any, b: Any) -> Any:
    """Return the dot product of a and b."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled(inline=True)
def cross(a: Any, b: Any) -> Any:
    """Return the cross product of a and b."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@compiled(inline=True)
def turned(r: Any, w: Any, v: Any) -> Any:
    """Return v rotated by the quaternion with the vector part r and the scalar w."""
    t = cross(r, v)
    return plus(plus(v, 2.0 * w, t), 2.0, cross(r, t))


@compiled(inline=True)
def less(a: Any, b: Any) -> Any:
    """Return a - b."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@compiled(inline=True)
def plus(a: Any, s: Any, b: Any) -> Any:
    """Return a + s b."""
    return (a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2])


@compiled(inline=True)
def product(a: Any, s: Any, b: Any, t: Any) -> Any:
    """Return vector part and scalar of the product of two quaternions with vector parts a, b and
    scalars s, t.
    """
    return plus(plus(cross(a, b), s, b), t, a), s * t - dot(a, b)
