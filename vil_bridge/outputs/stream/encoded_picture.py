"""One offered picture with its encodings, each made once for all readers that want the same."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import zmq
from msgspec import UNSET
from msgspec.structs import replace

from vil_bridge.core.clock import now_ns
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ImageArray, Modality
from vil_bridge.outputs.stream.event_encoder import EventCameraEncoder
from vil_bridge.outputs.stream.point_encoder import PixelRays, RayTable, encode_points
from vil_bridge.protocols.image_codecs import Encoded, EncodingOptions, encode
from vil_bridge.protocols.shared_memory import RingWriter

_Kind = tuple[str, str]


class ReaderMessage(NamedTuple):
    """Picture as one reader gets it.

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
    """Image and its metadata; used by the relay thread and by those of UDP readers.

    Args:
        header: the frame's metadata.
        pixels: not copied.
        max_age_ns: since ``t_oldest_ns`` (the request, where absent); beyond it no reader gets the
            picture.
        rays: of the camera's pixels; None = it is not sent as points.

    Attributes:
        nbytes: size of the pixels.
    """

    def __init__(
        self, header: FrameHeader, pixels: ImageArray, max_age_ns: int, rays: RayTable | None = None
    ) -> None:
        self._header = header
        self._table = rays
        self._rays: PixelRays | None = None
        t_oldest_ns = header.t_oldest_ns or header.stamps_ns.request
        self._t_expires_ns = UNSET if t_oldest_ns is None else t_oldest_ns + max_age_ns
        self.frame_id = header.frame_id
        self.nbytes = pixels.nbytes
        self._pixels = pixels
        self._lock = threading.Lock()
        self._encoded: dict[EncodingOptions, tuple[Encoded, int]] = {}

    @property
    def kind(self) -> tuple[str, str]:
        """Modality and variant."""
        return self._header.kind

    def expires_within(self, transit_ns: int) -> bool:
        """Return True when it is too old after so long a way."""
        return self._t_expires_ns is not UNSET and now_ns() + transit_ns > self._t_expires_ns

    def can_encode(self, options: EncodingOptions) -> bool:
        """Return False while the rays that points need are computed."""
        if options.encoding == "points" and self._rays is None and self._table is not None:
            fx, fy, cx, cy = self._header.K
            height_px, width_px = self._pixels.shape[:2]
            self._rays = self._table.rays(height_px, width_px, (fx, fy, cx, cy))
        return options.encoding != "points" or self._rays is not None

    def message(
        self, options: EncodingOptions, events: EventCameraEncoder | None = None
    ) -> ReaderMessage:
        """Return the encoded picture, to be sent now.

        ``events`` = as the events since that reader's last one.

        Only of options for which :meth:`can_encode` is true.
        """
        if events is not None:
            return self._stamped(events.encode(self._pixels, self._header.t_display_ns), now_ns())
        with self._lock:
            found = self._encoded.get(options)
            if found is None:
                encoded = self._encode(options)
                found = self._encoded[options] = (encoded, now_ns())
        return self._stamped(*found)

    def _encode(self, options: EncodingOptions) -> Encoded:
        if options.encoding == "points":
            assert self._rays is not None, "the caller has asked"
            return encode_points(self._pixels, self._rays)
        return encode(self._pixels, options, Modality(self._header.modality))

    def _stamped(self, encoded: Encoded, t_encode_ns: int) -> ReaderMessage:
        stamps_ns = replace(self._header.stamps_ns, encode=t_encode_ns, send=now_ns())
        header = replace(
            self._header, stamps_ns=stamps_ns, t_expires_ns=self._t_expires_ns, **encoded.fields
        )
        return ReaderMessage(header, encoded)


class PictureRings:
    """Ring of shared memory for each kind of picture that is read from memory.

    Belongs to the relay thread.
    """

    def __init__(self) -> None:
        self._rings: dict[_Kind, RingWriter] = {}
        self._written: dict[
            tuple[_Kind, EncodingOptions], tuple[EncodedPicture, dict[str, Any]]
        ] = {}

    def notice(
        self, picture: EncodedPicture, options: EncodingOptions, message: ReaderMessage
    ) -> dict[str, Any] | None:
        """Return where a reader finds the picture (docs/reference/stream.md), None without such
        memory.
        """
        known = self._written.get((picture.kind, options))
        if known is not None and known[0] is picture:
            return known[1]
        pixels = np.frombuffer(message.payload, np.uint8)
        try:
            ring = self._ring(picture.kind, max(picture.nbytes, pixels.nbytes))
        except OSError:
            return None
        notice = {**ring.address._asdict(), "sequence": ring.write([pixels]), "size": pixels.nbytes}
        self._written = {
            k: v for k, v in self._written.items() if k[0] != picture.kind or v[0] is picture
        }
        self._written[picture.kind, options] = picture, notice
        return notice

    def retain(self, kinds: Collection[_Kind]) -> None:
        """Give back the memory of all other kinds."""
        for kind in self._rings.keys() - set(kinds):
            self._rings.pop(kind).close()
            self._written = {key: value for key, value in self._written.items() if key[0] != kind}

    def _ring(self, kind: _Kind, size: int) -> RingWriter:
        ring = self._rings.get(kind)
        if ring is not None and ring.slot_bytes < size:
            self._rings.pop(kind).close()
            ring = None
        if ring is None:
            ring = self._rings[kind] = RingWriter(size)
        return ring
