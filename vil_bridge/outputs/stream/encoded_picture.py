"""One offered picture with its encodings, each made once for all readers that want the same."""

from __future__ import annotations

import threading
from typing import NamedTuple

import zmq
from msgspec.structs import replace

from vil_bridge.core.clock import now_ns
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ImageArray, Modality
from vil_bridge.protocols.image_codecs import Encoded, EncodingOptions, encode

__all__ = ["EncodedPicture", "ReaderMessage"]


class ReaderMessage(NamedTuple):
    """A picture as one reader gets it.

    Attributes:
        header: the frame's metadata with what its encoding adds, stamped ``encode`` and ``send``.
    """

    header: FrameHeader
    encoded: Encoded

    @property
    def payload(self) -> memoryview:
        """The encoded bytes."""
        payload = self.encoded.payload
        return memoryview(payload.buffer if isinstance(payload, zmq.Frame) else payload)


class EncodedPicture:
    """An image and its metadata; asked by the relay thread and by those of UDP readers.

    Attributes:
        nbytes: size of the pixels.
    """

    def __init__(self, header: FrameHeader, pixels: ImageArray) -> None:
        self._header = header
        self.frame_id = header.frame_id
        self.nbytes = pixels.nbytes
        self._pixels = pixels
        self._lock = threading.Lock()
        self._encoded: dict[EncodingOptions, tuple[Encoded, int]] = {}

    @property
    def kind(self) -> tuple[str, str]:
        """Modality and variant."""
        return self._header.kind

    def older_than(self, age_ns: int) -> bool:
        """Whether its ``t_oldest_ns`` (its request, where absent) is longer ago."""
        t_oldest_ns = self._header.t_oldest_ns or self._header.stamps_ns.request
        return t_oldest_ns is not None and now_ns() - t_oldest_ns > age_ns

    def message(self, wants: EncodingOptions) -> ReaderMessage:
        """The picture encoded, to be sent now."""
        with self._lock:
            found = self._encoded.get(wants)
            if found is None:
                encoded = encode(self._pixels, wants, Modality(self._header.modality))
                found = self._encoded[wants] = (encoded, now_ns())
        encoded, t_encode_ns = found
        stamps_ns = replace(self._header.stamps_ns, encode=t_encode_ns, send=now_ns())
        return ReaderMessage(replace(self._header, stamps_ns=stamps_ns, **encoded.fields), encoded)
