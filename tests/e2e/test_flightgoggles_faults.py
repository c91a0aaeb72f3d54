"""The FlightGoggles client and renderers that are silent, repeat themselves, or send what is no
answer.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import zmq

from tests.support.common import PATIENCE_S
from tests.support.flightgoggles import (
    Pump,
    ask,
    client,
    draw,
    ports,
    server,
    view,
)
from tests.support.flightgoggles_peers import first_picture, raw_renderer, sockets
from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import CameraModel, RenderedImage, View, WorldSnapshot
from vil_bridge.runtime.supervisor import ComponentState
from vil_renderer.flightgoggles.client import FlightGogglesClient
from vil_renderer.flightgoggles.config import FlightGogglesConfig
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.wire


def test_silence_ends_in_opening_and_is_counted() -> None:
    with client(answer_timeout_s=0.1) as bridge, raw_renderer(bridge) as (poses, images):
        pump = Pump(bridge)
        first_picture(pump, poses, images)
        pump.until(lambda: bridge.status.state is ComponentState.WAITING)
        assert bridge.status.report().counters["unanswered"] >= 1
        while poses.poll(0):
            poses.recv_multipart()
        started, asked = time.monotonic(), pump.asked
        pump.until(lambda: pump.asked >= asked + 5)
        assert time.monotonic() - started > 0.35, "poses go out every 100 ms to a silent renderer"


def test_duplicates_and_rubbish_are_counted_and_skipped() -> None:
    with client() as bridge, raw_renderer(bridge) as (poses, images):
        pump = Pump(bridge)
        answer = first_picture(pump, poses, images)
        counters = bridge.status.counters
        before = counters["duplicates"]
        rubbish = [
            [b"\xff" * 40],
            [b"{}" * 8, b""],
            [answer[0]],
            [answer[0], answer[1][:-1]],
            answer + answer[1:],
            [b""] * 80,
        ]
        for parts in (*rubbish, answer, *rubbish, answer):
            images.send_multipart(parts)
        pump.until(lambda: counters["duplicates"] == before + 2, asking=False)
        assert counters["malformed"] == 2 * len(rubbish)
        assert len(pump.frames) == counters["answered"] == 1


def test_a_stranger_on_the_pose_port_is_counted() -> None:
    with client() as bridge, sockets(zmq.XSUB) as (stranger,), server(ports(bridge)):
        stranger.connect(f"tcp://127.0.0.1:{bridge.pose_port}")
        for message in (b"\x05nonsense", b"", b"\x01Weather"):
            stranger.send(message)
        pump = Pump(bridge)
        pump.until(lambda: bridge.status.counters["malformed"] >= 1)
        with socket.create_connection(("127.0.0.1", bridge.pose_port)) as raw:
            raw.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
        pump.frames_reach(5)


def test_a_message_beyond_all_measure_is_cut_off() -> None:
    with client() as bridge, sockets(zmq.PUB) as (flood,), server(ports(bridge)):
        flood.connect(f"tcp://127.0.0.1:{bridge.image_port}")
        watch = flood.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        pump = Pump(bridge)
        pump.frames_reach(1)
        huge = bytes(9 << 20)
        with contextlib.closing(watch):
            deadline = time.monotonic() + PATIENCE_S
            while not watch.poll(20):
                assert time.monotonic() < deadline
                flood.send(huge, copy=False)
            flood.disable_monitor()
        pump.frames_reach(len(pump.frames) + 5)
        assert bridge.status.counters["malformed"] == 0


def test_pictures_of_one_colour_are_named() -> None:
    black = threading.Event()
    black.set()

    def dark(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
        drawn = draw(views, snapshot)
        if not black.is_set():
            return drawn
        return replace(
            drawn, images=tuple(RenderedImage(i.view, i.pixels * 0) for i in drawn.images)
        )

    with client(scene="Museum_Day") as bridge, server(ports(bridge), dark):
        pump = Pump(bridge)
        pump.frames_reach(3)
        report = bridge.status.report()
        assert report.state is ComponentState.WAITING and "Museum_Day" in report.reason
        assert report.counters["blank"] >= 3, "they are delivered all the same"
        black.clear()
        pump.until(lambda: bridge.status.state is ComponentState.RUNNING)


def test_a_pose_that_is_not_finite_is_refused_and_the_next_one_goes_out() -> None:
    with client() as bridge, server(ports(bridge)) as counters:
        pump = Pump(bridge)
        pump.until(bridge.ready, asking=False)
        good = view()
        bad = replace(good.T_world_camera, p_m=np.array([0.0, np.nan, 0.0]))
        bridge.request(ask(1, [replace(good, T_world_camera=bad)]))
        bridge.request(ask(2**62))
        bridge.request(ask(3, [view(CameraModel("wide", 2000, 1400, 1.0))]))
        assert bridge.status.counters["refused"] == 3
        assert "'wide' exceed max_picture_mib" in bridge.status.facts["refused"]
        pump.frames_reach(1)
        assert counters["malformed"] == 0


def test_a_taken_port_is_an_error_that_names_it() -> None:
    with client() as bridge, pytest.raises(RendererError, match=str(bridge.pose_port)):
        FlightGogglesClient("second", FlightGogglesConfig(pose_port=bridge.pose_port))
