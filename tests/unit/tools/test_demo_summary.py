"""The lines that a demonstration ends with."""

from __future__ import annotations

from typing import Any

from vil_simulation.demo.collect import StreamReader
from vil_simulation.demo.results import summary_lines


def _summary(**figures: Any) -> dict[str, Any]:
    pixels = {"uncompensated": None, "compensated": None}
    return {"first_picture_s": 3.0, "latency_ms": {}, "reprojection_px": pixels, **figures}


def test_a_pause_on_purpose_does_not_lower_the_rate() -> None:
    reader = StreamReader("tcp://127.0.0.1:1", "front")
    reader.frames = 121
    reader.first_ns = 1
    reader.last_ns = 9_400_000_001
    assert reader.seconds == 9.4
    assert reader.fps == 120 / 9.4
    assert reader.fps_without(4.4) == 24.0
    assert reader.fps_without(9.4) == 0.0


def test_the_summary_states_the_rate_while_tracked_and_for_how_long_it_was_not() -> None:
    figures = {
        "frames_received": 121,
        "fps": 12.77,
        "fps_while_tracked": 24.0,
        "seconds": 9.4,
        "untracked_s": 4.4,
    }
    (line, *_) = summary_lines(_summary(**figures))
    assert line == (
        "121 pictures, 24.0 per second while tracked (the recording loses tracking for "
        "4.4 of 9.4 s), "
        "the first after 3.0 s"
    )
    (line, *_) = summary_lines(_summary(**figures | {"untracked_s": 0.0}))
    assert line == "121 pictures, 12.8 per second, the first after 3.0 s"
