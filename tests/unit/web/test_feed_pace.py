"""The beat of feeds: it goes on as long as somebody is there."""

from __future__ import annotations

import asyncio
import logging

import pytest
from fastapi import WebSocket
from starlette.types import Message

from tests.support.common import PATIENCE_S
from vil_bridge.runtime import pacing
from vil_bridge.runtime.pacing import CachedValue, PeriodicTask, SlotTimer
from vil_bridge.web.live.frames import framed, until_left


async def test_a_turn_that_fails_does_not_end_the_feed(caplog: pytest.LogCaptureFixture) -> None:
    served, ended = 0, asyncio.Event()

    def turn() -> bool:
        nonlocal served
        served += 1
        if served == 4:
            ended.set()
            return False
        if served > 1:
            raise RuntimeError(f"turn {served}")
        return True

    PeriodicTask(turn, 200.0).start()
    await asyncio.wait_for(ended.wait(), PATIENCE_S)
    assert [(r.levelno, str(r.exc_info[1])) for r in caplog.records if r.exc_info] == [
        (logging.ERROR, "turn 2")
    ]


def test_one_passes_in_each_slot_and_unused_slots_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    t_ns = 10**12
    monkeypatch.setattr(pacing, "machine_ns", lambda: t_ns)
    pace, made = SlotTimer(10.0), list[int]()
    shared = CachedValue(lambda: made.append(t_ns) or len(made), 10.0)  # type: ignore[func-returns-value]
    for later_ms, due, unused, left_s, value in (
        (0, True, 0, 0.1, 1),
        (99, False, 0, 0.001, 1),
        (1, True, 0, 0.1, 2),
    ):
        t_ns += later_ms * 1_000_000
        assert (pace.due(), shared.get()) == (due, value)
        assert pace.passed() == unused and pace.left_s() == left_s
    t_ns += 350 * 1_000_000
    assert (pace.due(), pace.left_s(), pace.passed(), shared.get()) == (True, 0.0, 2, 3)


def test_a_value_that_is_made_into_the_next_slot_is_made_again_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Readers of both slots would get the same value twice."""
    t_ns = 10**12 + 99_000_000
    monkeypatch.setattr(pacing, "machine_ns", lambda: t_ns)

    def make() -> int:
        nonlocal t_ns
        begun_ns = t_ns
        t_ns += 2_000_000
        return begun_ns

    shared = CachedValue(make, 10.0)
    assert shared.get() == 10**12 + 99_000_000
    assert shared.get() == 10**12 + 101_000_000
    assert shared.get() == 10**12 + 101_000_000


def test_texts_and_bytes_are_framed_as_rfc_6455_says() -> None:
    assert framed("ab") == b"\x81\x02ab"
    assert framed(b"ab") == b"\x82\x02ab"


async def test_what_a_client_says_does_not_end_its_feed() -> None:
    waiting: list[Message] = [
        {"type": "websocket.connect"},
        {"type": "websocket.receive", "text": "more"},
        {"type": "websocket.disconnect", "code": 1000},
    ]

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(_message: Message) -> None:
        pass

    websocket = WebSocket({"type": "websocket"}, receive, send)
    await websocket.accept()
    await until_left(websocket)
    assert not waiting
