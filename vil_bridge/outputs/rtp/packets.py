"""RTP packets of H.264 (RFC 6184) and HEVC (RFC 7798): pure functions, NAL units to payloads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

CLOCK_HZ: Final = 90_000
PAYLOAD_TYPE: Final = 96
"""First of the dynamic ones (RFC 3551 section 6)."""
EXTENSION_URI: Final = "urn:x-vil-bridge:frame"

_START_CODE: Final = re.compile(rb"\x00\x00\x01")
_FIXED: Final = Struct(">BBHII")
_EXTENSION: Final = Struct(">HHBQQ3x")
_ONE_BYTE_PROFILE: Final = 0xBEDE
_EXTENSION_ID: Final = 1
HEADER_BYTES: Final = _FIXED.size + _EXTENSION.size
"""Of every packet, before its payload."""


class NalSyntax(NamedTuple):
    """Differences between the two codecs.

    Attributes:
        header_bytes: of a NAL unit.
        type_of: a NAL unit's type.
        aggregate_header: of a payload that holds several NAL units.
        fragment_header: of a payload that holds a part of one.
        parameter_sets: types of the NAL units without which no picture can be decoded.
    """

    header_bytes: int
    type_of: Callable[[bytes], int]
    aggregate_header: Callable[[Sequence[bytes]], bytes]
    fragment_header: Callable[[bytes], bytes]
    parameter_sets: tuple[int, ...]


def _h264_type(nal: bytes) -> int:
    return nal[0] & 0x1F


def _stap_a(nals: Sequence[bytes]) -> bytes:
    """RFC 6184 section 5.7.1: F set where any is, the highest NRI, type 24."""
    forbidden = max(nal[0] & 0x80 for nal in nals)
    return bytes([forbidden | max(nal[0] & 0x60 for nal in nals) | 24])


def _fu_a(nal: bytes) -> bytes:
    """RFC 6184 section 5.8: the NAL unit's F and NRI, type 28."""
    return bytes([nal[0] & 0xE0 | 28])


def _hevc_type(nal: bytes) -> int:
    return nal[0] >> 1 & 0x3F


def _hevc_header(forbidden: int, nal_type: int, layer: int, temporal: int) -> bytes:
    return (forbidden << 15 | nal_type << 9 | layer << 3 | temporal).to_bytes(2, "big")


def _ap(nals: Sequence[bytes]) -> bytes:
    """RFC 7798 section 4.4.2: F set where any is, the lowest layer and temporal ids, type 48."""
    headers = [int.from_bytes(nal[:2], "big") for nal in nals]
    return _hevc_header(
        max(h >> 15 for h in headers),
        48,
        min(h >> 3 & 0x3F for h in headers),
        min(h & 7 for h in headers),
    )


def _fu(nal: bytes) -> bytes:
    """RFC 7798 section 4.4.3: the NAL unit's F, layer and temporal ids, type 49."""
    header = int.from_bytes(nal[:2], "big")
    return _hevc_header(header >> 15, 49, header >> 3 & 0x3F, header & 7)


H264: Final = NalSyntax(1, _h264_type, _stap_a, _fu_a, (7, 8))
HEVC: Final = NalSyntax(2, _hevc_type, _ap, _fu, (32, 33, 34))


def nal_units(stream: bytes) -> list[bytes]:
    """NAL units of an Annex B byte stream, start codes and trailing zeros removed."""
    _before, *pieces = _START_CODE.split(stream)
    return [nal for piece in pieces if (nal := piece.rstrip(b"\0"))]


def payloads(nals: Iterable[bytes], syntax: NalSyntax, limit_bytes: int) -> Iterator[bytes]:
    """RTP payloads of one picture.

    Single NAL units, several small ones together, large ones in parts.

    Args:
        nals: in decoding order.
        syntax: :data:`H264` or :data:`HEVC`.
        limit_bytes: no payload is larger; at least 16.
    """
    together: list[bytes] = []
    size = syntax.header_bytes
    for nal in nals:
        if together and size + 2 + len(nal) > limit_bytes:
            yield _joined(together, syntax)
            together = []
            size = syntax.header_bytes
        if len(nal) > limit_bytes:
            yield from _parts(nal, syntax, limit_bytes)
        else:
            together.append(nal)
            size += 2 + len(nal)
    if together:
        yield _joined(together, syntax)


def _joined(nals: list[bytes], syntax: NalSyntax) -> bytes:
    if len(nals) == 1:
        return nals[0]
    return syntax.aggregate_header(nals) + b"".join(
        len(nal).to_bytes(2, "big") + nal for nal in nals
    )


def _parts(nal: bytes, syntax: NalSyntax, limit_bytes: int) -> Iterator[bytes]:
    """Equal parts, so that no packet is much smaller than the others."""
    header = syntax.fragment_header(nal)
    nal_type = syntax.type_of(nal)
    body = memoryview(nal)[syntax.header_bytes :]
    room = limit_bytes - len(header) - 1
    count = -(-len(body) // room)
    for i in range(count):
        begin = len(body) * i // count
        end = len(body) * (i + 1) // count
        flags = (i == 0) << 7 | (i == count - 1) << 6
        yield b"".join((header, bytes([flags | nal_type]), body[begin:end]))


def rtp_ticks(t_ns: int) -> int:
    """Return a bridge time on the 90 kHz clock, not yet reduced to 32 bits."""
    return t_ns * 9 // 100_000


def rtp_packet(
    payload: bytes,
    *,
    marker: bool,
    sequence: int,
    ticks: int,
    ssrc: int,
    frame_id: int,
    t_display_ns: int,
) -> bytes:
    """One packet (RFC 3550 section 5.1) with the frame's identity as one-byte header extension.

    RFC 8285.

    Args:
        payload: of :func:`payloads`.
        marker: True for a picture's last packet.
        sequence: of the packet, reduced to 16 bits.
        ticks: of the picture, reduced to 32 bits.
        ssrc: of the stream.
        frame_id: of the picture.
        t_display_ns: instant that the picture shows, bridge time.
    """
    fixed = _FIXED.pack(
        0x90, marker << 7 | PAYLOAD_TYPE, sequence & 0xFFFF, ticks & 0xFFFF_FFFF, ssrc
    )
    element = _EXTENSION_ID << 4 | 15  # sixteen bytes follow
    extension = _EXTENSION.pack(
        _ONE_BYTE_PROFILE, (_EXTENSION.size - 4) // 4, element, frame_id, t_display_ns
    )
    return b"".join((fixed, extension, payload))
