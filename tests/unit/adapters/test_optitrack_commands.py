"""Answers of NatNet do not say which question they answer."""

from __future__ import annotations

import asyncio
import struct

from vil_adapters.optitrack.commands import Commands
from vil_bridge.protocols.natnet.codec import MessageId, decode_text, encode, encode_text

RATE = encode(MessageId.RESPONSE, struct.pack("<f", 120.0))
BITSTREAM = encode_text(MessageId.RESPONSE, "Bitstream,4.1")


async def test_a_copy_of_an_earlier_answer_is_passed_over_and_the_question_stays_asked() -> None:
    asked: list[str] = []
    taken: list[bool] = []

    def send(question: bytes) -> None:
        asked.append(decode_text(question))
        for answer in {"Bitstream": (RATE, BITSTREAM), "FrameRate": (BITSTREAM, RATE)}[asked[-1]]:
            asyncio.get_running_loop().call_soon(take, answer)

    def take(answer: bytes) -> None:
        taken.append(commands.answer(answer))

    commands = Commands(send)
    assert await commands.bitstream() == (4, 1, 0, 0)
    assert await commands.frame_rate_hz() == 120.0
    assert asked == ["Bitstream", "FrameRate"], "nothing had to be asked twice"
    assert taken == [False, True] * 2
    assert not commands.answer(RATE), "nothing is asked any more"
