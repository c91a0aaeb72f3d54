"""One camera's pictures in shared memory: written once for all readers on this host."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from vil_bridge.outputs.stream.encoded_picture import EncodedPicture, ReaderMessage
from vil_bridge.protocols.image_codecs import EncodingOptions
from vil_bridge.protocols.shared_memory import RingWriter

__all__ = ["PictureRings"]

Kind = tuple[str, str]


class PictureRings:
    """A ring for each kind of picture that somebody reads from memory; belongs to the relay thread."""

    def __init__(self) -> None:
        self._rings: dict[Kind, RingWriter] = {}
        self._written: dict[tuple[Kind, EncodingOptions], tuple[EncodedPicture, dict[str, Any]]] = {}

    def notice(self, picture: EncodedPicture, wants: EncodingOptions, message: ReaderMessage) -> dict[str, Any] | None:
        """Return where a reader finds the picture (docs/reference/stream.md), None without such memory."""
        known = self._written.get((picture.kind, wants))
        if known is not None and known[0] is picture:
            return known[1]
        pixels = np.frombuffer(message.payload, np.uint8)
        try:
            ring = self._ring(picture.kind, max(picture.nbytes, pixels.nbytes))
        except OSError:
            return None
        notice = {**ring.address._asdict(), "sequence": ring.write([pixels]), "size": pixels.nbytes}
        self._written = {k: v for k, v in self._written.items() if k[0] != picture.kind or v[0] is picture}
        self._written[picture.kind, wants] = picture, notice
        return notice

    def keep(self, kinds: Collection[Kind]) -> None:
        """Give back the memory of all other kinds."""
        for kind in self._rings.keys() - set(kinds):
            self._rings.pop(kind).close()
            self._written = {key: value for key, value in self._written.items() if key[0] != kind}

    def _ring(self, kind: Kind, size: int) -> RingWriter:
        ring = self._rings.get(kind)
        if ring is not None and ring.slot_bytes < size:
            self._rings.pop(kind).close()
            ring = None
        if ring is None:
            ring = self._rings[kind] = RingWriter(size)
        return ring
