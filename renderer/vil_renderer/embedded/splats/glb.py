"""Splats in glTF, KHR_gaussian_splatting.

Every attribute an accessor, every primitive placed by its node.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from vil_bridge.core.errors import AssetError
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.gltf.accessors import Accessors
from vil_renderer.embedded.assets.gltf.container import Document, open_document
from vil_renderer.embedded.assets.gltf.extensions import check_claims
from vil_renderer.embedded.assets.gltf.nodes import place, scene_order
from vil_renderer.embedded.assets.gltf.schema import MeshPrimitive
from vil_renderer.embedded.splats.cloud import (
    Float32,
    SplatCloud,
    StoredSplats,
    check_count,
    cloud_of,
    float32,
    matrices,
)
from vil_renderer.embedded.splats.harmonics import turned_harmonics

logger = logging.getLogger(__name__)

_EXTENSION: Final = "KHR_gaussian_splatting"
_DEGREES: Final = 4


def read_glb(path: Path) -> SplatCloud:
    """Read a GLB or .gltf with Gaussian splats, in the axes of the file's scene: y up, metres.

    Raises:
        AssetError: it cannot be read, holds no such splats, is compressed, or holds values that
            mean nothing.
    """
    document = open_document(path)
    check_claims(document, frozenset({_EXTENSION}))
    accessors = Accessors(document)
    found = list(_primitives(document))
    if not found:
        raise document.error(
            "meshes", f"no primitive has {_EXTENSION}. Name a file with Gaussian splats here"
        )
    counts = [_count(document, primitive, label) for primitive, label, _ in found]
    check_count(sum(counts), document.name)
    name = document.name
    parts = [
        _placed(_cloud(accessors, primitive, label), m, f"{name}: {label}")
        for primitive, label, m in found
    ]
    terms = max(part.sh.shape[1] for part in parts)
    sh = [np.pad(part.sh, ((0, 0), (0, terms - part.sh.shape[1]), (0, 0))) for part in parts]
    return SplatCloud(
        np.concatenate([part.p for part in parts]),
        np.concatenate([part.axes for part in parts]),
        np.concatenate([part.opacity for part in parts]),
        np.concatenate(sh),
    )


def _primitives(document: Document) -> Iterator[tuple[MeshPrimitive, str, FloatArray]]:
    """Yield primitives with splats, their names for messages, and their matrices in the scene."""
    order, parents = scene_order(document)
    worlds: list[FloatArray] = []
    for index, parent in zip(order, parents, strict=True):
        t, q_xyzw, scale = place(document, index)
        m = np.eye(4)
        m[:3, :3] = matrices(np.roll(q_xyzw, 1)[None])[0] * scale
        m[:3, 3] = t
        worlds.append(m if parent < 0 else worlds[parent] @ m)
        mesh = document.gltf.nodes[index].mesh
        if mesh is None:
            continue
        primitives = document.item(document.gltf.meshes, "mesh", mesh, f"node {index}").primitives
        for number, primitive in enumerate(primitives):
            if primitive.extensions.splats is not None:
                yield primitive, f"mesh {mesh} primitive {number}", worlds[-1]


def _count(document: Document, primitive: MeshPrimitive, label: str) -> int:
    """Check what a primitive says of its splats, and return their number."""
    splats = primitive.extensions.splats
    assert splats is not None
    if splats.extensions:
        named = ", ".join(sorted(splats.extensions))[:120]
        raise document.error(
            label, f"is compressed by {named}. Export it without compression, or as .spz"
        )
    for key, value, wanted in (
        ("kernel", splats.kernel, "ellipse"),
        ("colorSpace", splats.color_space, "srgb_rec709_display"),
    ):
        if value != wanted:
            raise document.error(
                label, f"{key} {value[:40]!r} is not rendered. Export it with {wanted!r}"
            )
    positions = _accessor(document, primitive, "POSITION", label)
    return document.item(document.gltf.accessors, "accessor", positions, label).count


def _accessor(document: Document, primitive: MeshPrimitive, attribute: str, label: str) -> int:
    if attribute not in primitive.attributes:
        raise document.error(label, f"has no attribute {attribute}. Export the splats again")
    return primitive.attributes[attribute]


def _cloud(accessors: Accessors, primitive: MeshPrimitive, label: str) -> SplatCloud:
    """Return splats in the axes of their node."""
    document = accessors.document
    count = _count(document, primitive, label)

    def values(attribute: str, form: str) -> Float32:
        index = _accessor(document, primitive, attribute, label)
        found = accessors.floats(index, f"{label} {attribute}", form)
        if len(found) != count:
            raise document.error(
                label, f"{len(found):,} values of {attribute} for {count:,} splats. Export it again"
            )
        return found

    opacity = values(f"{_EXTENSION}:OPACITY", "SCALAR")[:, 0]
    if ((opacity < 0.0) | (opacity > 1.0)).any():
        raise document.error(label, "OPACITY is not within 0..1. Export the splats again")
    sh = [values(name, "VEC3") for name in _harmonics(document, primitive, label)]
    stored = StoredSplats(
        values("POSITION", "VEC3"),
        _log_scale(values(f"{_EXTENSION}:SCALE", "VEC3"), f"{document.name}: {label}"),
        np.roll(values(f"{_EXTENSION}:ROTATION", "VEC4"), 1, axis=1),
        opacity,
        np.stack(sh, axis=1),
    )
    return cloud_of(stored, f"{document.name}: {label}")


def _harmonics(document: Document, primitive: MeshPrimitive, label: str) -> list[str]:
    """Return the attributes of spherical harmonics, by degree and order."""
    names: list[str] = []
    for degree in range(_DEGREES):
        some = [f"{_EXTENSION}:SH_DEGREE_{degree}_COEF_{n}" for n in range(2 * degree + 1)]
        held = [name for name in some if name in primitive.attributes]
        if not held and degree:
            break
        for name in some:
            _accessor(document, primitive, name, label)
        names += some
    return names


def _log_scale(scale: Float32, label: str) -> Float32:
    """Return logarithms of linear scales; a negative one marks a writer that stored logarithms."""
    if (scale < 0.0).any():
        logger.warning(
            "%s: SCALE holds logarithms, as splat-transform 1.10 writes them; they are "
            "taken as such",
            label,
        )
        return scale
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(scale), np.float32(-50.0))


def _placed(cloud: SplatCloud, m: FloatArray, label: str) -> SplatCloud:
    """Return splats moved by their node: Sigma = M C C^T M^T, harmonics turned.

    Raises:
        AssetError: the node mirrors or flattens them.
    """
    if np.array_equal(m, np.eye(4)):
        return cloud
    scale = np.linalg.norm(m[:3, :3], axis=0)
    if not scale.min() > 1e-9 or np.linalg.det(m[:3, :3]) <= 0.0:
        raise AssetError(
            f"{label}: its node mirrors or flattens splats. Apply its scale before the export"
        )
    p = cloud.p @ float32(m[:3, :3].T) + float32(m[:3, 3])
    axes = float32(m[:3, :3]) @ cloud.axes
    return SplatCloud(p, axes, cloud.opacity, turned_harmonics(cloud.sh, m[:3, :3] / scale))
