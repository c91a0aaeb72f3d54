"""The onboard client against hub and sink over real sockets, through everything that goes wrong."""

from __future__ import annotations

import itertools
import json
import threading
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
from msgspec import structs

from tests.support.common import wait_until, wait_until_most
from tests.support.stream_rig import SMALL, K, RawClient, StreamRig, drain, first, header, photo
from vil_bridge import client
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import ImageArray

pytestmark = pytest.mark.wire


def psnr_db(a: ImageArray, b: ImageArray) -> float:
    return float(10 * np.log10(255.0**2 / np.mean((a.astype(float) - b.astype(float)) ** 2)))


def wait_until_stamps_are_even(rig: StreamRig) -> None:
    """Wait until ten pictures in a row were reported as received, none at an odd time."""
    odd, begun = -1, 0

    def met() -> bool:
        nonlocal odd, begun
        # Beyond the clock's uncertainty, as some of the first may be.
        if rig.hub.counters["odd_stamp"] != odd:
            odd, begun = rig.hub.counters["odd_stamp"], len(rig.received)
        return len(rig.received) >= begun + 10

    wait_until(met)


def test_a_frame_tells_all_that_is_known_about_the_picture() -> None:
    begun_ns = now_ns()
    with StreamRig() as rig, rig.playing(photo()), Receiver(rig.endpoint) as receiver:
        frame = first(receiver)
        gray = cv2.cvtColor(photo(), cv2.COLOR_RGB2GRAY)
        assert frame.image.shape == (480, 640) and psnr_db(frame.image, gray) > 38
        assert frame.K is not None
        assert frame.K.tolist() == [[K[0], 0, K[2]], [0, K[1], K[3]], [0, 0, 1]]
        assert frame.pose_rendered is not None and frame.pose_rendered.p_m.tolist() == [1, 2, 3]
        assert frame.pose_display is not None and frame.pose_display.q_xyzw.tolist() == [0, 0, 0, 1]
        assert frame.compensation == {"method": "homography", "d_m": 8.0}
        assert (frame.tracking_state, frame.metadata["variant"]) == ("tracked", "compensated")
        assert receiver.camera_info["fy"] == 458.0
        assert frame.stamps["request"] <= frame.stamps["encode"] <= frame.stamps["send"]

        def covered(shown: Frame) -> bool:
            """One machine, one clock: the mapping must be the identity within what it claims."""
            within_ns = shown.clock_uncertainty_ns
            assert shown.latency_s is not None
            return (
                abs(shown.t_ns - shown.t_bridge_ns) <= within_ns
                and begun_ns - within_ns < shown.stamps["received"] < now_ns() + within_ns
                and 0 < shown.latency_s <= shown.age_s + 2e-9 * within_ns
            )

        wait_until_most(lambda: covered(first(receiver)))
        wait_until(lambda: first(receiver).clock_uncertainty_ns < 20_000_000)
        wait_until(lambda: receiver.alive and receiver.problem == "")
        wait_until_stamps_are_even(rig)


@pytest.mark.parametrize("encoding", ["raw", "jpeg"])
@pytest.mark.parametrize("color", ["gray", "rgb"])
@pytest.mark.parametrize("decoder", ["simplejpeg", "cv2"])
def test_pictures_arrive_upright_from_an_upside_down_buffer(
    encoding: str, color: str, decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_jpeg", __import__(decoder))
    rgb = photo()
    truth = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY) if color == "gray" else rgb
    wire = np.ascontiguousarray(rgb[::-1])
    with (
        StreamRig() as rig,
        rig.playing(wire[::-1]),
        Receiver(rig.endpoint, color=color, encoding=encoding) as receiver,
    ):
        image = first(receiver).image
        assert image.shape == truth.shape
        if encoding == "raw":
            assert np.array_equal(image, truth)
        else:
            assert psnr_db(image, truth) > 38


def test_depth_arrives_with_all_bits_and_needs_no_jpeg() -> None:
    depth = (np.arange(480 * 640, dtype=np.uint32) % 65536).astype(np.uint16).reshape(480, 640)
    with StreamRig() as rig, Receiver(rig.endpoint, modality="depth") as receiver:
        ids = iter(range(1, 10**6))
        frame = None
        while frame is None:
            rig.offer(depth, header(next(ids), modality="depth"))
            frame = receiver.next(0.05)
        assert frame.image.dtype == np.uint16 and np.array_equal(frame.image, depth)


def test_stamps_strictly_increase_and_late_or_repeated_pictures_are_dropped() -> None:
    with StreamRig() as rig, Receiver(rig.endpoint, encoding="raw") as receiver:
        with rig.playing(SMALL):
            stamps = [first(receiver).t_ns for _ in range(20)]
        assert all(a < b for a, b in itertools.pairwise(stamps))
        drain(rig, receiver)
        late = receiver.counters["late"]
        rig.offer(SMALL, header(10_001, t_display_ns=stamps[0]))
        head = header(10_002)
        rig.offer(SMALL, head)
        assert first(receiver).frame_id == 10_002
        rig.offer(SMALL, structs.replace(head, frame_id=10_003))
        wait_until(lambda: receiver.counters["late"] == late + 2)
        assert receiver.next(0.05) is None


def test_a_slow_reader_always_gets_the_newest() -> None:
    with (
        StreamRig() as rig,
        Receiver(rig.endpoint, encoding="raw") as receiver,
        rig.playing(SMALL, 0.005),
    ):
        first(receiver)
        for _ in range(5):
            seen = receiver.counters["received"]
            wait_until(
                lambda seen=seen: receiver.counters["received"] >= seen + 10,  # type: ignore[misc]
            )
            passed = receiver.counters["superseded"] + receiver.counters["delivered"]
            # Ids count from 1, so it is newer than all those.
            assert first(receiver).frame_id > passed
        assert receiver.counters["superseded"] >= 40
        assert receiver.counters["late"] == receiver.counters["malformed"] == 0


class _Clock:
    """A vehicle's clock: an hour ahead and 200 ppm fast."""

    @staticmethod
    def vehicle_ns(t_bridge_ns: int) -> int:
        return t_bridge_ns + t_bridge_ns // 5000 + 3600 * 10**9

    def __call__(self) -> int:
        return self.vehicle_ns(now_ns())


def test_times_are_mapped_to_the_vehicles_own_drifting_clock() -> None:
    with StreamRig() as rig, rig.playing(SMALL), Receiver(rig.endpoint, clock=_Clock()) as receiver:

        def covered(frame: Frame) -> bool:
            error_ns = abs(frame.t_ns - _Clock.vehicle_ns(frame.t_bridge_ns))
            return error_ns <= frame.clock_uncertainty_ns + 10_000 and frame.age_s > 0

        wait_until_most(lambda: covered(first(receiver)), 30)
        wait_until_stamps_are_even(rig)  # the far end's receive times came back in bridge time


def test_a_picture_is_received_before_its_header_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a header takes a thousand seconds of the vehicle's clock.

    Counted in, the bridge refuses each stamp.
    """
    spent_ns = 0

    def slow(text: bytes) -> dict[str, Any]:
        nonlocal spent_ns
        read: dict[str, Any] = json.loads(text)
        spent_ns += 1000 * 10**9 if "t_display_ns" in read else 0
        return read

    monkeypatch.setattr(client, "json", SimpleNamespace(loads=slow, dumps=json.dumps))
    with (
        StreamRig() as rig,
        rig.playing(SMALL),
        Receiver(rig.endpoint, clock=lambda: now_ns() + spent_ns) as _,
    ):
        wait_until(lambda: rig.received)


def test_nothing_hangs_and_the_dead_man_flag_is_down_without_a_bridge() -> None:
    with (
        RawClient("tcp://127.0.0.1:1") as _,
        Receiver("tcp://127.0.0.1:1", timeout_s=0.2) as receiver,
    ):
        assert receiver.next(0.1) is None
        with pytest.raises(
            TimeoutError, match=r"no answer from tcp://127\.0\.0\.1:1 within 0\.1 s"
        ):
            receiver.status(timeout=0.1)
        assert not receiver.alive and receiver.problem.startswith("no answer from")
    assert receiver.next(0.1) is None  # closed
    assert list(receiver) == []


def test_the_dead_man_flag_follows_the_pictures() -> None:
    with StreamRig() as rig, Receiver(rig.endpoint, timeout_s=0.3) as receiver:
        assert not receiver.alive
        with rig.playing(SMALL):
            wait_until(lambda: receiver.alive)
        registrations = receiver.counters["registrations"]
        wait_until(lambda: not receiver.alive)
        with rig.playing(SMALL):  # same frame ids, newer times
            wait_until(lambda: receiver.alive)
        assert receiver.counters["registrations"] == registrations


def test_status_and_commands_reach_the_bridge() -> None:
    with (
        StreamRig(commands={"double": lambda args: 2 * args["value"]}) as rig,
        Receiver(rig.endpoint) as receiver,
    ):
        assert receiver.status(timeout=60.0) == {"state": "fine"}
        assert receiver.send_command("double", timeout=60.0, value=21) == 42
        with pytest.raises(ValueError, match="unknown command 'explode'; known: \\['double'\\]"):
            receiver.send_command("explode", timeout=60.0)


def test_the_camera_may_appear_later_and_the_reason_is_told() -> None:
    with StreamRig() as rig, Receiver(rig.endpoint, camera="rear") as receiver:
        wait_until(lambda: receiver.problem == "no camera named 'rear', known: ['front']")
        rig.add_camera("rear")
        wait_until(lambda: receiver.counters["registrations"] >= 1)
        with rig.playing(SMALL, camera="rear"):
            assert first(receiver).metadata["camera"] == "rear"


def test_a_restarted_bridge_is_found_again_within_two_seconds() -> None:
    # Starts before any bridge, at an address that stays empty.
    with Receiver("tcp://127.0.0.1:1") as lost:
        rig = StreamRig()
        with Receiver(rig.endpoint, encoding="raw") as receiver:
            for restart in range(3):
                with rig.playing(SMALL):
                    first(receiver)
                endpoint, port = rig.endpoint, rig.sink().port
                rig.close()
                while receiver.next(0.05) is not None:
                    pass
                rig = StreamRig(bind=endpoint, data_port=port if restart else 0)
                with rig.playing(SMALL):
                    assert wait_until(lambda: receiver.next(0.01) is not None) < 2.0
                assert receiver.counters["registrations"] >= restart + 2
        rig.close()
        assert lost.next(0.0) is None


def test_a_client_that_fell_silent_comes_back_by_itself() -> None:
    with StreamRig() as rig, Receiver(rig.endpoint, encoding="raw") as receiver, rig.playing(SMALL):
        first(receiver)
        dropped = threading.Event()

        def forget() -> None:
            for reader in rig.hub._slots:
                rig.hub._forget(reader)
            dropped.set()

        rig.loop.call_soon_threadsafe(forget)
        assert dropped.wait(60.0)
        wait_until(lambda: receiver.counters["registrations"] >= 2)
        first(receiver)


def test_a_client_that_leaves_says_so() -> None:
    with StreamRig() as rig:
        with Receiver(rig.endpoint):
            wait_until(lambda: rig.sink().subscribers)
        wait_until(lambda: not rig.sink().subscribers)
        assert rig.hub.counters["silent"] == 0
