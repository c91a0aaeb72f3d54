"""Subdivision of large triangles in models from files, since light is computed at vertices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.model import Asset, Primitive

_Triangles = npt.NDArray[np.uint32]
_Arrays = Mapping[str, npt.NDArray[Any]]
_FIELDS: Final = ("p_m", "normal", "uv", "uv1", "tangent", "colour")
_UNIT: Final = ("normal", "tangent")
_FINEST: Final = 64
_MOST_ROUNDS: Final = 16


def refined(asset: Asset, limit_m: float, world_from_asset: FloatArray | None = None) -> Asset:
    """Return a model without edges longer than a limit; skinned nodes stay unchanged.

    Args:
        asset: the model.
        limit_m: longest edge; of a very large part a 64th of its size.
        world_from_asset: (4, 4), with its scale; None = the identity.
    """
    if world_from_asset is None:
        world_from_asset = np.eye(4)
    places = world_from_asset @ asset.asset_from_node()
    nodes = []
    for node, m in zip(asset.nodes, places, strict=True):
        if node.skin:
            nodes.append(node)
            continue
        parts = tuple(_refined(p, m[:3, :3], limit_m) for p in node.primitives)
        nodes.append(replace(node, primitives=parts))
    return replace(asset, nodes=tuple(nodes))


def _refined(part: Primitive, linear: FloatArray, limit_m: float) -> Primitive:
    """Halve long edges until none is left.

    Whether an edge is cut, and where, depends on its two ends alone, so neighbours still meet
    without gaps.
    """
    arrays = {name: getattr(part, name) for name in _FIELDS if getattr(part, name) is not None}
    size = float(np.ptp(part.p_m @ linear.T, axis=0).max(initial=0.0))
    limit_m = max(limit_m, size / _FINEST)
    triangles = part.triangles
    for _ in range(_MOST_ROUNDS):
        p = arrays["p_m"].astype(np.float64) @ linear.T
        following = triangles[:, (1, 2, 0)]
        long = np.linalg.norm(p[following] - p[triangles], axis=-1) > limit_m
        if not long.any():
            break
        ends = np.sort(np.stack((triangles[long], following[long]), axis=-1), axis=-1)
        pairs, which = np.unique(ends, axis=0, return_inverse=True)
        middle = np.zeros(triangles.shape, np.uint32)
        middle[long] = len(p) + which.reshape(-1)
        arrays = _with_middles(arrays, pairs)
        triangles = _cut(triangles, middle, long)
    return replace(part, triangles=triangles, **arrays)


def _with_middles(arrays: _Arrays, pairs: npt.NDArray[np.uint32]) -> dict[str, npt.NDArray[Any]]:
    """Append the middles of vertex pairs (k, 2) to the vertices."""
    made: dict[str, npt.NDArray[Any]] = {}
    for name, array in arrays.items():
        between = array[pairs].mean(axis=1, dtype=np.float64)
        if name in _UNIT:
            length = np.linalg.norm(between[:, :3], axis=1, keepdims=True)
            opposite = length[:, 0] < 1e-6
            between[:, :3] /= np.maximum(length, 1e-6)
            between[opposite] = array[pairs[opposite, 0]]
        if name == "tangent":
            between[:, 3] = array[pairs[:, 0], 3]
        made[name] = np.concatenate(
            (array, (np.rint(between) if name == "colour" else between).astype(array.dtype))
        )
    return made


def _cut(triangles: _Triangles, middle: _Triangles, long: BoolArray) -> _Triangles:
    """Cut triangles (m, 3) with long edges at vertices ``middle``, both (m, 3).

    Edge k begins at corner k.
    """
    count = long.sum(axis=1)
    # Turned so that long edges come first: a lone one, or the two next to the short one.
    first = np.select([count == 1, count == 2], [long.argmax(axis=1), long.argmin(axis=1) + 1], 0)
    order = (np.arange(3) + first[:, None]) % 3
    a, b, c = np.take_along_axis(triangles, order, axis=1).T
    ab, bc, ca = np.take_along_axis(middle, order, axis=1).T
    pieces = {
        0: ((a, b, c),),
        1: ((a, ab, c), (ab, b, c)),
        2: ((a, ab, bc), (ab, b, bc), (a, bc, c)),
        3: ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)),
    }
    cut = [np.stack(piece, axis=1)[count == k] for k, made in pieces.items() for piece in made]
    return np.concatenate(cut).astype(np.uint32)
