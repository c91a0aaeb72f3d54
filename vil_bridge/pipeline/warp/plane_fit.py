"""The plane that a homography takes the scene for.

Its image displacement errs by what 1/z errs, so planes are fitted to inverse depths: on m^T X = d
the inverse depth along the ray (x, y, 1) is (m / d)^T (x, y, 1), which is linear in the unknown m /
d.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform, turned
from vil_bridge.core.types import DEPTH_NO_HIT, DEPTH_UNITS_PER_M, FloatArray, ImageArray

DEFAULT_PLANE_DEPTH_M: Final = 8.0
"""Distance of the plane in a lab room without a depth picture."""

NO_HIT_M: Final = DEPTH_NO_HIT / DEPTH_UNITS_PER_M
"""Depth of the sky: where nothing was hit, full scale of both kinds of depth pictures."""

_E3: Final[FloatArray] = np.array([0.0, 0.0, 1.0])
_SAMPLES: Final = 32
_ROUNDS: Final = 8
_LEAST_SCALE_PER_M: Final = 1e-4
_LEAST_SHARE: Final = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class FittedPlane:
    """m^T X = d in the render camera's axes.

    Attributes:
        d_m: distance from the camera along the normal, > 0.
        normal: shape (3,), unit vector; ahead where the plane is only a distance.
        fitted: the normal was found in a depth picture.
    """

    d_m: float
    normal: FloatArray = field(default_factory=_E3.copy)
    fitted: bool = False

    def seen_from(self, T_here_there: Transform) -> FittedPlane:
        """Return the same plane in another camera's axes."""
        normal = a, b, c = self.normal.tolist()
        p_x, p_y, p_z = T_here_there.p_m.tolist()
        x, y, z, w = T_here_there.q_xyzw.tolist()
        d_m = self.d_m - (a * p_x + b * p_y + c * p_z)
        return FittedPlane(d_m, np.array(turned((-x, -y, -z, w), normal)), self.fitted)


def metres_per_unit(depth: ImageArray) -> float:
    """Scale of a depth picture: uint16 counts 1/655.35 m, float32 metres."""
    return 1.0 / DEPTH_UNITS_PER_M if depth.dtype == np.uint16 else 1.0


def median_depth(depth: ImageArray) -> float:
    """Return the median z-depth in metres of every eighth pixel of every eighth row.

    It is the best single distance for the mean error.

    Args:
        depth: shape (h, w), uint16 (metres x 655.35) or float32 (metres).
    """
    sample = depth[4::8, 4::8].ravel()
    middle = sample.size // 2
    return float(np.partition(sample, middle)[middle]) * metres_per_unit(depth)


def fit_plane(depth: ImageArray, K: FloatArray) -> FittedPlane | None:
    """Return the plane that most of a depth picture lies on, by least squares with Cauchy weights
    on a coarse sample.

    None where a distance alone says as much: no surface in three quarters of the picture, a plane
    that would pass the camera at the side or behind within the field of view, or none better than
    the median.

    Args:
        depth: shape (h, w), uint16 (metres x 655.35) or float32 (metres).
        K: intrinsic matrix of the picture.
    """
    v, u = (np.arange(n // (2 * _SAMPLES), n, max(1, n // _SAMPLES)) for n in depth.shape)
    z_m = depth[np.ix_(v, u)].ravel() * metres_per_unit(depth)
    rays = (
        np.stack((*(a.ravel() for a in np.meshgrid(u, v)), np.ones(len(z_m)))).T
        @ np.linalg.inv(K).T
    )
    hit = (z_m > 0.0) & (z_m < 0.999 * NO_HIT_M)
    if np.count_nonzero(hit) < _LEAST_SHARE * len(z_m):
        return None
    seen = rays[hit]
    inverse = 1.0 / z_m[hit]
    weight = np.ones(len(inverse))
    m_per_d = _E3
    for _ in range(_ROUNDS):
        weighted = seen * weight[:, None]
        normal_matrix = weighted.T @ seen + 1e-12 * np.eye(3)
        m_per_d = np.linalg.solve(normal_matrix, weighted.T @ inverse)
        error = np.abs(seen @ m_per_d - inverse)
        scale = max(1.4826 * float(np.median(error)), _LEAST_SCALE_PER_M)
        weight = 1.0 / (1.0 + (error / scale) ** 2)
    by_distance = np.abs(inverse - np.median(inverse)).mean()
    if (rays @ m_per_d).min() < 1.0 / NO_HIT_M or np.abs(
        seen @ m_per_d - inverse
    ).mean() >= by_distance:
        return None
    d_m = 1.0 / float(np.linalg.norm(m_per_d))
    return FittedPlane(d_m, np.asarray(m_per_d * d_m, np.float64), fitted=True)
