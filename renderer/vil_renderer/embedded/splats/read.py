"""Files of Gaussian splats: the PLY that 3DGS trainers write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import AssetError

_Float32 = npt.NDArray[np.float32]

_MAX_HEADER_BYTES: Final = 1 << 16
_MAX_PROPERTIES: Final = 256
_LARGEST: Final = 1.0e6
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


@dataclass(frozen=True, slots=True, eq=False)
class SplatCloud:
    """Gaussian splats in the axes and units of their file.

    Attributes:
        p: (n, 3). axes: (n, 3, 3), columns are the half axes of the one-sigma ellipsoids. opacity: (n,), 0..1.
        sh: (n, k, 3), coefficients of spherical harmonics for display colour less 0.5, k = 1, 4, 9 or 16. All are
            float32.
    """

    p: _Float32
    axes: _Float32
    opacity: _Float32
    sh: _Float32


def read_splats(path: Path) -> SplatCloud:
    """Read a binary PLY as 3DGS trainers write it: log scales, logit opacities, quaternions scalar first.

    Raises:
        AssetError: it cannot be read, is not such a file, is cut short, or holds values that mean nothing; the message
            names file and element.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_MAX_HEADER_BYTES)
            header, start = _split(head, path.name)
            layout, count = _layout(header, path.name)
            if count * layout.itemsize > size - start:
                raise AssetError(
                    f"{path.name}: element vertex: {count:,} splats of {layout.itemsize} bytes,"
                    f" but {size - start:,} bytes after the header: cut short"
                )
            rows = np.fromfile(file, layout, count, offset=start - len(head))
    except OSError as exc:
        raise AssetError(f"{path.name}: cannot be read: {exc.strerror}") from exc
    return _cloud(rows, path.name)


def _split(head: bytes, name: str) -> tuple[list[str], int]:
    """Return lines of the header, and the offset of the data."""
    end = re.search(rb"\nend_header\r?\n", head)
    if end is None or not re.match(rb"ply\r?\n", head):
        raise AssetError(f"{name}: PLY header: absent or cut short")
    return head[: end.start()].decode("latin-1").splitlines()[1:], end.end()


def _layout(lines: list[str], name: str) -> tuple[np.dtype[Any], int]:
    """Return bytes of one splat, and the number of splats."""
    fields: list[tuple[str, str]] = []
    elements: list[tuple[str, int]] = []
    for words in _statements(lines, name):
        if words[0] == "element":
            elements.append((words[1], int(words[2])))
        elif len(elements) == 1:
            fields.append(_field(words, name))
    if not elements or elements[0][0] != "vertex":
        first = elements[0][0] if elements else "nothing"
        raise AssetError(f"{name}: PLY header: {first} where element vertex is expected: export as plain 3DGS PLY")
    names = [field for field, _ in fields]
    twice = {field for field in names if names.count(field) > 1}
    missing = [field for field in (*_PLACE, *_BASE, "opacity", *_SCALE, *_TURN) if field not in names]
    if twice or missing:
        what = f"twice {', '.join(sorted(twice))}" if twice else f"no property {', '.join(missing)}"
        raise AssetError(f"{name}: element vertex: {what}: no Gaussian splats as 3DGS trainers write them")
    if _rest(names) is None:
        raise AssetError(f"{name}: element vertex: properties f_rest: 0, 9, 24 or 45, from f_rest_0 on, are expected")
    return np.dtype(fields), elements[0][1]


def _rest(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return properties of the higher harmonics in their order; None if they do not form a whole degree."""
    found = {field for field in names if field.startswith("f_rest_")}
    ordered = tuple(f"f_rest_{i}" for i in range(len(found)))
    return ordered if len(found) in _RESTS and found == set(ordered) else None


def _statements(lines: list[str], name: str) -> Iterator[list[str]]:
    """Return elements and properties of a header in the supported format."""
    if not lines or lines[0].split() != ["format", "binary_little_endian", "1.0"]:
        found = lines[0].strip()[:40] if lines else "nothing"
        raise AssetError(f"{name}: PLY header: {found!r}: export as binary PLY (format binary_little_endian 1.0)")
    for count, line in enumerate(lines[1:]):
        words = line.split()
        if not words or words[0] in ("comment", "obj_info"):
            continue
        well = words[0] == "property" and len(words) >= 3
        well |= words[0] == "element" and len(words) == 3 and words[2].isdecimal() and len(words[2]) <= 18
        if not well or count > _MAX_PROPERTIES:
            raise AssetError(f"{name}: PLY header: line {count + 3}: {line[:60]!r} is not understood")
        yield words


def _field(words: list[str], name: str) -> tuple[str, str]:
    if len(words) != 3 or words[1] not in _TYPES:
        raise AssetError(f"{name}: element vertex: property {' '.join(words[1:])[:60]} is not a single number")
    return words[2], _TYPES[words[1]]


# --- from stored values to splats --------------------------------------------------------


def _cloud(rows: npt.NDArray[np.void], name: str) -> SplatCloud:
    p, log_scale = _columns(rows, _PLACE, name), _columns(rows, _SCALE, name)
    _refuse(np.abs(p).max(axis=1, initial=0.0) > _LARGEST, name, f"lies beyond {_LARGEST:.0e} units")
    _refuse(log_scale.max(axis=1, initial=-np.inf) > np.log(_LARGEST), name, f"is larger than {_LARGEST:.0e} units")
    turn = _columns(rows, _TURN, name).astype(np.float64)
    length = np.linalg.norm(turn, axis=1)
    _refuse(length < 1e-12, name, "has no rotation: rot_0 to rot_3 are 0")
    axes = _matrices(turn / length[:, None]) * np.exp(log_scale)[:, None, :]
    logit = rows["opacity"].astype(np.float32)
    _refuse(np.isnan(logit), name, "property opacity is not a number")  # infinite ones are 0 and 1
    opacity = (0.5 + 0.5 * np.tanh(0.5 * logit)).astype(np.float32)
    return SplatCloud(p, axes.astype(np.float32), opacity, _harmonics(rows, name))


def _harmonics(rows: npt.NDArray[np.void], name: str) -> _Float32:
    """Return coefficients (n, k, 3); the file has all those of red first, then green, then blue."""
    rest = _rest(rows.dtype.names or ()) or ()
    terms = 1 + len(rest) // 3
    sh = np.empty((len(rows), terms, 3), np.float32)
    sh[:, 0] = _columns(rows, _BASE, name)
    sh[:, 1:] = _columns(rows, rest, name).reshape(len(rows), 3, terms - 1).transpose(0, 2, 1)
    return sh


def _columns(rows: npt.NDArray[np.void], fields: tuple[str, ...], name: str) -> _Float32:
    """Return properties side by side, float32 (n, len(fields)), all finite."""
    made = np.empty((len(rows), len(fields)), np.float32)
    with np.errstate(over="ignore"):  # a double beyond float32 is refused as infinite
        for i, field in enumerate(fields):
            made[:, i] = rows[field]
            _refuse(~np.isfinite(made[:, i]), name, f"property {field} is not a finite number")
    return made


def _refuse(broken: npt.NDArray[np.bool_], name: str, what: str) -> None:
    if broken.any():
        raise AssetError(f"{name}: vertex {int(np.argmax(broken)):,} {what} ({int(broken.sum()):,} such)")


def _matrices(q_wxyz: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the rotation matrices (n, 3, 3) of unit quaternions (n, 4)."""
    w, x, y, z = q_wxyz.T
    rows = (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
        (2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)),
        (2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)),
    )
    return np.array(rows).transpose(2, 0, 1)
