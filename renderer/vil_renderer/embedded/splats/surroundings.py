"""Colour of the light that splats throw on what stands between them, on a grid over the scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.splats.cloud import SH_C0
from vil_renderer.embedded.splats.field import SplatField

CELLS: Final = (12, 12, 6)
"""Points of the grid along east, north and up."""
_MOST: Final = 2048
"""Splats that are asked: every so many."""
_OUTLIERS: Final = (2.0, 98.0)
"""Percentiles of the places of splats between which the grid lies."""
_NEAREST_M: Final = 0.5
"""Nearer splats count as if this far away."""
_STRONGEST: Final = 2.0
_SMALLEST_M: Final = 0.1
_TOGETHER: Final = 1 << 15
"""Pairs of a point and a splat whose numbers fit into the processor's cache."""
_LUMINANCE: Final = np.array([0.2126, 0.7152, 0.0722])


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """Tints of ambient light at the points of a grid.

    Attributes:
        low_m: (3,), the first point. size_m: (3,), from the first to the last one.
        below, above: linear colours of luminance 1 that come from below and from above, (x, y, z,
            3).
    """

    low_m: FloatArray
    size_m: FloatArray
    below: FloatArray
    above: FloatArray


def surroundings(field: SplatField, T_world_splats: FloatArray) -> Surroundings:
    """Return the tints at a scan.

    Mean colours of splats, each weighed by its size, distance and slant.

    Args:
        field: the splats.
        T_world_splats: (4, 4), rotation, place and uniform scale.
    """
    finest = slice(int(field.start[0, 0]), int(field.start[0, -1]))
    some = slice(finest.start, finest.stop, max(1, -(-(finest.stop - finest.start) // _MOST)))
    m = T_world_splats
    splats = field.splats
    p_m = splats.p[some].astype(np.float64) @ m[:3, :3].T + m[:3, 3]
    size = np.sort(np.linalg.norm(splats.axes[some], axis=1), axis=1)
    weight = splats.opacity[some] * size[:, 1] * size[:, 2]
    display = np.clip(0.5 + SH_C0 * splats.sh[some, 0].astype(np.float64), 0.0, 1.0)
    light = display**2.2
    low_m, high_m = np.percentile(p_m, _OUTLIERS, axis=0) if len(p_m) else np.zeros((2, 3))
    size_m = np.maximum(high_m - low_m, _SMALLEST_M)
    share = np.stack(
        np.meshgrid(*(np.linspace(0.0, 1.0, n) for n in CELLS), indexing="ij"), axis=-1
    )
    points_m = low_m + share.reshape(-1, 3) * size_m
    below, above = (np.ones((len(points_m), 3)) for _ in range(2))
    step = max(1, _TOGETHER // max(1, len(p_m)))
    for part in (slice(first, first + step) for first in range(0, len(points_m), step)):
        to_m = p_m - points_m[part, None]
        away_m = np.maximum(np.linalg.norm(to_m, axis=2), _NEAREST_M)
        facing = weight * to_m[..., 2] / away_m**3
        for tint, sign in ((below, -1.0), (above, 1.0)):
            tint[part] = _tints(np.maximum(sign * facing, 0.0) @ light)
    return Surroundings(low_m, size_m, below.reshape(*CELLS, 3), above.reshape(*CELLS, 3))


def _tints(light: FloatArray) -> FloatArray:
    """Return colours (n, 3) at luminance 1; none is very strong, and darkness has none."""
    luminance = (light @ _LUMINANCE)[:, None]
    dark = luminance <= 0.0
    tint = np.clip(light / np.where(dark, 1.0, luminance), 1.0 / _STRONGEST, _STRONGEST)
    return np.where(dark, 1.0, tint / (tint @ _LUMINANCE)[:, None])
