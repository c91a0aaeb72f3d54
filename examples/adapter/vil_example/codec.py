"""Datagrams of the system, both ways; pure functions from bytes to values."""

from __future__ import annotations

from typing import Annotated

import msgspec

from vil_bridge.core.errors import ProtocolError

__all__ = ["StreamedBody", "StreamedFrame", "decode", "encode"]

# TODO: the values of one datagram, as the system sends them (its units, its axes).


class StreamedBody(msgspec.Struct, frozen=True, array_like=True):
    """One rigid body: name, position, quaternion (scalar last), whether it is tracked."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    p: tuple[float, float, float]
    q: tuple[float, float, float, float]
    tracked: bool


class StreamedFrame(msgspec.Struct, frozen=True):
    """One frame: its number, its capture time in the server's clock (microseconds) and its
    bodies.
    """

    number: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
    t_us: Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
    bodies: Annotated[list[StreamedBody], msgspec.Meta(max_length=1000)]


_DECODER = msgspec.json.Decoder(StreamedFrame)


def decode(datagram: bytes) -> StreamedFrame:
    """Read one datagram.

    Raises:
        ProtocolError: it is malformed. Nothing else may be raised, whatever the bytes are.
    """
    # TODO: check every length before use, bound every count, skip unknown parts by their own size.
    try:
        return _DECODER.decode(datagram)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise ProtocolError(f"not a frame: {exc}", length=len(datagram)) from exc


def encode(frame: StreamedFrame) -> bytes:
    """Return the datagram of a frame, for the emulator."""
    # TODO: the inverse of decode().
    return msgspec.json.encode(frame)
