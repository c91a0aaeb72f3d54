"""Unit and axes of a COLLADA file, read before anything else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, cast
from xml.parsers import expat

from vil_bridge.core.errors import AssetError

__all__ = ["ColladaHeader", "read_collada_header"]

Up = Literal["x", "y", "z"]


@dataclass(slots=True)
class ColladaHeader:
    """``unit_m``: length of the file's unit; ``up``: which of its axes points up."""

    unit_m: float = 1.0
    up: Up = "y"


def read_collada_header(data: bytes, name: str) -> ColladaHeader:
    """Read the file's own ``asset``; what it leaves out is one metre and y up (COLLADA 1.4.1).

    Also goes through the whole file, so that what follows need not fear its XML.

    Args:
        data: the file.
        name: of the file, for messages.

    Raises:
        AssetError: it is not XML, not COLLADA, declares a document type (which could define entities that
            expand beyond all bounds), or its unit is not a length.
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
                raise AssetError(f"{self._name}: asset/up_axis: {self._text[:40]!r} is none of X_UP, Y_UP, Z_UP")
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
