"""Models that keep their shape: vehicles, props, scene objects that an actor drives.

Placed many at a time.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_bridge.core.geometry import q_exp, q_to_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.scene import Prefab

_THINNEST_M: Final = 1e-6


class RigidModel:
    """A prefab, ready to be placed.

    Attributes:
        prefab: the model.
        size_m: (3,), of the box around it at rest.
        half_size_m: (3,), of the smallest box about the body's origin that holds it; unused where
            it is fitted.
    """

    def __init__(self, prefab: Prefab) -> None:
        self.prefab = prefab
        self._body_from_asset = np.linalg.inv(prefab.asset_from_body)
        rest = self._body_from_asset @ prefab.asset.asset_from_node()
        low, high = _bounds(prefab.asset, rest)
        self._fitted = prefab.fit != "none"
        self._stands = prefab.fit == "standing"
        self.size_m: FloatArray = np.maximum(high - low, _THINNEST_M)
        if self._fitted:
            centred = np.eye(4)
            centred[:3, 3] = -0.5 * (low + high)
            if self._stands:
                centred[2, 3] = -low[2]
            self._body_from_asset = centred @ self._body_from_asset
            rest = centred @ rest
        self._rest = rest
        self.half_size_m: FloatArray = np.maximum(np.abs(low), np.abs(high))

    def place(self, R: FloatArray, p_m: FloatArray, size_m: FloatArray, t_ns: int) -> FloatArray:
        """Return world matrices (m, n, 4, 4) of the nodes, for bodies at (m, 3, 3) and (m, 3), of
        sizes (m, 3).

        What has no size along an axis is made very thin there, so that rays can be carried into its
        axes.
        """
        nodes = self._nodes(t_ns)
        if self._fitted:
            R = R * (np.maximum(size_m, _THINNEST_M) / self.size_m)[:, None]
        placed = np.empty((len(p_m), len(nodes), 4, 4))
        # One product of large matrices takes a third of the time of many small ones.
        turned = R.reshape(-1, 3) @ nodes[:, :3].swapaxes(0, 1).reshape(3, -1)
        placed[:, :, :3] = turned.reshape(-1, 3, len(nodes), 4).swapaxes(1, 2)
        placed[:, :, :3, 3] += p_m[:, None]
        placed[:, :, 3] = (0.0, 0.0, 0.0, 1.0)
        return placed

    def half_sizes(self, size_m: FloatArray) -> FloatArray:
        """Return half of the boxes (m, 3) around bodies of sizes (m, 3)."""
        if not self._fitted:
            return np.broadcast_to(self.half_size_m, size_m.shape)
        half_m = 0.5 * np.maximum(size_m, _THINNEST_M)
        if self._stands:
            half_m[:, 2] *= 2.0
        return half_m

    def _nodes(self, t_ns: int) -> FloatArray:
        """Return nodes in the body's axes (n, 4, 4).

        Spinning ones are turned by the angle of the instant.
        """
        prefab = self.prefab
        if not prefab.spin:
            return self._rest
        local = prefab.asset.rest_local()
        axis = np.array(prefab.spin_axis)
        for name, rev_per_s in prefab.spin.items():
            node = prefab.asset.node_named(name)
            if node >= 0:
                angle_rad = 2.0 * math.pi * math.fmod(t_ns * 1e-9 * rev_per_s, 1.0)
                local[node, :3, :3] = local[node, :3, :3] @ q_to_matrix(q_exp(angle_rad * axis))
        return self._body_from_asset @ prefab.asset.asset_from_node(local)


def _bounds(asset: Asset, nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and the highest corner (3,) of an asset whose nodes have these matrices.

    N, 4, 4.
    """
    corners = [
        part.p_m.astype(np.float64) @ m[:3, :3].T + m[:3, 3]
        for node, m in zip(asset.nodes, nodes, strict=True)
        for part in node.primitives
        if len(part.p_m)
    ]
    points = np.concatenate(corners) if corners else np.zeros((1, 3))
    return points.min(axis=0), points.max(axis=0)
