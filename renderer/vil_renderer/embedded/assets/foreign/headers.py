"""Headers of COLLADA and PLY files, read and checked before trimesh reads the whole file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, cast
from xml.parsers import expat

from vil_bridge.core.errors import AssetError

Up = Literal["x", "y", "z"]


@dataclass(slots=True)
class ColladaHeader:
    """``unit_m``: length of the file's unit; ``up``: which of its axes points up."""

    unit_m: float = 1.0
    up: Up = "y"


def read_collada_header(data: bytes, name: str) -> ColladaHeader:
    """Read the file's own ``asset``; the defaults are one metre and y up (COLLADA 1.4.1).

    Also parses the whole file, so that later steps can trust its XML.

    Args:
        data: the file.
        name: of the file, for messages.

    Raises:
        AssetError: it is not XML, not COLLADA, declares a document type (which could define
            entities that expand beyond all bounds), or its unit is not a length.
    """
    reader = _Reader(name)
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = reader.doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as exc:
        raise AssetError(f"{name}: XML: {exc}") from None
    return reader.header


class _Reader:
    def __init__(self, name: str) -> None:
        self.header = ColladaHeader()
        self._name = name
        self._path: list[str] = []
        self._text = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._path.append(tag.rpartition(":")[2])
        self._text = ""
        if self._path[0] != "COLLADA":
            raise AssetError(f"{self._name}: {tag[:40]}: no COLLADA")
        if self._path[1:] == ["asset", "unit"]:
            self.header.unit_m = self._length(attributes.get("meter", "1"))

    def end(self, _tag: str) -> None:
        if self._path[1:] == ["asset", "up_axis"]:
            up = self._text.strip()[:1].lower()
            if up not in ("x", "y", "z"):
                raise AssetError(
                    f"{self._name}: asset/up_axis: {self._text[:40]!r} is none of X_UP, Y_UP, Z_UP"
                )
            self.header.up = cast(Up, up)
        self._path.pop()

    def text(self, text: str) -> None:
        if self._path[-1] == "up_axis" and len(self._text) < 100:
            self._text += text

    def doctype(self, *_: object) -> None:
        raise AssetError(f"{self._name}: XML: document types are not read, remove the DOCTYPE line")

    def _length(self, text: str) -> float:
        try:
            unit_m = float(text)
        except ValueError:
            unit_m = math.nan
        if not 0.0 < unit_m < 1e9:
            raise AssetError(f"{self._name}: asset/unit: meter={text[:40]!r} is not a length")
        return unit_m


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
        AssetError: it is not a PLY file, counts more elements than it has bytes, or holds no faces;
            Gaussian splats are named as such.
    """
    elements, header_bytes = _elements(data, name)
    for kind, element in elements.items():
        if not 0 <= element.count <= len(data) - header_bytes:
            room = f"exceed the {len(data) - header_bytes:,} bytes after the header"
            raise AssetError(f"{name}: element {kind}: {element.count:,} of them {room}")
    vertex = elements.get("vertex", _Element(0, set()))
    if elements.get("face", _Element(0, set())).count == 0:
        if vertex.fields >= _SPLAT_FIELDS:
            raise AssetError(
                f"{name}: holds Gaussian splats, not a mesh: name it as splats, next to a "
                "proxy mesh"
            )
        raise AssetError(
            f"{name}: holds {vertex.count:,} points and no faces: make a mesh of them first"
        )


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
