"""Alignment of a scan with the room: scale, rotation and shift from points known in both, with their errors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.world.room_registration import place_by_points

_FEWEST: Final = 3
_MOST_TRIPLES: Final = 2000
_TOLERANCE_M: Final = 0.03
"""Residual up to which a point agrees with the others, at least."""
_SIGMAS: Final = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class ScanPlacement:
    """Place of a scan: ``p_world = T (scale p_scan)``.

    Attributes:
        scale: metres in one unit of the scan. used: which points agree, in the order given.
        residuals_m: distance left at each point. left_out_m: distance at each used point without it in the fit; empty
            where three points are used. rotation_rad, scale_share: standard deviations, by the residuals; that of the
            rotation about its worst axis.
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


def align(names: Sequence[str], p_world_m: FloatArray, p_scan: FloatArray) -> ScanPlacement:
    """Return the similarity that brings points of a scan onto measured ones; points that contradict are left out.

    Least squares with the symmetric scale of Horn (1987) and the rotation of Kabsch; from five points on the ones that
    agree are found by the least median of squares over triples (Rousseeuw 1984).

    Args:
        names: of the points.
        p_world_m: where they were measured, (n, 3).
        p_scan: where they are in the scan, (n, 3).

    Raises:
        ConfigError: there are fewer than three points, or they are in one line.
    """
    if len(names) < _FEWEST:
        known = ", ".join(names) or "none"
        raise ConfigError(
            f"an alignment needs 3 points that are measured and seen in the pictures; there are {len(names)}: {known}. "
            "Measure more tags, or film them from nearer"
        )
    used = _agreeing(p_world_m, p_scan) if len(names) > _FEWEST + 1 else np.ones(len(names), bool)
    T, scale = _fitted(p_world_m[used], p_scan[used])
    residuals = np.linalg.norm(T.apply(scale * p_scan) - p_world_m, axis=1)
    count = int(used.sum())
    # Root sums of squares along the principal axes, the longest first; a turn about that axis is the least sure.
    axes_m = np.linalg.svd(p_world_m[used] - p_world_m[used].mean(axis=0), compute_uv=False)
    sigma_m = math.sqrt(float(np.sum(residuals[used] ** 2)) / max(1, 3 * count - 7))
    rotation_rad = sigma_m / math.hypot(axes_m[1], axes_m[2])
    scale_share = sigma_m / float(np.linalg.norm(axes_m))
    left_out_m = _left_out(p_world_m[used], p_scan[used])
    return ScanPlacement(T, scale, used, residuals, left_out_m, rotation_rad, scale_share)


def _fitted(p_world_m: FloatArray, p_scan: FloatArray) -> tuple[Transform, float]:
    def spread(points: FloatArray) -> float:
        return float(np.sqrt(np.sum((points - points.mean(axis=0)) ** 2)))

    scale = spread(p_world_m) / max(spread(p_scan), 1e-300)
    try:
        return place_by_points(p_world_m, scale * p_scan, yaw_only=False).T_world_room, scale
    except ValueError as exc:
        raise ConfigError(f"the scan cannot be aligned: {exc}. Measure points that are spread over the hall") from exc


def _agreeing(p_world_m: FloatArray, p_scan: FloatArray) -> BoolArray:
    best_m: FloatArray | None = None
    for triple in _triples(len(p_world_m)):
        try:
            T, scale = _fitted(p_world_m[triple], p_scan[triple])
        except ConfigError:  # in one line
            continue
        residuals = np.linalg.norm(T.apply(scale * p_scan) - p_world_m, axis=1)
        if best_m is None or np.median(residuals) < np.median(best_m):
            best_m = residuals
    if best_m is None:
        return np.ones(len(p_world_m), bool)
    sigma_m = 1.4826 * (1.0 + 5.0 / max(1, len(best_m) - 3)) * float(np.median(best_m))
    found: BoolArray = best_m <= max(_TOLERANCE_M, _SIGMAS * sigma_m)
    return found


def _triples(count: int) -> Iterator[list[int]]:
    """Yield all triples of some points, of many points 2000 random ones."""
    if math.comb(count, 3) <= _MOST_TRIPLES:
        yield from map(list, itertools.combinations(range(count), 3))
        return
    rng = np.random.default_rng(1)
    for _ in range(_MOST_TRIPLES):
        yield rng.choice(count, 3, replace=False).tolist()


def _left_out(p_world_m: FloatArray, p_scan: FloatArray) -> FloatArray:
    """Return for each point the distance that is left at it when the others alone decide."""
    errors = []
    for i in range(len(p_world_m)):
        others = np.arange(len(p_world_m)) != i
        try:
            T, scale = _fitted(p_world_m[others], p_scan[others])
        except ConfigError:
            return np.empty(0)
        errors.append(float(np.linalg.norm(T.apply(scale * p_scan[i]) - p_world_m[i])))
    return np.array(errors)
