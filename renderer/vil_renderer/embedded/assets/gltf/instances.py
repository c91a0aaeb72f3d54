"""Copies of a node's mesh: EXT_mesh_gpu_instancing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.gltf.accessors import Accessors
from vil_renderer.embedded.assets.gltf.container import Document
from vil_renderer.embedded.assets.gltf.nodes import label

logger = logging.getLogger(__name__)

MOST_INSTANCES: Final = 65_536
"""Copies in one file."""
_DEFAULTS: Final = {
    "TRANSLATION": ("VEC3", (0.0, 0.0, 0.0)),
    "ROTATION": ("VEC4", (0.0, 0.0, 0.0, 1.0)),
    "SCALE": ("VEC3", (1.0, 1.0, 1.0)),
}

Place = tuple[FloatArray, FloatArray, FloatArray]
"""Translation (3,), rotation (4,) and scale (3,)."""


class MeshInstances:
    """Copies of the meshes of a file's nodes.

    Args:
        document: the file.
        accessors: its arrays.
    """

    def __init__(self, document: Document, accessors: Accessors) -> None:
        self._document = document
        self._accessors = accessors
        self._left = MOST_INSTANCES

    def of(self, index: int) -> Iterator[Place] | None:
        """Return the places of a node's copies in its axes; None if it has no instances.

        Raises:
            AssetError: an accessor does not exist or does not fit the others, a rotation has no
                length, the node has a skin, or the file has too many copies.
        """
        node = self._document.gltf.nodes[index]
        element = label(self._document, index)
        if node.extensions.instancing is None or node.mesh is None:
            return None
        if node.skin is not None:
            raise self._document.error(
                element, "has instances and a skin. Export the instances as nodes"
            )
        attributes = node.extensions.instancing.attributes
        own = sorted(set(attributes) - set(_DEFAULTS))
        if own:
            names = ", ".join(name[:40] for name in own)
            logger.warning(
                "%s: %s: attributes %s of its instances are left out",
                self._document.name,
                element,
                names,
            )
        arrays = {
            name: self._accessors.floats(
                attributes[name], f"{element} {name} of instances", kind
            ).astype(np.float64)
            for name, (kind, _) in _DEFAULTS.items()
            if name in attributes
        }
        lengths = {name: len(array) for name, array in arrays.items()}
        if not lengths or len(set(lengths.values())) > 1:
            raise self._document.error(
                element, f"attributes of its instances differ in length or are absent: {lengths}"
            )
        return self._places(arrays, next(iter(lengths.values())), element)

    def _places(self, arrays: dict[str, FloatArray], count: int, element: str) -> Iterator[Place]:
        self._left -= count
        if self._left < 0:
            raise self._document.error(
                element, f"the file has more than {MOST_INSTANCES:,} instances: divide it"
            )
        p, q, scale = (
            arrays[name] if name in arrays else np.tile(default, (count, 1))
            for name, (_, default) in _DEFAULTS.items()
        )
        length = np.linalg.norm(q, axis=1, keepdims=True)
        if not (length > 1e-6).all():
            raise self._document.error(element, "a rotation of its instances has no length")
        return zip(p, q / length, scale, strict=True)
