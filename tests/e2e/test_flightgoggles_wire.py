"""The FlightGoggles client and our renderer over real sockets.

What is asked, what comes back, who may restart.
"""

from __future__ import annotations

import contextlib
import select
import sys
import threading
import time
from collections import deque

import numpy as np
import pytest

from tests.support.common import PATIENCE_S, wait_until
from tests.support.flightgoggles import (
    Pump,
    ask,
    client,
    draw,
    picture,
    ports,
    server,
    view,
)
from tests.support.flightgoggles_peers import answer_to, first_picture, raw_renderer
from tests.support.programs import Program
from vil_bridge.core.types import CameraModel, Modality, View, WorldSnapshot
from vil_bridge.interfaces.ports import RendererClient
from vil_bridge.runtime.supervisor import ComponentState
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.wire


def test_the_client_is_a_renderer_client() -> None:
    with client() as bridge:
        assert isinstance(bridge, RendererClient)


def test_pictures_arrive_upright_and_matched() -> None:
    with client() as bridge, server(ports(bridge)) as counters:
        pump = Pump(bridge, first_id=2**53 + 1)
        pump.views = (
            view(),
            view(modality=Modality.DEPTH),
            view(CameraModel("down", 10, 4, 1.0), Modality.GRAY),
        )
        pump.frames_reach(10)
        ids = [f.request.frame_id for f in pump.frames]
        assert ids == sorted(set(ids)) and min(ids) > 2**53
        for image in pump.frames[-1].images:
            camera = image.view.camera
            assert np.array_equal(
                image.pixels, picture(image.view.modality, camera.width_px, camera.height_px)
            )
        report = bridge.status.report()
        assert report.state is ComponentState.RUNNING
        assert report.facts["renderer"] == "test" and report.facts["api_version"] == "vil/2"
        assert report.counters["answered"] == len(pump.frames)
        assert counters["malformed"] == report.counters["malformed"] == 0


def test_receive_belongs_to_another_thread() -> None:
    with client() as bridge, server(ports(bridge)):
        got, stop = deque[int](), threading.Event()

        def relay() -> None:
            while not stop.is_set():
                while (frame := bridge.receive()) is not None:
                    got.append(frame.request.frame_id)
                stop.wait(0.001)

        thread = threading.Thread(target=relay)
        thread.start()
        try:
            frame_id, deadline = 0, time.monotonic() + PATIENCE_S
            while len(got) < 300:
                assert time.monotonic() < deadline
                if bridge.ready():
                    frame_id += 1
                    bridge.request(ask(frame_id))
                stop.wait(0.0005)
        finally:
            stop.set()
            thread.join()
        assert list(got) == sorted(set(got))


def test_the_descriptor_wakes_the_relay() -> None:
    with client() as bridge, server(ports(bridge)):
        pump = Pump(bridge)
        pump.frames_reach(1)
        pump.until(lambda: bridge.ready() and bridge.receive() is None, asking=False)
        bridge.request(ask(10**6))
        with contextlib.closing(select.epoll()) as poller:
            poller.register(bridge.fileno())
            deadline = time.monotonic() + PATIENCE_S
            while (frame := bridge.receive()) is None:
                assert time.monotonic() < deadline and poller.poll(5.0)
        assert frame.request.frame_id == 10**6


def test_five_swallowed_poses() -> None:
    with client() as bridge, server(ports(bridge), swallow=5) as counters:
        pump = Pump(bridge)
        started = time.monotonic()
        pump.frames_reach(5)
        assert time.monotonic() - started >= 0.5, (
            "a loading renderer gets ten poses a second at most"
        )
        assert counters["swallowed"] == 5
        assert bridge.status.report().counters["swallowed"] >= 5
        assert bridge.status.report().counters["unanswered"] == 0


def test_keep_alive_prevents_the_reset_and_shows_no_picture_twice() -> None:
    """Repeats go on for longer than the silence after which the renderer starts over."""
    with client(keep_alive_s=0.15) as bridge, server(ports(bridge), reset_s=3.0) as counters:
        pump = Pump(bridge)
        pump.frames_reach(3)
        count, answered = len(pump.frames), counters["answered"]
        pump.until(lambda: counters["answered"] >= answered + 26, asking=False)
        assert counters["resets"] == 0
        assert len(pump.frames) <= count + 2, "repeated requests are not delivered again"
        assert bridge.status.report().counters["repeats"] >= 24
        pump.until(lambda: bridge.status.state is ComponentState.RUNNING, asking=False)
        pump.frames_reach(count + 5)
        assert len({f.request.frame_id for f in pump.frames}) == len(pump.frames)


def test_a_reset_is_survived() -> None:
    with client() as bridge, server(ports(bridge), swallow=2, reset_s=0.2) as counters:
        pump = Pump(bridge)
        pump.frames_reach(3)
        wait_until(lambda: counters["resets"] > 0)
        assert pump.frames_reach(len(pump.frames) + 3) < 2.0


def test_keep_alive_alone_revives_a_renderer() -> None:
    with client(keep_alive_s=0.1) as bridge:
        pump = Pump(bridge)
        with server(ports(bridge)):
            pump.frames_reach(2)
        pump.until(lambda: bridge.status.state is ComponentState.WAITING, asking=False)
        with server(ports(bridge), swallow=3):
            pump.until(lambda: bridge.status.state is ComponentState.RUNNING, asking=False)


def test_status_says_what_is_missing() -> None:
    with client() as bridge:
        report = bridge.status.report()
        assert report.state is ComponentState.WAITING
        ports_given = f"-input-port {bridge.pose_port} -output-port {bridge.image_port}"
        assert f"`vil-bridge renderer -{ports_given.replace(' -', ' --')}`" in report.reason
        assert f"FlightGoggles with -client-ip <this host> {ports_given}" in report.reason
        assert not bridge.ready()
        bridge.request(ask(1))
        assert bridge.status.report().counters["refused"] == 1
        with raw_renderer(bridge):
            Pump(bridge).until(lambda: "has not answered" in bridge.status.report().reason)
        Pump(bridge).until(lambda: "no renderer" in bridge.status.report().reason)


RENDERER_PROCESS = """
import sys, threading
from tests.support.flightgoggles import draw
from vil_renderer.flightgoggles.server import FlightGogglesServerConfig, serve
serve(draw, FlightGogglesServerConfig(pose_port=int(sys.argv[1]), image_port=int(sys.argv[2])),
    threading.Event())
"""


@pytest.mark.process
def test_a_killed_renderer_is_replaced_within_two_seconds() -> None:
    with client() as bridge:
        pump = Pump(bridge)
        for round_ in range(2):
            with Program(sys.executable, "-c", RENDERER_PROCESS, *ports(bridge)) as process:
                if round_ == 0:
                    pump.frames_reach(5)
                else:
                    pump.until(bridge.ready)
                    assert pump.frames_reach(len(pump.frames) + 5) < 2.0
                process.kill()
            pump.until(lambda: bridge.status.state is ComponentState.WAITING)
            assert not bridge.ready()


def test_a_restarted_client_is_found_again() -> None:
    with client() as first:
        taken = ports(first)
        with server(taken) as counters:
            Pump(first).frames_reach(3)
            first.close()
            with client(pose_port=taken[0], image_port=taken[1]) as second:
                assert Pump(second).frames_reach(3) < 2.0
            assert counters["malformed"] == counters["failed"] == 0
    assert first.receive() is None and not first.ready()
    first.keep_alive()
    first.close()


def test_a_slow_renderer_in_strict_order_never_gets_a_backlog() -> None:
    unanswered: list[int] = []

    with client() as bridge:
        pump = Pump(bridge)

        def slow(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
            threading.Event().wait(0.025)
            unanswered.append(pump.asked - len(unanswered))
            return draw(views, snapshot)

        with server(ports(bridge), slow, newest_only=False):
            pump.frames_reach(40, period_s=1 / 60)
        assert max(unanswered) == 2, "a pose is answered after the next one at the latest"


def test_no_more_than_the_credit_is_ever_unanswered() -> None:
    with client(max_in_flight=3) as bridge, raw_renderer(bridge) as (poses, images):
        pump = Pump(bridge)
        first_picture(pump, poses, images)
        got: list[list[bytes]] = []

        def three_and_no_more() -> bool:
            while poses.poll(0):
                got.append(poses.recv_multipart())
            return len(got) >= 3 and not bridge.ready()

        pump.until(three_and_no_more)
        assert poses.poll(100) == 0, "a fourth pose went out"
        frames = len(pump.frames)
        images.send_multipart(answer_to(got[-1]))
        pump.frames_reach(frames + 1)
        assert bridge.status.report().counters["skipped"] >= 1, (
            "answers to the two before will not come"
        )
