"""The beat of feeds: it goes on as long as somebody is there."""

from __future__ import annotations

import asyncio
import logging

import pytest

from vil_bridge.dashboard.feed_pace import Beat


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

    Beat(turn, 200.0).start()
    await asyncio.wait_for(ended.wait(), 10)
    assert [(r.levelno, str(r.exc_info[1])) for r in caplog.records if r.exc_info] == [(logging.ERROR, "turn 2")]
