"""Simulated vehicles through the eyes of a motion-capture room.

Frames come out when they arrive.
"""

from __future__ import annotations

import numpy as np
import pytest

from vil_simulation.source.mocap_model import MocapModel

_MS = 1_000_000


def test_frames_that_jitter_come_out_with_the_first_one_after_their_arrival() -> None:
    """5 ms on average on top of 15, at 100 Hz: sometimes three arrive together.

    None waits for those behind it.
    """
    room = MocapModel(1, {"rate_hz": 100.0, "latency_s": 0.015, "jitter_s": 0.005}, seed=3)
    states = np.zeros((1, 13))
    states[:, 9] = 1.0
    numbers, together = [], 0
    for frame in range(3000):
        t_ns = frame * 10 * _MS
        seen = list(room.frames(t_ns, states, "room", ("drone",)))
        assert all(t_ns - 10 * _MS < one.t_arrival_ns <= t_ns for one in seen)
        numbers += [one.frame_number for one in seen]
        together = max(together, len(seen))
    assert numbers == list(range(1, len(numbers) + 1))
    assert together >= 3
    assert len(numbers) >= 2990


def test_a_room_without_jitter_is_late_by_its_latency() -> None:
    room = MocapModel(2, {"rate_hz": 100.0, "latency_s": 0.03}, seed=1)
    states = np.zeros((2, 13))
    states[:, 9] = 1.0
    frames = [list(room.frames(k * 10 * _MS, states, "room", ("a", "b"))) for k in range(6)]
    assert [len(seen) for seen in frames] == [0, 0, 0, 1, 1, 1]
    assert frames[3][0].t_foreign_ns == 0
    with pytest.raises(ValueError, match="no parameter 'rate'; known: rate_hz"):
        MocapModel(1, {"rate": 100.0}, seed=1)
