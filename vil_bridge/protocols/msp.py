"""MultiWii Serial Protocol, versions 1 and 2: bytes to messages and back, as pure functions.

Version 1: ``$M``, direction, payload length u8, command u8, payload, XOR of all from the length on.
Version 2: ``$X``, direction, flag u8, command u16, payload length u16, payload, CRC-8/DVB-S2 of all
from the flag on. Directions: ``<`` request, ``>`` answer, ``!`` refusal. Source: the "MSP V2" page
of INAV's wiki and Betaflight's src/main/msp/msp_serial.c.
"""

from __future__ import annotations

from enum import Enum
from functools import reduce
from operator import xor
from struct import Struct
from typing import Final, Literal, NamedTuple

from vil_bridge.core.errors import ProtocolError

Version = Literal[1, 2]
RAW_IMU: Final = 102
"""Command: nothing to send, 18 bytes to receive."""

_HEAD_1: Final = Struct("<BB")
_HEAD_2: Final = Struct("<BHH")
_START: Final = 3  # "$", version, direction
_SIX_AND_A_COMPASS: Final = Struct("<9h")
_MIN_INT16: Final = -32768
_MAX_INT16: Final = 32767


class MspDirection(Enum):
    """Direction and kind of a frame."""

    REQUEST = b"<"
    ANSWER = b">"
    REFUSAL = b"!"


class MspMessage(NamedTuple):
    """One frame."""

    version: Version
    direction: MspDirection
    command: int
    payload: bytes


class MspRawImu(NamedTuple):
    """MSP_RAW_IMU: counts of the sensors, x forward, y left, z up."""

    acc: tuple[int, int, int]
    gyro: tuple[int, int, int]


def _crc8_table() -> tuple[int, ...]:
    def after_eight(value: int) -> int:
        for _ in range(8):
            value = (value << 1 ^ 0xD5 if value & 0x80 else value << 1) & 0xFF
        return value

    return tuple(after_eight(value) for value in range(256))


_CRC8: Final = _crc8_table()


def _checksum(version: Version, data: bytes) -> int:
    if version == 1:
        return reduce(xor, data, 0)
    return reduce(lambda crc, byte: _CRC8[crc ^ byte], data, 0)


def encode(message: MspMessage) -> bytes:
    """Return the frame of a message.

    Raises:
        struct.error: the command or the payload is too long for the version.
    """
    version, direction, command, payload = message
    if version == 1:
        begin = b"$M"
        body = _HEAD_1.pack(len(payload), command) + payload
    else:
        begin = b"$X"
        body = _HEAD_2.pack(0, command, len(payload)) + payload
    return begin + direction.value + body + bytes((_checksum(version, body),))


def pack_raw_imu(reading: MspRawImu) -> bytes:
    """Return the payload of a reading; what does not fit saturates."""
    counts = (min(max(value, _MIN_INT16), _MAX_INT16) for value in (*reading.acc, *reading.gyro))
    return _SIX_AND_A_COMPASS.pack(*counts, 0, 0, 0)


def unpack_raw_imu(payload: bytes) -> MspRawImu:
    """Return the reading of a payload.

    Raises:
        ProtocolError: it has another length.
    """
    if len(payload) != _SIX_AND_A_COMPASS.size:
        raise ProtocolError("MSP_RAW_IMU must have 18 bytes", length=len(payload))
    ax, ay, az, gx, gy, gz, *_ = _SIX_AND_A_COMPASS.unpack(payload)
    return MspRawImu((ax, ay, az), (gx, gy, gz))


_VERSIONS: Final[dict[int, Version]] = {ord("M"): 1, ord("X"): 2}
_DIRECTIONS: Final = {direction.value[0]: direction for direction in MspDirection}


class MspParser:
    """Parser of messages in a stream of bytes that may start anywhere and hold anything.

    A frame whose checksum is wrong is given up from its second byte on, so that a good frame inside
    its claimed length is still found. Who asks for short messages only says so, and no false length
    can then hold back more than one of them.

    Args:
        longest: bytes of payload; a frame that claims more is none.

    Attributes:
        bad_checksum: frames with a wrong checksum.
        garbage: bytes outside of any frame.
    """

    def __init__(self, longest: int = 254) -> None:
        self.bad_checksum = 0
        self.garbage = 0
        self._longest = longest
        self._pending = b""

    def feed(self, data: bytes) -> list[MspMessage]:
        """Take the next bytes of the stream; returns the messages that they complete.

        Never raises.
        """
        data = self._pending + data
        messages: list[MspMessage] = []
        at = 0
        while at < len(data):
            start = data.find(b"$", at)
            if start < 0:
                start = len(data)
            self.garbage += start - at
            at = start
            size = self._size(data, at)
            if size is None or at + size > len(data):
                break
            message = _read(data[at : at + size]) if size else None
            if message is None:
                self.bad_checksum += size > 0
                self.garbage += 1
                at += 1
                continue
            messages.append(message)
            at += size
        self._pending = data[at:]
        return messages

    def give_up(self) -> None:
        """Drop a frame in progress: no more of it will come."""
        self.garbage += len(self._pending)
        self._pending = b""

    def _size(self, data: bytes, at: int) -> int | None:
        """Return the size of the frame that starts at ``at``.

        None when its head is incomplete, 0 when it is none.
        """
        begin = data[at : at + _START]
        if (len(begin) > 1 and begin[1] not in _VERSIONS) or (
            len(begin) > 2 and begin[2] not in _DIRECTIONS
        ):
            return 0
        if len(begin) < _START:
            return None
        head = _HEAD_1 if begin[1] == ord("M") else _HEAD_2
        if len(data) < at + _START + head.size:
            return None
        fields = head.unpack_from(data, at + _START)
        length: int = fields[0] if head is _HEAD_1 else fields[2]
        return _START + head.size + length + 1 if length <= self._longest else 0


def _read(frame: bytes) -> MspMessage | None:
    """Return the message of a whole frame, None when its checksum is wrong."""
    version = _VERSIONS[frame[1]]
    direction = _DIRECTIONS[frame[2]]
    body = frame[_START:-1]
    if _checksum(version, body) != frame[-1]:
        return None
    if version == 1:
        return MspMessage(version, direction, body[1], body[_HEAD_1.size :])
    return MspMessage(version, direction, _HEAD_2.unpack_from(body)[1], body[_HEAD_2.size :])
