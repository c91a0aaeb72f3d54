"""QTM's parameters: which bodies and skeletons a server streams, as XML, both ways.

Pure functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree as ET

from vil_bridge.core.errors import ProtocolError

_LIMIT_BYTES: Final = 4 << 20
_DEEPEST: Final = 200


@dataclass(frozen=True, slots=True)
class BodyInfo:
    """A described 6D body; a disabled one is not in the data."""

    name: str
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class QualisysSegment:
    """A segment with its rest position in its parent's axes, millimetres; parent None = root."""

    id: int
    name: str
    parent: int | None
    p_mm: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class SkeletonInfo:
    """A described skeleton, parents before children."""

    name: str
    segments: tuple[QualisysSegment, ...]
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Parameters:
    """Description of a server's subjects.

    Attributes:
        up_axis: the calibrated one, such as ``+Z``; empty when missing.
    """

    bodies: tuple[BodyInfo, ...] = ()
    skeletons: tuple[SkeletonInfo, ...] = ()
    up_axis: str = ""


def decode_parameters(xml: bytes) -> Parameters:
    """Read what the server answers to ``getparameters 3d 6d skeleton``.

    Raises:
        ProtocolError: no XML, too large, or with values that cannot be.
    """
    if len(xml) > _LIMIT_BYTES or b"<!DOCTYPE" in xml:
        raise ProtocolError("parameters are too large or declare entities", length=len(xml))
    try:
        root = ET.fromstring(xml.rstrip(b"\0"))  # noqa: S314 - bounded, and no entities
        bodies = tuple(_body(element) for element in root.iterfind(".//The_6D/Body"))
        skeletons = tuple(_skeleton(element) for element in root.iterfind(".//Skeletons/Skeleton"))
    except (ET.ParseError, ValueError, UnicodeError, RecursionError) as exc:
        raise ProtocolError(f"parameters cannot be read: {exc}", length=len(xml)) from exc
    return Parameters(
        bodies, skeletons, (root.findtext(".//The_3D/AxisUpwards") or "").strip().upper()
    )


def _body(element: ET.Element) -> BodyInfo:
    enabled = (element.findtext("Enabled") or "true").strip().lower()
    return BodyInfo((element.findtext("Name") or "").strip(), enabled not in {"false", "0"})


def _skeleton(element: ET.Element) -> SkeletonInfo:
    holder = element.find("Segments")
    roots = (element if holder is None else holder).iterfind("Segment")
    segments = tuple(segment for root in roots for segment in _segments(root, None, 1))
    if len({segment.id for segment in segments}) != len(segments):
        raise ValueError("two segments have the same ID")
    scale = float(element.findtext("Scale") or 1.0)
    if not (math.isfinite(scale) and scale > 0.0):
        scale = 1.0
    return SkeletonInfo(element.get("Name", ""), segments, scale)


def _segments(element: ET.Element, parent: int | None, depth: int) -> Iterator[QualisysSegment]:
    """Yield a segment and those below it."""
    if depth > _DEEPEST:
        raise ValueError(f"segments are nested deeper than {_DEEPEST}")
    identity = int(element.get("ID", ""))
    yield QualisysSegment(identity, element.get("Name", ""), parent, _rest_mm(element))
    for child in element.iterfind("Segment"):
        yield from _segments(child, identity, depth + 1)


def _rest_mm(element: ET.Element) -> tuple[float, float, float]:
    for path in ("DefaultTransform/Position", "Transform/Position", "Position"):
        found = element.find(path)
        if found is not None:
            x, y, z = (float(found.get(axis, "0")) for axis in "XYZ")
            if not all(map(math.isfinite, (x, y, z))):
                raise ValueError("a segment's position is not finite")
            return x, y, z
    return 0.0, 0.0, 0.0


def encode_parameters(parameters: Parameters, version: str, wanted: set[str]) -> str:
    """Return the XML of the wanted parts.

    ``3d``, ``6d``, ``skeleton``; ``general`` is always there.
    """
    root = ET.Element(f"QTM_Parameters_Ver_{version}")
    ET.SubElement(ET.SubElement(root, "General"), "Frequency").text = "100"
    if "3d" in wanted:
        ET.SubElement(ET.SubElement(root, "The_3D"), "AxisUpwards").text = parameters.up_axis
    if "6d" in wanted:
        holder = ET.SubElement(root, "The_6D")
        for body in parameters.bodies:
            element = ET.SubElement(holder, "Body")
            ET.SubElement(element, "Name").text = body.name
            ET.SubElement(element, "Enabled").text = "true" if body.enabled else "false"
    if "skeleton" in wanted:
        holder = ET.SubElement(root, "Skeletons")
        for skeleton in parameters.skeletons:
            _encode_skeleton(holder, skeleton)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode")


def _encode_skeleton(holder: ET.Element, skeleton: SkeletonInfo) -> None:
    element = ET.SubElement(holder, "Skeleton", Name=skeleton.name)
    ET.SubElement(element, "Scale").text = repr(skeleton.scale)
    places: dict[int | None, ET.Element] = {None: ET.SubElement(element, "Segments")}
    for segment in skeleton.segments:
        place = ET.SubElement(
            places[segment.parent], "Segment", Name=segment.name, ID=str(segment.id)
        )
        x, y, z = map(repr, segment.p_mm)
        ET.SubElement(ET.SubElement(place, "DefaultTransform"), "Position", X=x, Y=y, Z=z)
        places[segment.id] = place
