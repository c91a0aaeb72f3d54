"""Weights of joints on the vertices of a human."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.scenes.shapes import MeshBuilder

Part = tuple[MeshBuilder, FloatArray]
"""A mesh, and the weights of all joints on its vertices (n, joints)."""


class Blend:
    """Weights of joints, by their names."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def along(self, chain: list[str], share: FloatArray) -> FloatArray:
        """Return shares (n,) along a chain.

        0 = all the first joint's, 1 = all the second's..., rounded in between.
        """
        weights = np.zeros((len(share), len(self._names)))
        for k, name in enumerate(chain):
            weights[:, self._names.index(name)] = np.clip(
                1.0 - np.abs(np.clip(share, 0, len(chain) - 1) - k), 0.0, 1.0
            )
        return weights

    def towards(self, weights: FloatArray, name: str, share: FloatArray) -> FloatArray:
        """Return the weights with a share (n,) given to one joint."""
        mixed: FloatArray = weights * (1.0 - share)[:, None]
        mixed[:, self._names.index(name)] += share
        return mixed

    def one(self, name: str, mesh: MeshBuilder) -> Part:
        """Return a mesh that one joint moves."""
        return mesh, self.along([name], np.zeros(len(mesh.p_m)))


def steps(x: FloatArray, *ranges: tuple[float, float]) -> FloatArray:
    """Return the sum of cubic smooth steps, each from 0 at its first bound to 1 at its second."""
    total = np.zeros_like(x)
    for low, high in ranges:
        t = np.clip((x - low) / (high - low), 0.0, 1.0)
        total += t * t * (3.0 - 2.0 * t)
    return total


def four_heaviest(weights: FloatArray) -> tuple[npt.NDArray[np.uint16], Float32Array]:
    """Return the four heaviest joints of each vertex (n, 4), and their shares, which sum to 1."""
    heaviest = np.argsort(-weights, axis=1, kind="stable")[:, :4]
    largest = np.take_along_axis(weights, heaviest, axis=1)
    return heaviest.astype(np.uint16), (largest / largest.sum(axis=1, keepdims=True)).astype(
        np.float32
    )
