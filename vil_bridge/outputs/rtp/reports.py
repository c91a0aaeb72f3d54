"""RTCP (RFC 3550 section 6).

What a sender says of its clock, and what receivers say of the packets.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ProtocolError
from vil_bridge.outputs.rtp.packets import CLOCK_HZ

_NTP_EPOCH_S: Final = 2_208_988_800  # 1900 to 1970
_SENDER_REPORT = 200
_RECEIVER_REPORT = 201
_DESCRIPTION = 202
_CNAME: Final = 1
_VERSION: Final = 0x80
_HEAD: Final = Struct(">BBH")
_SOURCE: Final = Struct(">I")
_SENDER: Final = Struct(">QIII")
_BLOCK: Final = Struct(">IB3sIIII")


class ReceiverReport(NamedTuple):
    """Report of one receiver about one stream.

    Attributes:
        lost_fraction: of the packets since its last report, 0 to 1.
        jitter_s: mean deviation of the packets' intervals.
        round_trip_s: from a sender report to this one, less what it lay at the receiver; None = it
            got none.
    """

    lost_fraction: float
    jitter_s: float
    round_trip_s: float | None


def ntp_time(utc_ns: int) -> int:
    """Unix nanoseconds as NTP's seconds since 1900, 32.32 fixed point."""
    seconds, rest_ns = divmod(utc_ns, NS_PER_S)
    return (seconds + _NTP_EPOCH_S & 0xFFFF_FFFF) << 32 | (rest_ns << 32) // NS_PER_S


def sender_report(
    ssrc: int, utc_ns: int, ticks: int, packets: int, payload_bytes: int, cname: str
) -> bytes:
    """Return a compound packet: the sender's report, and its name.

    Args:
        ssrc: of the stream.
        utc_ns: now, Unix time.
        ticks: the same instant on the stream's clock.
        packets: sent so far.
        payload_bytes: sent so far.
        cname: name of the sender, at most 255 bytes.
    """
    sender = _SENDER.pack(
        ntp_time(utc_ns), ticks & 0xFFFF_FFFF, packets & 0xFFFF_FFFF, payload_bytes & 0xFFFF_FFFF
    )
    source = _SOURCE.pack(ssrc)
    name = cname.encode()[:255]
    item = bytes([_CNAME, len(name)]) + name
    chunk = item + bytes(4 - len(item) % 4)  # at least one zero ends the list
    return b"".join(
        (
            _HEAD.pack(_VERSION, _SENDER_REPORT, (_SOURCE.size + _SENDER.size) // 4),
            source,
            sender,
            _HEAD.pack(_VERSION | 1, _DESCRIPTION, (_SOURCE.size + len(chunk)) // 4),
            source,
            chunk,
        )
    )


def receiver_reports(data: bytes, ssrc: int, utc_ns: int) -> list[ReceiverReport]:
    """Return the reports about the stream ``ssrc`` in a compound packet that came at ``utc_ns``.

    Raises:
        ProtocolError: it contradicts its own lengths, or is not RTCP.
    """
    found: list[ReceiverReport] = []
    offset = 0
    while offset < len(data):
        if len(data) - offset < _HEAD.size:
            raise ProtocolError("RTCP header truncated", offset=offset, length=len(data))
        first, kind, words = _HEAD.unpack_from(data, offset)
        end = offset + 4 * (words + 1)
        if first & 0xC0 != _VERSION or end > len(data):
            raise ProtocolError("no RTCP packet", offset=offset, length=len(data))
        if kind == _RECEIVER_REPORT:
            begin = offset + _HEAD.size + _SOURCE.size
            blocks = range(begin, begin + (first & 0x1F) * _BLOCK.size, _BLOCK.size)
            if blocks.stop > end:
                raise ProtocolError("report blocks truncated", offset=offset, length=len(data))
            found += [
                report for at in blocks if (report := _report(data, at, ssrc, utc_ns)) is not None
            ]
        offset = end
    return found


def _report(data: bytes, offset: int, ssrc: int, utc_ns: int) -> ReceiverReport | None:
    about, lost, _total, _highest, jitter, last_report, since = _BLOCK.unpack_from(data, offset)
    if about != ssrc:
        return None
    # RFC 3550 section 6.4.1: the middle 32 bits of NTP time, units of 1/65536 s.
    round_trip = ((ntp_time(utc_ns) >> 16) - last_report - since & 0xFFFF_FFFF) / 65536
    return ReceiverReport(lost / 256, jitter / CLOCK_HZ, round_trip if last_report else None)
