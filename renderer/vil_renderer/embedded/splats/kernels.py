"""Inner loops that project splats, compiled by numba when they are first needed.

Plain functions of which none calls another: numba compiles each alone, and this module imports
without it. Pixels are OpenCV's (integers on their centres), camera axes optical. A row of ``rows``
is one splat in a picture, float32:

====  ==========================================================
0, 1  u, v: its mean, pixels
2-4   whitening a, b, c: (a du + b dv, c dv) has unit covariance
5     opacity
6     z-depth of its mean, metres
7-9   display colour
====  ==========================================================

and its row of ``bounds`` the first and last column, and the first and last line, of the pixels that
it reaches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_renderer.embedded.optional_imports import load_native
from vil_renderer.embedded.splats.harmonics import SH_FACTORS

_Float32 = npt.NDArray[np.float32]
_Index = npt.NDArray[np.int32]

COLUMNS: Final = 10
FLAT: Final = 8
NEAR_M: Final = 0.2
"""Nearer splats are not drawn: the projection's derivative describes them no more."""
FAINTEST: Final = 1.0 / 2048.0
"""Less opacity than this is none."""

_LOW_PASS_PX2: Final = 0.3
_ASIDE: Final = 1.3
_SH: Final = SH_FACTORS


def project_splats(
    p: _Float32, axes: _Float32, members: _Index, turn: _Float32, shift: _Float32,
    pinhole: _Float32,
    width: int, height: int, antialiased: bool, flat: _Float32,
) -> None:  # fmt: skip
    """Put splats into the plane of a picture: Sigma2 = J W Sigma W^T J^T + 0.3 I.

    Args:
        p: (n, 3).
        axes: (n, 3, 3), columns are the half axes of the one-sigma ellipsoids.
        members: (m,) into the cloud.
        turn: (3, 3), from the cloud's axes to optical ones, its scale included.
        shift: (3,), the cloud's origin in optical axes, metres.
        pinhole: fx, fy, cx, cy.
        width: of the picture.
        height: of the picture.
        antialiased: the low-pass filter preserves a splat's opacity times its area, as in its
            training.
        flat: (m, FLAT), filled: u, v in pixels, z in metres, the covariance uu, uv, vv, the root of
            its determinant, and a factor on the opacity; z alone where it is less than NEAR_M.
    """
    fx, fy, cx, cy = pinhole
    half_x = np.float32(0.5 * width) / fx
    half_y = np.float32(0.5 * height) / fy
    mid_x = half_x - cx / fx
    mid_y = half_y - cy / fy
    low_pass = np.float32(_LOW_PASS_PX2)
    aside = np.float32(_ASIDE)
    b = np.empty((2, 3), np.float64)
    for n in range(len(members)):
        i = members[n]
        px, py, pz = p[i]
        flat[n, 2] = z = turn[2, 0] * px + turn[2, 1] * py + turn[2, 2] * pz + shift[2]
        if z < NEAR_M:
            continue
        x = (turn[0, 0] * px + turn[0, 1] * py + turn[0, 2] * pz + shift[0]) / z
        y = (turn[1, 0] * px + turn[1, 1] * py + turn[1, 2] * pz + shift[1]) / z
        # Outside the picture J is that of its surroundings: else near splats out there smear over
        # all of it.
        xj = min(max(x, mid_x - aside * half_x), mid_x + aside * half_x)
        yj = min(max(y, mid_y - aside * half_y), mid_y + aside * half_y)
        for k in range(3):
            right = (
                turn[0, 0] * axes[i, 0, k] + turn[0, 1] * axes[i, 1, k] + turn[0, 2] * axes[i, 2, k]
            )
            down = (
                turn[1, 0] * axes[i, 0, k] + turn[1, 1] * axes[i, 1, k] + turn[1, 2] * axes[i, 2, k]
            )
            ahead = (
                turn[2, 0] * axes[i, 0, k] + turn[2, 1] * axes[i, 1, k] + turn[2, 2] * axes[i, 2, k]
            )
            b[0, k] = fx / z * (right - xj * ahead)
            b[1, k] = fy / z * (down - yj * ahead)
        uu = b[0, 0] * b[0, 0] + b[0, 1] * b[0, 1] + b[0, 2] * b[0, 2]
        vv = b[1, 0] * b[1, 0] + b[1, 1] * b[1, 1] + b[1, 2] * b[1, 2]
        uv = b[0, 0] * b[1, 0] + b[0, 1] * b[1, 1] + b[0, 2] * b[1, 2]
        c0 = b[0, 1] * b[1, 2] - b[0, 2] * b[1, 1]
        c1 = b[0, 2] * b[1, 0] - b[0, 0] * b[1, 2]
        c2 = b[0, 0] * b[1, 1] - b[0, 1] * b[1, 0]
        flat[n, 0] = fx * x + cx
        flat[n, 1] = fy * y + cy
        flat[n, 3] = uu + low_pass
        flat[n, 4] = uv
        flat[n, 5] = vv + low_pass
        # The determinant as a sum of squares (Lagrange's identity): positive, however thin the
        # splat is.
        own = c0 * c0 + c1 * c1 + c2 * c2
        root = math.sqrt(own + low_pass * (uu + vv + low_pass))
        flat[n, 6] = root
        flat[n, 7] = math.sqrt(own) / root if antialiased else 1.0


def select_splats(
    flat: _Float32, opacity: _Float32, members: _Index, width: int, height: int, rows: _Float32,
    bounds: _Index,
    index: _Index,
) -> int:  # fmt: skip
    """Pick the splats that a picture shows.

    Args:
        flat: (m, FLAT) of :func:`project_splats`.
        opacity: (n,).
        members: (m,) into the cloud.
        width: of the picture.
        height: of the picture.
        rows: (m, COLUMNS), filled from the first on, except colours.
        bounds: (m, 4), filled like them.
        index: (m,) into the cloud, filled like them.

    Returns:
        How many there are.
    """
    right = np.float32(width) - np.float32(0.5)
    below = np.float32(height) - np.float32(0.5)
    count = 0
    for n in range(len(flat)):
        u, v, z, uu, uv, vv, root, factor = flat[n]
        if z < NEAR_M:
            continue
        strength = opacity[members[n]] * factor
        if strength <= FAINTEST:
            continue
        reach2 = np.float32(2.0) * math.log(strength / np.float32(FAINTEST))
        reach_u = math.sqrt(reach2 * uu)
        reach_v = math.sqrt(reach2 * vv)
        u0 = max(u - reach_u, np.float32(-0.5))
        u1 = min(u + reach_u, right)
        v0 = max(v - reach_v, np.float32(-0.5))
        v1 = min(v + reach_v, below)
        if u0 >= u1 or v0 >= v1:
            continue
        row = rows[count]
        row[0] = u
        row[1] = v
        row[5] = strength
        row[6] = z
        down = math.sqrt(vv)
        row[2] = down / root
        row[3] = -uv / root / down
        row[4] = np.float32(1.0) / down
        bounds[count, 0] = math.ceil(u0)
        bounds[count, 1] = math.floor(u1)
        bounds[count, 2] = math.ceil(v0)
        bounds[count, 3] = math.floor(v1)
        index[count] = members[n]
        count += 1
    return count


def shade_splats(
    p: _Float32, sh: _Float32, eye: _Float32, exposure: float, index: _Index, rows: _Float32
) -> None:
    """Return colours of splats seen from a place.

    Spherical harmonics in the order and signs of the 3DGS authors.

    Args:
        p: (n, 3).
        sh: (n, k, 3), k = 1, 4, 9 or 16.
        eye: (3,), the camera in the cloud's axes.
        exposure: factor on display colours.
        index: (m,) into the cloud.
        rows: (m, COLUMNS); colours are written.
    """
    terms = sh.shape[1]
    basis = np.empty(16, np.float32)
    basis[0] = _SH[0]
    for j in range(len(index)):
        i = index[j]
        if terms > 1:
            x = p[i, 0] - eye[0]
            y = p[i, 1] - eye[1]
            z = p[i, 2] - eye[2]
            shorter = np.float32(1.0) / math.sqrt(x * x + y * y + z * z)
            x = x * shorter
            y = y * shorter
            z = z * shorter
            basis[1], basis[2], basis[3] = -_SH[1] * y, _SH[1] * z, -_SH[1] * x
            if terms > 4:
                basis[4], basis[5], basis[7] = _SH[2] * x * y, -_SH[2] * y * z, -_SH[2] * x * z
                basis[6], basis[8] = _SH[3] * (3.0 * z * z - 1.0), _SH[4] * (x * x - y * y)
            if terms > 9:
                basis[9], basis[15] = (
                    -_SH[5] * y * (3.0 * x * x - y * y),
                    -_SH[5] * x * (x * x - 3.0 * y * y),
                )
                basis[10], basis[14] = _SH[6] * x * y * z, _SH[9] * z * (x * x - y * y)
                basis[11], basis[13] = (
                    -_SH[7] * y * (5.0 * z * z - 1.0),
                    -_SH[7] * x * (5.0 * z * z - 1.0),
                )
                basis[12] = _SH[8] * z * (5.0 * z * z - 3.0)
        red = np.float32(0.5)
        green = np.float32(0.5)
        blue = np.float32(0.5)
        for k in range(terms):
            red += basis[k] * sh[i, k, 0]
            green += basis[k] * sh[i, k, 1]
            blue += basis[k] * sh[i, k, 2]
        rows[j, 7] = min(max(float(red) * exposure, 0.0), 1.0)
        rows[j, 8] = min(max(float(green) * exposure, 0.0), 1.0)
        rows[j, 9] = min(max(float(blue) * exposure, 0.0), 1.0)


@cache
def compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel with numba; it runs without the GIL and is cached on disk if possible.

    Raises:
        RendererError: numba is not installed.
    """
    numba = load_native("numba", "numba", "Gaussian splats", extra="splat")
    # Only fused multiply-add: other liberties with floating point change results too much.
    options = {"nogil": True, "fastmath": {"contract"}}
    try:
        made = numba.njit(kernel, cache=True, **options)
    except RuntimeError:  # neither the sources' folder nor the home is writable
        made = numba.njit(kernel, **options)
    return made  # type: ignore[no-any-return]
