"""Levels of detail: fewer triangles for models that are small in the picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.lod import simplified
from vil_renderer.embedded.assets.model import Asset, Node, Primitive
from vil_renderer.embedded.optics.camera import in_view
from vil_renderer.embedded.scene import Posed

_WORTH_TRIANGLES: Final = 1000
_LEVELS: Final = 2
_STEP: Final = 4.0
_CELL_PX: Final = 2.0
_NEAREST_M: Final = 1e-3
_SMALLEST: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class ViewPoint:
    """Viewpoint of a picture.

    Attributes:
        eye_m: (3,). f_px: focal length of the camera.
        behind_m: a place behind the previous camera for points of unknown motion, (3,).
        clip_from_world: of the view, (4, 4), beyond which nothing is drawn; None = everything is.
    """

    eye_m: FloatArray
    f_px: float
    behind_m: FloatArray
    clip_from_world: FloatArray | None = None

    def sees(self, carried: FloatArray, centre: FloatArray, radius: float) -> BoolArray:
        """Return which of the places (k, 4, 4) can carry a ball into the view."""
        if self.clip_from_world is None:
            return np.ones(len(carried), np.bool_)
        linear = carried[:, :3, :3]
        return in_view(self.clip_from_world, linear @ centre + carried[:, :3, 3], radius * _stretch(linear))

    def sees_blended(self, carried: FloatArray, centre: FloatArray, radius: float) -> bool:
        """Return whether a model is seen whose points lie between their places by several matrices (k, 4, 4)."""
        if self.clip_from_world is None:
            return True
        balls = carried[:, :3, :3] @ centre + carried[:, :3, 3]
        middle = balls.mean(axis=0)
        reach = np.linalg.norm(balls - middle, axis=1) + radius * _stretch(carried[:, :3, :3])
        return bool(in_view(self.clip_from_world, middle[None], reach.max(keepdims=True))[0])


def _stretch(linear: FloatArray) -> FloatArray:
    """Return upper bounds on the stretch of any direction, by each matrix (k, 3, 3)."""
    return np.asarray(np.sqrt(np.abs(np.swapaxes(linear, 1, 2) @ linear).sum(axis=1).max(axis=1)))


CLOSEST: Final = ViewPoint(np.zeros(3), math.inf, np.zeros(3))
"""Everything is drawn in full."""


@dataclass(frozen=True, slots=True, eq=False)
class Extent:
    """The ball around an asset at rest.

    Attributes:
        node: that carries it; stretch: length in the asset's axes of 1 in this node's.
        centre: in this node's axes, (3,). radius: in the asset's.
        scale: length in the asset's axes of 1 between vertices of each node, (n,).
        triangles: of all parts.
    """

    node: int
    stretch: float
    centre: FloatArray
    radius: float
    scale: FloatArray
    triangles: int


def extent_of(asset: Asset) -> Extent:
    """Return the ball around an asset; it moves with the first part's node or the joint above it."""
    rest = asset.asset_from_node()
    placed = np.array([_asset_from_vertices(node, m, rest) for node, m in zip(asset.nodes, rest, strict=True)])
    scale = np.array([_length(m) for m in placed])
    drawn = [(i, part) for i, node in enumerate(asset.nodes) for part in node.primitives]
    if not drawn:
        return Extent(0, 1.0, np.zeros(3), 0.0, scale, 0)
    points = np.concatenate([part.p_m @ placed[i, :3, :3].T + placed[i, :3, 3] for i, part in drawn])
    low, high = points.min(axis=0), points.max(axis=0)
    skin = asset.nodes[drawn[0][0]].skin
    carrier = drawn[0][0] if skin is None else skin.joints[0]
    centre = np.linalg.inv(rest[carrier]) @ np.append(0.5 * (low + high), 1.0)
    radius = 0.5 * float(np.linalg.norm(high - low))
    return Extent(
        carrier, _length(rest[carrier]), centre[:3], radius, scale, sum(len(part.triangles) for _, part in drawn)
    )


def _asset_from_vertices(node: Node, asset_from_node: FloatArray, rest: FloatArray) -> FloatArray:
    """Return the matrix (4, 4) from a node's vertices to the asset's axes."""
    if node.skin is None:
        return asset_from_node
    return np.asarray(rest[node.skin.joints[0]] @ node.skin.inverse_bind[0])


def _length(m: FloatArray) -> float:
    """Return the longest image of a unit vector along the axes of a matrix."""
    return float(np.linalg.norm(m[:3, :3], axis=0).max())


def centre_m(posed: Posed, extent: Extent) -> FloatArray:
    """Return the middle of a model in the world, (3,)."""
    m = posed.world_from_node[extent.node]
    return np.asarray(m[:3, :3] @ extent.centre + m[:3, 3])


def can_simplify(extent: Extent) -> bool:
    """Return whether an asset has so many triangles that drawing fewer pays off."""
    return extent.triangles >= _WORTH_TRIANGLES


def detail_of(posed: Posed, extent: Extent, viewpoint: ViewPoint, limit_px: float) -> int:
    """Return the level of detail: 0 = everything, 1 and 2 = coarser and coarser.

    Args:
        posed: the model.
        extent: its asset's.
        viewpoint: of the picture.
        limit_px: radius in the picture below which less is drawn.
    """
    radius_m = extent.radius * _length(posed.world_from_node[extent.node]) / max(extent.stretch, _SMALLEST)
    distance_m = float(np.linalg.norm(centre_m(posed, extent) - viewpoint.eye_m)) - radius_m
    radius_px = viewpoint.f_px * radius_m / max(distance_m, _NEAREST_M)
    return sum(radius_px < limit_px / _STEP**level for level in range(_LEVELS))


def coarse(part: Primitive, node: int, extent: Extent, level: int, limit_px: float) -> Primitive:
    """Return a part of a node for a level of :func:`detail_of`: cells of two pixels where that level begins."""
    if level == 0:
        return part
    cell = _CELL_PX * extent.radius * _STEP ** (level - 1) / limit_px
    return simplified(part, cell / max(float(extent.scale[node]), _SMALLEST))
