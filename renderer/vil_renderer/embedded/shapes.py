"""Unit shapes that actors are put together from, float32 triangles, counter-clockwise seen from outside."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

__all__ = ["Shape", "Vertices", "capsule_vertices", "disc_vertices", "solid_vertices"]

Vertices = npt.NDArray[np.float32]
_SEGMENTS = 16
_RINGS = 8


class Shape(IntEnum):
    """A unit solid within -1..1 on each axis; the cylinder stands on z."""

    BOX = 0
    CYLINDER = 1
    SPHERE = 2


def solid_vertices(shape: Shape) -> Vertices:
    """Rows of position, normal, uv: shape (n, 8), three rows a triangle."""
    return {Shape.BOX: _box, Shape.CYLINDER: _cylinder, Shape.SPHERE: _sphere}[shape]()


def capsule_vertices() -> Vertices:
    """Rows of unit direction, end (0 or 1), turn (0..1): shape (n, 5), three rows a triangle."""
    ends = np.concatenate((np.zeros(_RINGS // 2 + 1), np.ones(_RINGS // 2 + 1)))
    latitude = np.concatenate((np.linspace(-0.5, 0.0, _RINGS // 2 + 1), np.linspace(0.0, 0.5, _RINGS // 2 + 1)))
    turn = np.arange(_SEGMENTS + 1) / _SEGMENTS
    lat, around = np.meshgrid(latitude * np.pi, turn * 2 * np.pi, indexing="ij")
    grid = np.stack(
        (
            np.cos(lat) * np.cos(around),
            np.cos(lat) * np.sin(around),
            np.sin(lat),
            np.broadcast_to(ends[:, None], lat.shape),
            np.broadcast_to(turn, lat.shape),
        ),
        axis=-1,
    )
    return _triangulate(grid)


def disc_vertices() -> Vertices:
    """A unit disc in the plane, shape (n, 2)."""
    angle = 2 * np.pi * np.arange(_SEGMENTS + 1) / _SEGMENTS
    rim = np.stack((np.cos(angle), np.sin(angle)), axis=-1)
    fan = np.stack((np.zeros((_SEGMENTS, 2)), rim[:-1], rim[1:]), axis=1)
    return fan.reshape(-1, 2).astype(np.float32)


def _triangulate(grid: npt.NDArray[np.float64]) -> Vertices:
    """Two triangles for each cell of a (rows, columns, k) grid whose columns turn left seen from outside."""
    a, b = grid[:-1, :-1], grid[:-1, 1:]
    c, d = grid[1:, 1:], grid[1:, :-1]
    cells = np.stack((a, b, c, a, c, d), axis=2)
    return cells.reshape(-1, grid.shape[-1]).astype(np.float32)


def _box() -> Vertices:
    faces = []
    corners = np.array([(-1, -1, 0, 1), (1, -1, 1, 1), (1, 1, 1, 0), (-1, -1, 0, 1), (1, 1, 1, 0), (-1, 1, 0, 0)])
    x, y, z = np.eye(3)
    for normal, right, up in ((x, y, z), (-x, -y, z), (y, -x, z), (-y, x, z), (z, x, y), (-z, x, -y)):
        p = normal + corners[:, :1] * right + corners[:, 1:2] * up
        faces.append(np.hstack((p, np.tile(normal, (6, 1)), corners[:, 2:])))
    return np.concatenate(faces).astype(np.float32)


def _cylinder() -> Vertices:
    turn = np.arange(_SEGMENTS + 1) / _SEGMENTS
    c, s = np.cos(2 * np.pi * turn), np.sin(2 * np.pi * turn)
    zero, one = np.zeros_like(turn), np.ones_like(turn)
    side = np.stack(
        [np.stack((c, s, z * one, c, s, zero, turn, one * v), axis=-1) for z, v in ((-1.0, 1.0), (1.0, 0.0))]
    )
    caps = []
    for z in (-1.0, 1.0):
        rim = np.stack((c, s, z * one, zero, zero, z * one, 0.5 + 0.5 * c, 0.5 + 0.5 * s), axis=-1)
        hub = np.array([0.0, 0.0, z, 0.0, 0.0, z, 0.5, 0.5])
        fan = np.stack((np.tile(hub, (_SEGMENTS, 1)), rim[:-1], rim[1:]), axis=1)
        caps.append((fan if z > 0 else fan[:, ::-1]).reshape(-1, 8))
    return np.concatenate((_triangulate(side), *caps)).astype(np.float32)


def _sphere() -> Vertices:
    turn = np.arange(_SEGMENTS + 1) / _SEGMENTS
    rise = np.arange(_RINGS + 1) / _RINGS
    lat, around = np.meshgrid((rise - 0.5) * np.pi, turn * 2 * np.pi, indexing="ij")
    n = np.stack((np.cos(lat) * np.cos(around), np.cos(lat) * np.sin(around), np.sin(lat)), axis=-1)
    uv = np.stack(np.broadcast_arrays(turn[None, :], 1.0 - rise[:, None]), axis=-1)
    return _triangulate(np.concatenate((n, n, uv), axis=-1))
