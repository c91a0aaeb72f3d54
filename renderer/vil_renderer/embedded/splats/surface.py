"""A mesh of the surfaces that splats show.

It stands for them in depth, ids, rays and collisions.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.optics.tone_curve import linear
from vil_renderer.embedded.assets.model import Asset, Material, Primitive
from vil_renderer.embedded.splats.cloud import SH_C0, Float32, float32
from vil_renderer.embedded.splats.field import SplatField

_MOST: Final = 1 << 16
"""Most squares of a surface."""
_OPAQUE: Final = 0.5
"""Fainter splats are no surface."""
_FLAT: Final = 0.5
"""Shortest axis over the middle one of a splat that is a surface on its own."""
_PART: Final = 1024
"""Splats of a primitive; they follow a space-filling curve."""
_MATERIAL: Final = Material(double_sided=True, unlit=True)  # a scan has its light in its colours
_REACH: Final = 1.5
"""Half a side of a square, standard deviations."""


def surface_of(field: SplatField, name: str) -> Asset:
    """Return squares in the planes of opaque splats, in their axes.

    Blobs get three, one across each axis.

    Neighbours are one primitive, so that a view draws what it may show. The squares are those of
    the finest level with few enough splats, and have the colours of these seen from all around.

    Args:
        field: the splats.
        name: of the asset.
    """
    level = next(
        (n for n in range(len(field.start)) if _count(field, n) <= _MOST), len(field.start) - 1
    )
    own = slice(int(field.start[level, 0]), int(field.start[level, -1]))
    p = field.splats.p[own]
    axes = field.splats.axes[own]
    opacity = field.splats.opacity[own]
    size = np.linalg.norm(axes, axis=1)
    order = np.argsort(size, axis=1)
    rows = np.arange(len(p))
    columns = [axes[rows, :, order[:, i]] for i in range(3)]
    ratio = size[rows, order[:, 0]] / np.maximum(size[rows, order[:, 1]], 1e-12)
    solid = opacity >= _OPAQUE
    first = field.splats.sh[own, 0]
    parts = []
    for begin in range(0, len(p), _PART):
        some = slice(begin, begin + _PART)
        blob = solid[some] & (ratio[some] > _FLAT)
        chosen = (solid[some], 1, 2), (blob, 0, 1), (blob, 0, 2)
        corners = []
        normals = []
        colours = []
        for which, u, v in chosen:
            square, normal = _squares(
                p[some][which], columns[u][some][which], columns[v][some][which]
            )
            corners.append(square)
            normals.append(normal)
            colours.append(_colour(first[some][which]))
        parts.append(
            _primitive(np.concatenate(corners), np.concatenate(normals), np.concatenate(colours))
        )
    return Asset.of(name, parts, name)


def _primitive(corners: Float32, normal: Float32, colour: npt.NDArray[np.uint8]) -> Primitive:
    """Return squares as a surface; ``colour`` is that of each corner, (n, 4)."""
    quads = 4 * np.arange(len(corners) // 4, dtype=np.uint32)[:, None]
    triangles = np.concatenate(
        [quads + np.array(corner, np.uint32) for corner in ((0, 1, 2), (0, 2, 3))]
    )
    uv = np.zeros((len(corners), 2), np.float32)
    return Primitive(corners, normal, uv, triangles, _MATERIAL, colour=colour)


def _count(field: SplatField, level: int) -> int:
    return int(field.start[level, -1] - field.start[level, 0])


def _squares(p: Float32, u: Float32, v: Float32) -> tuple[Float32, npt.NDArray[np.float32]]:
    """Return four corners of each square, (4 n, 3), and their normals."""
    sides = [a * u + b * v for a, b in ((-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0))]
    corners = float32(p[:, None] + _REACH * np.stack(sides, axis=1)).reshape(-1, 3)
    normal = np.cross(u, v)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-30)
    return corners, np.repeat(float32(normal), 4, axis=0)


def _colour(first: Float32) -> npt.NDArray[np.uint8]:
    """Return the linear colours of the four corners of each square, from the first coefficients.

    N, 3.
    """
    light = linear(np.clip(0.5 + SH_C0 * first, 0.0, 1.0))
    opaque = np.concatenate((np.rint(255.0 * light), np.full((len(light), 1), 255.0)), axis=1)
    return np.repeat(opaque.astype(np.uint8), 4, axis=0)
