"""The hierarchy of a glTF file: which nodes, in what order, where."""

from __future__ import annotations

import logging

import numpy as np

from vil_bridge.core.geometry import q_from_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.gltf.container import Document
from vil_renderer.embedded.assets.model import PunctualLight

logger = logging.getLogger(__name__)

MAX_DEPTH = 512


def scene_order(document: Document) -> tuple[list[int], list[int]]:
    """Return the default scene's nodes, parents first.

    Indices in the file, and positions of their parents.

    The default scene is the one that the file names, else its first, else all roots. A root's
    parent is -1.

    Raises:
        AssetError: a node has two parents, is its own ancestor, is nested too deeply, or does not
            exist.
    """
    nodes = document.gltf.nodes
    parents = _parents(document)
    _refuse_cycles(document, parents)
    order: list[int] = []
    above: list[int] = []
    # Not recursive: the depth is the file's choice. A node, its parent's position, its depth.
    waiting = [(root, -1, 1) for root in reversed(_roots(document, parents))]
    while waiting:
        index, parent, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise document.error(label(document, index), f"is nested deeper than {MAX_DEPTH} nodes")
        position = len(order)
        order.append(index)
        above.append(parent)
        waiting += ((child, position, depth + 1) for child in reversed(nodes[index].children))
    return order, above


def label(document: Document, index: int) -> str:
    """Return the name of a node for messages."""
    name = document.gltf.nodes[index].name
    return f"node {index} ({name[:60]})" if name else f"node {index}"


def place(document: Document, index: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return translation, rotation (x, y, z, w) and scale of a node.

    Raises:
        AssetError: its matrix shears or flattens, or its rotation is not one.
    """
    node = document.gltf.nodes[index]
    if node.matrix is not None:
        found = decompose(np.array(node.matrix).reshape(4, 4).T)
        if found is None:
            raise document.error(
                label(document, index), "its matrix shears or flattens: apply it to the mesh"
            )
        return found
    q = np.array(node.rotation)
    length = np.linalg.norm(q)
    if not length > 1e-6:
        raise document.error(label(document, index), f"rotation {node.rotation} has no length")
    return np.array(node.translation), q / length, np.array(node.scale)


def decompose(matrix: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Return translation, rotation and scale of a matrix (4, 4), a mirror as negative scale.

    None if impossible.
    """
    linear = matrix[:3, :3]
    scale = np.linalg.norm(linear, axis=0)
    if not scale.min() > 1e-9 or np.abs(matrix[3] - (0.0, 0.0, 0.0, 1.0)).max() > 1e-6:
        return None
    if np.linalg.det(linear / scale) < 0.0:
        scale[0] = -scale[0]
    rotation = linear / scale
    if np.abs(rotation.T @ rotation - np.eye(3)).max() > 1e-3:
        return None
    return matrix[:3, 3].copy(), q_from_matrix(rotation), scale


def hidden_nodes(document: Document) -> set[int]:
    """Return the nodes that KHR_node_visibility hides: those it names and all below them."""
    nodes = document.gltf.nodes
    hidden = [index for index, node in enumerate(nodes) if not node.extensions.visibility.visible]
    found = set(hidden)
    for index in hidden:
        fresh = set(nodes[index].children) - found
        found |= fresh
        hidden += fresh
    return found


def light_of(document: Document, index: int) -> PunctualLight | None:
    """Return the light that a node carries.

    Raises:
        AssetError: it does not exist.
    """
    use = document.gltf.nodes[index].extensions.lights
    if use is None:
        return None
    light = document.item(
        document.gltf.extensions.lights.lights, "light", use.light, label(document, index)
    )
    cone_rad = (light.spot.inner_cone_angle, light.spot.outer_cone_angle)
    return PunctualLight(
        light.type, light.color, light.intensity, light.range, cone_rad, light.name
    )


def _parents(document: Document) -> list[int]:
    nodes = document.gltf.nodes
    parents = [-1] * len(nodes)
    for index, node in enumerate(nodes):
        for child in node.children:
            document.item(nodes, "node", child, label(document, index))
            if parents[child] >= 0:
                both = f"nodes {parents[child]} and {index}"
                raise document.error(label(document, child), f"has two parents, {both}")
            parents[child] = index
    return parents


def _refuse_cycles(document: Document, parents: list[int]) -> None:
    """Refuse nodes that hang below no root; with one parent each, they form a circle."""
    reached = [index for index, parent in enumerate(parents) if parent < 0]
    for index in reached:
        reached += document.gltf.nodes[index].children
    if len(reached) < len(parents):
        lost = min(set(range(len(parents))) - set(reached))
        raise document.error(
            label(document, lost), "is its own ancestor or hangs below such a node"
        )


def _roots(document: Document, parents: list[int]) -> list[int]:
    scenes = document.gltf.scenes
    if not scenes:
        return [index for index, parent in enumerate(parents) if parent < 0]
    chosen = document.gltf.scene or 0
    listed = document.item(scenes, "scene", chosen, "scene").nodes
    for node in listed:
        document.item(document.gltf.nodes, "node", node, f"scene {chosen}")
    if len(set(listed)) < len(listed):
        raise document.error(f"scene {chosen}", "lists a node twice")
    return [
        node for node in listed if not _hangs_below(document, node, set(listed), parents, chosen)
    ]


def _hangs_below(
    document: Document, node: int, listed: set[int], parents: list[int], scene: int
) -> bool:
    """Return True when an ancestor is listed too, and brings the node.

    Warn of any that is not a root.
    """
    above = parents[node]
    if above < 0:
        return False
    while above >= 0 and above not in listed:
        above = parents[above]
    what = "its place below its parent is taken" if above >= 0 else "it is taken for a root"
    logger.warning(
        "%s: scene %d lists %s, which is not a root: %s",
        document.name,
        scene,
        label(document, node),
        what,
    )
    return above >= 0
