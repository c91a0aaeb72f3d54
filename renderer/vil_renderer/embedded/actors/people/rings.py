"""Cross-sections of a body: rounded rings along a path, and what makes them uneven."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from vil_bridge.core.geometry import cross
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.actors.lofts import smooth_table
from vil_renderer.embedded.actors.people.folds import Folds
from vil_renderer.embedded.actors.turning import unit
from vil_renderer.embedded.assets.model import UvRect

BACK: Final = np.array([-1.0, 0.0, 0.0])


def rounded(
    middle_m: FloatArray,
    along: FloatArray,
    back: FloatArray,
    sizes_m: FloatArray,
    columns: int,
    squareness: float,
) -> FloatArray:
    """Return rounded cross-sections (rows, columns, 3).

    Args:
        middle_m: (rows, 3).
        along: direction of the path, (rows, 3).
        back: where u begins, roughly square to the path, (3,).
        sizes_m: half sizes across and towards ``back``, (rows, 2).
        columns: points of a ring.
        squareness: exponent of the superellipse, 2 = an ellipse.
    """
    first = unit(back - (along @ back)[:, None] * along)
    second = cross(along, first)
    turn = 2.0 * np.pi * np.arange(columns) / columns
    c, s = (np.sign(f) * np.abs(f) ** (2.0 / squareness) for f in (np.cos(turn), np.sin(turn)))
    deep = sizes_m[:, 1, None, None] * first[:, None]
    wide = sizes_m[:, 0, None, None] * second[:, None]
    return np.asarray(middle_m[:, None] + c[:, None] * deep + s[:, None] * wide)


def upright(
    table: Sequence[Sequence[float]], rows: int, columns: int, squareness: float
) -> FloatArray:
    """Return rings (rows, columns, 3) up along z from a table of height, half width, half depth,
    middle.
    """
    z, wide, deep, forward = smooth_table(table, rows).T
    middle = np.stack((forward, np.zeros(rows), z), axis=-1)
    up = np.tile((0.0, 0.0, 1.0), (rows, 1))
    return rounded(middle, up, BACK, np.stack((wide, deep), axis=-1), columns, squareness)


def pushed(rings_m: FloatArray, out_m: FloatArray) -> FloatArray:
    """Return rings whose points are moved away from their ring's middle by metres.

    Rows, columns.
    """
    return np.asarray(
        rings_m + out_m[..., None] * unit(rings_m - rings_m.mean(axis=1, keepdims=True))
    )


def bulged(rings_m: FloatArray, *bulges: tuple[float, float, float, float, float]) -> FloatArray:
    """Return rings with round bulges: x, y, z of the middle, radius and height in metres.

    Each on both sides.
    """
    out = np.zeros(rings_m.shape[:2])
    for x, y, z, radius_m, height_m in bulges:
        for side in (1.0, -1.0) if y else (1.0,):
            gap = np.linalg.norm(rings_m - (x, side * y, z), axis=-1)
            out += height_m * np.exp(-((gap / radius_m) ** 2))
    return pushed(rings_m, out)


def folded(rings_m: FloatArray, folds: Folds, *, down: bool) -> FloatArray:
    """Return rings with folds of cloth.

    Args:
        rings_m: (rows, columns, 3).
        folds: in the texture's coordinates.
        down: the path of the rings leads down, as that of a limb does.
    """
    columns = rings_m.shape[1]
    step = np.linalg.norm(np.diff(rings_m.mean(axis=1), axis=0), axis=1)
    run = np.concatenate(([0.0], np.cumsum(step))) / step.sum()
    around = np.arange(columns) / columns
    u, v = (1.0 - around, run) if down else (around, 1.0 - run)
    edges = np.minimum(1.0, 12.0 * np.minimum(run, 1.0 - run))
    return pushed(rings_m, edges[:, None] * folds.height(u[None, :], v[:, None]))


def downward(place: UvRect) -> UvRect:
    """Return the texture rectangle for a loft whose path leads down."""
    left, top, right, bottom = place
    return (right, bottom, left, top)
