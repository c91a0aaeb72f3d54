"""No picture older than ``max_age_ms`` is handed to a reader, by its own clock, and a slow link
is used well.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import numpy as np
import pytest

from tests.support.common import wait_until
from tests.support.puppet_bridge import PuppetBridge
from tests.support.stream_links import long_way, noise, radio
from tests.support.stream_rig import PATIENCE_NS, SMALL, StreamRig, first, header
from vil_bridge import client
from vil_bridge.client import Receiver
from vil_bridge.core.clock import NS_PER_MS, now_ns

pytestmark = pytest.mark.wire


KB = 1024
FRAME_BYTES = 76_000
AHEAD_NS = 10**15
WINDOW = 30


class OwnClock:
    """The vehicle's clock, far ahead of the bridge's.

    Attributes:
        ahead_ns: of the bridge's.
        read: instant that the calling thread read last: after ``next()`` that of the hand-over.
    """

    def __init__(self) -> None:
        self._of_thread = threading.local()
        self.ahead_ns = AHEAD_NS

    def __call__(self) -> int:
        self._of_thread.t_ns = now_ns() + self.ahead_ns
        return int(self._of_thread.t_ns)

    @property
    def read(self) -> int:
        return int(self._of_thread.t_ns)


def _long(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("transport", "buffer_kb", "hz", "max_age_ms"),
    [
        ("tcp", 1024, 60, 200),
        _long("tcp", 32, 60, 200),
        _long("tcp", 32, 30, 500),
        _long("tcp", 1024, 30, 500),
        _long("udp", 32, 60, 200),
        _long("udp", 1024, 60, 200),
        _long("udp", 32, 30, 500),
        _long("udp", 1024, 30, 500),
    ],
)
def test_a_link_of_a_third_of_the_demand_is_used_and_hands_over_nothing_old(
    transport: str, buffer_kb: int, hz: float, max_age_ms: float
) -> None:
    """Every picture is judged at its hand-over.

    How full and how fresh the link is, by some pictures in a row.
    """
    clock, limit_ns = OwnClock(), round(max_age_ms * NS_PER_MS)
    carried_hz = hz / 3
    window = deque[tuple[int, int]](maxlen=WINDOW)
    with (
        StreamRig({"front": ("rgb", "gray")}, max_age_ns=limit_ns) as rig,
        radio(rig, 8 * FRAME_BYTES * carried_hz, buffer_kb * KB) as endpoint,
        Receiver(
            endpoint, modality="gray", encoding="raw", transport=transport, clock=clock
        ) as receiver,
        rig.playing(noise(FRAME_BYTES), 1 / hz, modality="gray"),
    ):

        def used_well() -> bool:
            frame = receiver.next(1.0)
            if frame is not None:
                age_ns = clock.read - (frame.stamps["request"] + AHEAD_NS)
                assert age_ns <= limit_ns + frame.clock_uncertainty_ns
                window.append((clock.read, age_ns))
            if len(window) < WINDOW:
                return False
            carried = (WINDOW - 1) / (1e-9 * (window[-1][0] - window[0][0])) / carried_hz
            return carried >= 0.7 and float(np.median([age for _, age in window])) <= limit_ns / 2

        wait_until(
            used_well,
            what=lambda: (list(window), receiver.counters, rig.hub.report()),
            period_s=0.0,
        )
        assert rig.sink().dropped["superseded"] > WINDOW, "the others were never sent"


@pytest.mark.long
def test_a_link_with_a_delay_and_no_limit_carries_every_picture_at_once() -> None:
    """Judged by three seconds of pictures in a row.

    A sender that takes the delay for a narrow link slows down.
    """
    clock, hz, delay_ms = OwnClock(), 30.0, 20.0
    window = deque[tuple[int, int]](maxlen=3 * WINDOW)
    with (
        StreamRig({"front": ("rgb", "gray")}) as rig,
        long_way(rig, delay_ms) as endpoint,
        Receiver(
            endpoint, modality="gray", encoding="raw", transport="udp", clock=clock
        ) as receiver,
        rig.playing(noise(FRAME_BYTES), 1 / hz, modality="gray"),
    ):

        def fresh() -> bool:
            frame = receiver.next(1.0)
            if frame is not None:
                window.append((clock.read, clock.read - (frame.stamps["request"] + AHEAD_NS)))
            if len(window) < 3 * WINDOW:
                return False
            carried_hz = (3 * WINDOW - 1) / (1e-9 * (window[-1][0] - window[0][0]))
            age_ms = float(np.median([age for _, age in window])) / NS_PER_MS
            return carried_hz >= 0.9 * hz and age_ms <= delay_ms + 1e3 / hz

        wait_until(
            fresh, what=lambda: (list(window), receiver.counters, rig.hub.report()), period_s=0.0
        )


def test_a_picture_that_waited_for_its_reader_too_long_is_not_handed_over(transport: str) -> None:
    clock = OwnClock()
    with (
        StreamRig() as rig,
        Receiver(rig.endpoint, encoding="raw", transport=transport, clock=clock) as receiver,
    ):
        with rig.playing(SMALL):
            first(receiver)
            wait_until(lambda: receiver._arrivals)
        wait_until(lambda: receiver.counters["received"] == rig.sink().sent)
        old = receiver.counters["too_old"]
        clock.ahead_ns += 11 * PATIENCE_NS
        assert receiver.next(0.0) is None
        clock.ahead_ns -= 11 * PATIENCE_NS
        assert receiver.counters["too_old"] == old + 1
        with rig.playing(SMALL):
            first(receiver)


def test_an_old_picture_is_not_decoded_and_one_that_grows_old_meanwhile_is_not_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, decoded, decode = OwnClock(), list[int](), client._decode

    def slow(head: dict[str, Any], payload: Any) -> Any:
        decoded.append(head["frame_id"])
        clock.ahead_ns += 11 * PATIENCE_NS
        return decode(head, payload)

    monkeypatch.setattr(client, "_decode", slow)
    with (
        StreamRig() as rig,
        Receiver(rig.endpoint, encoding="raw", clock=clock, queue=2) as receiver,
    ):
        with rig.playing(SMALL):
            wait_until(lambda: len(receiver._arrivals) == 2)
        wait_until(lambda: receiver.counters["received"] == rig.sink().sent)
        old = receiver.counters["too_old"]
        assert receiver.next(0.0) is None
        assert len(decoded) == 1 and receiver.counters["too_old"] == old + 2


@pytest.fixture(params=["tcp", "shm", "udp"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_arrives_too_old_is_counted_told_and_no_sign_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the sender does: here it says that each of its pictures expired a second ago.

    A second is more than the reader's mapping of clocks can be wrong by.
    """
    with StreamRig(max_age_ns=-(10**9)) as rig, Receiver(rig.endpoint, encoding="raw") as receiver:
        monkeypatch.setattr(
            "vil_bridge.outputs.stream.encoded_picture.EncodedPicture.expires_within",
            lambda *_: False,
        )
        with rig.playing(SMALL):
            wait_until(lambda: receiver.counters["too_old"] > 10)
            wait_until(
                lambda: receiver.problem.startswith(
                    "pictures arrive older than the camera's max_age_ms"
                )
            )
            assert (
                receiver.next(0.0) is None
                and not receiver.alive
                and not receiver.counters["delivered"]
            )
            wait_until(lambda: rig.hub.report()["front"][0]["too_old"] > 10)
        rig.sink().max_age_ns = 10**12
        with rig.playing(SMALL):
            assert first(receiver).image is not None
            wait_until(lambda: receiver.alive and not receiver.problem)


def test_a_bridge_that_says_nothing_of_age_is_believed() -> None:
    with PuppetBridge() as bridge, Receiver(bridge.endpoint) as receiver:
        assert bridge.show(receiver, now_ns() - 10**11) is not None


@pytest.mark.parametrize("wrong", ["soon", 1 << 70, True, 1.5])
def test_a_wrong_expiry_is_malformed(wrong: object) -> None:
    assert header(1).fields().get("t_expires_ns") is None
    with PuppetBridge() as bridge, Receiver(bridge.endpoint) as receiver:
        assert bridge.show(receiver, now_ns(), t_expires_ns=wrong) is None
        assert receiver.counters["malformed"] == 1
        assert bridge.show(receiver, now_ns()) is not None
