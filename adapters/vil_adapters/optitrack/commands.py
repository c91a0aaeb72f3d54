"""Commands of a NatNet server: one question at a time, repeated until it is answered.

Answers do not say what they answer. So the next question waits until late answers to repetitions of
the one before have passed, and an answer of the wrong form leaves the question open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.natnet.codec import (
    MessageId,
    Version,
    bitstream_reply,
    encode_text,
    response_f32,
    response_i32,
)
from vil_bridge.protocols.natnet.reader import HEADER_BYTES

_T = TypeVar("_T")

_TRIES: Final = 10
_TRY_S: Final = 0.02
_QUIET_S: Final = 0.2
_UNITS_RANGE_MM: Final = (1e-3, 1e6)
_RATE_RANGE_HZ: Final = (1e-3, 1e5)


class Commands:
    """Commands sent through ``send``.

    The owner passes every RESPONSE and refusal to :meth:`answer`.

    All commands return None (or False) when the server refuses or does not answer.
    """

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._turn = asyncio.Lock()
        self._read: Callable[[bytes], Any] | None = None
        self._answer: asyncio.Future[Any] | None = None

    def answer(self, datagram: bytes) -> bool:
        """Handle a RESPONSE or UNRECOGNIZED_REQUEST; False = it answers no pending command.

        Answers do not name their command: one that does not fit may be a late copy of an earlier
        one.
        """
        if self._answer is None or self._answer.done() or self._read is None:
            return False
        refused = datagram[0] == MessageId.UNRECOGNIZED_REQUEST
        try:
            answer = None if refused else self._read(datagram)
        except ProtocolError:
            return False
        self._answer.set_result(answer)
        return True

    async def units_mm(self) -> float | None:
        """Ask for the millimetres per streamed unit of length."""
        return await self._ask("UnitsToMillimeters", lambda reply: _within(reply, _UNITS_RANGE_MM))

    async def frame_rate_hz(self) -> float | None:
        """Ask for the frames per second that the server is set to."""
        return await self._ask("FrameRate", lambda reply: _within(reply, _RATE_RANGE_HZ))

    async def bitstream(self) -> Version | None:
        """Ask for the layout of what this client is sent (NatNet 4.0 and newer, unicast)."""
        return await self._ask("Bitstream", _read_bitstream)

    async def set_bitstream(self, version: Version) -> bool:
        """Ask for another layout; the first frame that has it is marked (``BITSTREAM_CHANGED``)."""
        return await self._ask(f"Bitstream,{version[0]}.{version[1]}", response_i32) == 0

    async def subscribe(self, kind: str, name: str) -> bool:
        """Subscribe to assets of a kind and name (NatNet 4.0 and newer, unicast).

        Adds to earlier ones.
        """
        return await self._ask(f"SubscribeToData,{kind},{name}", response_i32) == 0

    async def unsubscribe(self) -> bool:
        """Remove all subscriptions, so that everything is sent."""
        return await self._ask("SubscribeToData,,", response_i32) == 0

    async def _ask(self, command: str, read: Callable[[bytes], _T]) -> _T | None:
        async with self._turn:
            answer: asyncio.Future[_T | None] = asyncio.get_running_loop().create_future()
            self._answer = answer
            self._read = read
            try:
                tries = 0
                while tries < _TRIES and not answer.done():
                    tries += 1
                    self._send(encode_text(MessageId.REQUEST, command))
                    await asyncio.wait((answer,), timeout=_TRY_S)
                if tries > 1:
                    await asyncio.sleep(_QUIET_S)
                return answer.result() if answer.done() else None
            finally:
                self._answer = self._read = None


def _within(reply: bytes, limits: tuple[float, float]) -> float:
    value = response_f32(reply)
    if not limits[0] <= value <= limits[1]:
        raise ProtocolError(
            f"{value} is outside of {limits}", offset=HEADER_BYTES, length=len(reply)
        )
    return value


def _read_bitstream(reply: bytes) -> Version:
    version = bitstream_reply(reply)
    if version is None:
        raise ProtocolError("not the bitstream's version", offset=HEADER_BYTES, length=len(reply))
    return version
