"""Rounded solids: cross-sections along a path, joined and closed, with smooth normals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import cross
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.actors.turning import unit
from vil_renderer.embedded.assets.model import UvRect
from vil_renderer.embedded.scenes.shapes import UV_WHOLE, MeshBuilder

_WELD_M = 1e-6


def loft(
    rings_m: FloatArray, uv: UvRect = UV_WHOLE, poles_m: FloatArray | None = None
) -> MeshBuilder:
    """Build a closed solid through rings.

    Args:
        rings_m: (rows, columns, 3); columns turn left seen from the last ring, the first one is not
            repeated.
        uv: u runs around, v from the bottom at the first ring to the top at the last.
        poles_m: the points that close it, (2, 3); None = the middles of the outer rings.
    """
    rows, columns = rings_m.shape[:2]
    closed = np.concatenate((rings_m, rings_m[:, :1]), axis=1)
    tips = rings_m.mean(axis=1)[[0, -1]] if poles_m is None else poles_m
    poles = tips[:, None].repeat(columns + 1, axis=1)
    p_m = np.concatenate((poles[:1], closed, poles[1:])).reshape(-1, 3)
    step = np.linalg.norm(np.diff(closed.mean(axis=1), axis=0), axis=1)
    run = np.concatenate(([0.0], [0.0], np.cumsum(step), [step.sum()])) / max(
        float(step.sum()), 1e-9
    )
    u, v = np.meshgrid(np.linspace(uv[0], uv[2], columns + 1), uv[3] + run * (uv[1] - uv[3]))
    first = (np.arange(rows + 1)[:, None] * (columns + 1) + np.arange(columns)).ravel()
    up = columns + 1
    a = np.stack((first, first + 1, first + up + 1), axis=-1).reshape(rows + 1, columns, 3)
    b = np.stack((first, first + up + 1, first + up), axis=-1).reshape(rows + 1, columns, 3)
    # Triangles at the poles without area are left out; neighbours follow each other, for the cache
    # of vertices.
    between = np.stack((a[1:rows], b[1:rows]), axis=2).reshape(-1, 3)
    triangles = np.concatenate((b[0], between, a[rows]))
    return MeshBuilder(
        p_m, _smooth_normals(p_m, triangles), np.stack((u, v), axis=-1).reshape(-1, 2), triangles
    )


def capsule(
    a_m: FloatArray, b_m: FloatArray, radii_m: tuple[float, float], columns: int = 12, rows: int = 4
) -> MeshBuilder:
    """Build a tapered capsule between two points (3,)."""
    along = np.array([0.0, 0.0, 1.0])
    if np.linalg.norm(b_m - a_m) > _WELD_M:
        along = unit(b_m - a_m)
    side = unit(cross(along, np.eye(3)[int(np.abs(along).argmin())]))
    across = cross(along, side)
    rise = np.linspace(-0.5 * np.pi, 0.0, rows + 1)[1:]
    latitude = np.concatenate((rise, -rise[::-1]))
    radius = np.repeat(radii_m, rows)
    centre = (
        np.repeat(np.stack((a_m, b_m)), rows, axis=0) + (radius * np.sin(latitude))[:, None] * along
    )
    turn = 2.0 * np.pi * np.arange(columns) / columns
    around = np.cos(turn)[:, None] * side + np.sin(turn)[:, None] * across
    tips = np.stack((a_m - radii_m[0] * along, b_m + radii_m[1] * along))
    return loft(centre[:, None] + (radius * np.cos(latitude))[:, None, None] * around, poles_m=tips)


def smooth_table(table: Sequence[Sequence[float]], rows: int) -> FloatArray:
    """Return rows (rows, k) of a table on a smooth curve through the given ones, evenly along
    the first column.
    """
    given = np.asarray(table, np.float64)
    knots = given[:, 0]
    at = np.linspace(knots[0], knots[-1], rows)
    step = np.diff(given, axis=0) / np.diff(knots)[:, None]
    # Slopes that never overshoot: the harmonic mean of neighbours of one sign, else 0 (Fritsch and
    # Butland 1984).
    product = step[:-1] * step[1:]
    total = step[:-1] + step[1:]
    inner = np.where(product > 0.0, 2.0 * product / np.where(total == 0.0, 1.0, total), 0.0)
    slope = np.vstack((step[:1], inner, step[-1:]))
    k = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(knots) - 2)
    width = (knots[k + 1] - knots[k])[:, None]
    t = ((at - knots[k])[:, None]) / width
    a = given[k]
    b = given[k + 1]
    curve: FloatArray = (
        a * (1 + 2 * t) * (1 - t) ** 2
        + b * t**2 * (3 - 2 * t)
        + width * (slope[k] * t * (1 - t) ** 2 + slope[k + 1] * t**2 * (t - 1))
    )
    return curve


def _smooth_normals(p_m: FloatArray, triangles: npt.NDArray[np.intp]) -> FloatArray:
    """Return the mean normals (n, 3) around each place, weighted by area.

    Vertices at one place share theirs.
    """
    _, place = np.unique(np.rint(p_m / _WELD_M).astype(np.int64), axis=0, return_inverse=True)
    a, b, c = (p_m[triangles[:, k]] for k in range(3))
    faces = cross(b - a, c - a)
    total = np.zeros((int(place.max()) + 1, 3))
    for k in range(3):
        np.add.at(total, place.ravel()[triangles[:, k]], faces)
    return unit(total)[place.ravel()]
