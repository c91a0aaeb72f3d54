"""Transport of the pixels.

Shared memory where both ends are one user on one host, else message parts.

Nothing is configured. A renderer that connects to a loopback address offers a ring in each answer.
A client that can open it sends the ring's nonce in its poses; answers to such poses have their
images in the ring. After a restart both begin with message parts again.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import View
from vil_bridge.optics.pixel_formats import FORMAT_OF
from vil_bridge.protocols.shared_memory import RingAddress, RingReader, RingWriter
from vil_renderer.flightgoggles.codec import (
    WireView,
    decode_pictures,
    decode_slot,
    encode_header,
    encode_images,
)
from vil_renderer.flightgoggles.messages import ImageHeader, PoseMessage, RingMessage, SlotMessage
from vil_renderer.flightgoggles.pictures import PixelImage, slot_arrays

logger = logging.getLogger(__name__)


class HandoverWriter:
    """The renderer's end; belongs to the thread that draws.

    Args:
        client_ip: where the client listens, numeric.

    Attributes:
        by_ring: answers whose pictures went through shared memory.
    """

    def __init__(self, client_ip: str) -> None:
        self.by_ring = 0
        self._local = ipaddress.ip_address(client_ip).is_loopback
        self._ring: RingWriter | None = None

    def frames(
        self,
        message: PoseMessage,
        views: Sequence[View],
        header: ImageHeader,
        pictures: Sequence[PixelImage],
    ) -> list[bytes | memoryview]:
        """Return the frames of an answer.

        Raises:
            RendererError: header and pictures disagree.
        """
        ring = None if message.vil is UNSET or header.vil is UNSET else self._ring_for(views)
        if ring is None or message.vil is UNSET or header.vil is UNSET:
            return encode_images(header, pictures)
        pid, fd, nonce = ring.address
        slot: SlotMessage | UnsetType = UNSET
        if message.vil.ring == nonce and pictures:
            arrays = slot_arrays(pictures)
            slot = SlotMessage(
                number=ring.write(arrays), bytes=sum(array.nbytes for array in arrays)
            )
        vil = msgspec.structs.replace(
            header.vil, ring=RingMessage(pid=pid, fd=fd, nonce=nonce), slot=slot
        )
        header = msgspec.structs.replace(header, vil=vil)
        if slot is UNSET:
            return encode_images(header, pictures)
        self.by_ring += 1
        return [encode_header(header)]

    def close(self) -> None:
        """Give the memory back."""
        if self._ring is not None:
            self._ring.close()
            self._ring = None

    def _ring_for(self, views: Sequence[View]) -> RingWriter | None:
        """Return a ring whose slots hold the pictures of all views, due or not.

        None where there can be none.
        """
        size = sum(
            FORMAT_OF[v.modality].nbytes(v.camera.width_px, v.camera.height_px) for v in views
        )
        if self._local and (self._ring is None or self._ring.slot_bytes < size):
            self.close()
            try:
                self._ring = RingWriter(size)
            except OSError as exc:
                logger.info("pictures go out as messages, since there is no shared memory: %s", exc)
                self._local = False
        return self._ring


class HandoverReader:
    """The client's end; belongs to the receiving thread.

    Any thread may read ``nonce`` and ``transport``.

    Attributes:
        nonce: of the ring that is open, for the next poses; empty = none.
        transport: of the images, for the status.
    """

    def __init__(self) -> None:
        self.nonce = ""
        self.transport = "messages"
        self._reader: RingReader | None = None
        self._refused: RingAddress | None = None

    def pictures(self, header: ImageHeader, parts: Sequence[memoryview]) -> tuple[WireView, ...]:
        """Return the images of an answer, from its parts or from shared memory.

        Raises:
            ProtocolError: they are not what the metadata announces, or no longer in the ring.
        """
        if header.vil is UNSET or header.vil.slot is UNSET:
            found = decode_pictures(header, parts)
        elif self._reader is None:
            raise ProtocolError("the pictures are in shared memory that is not open")
        else:
            found = decode_slot(
                header, self._reader.read(header.vil.slot.number, header.vil.slot.bytes)
            )
        if header.vil is not UNSET and header.vil.ring is not UNSET:
            ring = header.vil.ring
            self._follow(RingAddress(ring.pid, ring.fd, ring.nonce))
        return found

    def close(self) -> None:
        """Release the ring, so that a renderer that ended leaves nothing behind."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self.nonce = ""
        self.transport = "messages"

    def _follow(self, address: RingAddress) -> None:
        """Open the ring that is offered, once."""
        if address == self._refused or (
            self._reader is not None and address == self._reader.address
        ):
            return
        self.close()
        try:
            self._reader = RingReader(address)
        except (OSError, ProtocolError) as exc:
            self._refused = address
            self.transport = f"messages, since the renderer's shared memory cannot be had: {exc}"
        else:
            self.nonce = address.nonce
            self.transport = "shared memory"
