"""Recordings onto a disk that is full."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

from tests.support.common import wait_until
from tests.support.record import picture, record, recorder, same, some_events
from vil_bridge.recording.reader import Recording


@pytest.mark.process
def test_a_disk_that_is_full_already_is_told_and_nothing_is_left(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes((1 << 20) - 8192))
    with contextlib.suppress(OSError), (small_disk / "last").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with recorder(small_disk / "a.mcap") as full:
        assert not full.open
    report = full.report()
    assert report.state == "failed"
    assert "No space left on device; nothing was written" in report.reason
    (small_disk / "filler").unlink()
    assert record(small_disk / "a.mcap", some_events(1)).report().state == "done"


@pytest.mark.process
def test_a_full_disk_ends_the_recording_and_leaves_it_readable(small_disk: Path) -> None:
    path = small_disk / "a.mcap"
    noise = np.random.default_rng(1)
    events = some_events(40)
    with recorder(path) as recording:
        head = path.stat().st_size
        for event in events:
            recording.queue.enqueue_event(event)
        wait_until(lambda: path.stat().st_size > head)
        while recording.open:
            full = picture(1, size=(480, 640))._replace(
                pixels=noise.integers(0, 256, (480, 640, 3), np.uint8)
            )
            recording.queue.enqueue_picture(full)
            wait_until(lambda: not recording.queue.waiting or not recording.open)
        wait_until(lambda: recording.report().state == "failed")
        recording.queue.enqueue_event(events[0])
    reason = recording.report().reason
    assert "No space left on device" in reason and str(path) in reason
    with Recording(path) as read:
        assert read.truncated
        assert all(same(a, b) for a, b in zip(events, read.events(), strict=True))
