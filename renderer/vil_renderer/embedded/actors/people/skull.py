"""Shape of a head: rings of skull and face."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.actors.lofts import smooth_table
from vil_renderer.embedded.actors.people.builds import HumanBuild

LOW_M: Final = 1.512
TOP_M: Final = 1.750
"""Chin and crown, in the tables' stature."""

_FORWARD_M: Final = 0.014
_DENSER: Final = 0.45
_SQUARENESS: Final = 2.3
# Height; half width, front, back.
_PROFILE: Final = (
    (1.512, 0.020, 0.066, -0.006),
    (1.520, 0.038, 0.086, -0.018),
    (1.535, 0.051, 0.091, -0.034),
    (1.560, 0.061, 0.088, -0.058),
    (1.585, 0.067, 0.087, -0.080),
    (1.610, 0.071, 0.087, -0.093),
    (1.640, 0.0745, 0.088, -0.101),
    (1.670, 0.0770, 0.092, -0.104),
    (1.700, 0.0740, 0.085, -0.098),
    (1.725, 0.0610, 0.062, -0.078),
    (1.742, 0.0390, 0.034, -0.048),
    (1.750, 0.0150, 0.010, -0.020),
)
# Sideways, height; half sizes; how far it stands out: each on both sides.
_FEATURES: Final = (
    (0.000, 1.520, 0.020, 0.012, 0.004),
    (0.032, 1.634, 0.017, 0.012, -0.010),
    (0.032, 1.633, 0.010, 0.008, 0.005),
    (0.030, 1.653, 0.020, 0.006, 0.003),
    (0.046, 1.608, 0.018, 0.016, 0.003),
    (0.000, 1.571, 0.024, 0.0045, 0.0045),
    (0.000, 1.559, 0.021, 0.0045, 0.0045),
    (0.000, 1.545, 0.024, 0.0060, -0.003),
    (0.000, 1.580, 0.006, 0.0050, -0.002),
    (0.000, 1.643, 0.012, 0.010, -0.003),
)
# Height; how far the ridge of the nose stands out, its half width.
_NOSE: Final = (
    (1.583, 0.000, 0.013),
    (1.588, 0.012, 0.0145),
    (1.594, 0.021, 0.0135),
    (1.602, 0.023, 0.0115),
    (1.615, 0.0175, 0.0090),
    (1.630, 0.0110, 0.0080),
    (1.642, 0.0060, 0.0080),
    (1.655, 0.0000, 0.0090),
)


def columns_rad(columns: int) -> FloatArray:
    """Return the angles of a ring's columns from the front to the left, (columns,).

    Densest in the face.
    """
    share = np.arange(columns) / columns
    return np.asarray(2.0 * np.pi * share + _DENSER * np.sin(2.0 * np.pi * share) - np.pi)


def share_of(angle_rad: float) -> float:
    """Return the share of a ring's columns at an angle from the front."""
    fine = np.append(columns_rad(512), np.pi)
    return float(np.interp(angle_rad, fine, np.linspace(0.0, 1.0, 513)))


def skull(
    build: HumanBuild, heights_m: FloatArray, columns: int, *, features: bool = True
) -> FloatArray:
    """Return rings (rows, columns, 3) of a head at heights, the first column behind."""
    table = smooth_table(_PROFILE, 240)
    wide, front, back = (np.interp(heights_m, table[:, 0], table[:, k])[:, None] for k in (1, 2, 3))
    wide = wide * (1.0 - (1.0 - build.jaw) * np.clip((1.64 - heights_m) / 0.08, 0.0, 1.0))[:, None]
    angle = columns_rad(columns)[None, :]
    c, s = (np.sign(f) * np.abs(f) ** (2.0 / _SQUARENESS) for f in (np.cos(angle), np.sin(angle)))
    x = np.where(c > 0.0, c * front, -c * back)
    y = s * wide
    z = np.broadcast_to(heights_m[:, None], x.shape)
    if features:
        x = x + np.clip(2.5 * np.cos(angle), 0.0, 1.0) * _relief(y, z)
    return np.stack((x + _FORWARD_M, y, z), axis=-1)


def _relief(y: FloatArray, z: FloatArray) -> FloatArray:
    """Return how far the face stands out at places across and up, metres."""
    out = np.zeros_like(y)
    for across, up, wide, tall, height in _FEATURES:
        for side in (1.0, -1.0) if across else (1.0,):
            out += height * np.exp(-(((y - side * across) / wide) ** 2) - ((z - up) / tall) ** 2)
    up, height, width = np.transpose(_NOSE)
    ridge = np.interp(z, up, height, left=0.0, right=0.0)
    half = np.interp(z, up, width)
    return np.asarray(out + ridge * np.exp(-((y / half) ** 2)))
