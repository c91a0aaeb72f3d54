"""Products and inverses of small matrices whose sums have a fixed order.

The same bits on every processor.

BLAS and LAPACK, behind NumPy's ``@`` and ``numpy.linalg``, choose the order of their sums and fused
products by the processor and by the number of rows. What a seed promises is computed with these
functions instead.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[np.float64]


def product(a: _Array, b: _Array) -> Any:
    """Return ``a @ b`` with the same shapes, each sum from the first term to the last."""
    left = a[None, :] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    total = left[..., :, :1] * right[..., :1, :]
    for k in range(1, left.shape[-1]):
        total += left[..., :, k : k + 1] * right[..., k : k + 1, :]
    if a.ndim == 1:
        total = total[..., 0, :]
    if b.ndim == 1:
        total = total[..., 0]
    return total


def dot(a: _Array, b: _Array) -> float:
    """Return the dot product of two vectors (k,)."""
    return float((a * b).sum())


def length(v: _Array) -> float:
    """Return the length of one vector (k,)."""
    return math.sqrt(dot(v, v))


def inverse(a: _Array) -> _Array:
    """Return the inverse of a matrix (k, k), by Gauss and Jordan with the largest pivot of each
    column.

    Raises:
        ValueError: the matrix is singular.
    """
    size = len(a)
    rows = np.concatenate((np.asarray(a, dtype=np.float64), np.eye(size)), axis=1)
    for k in range(size):
        pivot = k + int(np.abs(rows[k:, k]).argmax())
        if rows[pivot, k] == 0.0:
            raise ValueError("a singular matrix has no inverse")
        rows[[k, pivot]] = rows[[pivot, k]]
        rows[k] /= rows[k, k]
        others = np.arange(size) != k
        rows[others] -= rows[others, k : k + 1] * rows[k]
    return rows[:, size:].copy()


def right_inverse(a: _Array) -> _Array:
    """Return the least-squares right inverse (k, n) of a matrix (n, k) of full row rank.

    Raises:
        ValueError: its rows depend on one another.
    """
    # Rows of one size: the squares of their products then span few orders of magnitude.
    scale = 1.0 / np.sqrt((a * a).sum(axis=1, keepdims=True))
    scaled = a * scale
    shares: _Array = product(scaled.T, inverse(product(scaled, scaled.T))) * scale.T
    return shares
