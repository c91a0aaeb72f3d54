"""Linear blend skinning in numpy: where the vertices of a posed model are."""

from __future__ import annotations

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset, Primitive, Skin
from vil_renderer.embedded.scene import Posed


def skin(posed: Posed, node: int, primitive: Primitive) -> FloatArray:
    """Return world positions (n, 3) of a primitive that hangs on a node of a posed model."""
    return skinned(posed.world_from_node, posed.asset.nodes[node].skin, node, primitive)


def skinned(world_from_node: FloatArray, skin: Skin | None, node: int, primitive: Primitive) -> FloatArray:
    """Return positions (n, 3) by the matrices (k, 4, 4) of all nodes; without a skin only the node carries them."""
    p = primitive.p_m.astype(np.float64)
    if skin is None or primitive.joints is None or primitive.weights is None:
        m = world_from_node[node]
        return np.asarray(p @ m[:3, :3].T + m[:3, 3])
    matrices = (world_from_node[list(skin.joints)] @ skin.inverse_bind)[:, :3]
    blended = np.zeros((len(p), 3, 4))
    for k in range(4):
        blended += primitive.weights[:, k, None, None] * matrices[primitive.joints[:, k]]
    return np.asarray((blended[:, :, :3] @ p[:, :, None])[..., 0] + blended[:, :, 3])


def skinned_points(asset: Asset, world_from_node: FloatArray) -> list[FloatArray]:
    """Return positions (n, 3) of each primitive that has a skin, node after node."""
    return [
        skinned(world_from_node, node.skin, i, part)
        for i, node in enumerate(asset.nodes)
        for part in node.primitives
        if node.skin is not None
    ]
