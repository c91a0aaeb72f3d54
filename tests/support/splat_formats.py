"""Splats written in the formats that the renderer reads, by second implementations of their
descriptions.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import zstandard
from PIL import Image

from tests.support.splat import FIELDS, SH_C0, header

_Floats = npt.NDArray[np.float64]
FORMATS: Final = ("ply", "compressed.ply", "spz", "sog", "glb", "splat")


@dataclass(frozen=True)
class Stored:
    """Splats as a trainer stores them, float64.

    P (n, 3), log_scale (n, 3), q_wxyz (n, 4), logit (n,), sh (n, k, 3).
    """

    p: _Floats
    log_scale: _Floats
    q_wxyz: _Floats
    logit: _Floats
    sh: _Floats

    @property
    def opacity(self) -> _Floats:
        return np.asarray(1.0 / (1.0 + np.exp(-self.logit)))

    @property
    def unit_q(self) -> _Floats:
        return np.asarray(self.q_wxyz / np.linalg.norm(self.q_wxyz, axis=1, keepdims=True))

    @property
    def colour(self) -> _Floats:
        return np.asarray(0.5 + SH_C0 * self.sh[:, 0])

    @property
    def rest(self) -> _Floats:
        """Higher harmonics, channel by channel, (n, 3 (k - 1))."""
        return np.asarray(self.sh[:, 1:].transpose(0, 2, 1).reshape(len(self.p), -1))

    def taken(self, order: npt.NDArray[np.integer]) -> Stored:
        return Stored(
            *(getattr(self, key)[order] for key in ("p", "log_scale", "q_wxyz", "logit", "sh"))
        )


def write_format(path: Path, splats: Stored) -> Path:
    """Write a file in the format of its name, one of :data:`FORMATS`."""
    kind = path.name.partition(".")[2]
    writers = {
        "ply": plain_ply, "compressed.ply": compressed_ply, "spz": spz, "sog": sog, "glb": glb,
        "splat": splat_rows,
    }  # fmt: skip
    path.write_bytes(writers[kind](splats))
    return path


def plain_ply(splats: Stored) -> bytes:
    names = [*FIELDS, *(f"f_rest_{i}" for i in range(splats.rest.shape[1]))]
    columns = (
        splats.p,
        np.zeros_like(splats.p),
        splats.sh[:, 0],
        splats.logit[:, None],
        splats.log_scale,
    )
    rows = np.concatenate((*columns, splats.q_wxyz, splats.rest), axis=1)
    return header(len(rows), names) + rows.astype("<f4").tobytes()


# --- compressed PLY --------------------------------------------------------------------------


def compressed_ply(splats: Stored) -> bytes:
    """Sorted along a space-filling curve, as chunks need it."""
    return packed_ply(splats.taken(morton(splats.p)))


def packed_ply(splats: Stored) -> bytes:
    """In the order of the splats."""
    count = len(splats.p)
    bounds, words = [], []
    for start in range(0, count, 256):
        part = slice(start, start + 256)
        place, place_bounds = _within(splats.p[part])
        scale, scale_bounds = _within(splats.log_scale[part])
        colour, colour_bounds = _within(splats.colour[part])
        bounds.append(np.concatenate((place_bounds, scale_bounds, colour_bounds)))
        rgba = np.rint(255.0 * np.concatenate((colour, splats.opacity[part, None]), axis=1)).astype(
            np.uint32
        )
        colours = rgba @ np.array([1 << 24, 1 << 16, 1 << 8, 1], np.uint32)
        words.append(
            np.stack(
                (_bits(place), _largest_out(splats.unit_q[part]), _bits(scale), colours), axis=1
            )
        )
    ends = [f"{end}_{axis}" for end in ("min", "max") for axis in "xyz"]
    scales = [f"{end}_scale_{axis}" for end in ("min", "max") for axis in "xyz"]
    colours_of = [f"{end}_{axis}" for end in ("min", "max") for axis in "rgb"]
    packed = ("packed_position", "packed_rotation", "packed_scale", "packed_color")
    rest = np.clip(np.rint((splats.rest / 8.0 + 0.5) * 256.0 - 0.5), 0, 255).astype(np.uint8)
    lines = ["ply", "format binary_little_endian 1.0", f"element chunk {len(bounds)}"]
    lines += [f"property float {name}" for name in (*ends, *scales, *colours_of)]
    lines += [f"element vertex {count}", *(f"property uint {name}" for name in packed)]
    if rest.shape[1]:
        lines += [
            f"element sh {count}",
            *(f"property uchar f_rest_{i}" for i in range(rest.shape[1])),
        ]
    head = "\n".join([*lines, "end_header", ""]).encode()
    return (
        head
        + np.array(bounds, "<f4").tobytes()
        + np.concatenate(words).astype("<u4").tobytes()
        + rest.tobytes()
    )


def morton(p: _Floats) -> npt.NDArray[np.integer]:
    """The order of points along a Z curve."""
    steps = np.clip((p - p.min(axis=0)) / np.ptp(p, axis=0).max() * 1023.0, 0, 1023).astype(
        np.int64
    )
    key = np.zeros(len(p), np.int64)
    for bit in range(10):
        for axis in range(3):
            key |= ((steps[:, axis] >> bit) & 1) << (3 * bit + axis)
    return np.argsort(key, kind="stable")


def _within(values: _Floats) -> tuple[_Floats, _Floats]:
    """Shares of the range, and the range."""
    low, high = values.min(axis=0), values.max(axis=0)
    return (values - low) / np.where(high > low, high - low, 1.0), np.concatenate((low, high))


def _bits(share: _Floats) -> npt.NDArray[np.uint32]:
    steps = np.rint(share * (2047.0, 1023.0, 2047.0)).astype(np.uint32)
    return np.asarray(steps[:, 0] << 21 | steps[:, 1] << 11 | steps[:, 2], np.uint32)


def _largest_out(q: _Floats) -> npt.NDArray[np.uint32]:
    largest, others = _dropped(q)
    steps = np.rint((others / np.sqrt(2.0) + 0.5) * 1023.0).astype(np.uint32)
    packed = largest.astype(np.uint32) << 30 | steps[:, 0] << 20 | steps[:, 1] << 10 | steps[:, 2]
    return np.asarray(packed, np.uint32)


def _dropped(q: _Floats) -> tuple[npt.NDArray[np.integer], _Floats]:
    """The place of the largest component, and the others where that is positive."""
    largest = np.abs(q).argmax(axis=1)
    q = q * np.sign(q[np.arange(len(q)), largest])[:, None]
    return largest, q[np.arange(4) != largest[:, None]].reshape(-1, 3)


# --- SPZ -------------------------------------------------------------------------------------


def spz(splats: Stored, version: int = 3, flags: int = 0, bits: int = 12) -> bytes:
    """Version 1 has half floats as positions, version 2 rotations in three bytes, version 4 zstd
    frames.
    """
    count, degree = len(splats.p), {1: 0, 4: 1, 9: 2, 16: 3, 25: 4}[splats.sh.shape[1]]
    head = struct.pack("<4sIIBBB", b"NGSP", version, count, degree, bits, flags)
    blocks = _spz_blocks(splats, version, bits)
    if version < 4:
        packer = zlib.compressobj(wbits=31)
        return packer.compress(head + bytes(1) + b"".join(blocks)) + packer.flush()
    filled = [block for block in blocks if block]
    frames = [zstandard.compress(block) for block in filled]
    table = b"".join(
        struct.pack("<QQ", len(f), len(b)) for f, b in zip(frames, filled, strict=True)
    )
    return head + struct.pack("<BI12x", len(filled), 32) + table + b"".join(frames)


def _spz_blocks(splats: Stored, version: int, bits: int) -> list[bytes]:
    steps = np.rint(splats.p * 2.0**bits).astype("<i4").reshape(-1, 1).view(np.uint8)[:, :3]
    places = splats.p.astype("<f2").tobytes() if version == 1 else steps.tobytes()
    colours = _byte((splats.sh[:, 0] * 0.15 + 0.5) * 255.0)
    xyzw = np.roll(splats.unit_q, -1, axis=1)
    # As its library by default: five bits for degree 1, four for the others.
    step = np.where(np.arange(splats.sh.shape[1] - 1) < 3, 8, 16)[None, :, None]
    rest = _byte((np.rint(splats.sh[:, 1:] * 128.0) + 128.0 + step // 2) // step * step)
    return [
        places, _byte(splats.opacity * 255.0), colours, _byte((splats.log_scale + 10.0) * 16.0),
        _spz_words(xyzw) if version >= 3 else _byte((xyzw[:,
        :3] * np.sign(xyzw[:, 3:]) + 1.0) * 127.5), rest,
    ]  # fmt: skip


def _spz_words(xyzw: _Floats) -> bytes:
    largest, others = _dropped(xyzw)
    size = (
        np.rint(np.abs(others) * np.sqrt(2.0) * 511.0).astype(np.uint32)
        | (others < 0).astype(np.uint32) << 9
    )
    words = largest.astype(np.uint32) << 30 | size[:, 0] << 20 | size[:, 1] << 10 | size[:, 2]
    return bytes(words.astype("<u4").tobytes())


def _byte(values: _Floats) -> bytes:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8).tobytes()


# --- SOG, GLB, .splat --------------------------------------------------------------------------


def sog_parts(splats: Stored) -> tuple[dict[str, Any], dict[str, npt.NDArray[np.uint8]]]:
    """The meta data and the pictures; each splat has its own entry in the palette of harmonics."""
    count = len(splats.p)
    logs = np.sign(splats.p) * np.log1p(np.abs(splats.p))
    low, high = logs.min(axis=0), logs.max(axis=0)
    steps = np.trunc((logs - low) / np.where(high > low, high - low, 1.0) * 65535.0).astype(
        np.uint32
    )
    largest, others = _dropped(splats.unit_q)
    turns = np.trunc((others * np.sqrt(2.0) + 1.0) * 127.5)
    scales, scale_book = _coded(splats.log_scale)
    base, base_book = _coded(splats.sh[:, 0])
    pictures = {
        "means_l.webp": _texels(steps & 255),
        "means_u.webp": _texels(steps >> 8),
        "quats.webp": _texels(np.concatenate((turns, 252.0 + largest[:, None]), axis=1)),
        "scales.webp": _texels(scales),
        "sh0.webp": _texels(
            np.concatenate((base, np.rint(255.0 * splats.opacity[:, None])), axis=1)
        ),
    }
    meta: dict[str, Any] = {
        "version": 2, "count": count,
        "means": {"mins": low.tolist(), "maxs": high.tolist(),
        "files": ["means_l.webp", "means_u.webp"]},
        "scales": {"codebook": scale_book, "files": ["scales.webp"]},
        "quats": {"files": ["quats.webp"]},
        "sh0": {"codebook": base_book, "files": ["sh0.webp"]},
    }  # fmt: skip
    terms = splats.sh.shape[1] - 1
    if terms:
        rest, book = _coded(splats.sh[:, 1:].reshape(count, -1))
        palette = np.zeros((-(-count // 64) * 64, terms, 3), np.uint8)
        palette[:count] = rest.reshape(count, terms, 3)
        picture = np.full((*palette.reshape(-1, 64 * terms, 3).shape[:2], 4), 255, np.uint8)
        picture[..., :3] = palette.reshape(-1, 64 * terms, 3)
        index = np.arange(count)
        pictures["shN_centroids.webp"] = picture
        pictures["shN_labels.webp"] = _texels(
            np.stack((index & 255, index >> 8, 0 * index), axis=1)
        )
        bands = {3: 1, 8: 2, 15: 3}[terms]
        files = ["shN_centroids.webp", "shN_labels.webp"]
        meta["shN"] = {"count": count, "bands": bands, "codebook": book, "files": files}
    return meta, pictures


def sog(splats: Stored) -> bytes:
    meta, pictures = sog_parts(splats)
    return sog_zip(meta, {name: webp(picture) for name, picture in pictures.items()})


def sog_zip(meta: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("meta.json", json.dumps(meta))
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


def webp(picture: npt.NDArray[np.uint8]) -> bytes:
    made = io.BytesIO()
    Image.fromarray(picture).save(made, "WEBP", lossless=True, exact=True)
    return made.getvalue()


def _coded(values: _Floats) -> tuple[_Floats, list[float]]:
    """Indices of a codebook of 256 even steps, and the codebook."""
    book = np.linspace(values.min(), values.max(), 256)
    step = max(float(book[1] - book[0]), 1e-12)
    return np.rint((values - book[0]) / step), book.tolist()


def _texels(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    width = -(-int(np.ceil(np.sqrt(len(values)))) // 4) * 4
    picture = np.full((-(-len(values) // width), width, 4), 255, np.uint8)
    picture.reshape(-1, 4)[: len(values), : values.shape[1]] = values
    return picture


def glb(
    splats: Stored,
    node: Mapping[str, Any] | None = None,
    extension: Mapping[str, Any] | None = None,
) -> bytes:
    prefix = "KHR_gaussian_splatting:"
    arrays = {
        "POSITION": splats.p,
        prefix + "ROTATION": np.roll(splats.unit_q, -1, axis=1),
        prefix + "SCALE": np.exp(splats.log_scale),
        prefix + "OPACITY": splats.opacity[:, None],
    }
    for degree in range(4):
        for n in range(2 * degree + 1):
            if degree * degree + n < splats.sh.shape[1]:
                arrays[f"{prefix}SH_DEGREE_{degree}_COEF_{n}"] = splats.sh[:, degree * degree + n]
    return glb_of(arrays, node, extension)


def glb_of(
    arrays: Mapping[str, _Floats],
    node: Mapping[str, Any] | None = None,
    extension: Mapping[str, Any] | None = None,
) -> bytes:
    """A file of one primitive with these attributes, all float32."""
    data, views, accessors = b"", [], []
    for values in arrays.values():
        views.append({"buffer": 0, "byteOffset": len(data), "byteLength": values.size * 4})
        form = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}[values.shape[1]]
        accessors.append(
            {
                "bufferView": len(views) - 1,
                "componentType": 5126,
                "count": len(values),
                "type": form,
            }
        )
        data += values.astype("<f4").tobytes()
    splatting = {"kernel": "ellipse", "colorSpace": "srgb_rec709_display", **(extension or {})}
    attributes = {name: i for i, name in enumerate(arrays)}
    primitive = {
        "attributes": attributes,
        "mode": 0,
        "extensions": {"KHR_gaussian_splatting": splatting},
    }
    document = {
        "asset": {"version": "2.0"}, "extensionsUsed": ["KHR_gaussian_splatting"],
        "extensionsRequired": ["KHR_gaussian_splatting"], "buffers": [{"byteLength": len(data)}],
        "bufferViews": views, "accessors": accessors, "meshes": [{"primitives": [primitive]}],
        "nodes": [{"mesh": 0, **(node or {})}], "scenes": [{"nodes": [0]}], "scene": 0,
    }  # fmt: skip
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    chunks = (
        struct.pack("<I4s", len(text), b"JSON")
        + text
        + struct.pack("<I4s", len(data), b"BIN\0")
        + data
    )
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def splat_rows(splats: Stored) -> bytes:
    row = np.dtype([("p", "<f4", 3), ("scale", "<f4", 3), ("rgba", "u1", 4), ("q", "u1", 4)])
    rows = np.zeros(len(splats.p), row)
    rows["p"], rows["scale"] = splats.p, np.exp(splats.log_scale)
    rgba = np.concatenate((splats.colour, splats.opacity[:, None]), axis=1)
    rows["rgba"] = np.clip(np.trunc(255.0 * rgba), 0, 255)
    rows["q"] = np.clip(np.trunc(splats.unit_q * 128.0 + 128.0), 0, 255)
    return rows.tobytes()


def golden() -> Stored:
    """The eight splats of the reference page of the formats; degree 1."""
    i = np.arange(8.0)
    q = np.stack((np.ones(8), 0.1 * i, -0.05 * i, np.full(8, 0.2)), axis=1)
    k = np.arange(9)
    rest = ((7 * k[None] + 3 * np.arange(8)[:, None]) % 11 - 5) / 20.0
    base = np.stack((0.1 * i, -0.3 + 0.05 * i, 0.4 - 0.1 * i), axis=1)
    return Stored(
        np.stack((0.5 * i - 1.75, np.sin(i), 0.3 - 0.25 * i), axis=1),
        np.stack((-4.0 + 0.1 * i, np.full(8, -3.5), -3.0 - 0.2 * i), axis=1),
        q / np.linalg.norm(q, axis=1, keepdims=True),
        -2.0 + 0.5 * i,
        np.concatenate((base[:, None], rest.reshape(8, 3, 3).transpose(0, 2, 1)), axis=1),
    )
