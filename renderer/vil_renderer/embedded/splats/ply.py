"""Splats in PLY: as 3DGS trainers write them, and PlayCanvas' compressed form in chunks of 256."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.splats.cloud import (
    SH_C0,
    Float32,
    SplatCloud,
    StoredSplats,
    blocks,
    check_count,
    cloud_of,
    float32,
    refuse,
    three_smallest,
)

_MAX_HEADER_BYTES: Final = 1 << 16
_MAX_PROPERTIES: Final = 256
_TYPES: Final = {
    "char": "<i1", "int8": "<i1", "uchar": "<u1", "uint8": "<u1",
    "short": "<i2", "int16": "<i2", "ushort": "<u2", "uint16": "<u2",
    "int": "<i4", "int32": "<i4", "uint": "<u4", "uint32": "<u4",
    "float": "<f4", "float32": "<f4", "double": "<f8", "float64": "<f8",
}  # fmt: skip
_PLACE: Final = ("x", "y", "z")
_BASE: Final = ("f_dc_0", "f_dc_1", "f_dc_2")
_SCALE: Final = ("scale_0", "scale_1", "scale_2")
_TURN: Final = ("rot_0", "rot_1", "rot_2", "rot_3")
_RESTS: Final = (0, 9, 24, 45)
"""Numbers of ``f_rest`` properties: spherical harmonics of degrees 0 to 3."""
_CHUNK: Final = 256
_BOUNDS: Final = tuple(f"{end}_{axis}" for end in ("min", "max") for axis in "xyz")
_SCALE_BOUNDS: Final = tuple(f"{end}_scale_{axis}" for end in ("min", "max") for axis in "xyz")
_COLOUR_BOUNDS: Final = tuple(f"{end}_{channel}" for end in ("min", "max") for channel in "rgb")
_PACKED: Final = ("packed_position", "packed_rotation", "packed_scale", "packed_color")
_WORD: Final = np.dtype("<u4")
_BYTE: Final = np.dtype("u1")

_Element = tuple[str, int, tuple[tuple[str, str], ...]]
"""Name, number of rows, and properties with their types."""
_Rows = npt.NDArray[np.void]


def read_ply(path: Path) -> SplatCloud:
    """Read a binary PLY: log scales, logit opacities, quaternions scalar first.

    Or packed by PlayCanvas.

    Raises:
        AssetError: it cannot be read, is not such a file, is cut short, or holds values that mean
            nothing; the message names file and element.
    """
    name = path.name
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header, start = _split(file.read(_MAX_HEADER_BYTES), name)
            elements = _elements(header, name)
            packed = bool(elements) and elements[0][0] == "chunk"
            used = _packed_elements(elements, name) if packed else (_vertices(elements, name),)
            _check_sizes(used, size - start, name)
            file.seek(start)
            rows = [_read(file, element) for element in used]
    except OSError as exc:
        raise AssetError(
            f"{name}: cannot be read: {exc.strerror}. Check its permissions and the disk"
        ) from exc
    antialiased = _antialiased(header)
    if packed:
        return _packed_cloud(rows, antialiased, name)
    return _cloud(rows[0], antialiased, name)


def _split(head: bytes, name: str) -> tuple[list[str], int]:
    """Return lines of the header, and the offset of the data."""
    end = re.search(rb"\nend_header\r?\n", head)
    if end is None or not re.match(rb"ply\r?\n", head):
        raise AssetError(f"{name}: PLY header: absent or cut short. Export the scan as PLY again")
    return head[: end.start()].decode("latin-1").splitlines()[1:], end.end()


def _antialiased(lines: list[str]) -> bool:
    """Return what comments of Brush and Postshot say of the training."""
    comments = [
        line.lower().replace(":", " ").split()[1:] for line in lines if line.startswith("comment")
    ]
    return ["splatrendermode", "mip"] in comments or ["antialiased", "1"] in comments


def _elements(lines: list[str], name: str) -> list[_Element]:
    found: list[tuple[str, int, list[tuple[str, str]]]] = []
    for words in _statements(lines, name):
        if words[0] == "element":
            found.append((words[1], int(words[2]), []))
        elif found:
            found[-1][2].append((words[-1], " ".join(words[1:-1])))
    return [(kind, count, tuple(fields)) for kind, count, fields in found]


def _statements(lines: list[str], name: str) -> Iterator[list[str]]:
    """Return elements and properties of a header in the supported format."""
    if not lines or lines[0].split() != ["format", "binary_little_endian", "1.0"]:
        found = lines[0].strip()[:40] if lines else "nothing"
        raise AssetError(
            f"{name}: PLY header: {found!r}: export as binary PLY (format binary_little_endian 1.0)"
        )
    for count, line in enumerate(lines[1:]):
        words = line.split()
        if not words or words[0] in ("comment", "obj_info"):
            continue
        well = words[0] == "property" and len(words) >= 3
        well |= (
            words[0] == "element"
            and len(words) == 3
            and words[2].isdecimal()
            and len(words[2]) <= 18
        )
        if not well or count > _MAX_PROPERTIES:
            raise AssetError(
                f"{name}: PLY header: line {count + 3}: {line[:60]!r} is not understood"
            )
        yield words


def _layout(element: _Element, name: str) -> np.dtype[Any]:
    """Return bytes of one row of an element."""
    kind, _, fields = element
    for field, form in fields:
        if form not in _TYPES:
            raise AssetError(
                f"{name}: element {kind}: property {form} {field[:40]} is not a single number"
            )
    return np.dtype([(field, _TYPES[form]) for field, form in fields])


def _check_fields(element: _Element, needed: Sequence[str], name: str, wrong: str) -> None:
    kind, _, fields = element
    names = [field for field, _ in fields]
    twice = {field for field in names if names.count(field) > 1}
    missing = [field for field in needed if field not in names]
    if twice or missing:
        what = f"twice {', '.join(sorted(twice))}" if twice else f"no property {', '.join(missing)}"
        raise AssetError(f"{name}: element {kind}: {what}: {wrong}")
    if _rest(names) is None:
        raise AssetError(
            f"{name}: element {kind}: properties f_rest: 0, 9, 24 or 45, from f_rest_0 "
            "on, are expected"
        )


def _rest(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return properties of the higher harmonics in their order.

    None if they do not form a whole degree.
    """
    found = {field for field in names if field.startswith("f_rest_")}
    ordered = tuple(f"f_rest_{i}" for i in range(len(found)))
    return ordered if len(found) in _RESTS and found == set(ordered) else None


def _check_sizes(elements: Sequence[_Element], room: int, name: str) -> None:
    """Check what the header counts against the bytes that follow it."""
    for element in elements:
        kind, count, _ = element
        item = _layout(element, name).itemsize
        if count * item > room:
            noun = "splats" if kind == "vertex" else "rows"
            found = f"{count:,} {noun} of {item} bytes, but {room:,} bytes"
            raise AssetError(
                f"{name}: element {kind}: {found} after the header: cut short. Copy or "
                "export it again"
            )
        room -= count * item
    check_count(max(count for kind, count, _ in elements if kind == "vertex"), name)


def _read(file: BinaryIO, element: _Element) -> _Rows:
    fields = np.dtype([(field, _TYPES[form]) for field, form in element[2]])
    return np.frombuffer(file.read(element[1] * fields.itemsize), fields)


# --- plain -----------------------------------------------------------------------------------


def _vertices(elements: list[_Element], name: str) -> _Element:
    if not elements or elements[0][0] != "vertex":
        first = elements[0][0] if elements else "nothing"
        raise AssetError(
            f"{name}: PLY header: {first} where element vertex is expected: export as "
            "plain 3DGS PLY"
        )
    needed = (*_PLACE, *_BASE, "opacity", *_SCALE, *_TURN)
    _check_fields(elements[0], needed, name, "no Gaussian splats as 3DGS trainers write them")
    _layout(elements[0], name)
    return elements[0]


def _cloud(rows: _Rows, antialiased: bool, name: str) -> SplatCloud:
    logit = rows["opacity"].astype(np.float32)
    # Infinite ones are 0 and 1.
    refuse(np.isnan(logit), name, "property opacity is not a number", "vertex")
    opacity = (0.5 + 0.5 * np.tanh(0.5 * logit)).astype(np.float32)
    p = _columns(rows, _PLACE, name)
    log_scale = _columns(rows, _SCALE, name)
    sh = _harmonics(rows, name)
    stored = StoredSplats(p, log_scale, _columns(rows, _TURN, name), opacity, sh, antialiased)
    return cloud_of(stored, name, "vertex")


def _harmonics(rows: _Rows, name: str) -> Float32:
    """Return coefficients (n, k, 3); the file has all those of red first, then green, then blue."""
    rest = _rest(rows.dtype.names or ()) or ()
    terms = 1 + len(rest) // 3
    sh = np.empty((len(rows), terms, 3), np.float32)
    sh[:, 0] = _columns(rows, _BASE, name)
    sh[:, 1:] = _columns(rows, rest, name).reshape(len(rows), 3, terms - 1).transpose(0, 2, 1)
    return sh


def _columns(rows: _Rows, fields: tuple[str, ...], name: str, noun: str = "vertex") -> Float32:
    """Return properties side by side, float32 (n, len(fields)), all finite."""
    made = np.empty((len(rows), len(fields)), np.float32)
    with np.errstate(over="ignore"):  # a double beyond float32 is refused as infinite
        for i, field in enumerate(fields):
            made[:, i] = rows[field]
            refuse(~np.isfinite(made[:, i]), name, f"property {field} is not a finite number", noun)
    return made


# --- packed ----------------------------------------------------------------------------------


def _packed_elements(elements: list[_Element], name: str) -> tuple[_Element, ...]:
    """Return elements chunk, vertex and, with harmonics, sh."""
    kinds = tuple(kind for kind, _, _ in elements)
    if kinds not in (("chunk", "vertex"), ("chunk", "vertex", "sh")):
        found = ", ".join(kinds)[:80]
        raise AssetError(
            f"{name}: compressed PLY: elements {found}, expected chunk, vertex, sh. Export it again"
        )
    wrong = "no compressed PLY of PlayCanvas. Export it again, or as plain 3DGS PLY"
    for element, needed in zip(
        elements, ((*_BOUNDS, *_SCALE_BOUNDS), _PACKED, ("f_rest_0",)), strict=False
    ):
        _check_fields(element, needed, name, wrong)
    layouts = [_layout(element, name) for element in elements]
    typed = all(layouts[1][field] == _WORD for field in _PACKED)
    bytes_only = all(
        layout[field] == _BYTE for layout in layouts[2:] for field in layout.names or ()
    )
    if not typed or not bytes_only:
        raise AssetError(
            f"{name}: compressed PLY: types are not uint (vertex) and uchar (sh): {wrong}"
        )
    count = elements[1][1]
    wanted = (-(-count // _CHUNK), count, count)[: len(elements)]
    for (kind, rows, _), needed_rows in zip(elements, wanted, strict=True):
        if rows != needed_rows:
            raise AssetError(
                f"{name}: element {kind}: {rows:,} rows where {count:,} splats need "
                f"{needed_rows:,}. Export it again"
            )
    return tuple(elements)


def _packed_cloud(rows: list[_Rows], antialiased: bool, name: str) -> SplatCloud:
    chunks = rows[0]
    packed = rows[1]
    count = len(packed)
    p, log_scale, colour = (np.empty((count, 3), np.float32) for _ in range(3))
    q = np.empty((count, 4), np.float32)
    opacity = np.empty(count, np.float32)
    bounded = set(_COLOUR_BOUNDS) <= set(chunks.dtype.names or ())
    places = _columns(chunks, _BOUNDS, name, "chunk")
    scales = _columns(chunks, _SCALE_BOUNDS, name, "chunk")
    colours = _columns(chunks, _COLOUR_BOUNDS, name, "chunk") if bounded else None
    for part in blocks(count):
        chunk = np.arange(part.start, part.stop) // _CHUNK
        p[part] = _between(places[chunk], _vectors(packed["packed_position"][part]))
        log_scale[part] = _between(scales[chunk], _vectors(packed["packed_scale"][part]))
        rgba = packed["packed_color"][part].astype(">u4").view(np.uint8).reshape(-1, 4) / 255.0
        colour[part] = rgba[:, :3] if colours is None else _between(colours[chunk], rgba[:, :3])
        opacity[part] = rgba[:, 3]
        q[part] = _quaternions(packed["packed_rotation"][part])
    sh = _packed_harmonics(rows[2] if len(rows) > 2 else None, colour)
    return cloud_of(StoredSplats(p, log_scale, q, opacity, sh, antialiased), name)


def _vectors(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    """Return x, y, z in 0..1 of 11, 10 and 11 bits, (n, 3)."""
    return np.stack((words >> 21, (words >> 11) & 1023, words & 2047), axis=1) / (
        2047.0,
        1023.0,
        2047.0,
    )


def _between(bounds: Float32, share: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return values at shares (n, 3) between lower and upper bounds (n, 6)."""
    made: npt.NDArray[np.float64] = bounds[:, :3] * (1.0 - share) + bounds[:, 3:] * share
    return made


def _quaternions(words: npt.NDArray[np.uint32]) -> Float32:
    others = np.stack(((words >> 20) & 1023, (words >> 10) & 1023, words & 1023), axis=1)
    return three_smallest(words >> 30, (others / 1023.0 - 0.5) * np.sqrt(2.0), 0)


def _packed_harmonics(rows: _Rows | None, colour: Float32) -> Float32:
    """Return coefficients (n, k, 3) of display colours and bytes.

    The ends of a byte's range are exact.
    """
    base = ((colour - 0.5) / SH_C0)[:, None]
    if rows is None:
        return base
    stored = rows.view(np.uint8).reshape(len(rows), 3, -1)
    values = (np.arange(256) + 0.5) / 256.0
    values[0] = 0.0
    values[255] = 1.0
    rest = float32((values - 0.5) * 8.0)[stored].transpose(0, 2, 1)
    return np.concatenate((base, rest), axis=1)
