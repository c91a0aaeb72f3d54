"""A reader's link in simulated time.

What it carries arrives fresh, and what would arrive too old is not sent.
"""

from __future__ import annotations

import random
from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vil_bridge.outputs.stream import subscriber, udp_sink
from vil_bridge.outputs.stream.messages import Register
from vil_bridge.outputs.stream.subscriber import CREDIT, LinkEstimate, Subscriber
from vil_bridge.outputs.stream.udp_sink import UdpSubscriberThread
from vil_bridge.runtime import pacing

MS = 1_000_000


class NarrowLink:
    """A link that carries one picture after the other, and a sender that looks every millisecond,
    as the relay does.

    Attributes:
        busy_ms: with one picture. delay_ms: each way. jitter: share by which ``busy_ms`` varies.
        ages_ms: of pictures on arrival, with the time of it.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        busy_ms: float,
        max_age_ms: float,
        adaptive: bool = False,
    ) -> None:
        self.t_ns = 10**12
        monkeypatch.setattr(subscriber, "now_ns", lambda: self.t_ns)
        self.reader: Subscriber[int] = Subscriber(
            "token", Register(v=1, camera="front", adaptive=adaptive)
        )
        self.busy_ms, self.delay_ms, self.jitter = busy_ms, 0.0, 0.0
        self.ages_ms: list[tuple[float, float]] = []
        self.kept_back = self.sent = 0
        self._max_age_ns = round(max_age_ms * MS)
        self._free_ns = 0
        self._credits: deque[tuple[int, int, int]] = deque()  # due at the sender, frame, received
        self._rng, self._frame_id, self._due_ns = random.Random(1), 0, self.t_ns

    def run(self, seconds: float, hz: float) -> None:
        """Offer pictures at a rate."""
        end_ns = self.t_ns + round(seconds * 1e9)
        while self.t_ns < end_ns:
            while self._credits and self._credits[0][0] <= self.t_ns:
                _, frame_id, received_ns = self._credits.popleft()
                self.reader.acknowledge(frame_id, received_ns)
            if self.t_ns >= self._due_ns:
                self._frame_id += 1
                self._due_ns += round(1e9 / hz)
                self.reader.enqueue(self._frame_id, self.t_ns, self.t_ns)
            self._send()
            self.kept_back += self.reader.due_ns is not None and self.reader.in_flight < CREDIT
            self.t_ns += MS

    def _send(self) -> None:
        popped = self.reader.pop()
        if popped is None:
            return
        frame_id, t_oldest_ns = popped
        if self.t_ns + self.reader.transit_ns() > t_oldest_ns + self._max_age_ns:
            self.reader.drop(frame_id, "too_old")
            return
        self.sent += 1
        busy_ns = self.busy_ms * MS * self._rng.uniform(1 - self.jitter, 1 + self.jitter)
        self._free_ns = max(self._free_ns, self.t_ns) + round(busy_ns)
        received_ns = self._free_ns + round(self.delay_ms * MS)
        self.ages_ms.append((received_ns / 1e9, (received_ns - t_oldest_ns) / MS))
        self._credits.append((received_ns + round(self.delay_ms * MS), frame_id, received_ns))


@pytest.mark.parametrize(("hz", "max_age_ms"), [(30.0, 500.0), (60.0, 200.0), (20.0, 500.0)])
@pytest.mark.parametrize(
    ("delay_share", "jitter", "carried"),
    [(0.0, 0.0, 0.98), (0.2, 0.0, 0.95), (0.5, 0.0, 0.7), (0.1, 0.4, 0.85)],
)
def test_a_third_of_the_demand_arrives_fresh(
    hz: float,
    max_age_ms: float,
    delay_share: float,
    jitter: float,
    carried: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The link's own delay is a share of the time that it needs for a picture."""
    link = NarrowLink(monkeypatch, 3e3 / hz, max_age_ms)
    link.delay_ms, link.jitter = delay_share * link.busy_ms, jitter
    link.run(30.0, hz)
    ages_ms = np.array([age for _, age in link.ages_ms])
    assert len(ages_ms) >= carried * 30e3 / link.busy_ms
    assert np.median(ages_ms) <= max_age_ms / 2
    assert (ages_ms > max_age_ms).mean() <= 0.01
    queued_ms = ages_ms - link.busy_ms * (1 + jitter) - link.delay_ms - 1e3 / hz
    assert np.median(queued_ms) < 0.3 * link.busy_ms, (
        "no picture waits in the link for a whole other one"
    )


def test_a_link_that_is_quick_enough_keeps_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    link = NarrowLink(monkeypatch, 3.0, 500.0)
    link.run(5.0, 250.0)
    assert link.kept_back == 0 and link.sent == 5 * 250
    link.delay_ms, before = 6.0, link.sent
    link.run(5.0, 100.0)
    assert link.sent - before == 500 and not link.reader.dropped, "a delay alone takes no picture"


def test_a_link_that_is_full_at_hundreds_of_pictures_a_second_has_both_credits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = NarrowLink(monkeypatch, 3.0, 500.0)
    link.run(3.0, 500.0)
    assert link.kept_back == 0 and link.sent >= 0.98 * 1000


def test_what_is_under_way_counts_when_a_picture_would_arrive_too_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fresh enough for a link that is free, and not for the rest of the picture before."""
    link = NarrowLink(monkeypatch, 100.0, 118.0)
    link.run(5.0, 100.0)
    link.ages_ms.clear()
    link.run(20.0, 100.0)
    assert len(link.ages_ms) > 100
    assert np.mean([age > 118.0 for _, age in link.ages_ms]) <= 0.02


def test_both_credits_are_used_while_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    link = NarrowLink(monkeypatch, 1e6, 500.0)
    link.run(1.0, 30.0)
    assert link.sent == link.reader.in_flight == CREDIT


def test_a_link_that_changes_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    link = NarrowLink(monkeypatch, 20.0, 500.0)
    link.run(5.0, 30.0)
    for busy_ms in (120.0, 20.0, 60.0):
        link.busy_ms = busy_ms
        link.run(8 * busy_ms / 1e3, 30.0)
        link.ages_ms.clear()
        link.run(5.0, 30.0)
        ages_ms = [age for _, age in link.ages_ms]
        assert np.median(ages_ms) < 1.3 * busy_ms + 1e3 / 30
        assert len(ages_ms) >= 0.85 * min(5e3 / busy_ms, 150)


def test_a_reader_that_stood_still_is_no_quick_link_and_no_slow_one() -> None:
    estimate, t_ns = LinkEstimate(), 0
    for _ in range(20):
        for busy_ms in (100, 100, 100, 400, 1):  # it slept through one picture, and then found two
            t_ns += busy_ms * MS
            estimate.delivered(t_ns - 1000 * MS, t_ns, under_way=True)
        assert estimate.busy_ns(t_ns, under_way=True) == 100 * MS


@pytest.mark.parametrize(
    ("busy_ms", "fewest", "most"), [(300.0, 14, 16), (1000.0, 9, 11), (3000.0, 4, 6)]
)
def test_pictures_that_would_arrive_too_old_are_not_sent_and_the_link_is_tried_again(
    busy_ms: float, fewest: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit of 200 ms.

    A second after each picture another one shows whether the link is still so slow.
    """
    link = NarrowLink(monkeypatch, busy_ms, 200.0)
    link.run(5 * busy_ms / 1e3 + 5.0, 30.0)
    before = link.sent
    while link.sent - before < most and link.t_ns < 10**12 + (5 * busy_ms / 1e3 + 25.0) * 1e9:
        link.run(0.01, 30.0)
        assert link.reader.in_flight <= 1, (
            "one that is certainly too old behind it finds out nothing"
        )
    assert fewest <= link.sent - before <= most
    assert link.reader.dropped["too_old"] > 200
    link.busy_ms, begun_s = 20.0, link.t_ns / 1e9
    link.ages_ms.clear()
    link.run(busy_ms / 1e3 + 1.2, 30.0)
    assert (
        min(t_s for t_s, age in link.ages_ms if age < 60 and t_s > begun_s)
        < begun_s + busy_ms / 1e3 + 1.1
    )


def test_quality_falls_where_pictures_would_arrive_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    link = NarrowLink(monkeypatch, 300.0, 200.0, adaptive=True)
    link.run(40.0, 2.0)
    assert "superseded" not in link.reader.dropped
    assert link.reader.encoding_options.quality == 30


def test_a_picture_given_up_still_teaches_how_slow_the_link_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By UDP a picture is given up after 300 ms.

    Where every one takes longer, they would pile up in the link.
    """
    t_ns = 10**12
    monkeypatch.setattr(subscriber, "now_ns", lambda: t_ns)
    reader: Subscriber[str] = Subscriber("token", Register(v=1, camera="front", transport="udp"))
    for frame_id in range(3):
        reader.enqueue(frame_id, t_ns, "picture")
        assert reader.pop()
        t_ns += 301 * MS
    sent_ns, _ = reader.acknowledge(0, t_ns - 500 * MS)
    assert sent_ns == 10**12 and reader.busy_ns() == 403 * MS
    assert reader.acknowledged == 0 and reader.dropped == {"lost": 2}, "once counted, it stays lost"
    assert reader.acknowledge(0, t_ns) == (None, False)
    assert reader.acknowledge(2, t_ns)[0] is not None
    reader.enqueue(100, t_ns, "picture")
    assert reader.pop()
    for wait_ms, lost in ((900, 2), (10, 3)):
        t_ns += wait_ms * MS
        reader.pop()
        assert reader.dropped["lost"] == lost, "three times as long as the link needs for one"
    for frame_id in range(3, 20):
        reader.enqueue(frame_id, t_ns, "picture")
        reader.pop()
        t_ns += 10_000 * MS
    assert reader.acknowledge(3, t_ns) == (None, False), "long ago"


class PacedLink:
    """A UDP reader's link with a delay each way and a camera at 30 Hz.

    Packets are spread by the sender itself.

    Attributes:
        busy_ms: with one picture; 0 = no limit. delay_ms: each way. late_ms: by which last packets
            are beyond that.
        ages_ms: of pictures on arrival.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, delay_ms: float, late_ms: float = 0.0
    ) -> None:
        self.t_ns = self._due_ns = 10**12
        monkeypatch.setattr(subscriber, "now_ns", lambda: self.t_ns)
        for module in (udp_sink, pacing):
            monkeypatch.setattr(module, "machine_ns", lambda: self.t_ns)
        monkeypatch.setattr(
            "time.sleep", lambda seconds: self._pass(self.t_ns + round(1e9 * seconds))
        )
        self.reader: Subscriber[int] = Subscriber(
            "token", Register(v=1, camera="front", transport="udp")
        )
        door: Any = SimpleNamespace(send=lambda *_: None)
        self._thread = UdpSubscriberThread(self.reader, SimpleNamespace(), door, 1e8)  # type: ignore[arg-type]
        self.busy_ms, self.delay_ms, self.late_ms = 0.0, delay_ms, late_ms
        self.ages_ms: list[float] = []
        self._free_ns = self._frame_id = 0
        self._credits: deque[tuple[int, int, int]] = deque()  # due at the sender, frame, received

    def run(self, seconds: float) -> None:
        end_ns = self.t_ns + round(seconds * 1e9)
        while self.t_ns < end_ns:
            popped = self.reader.pop()
            if popped is None:
                self._pass(self.t_ns + MS)
                continue
            begun_ns = self.t_ns
            self._thread._spread([bytes(1300)] * 80, None)
            self._free_ns = max(self._free_ns, begun_ns) + round(self.busy_ms * MS)
            received_ns = max(self._free_ns, self.t_ns) + round((self.delay_ms + self.late_ms) * MS)
            self.ages_ms.append((received_ns - popped[1]) / MS)
            self._credits.append((received_ns + round(self.delay_ms * MS), popped[0], received_ns))

    def _pass(self, t_ns: int) -> None:
        while (
            event_ns := min([self._due_ns, *(due_ns for due_ns, _, _ in self._credits)])
        ) <= t_ns:
            self.t_ns = max(self.t_ns, event_ns)
            if event_ns == self._due_ns:
                self._frame_id += 1
                self._due_ns += round(1e9 / 30)
                self.reader.enqueue(self._frame_id, event_ns, event_ns)
            else:
                _, frame_id, received_ns = self._credits.popleft()
                self.reader.acknowledge(frame_id, received_ns, round(self.delay_ms * MS))
        self.t_ns = max(self.t_ns, t_ns)

    def close(self) -> None:
        self._thread.close()


@pytest.mark.parametrize(
    ("delay_ms", "late_ms", "carried_hz"), [(20, 0, 30), (20, 4, 30), (60, 0, 13), (60, 4, 13)]
)
def test_a_delay_is_no_slow_link_and_spreads_no_packets(
    delay_ms: float, late_ms: float, carried_hz: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A way longer than two pictures under way: fewer pictures leave, as fresh as the others."""
    link = PacedLink(monkeypatch, delay_ms, late_ms)
    link.run(2.0)
    link.ages_ms.clear()
    link.run(10.0)
    link.close()
    assert len(link.ages_ms) >= 0.95 * 10 * carried_hz
    spread_ms = np.array(link.ages_ms) - delay_ms - late_ms
    assert np.median(spread_ms) <= 0.3 * 1e3 / carried_hz + 1e3 / 30 * (carried_hz < 30)


def test_packets_are_spread_over_what_a_slow_link_needs_and_no_longer_when_it_is_quick_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = PacedLink(monkeypatch, 20)
    for busy_ms in (100.0, 0.0):
        link.busy_ms = busy_ms
        link.run(4.0)
        link.ages_ms.clear()
        link.run(10.0)
        assert len(link.ages_ms) >= 0.9 * 10e3 / max(busy_ms, 1e3 / 30)
        assert np.median(link.ages_ms) <= 20 + max(1.4 * busy_ms, 12)
    link.close()
