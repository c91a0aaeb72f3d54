"""What a reader gets: an even rate, a quality its link bears, a pace its losses allow."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from vil_bridge.outputs.stream import subscriber
from vil_bridge.outputs.stream import udp_sink as udp_stream
from vil_bridge.outputs.stream.messages import Register
from vil_bridge.outputs.stream.subscriber import CREDIT, AdaptiveQuality, Subscriber
from vil_bridge.outputs.stream.udp_rate_control import RateControl
from vil_bridge.runtime import pacing
from vil_bridge.runtime.pacing import FrameRateLimiter

MS = 1_000_000


def passed(
    limiter: FrameRateLimiter, rate_hz: float, seconds: float, jitter_ns: int = 0
) -> list[int]:
    """Indices of the pictures that got through."""
    period_ns = 1e9 / rate_hz
    times = [
        round(i * period_ns) + (jitter_ns if i % 3 else -jitter_ns)
        for i in range(round(seconds * rate_hz))
    ]
    return [i for i, t_ns in enumerate(times) if limiter.passes(t_ns)]


@pytest.mark.parametrize("jitter_ns", [0, 2 * MS])
def test_pictures_are_thinned_evenly(jitter_ns: int) -> None:
    indices = passed(FrameRateLimiter(20.0), 60.0, 10.0, jitter_ns)
    assert len(indices) == 200
    assert {b - a for a, b in itertools.pairwise(indices)} == {3}


def test_a_rate_that_divides_nothing_is_held_on_the_average() -> None:
    indices = passed(FrameRateLimiter(25.0), 60.0, 20.0)
    assert abs(len(indices) - 500) <= 2
    assert {b - a for a, b in itertools.pairwise(indices)} == {2, 3}


def test_a_camera_slower_than_the_wish_loses_nothing() -> None:
    assert len(passed(FrameRateLimiter(60.0), 30.0, 4.0, 3 * MS)) == 120
    assert len(passed(FrameRateLimiter(60.0), 60.0, 4.0, 3 * MS)) == 240
    assert len(passed(FrameRateLimiter(None), 1000.0, 1.0)) == 1000


def test_a_leap_of_time_does_not_stop_the_stream() -> None:
    limiter = FrameRateLimiter(10.0)
    assert limiter.passes(10**15)
    assert limiter.passes(5) and not limiter.passes(5 + 10 * MS) and limiter.passes(5 + 100 * MS)


def test_quality_falls_while_pictures_find_no_credit_and_rises_again() -> None:
    quality = AdaptiveQuality(90)
    for i in range(40):
        quality.record(superseded=i % 3 == 0)
    assert quality.value < 80
    for _ in range(100):
        quality.record(superseded=True)
    assert quality.value == 30, "the floor"
    for _ in range(60):
        quality.record(superseded=False)
    assert quality.value == 40, "one step a time"
    for _ in range(1000):
        quality.record(superseded=False)
    assert quality.value == 90


def test_a_single_lost_credit_costs_no_quality() -> None:
    quality = AdaptiveQuality(90)
    for i in range(500):
        quality.record(superseded=i % 10 == 0)
    assert quality.value == 90
    low = AdaptiveQuality(20)
    for _ in range(100):
        low.record(superseded=True)
    assert low.value == 20, "who wants less than the floor gets that"


def reports(
    rate: RateControl, share_lost: float, seconds: float, start_s: float = 0.0, per_s: int = 1500
) -> None:
    for i in range(int(seconds * 30)):
        t_s = start_s + i / 30
        sent = int(per_s * t_s)
        rate.reported(int(t_s * 1e9) + 1, sent, int(sent * (1.0 - share_lost)))


def test_the_rate_falls_when_packets_get_lost_and_not_by_the_noise_of_a_radio() -> None:
    for share, low, high in ((0.0, 20e6, 20e6), (0.03, 20e6, 20e6), (0.3, 0.5e6, 8e6)):
        rate = RateControl(20e6)
        reports(rate, share, 3.0)
        assert low <= rate.rate_bps <= high, share
    reports(rate, 0.0, 30.0, start_s=3.0)
    assert rate.rate_bps == 20e6, "and comes back"


def test_the_rate_has_a_floor_and_nonsense_changes_nothing() -> None:
    rate = RateControl(20e6)
    reports(rate, 1.0, 60.0)
    assert rate.rate_bps == 0.5e6
    other = RateControl(20e6)
    for t, highest, received in (
        (1, 10**18, 5),
        (10**9, 3, 2**63),
        (2 * 10**9, 10, 2**60),
        (3 * 10**9, 0, 0),
    ):
        other.reported(t, highest, received)
    assert other.rate_bps >= 0.5e6


def test_a_frame_that_was_not_sent_gives_its_credit_back() -> None:
    reader: Subscriber[str] = Subscriber("token", Register(v=1, camera="front"))
    for frame_id in range(1, 10 * CREDIT):
        reader.enqueue(frame_id, frame_id * 10 * MS, "picture")
        assert reader.pop() == (frame_id, "picture")
        reader.drop(frame_id, "too_old")
        assert reader.in_flight == 0
    assert reader.dropped == {"too_old": 10 * CREDIT - 1}
    for frame_id in range(100, 100 + CREDIT):
        reader.enqueue(frame_id, frame_id * 10 * MS, "picture")
        assert reader.pop() is not None
    reader.enqueue(200, 10**12, "picture")
    assert reader.pop() is None, "what was sent holds its credit"
    assert reader.acknowledge(100, 0)[1], "one waits for it"
    assert reader.pop() == (200, "picture")


@pytest.mark.parametrize(("transport", "limit_ms"), [("udp", 300), ("tcp", 2000)])
def test_a_credit_that_does_not_come_back_costs_pictures_for_a_while_only(
    transport: Literal["tcp", "udp"], limit_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    t_ns = 10**12
    monkeypatch.setattr(subscriber, "now_ns", lambda: t_ns)
    reader: Subscriber[str] = Subscriber(
        "token", Register(v=1, camera="front", transport=transport)
    )
    for frame_id in range(CREDIT + 1):
        reader.enqueue(frame_id, t_ns + frame_id * 10 * MS, "picture")
        assert (reader.pop() is not None) is (frame_id < CREDIT)
    t_ns += limit_ms * MS
    assert reader.pop() is None and reader.due_ns == t_ns + 1, (
        "no newer picture may come to ask again"
    )
    t_ns += 1
    assert reader.pop() == (CREDIT, "picture")
    assert reader.dropped == {"lost": CREDIT}


@pytest.mark.parametrize(
    ("interval_ms", "datagrams", "at_once", "over_ms"),
    [
        (50, 30, 2, 15.0),  # 0.3 of the time since the last picture
        (10_000, 30, 1, 30.0),  # of 100 ms at most
        (5, 100, 12, 8.0),  # as long as 100 Mbit/s need
    ],
)
def test_packets_of_a_picture_leave_in_bursts_of_a_millisecond(
    interval_ms: int, datagrams: int, at_once: int, over_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    t_ns, sent = 10**12, Counter[int]()

    def sleep(seconds: float) -> None:
        nonlocal t_ns
        t_ns += round(1e9 * seconds)

    for module in (udp_stream, pacing):
        monkeypatch.setattr(module, "machine_ns", lambda: t_ns)
    monkeypatch.setattr("time.sleep", sleep)
    door: Any = SimpleNamespace(send=lambda *_: sent.update([t_ns]))
    reader: Subscriber[Any] = Subscriber("token", Register(v=1, camera="front"))
    reader.enqueue(1, t_ns, None)
    line = udp_stream.UdpSubscriberThread(
        reader,
        SimpleNamespace(),  # type: ignore[arg-type]
        door,
        1e8,
    )
    line._t_begun_ns = t_ns - interval_ms * MS
    begun_ns, burst_ns = t_ns, over_ms * MS * at_once / datagrams
    line._spread([bytes(1000)] * datagrams, None)
    line.close()
    assert sent == {
        round(begun_ns + burst_ns * number): min(at_once, datagrams - at_once * number)
        for number in range(-(-datagrams // at_once))
    }
