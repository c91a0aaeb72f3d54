"""The bridge's client against Unity's state machine, against our server, and played by hand."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
import zmq

from tests.support.common import PATIENCE_S, wait_until
from tests.support.flightgoggles import view
from tests.support.flightmare import (
    FRONT,
    LosesFirst,
    Pump,
    client,
    depth_m,
    is_ready,
    lossy,
    painted,
    ports,
    server,
)
from tests.support.flightmare_unity import unity
from vil_bridge.core.types import Modality
from vil_bridge.interfaces.ports import RendererClient
from vil_bridge.runtime.supervisor import ComponentState
from vil_renderer.flightmare.client import FlightmareClient

pytestmark = pytest.mark.wire


FRAMES = int(os.environ.get("VIL_SOAK_FRAMES", "300"))
SOAK_TIMEOUT_S = PATIENCE_S + FRAMES / 20
VIEWS = (view(FRONT), view(FRONT, Modality.DEPTH32))


def test_the_client_is_a_renderer_client() -> None:
    with client() as bridge:
        assert isinstance(bridge, RendererClient)


# --- Unity's state machine ------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["master", "2022", "agile_autonomy"])
def test_six_settings_messages_open_the_renderer(dialect: str) -> None:
    with (
        client(dialect=dialect, scene_id=3) as bridge,
        unity(ports(bridge), dialect=dialect) as program,
    ):
        pump = Pump(bridge)
        pump.views = (*VIEWS, view(FRONT, Modality.GRAY), view(FRONT, Modality.DEPTH))
        pump.frames_reach(20)
        pump.check_new()
        assert (program.settings_seen, program.readies, program.scene_ids) == (6, 1, [3])
        frame = pump.frames[-1]
        colour, metres, grey, units = (image.pixels for image in frame.images)
        number = frame.request.frame_id
        # Agile-autonomy's far plane is 1000 m away, so that a depth of 100 m is near.
        assert metres[-1, 0] == pytest.approx(depth_m(number), rel=1e-6) and metres[0, 0] == 100.0
        assert units[-1, 0] == round(depth_m(number) * 655.35) and units[0, 0] == 65535
        r, g, b = (int(c) for c in colour[-1, 0])
        assert abs(int(grey[-1, 0]) - (0.299 * r + 0.587 * g + 0.114 * b)) <= 1.0
        report = bridge.status.report()
        assert report.state is ComponentState.RUNNING and report.facts["renderer"] == "original"
        assert report.counters["malformed"] == report.counters["unsupported"] == 0


def test_a_frame_opens_the_renderer_when_ready_is_lost() -> None:
    with client() as bridge, unity(ports(bridge), lost_readies=1) as program:
        pump = Pump(bridge)
        pump.frames_reach(20)
        pump.check_new()
        assert program.readies == 1 and program.drawn[0] == 0, (
            "a late settings message was drawn as frame 0"
        )
        assert bridge.status.counters["foreign"] >= 1, "and that frame was nobody's"
        assert bridge.status.counters["restarts"] == 0


def test_lost_poses_are_asked_again_and_no_picture_is_late() -> None:
    with (
        client(answer_timeout_s=0.1) as bridge,
        unity(ports(bridge), lost=lambda n: n % 5 in (0, 1)) as program,
    ):
        pump = Pump(bridge)
        pump.views = VIEWS
        pump.frames_reach(40)
        pump.check_new()
        counters = bridge.status.counters
        assert counters["unanswered"] + counters["skipped"] >= 10
        assert counters["restarts"] == 0 and program.reloads == 0


def test_keep_alive_holds_the_renderer_while_nobody_asks() -> None:
    """Repeats go on for longer than the silence after which the program starts over."""
    with client(keep_alive_s=0.15) as bridge, unity(ports(bridge), timeout_s=3.0) as program:
        pump = Pump(bridge)
        pump.frames_reach(3)
        count, drawn = len(pump.frames), len(program.drawn)
        pump.until(lambda: len(program.drawn) >= drawn + 26, asking=False)
        assert program.reloads == 0 and bridge.status.counters["repeats"] >= 24
        assert len(pump.frames) <= count + 2, "repeated poses are not delivered again"
        pump.frames_reach(count + 5)
        pump.check_new()


def test_after_a_pause_the_renderer_starts_over_and_so_do_we() -> None:
    with client(silence_s=3.0) as bridge, unity(ports(bridge), timeout_s=3.0) as program:
        pump = Pump(bridge)
        pump.frames_reach(5)
        wait_until(lambda: program.reloads == 1)  # nothing is sent meanwhile
        pump.frames_reach(len(pump.frames) + 10)
        pump.check_new()
        assert program.readies == 2 and program.settings_seen >= 12
        assert bridge.status.counters["restarts"] >= 1


def test_silence_alone_leads_back_to_the_settings() -> None:
    """The line is cut while all sockets stay connected.

    Nobody says that the renderer has started over.
    """
    cut = threading.Event()

    def lost(_way: str, _parts: Sequence[bytes]) -> bool:
        return cut.is_set()

    with (
        client(silence_s=0.4, answer_timeout_s=0.15) as bridge,
        lossy(ports(bridge), lost) as taken,
        unity(taken, timeout_s=0.4) as program,
    ):
        pump = Pump(bridge)
        pump.frames_reach(5)
        cut.set()
        pump.until(lambda: "no pose for 0.15 s" in bridge.status.report().reason)
        pump.until(lambda: program.reloads >= 1 and bridge.status.counters["restarts"] >= 1)
        assert bridge.status.state is ComponentState.WAITING
        cut.clear()
        pump.frames_reach(len(pump.frames) + 10)
        pump.check_new()
        pump.until(lambda: program.readies >= 2 and bridge.status.state is ComponentState.RUNNING)


def test_other_cameras_wait_until_the_renderer_has_started_over() -> None:
    with client(silence_s=3.0) as bridge, unity(ports(bridge), timeout_s=3.0) as program:
        pump = Pump(bridge)
        pump.frames_reach(5)
        pump.views = (view(FRONT), view(replace(FRONT, name="rear")))
        pump.until(lambda: bool(pump.frames) and len(pump.frames[-1].images) == 2)
        pump.check_new()
        assert program.reloads == 1, "the settings went out before the program could take them"


def test_a_restarted_program_is_opened_again() -> None:
    with client() as bridge:
        pump = Pump(bridge)
        for round_ in range(1, 4):
            with unity(ports(bridge), lost_readies=round_ % 2):
                pump.frames_reach(10 * round_)
            pump.until(lambda: bridge.status.state is ComponentState.WAITING)
            assert not bridge.ready()
        pump.check_new()


def test_a_restarted_client_takes_the_program_over() -> None:
    with client() as first, unity(ports(first), timeout_s=0.3):
        taken = ports(first)
        Pump(first).frames_reach(5)
        first.close()
        with client(pose_port=taken[0], image_port=taken[1]) as second:
            pump = Pump(second, first_id=1000)
            pump.frames_reach(5)
            pump.check_new()
    assert first.receive() is None and not first.ready()
    first.keep_alive()
    first.close()


@pytest.mark.timeout(900.0 + SOAK_TIMEOUT_S)
def test_many_frames_through_losses_and_restarts() -> None:
    share = max(FRAMES // 3, 1)
    with client(answer_timeout_s=0.1, silence_s=0.5) as bridge:
        pump = Pump(bridge)
        pump.views = VIEWS
        drawn = 0
        for round_ in range(3):
            with unity(
                ports(bridge),
                timeout_s=0.5,
                frame_s=0.0,
                lost_readies=round_ % 2,
                lost=lambda n: n % 53 == 1,
            ) as program:
                pump.frames_reach((round_ + 1) * share, SOAK_TIMEOUT_S, period_s=0.0005)
                pump.check_new()
            # Read at its end: until then it answers what is still under way.
            drawn += len(program.drawn)
        assert bridge.status.counters["malformed"] == 0
        assert bridge.status.counters["answered"] == len(pump.frames) <= drawn


# --- played by hand -------------------------------------------------------------------------------


@contextlib.contextmanager
def by_hand(of: FlightmareClient) -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    """A renderer's two sockets."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        poses, images = context.socket(zmq.SUB), context.socket(zmq.PUB)
        for each, port in ((poses, of.pose_port), (images, of.image_port)):
            each.linger = 0
            each.connect(f"tcp://127.0.0.1:{port}")
        poses.subscribe(b"Pose")
        yield poses, images
    finally:
        context.destroy(linger=0)


def frame_of(number: int, pixels: bytes | None = None) -> list[bytes]:
    header = {"frame_id": number, "pub_vehicles": [{"collision": False, "lidar_ranges": []}]}
    return [
        json.dumps(header).encode(),
        painted(number, "front", 16, 8)[::-1].tobytes() if pixels is None else pixels,
    ]


def test_only_frames_that_somebody_waits_for_are_taken() -> None:
    with client() as bridge, by_hand(bridge) as (poses, images):
        pump = Pump(bridge)
        pump.views = (view(FRONT),)
        pump.until(lambda: poses.poll(0) > 0)
        # A frame without a number of ours opens; it is repeated, since the first ones meet no
        # subscription.
        while "dialect" not in bridge.status.facts:
            images.send_multipart(frame_of(0))
            pump.until(lambda: bridge.receive() is None, asking=False)
            threading.Event().wait(0.005)
        asked: list[int] = []

        def two_are_out() -> bool:
            while poses.poll(0):
                message = json.loads(poses.recv_multipart()[1])
                asked.extend([message["frame_id"]] if "frame_id" in message else [])
            return len(asked) == 2

        pump.until(two_are_out)
        assert not bridge.ready() and bridge.in_flight == 2
        before = bridge.status.counters["foreign"]
        late = [0, 7777777, asked[1], asked[0], asked[1]]
        for number in late:
            images.send_multipart(frame_of(number))
        pump.until(lambda: bridge.status.counters["foreign"] == before + 4, asking=False)
        assert [frame.request.frame_id for frame in pump.frames] == [asked[1]]
        assert bridge.status.counters["skipped"] == 1
        pump.check_new()


def test_rubbish_is_counted_and_skipped() -> None:
    with client(answer_timeout_s=60.0) as bridge, by_hand(bridge) as (poses, images):
        pump = Pump(bridge)
        pump.views = (view(FRONT),)
        pump.until(lambda: poses.poll(0) > 0)
        while "dialect" not in bridge.status.facts:
            images.send_multipart([b'{"ready":true}'])
            pump.until(lambda: bridge.receive() is None, asking=False)
            threading.Event().wait(0.005)
        rubbish = [
            [b"\xff" * 40],
            [b"{}" * 8],
            [b'{"ready":true}', b""],
            [b'{"ready":"yes"}'],
            [b'{"frame_id":1.5,"pub_vehicles":[]}'],
            [b'{"frame_id":18446744073709551615,"pub_vehicles":[]}'],
            [b""],
            [b"CollisionState", b"nothing"],
        ]
        for parts in rubbish:
            images.send_multipart(parts)
        counters = bridge.status.counters
        pump.until(lambda: counters["malformed"] == len(rubbish))
        bad = [[], [b"short"], [painted(1, "front", 16, 8).tobytes()] * 2]
        for extra in bad:
            pump.until(lambda: bridge.in_flight > 0)
            number = _newest_asked(poses, pump)
            images.send_multipart([frame_of(number)[0], *extra])
            pump.until(lambda: bridge.in_flight == 0, asking=False)
        assert counters["malformed"] == len(rubbish) + len(bad)
        assert not pump.frames


def _newest_asked(poses: zmq.Socket[bytes], pump: Pump) -> int:
    found: list[int] = []

    def drained() -> bool:
        while poses.poll(0):
            message = json.loads(poses.recv_multipart()[1])
            found.extend([message["frame_id"]] if "frame_id" in message else [])
        return bool(found) and found[-1] == pump.next_id - 1

    pump.until(drained, asking=False)
    return found[-1]


def test_the_first_ready_of_our_server_may_be_lost() -> None:
    with (
        client() as bridge,
        lossy(ports(bridge), LosesFirst(2, is_ready)) as taken,
        server(taken) as counters,
    ):
        pump = Pump(bridge)
        pump.frames_reach(5)
        pump.check_new()
        assert counters["ready"] >= 3
        assert bridge.status.counters["foreign"] == 0, "no settings message got a frame"
