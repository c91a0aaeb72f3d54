"""Whatever way pictures take, the reader sees the same.

Newest first, stamps that grow, a dead man's flag.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest

from tests.support.common import wait_until, wait_until_most
from tests.support.stream_rig import SMALL, StreamRig, drain, first, header, photo
from vil_bridge.client import Receiver
from vil_bridge.outputs.stream.subscriber import Subscriber

pytestmark = pytest.mark.wire


TRANSPORTS = ["tcp", "shm", "udp"]


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def report(rig: StreamRig, name: str) -> dict[str, Any]:
    return next(r for r in rig.hub.report()["front"] if r["name"] == name)


def slowed(talk: Callable[[float], None], seconds: float) -> Callable[[float], None]:
    """A receiving thread that is busy with something else most of the time."""

    def slow(now_s: float) -> None:
        time.sleep(seconds)
        talk(now_s)

    return slow


@pytest.mark.parametrize("encoding", ["raw", "jpeg"])
def test_pictures_arrive_whole_with_what_is_known_about_them(transport: str, encoding: str) -> None:
    rgb = photo()
    with (
        StreamRig() as rig,
        rig.playing(rgb[::-1][::-1], motion={"v_world_mps": [1, 2, 3], "w_body_radps": [4, 5, 6]}),
        Receiver(rig.endpoint, color="rgb", encoding=encoding, transport=transport) as receiver,
    ):
        frame = first(receiver)
        assert receiver.transport == transport and not receiver.fallback
        error = np.abs(frame.image.astype(int) - rgb)
        assert error.max() == 0 if encoding == "raw" else error.mean() < 3
        assert frame.motion is not None and frame.motion.v_world_mps.tolist() == [1, 2, 3]
        assert (
            frame.motion.w_body_radps.tolist() == [4, 5, 6] and frame.motion.gyro_bias_radps is None
        )

        def covered() -> bool:
            """Both have one clock."""
            shown = first(receiver)
            return abs(shown.t_ns - shown.t_bridge_ns) <= shown.clock_uncertainty_ns

        wait_until_most(covered)
        assert frame.latency_s is not None and 0 < frame.latency_s < 5
        wait_until(lambda: rig.received)
        assert rig.hub.counters["odd_stamp"] == 0
        assert rig.hub.report()["front"][0]["transport"] == transport


def test_sixteen_bits_and_rows_that_run_upwards(transport: str) -> None:
    depth = (np.arange(120 * 160, dtype=np.uint32) % 65536).astype(np.uint16).reshape(120, 160)
    upside_down = np.ascontiguousarray(depth[::-1])[::-1]
    with (
        StreamRig() as rig,
        rig.playing(upside_down, modality="depth"),
        Receiver(rig.endpoint, modality="depth", transport=transport) as receiver,
    ):
        image = first(receiver).image
        assert image.dtype == np.uint16 and np.array_equal(image, depth)


def test_stamps_strictly_increase_and_a_slow_reader_gets_the_newest(transport: str) -> None:
    with (
        StreamRig() as rig,
        rig.playing(SMALL, 0.005),
        Receiver(rig.endpoint, encoding="raw", transport=transport) as receiver,
    ):
        frames = [first(receiver) for _ in range(20)]
        assert all(a.t_ns < b.t_ns for a, b in itertools.pairwise(frames))
        for _ in range(3):
            seen = receiver.counters["received"]
            wait_until(
                lambda seen=seen: receiver.counters["received"] >= seen + 10,  # type: ignore[misc]
            )
            passed = receiver.counters["superseded"] + receiver.counters["delivered"]
            # Ids count from 1, so it is newer than all those.
            assert first(receiver).frame_id > passed
        assert receiver.counters["superseded"] >= 25
        assert receiver.counters["malformed"] == receiver.counters["late"] == 0


def test_a_queue_hands_out_in_order_and_gives_up_the_oldest(transport: str) -> None:
    """Pictures one by one, each after the one before has arrived, so that the bridge gives up
    none of them.
    """
    with (
        StreamRig() as rig,
        Receiver(rig.endpoint, encoding="raw", transport=transport, queue=5) as receiver,
    ):
        counters, ids, sink, arrived = (
            receiver.counters,
            itertools.count(1),
            rig.sink(),
            list[int](),
        )
        wait_until(lambda: counters["registrations"])

        def done_with(reader: Subscriber[Any]) -> int:
            return reader.acknowledged + sum(reader.dropped_so_far().values())

        def twelve_arrived() -> bool:
            """On a busy machine a client may register twice.

            The next picture goes to its new reader.
            """
            readers = sink.subscribers
            if len(readers) == 1:
                frame_id, received, done = next(ids), counters["received"], done_with(readers[0])
                rig.offer(SMALL, header(frame_id))
                wait_until(lambda: done_with(readers[0]) > done or sink.subscribers != readers)
                if counters["received"] > received:
                    arrived.append(frame_id)
            return len(arrived) >= 12

        wait_until(twelve_arrived)
        # A picture is acknowledged some moments before it waits for next().
        wait_until(lambda: counters["superseded"] == counters["received"] - 5)
        waiting = [frame.frame_id for frame in iter(lambda: receiver.next(0.0), None)]
        assert waiting == arrived[-5:]
        assert counters["superseded"] + counters["delivered"] == counters["received"]


def test_a_stalled_reader_delays_nobody(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second reader of the same kind stops working on its receive thread.

    The first goes on at full rate.
    """
    picture = photo(768, 1024)
    encoding = "jpeg" if transport == "udp" else "raw"
    with (
        StreamRig() as rig,
        Receiver(rig.endpoint, encoding=encoding, transport=transport, name="stalled") as stalled,
        Receiver(rig.endpoint, encoding="raw", name="lively", queue=50) as lively,
        rig.playing(picture, 0.06),
    ):

        def lost() -> int:
            return int(report(rig, "stalled")["dropped"].get("superseded", 0))

        first(stalled)
        first(lively)
        monkeypatch.setattr(stalled, "_talk", slowed(stalled._talk, 1.5))
        before = lost()
        wait_until(lambda: lost() > before + 10)
        got = lively.counters["received"]
        wait_until(lambda: lost() > before + 30)
        assert lively.counters["received"] - got >= 15, "as many as the stalled one lost, or nearly"
        assert report(rig, "lively")["dropped"].get("superseded", 0) < 20


def test_a_rate_is_held_evenly_and_the_others_are_counted(transport: str) -> None:
    with (
        StreamRig() as rig,
        rig.playing(SMALL, 0.01),
        Receiver(rig.endpoint, encoding="raw", transport=transport, rate_hz=20, queue=100) as thin,
    ):
        wait_until(lambda: thin.counters["received"] >= 20)
        frames = [first(thin) for _ in range(20)]
        steps_ms = [
            (b.t_bridge_ns - a.t_bridge_ns) / 1e6 for a, b in itertools.pairwise(frames[2:])
        ]
        assert np.mean(steps_ms) >= 45 and np.median(steps_ms) < 75
        assert rig.hub.report()["front"][0]["dropped"]["thinned"] >= 20


def test_a_restarted_bridge_is_found_again(transport: str) -> None:
    rig = StreamRig()
    with Receiver(rig.endpoint, encoding="raw", transport=transport) as receiver:
        with rig.playing(SMALL):
            first(receiver)
        endpoint = rig.endpoint
        rig.close()
        while receiver.next(0.05) is not None:
            pass
        rig = StreamRig(bind=endpoint)
        with rig.playing(SMALL):
            first(receiver)
        assert receiver.counters["registrations"] >= 2, "it asks again when the answer is slow"
        wait_until(lambda: len(rig.sink().subscribers) == 1)
        assert receiver.transport == transport
    rig.close()


def test_the_dead_man_flag_follows_the_pictures(transport: str) -> None:
    with StreamRig() as rig, Receiver(rig.endpoint, timeout_s=0.3, transport=transport) as receiver:
        assert not receiver.alive
        with rig.playing(photo()):
            wait_until(lambda: receiver.alive)
        wait_until(lambda: not receiver.alive)


def test_quality_falls_for_a_reader_without_credit_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        StreamRig() as rig,
        Receiver(rig.endpoint, adaptive=True, name="adaptive") as receiver,
        rig.playing(photo(), 0.005),
    ):
        first(receiver)
        talk = receiver._talk
        monkeypatch.setattr(receiver, "_talk", slowed(talk, 0.05))
        wait_until(lambda: report(rig, "adaptive")["quality"] <= 60)
        monkeypatch.setattr(receiver, "_talk", talk)
        told = [report(rig, "adaptive")["quality"]]

        def rises() -> bool:
            # It may still fall by what was lost before.
            told.append(report(rig, "adaptive")["quality"])
            return bool(told[-1] > min(told))

        wait_until(rises, what=lambda: str(told[-20:]))
        frame = first(receiver)
        assert frame.image.shape == photo().shape[:2]
        assert cv2.PSNR(frame.image, cv2.cvtColor(photo(), cv2.COLOR_RGB2GRAY)) > 28


def test_an_unknown_transport_is_a_clear_error() -> None:
    with pytest.raises(ValueError, match="transport must be one of"):
        Receiver("tcp://127.0.0.1:1", transport="pigeon")
    with pytest.raises(ValueError, match="rate_hz must be"):
        Receiver("tcp://127.0.0.1:1", rate_hz=0)


def test_a_fixed_camera_has_no_motion() -> None:
    with StreamRig() as rig, Receiver(rig.endpoint, encoding="raw") as receiver:
        with rig.playing(SMALL, motion=None):
            assert first(receiver).motion is None
        drain(rig, receiver)
        rig.offer(SMALL, header(10**6, motion={"v_world_mps": [1, 2]}))
        wait_until(lambda: receiver.next(0.01) is None and receiver.counters["malformed"] == 1)
