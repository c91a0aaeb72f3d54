"""Help for the tests of model files."""

from __future__ import annotations

from typing import Any

import numpy as np

from vil_renderer.embedded.assets.model import Asset, Primitive

RED_TOP = np.zeros((4, 4, 3), np.uint8)
RED_TOP[:2] = (255, 0, 0)


def only(asset: Asset) -> Primitive:
    (part,) = (part for node in asset.nodes for part in node.primitives)
    return part


def placed(asset: Asset) -> Any:
    """Positions of all vertices in the asset's axes, and the outward volume of its triangles."""
    points, volume = [], 0.0
    for node, matrix in zip(asset.nodes, asset.asset_from_node(), strict=True):
        for part in node.primitives:
            p = part.p_m.astype(np.float64) @ matrix[:3, :3].T + matrix[:3, 3]
            a, b, c = p[part.triangles].transpose(1, 0, 2)
            volume += float((a * np.cross(b, c)).sum() / 6.0)
            points.append(p)
    return np.concatenate(points), volume
