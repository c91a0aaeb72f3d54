"""The objects of a scene with poses and boxes, for programs that ask by name."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from vil_bridge.core.geometry import q_from_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.scene import SceneObject
from vil_renderer.queries.messages import ObjectRow


def place_of(thing: SceneObject, t_ns: int) -> FloatArray:
    """Return rotation, scale and place of an object at a time, (4, 4)."""
    place = thing.world_from_asset
    return place if thing.path is None else np.asarray(thing.path.motion(t_ns).matrix() @ place)


def scale_of(place: FloatArray) -> FloatArray:
    """Return the scale along each axis of a place (4, 4), shape (3,).

    A mirrored one is negative along x.
    """
    scale = np.linalg.norm(place[:3, :3], axis=0)
    if np.linalg.det(place[:3, :3]) < 0.0:
        scale[0] = -scale[0]
    return np.asarray(scale)


@lru_cache(maxsize=4096)
def bounds_m(asset: Asset) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and the highest corner (3,) of an asset at rest, in its own axes.

    Zeros without a mesh.
    """
    low = np.full(3, np.inf)
    high = np.full(3, -np.inf)
    for node, m in zip(asset.nodes, asset.asset_from_node(), strict=True):
        for part in node.primitives:
            p_m = part.p_m @ m[:3, :3].T + m[:3, 3]
            low = np.minimum(low, p_m.min(axis=0))
            high = np.maximum(high, p_m.max(axis=0))
    return (low, high) if np.isfinite(low).all() else (np.zeros(3), np.zeros(3))


def object_row(thing: SceneObject, t_ns: int, *, movable: bool) -> ObjectRow:
    """Return an object's row, at its place at a time if it has a path."""
    place = place_of(thing, t_ns)
    scale = scale_of(place)
    low, high = bounds_m(thing.asset)
    px, py, pz = place[:3, 3].tolist()
    qx, qy, qz, qw = q_from_matrix(place[:3, :3] / scale).tolist()
    sx, sy, sz = (np.abs(scale) * (high - low)).tolist()
    cx, cy, cz = (0.5 * scale * (low + high)).tolist()
    kx, ky, kz = scale.tolist()
    return ObjectRow(
        thing.name,
        (px, py, pz),
        (qx, qy, qz, qw),
        (sx, sy, sz),
        (cx, cy, cz),
        thing.instance,
        movable,
        (kx, ky, kz),
        thing.path is not None,
    )
