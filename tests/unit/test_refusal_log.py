"""Refusals of a renderer's messages: all are counted, and a peer that comes again and again does not fill the log."""

from __future__ import annotations

import logging

import pytest

from vil_renderer.refusals import RefusalLog


def test_a_peer_that_connects_again_and_again_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    refusals = RefusalLog(logging.getLogger("vil_renderer.test"), "hall")
    for _ in range(50):
        refusals.reset()
        for kind in ("no JSON", "no picture", "no subscription"):
            for number in range(3):
                refusals.add(f"{kind} in message {number}")
        assert set(refusals.counts().values()) == {3} and len(refusals.counts()) == 3
    lines = [record.getMessage() for record in caplog.records]
    assert 3 <= len(lines) <= 5
    assert all(any(kind in line for line in lines[:3]) for kind in ("no JSON", "no picture", "no subscription"))
