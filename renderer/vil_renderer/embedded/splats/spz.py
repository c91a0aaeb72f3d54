"""Splats in SPZ, Niantic's format.

Versions 1 to 3 are one gzip stream, version 4 has a zstd frame per attribute.
"""

from __future__ import annotations

import logging
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import zstandard

from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.assets.gltf.container import read_file
from vil_renderer.embedded.splats.cloud import (
    Float32,
    SplatCloud,
    StoredSplats,
    blocks,
    check_count,
    cloud_of,
    float32,
    three_smallest,
)

logger = logging.getLogger(__name__)

_HEADER: Final = struct.Struct("<4sIIBBBB")
_TABLE: Final = struct.Struct("<QQ")
_TABLE_AT: Final = 16
_HEADER4_BYTES: Final = 32
_MAGIC: Final = b"NGSP"
_ANTIALIASED: Final = 1
_TERMS: Final = (1, 4, 9, 16, 25)
"""Coefficients of spherical harmonics of degrees 0 to 4."""
_DRAWN_TERMS: Final = 16
_GROWTH: Final = 1024 / 9
"""Most splats per byte of a file, as the format's own library accepts."""

_Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _SpzHeader:
    """First bytes of a file; ``step`` is the number of position steps in a unit."""

    version: int
    count: int
    degree: int
    step: float
    flags: int
    streams: int

    def sizes(self) -> tuple[int, ...]:
        """Return bytes of positions, alphas, colours, scales, rotations and harmonics."""
        places = 6 if self.version == 1 else 9
        turns = 4 if self.version >= 3 else 3
        each = (places, 1, 3, 3, turns, 3 * (_TERMS[self.degree] - 1))
        return tuple(self.count * n for n in each)


def read_spz(path: Path) -> SplatCloud:
    """Read an SPZ file, versions 1 to 4, in the axes in which it stores splats.

    Raises:
        AssetError: it cannot be read, is not such a file, is cut short, or holds values that mean
            nothing.
    """
    data = read_file(path, path.name)
    if data[:4] == _MAGIC:
        header = _header(data, len(data), path.name)
        attributes = _frames(data, header, path.name)
    else:
        header, attributes = _stream(data, path.name)
    if header.degree == len(_TERMS) - 1:
        logger.warning("%s: spherical harmonics of degree 4 are rendered as degree 3", path.name)
    return cloud_of(_decoded(header, attributes), path.name)


def _header(head: bytes, file_bytes: int, name: str) -> _SpzHeader:
    if len(head) < _HEADER.size or head[:4] != _MAGIC:
        raise AssetError(f"{name}: SPZ header: absent or cut short. Copy or export the file again")
    _, version, count, degree, bits, flags, streams = _HEADER.unpack_from(head)
    if not 1 <= version <= 4:
        raise AssetError(
            f"{name}: SPZ version {version}, versions 1 to 4 are read. Export it as one of these"
        )
    if degree >= len(_TERMS) or bits > 23:
        raise AssetError(
            f"{name}: SPZ header: degree {degree}, {bits} fractional bits: broken. Export it again"
        )
    if count > file_bytes * _GROWTH:
        raise AssetError(
            f"{name}: SPZ header: {count:,} splats in {file_bytes:,} bytes: broken. Export it again"
        )
    check_count(count, name)
    return _SpzHeader(version, count, degree, 2.0**bits, flags, streams)


def _stream(data: bytes, name: str) -> tuple[_SpzHeader, list[_Bytes]]:
    """Return header and attributes of versions 1 to 3.

    What the header does not announce stays packed.
    """
    unpacker = zlib.decompressobj(wbits=31)
    try:
        head = unpacker.decompress(data, _HEADER.size)
        header = _header(head, len(data), name)
        total = sum(header.sizes())
        rest = unpacker.decompress(unpacker.unconsumed_tail, total + 1)
    except zlib.error as exc:
        raise AssetError(
            f"{name}: SPZ: no gzip stream ({exc}). Copy or export the file again"
        ) from None
    if header.version == 4:
        raise AssetError(f"{name}: SPZ header: version 4 within gzip: broken. Export it again")
    if len(rest) < total or (len(rest) == total and not unpacker.eof):
        found = f"{len(rest):,} of {total:,} bytes, or no checksum after them"
        raise AssetError(f"{name}: SPZ: {found}: cut short. Copy or export the file again")
    made = []
    at = 0
    for size in header.sizes():
        made.append(np.frombuffer(rest, np.uint8, size, at))
        at += size
    return header, made


def _frames(data: bytes, header: _SpzHeader, name: str) -> list[_Bytes]:
    """Return attributes of version 4."""
    sizes = header.sizes()
    filled = [size for size in sizes if size]
    table = len(data)
    if len(data) >= _HEADER4_BYTES:
        table = struct.unpack_from("<I", data, _TABLE_AT)[0]
    at = table + _TABLE.size * header.streams
    if header.version != 4 or header.streams != len(filled) or at > len(data):
        found = (
            f"version {header.version}, {header.streams} streams where {len(filled)} are expected"
        )
        raise AssetError(
            f"{name}: SPZ header: {found}, or cut short. Copy or export the file again"
        )
    made = []
    for i, size in enumerate(filled):
        packed, unpacked = _TABLE.unpack_from(data, table + _TABLE.size * i)
        frame = data[at : at + packed]
        if unpacked != size or len(frame) < packed:
            found = (
                f"{unpacked:,} bytes where {size:,} are expected, {len(frame):,} of "
                f"{packed:,} packed ones"
            )
            raise AssetError(
                f"{name}: SPZ stream {i}: {found}: cut short or broken. Copy or export "
                "the file again"
            )
        made.append(_unpacked(frame, size, f"{name}: SPZ stream {i}"))
        at += packed
    left = iter(made)
    return [next(left) if size else np.empty(0, np.uint8) for size in sizes]


def _unpacked(frame: bytes, size: int, label: str) -> _Bytes:
    """Return the bytes of a zstd frame, never more than ``size``."""
    try:
        with zstandard.ZstdDecompressor().stream_reader(frame) as reader:
            made = reader.read(size)
    except zstandard.ZstdError as exc:
        raise AssetError(f"{label}: no zstd frame ({exc}). Copy or export the file again") from None
    if len(made) != size:
        raise AssetError(
            f"{label}: {len(made):,} of {size:,} bytes: cut short. Copy or export the file again"
        )
    return np.frombuffer(made, np.uint8)


def _decoded(header: _SpzHeader, attributes: list[_Bytes]) -> StoredSplats:
    places, alphas, colours, scales, turns, rest = attributes
    count = header.count
    terms = min(_TERMS[header.degree], _DRAWN_TERMS)
    sh = np.empty((count, terms, 3), np.float32)
    sh[:, 0] = (colours.reshape(count, 3) / 255.0 - 0.5) / 0.15
    if terms > 1:
        stored = rest.reshape(count, _TERMS[header.degree] - 1, 3)[:, : terms - 1]
        sh[:, 1:] = (stored - 128.0) / 128.0
    return StoredSplats(
        _places(header, places),
        float32(scales.reshape(count, 3) / 16.0 - 10.0),
        _quaternions(header, turns),
        float32(alphas / 255.0),
        sh,
        bool(header.flags & _ANTIALIASED),
    )


def _places(header: _SpzHeader, stored: _Bytes) -> Float32:
    """Return positions (n, 3) of half floats (version 1) or of 24 signed bits."""
    if header.version == 1:
        return stored.view("<f2").astype(np.float32).reshape(-1, 3)
    wide = np.zeros((header.count * 3, 4), np.uint8)
    wide[:, 1:] = stored.reshape(-1, 3)
    steps = wide.view("<i4").reshape(-1, 3) >> 8
    return float32(steps / header.step)


def _quaternions(header: _SpzHeader, stored: _Bytes) -> Float32:
    """Return w, x, y, z: of the three smallest in 32 bits, or of x, y, z in bytes."""
    made = np.empty((header.count, 4), np.float32)
    for part in blocks(header.count):
        if header.version >= 3:
            words = stored.view("<u4")[part]
            fields = np.stack([words >> shift for shift in (20, 10, 0)], axis=1)
            size = (fields & 511) / 511.0 * np.sqrt(0.5)
            made[part] = three_smallest(words >> 30, np.where(fields & 512, -size, size), 3)
        else:
            xyz = stored.reshape(-1, 3)[part] / 127.5 - 1.0
            made[part, 1:] = xyz
            made[part, 0] = np.sqrt(np.maximum(1.0 - np.square(xyz).sum(axis=1), 0.0))
    return made
