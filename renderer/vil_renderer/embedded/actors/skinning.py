"""Linear blend skinning in numpy: where the vertices of a posed model are."""

from __future__ import annotations

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset, Primitive
from vil_renderer.embedded.assets.skins import skinned
from vil_renderer.embedded.scene import Posed


def skin(posed: Posed, node: int, primitive: Primitive) -> FloatArray:
    """Return world positions (n, 3) of a primitive that hangs on a node of a posed model."""
    return skinned(posed.world_from_node, posed.asset.nodes[node].skin, node, primitive)


def skinned_points(asset: Asset, world_from_node: FloatArray) -> list[FloatArray]:
    """Return positions (n, 3) of each primitive that has a skin, node after node."""
    return [
        skinned(world_from_node, node.skin, i, part)
        for i, node in enumerate(asset.nodes)
        for part in node.primitives
        if node.skin is not None
    ]
