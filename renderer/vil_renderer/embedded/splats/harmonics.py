"""Real spherical harmonics of degrees 0 to 3, in the order and with the signs of the 3DGS
authors.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.splats.cloud import Float32, float32

SH_FACTORS: Final = (
    0.28209479, 0.48860251, 1.0925484, 0.31539157, 0.54627422,
    0.59004359, 2.8906114, 0.45704579, 0.37317633, 1.4453057,
)  # fmt: skip
_DIRECTIONS: Final = 64
_COEFFICIENTS: Final = 16


def harmonics(d: FloatArray) -> FloatArray:
    """Return the 16 functions at unit directions (n, 3), shape (n, 16)."""
    x, y, z = d.T
    f = SH_FACTORS
    rows = (
        np.full(len(d), f[0]), -f[1] * y, f[1] * z, -f[1] * x,
        f[2] * x * y, -f[2] * y * z, f[3] * (3.0 * z * z - 1.0), -f[2] * x * z,
        f[4] * (x * x - y * y),
        -f[5] * y * (3.0 * x * x - y * y), f[6] * x * y * z, -f[7] * y * (5.0 * z * z - 1.0),
        f[8] * z * (5.0 * z * z - 3.0), -f[7] * x * (5.0 * z * z - 1.0), f[9] * z * (x * x - y * y),
        -f[5] * x * (x * x - 3.0 * y * y),
    )  # fmt: skip
    return np.stack(rows, axis=1)


def turned_harmonics(sh: Float32, R: FloatArray) -> Float32:
    """Return coefficients (n, k, 3) of colours that are turned with their splats.

    Each degree turns within itself; its matrix is found from the functions at directions all
    around.

    Args:
        sh: (n, k, 3), k = 1, 4, 9 or 16.
        R: rotation from the old axes to the new, (3, 3).
    """
    terms = sh.shape[1]
    i = np.arange(_DIRECTIONS) + 0.5
    up = 1.0 - 2.0 * i / _DIRECTIONS
    around = i * np.pi * (1.0 + np.sqrt(5.0))
    level = np.sqrt(1.0 - up * up)
    d = np.stack((level * np.cos(around), level * np.sin(around), up), axis=1)
    turn = np.eye(_COEFFICIENTS)
    for degree in range(1, 4):
        own = slice(degree * degree, (degree + 1) ** 2)
        # New coefficients times functions of d are old ones times functions of R^T d.
        turn[own, own] = np.linalg.lstsq(
            harmonics(d)[:, own], harmonics(d @ R)[:, own], rcond=None
        )[0]
    return float32(np.einsum("jk,nkc->njc", float32(turn[:terms, :terms]), sh))
