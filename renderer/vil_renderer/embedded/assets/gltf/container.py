"""A glTF file as a document: its JSON, checked, and its bytes, found and bounded.

Sources: the glTF 2.0 specification, chapter 4 for GLB. Every error names the file and the element.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote

import msgspec

from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.assets.gltf.schema import Gltf

MAX_FILE_BYTES: Final = 1 << 30
MAX_JSON_VALUES: Final = 2_000_000
MAX_DECODED_BYTES: Final = 1 << 30

_T = TypeVar("_T")
_HEADER: Final = struct.Struct("<4sII")
_CHUNK: Final = struct.Struct("<II")
_JSON: Final = 0x4E4F534A
_BIN: Final = 0x004E4942

_SUPPORTED: Final = {
    "KHR_lights_punctual",
    "KHR_materials_emissive_strength",
    "KHR_materials_unlit",
    "KHR_mesh_quantization",
    "KHR_texture_transform",
}
_CURES: Final = {
    "KHR_draco_mesh_compression": "export it without mesh compression, or decompress it with a glTF tool",
    "EXT_meshopt_compression": "write it without compression of buffers (gltfpack without -c)",
    "KHR_meshopt_compression": "write it without compression of buffers (gltfpack without -c)",
    "KHR_texture_basisu": "convert its KTX2 textures to PNG or JPEG",
    "EXT_texture_webp": "convert its WebP textures to PNG or JPEG",
    "EXT_texture_avif": "convert its AVIF textures to PNG or JPEG",
    "MSFT_texture_dds": "convert its DDS textures to PNG or JPEG",
    "KHR_materials_pbrSpecularGlossiness": "convert its materials to metallic-roughness",
    "EXT_mesh_gpu_instancing": "export the instances as nodes",
    "KHR_gaussian_splatting": "these are Gaussian splats, not a mesh: name the file under `splats` of the scene file",
    "KHR_gaussian_splatting_compression_spz_2": "export the splats without compression, or as .spz",
    "KHR_spz_gaussian_splats_compression": "export the splats without compression, or as .spz",
    "KHR_spz_compression": "export the splats without compression, or as .spz",
}


@dataclass(slots=True)
class Document:
    """A glTF file.

    Attributes:
        name: of the file, for messages. folder: where relative URIs begin.
        binary: the GLB's second chunk.
    """

    name: str
    folder: Path
    gltf: Gltf
    binary: bytes | None = None
    _buffers: dict[int, bytes] = field(default_factory=dict)
    _decoded_bytes: int = 0

    def error(self, element: str, problem: str) -> AssetError:
        """Return the error to raise for an element."""
        return AssetError(f"{self.name}: {element}: {problem}")

    def item(self, items: Sequence[_T], kind: str, index: int, user: str) -> _T:
        """Return element ``index`` of a list of the file, for the element ``user`` that refers to it.

        Raises:
            AssetError: there are fewer.
        """
        if index >= len(items):
            raise self.error(user, f"refers to {kind} {index}, but there are {len(items)}")
        return items[index]

    def spend(self, count: int, user: str) -> None:
        """Take bytes from what one file may decode to, before they are allocated.

        Raises:
            AssetError: it would be too much.
        """
        self._decoded_bytes += count
        if self._decoded_bytes > MAX_DECODED_BYTES:
            raise self.error(user, f"the file decodes to more than {MAX_DECODED_BYTES >> 20:,} MiB: divide it")

    def view(self, index: int, user: str) -> memoryview:
        """Return the bytes of a buffer view.

        Raises:
            AssetError: it or its buffer does not exist, or is shorter than it says.
        """
        view = self.item(self.gltf.buffer_views, "buffer view", index, user)
        data = self._buffer(view.buffer, f"buffer view {index}")
        end = view.byte_offset + view.byte_length
        if end > len(data):
            where = f"bytes {view.byte_offset:,} to {end:,} exceed the {len(data):,} bytes of buffer {view.buffer}"
            raise self.error(f"buffer view {index}", where)
        return memoryview(data)[view.byte_offset : end]

    def fetch(self, uri: str, user: str) -> bytes:
        """Return the bytes behind a URI: in the text itself, or of a file in this folder or below.

        Raises:
            AssetError: it is absent, elsewhere, too large, or of a scheme other than ``data``.
        """
        if uri[:5].lower() == "data:":
            head, comma, text = uri.partition(",")
            if not comma or not head.lower().endswith(";base64"):
                raise self.error(user, "its data URI is not in base64")
            try:
                return base64.b64decode(unquote(text) if "%" in text else text, validate=True)
            except (binascii.Error, ValueError) as exc:
                raise self.error(user, f"its data URI is broken: {exc}") from None
        relative = unquote(uri)
        if ":" in relative or relative.startswith(("/", "\\")):
            raise self.error(user, f"refers to {uri[:120]!r}: only files next to this one are read, by relative path")
        try:
            path = (self.folder / relative).resolve()
        except (OSError, ValueError, RuntimeError) as exc:
            raise self.error(user, f"refers to {uri[:120]!r}: {exc}") from None
        if not path.is_relative_to(self.folder.resolve()):
            raise self.error(user, f"refers to {uri[:120]!r}, which is outside the file's folder")
        return read_file(path, f"{self.name}: {user}: {relative[:120]}")

    def _buffer(self, index: int, user: str) -> bytes:
        if index in self._buffers:
            return self._buffers[index]
        buffer = self.item(self.gltf.buffers, "buffer", index, user)
        if buffer.uri is not None:
            data = self.fetch(buffer.uri, f"buffer {index}")
        elif index == 0 and self.binary is not None:
            data = self.binary
        else:
            raise self.error(f"buffer {index}", "names no file, and there is no binary chunk for it")
        if buffer.byte_length > len(data):
            raise self.error(f"buffer {index}", f"{buffer.byte_length:,} bytes, but only {len(data):,} are there")
        self._buffers[index] = data
        return data


def read_file(path: Path, label: str) -> bytes:
    """Read a regular file of bounded size; ``label`` begins the messages.

    Raises:
        AssetError: it is absent, unreadable, no regular file (which might never end), or too large.
    """
    try:
        if not path.is_file():
            raise AssetError(f"{label}: there is no such file" if not path.exists() else f"{label}: not a file")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise AssetError(f"{label}: {size:,} bytes, more than {MAX_FILE_BYTES:,} are not read")
        return path.read_bytes()
    except (OSError, ValueError) as exc:
        raise AssetError(f"{label}: {getattr(exc, 'strerror', None) or exc}") from None


def open_document(path: Path, also: frozenset[str] = frozenset()) -> Document:
    """Read a GLB or a .gltf; its other files are read when they are used.

    Args:
        path: the file.
        also: extensions that its reader supports in addition to those of models.

    Raises:
        AssetError: it is not glTF 2.0, is cut short, or requires an extension that we do not read.
    """
    data = read_file(path, path.name)
    text, binary = _split_glb(data, path.name) if data[:4] == b"glTF" else (data, None)
    document = Document(path.name, path.parent, _decode(text, path.name), binary)
    _check_claims(document, also)
    return document


def _split_glb(data: bytes, name: str) -> tuple[bytes, bytes | None]:
    if len(data) < _HEADER.size:
        raise AssetError(f"{name}: GLB header: cut short at {len(data)} of {_HEADER.size} bytes")
    _, version, length = _HEADER.unpack_from(data)
    if version != 2:
        raise AssetError(f"{name}: GLB header: version {version}, only version 2 is read")
    if length > len(data):
        raise AssetError(f"{name}: GLB header: {length:,} bytes, but the file has {len(data):,}: it is cut short")
    chunks: list[tuple[int, bytes]] = []
    at = _HEADER.size
    while at + _CHUNK.size <= length and len(chunks) < 2:
        size, kind = _CHUNK.unpack_from(data, at)
        at += _CHUNK.size
        if size > length - at:
            raise AssetError(f"{name}: GLB chunk {len(chunks)}: {size:,} bytes exceed the {length - at:,} left")
        chunks.append((kind, data[at : at + size]))
        at += size
    if not chunks or chunks[0][0] != _JSON:
        raise AssetError(f"{name}: GLB chunk 0: no JSON")
    return chunks[0][1], chunks[1][1] if len(chunks) == 2 and chunks[1][0] == _BIN else None


def _decode(text: bytes, name: str) -> Gltf:
    # Every value stands after one of these; small JSON can become large objects.
    if sum(text.count(mark) for mark in (b",", b"{", b"[")) > MAX_JSON_VALUES:
        raise AssetError(f"{name}: JSON: more than {MAX_JSON_VALUES:,} values")
    try:
        return msgspec.json.decode(text, type=Gltf)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise AssetError(f"{name}: JSON: {exc}") from None
    except RecursionError:
        raise AssetError(f"{name}: JSON: nested too deeply") from None


def _check_claims(document: Document, also: frozenset[str]) -> None:
    version = document.gltf.asset.version
    if not version.startswith("2."):
        raise document.error("asset", f"glTF {version[:16]}, only 2.x is read")
    for extension in document.gltf.extensions_required:
        if extension not in _SUPPORTED | also:
            cure = _CURES.get(extension, "export it without that extension")
            raise document.error("extensionsRequired", f"{extension[:80]} is not supported: {cure}")
