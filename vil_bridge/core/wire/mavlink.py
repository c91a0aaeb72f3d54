"""MAVLink framing: bytes to messages and back, as pure functions (version 1 and 2 in, version 2 out).

Frame (version 2): 0xFD, payload length, incompatibility flags, compatibility flags, sequence,
system, component, message id (3 bytes), payload with its trailing zeros cut off, checksum, and a
13-byte signature when flag bit 0 is set. The checksum is CRC-16/MCRF4XX over everything after the
magic byte and one constant per message that depends on its fields. Messages here hold the values of
the wire: the units stand in the field names or, where a dialect leaves them open, in the docstring.
Source: the MAVLink "common" dialect and https://mavlink.io/en/guide/serialization.html.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, NamedTuple

__all__ = [
    "AUTOPILOT_INVALID",
    "CMD_SET_MESSAGE_INTERVAL",
    "RESULTS",
    "RESULT_ACCEPTED",
    "RESULT_FAILED",
    "STATE_ACTIVE",
    "TYPE_ONBOARD_CONTROLLER",
    "Body",
    "CommandAck",
    "CommandLong",
    "Heartbeat",
    "HighresImu",
    "Message",
    "Parser",
    "RawImu",
    "ScaledImu",
    "ScaledImu2",
    "ScaledImu3",
    "TimeSync",
    "encode",
    "message_id",
]

TYPE_ONBOARD_CONTROLLER: Final = 18
AUTOPILOT_INVALID: Final = 8
STATE_ACTIVE: Final = 4
CMD_SET_MESSAGE_INTERVAL: Final = 511
RESULT_ACCEPTED: Final = 0
RESULT_FAILED: Final = 4
RESULTS: Final = ("accepted", "temporarily rejected", "denied", "unsupported", "failed", "in progress", "cancelled")
"""Names of the first values of a COMMAND_ACK's result."""

_MAGIC_1: Final = 0xFE
_MAGIC_2: Final = 0xFD
_HEADER_1: Final = 6
_HEADER_2: Final = 10
_CHECKSUM: Final = 2
_SIGNATURE: Final = 13
_SIGNED: Final = 0x01


class Heartbeat(NamedTuple):
    """HEARTBEAT: what the sender is; ``autopilot`` is AUTOPILOT_INVALID for anything but one."""

    custom_mode: int
    type: int
    autopilot: int
    base_mode: int
    system_status: int
    mavlink_version: int = 3


class TimeSync(NamedTuple):
    """TIMESYNC: a request has ``tc1_ns`` 0; the answer copies ``ts1_ns`` and puts its own clock in ``tc1_ns``."""

    tc1_ns: int
    ts1_ns: int


class HighresImu(NamedTuple):
    """HIGHRES_IMU: body FRD; ``fields_updated`` bits 0-2 accelerometer, 3-5 gyroscope; id counts the IMUs."""

    time_usec: int
    xacc_mps2: float
    yacc_mps2: float
    zacc_mps2: float
    xgyro_radps: float
    ygyro_radps: float
    zgyro_radps: float
    xmag_gauss: float = 0.0
    ymag_gauss: float = 0.0
    zmag_gauss: float = 0.0
    abs_pressure_hpa: float = 0.0
    diff_pressure_hpa: float = 0.0
    pressure_alt_m: float = 0.0
    temperature_degc: float = 0.0
    fields_updated: int = 0x3F
    id: int = 0


class ScaledImu(NamedTuple):
    """SCALED_IMU (first IMU): body FRD, thousandths of g, of rad/s and of gauss."""

    time_boot_ms: int
    xacc_mg: int
    yacc_mg: int
    zacc_mg: int
    xgyro_mradps: int
    ygyro_mradps: int
    zgyro_mradps: int
    xmag_mgauss: int = 0
    ymag_mgauss: int = 0
    zmag_mgauss: int = 0
    temperature_cdegc: int = 0


class ScaledImu2(ScaledImu):
    """SCALED_IMU2: the same of the second IMU."""


class ScaledImu3(ScaledImu):
    """SCALED_IMU3: the same of the third IMU."""


class RawImu(NamedTuple):
    """RAW_IMU: body FRD in the sensor's own units; ArduPilot fills in those of SCALED_IMU."""

    time_usec: int
    xacc: int
    yacc: int
    zacc: int
    xgyro: int
    ygyro: int
    zgyro: int
    xmag: int = 0
    ymag: int = 0
    zmag: int = 0
    id: int = 0
    temperature: int = 0


class CommandLong(NamedTuple):
    """COMMAND_LONG: system and component 0 address everybody, whom PX4 does not count itself among."""

    param1: float
    param2: float
    param3: float
    param4: float
    param5: float
    param6: float
    param7: float
    command: int
    target_system: int = 0
    target_component: int = 0
    confirmation: int = 0


class CommandAck(NamedTuple):
    """COMMAND_ACK: ``result`` indexes RESULTS; version 1 does not tell whom it answers (target 0)."""

    command: int
    result: int
    progress: int = 0
    result_param2: int = 0
    target_system: int = 0
    target_component: int = 0


Body = Heartbeat | TimeSync | HighresImu | ScaledImu | ScaledImu2 | ScaledImu3 | RawImu | CommandLong | CommandAck


class Message(NamedTuple):
    """One received message and who sent it."""

    system: int
    component: int
    sequence: int
    body: Body


@dataclass(frozen=True, slots=True)
class _Kind:
    id: int
    crc_extra: int
    layout: Struct
    make: Callable[..., Body]


_SCALED: Final = Struct("<I9hh")
_KINDS: Final[dict[type[Any], _Kind]] = {
    make: _Kind(id_, crc_extra, layout, make)
    for make, id_, crc_extra, layout in (
        (Heartbeat, 0, 50, Struct("<I5B")),
        (ScaledImu, 26, 170, _SCALED),
        (RawImu, 27, 144, Struct("<Q9hBh")),
        (CommandLong, 76, 152, Struct("<7fH3B")),
        (CommandAck, 77, 143, Struct("<HBBiBB")),
        (HighresImu, 105, 93, Struct("<Q13fHB")),
        (TimeSync, 111, 34, Struct("<qq")),
        (ScaledImu2, 116, 76, _SCALED),
        (ScaledImu3, 129, 46, _SCALED),
    )
}
_BY_ID: Final = {kind.id: kind for kind in _KINDS.values()}


def message_id(kind: type[Any]) -> int:
    """Number of a message class on the wire."""
    return _KINDS[kind].id


_MIRROR: Final = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))


def _checksum(data: bytes, crc_extra: int) -> int:
    # MCRF4XX is the mirror image of CRC-16/CCITT: mirror the bits in, mirror the result.
    crc = crc_hqx((data + bytes((crc_extra,))).translate(_MIRROR), 0xFFFF)
    return _MIRROR[crc & 0xFF] << 8 | _MIRROR[crc >> 8]


def encode(body: Body, sequence: int, *, system: int, component: int) -> bytes:
    """One message as an unsigned version 2 frame.

    Args:
        body: the message.
        sequence: any counter; its low byte is sent.
        system: id of the sending system.
        component: id of the sending component.

    Raises:
        struct.error: a value is outside the range of its field.
    """
    kind = _KINDS[type(body)]
    payload = kind.layout.pack(*body).rstrip(b"\0") or b"\0"
    head = bytes((len(payload), 0, 0, sequence & 0xFF, system, component)) + kind.id.to_bytes(3, "little")
    crc = _checksum(head + payload, kind.crc_extra)
    return bytes((_MAGIC_2,)) + head + payload + crc.to_bytes(2, "little")


_ANY_MAGIC: Final = re.compile(b"[\xfd\xfe]")


class Parser:
    """Finds messages in a stream of bytes that may start anywhere and hold anything.

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

    def feed(self, data: bytes) -> list[Message]:
        """Take the next bytes of the stream; returns the messages that they complete. Never raises."""
        data = self._pending + data
        messages: list[Message] = []
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

    def _frame(self, data: bytes, at: int, size: int, messages: list[Message]) -> int | None:
        """Handle one complete frame; returns the bytes it uses up, None when it takes one more to tell."""
        version_2 = data[at] == _MAGIC_2
        if version_2:
            number = int.from_bytes(data[at + 7 : at + 10], "little")
            sequence, system, component, head = data[at + 4], data[at + 5], data[at + 6], _HEADER_2
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
        if _checksum(data[at + 1 : end], kind.crc_extra) != int.from_bytes(data[end : end + _CHECKSUM], "little"):
            self.bad_crc += 1
            self.garbage += 1
            return 1
        # Cut-off zeros come back; fields newer than our tables are left out.
        length = kind.layout.size
        payload = data[at + head : end][:length].ljust(length, b"\0")
        messages.append(Message(system, component, sequence, kind.make(*kind.layout.unpack(payload))))
        return size


def _frame_size(data: bytes, at: int) -> int | None:
    """Bytes of the frame that starts at ``at``; None when its header is incomplete, 0 when it is none."""
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
