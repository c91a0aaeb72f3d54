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
from vil_renderer.embedded.assets.gltf.meshopt import decode_view
from vil_renderer.embedded.assets.gltf.schema import BufferView, Gltf, Meshopt

MAX_FILE_BYTES: Final = 1 << 30
MAX_JSON_VALUES: Final = 2_000_000
MAX_DECODED_BYTES: Final = 1 << 30

_T = TypeVar("_T")
_HEADER: Final = struct.Struct("<4sII")
_CHUNK: Final = struct.Struct("<II")
_JSON: Final = 0x4E4F534A
_BIN: Final = 0x004E4942


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
    _unpacked: dict[int, bytes] = field(default_factory=dict)
    _decoded_bytes: int = 0

    def error(self, element: str, problem: str) -> AssetError:
        """Return the error to raise for an element."""
        return AssetError(f"{self.name}: {element}: {problem}")

    def item(self, items: Sequence[_T], kind: str, index: int, user: str) -> _T:
        """Return element ``index`` of a list of the file, for the element ``user`` that refers to
        it.

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
            raise self.error(
                user, f"the file decodes to more than {MAX_DECODED_BYTES >> 20:,} MiB: divide it"
            )

    def view(self, index: int, user: str) -> memoryview:
        """Return the bytes of a buffer view, unpacked if they are compressed.

        Raises:
            AssetError: it or its buffer does not exist, is shorter than it says, or its compressed
                stream is broken.
        """
        view = self.item(self.gltf.buffer_views, "buffer view", index, user)
        if view.extensions.meshopt is None:
            return self._part(view, f"buffer view {index}")
        if index not in self._unpacked:
            self._unpacked[index] = self._unpack(view.extensions.meshopt, f"buffer view {index}")
        return memoryview(self._unpacked[index])

    def _part(self, view: BufferView | Meshopt, element: str) -> memoryview:
        data = self._buffer(view.buffer, element)
        end = view.byte_offset + view.byte_length
        if end > len(data):
            where = (
                f"bytes {view.byte_offset:,} to {end:,} exceed the {len(data):,} bytes of "
                f"buffer {view.buffer}"
            )
            raise self.error(element, where)
        return memoryview(data)[view.byte_offset : end]

    def _unpack(self, packed: Meshopt, element: str) -> bytes:
        # The decoder also holds the deltas.
        self.spend(2 * packed.count * packed.byte_stride, element)
        try:
            return decode_view(packed, bytes(self._part(packed, element)))
        except ValueError as exc:
            raise self.error(element, f"EXT_meshopt_compression: {exc}") from None

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
            raise self.error(
                user,
                f"refers to {uri[:120]!r}: only files next to this one are read, by relative path",
            )
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
            raise self.error(
                f"buffer {index}", "names no file, and there is no binary chunk for it"
            )
        if buffer.byte_length > len(data):
            raise self.error(
                f"buffer {index}", f"{buffer.byte_length:,} bytes, but only {len(data):,} are there"
            )
        self._buffers[index] = data
        return data


def read_file(path: Path, label: str) -> bytes:
    """Read a regular file of bounded size; ``label`` begins the messages.

    Raises:
        AssetError: it is absent, unreadable, no regular file (which might never end), or too large.
    """
    try:
        if not path.is_file():
            if not path.exists():
                raise AssetError(f"{label}: there is no such file")
            raise AssetError(f"{label}: not a file")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise AssetError(f"{label}: {size:,} bytes, more than {MAX_FILE_BYTES:,} are not read")
        return path.read_bytes()
    except (OSError, ValueError) as exc:
        raise AssetError(f"{label}: {getattr(exc, 'strerror', None) or exc}") from None


def open_document(path: Path) -> Document:
    """Read a GLB or a .gltf; its other files are read when they are used.

    Raises:
        AssetError: it is not glTF, or is cut short.
    """
    data = read_file(path, path.name)
    text, binary = _split_glb(data, path.name) if data[:4] == b"glTF" else (data, None)
    return Document(path.name, path.parent, _decode(text, path.name), binary)


def _split_glb(data: bytes, name: str) -> tuple[bytes, bytes | None]:
    if len(data) < _HEADER.size:
        raise AssetError(f"{name}: GLB header: cut short at {len(data)} of {_HEADER.size} bytes")
    _, version, length = _HEADER.unpack_from(data)
    if version != 2:
        raise AssetError(f"{name}: GLB header: version {version}, only version 2 is read")
    if length > len(data):
        raise AssetError(
            f"{name}: GLB header: {length:,} bytes, but the file has {len(data):,}: it is cut short"
        )
    chunks: list[tuple[int, bytes]] = []
    at = _HEADER.size
    while at + _CHUNK.size <= length and len(chunks) < 2:
        size, kind = _CHUNK.unpack_from(data, at)
        at += _CHUNK.size
        if size > length - at:
            raise AssetError(
                f"{name}: GLB chunk {len(chunks)}: {size:,} bytes exceed the {length - at:,} left"
            )
        chunks.append((kind, data[at : at + size]))
        at += size
    if not chunks or chunks[0][0] != _JSON:
        raise AssetError(f"{name}: GLB chunk 0: no JSON")
    if len(chunks) == 2 and chunks[1][0] == _BIN:
        return chunks[0][1], chunks[1][1]
    return chunks[0][1], None


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
