"""Primitives of glTF meshes: attributes, topology, and generated normals and tangents."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_renderer.embedded.assets.gltf import schema
from vil_renderer.embedded.assets.gltf.accessors import Accessors
from vil_renderer.embedded.assets.gltf.clips import MOST_TARGETS
from vil_renderer.embedded.assets.gltf.container import Document
from vil_renderer.embedded.assets.gltf.draco import DracoArrays
from vil_renderer.embedded.assets.gltf.materials import Materials
from vil_renderer.embedded.assets.gltf.surface import faceted, repaired_normals, tangents
from vil_renderer.embedded.assets.model import Material, Primitive, uses_of

logger = logging.getLogger(__name__)

_TRIANGLES: Final = 4
_STRIP: Final = 5
_MODES: Final = ("POINTS", "LINES", "LINE_LOOP", "LINE_STRIP")
_SLOTS: Final = 4
_BYTES_PER_VERTEX: Final = 80
"""Approximate memory of a vertex with all its arrays."""
STATIC_BYTES: Final = 44
"""The same of a vertex of a static object, when it is drawn."""

Array = npt.NDArray[Any]
UintArray = npt.NDArray[np.uint32]
Weights = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MeshUse:
    """Way in which a node shows a mesh.

    Attributes:
        joints: of the node's skin, 0 without one. mirror: the node's place in the scene is
            mirrored.
        weights: of the morph targets, as the node says; None = as the mesh says.
        moving: an animation moves the weights.
    """

    joints: int = 0
    mirror: bool = False
    weights: Weights | None = None
    moving: bool = False


@dataclass(slots=True)
class Meshes:
    """Meshes of a file, each read at most once per way of use."""

    document: Document
    accessors: Accessors
    materials: Materials
    _made: dict[tuple[int, MeshUse], tuple[Primitive, ...]] = field(default_factory=dict)
    _draco: dict[int, DracoArrays] = field(default_factory=dict)

    def primitives(self, index: int, user: str, use: MeshUse) -> tuple[Primitive, ...]:
        """Return the triangles of a mesh.

        Args:
            index: of the mesh.
            user: the node that shows it.
            use: how the node shows it.

        Raises:
            AssetError: an index is out of range, attributes differ in length or are absent, joints
                do not exist.
        """
        key = (index, use)
        if key not in self._made:
            mesh = self.document.item(self.document.gltf.meshes, "mesh", index, user)
            rest = self.weights(index, use)
            if use.moving and len({len(primitive.targets) for primitive in mesh.primitives}) > 1:
                raise self.document.error(
                    f"mesh {index}", "its primitives differ in the number of their morph targets"
                )
            parts = []
            for i, described in enumerate(mesh.primitives):
                part = self._primitive(described, f"mesh {index} primitive {i}", use, rest)
                if part is None:
                    continue
                if use.mirror:
                    part = mirrored(part)
                parts.append(part)
            self._made[key] = tuple(parts)
        return self._made[key]

    def weights(self, index: int, use: MeshUse) -> Weights:
        """Return the weights of a mesh's morph targets at rest.

        As the node says, else as the mesh does.
        """
        if use.weights is None:
            return tuple(self.document.gltf.meshes[index].weights)
        return use.weights

    def _primitive(
        self, described: schema.MeshPrimitive, element: str, use: MeshUse, weights: Weights
    ) -> Primitive | None:
        if described.mode < _TRIANGLES:
            logger.warning(
                "%s: %s: left out, %s are not drawn",
                self.document.name,
                element,
                _MODES[described.mode],
            )
            return None
        arrays = self._attributes(described, element)
        targets = self._targets(described, element, len(arrays["p_m"])) if use.moving else None
        self._morph(arrays, described, element, weights)
        triangles = self._triangles(described, element, len(arrays["p_m"]))
        if len(triangles) == 0:
            return None
        self.document.spend(
            _BYTES_PER_VERTEX * max(len(arrays["p_m"]), 3 * len(triangles)), element
        )
        if targets is not None:
            arrays["targets"] = targets
        if use.joints:
            arrays |= self._skinning(described, element, use.joints, len(arrays["p_m"]))
        if "normal" in arrays:
            if targets is not None:
                # Offsets of normals whose length at rest becomes 1.
                length = np.linalg.norm(arrays["normal"], axis=1)[:, None, None]
                targets[:, :, 1] /= np.where(length > 1e-6, length, 1.0)
            arrays["normal"] = repaired_normals(arrays["normal"], arrays["p_m"], triangles)
        else:
            if targets is not None:
                said = "has no NORMAL: it is lit as at rest while it morphs"
                logger.warning("%s: %s: %s", self.document.name, element, said)
            arrays, triangles = faceted(arrays, triangles)
        if "uv" not in arrays:
            arrays["uv"] = np.zeros((len(arrays["p_m"]), 2), np.float32)
        material = self.materials.get(described.material, element)
        self._check_coordinates(material, arrays, element)
        return with_tangents(Primitive(triangles=triangles, material=material, **arrays))

    def _check_coordinates(
        self, material: Material, arrays: dict[str, Array], element: str
    ) -> None:
        """Warn if a texture reads coordinates that are not there."""
        if "uv1" not in arrays and any(use.uv_set == 1 for use in uses_of(material).values()):
            said = "has no TEXCOORD_1, which its material reads: TEXCOORD_0 is taken"
            logger.warning("%s: %s: %s", self.document.name, element, said)

    def _targets(
        self, described: schema.MeshPrimitive, element: str, vertices: int
    ) -> npt.NDArray[np.float32]:
        """Return the offsets of place and normal of all morph targets, (n, t, 2, 3)."""
        count = len(described.targets)
        if count > MOST_TARGETS:
            many = (
                f"has {count} morph targets that an animation moves; {MOST_TARGETS} are "
                "drawn. Leave out some"
            )
            raise self.document.error(element, many)
        self.document.spend(24 * vertices * count, element)
        made = np.zeros((vertices, count, 2, 3), np.float32)
        for k, target in enumerate(described.targets):
            for place, name in enumerate(("POSITION", "NORMAL")):
                if name in target:
                    made[:, k, place] = self._offsets(
                        target[name], f"{element} target {k} {name}", vertices, element
                    )
        return made

    def _offsets(
        self, index: int, user: str, vertices: int, element: str
    ) -> npt.NDArray[np.float32]:
        offsets = self.accessors.floats(index, user, "VEC3")
        self._same_length(
            {"POSITION": vertices, user.removeprefix(f"{element} "): len(offsets)}, element
        )
        return offsets

    def _attributes(self, described: schema.MeshPrimitive, element: str) -> dict[str, Array]:
        """Return arrays of one length by the names that :class:`Primitive` gives them."""
        found: dict[str, Array] = {}
        for name, field_name, types in (
            ("POSITION", "p_m", ("VEC3",)),
            ("NORMAL", "normal", ("VEC3",)),
            ("TANGENT", "tangent", ("VEC4",)),
            ("TEXCOORD_0", "uv", ("VEC2",)),
            ("TEXCOORD_1", "uv1", ("VEC2",)),
            ("COLOR_0", "colour", ("VEC3", "VEC4")),
        ):
            values = self._attribute(described, name, element, *types)
            if values is not None:
                found[field_name] = values
        if "p_m" not in found:
            raise self.document.error(element, "has no POSITION")
        # Tangents mean nothing without the normals they were made for.
        if "normal" not in found:
            found.pop("tangent", None)
        if "colour" in found:
            found["colour"] = _colour(found["colour"])
        self._same_length({name: len(array) for name, array in found.items()}, element)
        return found

    def _attribute(
        self,
        described: schema.MeshPrimitive,
        name: str,
        element: str,
        *types: str,
        raw: bool = False,
    ) -> Array | None:
        """Return an attribute, (n, k), unpacked if the primitive is compressed.

        None if there is none of that name.
        """
        index = described.attributes.get(name)
        if index is None:
            return None
        packed = described.extensions.draco
        if packed is not None and name in packed.attributes:
            accessor = self.accessors.checked(index, f"{element} {name}", *types)
            found = self._unpacked(described, packed, element).attribute(
                packed.attributes[name], accessor, name
            )
            if raw:
                return found
            return self.accessors.scaled(found, accessor, index, f"{element} {name}")
        read = self.accessors.integers if raw else self.accessors.floats
        return read(index, f"{element} {name}", *types)

    def _unpacked(
        self, described: schema.MeshPrimitive, packed: schema.Draco, element: str
    ) -> DracoArrays:
        if packed.buffer_view not in self._draco:
            self._draco[packed.buffer_view] = DracoArrays.of(
                self.document, described, packed, element
            )
        return self._draco[packed.buffer_view]

    def _morph(
        self,
        arrays: dict[str, Array],
        described: schema.MeshPrimitive,
        element: str,
        weights: Weights,
    ) -> None:
        """Add the morph targets at rest to places, normals and tangents."""
        if len(weights) > len(described.targets):
            raise self.document.error(
                element, f"has {len(described.targets)} morph targets, but {len(weights)} weights"
            )
        for k, weight in enumerate(weights):
            for name, field_name in (
                ("POSITION", "p_m"),
                ("NORMAL", "normal"),
                ("TANGENT", "tangent"),
            ):
                index = described.targets[k].get(name)
                if not weight or index is None or field_name not in arrays:
                    continue
                offsets = self._offsets(
                    index, f"{element} target {k} {name}", len(arrays["p_m"]), element
                )
                arrays[field_name] = arrays[field_name].copy()
                arrays[field_name][:, :3] += np.float32(weight) * offsets

    def _same_length(self, lengths: dict[str, int], element: str) -> None:
        if len(set(lengths.values())) > 1:
            raise self.document.error(element, f"attributes differ in length: {lengths}")

    def _triangles(self, described: schema.MeshPrimitive, element: str, vertices: int) -> UintArray:
        if described.extensions.draco is not None:
            corners = self._unpacked(described, described.extensions.draco, element).corners
            if corners.max(initial=0) >= vertices:
                raise self.document.error(
                    element, "its compressed triangles refer to vertices that are not there"
                )
            return _topology(corners, _TRIANGLES)
        if described.indices is None:
            return _topology(np.arange(vertices, dtype=np.uint32), described.mode)
        indices = self.accessors.integers(described.indices, f"{element} indices", "SCALAR")
        if indices.dtype.kind != "u":
            raise self.document.error(
                f"accessor {described.indices}", f"({element} indices) holds no unsigned integers"
            )
        if indices.max() >= vertices:
            beyond = (
                f"({element} indices) refers to vertex {indices.max():,}, but there are "
                f"{vertices:,}"
            )
            raise self.document.error(f"accessor {described.indices}", beyond)
        return _topology(indices[:, 0].astype(np.uint32), described.mode)

    def _skinning(
        self, described: schema.MeshPrimitive, element: str, joints: int, vertices: int
    ) -> dict[str, Array]:
        """Return joints and weights, the best four of eight."""
        joint_sets: list[Array] = []
        weight_sets: list[Array] = []
        for which in range(2):
            names = (f"JOINTS_{which}", f"WEIGHTS_{which}")
            of_joints = self._attribute(described, names[0], element, "VEC4", raw=True)
            of_weights = self._attribute(described, names[1], element, "VEC4")
            if of_joints is None or of_weights is None:
                break
            joint_sets.append(of_joints)
            weight_sets.append(of_weights)
        if not joint_sets:
            raise self.document.error(
                element, "has no JOINTS_0 and WEIGHTS_0, but a node shows it with a skin"
            )
        for which, (of_joint, of_weight) in enumerate(zip(joint_sets, weight_sets, strict=True)):
            lengths = {
                f"JOINTS_{which}": len(of_joint),
                f"WEIGHTS_{which}": len(of_weight),
                "POSITION": vertices,
            }
            self._same_length(lengths, element)
        joint = np.concatenate(joint_sets, axis=1)
        if joint.dtype.kind != "u":
            raise self.document.error(element, "JOINTS_0 holds no unsigned integers")
        weight = np.concatenate(weight_sets, axis=1).clip(0.0)
        joint = np.where(weight > 0.0, joint, 0)
        if joint.max() >= joints:
            raise self.document.error(
                element, f"refers to joint {joint.max()}, but the skin has {joints}"
            )
        return _best_four(joint, weight)


def mirrored(part: Primitive) -> Primitive:
    """Return a primitive for a mirroring transform.

    counter-clockwise again once that is applied.
    """
    tangent = None if part.tangent is None else part.tangent * np.array([1, 1, 1, -1], np.float32)
    return replace(part, triangles=part.triangles[:, ::-1].copy(), tangent=tangent)


def with_tangents(part: Primitive) -> Primitive:
    """Add tangents for a normal map that lacks them; drop tangents without a normal map."""
    use = part.material.normal
    if use is None:
        return replace(part, tangent=None)
    if part.tangent is not None:
        return part
    uv = part.uv if use.uv_set == 0 or part.uv1 is None else part.uv1
    return replace(
        part, tangent=tangents(part.p_m, part.normal, uv @ use.transform[:, :2].T, part.triangles)
    )


def _topology(indices: UintArray, mode: int) -> UintArray:
    """Return triangles (m, 3) of a list, strip or fan."""
    if mode == _TRIANGLES:
        return indices[: len(indices) // 3 * 3].reshape(-1, 3)
    count = max(len(indices) - 2, 0)
    first = np.arange(count)
    if mode == _STRIP:
        odd = first % 2
        corners = np.stack((first, first + 1 + odd, first + 2 - odd), axis=1)
    else:
        corners = np.stack((first + 1, first + 2, np.zeros_like(first)), axis=1)
    triangles: UintArray = indices[corners]
    a, b, c = triangles.T
    # Strips repeat vertices to jump: triangles without area.
    return np.compress((a != b) & (b != c) & (c != a), triangles, axis=0)


def _colour(factor: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Return linear colours 0..1, three or four of them, as bytes (n, 4)."""
    colour = np.full((len(factor), 4), 255, np.uint8)
    colour[:, : factor.shape[1]] = np.rint(factor.clip(0.0, 1.0) * 255.0)
    return colour


def _best_four(joint: Array, weight: npt.NDArray[np.float32]) -> dict[str, Array]:
    """Return the four largest weights of each vertex, their sum 1.

    A vertex without any follows the first joint.
    """
    if weight.shape[1] > _SLOTS:
        best = np.argsort(-weight, axis=1, kind="stable")[:, :_SLOTS]
        joint = np.take_along_axis(joint, best, axis=1)
        weight = np.take_along_axis(weight, best, axis=1)
    total = weight.sum(axis=1, keepdims=True)
    weight = np.where(
        total > 0.0, weight / np.where(total > 0.0, total, 1.0), np.eye(4, dtype=np.float32)[0]
    )
    return {"joints": joint.astype(np.uint16), "weights": weight.astype(np.float32)}
