"""Refusals of a renderer's messages.

All are counted, and a peer that comes again and again does not fill the log.
"""

from __future__ import annotations

import logging
import string

import pytest

from vil_bridge.runtime.rates import RateLimiter
from vil_renderer.refusals import RefusalLog


def test_a_peer_that_connects_again_and_again_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    refusals = RefusalLog(logging.getLogger("vil_renderer.test"), "hall")
    for _ in range(50):
        refusals.reset()
        for kind in ("no JSON", "no picture", "no subscription"):
            for number in range(3):
                refusals.add(f"{kind} in message {number}")
        assert set(refusals.counts().values()) == {3} and len(refusals.counts()) == 3
    lines = [record.getMessage() for record in caplog.records]
    assert 16 <= len(lines) <= 18
    assert all(
        any(kind in line for line in lines[:3])
        for kind in ("no JSON", "no picture", "no subscription")
    )


def test_a_kind_that_found_no_room_in_the_log_is_logged_later(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    now_s = [100.0]
    refusals = RefusalLog(logging.getLogger("vil_renderer.test"), "hall")
    monkeypatch.setattr(refusals, "_lines", RateLimiter(1.0, 16, lambda: now_s[0]))
    kinds = string.ascii_lowercase[:18]
    for _ in range(3):
        for kind in kinds:
            refusals.add(kind)
    assert len(caplog.records) == 16, "no more at once"
    for _ in range(3):
        now_s[0] += 1.0
        for kind in kinds:
            refusals.add(kind)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 18 and "hall: r (logged once per peer)" in lines
