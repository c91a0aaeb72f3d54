"""Places of points from their pixels in posed pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.scan.marks import Sighting
from vil_renderer.scan.views import ScanView

_WORST_PX: Final = 4.0
_FEWEST: Final = 2
_MOST: Final = 500
_LEAST_ANGLE_RAD: Final = 0.03
_ROUNDS: Final = 8
_PIXEL_PX: Final = 0.5
"""Standard deviation of a point in a picture, at least.

Two pictures alone agree better than they are.
"""


class ScanPoint(NamedTuple):
    """Place of a point in the scan.

    Attributes:
        covariance: of the place, (3, 3), by the reprojection errors: far points seen from nearly
            one direction are known across it and hardly along it.
        views: pictures that agree on it, of those ``seen``. reprojection_px: root mean square in
            these.
    """

    p_scan: FloatArray
    covariance: FloatArray
    views: int
    seen: int
    reprojection_px: float


def triangulate(views: Sequence[ScanView], sightings: Sequence[Sighting]) -> ScanPoint | str:
    """Return where a point is, or why that cannot be said.

    It begins with the linear solution of the two pictures that most others agree with, and refines
    the reprojection error over these (Hartley and Zisserman, Multiple View Geometry, 12.2).
    """
    if len(sightings) < _FEWEST:
        return f"seen in {len(sightings)} pictures, 2 are needed"
    sightings = sightings[:: -(-len(sightings) // _MOST)]
    R = np.array([views[one.view].R_scan_camera.T for one in sightings])
    t = -np.einsum("nij,nj->ni", R, np.array([views[one.view].p_scan for one in sightings]))
    rays = np.array([views[one.view].camera.rays(one.pixel)[0] for one in sightings])
    focal_px = np.array([views[one.view].camera.K[0, 0] for one in sightings])
    best = _best_pair(R, t, rays, focal_px)
    if best is None:
        return "seen from one direction only, or no two pictures agree; film it from more places"
    p, agree = best
    for _ in range(_ROUNDS):
        p = _refined(p, R[agree], t[agree], rays[agree], focal_px[agree])
        now = _errors_px(p, R, t, rays, focal_px) < _WORST_PX
        if now.sum() < _FEWEST or (now == agree).all():
            break
        agree = now
    errors = _errors_px(p, R[agree], t[agree], rays[agree], focal_px[agree])
    rms_px = float(np.sqrt(np.mean(errors**2)))
    _, jacobian = _linearized(p, R[agree], t[agree], rays[agree], focal_px[agree])
    covariance = max(_PIXEL_PX, rms_px) ** 2 * np.linalg.pinv(jacobian.T @ jacobian)
    return ScanPoint(
        p, np.asarray(covariance, np.float64), int(agree.sum()), len(sightings), rms_px
    )


def _best_pair(
    R: FloatArray, t: FloatArray, rays: FloatArray, focal_px: FloatArray
) -> tuple[FloatArray, BoolArray] | None:
    """Return the place by two pictures, and which pictures agree, most of all pairs with an
    angle between them.
    """
    towards = np.einsum("nji,nj->ni", R, np.column_stack((rays, np.ones(len(rays)))))
    towards /= np.linalg.norm(towards, axis=1)[:, None]
    wide = np.linalg.norm(np.cross(towards[:, None], towards[None]), axis=2) > _LEAST_ANGLE_RAD
    pairs = np.argwhere(np.triu(wide, 1))
    best: tuple[FloatArray, BoolArray] | None = None
    for pair in pairs[:: max(1, len(pairs) // 200)]:
        p = _linear(R[pair], t[pair], rays[pair])
        agree = _errors_px(p, R, t, rays, focal_px) < _WORST_PX
        if agree[pair].all() and (best is None or agree.sum() > best[1].sum()):
            best = p, agree
    return best


def _linear(R: FloatArray, t: FloatArray, rays: FloatArray) -> FloatArray:
    """Return the least squares of ``u z - x = 0`` and ``v z - y = 0`` in all pictures."""
    rows = rays[:, :, None] * R[:, 2:] - R[:, :2]
    right = t[:, :2] - rays * t[:, 2:]
    found: FloatArray = np.asarray(
        np.linalg.lstsq(rows.reshape(-1, 3), right.reshape(-1), rcond=None)[0], np.float64
    )
    return found


def _errors_px(
    p: FloatArray, R: FloatArray, t: FloatArray, rays: FloatArray, focal_px: FloatArray
) -> FloatArray:
    x = R @ p + t
    ahead = x[:, 2] > 1e-9
    errors: FloatArray = np.full(len(R), np.inf)
    errors[ahead] = focal_px[ahead] * np.linalg.norm(
        x[ahead, :2] / x[ahead, 2:] - rays[ahead], axis=1
    )
    return errors


def _refined(
    p: FloatArray, R: FloatArray, t: FloatArray, rays: FloatArray, focal_px: FloatArray
) -> FloatArray:
    """Return a place after a Gauss-Newton step of the reprojection error."""
    residual, jacobian = _linearized(p, R, t, rays, focal_px)
    moved: FloatArray = p + np.linalg.lstsq(jacobian, -residual, rcond=None)[0]
    return moved


def _linearized(
    p: FloatArray, R: FloatArray, t: FloatArray, rays: FloatArray, focal_px: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the reprojection errors of n pictures, pixels (2n,), and their derivative by the
    place, (2n, 3).
    """
    x = R @ p + t
    z = x[:, 2:]
    residual = (x[:, :2] / z - rays) * focal_px[:, None]
    jacobian: FloatArray = (
        (R[:, :2] - (x[:, :2] / z)[:, :, None] * R[:, 2:]) / z[:, :, None] * focal_px[:, None, None]
    )
    return residual.reshape(-1), jacobian.reshape(-1, 3)
