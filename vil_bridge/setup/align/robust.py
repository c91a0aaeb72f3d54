"""Robust linear least squares: outliers, such as a marker swap, weigh less."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray

ROUNDS: Final = 8
_HUBER: Final = 1.5
_NEVER: Final = 6.0
_MAD_TO_SIGMA: Final = 1.4826


def weights(residual: FloatArray) -> FloatArray:
    """Return the weights (m,) of residuals (m, 3).

    1 within 1.5 robust standard deviations, then falling, 0 from 6.
    """
    size = np.linalg.norm(residual, axis=1)
    sigma = _MAD_TO_SIGMA * float(np.median(size)) + 1e-12
    weight: FloatArray = np.minimum(1.0, _HUBER * sigma / np.maximum(size, 1e-12))
    weight[size > _NEVER * sigma] = 0.0
    return weight


def solve(A: FloatArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the unknowns (n,) of A x = y with A (m, 3, n), y (m, 3) and weights (m,)."""
    root = np.sqrt(weight)
    rows = (A * root[:, None, None]).reshape(-1, A.shape[2])
    return np.asarray(
        np.linalg.lstsq(rows, (y * root[:, None]).ravel(), rcond=None)[0], dtype=np.float64
    )


def fit(A: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the same with weights from the residuals: unknowns (n,) and weights (m,)."""
    weight = np.ones(len(y))
    x = solve(A, y, weight)
    for _ in range(ROUNDS):
        weight = weights(y - A @ x)
        x = solve(A, y, weight)
    return x, weight
