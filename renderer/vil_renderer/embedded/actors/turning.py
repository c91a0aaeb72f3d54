"""Rotations that limbs need.

The shortest one between two directions, and body axes from two of them.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_bridge.core.geometry import cross, q_from_matrix
from vil_bridge.core.types import FloatArray

_TINY: Final = 1e-9
_SNAP_COSINE: Final = math.cos(math.radians(30.0))
_REVERSED: Final = 0.3


def unit(v: FloatArray) -> FloatArray:
    """Return vectors (..., 3) scaled to length 1; one too short to have a direction becomes 0."""
    length = np.sqrt((v * v).sum(axis=-1, keepdims=True))
    return np.asarray(np.divide(v, length, out=np.zeros_like(v), where=length > _TINY))


def shortest_turn(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the smallest rotations (..., 3, 3) that take unit vectors a to b, both (..., 3).

    Opposite vectors have none; they turn half round about the axis that is most square to them. A
    vector 0 asks for no turn.
    """
    w = cross(a, b)
    c = (a * b).sum(axis=-1)
    opposite = c < -1.0 + 1e-12
    skew = np.zeros((*a.shape, 3))
    skew[..., 0, 1], skew[..., 0, 2], skew[..., 1, 2] = -w[..., 2], w[..., 1], -w[..., 0]
    skew -= np.swapaxes(skew, -1, -2)
    turn: FloatArray = (
        np.eye(3) + skew + skew @ skew / np.where(opposite, 1.0, 1.0 + c)[..., None, None]
    )
    if opposite.any():
        square = np.eye(3)[np.abs(a[opposite]).argmin(axis=-1)]
        axis = unit(cross(a[opposite], square))
        turn[opposite] = 2.0 * axis[:, :, None] * axis[:, None, :] - np.eye(3)
    return turn


def twist_rad(R: FloatArray, axis: FloatArray) -> FloatArray:
    """Return how far rotations (..., 3, 3) turn about unit axes (..., 3) before they swing them,
    -pi to pi.

    A swing that nearly reverses the axis leaves the twist open; it fades to 0 there.
    """
    q = q_from_matrix(R)
    about = (q[..., :3] * axis).sum(axis=-1)
    angle = 2.0 * np.arctan2(about, q[..., 3])
    angle -= 2.0 * np.pi * np.rint(angle / (2.0 * np.pi))
    known = np.minimum(1.0, np.hypot(about, q[..., 3]) / _REVERSED)
    return np.asarray(angle * known * known)


def body_axes(left: FloatArray, up: FloatArray) -> FloatArray | None:
    """Return columns forward, left, up from the direction to the left and roughly up.

    None if they are parallel.
    """
    y = unit(left)
    x = unit(cross(y, up))
    if not (y.any() and x.any()):
        return None
    return np.stack((x, y, cross(x, y)), axis=-1)


def snapped_body_axes(left: FloatArray, up: FloatArray) -> FloatArray | None:
    """Return :func:`body_axes` of a bone at rest: its own axes if they are within 30 degrees.

    Systems align a bone's axes with the body, up to swaps and signs, but joints sit where anatomy
    has them.
    """
    raw = body_axes(left, up)
    if raw is None:
        return None
    nearest = np.abs(raw).argmax(axis=0)
    snapped = np.zeros((3, 3))
    snapped[nearest, range(3)] = np.sign(raw[nearest, range(3)])
    aligned = len(set(nearest.tolist())) == 3 and bool(
        ((snapped * raw).sum(axis=0) > _SNAP_COSINE).all()
    )
    return snapped if aligned else raw
