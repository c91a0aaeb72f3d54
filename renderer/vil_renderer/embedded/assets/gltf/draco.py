"""Primitives that KHR_draco_mesh_compression packed, unpacked by DracoPy (extra ``draco``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import RendererError
from vil_renderer.embedded.assets.gltf.accessors import COMPONENTS, WIDTHS
from vil_renderer.embedded.assets.gltf.container import Document
from vil_renderer.embedded.assets.gltf.schema import Accessor, Draco, MeshPrimitive
from vil_renderer.embedded.optional_imports import load_native

_HEADER: Final = 11
_METADATA: Final = 0x8000
_MOST_BYTES_PER_VERTEX: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class DracoArrays:
    """Unpacked primitive.

    Attributes:
        document: the file. element: the primitive, for messages.
        corners: of the triangles, uint32 (3 m,). mesh: DracoPy's.
    """

    document: Document
    element: str
    corners: npt.NDArray[np.uint32]
    mesh: Any

    @classmethod
    def of(
        cls, document: Document, described: MeshPrimitive, packed: Draco, element: str
    ) -> DracoArrays:
        """Unpack a primitive.

        Raises:
            AssetError: the stream is broken, or holds more than the accessors say, or DracoPy is
                not installed.
        """
        try:
            decoder = load_native("DracoPy", "dracopy", "meshes packed with Draco", extra="draco")
        except RendererError as exc:
            raise document.error(element, f"{exc}. Or export it without mesh compression") from None
        data = bytes(document.view(packed.buffer_view, element))
        vertices, triangles = _sizes(document, described, element)
        found = _counts(data)
        if found is None:
            raise document.error(
                element,
                "its Draco stream does not begin with a mesh, or holds metadata. Export it again",
            )
        if found[0] > triangles or found[1] > vertices:
            inside = (
                f"{found[1]:,} vertices and {found[0]:,} triangles, more than its accessors say"
            )
            raise document.error(element, f"its Draco stream holds {inside}")
        document.spend(_MOST_BYTES_PER_VERTEX * max(vertices, triangles), element)
        try:
            mesh = decoder.decode(data)
            corners = np.asarray(mesh.faces, np.uint32).reshape(-1)
        # Its errors for broken streams are of many types.
        except Exception as exc:
            raise document.error(element, f"its Draco stream is broken: {str(exc)[:200]}") from None
        return cls(document, element, corners, mesh)

    def attribute(self, number: int, accessor: Accessor, name: str) -> npt.NDArray[Any]:
        """Return an attribute in the type of its accessor, (n, k).

        Raises:
            AssetError: the stream does not hold it, or it does not fit the accessor.
        """
        try:
            found = np.asarray(self.mesh.get_attribute_by_unique_id(number)["data"])
        except (KeyError, TypeError, ValueError):
            raise self.document.error(
                self.element, f"its Draco stream has no attribute {number} ({name})"
            ) from None
        shape = (accessor.count, WIDTHS[accessor.type])
        if found.reshape(len(found), -1).shape != shape:
            raise self.document.error(
                self.element, f"{name}: {found.shape} in its Draco stream, {shape} in its accessor"
            )
        return found.reshape(shape).astype(COMPONENTS[accessor.component_type])


def _sizes(document: Document, described: MeshPrimitive, element: str) -> tuple[int, int]:
    """Return how many vertices and triangles the accessors announce."""
    gltf = document.gltf
    if "POSITION" not in described.attributes or described.indices is None:
        raise document.error(element, "is packed with Draco, but has no POSITION or no indices")
    place = document.item(gltf.accessors, "accessor", described.attributes["POSITION"], element)
    corners = document.item(gltf.accessors, "accessor", described.indices, element)
    return place.count, corners.count if described.mode == 5 else corners.count // 3


def _counts(data: bytes) -> tuple[int, int] | None:
    """Return triangles and vertices that a stream announces, before it is decoded.

    None if it is not a mesh.
    """
    if (
        len(data) < _HEADER + 2
        or data[:5] != b"DRACO"
        or data[7] != 1
        or (data[9] | data[10] << 8) & _METADATA
    ):
        return None
    edgebreaker = data[8] == 1
    first, at = _varint(data, _HEADER + edgebreaker)
    second, _ = _varint(data, at)
    return (second, first) if edgebreaker else (first, second)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of 7 bits to a byte, the lowest first, and the place behind it."""
    value = 0
    for step, byte in enumerate(data[at : at + 5]):
        value |= (byte & 127) << 7 * step
        if byte < 128:
            return value, at + step + 1
    return 1 << 40, at + 5
