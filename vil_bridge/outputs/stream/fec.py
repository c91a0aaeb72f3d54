"""Pictures in datagrams with parity, and the reports of their readers (docs/reference/stream.md).

A message (4 bytes with the header's size, header, payload) is cut into chunks, and every group of
up to sixteen of them gets two parity packets, from which any two lost packets of the group are made
again: P, the XOR of its chunks, and Q, the XOR of the chunks times 1, g, g^2... in GF(2^8) with g =
2 and the polynomial 0x11D (as RAID 6 has it: H. P. Anvin, "The mathematics of RAID-6", sections 2
to 4). One XOR for eight chunks costs as much and loses eight times the pictures at 1 % loss. Group
``i`` of ``n`` holds the chunks ``i``, ``i + n``, ``i + 2 n``..., so that packets lost in a row
belong to different groups. Pure functions; little-endian.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.errors import ProtocolError

CHUNK_BYTES: Final = 1300
"""With all headers below 1400 bytes, which tunnels let pass uncut."""
MAX_MESSAGE_BYTES: Final = 4 << 20
GROUP: Final = 16

# Magic, stream, number, frame, size, index, chunks, bytes per chunk.
_PACKET: Final = struct.Struct("<4s8sQIIHHH")
_PACKET_MAGIC: Final = b"VILU"
COOKIE_BYTES: Final = 16
_REPORT: Final = struct.Struct("<4s8sQQQqqq16s16s")
_REPORT_MAGIC: Final = b"VILR"
_OLDER_REPORT_BYTES: Final = 76
_CHALLENGE_MAGIC: Final = b"VILC"
_MAC_BYTES: Final = 16
_HEADER_SIZE: Final = struct.Struct("<I")


class Report(NamedTuple):
    """Datagram of a reader: it is present, what reached it, and which frame is complete.

    Attributes:
        stream: as :func:`stream_id` makes it.
        serial: grows with every report, so that none can be sent again by others.
        highest, received: largest number of a packet that came, and how many came.
        frame_id: frame that is complete, 0 = none new.
        t_received_ns, uncertainty_ns: when, in bridge time as far as known.
        cookie: of the last challenge, which proves that the reader receives at its address.
    """

    stream: bytes
    serial: int
    highest: int
    received: int
    frame_id: int
    t_received_ns: int
    uncertainty_ns: int
    cookie: bytes = bytes(COOKIE_BYTES)


def stream_id(token: str) -> bytes:
    """Return 8 bytes that identify a reader's datagrams without giving its token away."""
    return hashlib.sha256(b"vil-udp" + token.encode()).digest()[:8]


def packets(
    stream: bytes, frame: int, number: int, header: bytes, payload: bytes | memoryview
) -> list[bytes]:
    """Return the datagrams of a picture, parity last.

    Args:
        stream: 8 bytes.
        frame: of the stream, counted from 1.
        number: of the first packet; the others follow.
        header: JSON.
        payload: what it describes.

    Raises:
        ProtocolError: more than ``MAX_MESSAGE_BYTES``.
    """
    message = b"".join((_HEADER_SIZE.pack(len(header)), header, payload))
    size = len(message)
    if size > MAX_MESSAGE_BYTES:
        raise ProtocolError(
            f"{size} bytes are too much for datagrams, the limit is {MAX_MESSAGE_BYTES}",
            length=size,
        )
    chunks = -(-size // CHUNK_BYTES)
    groups = -(-chunks // GROUP)
    rows = -(-chunks // groups)
    padded = np.zeros(rows * groups * CHUNK_BYTES, np.uint8)
    padded[:size] = np.frombuffer(message, np.uint8)
    grid = padded.reshape(rows, groups, CHUNK_BYTES)
    p = np.bitwise_xor.reduce(grid, axis=0)
    q = grid[-1]
    for row in grid[-2::-1]:  # Horner
        q = (q << 1) ^ ((q >> 7) * np.uint8(0x1D)) ^ row
    bodies = [message[at : at + CHUNK_BYTES] for at in range(0, size, CHUNK_BYTES)]
    bodies += [parity.tobytes() for parity in (*p, *q)]
    return [
        _PACKET.pack(_PACKET_MAGIC, stream, number + i, frame, size, i, chunks, CHUNK_BYTES) + body
        for i, body in enumerate(bodies)
    ]


def decode_report(datagram: bytes) -> Report:
    """Parse a reader's datagram; :func:`is_from` verifies it.

    Raises:
        ProtocolError: it is none of ours.
    """
    if len(datagram) == _OLDER_REPORT_BYTES and datagram.startswith(_REPORT_MAGIC):
        raise ProtocolError(
            "the report of an older client. Copy this bridge's client.py to the vehicle again"
        )
    if len(datagram) != _REPORT.size or not datagram.startswith(_REPORT_MAGIC):
        raise ProtocolError("not a report of a reader", length=len(datagram))
    return Report(*_REPORT.unpack(datagram)[1:-1])


def is_from(token: str, datagram: bytes) -> bool:
    """Return True when a report was made with the token.

    HMAC-SHA-256, RFC 2104, its first 16 bytes.
    """
    return hmac.compare_digest(_mac(token, datagram[:-_MAC_BYTES]), datagram[-_MAC_BYTES:])


def encode_challenge(token: str, cookie: bytes) -> bytes:
    """Return the datagram that asks a reader for a cookie back, 44 bytes.

    Shorter than any report.
    """
    body = _CHALLENGE_MAGIC + stream_id(token) + cookie
    return body + _mac(token, body)


def _mac(token: str, body: bytes) -> bytes:
    return hmac.digest(token.encode(), body, "sha256")[:_MAC_BYTES]
