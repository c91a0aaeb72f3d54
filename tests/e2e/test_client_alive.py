"""The dead man's signal: only pictures that one may fly on keep the client alive."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.common import wait_until
from tests.support.stream_rig import StreamRig, header, photo
from vil_bridge.client import Receiver
from vil_bridge.core.clock import now_ns

pytestmark = pytest.mark.wire


_OLD_NS = 20_000_000_000


def test_fresh_pictures_keep_it_alive_and_silence_ends_it() -> None:
    with StreamRig() as rig, Receiver(rig.endpoint, timeout_s=0.3) as receiver:
        with rig.playing(photo()):
            wait_until(lambda: receiver.alive)
        wait_until(lambda: not receiver.alive)


@pytest.mark.parametrize(
    "changes", [{"blank": True}, {"t_display_ns": now_ns() - _OLD_NS}], ids=["blank", "repeated"]
)
def test_pictures_that_show_nothing_new_do_not(changes: dict[str, Any]) -> None:
    with (
        StreamRig() as rig,
        Receiver(rig.endpoint, timeout_s=0.3) as receiver,
        rig.playing(photo(), **changes),
    ):
        wait_until(lambda: receiver.counters["received"] > 10)
        assert not receiver.alive


def test_late_pictures_do_not() -> None:
    with StreamRig() as rig, Receiver(rig.endpoint, timeout_s=0.3) as receiver:
        frame_id = 0

        def offer_old() -> int:
            nonlocal frame_id
            frame_id += 1
            rig.offer(photo(), header(frame_id, t_display_ns=now_ns() - _OLD_NS))
            return receiver.counters["received"]

        wait_until(lambda: offer_old() > 10)
        assert not receiver.alive


def test_what_is_frozen_ends_it_at_once() -> None:
    state = "", False
    with (
        StreamRig(problem=lambda _: state) as rig,
        Receiver(rig.endpoint, timeout_s=1000.0) as receiver,
    ):
        with rig.playing(photo()):
            wait_until(lambda: receiver.alive)
        state = "nobody renders", False
        wait_until(lambda: receiver.problem == "nobody renders")
        assert receiver.alive, "any other problem ends it by silence"
        state = "frozen", True
        wait_until(lambda: not receiver.alive and receiver.problem == "frozen")
        state = "", False
        with rig.playing(photo()):
            wait_until(lambda: receiver.alive)


def test_closing_is_quiet_when_the_thread_ended_first() -> None:
    receiver = Receiver("tcp://127.0.0.1:9")
    receiver._closing = True
    receiver._wake()
    receiver._thread.join()
    receiver.close()


def test_broken_pictures_do_not() -> None:
    # Received, and found broken when it is looked at.
    broken: dict[str, Any] = {"K": [457.0, 458.0]}
    with (
        StreamRig() as rig,
        Receiver(rig.endpoint, timeout_s=0.3) as receiver,
        rig.playing(photo(), **broken),
    ):
        wait_until(lambda: receiver.next(0.05) is None and receiver.counters["malformed"] > 5)
        assert not receiver.alive
