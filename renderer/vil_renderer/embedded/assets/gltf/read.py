"""Conversion of glTF 2.0 to an asset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.gltf.accessors import Accessors
from vil_renderer.embedded.assets.gltf.clips import morphing_nodes, read_animations
from vil_renderer.embedded.assets.gltf.container import Document, open_document
from vil_renderer.embedded.assets.gltf.extensions import check_claims
from vil_renderer.embedded.assets.gltf.images import PictureBudget
from vil_renderer.embedded.assets.gltf.instances import MeshInstances, Place
from vil_renderer.embedded.assets.gltf.materials import Materials
from vil_renderer.embedded.assets.gltf.meshes import STATIC_BYTES, Meshes, MeshUse
from vil_renderer.embedded.assets.gltf.nodes import (
    hidden_nodes,
    label,
    light_of,
    place,
    scene_order,
)
from vil_renderer.embedded.assets.gltf.schema import GltfNode
from vil_renderer.embedded.assets.model import Asset, Node, Skin

Y_UP: Final = np.array(
    [[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
)
"""Our axes (x forward, y left, z up) from glTF's (z forward, x left, y up)."""


def load_gltf(
    path: Path, texture_limit_px: int | None = None, budget: PictureBudget | None = None
) -> Asset:
    """Read a .glb or .gltf with the files it refers to.

    Nodes of the default scene with their triangles, skins and lights, and all animations. Winding
    is counter-clockwise seen from outside once the nodes stand in their places at rest, also where
    these mirror.

    Args:
        path: the file.
        texture_limit_px: longest side of a texture, None = 4096.
        budget: of the scene, for its decoded pictures; None = the file has one of its own.

    Raises:
        AssetError: the file or one of its elements is broken or unsupported; the message names
            both.
    """
    document = open_document(path)
    check_claims(document)
    order, parents = scene_order(document)
    accessors = Accessors(document)
    positions = {index: position for position, index in enumerate(order)}
    meshes = Meshes(
        document, accessors, Materials(document, texture_limit_px, budget or PictureBudget())
    )
    builder = _Builder(
        document, meshes, _Skins(document, accessors, positions), MeshInstances(document, accessors)
    )
    for index, parent in zip(order, parents, strict=True):
        builder.add(index, parent)
    clips = read_animations(document, accessors, positions)
    asset = Asset(path.stem, (*builder.nodes, *builder.copies), Y_UP, clips, path.name)
    _refuse_overflow(document, asset, order)
    return asset


@dataclass(slots=True)
class _Skins:
    """Skins of a file, each made once."""

    document: Document
    accessors: Accessors
    positions: Mapping[int, int]
    _made: dict[int, Skin] = field(default_factory=dict)

    def get(self, index: int, user: str) -> Skin:
        if index not in self._made:
            described = self.document.item(self.document.gltf.skins, "skin", index, user)
            element = f"skin {index}"
            for joint in described.joints:
                self.document.item(self.document.gltf.nodes, "node", joint, element)
                if joint not in self.positions:
                    raise self.document.error(
                        element, f"its joint, {label(self.document, joint)}, is not in the scene"
                    )
            joints = tuple(self.positions[joint] for joint in described.joints)
            self._made[index] = Skin(
                joints, self._inverse_bind(described.inverse_bind_matrices, len(joints), element)
            )
        return self._made[index]

    def _inverse_bind(self, index: int | None, count: int, element: str) -> FloatArray:
        if index is None:
            return np.tile(np.eye(4), (count, 1, 1))
        matrices = self.accessors.floats(index, f"{element} inverse bind matrices", "MAT4")
        if len(matrices) < count:
            raise self.document.error(
                element, f"{count} joints, but {len(matrices)} inverse bind matrices"
            )
        # Columns first in the file.
        return matrices[:count].reshape(-1, 4, 4).transpose(0, 2, 1).astype(np.float64)


class _Builder:
    """Nodes in the order in which they are added, and the copies of their meshes, which come
    behind all of them.
    """

    def __init__(
        self, document: Document, meshes: Meshes, skins: _Skins, instances: MeshInstances
    ) -> None:
        self._document = document
        self._meshes = meshes
        self._skins = skins
        self._instances = instances
        self._hidden, self._morphing = hidden_nodes(document), morphing_nodes(document)
        self._mirrored: list[bool] = []
        self.nodes: list[Node] = []
        self.copies: list[Node] = []

    def add(self, index: int, parent: int) -> None:
        """Append a node whose parent, if it has one, was added before."""
        described = self._document.gltf.nodes[index]
        element = label(self._document, index)
        p, q_xyzw, scale = place(self._document, index)
        self._mirrored.append((parent >= 0 and self._mirrored[parent]) != _mirrors(scale))
        name = described.name or f"node {index}"
        node = Node(name, parent, p, q_xyzw, scale)
        if index not in self._hidden:
            node = replace(node, light=light_of(self._document, index))
            if described.mesh is not None:
                node = self._shown(node, described, index, element)
        self.nodes.append(node)

    def _shown(self, node: Node, described: GltfNode, index: int, element: str) -> Node:
        """Return a node with its mesh; with instances these get it."""
        assert described.mesh is not None
        skin = None if described.skin is None else self._skins.get(described.skin, element)
        weights = None if described.weights is None else tuple(described.weights)
        joints = 0 if skin is None else len(skin.joints)
        moving = index in self._morphing
        # Joints alone place a skinned mesh.
        use = MeshUse(joints, skin is None and self._mirrored[-1], weights, moving)
        copies = self._instances.of(index)
        if copies is not None:
            self._copy(described.mesh, node.name, replace(use, moving=False), copies, element)
            return node
        parts = self._meshes.primitives(described.mesh, element, use)
        rest = np.zeros(0)
        if moving and parts and parts[0].targets is not None:
            given = self._meshes.weights(described.mesh, use)
            rest = np.array([*given, *[0.0] * (parts[0].targets.shape[1] - len(given))])
        return replace(node, primitives=parts, skin=skin, weights=rest)

    def _copy(
        self, mesh: int, name: str, use: MeshUse, copies: Iterator[Place], element: str
    ) -> None:
        parent = len(self.nodes)
        mirror = use.mirror
        for number, (p, q_xyzw, scale) in enumerate(copies):
            parts = self._meshes.primitives(
                mesh, element, replace(use, mirror=mirror != _mirrors(scale))
            )
            # Static copies become vertices of their own.
            self._document.spend(sum(STATIC_BYTES * len(part.p_m) for part in parts), element)
            self.copies.append(Node(f"{name} {number}", parent, p, q_xyzw, scale, parts))


def _mirrors(scale: FloatArray) -> bool:
    return bool(np.prod(np.sign(scale)) < 0.0)


def _refuse_overflow(document: Document, asset: Asset, order: list[int]) -> None:
    """Refuse products of many scales that overflow."""
    with np.errstate(all="ignore"):
        matrices = asset.asset_from_node()
    wild = ~(np.abs(matrices) < 1e12).all(axis=(1, 2))
    if wild.any():
        first = int(wild.argmax())
        index = first if first < len(order) else asset.nodes[first].parent
        raise document.error(
            label(document, order[index]), "its place in the scene is beyond all bounds"
        )
