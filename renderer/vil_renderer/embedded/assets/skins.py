"""Linear blend skinning in numpy: where the vertices that hang on joints are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vil_bridge.core.geometry import cross
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset, Node, Primitive, Skin


def skinned(places: FloatArray, skin: Skin | None, node: int, primitive: Primitive) -> FloatArray:
    """Return positions (n, 3) by the matrices (k, 4, 4) of all nodes.

    Without a skin only the node carries them.
    """
    p = primitive.p_m.astype(np.float64)
    if skin is None or primitive.joints is None or primitive.weights is None:
        m = places[node]
        return np.asarray(p @ m[:3, :3].T + m[:3, 3])
    blended = _blended(places, skin, primitive)
    return np.asarray((blended[:, :, :3] @ p[:, :, None])[..., 0] + blended[:, :, 3])


def resting(asset: Asset) -> Asset:
    """Return a model that never moves again.

    Skinned parts stand where their joints have them, morphs at rest.
    """
    places = asset.asset_from_node()
    file_from_asset = np.linalg.inv(asset.root)
    nodes: list[Node] = []
    fixed: list[Node] = []
    for index, node in enumerate(asset.nodes):
        parts = tuple(replace(part, targets=None) for part in node.primitives)
        if node.skin is None:
            nodes.append(replace(node, primitives=parts))
            continue
        parts = tuple(_fixed(file_from_asset @ places, node.skin, index, part) for part in parts)
        fixed.append(Node(f"{node.name} at rest", primitives=parts))
        nodes.append(replace(node, primitives=(), skin=None))
    return replace(asset, nodes=(*nodes, *fixed), animations={})


def _fixed(places: FloatArray, skin: Skin, index: int, part: Primitive) -> Primitive:
    p_m = skinned(places, skin, index, part).astype(np.float32)
    if part.joints is None or part.weights is None:
        return replace(part, p_m=p_m)
    a, b, c = _blended(places, skin, part)[:, :, :3].transpose(1, 0, 2)
    n = part.normal.astype(np.float64)
    # The cofactors carry normals through any scale; in a mirror they turn them inside out.
    turned = np.stack([(cross(*pair) * n).sum(axis=1) for pair in ((b, c), (c, a), (a, b))], axis=1)
    inside_out = (cross(a, b) * c).sum(axis=1) < 0.0
    turned[inside_out] *= -1.0
    normal = turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1e-12)
    triangles = part.triangles[:, ::-1] if len(inside_out) and inside_out[0] else part.triangles
    made = replace(part, p_m=p_m, normal=normal.astype(np.float32), triangles=triangles)
    return replace(made, tangent=None, joints=None, weights=None)


def _blended(places: FloatArray, skin: Skin, primitive: Primitive) -> FloatArray:
    """Return the matrices (n, 3, 4) of each vertex."""
    assert primitive.joints is not None and primitive.weights is not None
    matrices = (places[list(skin.joints)] @ skin.inverse_bind)[:, :3]
    blended = np.zeros((len(primitive.p_m), 3, 4))
    for k in range(4):
        blended += primitive.weights[:, k, None, None] * matrices[primitive.joints[:, k]]
    return blended
