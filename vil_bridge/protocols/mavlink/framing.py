"""MAVLink framing: bytes to messages and back, as pure functions.

Version 1 and 2 in, version 2 out.

Frame (version 2): 0xFD, payload length, incompatibility flags, compatibility flags, sequence,
system, component, message id (3 bytes), payload with its trailing zeros cut off, checksum, and a
13-byte signature when flag bit 0 is set. The checksum is CRC-16/MCRF4XX over everything after the
magic byte and one constant per message that depends on its fields. The messages themselves are in
:mod:`~vil_bridge.protocols.mavlink.messages`.
Source: https://mavlink.io/en/guide/serialization.html.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from typing import Final, NamedTuple

from vil_bridge.protocols.mavlink.messages import KINDS, Body

_MAGIC_1: Final = 0xFE
_MAGIC_2: Final = 0xFD
_HEADER_1: Final = 6
_HEADER_2: Final = 10
_CHECKSUM: Final = 2
_SIGNATURE: Final = 13
_SIGNED: Final = 0x01


class MavlinkMessage(NamedTuple):
    """One received message and who sent it."""

    system: int
    component: int
    sequence: int
    body: Body


_BY_ID: Final = {kind.id: kind for kind in KINDS.values()}

_MIRROR: Final = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))


def _checksum(data: bytes, crc_extra: int) -> int:
    # MCRF4XX is the mirror image of CRC-16/CCITT: mirror the bits in, mirror the result.
    crc = crc_hqx((data + bytes((crc_extra,))).translate(_MIRROR), 0xFFFF)
    return _MIRROR[crc & 0xFF] << 8 | _MIRROR[crc >> 8]


def encode(body: Body, sequence: int, *, system: int, component: int) -> bytes:
    """Return one message as an unsigned version 2 frame.

    Args:
        body: the message.
        sequence: any counter; its low byte is sent.
        system: id of the sending system.
        component: id of the sending component.

    Raises:
        struct.error: a value is outside the range of its field.
    """
    kind = KINDS[type(body)]
    payload = kind.pack(body).rstrip(b"\0") or b"\0"
    head = bytes((len(payload), 0, 0, sequence & 0xFF, system, component)) + kind.id.to_bytes(
        3, "little"
    )
    crc = _checksum(head + payload, kind.crc_extra)
    return bytes((_MAGIC_2,)) + head + payload + crc.to_bytes(2, "little")


_ANY_MAGIC: Final = re.compile(b"[\xfd\xfe]")


class MavlinkParser:
    """Parser of messages in a stream of bytes that may start anywhere and hold anything.

    Holds back at most one unfinished frame (281 bytes). A frame whose checksum is wrong is given up
    from its second byte on, so that a good frame inside its claimed length is still found.

    Attributes:
        bad_crc: frames of known messages with a wrong checksum.
        garbage: bytes outside of any frame.
        unknown: frames of other messages, which nothing here can verify, skipped by their length.
    """

    def __init__(self) -> None:
        self.bad_crc = 0
        self.garbage = 0
        self.unknown = 0
        self._pending = b""

    def feed(self, data: bytes) -> list[MavlinkMessage]:
        """Take the next bytes of the stream; returns the messages that they complete.

        Never raises.
        """
        data = self._pending + data
        messages: list[MavlinkMessage] = []
        at = 0
        while True:
            found = _ANY_MAGIC.search(data, at)
            start = found.start() if found else len(data)
            self.garbage += start - at
            at = start
            size = _frame_size(data, at)
            if size is None or at + size > len(data):
                break
            if size == 0:
                self.garbage += 1
                at += 1
                continue
            used = self._frame(data, at, size, messages)
            if used is None:
                break
            at += used
        self._pending = data[at:]
        return messages

    def end(self) -> None:
        """Account the bytes held back: nothing more belongs to them, as after each datagram."""
        data = self._pending
        self._pending = b""
        if data and _frame_size(data, 0) == len(data):
            self.unknown += 1  # whole frames wait only for a sign that they are frames
        else:
            self.garbage += len(data)

    def _frame(self, data: bytes, at: int, size: int, messages: list[MavlinkMessage]) -> int | None:
        """Handle one complete frame.

        Returns the bytes it uses up, None when one more is needed to decide.
        """
        version_2 = data[at] == _MAGIC_2
        if version_2:
            number = int.from_bytes(data[at + 7 : at + 10], "little")
            sequence = data[at + 4]
            system = data[at + 5]
            component = data[at + 6]
            head = _HEADER_2
        else:
            sequence, system, component, number, head = *data[at + 2 : at + 6], _HEADER_1
        kind = _BY_ID.get(number)
        if kind is None:
            if at + size == len(data):
                return None
            if data[at + size] not in (_MAGIC_1, _MAGIC_2):
                self.garbage += 1
                return 1
            self.unknown += 1
            return size
        end = at + head + data[at + 1]
        if _checksum(data[at + 1 : end], kind.crc_extra) != int.from_bytes(
            data[end : end + _CHECKSUM], "little"
        ):
            self.bad_crc += 1
            self.garbage += 1
            return 1
        # Cut-off zeros come back; fields newer than our tables are left out.
        length = kind.layout.size
        payload = data[at + head : end][:length].ljust(length, b"\0")
        messages.append(MavlinkMessage(system, component, sequence, kind.unpack(payload)))
        return size


def _frame_size(data: bytes, at: int) -> int | None:
    """Return the size of the frame that starts at ``at``.

    None when its header is incomplete, 0 when it is none.
    """
    left = len(data) - at
    if left < 3:
        return None
    length = data[at + 1]
    if data[at] == _MAGIC_1:
        return _HEADER_1 + length + _CHECKSUM
    flags = data[at + 2]
    if flags & ~_SIGNED:
        return 0
    return _HEADER_2 + length + _CHECKSUM + (_SIGNATURE if flags & _SIGNED else 0)
