"""Shapes as vertices and triangles.

Flat panels cut into cells, boxes, turned and extruded solids, tubes, ground.

Light is computed per vertex in the lowest profile, so large surfaces are cut into cells of about
half a metre. Shapes stand on z = 0 in their own axes, z up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import cross, yaw_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Material, Primitive, UvRect

UV_WHOLE: Final[UvRect] = (0.0, 0.0, 1.0, 1.0)
STANDING: Final = "xXyYz"
"""Faces of a box whose underside is never seen."""

_FACES: Final = {
    "x": np.array(((1, 0, 0), (0, 1, 0), (0, 0, 1))),
    "X": np.array(((-1, 0, 0), (0, -1, 0), (0, 0, 1))),
    "y": np.array(((0, 1, 0), (-1, 0, 0), (0, 0, 1))),
    "Y": np.array(((0, -1, 0), (1, 0, 0), (0, 0, 1))),
    "z": np.array(((0, 0, 1), (1, 0, 0), (0, 1, 0))),
    "Z": np.array(((0, 0, -1), (-1, 0, 0), (0, 1, 0))),
}
"""Outward normal, right and up of each face of a box; capital = the negative side."""


@dataclass(frozen=True, slots=True, eq=False)
class MeshBuilder:
    """Triangles with normals and texture coordinates.

    Attributes:
        p_m: (n, 3). normal: (n, 3), unit length. uv: (n, 2), v = 0 is the texture's top row.
        triangles: (m, 3), counter-clockwise seen from outside.
    """

    p_m: FloatArray
    normal: FloatArray
    uv: FloatArray
    triangles: npt.NDArray[np.intp]

    def turned(self, rotation: FloatArray) -> MeshBuilder:
        """Rotate by a matrix (3, 3) about the origin."""
        return MeshBuilder(self.p_m @ rotation.T, self.normal @ rotation.T, self.uv, self.triangles)

    def at(self, x: float, y: float, z: float, yaw_rad: float = 0.0) -> MeshBuilder:
        """Turn about the upright axis, then move."""
        turned = self.turned(yaw_matrix(yaw_rad)) if yaw_rad else self
        return MeshBuilder(turned.p_m + np.array([x, y, z]), turned.normal, self.uv, self.triangles)

    def primitive(self, material: Material, **arrays: Any) -> Primitive:
        """Return the triangles as a primitive of one material, with its other arrays by name."""
        p_m, normal, uv = (values.astype(np.float32) for values in (self.p_m, self.normal, self.uv))
        return Primitive(p_m, normal, uv, self.triangles.astype(np.uint32), material, **arrays)


def join(parts: Sequence[MeshBuilder]) -> MeshBuilder:
    """Join several meshes into one."""
    starts = np.cumsum([0] + [len(part.p_m) for part in parts])
    return MeshBuilder(
        np.concatenate([part.p_m for part in parts]),
        np.concatenate([part.normal for part in parts]),
        np.concatenate([part.uv for part in parts]),
        np.concatenate(
            [part.triangles + start for part, start in zip(parts, starts, strict=False)]
        ),
    )


def panel(
    corner_m: npt.ArrayLike,
    right_m: npt.ArrayLike,
    up_m: npt.ArrayLike,
    *,
    uv: UvRect | float = UV_WHOLE,
    cell_m: float = 0.5,
) -> MeshBuilder:
    """Build a parallelogram seen from the side that ``right x up`` points to.

    Args:
        corner_m: its bottom left corner, shape (3,).
        right_m: its lower edge, shape (3,).
        up_m: its left edge, shape (3,).
        uv: the part of the texture that it shows, or how many metres the whole texture is wide and
            high.
        cell_m: longest side of the quads it is cut into.
    """
    corner, right, up = (np.asarray(v, np.float64) for v in (corner_m, right_m, up_m))
    width = math.hypot(*right.tolist())
    height = math.hypot(*up.tolist())
    u0, v0, u1, v1 = uv if isinstance(uv, tuple) else (0.0, -height / uv, width / uv, 0.0)
    columns = max(1, math.ceil(width / cell_m - 1e-9))
    rows = max(1, math.ceil(height / cell_m - 1e-9))
    share, triangles = _unit_grid(columns, rows)
    normal = cross(right, up)
    return MeshBuilder(
        corner + share @ np.array((right, up)),
        np.repeat((normal / math.hypot(*normal))[None], len(share), axis=0),
        np.array((u0, v1)) + share * np.array((u1 - u0, v0 - v1)),
        triangles,
    )


@cache
def _unit_grid(columns: int, rows: int) -> tuple[FloatArray, npt.NDArray[np.intp]]:
    """Return shares of right and up (n, 2) of the vertices of a panel, and its triangles."""
    t, s = np.indices((rows + 1, columns + 1)).reshape(2, -1)
    return np.stack((s / columns, t / rows), axis=-1), _grid_triangles(columns, rows)


def box(
    size_m: tuple[float, float, float],
    *,
    uv: UvRect | float = UV_WHOLE,
    cell_m: float = 0.5,
    faces: str = "xXyYzZ",
) -> MeshBuilder:
    """Build a box with its base centred on the origin.

    ``faces`` names the visible ones (capital = negative side).
    """
    half = 0.5 * np.array(size_m)
    lift = np.array((0.0, 0.0, half[2]))
    parts = []
    for face in faces:
        normal, right, up = _FACES[face] * half
        corner = normal - right - up + lift
        parts.append(panel(corner, 2 * right, 2 * up, uv=uv, cell_m=cell_m))
    return join(parts)


def bevelled(size_m: tuple[float, float, float], bevel_m: float) -> MeshBuilder:
    """Build a box with its base centred on the origin whose edges are cut.

    They shade from face to face as if round.
    """
    half = 0.5 * np.array(size_m)
    signs = np.array(list(np.ndindex(2, 2, 2))) * 2.0 - 1.0
    cut = half - bevel_m * (1.0 - np.eye(3))  # of the corners of the faces along each axis
    p_m = (cut[:, None] * signs).reshape(-1, 3)
    normal = (np.eye(3)[:, None] * signs).reshape(-1, 3)
    quads = []
    corners = [(k, 8 + k, 16 + k) for k in range(8)]
    for axis, bit in enumerate((4, 2, 1)):
        one, other = {4, 2, 1} - {bit}
        for k in (0, bit):
            at = 8 * axis + k
            quads.append((at, at + one, at + one + other, at + other))
        a, b = (8 * other_axis for other_axis in range(3) if other_axis != axis)
        quads += [(a + k, b + k, b + k + bit, a + k + bit) for k in range(8) if not k & bit]
    triangles = np.array([*corners, *((q[0], q[i], q[i + 1]) for q in quads for i in (1, 2))])
    first, second, third = (p_m[triangles[:, k]] for k in range(3))
    inwards = np.einsum("ni,ni->n", cross(second - first, third - first), first) < 0.0
    triangles[inwards] = triangles[inwards, ::-1]
    uv = np.stack((signs[:, 1], -signs[:, 2]), axis=-1)
    return MeshBuilder(p_m, normal, np.tile(0.5 + 0.5 * uv, (3, 1)), triangles).at(
        0.0, 0.0, half[2]
    )


def lathe(
    profile_m: Sequence[tuple[float, float]],
    sides: int = 12,
    *,
    smooth: bool = False,
    uv: UvRect = UV_WHOLE,
) -> MeshBuilder:
    """Build a solid turned about z.

    Args:
        profile_m: radius and height from the bottom to the top; starts or ends at radius 0 where it
            is closed.
        sides: corners around.
        smooth: round along the profile too, not only around it.
        uv: u runs around, v along the profile.
    """
    profile = np.asarray(profile_m, np.float64)
    step = np.diff(profile, axis=0)
    lengths = np.linalg.norm(step, axis=1)
    out = np.stack((step[:, 1], -step[:, 0]), axis=-1) / lengths[:, None]
    if smooth:
        ends = np.vstack((out[:1], out[:-1] + out[1:], out[-1:]))
        ends /= np.linalg.norm(ends, axis=1, keepdims=True)
        normals = np.stack((ends[:-1], ends[1:]), axis=1)
    else:
        normals = np.stack((out, out), axis=1)
    share = np.concatenate(([0.0], np.cumsum(lengths))) / lengths.sum()
    angle = np.arange(sides + 1) / sides
    parts = []
    for k in range(len(step)):
        rings = [
            _ring(
                profile[k + j],
                normals[k, j],
                angle,
                (uv[0], uv[2]),
                uv[3] + share[k + j] * (uv[1] - uv[3]),
            )
            for j in (0, 1)
        ]
        triangles = _grid_triangles(sides, 1)
        # At a tip one triangle of each pair has no area.
        keep = [profile[k, 0] > 0.0, profile[k + 1, 0] > 0.0]
        used = triangles.reshape(-1, 2, 3)[:, keep].reshape(-1, 3)
        p_m, normal, uvs = (np.concatenate(pair) for pair in zip(*rings, strict=True))
        parts.append(MeshBuilder(p_m, normal, uvs, used))
    return join(parts)


def _ring(
    point: FloatArray, out: FloatArray, angle: FloatArray, u: tuple[float, float], v: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    c = np.cos(2 * np.pi * angle)
    s = np.sin(2 * np.pi * angle)
    one = np.ones(len(angle))
    c[-1], s[-1] = c[0], s[0]
    return (
        np.stack((point[0] * c, point[0] * s, point[1] * one), axis=-1),
        np.stack((out[0] * c, out[0] * s, out[1] * one), axis=-1),
        np.stack((u[0] + angle * (u[1] - u[0]), v * one), axis=-1),
    )


def tube(
    path_m: Sequence[tuple[float, float, float]],
    radius_m: float,
    sides: int = 6,
    repeat_m: float = 1.0,
) -> MeshBuilder:
    """Build a round bar, pipe or cable along a path, open at both ends.

    The texture repeats every ``repeat_m``.
    """
    path = np.asarray(path_m, np.float64)
    along = np.gradient(path, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    # One fixed reference for the whole path: cables bend little, so that the sides do not twist.
    reference = np.eye(3)[int(np.argmin(np.abs(along).sum(axis=0)))]
    side = cross(along, np.broadcast_to(reference, along.shape))
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    up = cross(along, side)
    angle = np.arange(sides + 1) / sides
    c = np.cos(2 * np.pi * angle)
    s = np.sin(2 * np.pi * angle)
    c[-1], s[-1] = c[0], s[0]
    normal = (side[:, None] * c[:, None] + up[:, None] * s[:, None]).reshape(-1, 3)
    v = np.concatenate(([0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1)))) / repeat_m
    uv = np.stack((np.tile(angle, len(path)), np.repeat(v, sides + 1)), axis=-1)
    return MeshBuilder(
        np.repeat(path, sides + 1, axis=0) + radius_m * normal,
        normal,
        uv,
        _grid_triangles(sides, len(path) - 1),
    )


def extrude(
    profile_m: Sequence[tuple[float, float]], length_m: float, *, repeat_m: float = 1.0
) -> MeshBuilder:
    """Extrude a convex profile (y, z), counter-clockwise seen from +x, along x about the origin,
    with end caps.
    """
    profile = np.asarray(profile_m, np.float64)
    half = 0.5 * length_m
    parts = []
    for a, b in zip(profile, np.roll(profile, -1, axis=0), strict=True):
        corner = np.array([half, *a])
        up = np.array([0.0, *(b - a)])
        parts.append(panel(corner, (-length_m, 0.0, 0.0), up, uv=repeat_m, cell_m=math.inf))
    fan = np.array([(0, k, k + 1) for k in range(1, len(profile) - 1)])
    for sign in (1.0, -1.0):
        p_m = np.column_stack((np.full(len(profile), sign * half), profile))
        uv = np.column_stack((sign * profile[:, 0], -profile[:, 1])) / repeat_m
        normal = np.tile([sign, 0.0, 0.0], (len(profile), 1))
        parts.append(MeshBuilder(p_m, normal, uv, fan if sign > 0 else fan[:, ::-1]))
    return join(parts)


def terrain(x_m: FloatArray, y_m: FloatArray, z_m: FloatArray, repeat_m: float) -> MeshBuilder:
    """Build ground over a grid with smooth normals.

    Args:
        x_m: (columns,).
        y_m: (rows,).
        z_m: (rows, columns).
        repeat_m: size of the whole texture.
    """
    x, y = np.meshgrid(x_m, y_m)
    slope_y, slope_x = np.gradient(z_m, y_m, x_m)
    normal = np.stack((-slope_x, -slope_y, np.ones_like(z_m)), axis=-1).reshape(-1, 3)
    return MeshBuilder(
        np.stack((x, y, z_m), axis=-1).reshape(-1, 3),
        normal / np.linalg.norm(normal, axis=1, keepdims=True),
        np.stack((x, -y), axis=-1).reshape(-1, 2) / repeat_m,
        _grid_triangles(len(x_m) - 1, len(y_m) - 1),
    )


def _grid_triangles(columns: int, rows: int) -> npt.NDArray[np.intp]:
    """Return two triangles for each cell of (rows + 1) x (columns + 1) vertices, row after row.

    Shape (m, 3).
    """
    first = (np.arange(rows)[:, None] * (columns + 1) + np.arange(columns)).ravel()
    up = columns + 1
    return np.stack(
        (first, first + 1, first + up + 1, first, first + up + 1, first + up), axis=-1
    ).reshape(-1, 3)
