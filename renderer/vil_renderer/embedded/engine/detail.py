"""Levels of detail: fewer triangles for models that are small in the picture."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.lod import simplified
from vil_renderer.embedded.assets.model import Asset, Node
from vil_renderer.embedded.assets.thinned import thinned
from vil_renderer.embedded.optics.camera import in_view
from vil_renderer.embedded.posed_models import stretches

_WORTH_TRIANGLES: Final = 1000
_WORTH_THINNING: Final = 4000
"""Triangles from which on merging cells, or taking vertices out of what bends, pays off."""
_THINNER: Final = (12.0, 6.0, 3.0, 1.5)
"""Radii in the picture below which skinned models have fewer vertices, as shares of the
profile's ``lod_px``.
"""
_CLUSTERED: Final = (1.0, 0.25)
"""The same for models whose vertices are merged by the cells of a grid.

The skinned ones have the last only.
"""
_BAND: Final = 1.15
"""A model becomes finer where it is larger than a limit, and coarser where it is smaller by this
factor.
"""
_CELL_PX: Final = 2.0
_ERROR_PX: Final = 0.75
"""Error of a level where it begins; at the nearest point of the ball around the model."""
_MOST_REMEMBERED: Final = 4096
_NEAREST_M: Final = 1e-3
_SMALLEST: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class ViewPoints:
    """Viewpoints of c pictures.

    Attributes:
        eye_m: (c, 3). f_px: focal lengths of the cameras, (c,).
        behind_m: places behind the previous cameras for points of unknown motion, (c, 3).
        clip_from_world: of the views, (c, 4, 4), beyond which nothing is drawn; None = everything
            is.
    """

    eye_m: FloatArray
    f_px: FloatArray
    behind_m: FloatArray
    clip_from_world: FloatArray | None = None

    def only(self, view: int) -> ViewPoints:
        """Return one of the viewpoints."""
        clip = None if self.clip_from_world is None else self.clip_from_world[view : view + 1]
        one = slice(view, view + 1)
        return ViewPoints(self.eye_m[one], self.f_px[one], self.behind_m[one], clip)

    def depths(self, view: int, p_m: FloatArray) -> FloatArray:
        """Return the z-depth of points (n, 3) in a view, metres (n,)."""
        assert self.clip_from_world is not None
        # The fourth row of clip space is the depth along the optical axis.
        row = self.clip_from_world[view, 3]
        return np.asarray(p_m @ row[:3] + row[3])

    def sees(self, carried: FloatArray, centre: FloatArray, radius: FloatArray) -> BoolArray:
        """Return which of the places (k, 4, 4) carry a ball into each view, (c, k).

        Its radii there are (k,).
        """
        if self.clip_from_world is None:
            return np.ones((len(self.eye_m), len(carried)), np.bool_)
        # Faster than @ for many small matrices.
        centres = np.einsum("kab,b->ka", carried[:, :3, :3], centre)
        return in_view(self.clip_from_world, centres + carried[:, :3, 3], radius)

    def sees_blended(self, carried: FloatArray, centre: FloatArray, radius: float) -> BoolArray:
        """Return which views see a model whose points lie between their places by several
        matrices (k, 4, 4), (c,).
        """
        if self.clip_from_world is None:
            return np.ones(len(self.eye_m), np.bool_)
        balls = carried[:, :3, :3] @ centre + carried[:, :3, 3]
        middle = balls.mean(axis=0)
        reach = np.linalg.norm(balls - middle, axis=1) + radius * stretches(carried[:, :3, :3])
        return in_view(self.clip_from_world, middle[None], reach.max(keepdims=True))[:, 0]


CLOSEST: Final = ViewPoints(np.zeros((1, 3)), np.full(1, math.inf), np.zeros((1, 3)))
"""Everything is drawn in full."""


@dataclass(frozen=True, slots=True, eq=False)
class Extent:
    """The ball around an asset at rest.

    Attributes:
        node: that carries it; stretch: length in the asset's axes of 1 in this node's.
        centre: in this node's axes, (3,). radius: in the asset's.
        scale: length in the asset's axes of 1 between vertices of each node, (n,).
        triangles: of all parts. thins: parts that bend are drawn with fewer vertices further away,
            and merged last.
    """

    node: int
    stretch: float
    centre: FloatArray
    radius: float
    scale: FloatArray
    triangles: int
    thins: bool = False

    def limits_px(self, lod_px: float) -> list[float]:
        """Return radii in the picture below which levels 1, 2 ... are drawn, falling.

        None where it does not pay.
        """
        if not lod_px or self.triangles < _WORTH_TRIANGLES:
            return []
        shares: tuple[float, ...] = _CLUSTERED
        if self.thins:
            shares = (*_THINNER, _CLUSTERED[-1])
        return [share * lod_px for share in shares]


def extent_of(asset: Asset) -> Extent:
    """Return the ball around an asset.

    It moves with the first part's node or the joint above it.
    """
    rest = asset.asset_from_node()
    placed = np.array(
        [_asset_from_vertices(node, m, rest) for node, m in zip(asset.nodes, rest, strict=True)]
    )
    scale = np.array([_length(m) for m in placed])
    drawn = [(i, part) for i, node in enumerate(asset.nodes) for part in node.primitives]
    if not drawn:
        return Extent(0, 1.0, np.zeros(3), 0.0, scale, 0)
    points = np.concatenate(
        [part.p_m @ placed[i, :3, :3].T + placed[i, :3, 3] for i, part in drawn]
    )
    low = points.min(axis=0)
    high = points.max(axis=0)
    skin = asset.nodes[drawn[0][0]].skin
    carrier = drawn[0][0] if skin is None else skin.joints[0]
    centre = np.linalg.inv(rest[carrier]) @ np.append(0.5 * (low + high), 1.0)
    radius = 0.5 * float(np.linalg.norm(high - low))
    triangles = sum(len(part.triangles) for _, part in drawn)
    bends = sum(
        len(p.triangles) for i, p in drawn if asset.nodes[i].skin is not None and p.targets is None
    )
    return Extent(
        carrier,
        _length(rest[carrier]),
        centre[:3],
        radius,
        scale,
        triangles,
        thins=bends >= _WORTH_THINNING,
    )


def _asset_from_vertices(node: Node, asset_from_node: FloatArray, rest: FloatArray) -> FloatArray:
    """Return the matrix (4, 4) from a node's vertices to the asset's axes."""
    if node.skin is None:
        return asset_from_node
    return np.asarray(rest[node.skin.joints[0]] @ node.skin.inverse_bind[0])


def _length(m: FloatArray) -> float:
    """Return the longest image of a unit vector along the axes of a matrix."""
    return float(np.linalg.norm(m[:3, :3], axis=0).max())


def centres_m(world_from_node: FloatArray, extent: Extent) -> FloatArray:
    """Return the middles of models (k, n, 4, 4) in the world, (k, 3)."""
    m = world_from_node[:, extent.node]
    return np.asarray(m[:, :3, :3] @ extent.centre + m[:, :3, 3])


def details_of(
    world_from_node: FloatArray,
    extent: Extent,
    views: ViewPoints,
    limits_px: Sequence[float],
    before: npt.NDArray[np.intp] | None = None,
) -> npt.NDArray[np.intp]:
    """Return the level of detail of models in views, (c, k).

    0 = everything, 1 and more = coarser and coarser.

    Args:
        world_from_node: of the models, (k, n, 4, 4).
        extent: their asset's.
        views: of the pictures.
        limits_px: radius in the picture below which each level is drawn, falling.
        before: levels in the cameras' previous pictures, (c, k), which stay while that is right;
            negative = unknown.
    """
    longest = np.linalg.norm(world_from_node[:, extent.node, :3, :3], axis=1).max(axis=1)
    radius_m = extent.radius * longest / max(extent.stretch, _SMALLEST)
    away = centres_m(world_from_node, extent) - views.eye_m[:, None]
    distance_m = np.maximum(np.linalg.norm(away, axis=2) - radius_m, _NEAREST_M)
    radius_px = (views.f_px[:, None] * radius_m / distance_m)[..., None]
    coarsest = (radius_px < np.asarray(limits_px)).sum(axis=2)
    if before is None:
        return np.asarray(coarsest)
    finest = (_BAND * radius_px < np.asarray(limits_px)).sum(axis=2)
    return np.asarray(np.where(before < 0, coarsest, np.clip(before, finest, coarsest)))


class DetailMemory:
    """Levels of detail in the previous picture of each camera, so that none changes to and fro."""

    def __init__(self) -> None:
        self._levels: OrderedDict[tuple[str, int], dict[str, int]] = OrderedDict()

    def of(self, camera: str, asset: Asset, names: Sequence[str]) -> tuple[int, ...]:
        """Return the levels of models of an asset, -1 where there is none."""
        known = self._levels.get((camera, id(asset)), {})
        return tuple(known.get(name, -1) for name in names)

    def record(
        self, camera: str, asset: Asset, names: Sequence[str], levels: npt.NDArray[np.intp]
    ) -> None:
        """Store the levels (k,) of all models of an asset in a camera's picture."""
        key = (camera, id(asset))
        self._levels[key] = dict(zip(names, levels.tolist(), strict=True))
        self._levels.move_to_end(key)
        if len(self._levels) > _MOST_REMEMBERED:
            self._levels.popitem(last=False)


def simpler(asset: Asset, extent: Extent, level: int, lod_px: float) -> Asset:
    """Return an asset for a level of :func:`details_of`, right within a pixel or two where that
    level begins.
    """
    limits_px = extent.limits_px(lod_px)
    if level == 0:
        return asset
    fewer = asset
    if extent.thins and level <= len(_THINNER):
        errors_m = [_ERROR_PX * extent.radius / limit_px for limit_px in limits_px[: len(_THINNER)]]
        fewer = thinned(asset, extent.radius, errors_m)[level - 1]
        if level < len(_THINNER):
            return fewer
    cell_m = _CELL_PX * extent.radius / limits_px[level - 1]
    nodes = []
    for node, original, scale in zip(fewer.nodes, asset.nodes, extent.scale.tolist(), strict=True):
        parts = []
        for part, before in zip(node.primitives, original.primitives, strict=True):
            if part is before:
                parts.append(simplified(part, cell_m / max(scale, _SMALLEST)))
            else:
                parts.append(part)
        nodes.append(replace(node, primitives=tuple(parts)))
    return replace(asset, nodes=tuple(nodes))
