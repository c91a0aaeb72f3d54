"""Capsules about the parts of a skinned model, measured on its mesh at rest.

Rays meet these instead of triangles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.actors.skinning import skinned_points
from vil_renderer.embedded.assets.model import Asset

_FEWEST: Final = 12
_THINNEST_M: Final = 0.005


@dataclass(frozen=True, slots=True, eq=False)
class NodeCapsules:
    """One capsule for each group of nodes that has enough vertices.

    Attributes:
        group: index of the group that moves each, (k,).
        ends_m: (k, 2, 3), in the asset's axes at rest. radii_m: (k, 2).
    """

    group: npt.NDArray[np.intp]
    ends_m: FloatArray
    radii_m: FloatArray

    @classmethod
    def around(
        cls, asset: Asset, rest: FloatArray, group: npt.NDArray[np.intp], count: int
    ) -> NodeCapsules:
        """Measure an asset.

        Args:
            asset: the model.
            rest: its nodes' matrices at rest, (n, 4, 4).
            group: of each node, (n,), below ``count``.
            count: number of groups.
        """
        points: list[list[FloatArray]] = [[] for _ in range(count)]
        skinned = [
            (node.skin, part)
            for node in asset.nodes
            if node.skin is not None
            for part in node.primitives
        ]
        for (skin, part), place in zip(skinned, skinned_points(asset, rest), strict=True):
            if part.joints is None or part.weights is None:
                continue
            heaviest = part.joints[np.arange(len(place)), part.weights.argmax(axis=1)]
            owner = group[np.array(skin.joints)[heaviest]]
            for g in np.unique(owner):
                points[g].append(place[owner == g])
        made = [
            (g, *_fit(np.concatenate(p)))
            for g, p in enumerate(points)
            if sum(map(len, p)) >= _FEWEST
        ]
        return cls(
            np.array([g for g, _, _ in made], np.intp),
            np.array([ends for _, ends, _ in made]).reshape(-1, 2, 3),
            np.array([radii for _, _, radii in made]).reshape(-1, 2),
        )

    def carried(
        self, linear: FloatArray, offset: FloatArray, scale: FloatArray | float
    ) -> FloatArray:
        """Return rows (k, 8) of ends and radii in the world.

        Capsules shrunk to a point are left out.

        Args:
            linear: (g, 3, 3), of each group: x_world = linear x + offset.
            offset: (g, 3).
            scale: of the radii, one or (k, 1).
        """
        turns = linear[self.group]
        ends = (turns[:, None] @ self.ends_m[..., None])[..., 0] + offset[self.group][:, None]
        rows = np.hstack((ends.reshape(-1, 6), scale * self.radii_m))
        return rows[turns.any(axis=(1, 2))]


def _fit(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ends (2, 3) and radii (2,) of the tapered capsule along the points' longest extent."""
    centre = 0.5 * (points.min(axis=0) + points.max(axis=0))
    about = points - centre
    axis = np.linalg.svd(about, full_matrices=False)[2][0]
    along = about @ axis
    distance = np.linalg.norm(about - along[:, None] * axis, axis=1)
    slope, mean = np.polyfit(along, distance, 1)
    low = float(along.min())
    high = float(along.max())
    radii = np.maximum(mean + slope * np.array([low, high]), _THINNEST_M)
    inset = np.minimum(radii, 0.5 * (high - low))
    ends = centre + np.outer([low + inset[0], high - inset[1]], axis)
    return ends, radii
