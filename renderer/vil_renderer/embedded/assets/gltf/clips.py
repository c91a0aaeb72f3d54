"""Animations of a glTF file."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Literal

import numpy as np

from vil_bridge.core.geometry import q_normalize
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.gltf import schema
from vil_renderer.embedded.assets.gltf.accessors import Accessors
from vil_renderer.embedded.assets.gltf.container import Document
from vil_renderer.embedded.assets.model import Animation, Channel

logger = logging.getLogger(__name__)

Path = Literal["translation", "rotation", "scale", "weights"]
_PATHS: Final[dict[str, tuple[Path, str]]] = {
    "translation": ("translation", "VEC3"),
    "rotation": ("rotation", "VEC4"),
    "scale": ("scale", "VEC3"),
    "weights": ("weights", "SCALAR"),
}
MOST_TARGETS: Final = 64
"""Morph targets of a mesh that animations may move: as many as the shader has weights for."""
_INTERPOLATIONS: Final[dict[str, Literal["linear", "step", "cubic"]]] = {
    "LINEAR": "linear",
    "STEP": "step",
    "CUBICSPLINE": "cubic",
}


def morphing_nodes(document: Document) -> set[int]:
    """Return the nodes whose morph weights an animation moves, by their index in the file."""
    return {
        channel.target.node
        for animation in document.gltf.animations
        for channel in animation.channels
        if channel.target.path == "weights" and channel.target.node is not None
    }


def read_animations(
    document: Document, accessors: Accessors, positions: Mapping[int, int]
) -> dict[str, Animation]:
    """Return clips by name.

    A nameless one is called by its number, a repeated name gets its number appended.

    Args:
        document: the file.
        accessors: its arrays.
        positions: of the nodes that are read, by their index in the file; channels of others are
            left out.

    Raises:
        AssetError: times or values do not exist, do not fit each other, or times decrease.
    """
    clips: dict[str, Animation] = {}
    for number, described in enumerate(document.gltf.animations):
        reader = _Clip(document, accessors, described, f"animation {number}")
        name = described.name or f"animation {number}"
        name = f"{name} ({number})" if name in clips else name
        clips[name] = Animation(name, tuple(reader.channels(positions)))
    return clips


class _Clip:
    def __init__(
        self,
        document: Document,
        accessors: Accessors,
        described: schema.GltfAnimation,
        element: str,
    ) -> None:
        self._document = document
        self._accessors = accessors
        self._described = described
        self._me = element
        self._times: dict[int, FloatArray] = {}

    def channels(self, positions: Mapping[int, int]) -> list[Channel]:
        left_out: set[str] = set()
        made: list[Channel] = []
        for number, channel in enumerate(self._described.channels):
            target = channel.target
            if target.path not in _PATHS:
                left_out.add(target.path[:40])
                continue
            if target.node is None:
                continue
            element = f"{self._me} channel {number}"
            self._document.item(self._document.gltf.nodes, "node", target.node, element)
            if target.path == "weights" and not self._targets(target.node, element):
                left_out.add("weights without morph targets")
            elif target.node in positions:
                made.append(self._channel(channel, positions[target.node], element))
        if left_out:
            paths = ", ".join(sorted(left_out))
            logger.warning(
                "%s: %s: channels of %s are left out", self._document.name, self._me, paths
            )
        return made

    def _channel(self, described: schema.AnimationChannel, node: int, element: str) -> Channel:
        path, kind = _PATHS[described.target.path]
        sampler = self._document.item(
            self._described.samplers, "sampler", described.sampler, element
        )
        times = self._key_times(sampler.input, element)
        values = self._accessors.floats(sampler.output, f"{element} values", kind).astype(
            np.float64
        )
        cubic = sampler.interpolation == "CUBICSPLINE"
        if path == "weights":
            values = values.reshape(-1, max(self._targets(described.target.node, element), 1))
        if len(values) != len(times) * (3 if cubic else 1):
            raise self._document.error(
                element, f"{len(values):,} values do not fit {len(times):,} times"
            )
        if path == "rotation" and not cubic:
            values = q_normalize(values)
        if cubic:
            values = values.reshape(len(times), 3, -1)
        return Channel(node, path, _INTERPOLATIONS[sampler.interpolation], times, values)

    def _targets(self, node: int | None, element: str) -> int:
        """Return the number of a node's morph targets."""
        gltf = self._document.gltf
        if node is None:
            return 0
        mesh = gltf.nodes[node].mesh
        if mesh is None:
            return 0
        parts = self._document.item(gltf.meshes, "mesh", mesh, element).primitives
        return len(parts[0].targets) if parts else 0

    def _key_times(self, index: int, element: str) -> FloatArray:
        """Return one array for all channels that share it, so that sampling can see that they
        do.
        """
        if index not in self._times:
            times = self._accessors.floats(index, f"{element} times", "SCALAR")[:, 0].astype(
                np.float64
            )
            if times[0] < 0.0 or (np.diff(times) < 0.0).any():
                raise self._document.error(
                    f"accessor {index}", f"({element} times) is negative or decreases"
                )
            self._times[index] = times
        return self._times[index]
