"""Alignment of a scan with the room.

Scale, rotation and shift from points known in both, with their errors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_exp, q_from_matrix, q_to_matrix
from vil_bridge.core.room_registration import place_by_points
from vil_bridge.core.types import BoolArray, FloatArray

_FEWEST: Final = 3
_MOST_TRIPLES: Final = 2000
_MEASURED_M: Final = 0.01
"""Standard deviation of a measured point, with what poses of a film bend over a hall."""
_SIGMAS: Final = 3.0
"""Of a point that agrees with the others, at least."""
_ROUNDS: Final = 10
_REPEATS: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class ScanPlacement:
    """Place of a scan: ``p_world = T (scale p_scan)``.

    Attributes:
        scale: metres in one unit of the scan. used: which points agree, in the order given.
        residuals_m: distance left at each point. left_out_m: distance at each used point without it
            in the fit; empty where three points are used. rotation_rad, scale_share: standard
            deviations, by the weighted residuals; that of the rotation about its worst axis.
    """

    T_world_scan: Transform
    scale: float
    used: BoolArray
    residuals_m: FloatArray
    left_out_m: FloatArray
    rotation_rad: float
    scale_share: float

    def apply(self, p_scan: FloatArray) -> FloatArray:
        """Return places in the world, (n, 3)."""
        return self.T_world_scan.apply(self.scale * p_scan)


def align(
    names: Sequence[str], p_world_m: FloatArray, p_scan: FloatArray, covariance: FloatArray
) -> ScanPlacement:
    """Return the similarity that brings points of a scan onto measured ones.

    Points that contradict are left out.

    It begins with the symmetric scale of Horn (1987) and the rotation of Kabsch, and weighs each
    point by what its pictures and its measurement know of it (Gauss-Newton). From five points on
    the ones that agree are found by the least median of squares over triples (Rousseeuw 1984).

    Args:
        names: of the points.
        p_world_m: where they were measured, (n, 3).
        p_scan: where they are in the scan, (n, 3).
        covariance: of the places in the scan, (n, 3, 3).

    Raises:
        ConfigError: there are fewer than three points, or they are in one line.
    """
    if len(names) < _FEWEST:
        known = ", ".join(names) or "none"
        raise ConfigError(
            "an alignment needs 3 points that are measured and seen in the pictures; "
            f"there are {len(names)}: {known}. "
            "Measure more tags, or film them from nearer"
        )
    points = _Points(p_world_m, p_scan, covariance)
    used = _agreeing(points) if len(names) > _FEWEST + 1 else np.ones(len(names), bool)
    found = _fitted(points.some(used))
    variances = found.covariance * (found.chi2 / max(1, 3 * int(used.sum()) - 7))
    return ScanPlacement(
        found.T,
        found.scale,
        used,
        points.left_m(found.T, found.scale),
        _left_out(points.some(used)),
        math.sqrt(float(np.linalg.eigvalsh(variances[:3, :3])[-1])),
        math.sqrt(float(variances[6, 6])),
    )


class _Points(NamedTuple):
    """Points in the world and in the scan; ``covariance``: of those in the scan."""

    p_world_m: FloatArray
    p_scan: FloatArray
    covariance: FloatArray

    def some(self, which: BoolArray | list[int]) -> _Points:
        return _Points(self.p_world_m[which], self.p_scan[which], self.covariance[which])

    def left_m(self, T: Transform, scale: float) -> FloatArray:
        """Return the distances that a similarity leaves, (n,)."""
        return np.asarray(
            np.linalg.norm(T.apply(scale * self.p_scan) - self.p_world_m, axis=1), np.float64
        )

    def whitening(self, R: FloatArray, scale: float) -> FloatArray:
        """Return what turns residuals into numbers of standard deviations, (n, 3, 3)."""
        covariance_m2 = scale * scale * R @ self.covariance @ R.T + _MEASURED_M**2 * np.eye(3)
        return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance_m2)), np.float64)

    def sigmas(self, T: Transform, scale: float) -> FloatArray:
        """Return the residuals in standard deviations, (n,)."""
        residuals = (T.apply(scale * self.p_scan) - self.p_world_m)[:, :, None]
        return np.asarray(
            np.linalg.norm(self.whitening(T.rotation(), scale) @ residuals, axis=(1, 2)), np.float64
        )


class _Fit(NamedTuple):
    """Similarity of all points.

    Attributes:
        covariance: of rotation about the middle of the points, shift, and the scale's logarithm,
            (7, 7), for residuals of the expected size. chi2: sum of the squares of these, in
            standard deviations.
    """

    T: Transform
    scale: float
    covariance: FloatArray
    chi2: float


def _start(points: _Points) -> tuple[Transform, float]:
    """Return the similarity of points that all weigh the same.

    Raises ConfigError: they are in one line.
    """

    def spread(places: FloatArray) -> float:
        return float(np.sqrt(np.sum((places - places.mean(axis=0)) ** 2)))

    scale = spread(points.p_world_m) / max(spread(points.p_scan), 1e-300)
    try:
        return place_by_points(
            points.p_world_m, scale * points.p_scan, yaw_only=False
        ).T_world_room, scale
    except ValueError as exc:
        raise ConfigError(
            f"the scan cannot be aligned: {exc}. Measure points that are spread over the hall"
        ) from exc


def _fitted(points: _Points) -> _Fit:
    """Return the similarity with the least weighted residuals.

    Raises ConfigError: the points are in one line.
    """
    T, scale = _start(points)
    R = T.rotation()
    at = points.p_scan.mean(axis=0)
    middle_m = T.apply(scale * at)
    shifts = np.tile(np.eye(3), (len(points.p_scan), 1, 1))
    chi2 = math.inf
    information = np.eye(7)
    for _ in range(_ROUNDS):
        arms_m = scale * (points.p_scan - at) @ R.T
        turns = np.cross(np.eye(3), arms_m[:, None]).transpose(0, 2, 1)
        weights = points.whitening(R, scale)
        rows = (weights @ np.concatenate((turns, shifts, arms_m[:, :, None]), axis=2)).reshape(
            -1, 7
        )
        residuals = (weights @ (points.p_world_m - middle_m - arms_m)[:, :, None]).reshape(-1)
        information = rows.T @ rows
        chi2 = float(residuals @ residuals)
        step = np.asarray(np.linalg.lstsq(rows, residuals, rcond=None)[0], np.float64)
        R = q_to_matrix(q_exp(step[:3])) @ R
        middle_m = middle_m + step[3:6]
        scale = scale * math.exp(step[6])
    T = Transform(middle_m - scale * R @ at, q_from_matrix(R))
    return _Fit(T, scale, np.asarray(np.linalg.pinv(information), np.float64), chi2)


def _agreeing(points: _Points) -> BoolArray:
    """Return which points agree with the similarity of the triple that most others agree with."""
    best: FloatArray | None = None
    for triple in _triples(len(points.p_scan)):
        try:
            sigmas = points.sigmas(*_start(points.some(triple)))
        except ConfigError:  # in one line
            continue
        if best is None or np.median(sigmas) < np.median(best):
            best = sigmas
    if best is None:
        return np.ones(len(points.p_scan), bool)
    found = _near(best)
    # A triple of points that the pictures know badly is not the best judge of the others.
    for _ in range(_REPEATS):
        again = found
        if found.sum() > _FEWEST:
            again = _near(points.sigmas(*_fitted(points.some(found))[:2]))
        if (again == found).all() or again.sum() <= _FEWEST:
            break
        found = again
    return found


def _near(sigmas: FloatArray) -> BoolArray:
    robust = 1.4826 * (1.0 + 5.0 / max(1, len(sigmas) - 3)) * float(np.median(sigmas))
    found: BoolArray = sigmas <= _SIGMAS * max(1.0, robust)
    return found


def _triples(count: int) -> Iterator[list[int]]:
    """Yield all triples of some points, of many points 2000 random ones."""
    if math.comb(count, 3) <= _MOST_TRIPLES:
        yield from map(list, itertools.combinations(range(count), 3))
        return
    rng = np.random.default_rng(1)
    for _ in range(_MOST_TRIPLES):
        yield rng.choice(count, 3, replace=False).tolist()


def _left_out(points: _Points) -> FloatArray:
    """Return for each point the distance that is left at it when the others alone decide."""
    errors = []
    for i in range(len(points.p_scan)):
        others = np.arange(len(points.p_scan)) != i
        try:
            T, scale, *_ = _fitted(points.some(others))
        except ConfigError:
            return np.empty(0)
        errors.append(float(points.left_m(T, scale)[i]))
    return np.array(errors)
