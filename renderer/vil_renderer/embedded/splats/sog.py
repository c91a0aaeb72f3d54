"""Splats in SOG, PlayCanvas' format.

A texel of lossless WebP pictures per splat, in a zip file or a folder.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.assets.gltf.container import read_file
from vil_renderer.embedded.assets.gltf.images import open_image
from vil_renderer.embedded.splats.cloud import (
    Float32,
    SplatCloud,
    StoredSplats,
    check_count,
    cloud_of,
    float32,
    three_smallest,
)

_MAX_META_BYTES: Final = 1 << 20
_MAX_PICTURE_BYTES: Final = 1 << 28
_ACROSS: Final = 64
"""Palette entries in a line of the picture of harmonics."""
_TURN: Final = 252
"""Least alpha of a stored rotation."""
_ENTRIES: Final = 256
_TERMS: Final = (1, 4, 9, 16)

_Triple = tuple[float, float, float]
_Codebook = Annotated[list[float], Meta(min_length=1, max_length=_ENTRIES)]
_One = Annotated[list[str], Meta(min_length=1, max_length=1)]
_Two = Annotated[list[str], Meta(min_length=2, max_length=2)]
_Texels = npt.NDArray[np.uint8]


class SogMeans(msgspec.Struct, frozen=True):
    """Positions: the range of their signed logarithms, and pictures of low and high bytes."""

    mins: _Triple
    maxs: _Triple
    files: _Two


class SogPicture(msgspec.Struct, frozen=True):
    """A picture without a codebook."""

    files: _One


class SogCoded(msgspec.Struct, frozen=True):
    """A picture whose bytes index a codebook."""

    codebook: _Codebook
    files: _One


class SogHarmonics(msgspec.Struct, frozen=True):
    """A palette of higher harmonics, and the picture of the entries' numbers."""

    count: Annotated[int, Meta(ge=1, le=65536)]
    bands: Annotated[int, Meta(ge=1, le=3)]
    codebook: _Codebook
    files: _Two


class SogMeta(msgspec.Struct, frozen=True, rename={"rest": "shN"}):
    """``meta.json``."""

    count: Annotated[int, Meta(ge=0, le=2**53)]
    means: SogMeans
    scales: SogCoded
    quats: SogPicture
    sh0: SogCoded
    rest: SogHarmonics | None = None
    antialias: bool = False
    model: str = ""


class _Version(msgspec.Struct, frozen=True):
    version: int = 1


@dataclass(frozen=True, slots=True)
class _Pictures:
    """Access to the pictures of one file."""

    name: str
    fetch: Callable[[str, int], bytes]

    def texels(self, file: str, count: int) -> _Texels:
        """Return the first ``count`` texels of a picture, (count, 4)."""
        rows = self.rgba(file).reshape(-1, 4)
        if len(rows) < count:
            found = f"{len(rows):,} texels for {count:,} splats"
            raise AssetError(f"{self.name}: {file[:60]}: {found}: broken. Export the scan again")
        return rows[:count]

    def rgba(self, file: str) -> _Texels:
        """Return a picture, (h, w, 4), exactly as stored."""
        label = f"{self.name}: {file[:60]}"
        with open_image(self.fetch(file, _MAX_PICTURE_BYTES), label, ("WEBP",)) as image:
            try:
                return np.asarray(image.convert("RGBA"))
            except Exception as exc:  # decoders of broken pictures raise any exception
                raise AssetError(
                    f"{label}: the picture is broken: {exc}. Export the scan again"
                ) from None


def read_sog(path: Path) -> SplatCloud:
    """Read SOG version 2: a zip file, or the ``meta.json`` of a folder.

    Raises:
        AssetError: it cannot be read, is not such a file, is cut short, or holds values that mean
            nothing.
    """
    if path.suffix.lower() == ".json":
        return _read(path.name, lambda file, limit: _of_folder(path.parent, file, limit, path.name))
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(path.name, lambda file, limit: _of_zip(archive, file, limit, path.name))
    except OSError as exc:
        raise AssetError(
            f"{path.name}: cannot be read: {exc.strerror or exc}. Check its path and permissions"
        ) from exc
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, zlib.error) as exc:
        raise AssetError(
            f"{path.name}: SOG: no zip file ({exc}). Copy or export the file again"
        ) from None


def _of_folder(folder: Path, file: str, limit: int, name: str) -> bytes:
    data = read_file(folder / file, f"{name}: {file[:60]}")
    if len(data) > limit:
        raise AssetError(
            f"{name}: {file[:60]}: {len(data):,} bytes, more than {limit:,} are not read. "
            "Thin the scan"
        )
    return data


def _of_zip(archive: zipfile.ZipFile, file: str, limit: int, name: str) -> bytes:
    try:
        entry = archive.getinfo(file)
    except KeyError:
        held = ", ".join(sorted(archive.namelist()))[:120]
        raise AssetError(
            f"{name}: SOG: holds no {file[:60]}, but {held}. Export the scan again"
        ) from None
    if entry.file_size > limit:
        raise AssetError(
            f"{name}: {file[:60]}: {entry.file_size:,} bytes, more than {limit:,} are not "
            "read. Thin the scan"
        )
    if entry.flag_bits & 1:
        raise AssetError(f"{name}: {file[:60]}: is encrypted. Export the scan without a password")
    # Only these unpack within a bound.
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise AssetError(
            f"{name}: {file[:60]}: packed by method {entry.compress_type}. Export the scan again"
        )
    with archive.open(entry) as stored:
        return stored.read(entry.file_size)  # read() alone would unpack all before it cuts


def _read(name: str, fetch: Callable[[str, int], bytes]) -> SplatCloud:
    meta = _meta(fetch("meta.json", _MAX_META_BYTES), name)
    check_count(meta.count, name)
    return cloud_of(_decoded(meta, _Pictures(name, fetch)), name)


def _meta(text: bytes, name: str) -> SogMeta:
    try:
        version = msgspec.json.decode(text, type=_Version).version
        if version != 2:
            found = f"SOG version {version}, only version 2 is read"
            raise AssetError(
                f"{name}: {found}. Convert it with a present splat-transform, or export as PLY"
            )
        meta = msgspec.json.decode(text, type=SogMeta)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise AssetError(f"{name}: meta.json: {exc}. Export the scan again") from None
    files = [*meta.means.files, *meta.scales.files, *meta.quats.files, *meta.sh0.files]
    for file in (*files, *(meta.rest.files if meta.rest else ())):
        if "/" in file or "\\" in file or file.startswith("."):
            raise AssetError(
                f"{name}: meta.json: {file[:60]!r} is not a file next to it. Export the scan again"
            )
    return meta


def _decoded(meta: SogMeta, pictures: _Pictures) -> StoredSplats:
    count = meta.count
    colours = pictures.texels(meta.sh0.files[0], count)
    scales = pictures.texels(meta.scales.files[0], count)
    base = _looked_up(meta.sh0.codebook, colours[:, :3], f"{pictures.name}: sh0")
    return StoredSplats(
        _places(meta.means, pictures, count),
        _looked_up(meta.scales.codebook, scales[:, :3], f"{pictures.name}: scales"),
        _quaternions(pictures.texels(meta.quats.files[0], count), pictures.name),
        float32(colours[:, 3] / 255.0),
        np.concatenate((base[:, None], _harmonics(meta, pictures)), axis=1),
        meta.antialias or meta.model == "antialiased",
    )


def _looked_up(codebook: list[float], index: _Texels, label: str) -> Float32:
    if index.size and index.max() >= len(codebook):
        raise AssetError(
            f"{label}: entry {index.max()} of {len(codebook)} in the codebook. Export the "
            "scan again"
        )
    with np.errstate(over="ignore"):  # what is beyond float32 is refused as infinite
        return np.asarray(codebook, np.float64).astype(np.float32)[index]


def _places(means: SogMeans, pictures: _Pictures, count: int) -> Float32:
    low, high = (pictures.texels(file, count)[:, :3] for file in means.files)
    share = (low + high.astype(np.uint16) * np.uint16(256)) / np.float64(65535.0)
    mins = np.array(means.mins)
    maxs = np.array(means.maxs)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused later
        logs = mins + (maxs - mins) * share
        return float32(np.sign(logs) * np.expm1(np.abs(logs)))


def _quaternions(texels: _Texels, name: str) -> Float32:
    if len(texels) and texels[:, 3].min() < _TURN:
        broken = int(np.argmax(texels[:, 3] < _TURN))
        raise AssetError(
            f"{name}: quats: texel {broken:,} is not a rotation. Export the scan again"
        )
    others = (texels[:, :3] / 255.0 * 2.0 - 1.0) * np.sqrt(0.5)
    return three_smallest(texels[:, 3].astype(np.int64) - _TURN, others, 0)


def _harmonics(meta: SogMeta, pictures: _Pictures) -> Float32:
    """Return the higher coefficients (n, k, 3), k = 0 without any."""
    rest = meta.rest
    if rest is None:
        return np.empty((meta.count, 0, 3), np.float32)
    terms = _TERMS[rest.bands] - 1
    palette = pictures.rgba(rest.files[0])[..., :3]
    lines = -(-rest.count // _ACROSS)
    if palette.shape[0] < lines or palette.shape[1] != _ACROSS * terms:
        found = (
            f"{palette.shape[1]} x {palette.shape[0]} texels where {_ACROSS * terms} x "
            f"{lines} are expected"
        )
        raise AssetError(f"{pictures.name}: {rest.files[0][:60]}: {found}. Export the scan again")
    labels = pictures.texels(rest.files[1], meta.count)
    label = labels[:, 0] + labels[:, 1].astype(np.uint16) * np.uint16(256)
    if meta.count and label.max() >= rest.count:
        found = f"entry {label.max()} of a palette of {rest.count}"
        raise AssetError(f"{pictures.name}: {rest.files[1][:60]}: {found}. Export the scan again")
    entries = palette[:lines].reshape(lines * _ACROSS, terms, 3)
    return _looked_up(rest.codebook, entries[: rest.count], f"{pictures.name}: shN")[label]
