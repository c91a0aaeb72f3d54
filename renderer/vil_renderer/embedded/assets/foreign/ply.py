"""Header of a PLY file: enough to recognise a mesh, and to trust its counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vil_bridge.core.errors import AssetError

__all__ = ["refuse_unless_mesh"]

_MAX_HEADER_BYTES: Final = 1 << 16
_SPLAT_FIELDS: Final = {"f_dc_0", "opacity", "scale_0", "rot_0"}


@dataclass(slots=True)
class _Element:
    count: int
    fields: set[str]


def refuse_unless_mesh(data: bytes, name: str) -> None:
    """Check a PLY before it is read.

    Args:
        data: the file.
        name: of the file, for messages.

    Raises:
        AssetError: it is not a PLY file, counts more elements than it has bytes, or holds no faces; Gaussian splats
            are named as such.
    """
    elements, header_bytes = _elements(data, name)
    for kind, element in elements.items():
        if not 0 <= element.count <= len(data) - header_bytes:
            room = f"exceed the {len(data) - header_bytes:,} bytes after the header"
            raise AssetError(f"{name}: element {kind}: {element.count:,} of them {room}")
    vertex = elements.get("vertex", _Element(0, set()))
    if elements.get("face", _Element(0, set())).count == 0:
        if vertex.fields >= _SPLAT_FIELDS:
            raise AssetError(f"{name}: holds Gaussian splats, not a mesh: name it as splats, next to a proxy mesh")
        raise AssetError(f"{name}: holds {vertex.count:,} points and no faces: make a mesh of them first")


def _elements(data: bytes, name: str) -> tuple[dict[str, _Element], int]:
    head, end, _ = data[:_MAX_HEADER_BYTES].partition(b"end_header")
    lines = head.decode("latin-1").splitlines()
    if not end or not lines or lines[0].strip() != "ply":
        raise AssetError(f"{name}: PLY header: absent or cut short")
    elements: dict[str, _Element] = {}
    latest: set[str] = set()
    for line in lines[1:]:
        words = line.split()
        if words[:1] == ["element"]:
            if len(words) != 3 or not words[2].isdecimal() or len(words[2]) > 18:
                raise AssetError(f"{name}: PLY header: {line[:80]!r} is not an element")
            latest = set()
            elements[words[1]] = _Element(int(words[2]), latest)
        elif words[:1] == ["property"]:
            latest.add(words[-1])
    return elements, len(head) + len(end) + 1
