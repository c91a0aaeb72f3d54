"""The ring behind the time series: bounded, a row a second, read as columns."""

from __future__ import annotations

from vil_bridge.core.clock import NS_PER_S, WallClock
from vil_bridge.monitoring.camera_history import ROWS, CameraPoint, HistoryRing


def test_a_row_a_second_and_ten_minutes_of_them() -> None:
    ring = HistoryRing(("front", "plain"), WallClock(50 * NS_PER_S))
    asked: list[None] = []
    assert ring.view()["plain"].utc_s == ()

    def points() -> dict[str, CameraPoint]:
        asked.append(None)
        front = CameraPoint(float(len(asked)), 0.01, None, 20.0, None)
        return {"front": front, "plain": CameraPoint(0.0, None, None, None, None)}

    for tick in range(5 * (ROWS + 10)):
        ring.add(tick * NS_PER_S // 5, points)
    assert len(asked) == ROWS + 10
    front = ring.view()["front"]
    assert len(front.utc_s) == len(front.rate_hz) == ROWS
    assert (front.utc_s[0], front.rate_hz[0], front.rate_hz[-1]) == (60.0, 11.0, ROWS + 10.0)
    assert (front.output_ms[0], front.received_ms[0]) == (20.0, None)
    assert set(ring.view()["plain"].picture_age_s) == {None}
