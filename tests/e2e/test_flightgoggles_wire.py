"""Client and renderer over real sockets."""

from __future__ import annotations

import contextlib
import json
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import zmq

from tests.flightgoggles_support import (
    BLUE,
    RED,
    Pump,
    ask,
    client,
    draw,
    golden,
    picture,
    ports,
    server,
    strict_read,
    view,
)
from tests.support import ROOT
from vil_bridge.core.errors import RendererError
from vil_bridge.core.ports import RendererClient
from vil_bridge.core.supervisor import ComponentState
from vil_bridge.core.types import CameraModel, Modality, RenderedImage, View, WorldSnapshot
from vil_renderer.flightgoggles.client import FlightGogglesClient
from vil_renderer.flightgoggles.config import FlightGogglesConfig
from vil_renderer.flightgoggles.server import Drawn

Socket = zmq.Socket[bytes]


@contextlib.contextmanager
def sockets(*kinds: int) -> Iterator[list[Socket]]:
    context = zmq.Context()
    try:
        made = [context.socket(kind) for kind in kinds]
        for each in made:
            each.linger = 0
        yield made
    finally:
        context.destroy(linger=0)


@contextlib.contextmanager
def raw_renderer(of: FlightGogglesClient) -> Iterator[tuple[Socket, Socket]]:
    """A renderer's two sockets, to be played by hand."""
    with sockets(zmq.SUB, zmq.PUB) as (poses, images):
        poses.subscribe(b"Pose")
        poses.connect(f"tcp://127.0.0.1:{of.pose_port}")
        images.connect(f"tcp://127.0.0.1:{of.image_port}")
        yield poses, images


def answer_to(pose: list[bytes], fill: bytes = bytes(RED)) -> list[bytes]:
    """What a minimal v2 renderer answers."""
    message = json.loads(pose[1])
    cameras = message["cameras"]
    keys = {
        "ntime": message["ntime"],
        "camWidth": message["camWidth"],
        "camHeight": message["camHeight"],
        "camDepthScale": 0.2,
        "cameraIDs": [c["ID"] for c in cameras],
        "channels": [3] * len(cameras),
        "hasCameraCollision": False,
        "landmarksInView": [],
        "lidarReturn": 21.0,
    }
    top = bytes(BLUE) * (message["camWidth"] * message["camHeight"] // 2)
    bottom = fill * (message["camWidth"] * message["camHeight"] // 2)
    return [json.dumps(keys).encode(), *[bottom + top] * len(cameras)]


def first_picture(pump: Pump, poses: Socket, images: Socket) -> list[bytes]:
    """Answer poses until one answer has arrived (the first may find no subscription); returns it."""
    answer: list[bytes] = []
    while not pump.frames:
        pump.until(lambda: bool(pump.frames) or poses.poll(0) > 0)
        if not pump.frames:
            answer = answer_to(poses.recv_multipart())
            images.send_multipart(answer)
    return answer


# --- the client against our renderer ------------------------------------------------------------


def test_the_client_is_a_renderer_client() -> None:
    with client() as bridge:
        assert isinstance(bridge, RendererClient)


def test_pictures_arrive_upright_and_matched() -> None:
    with client() as bridge, server(ports(bridge)) as counters:
        pump = Pump(bridge, first_id=2**53 + 1)
        pump.views = (view(), view(modality=Modality.DEPTH), view(CameraModel("down", 10, 4, 1.0), Modality.GRAY))
        pump.frames_reach(10)
        ids = [f.request.frame_id for f in pump.frames]
        assert ids == sorted(set(ids)) and min(ids) > 2**53
        for image in pump.frames[-1].images:
            camera = image.view.camera
            assert np.array_equal(image.pixels, picture(image.view.modality, camera.width_px, camera.height_px))
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
            frame_id, deadline = 0, time.monotonic() + 10.0
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
            deadline = time.monotonic() + 5.0
            while (frame := bridge.receive()) is None:
                assert time.monotonic() < deadline and poller.poll(5.0)
        assert frame.request.frame_id == 10**6


def test_five_swallowed_poses() -> None:
    with client() as bridge, server(ports(bridge), swallow=5) as counters:
        pump = Pump(bridge)
        started = time.monotonic()
        pump.frames_reach(5)
        assert time.monotonic() - started >= 0.5, "a loading renderer gets ten poses a second at most"
        assert counters["swallowed"] == 5
        assert bridge.status.report().counters["swallowed"] >= 5
        assert bridge.status.report().counters["unanswered"] == 0


def test_keep_alive_prevents_the_reset_and_shows_no_picture_twice() -> None:
    with client(keep_alive_s=0.15) as bridge, server(ports(bridge), reset_s=0.6) as counters:
        pump = Pump(bridge)
        pump.frames_reach(3)
        count, answered = len(pump.frames), counters["answered"]
        pump.until(lambda: counters["answered"] >= answered + 8, asking=False)
        assert counters["resets"] == 0
        assert len(pump.frames) <= count + 2, "repeated requests are not delivered again"
        report = bridge.status.report()
        assert report.counters["repeats"] >= 6 and report.state is ComponentState.RUNNING
        pump.frames_reach(count + 5)
        assert len({f.request.frame_id for f in pump.frames}) == len(pump.frames)


def test_a_reset_is_survived() -> None:
    with client() as bridge, server(ports(bridge), swallow=2, reset_s=0.2) as counters:
        pump = Pump(bridge)
        pump.frames_reach(3)
        deadline = time.monotonic() + 5.0
        while counters["resets"] == 0:
            assert time.monotonic() < deadline
            threading.Event().wait(0.02)
        count, started = len(pump.frames), time.monotonic()
        pump.frames_reach(count + 3)
        assert time.monotonic() - started < 2.0


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
from tests.flightgoggles_support import draw
from vil_renderer.flightgoggles.server import ServerConfig, serve
serve(draw, ServerConfig(pose_port=int(sys.argv[1]), image_port=int(sys.argv[2])), threading.Event())
"""


def test_a_killed_renderer_is_replaced_within_two_seconds() -> None:
    with client() as bridge:
        pump = Pump(bridge)
        for round_ in range(2):
            process = subprocess.Popen([sys.executable, "-c", RENDERER_PROCESS, *map(str, ports(bridge))], cwd=ROOT)
            try:
                if round_ == 0:
                    pump.frames_reach(5, timeout_s=20.0)
                else:
                    pump.until(bridge.ready, timeout_s=20.0)
                    started = time.monotonic()
                    pump.frames_reach(len(pump.frames) + 5)
                    assert time.monotonic() - started < 2.0
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
            pump.until(lambda: bridge.status.state is ComponentState.WAITING)
            assert not bridge.ready()


def test_a_restarted_client_is_found_again() -> None:
    with client() as first:
        taken = ports(first)
        with server(taken) as counters:
            Pump(first).frames_reach(3)
            first.close()
            with client(pose_port=taken[0], image_port=taken[1]) as second:
                started = time.monotonic()
                Pump(second).frames_reach(3)
                assert time.monotonic() - started < 2.0
            assert counters["malformed"] == counters["failed"] == 0
    assert first.receive() is None and not first.ready()
    first.keep_alive()
    first.close()


def test_a_slow_renderer_in_strict_order_never_gets_a_backlog() -> None:
    unanswered: list[int] = []

    with client() as bridge:
        pump = Pump(bridge)

        def slow(views: tuple[View, ...], snapshot: WorldSnapshot) -> Drawn:
            threading.Event().wait(0.025)
            unanswered.append(pump.asked - len(unanswered))
            return draw(views, snapshot)

        with server(ports(bridge), slow, newest_only=False):
            pump.frames_reach(40, period_s=1 / 60)
        assert max(unanswered) == 2
        ages_ms = sorted((f.t_image_ns - f.request.t_request_ns) / 1e6 for f in pump.frames)
        assert ages_ms[len(ages_ms) // 2] < 80.0


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
        assert bridge.status.report().counters["skipped"] >= 1, "answers to the two before will not come"


def test_silence_ends_in_opening_and_is_counted() -> None:
    with client(answer_timeout_s=0.1) as bridge, raw_renderer(bridge) as (poses, images):
        pump = Pump(bridge)
        first_picture(pump, poses, images)
        pump.until(lambda: bridge.status.state is ComponentState.WAITING)
        assert bridge.status.report().counters["unanswered"] >= 1
        while poses.poll(0):
            poses.recv_multipart()
        started, asked = time.monotonic(), pump.asked
        pump.until(lambda: time.monotonic() - started > 0.5)
        assert 1 <= pump.asked - asked <= 7, "poses go out every 100 ms to a silent renderer"


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
            deadline = time.monotonic() + 5.0
            while not watch.poll(20):
                assert time.monotonic() < deadline
                flood.send(huge, copy=False)
            flood.disable_monitor()
        pump.frames_reach(len(pump.frames) + 5)
        assert bridge.status.counters["malformed"] == 0


def test_pictures_of_one_colour_are_named() -> None:
    black = threading.Event()
    black.set()

    def dark(views: tuple[View, ...], snapshot: WorldSnapshot) -> Drawn:
        drawn = draw(views, snapshot)
        if not black.is_set():
            return drawn
        return replace(drawn, images=tuple(RenderedImage(i.view, i.pixels * 0) for i in drawn.images))

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


# --- our renderer against original clients ------------------------------------------------------


@contextlib.contextmanager
def original_client() -> Iterator[tuple[Socket, Socket, tuple[int, int]]]:
    """The two sockets of an original client."""
    with sockets(zmq.PUB, zmq.SUB) as (poses, images):
        taken = [each.bind_to_random_port("tcp://127.0.0.1") for each in (poses, images)]
        images.subscribe(b"")
        yield poses, images, (taken[0], taken[1])


def ask_until_answered(poses: Socket, images: Socket, message: list[bytes]) -> list[bytes]:
    """Send the pose until a picture comes: the first ones meet no subscription."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        poses.send_multipart(message)
        if images.poll(50):
            return images.recv_multipart()
    raise AssertionError("no answer in 5 s")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_original_clients_get_what_they_parse(version: int) -> None:
    with original_client() as (poses, images, taken), server(taken):
        sent = golden(f"pose_v{version}.json")
        header, (pixels,) = strict_read(version, ask_until_answered(poses, images, sent))
    message = json.loads(sent[1])
    stamp = "utime" if version == 1 else "ntime"
    assert header[stamp] == message[stamp]
    for key in ("camWidth", "camHeight", "camDepthScale"):
        assert header[key] == message[key]
    assert header["cameraIDs"] == [c["ID"] for c in message["cameras"]]
    if version == 1:
        assert (pixels[0, 0], pixels[-1, 0]) == (RED[0], BLUE[0])
    elif version == 2:
        assert (tuple(pixels[0, 0]), tuple(pixels[-1, 0])) == (RED, BLUE)
    else:
        assert header["cameraIndexes"] == [0]
        assert (pixels[0, 0], pixels[-1, 0]) == (0, 1000), "no hit is 0 on the wire"


@pytest.mark.parametrize("version", [2, 3])
def test_grey_has_three_bytes_per_pixel_for_v2_and_v3(version: int) -> None:
    topic, body = golden(f"pose_v{version}.json")
    message = json.loads(body)
    message["cameras"][0] |= {"channels": 1} if version == 2 else {"outputShaderType": 5}
    with original_client() as (poses, images, taken), server(taken):
        frames = ask_until_answered(poses, images, [topic, json.dumps(message).encode()])
    header, (pixels,) = strict_read(version, frames)
    assert header["channels"] == [1] and pixels.shape == (480, 640, 3)
    assert (pixels[0, 0].tolist(), pixels[-1, 0].tolist()) == ([RED[0]] * 3, [BLUE[0]] * 3)


@pytest.mark.parametrize(("scale", "near"), [(0.2, 2), (0.002, 195), (0.0, 255)])
def test_depth_is_grey_for_v1(scale: float, near: int) -> None:
    topic, body = golden("pose_v1.json")
    message = json.loads(body) | {"camDepthScale": scale}
    message["cameras"][0]["isDepth"] = True
    with original_client() as (poses, images, taken), server(taken):
        frames = ask_until_answered(poses, images, [topic, json.dumps(message).encode()])
    header, (pixels,) = strict_read(1, frames)
    assert header["channels"] == [1]
    # 1000 / 655.35 m of 1000 m times the scale; nothing was hit in the top row.
    assert (pixels[0, 0], pixels[-1, 0]) == (255, near)


def test_rubbish_does_not_stop_the_renderer() -> None:
    def picky(views: tuple[View, ...], snapshot: WorldSnapshot) -> Drawn:
        if snapshot.t_ns == 13:
            raise RendererError("unlucky")
        return draw(views, snapshot)

    topic, body = golden("pose_v2.json")
    huge = body.replace(b'"position":[-2.0', b'"position":[-2e30')
    unlucky = json.dumps(json.loads(body) | {"ntime": 13}).encode()
    rubbish = [
        [b"Pose"],
        [b"Pose", b""],
        [b"Pose", b"\xff" * 90],
        [b"Pose", body[:-1]],
        [b"Pose", body, body],
        [b"Poser", body],
    ]
    with original_client() as (poses, images, taken), server(taken, picky, newest_only=False) as counters:
        ask_until_answered(poses, images, [topic, body])
        for parts in (*rubbish, [topic, huge], [topic, unlucky]):
            poses.send_multipart(parts)
        ask_until_answered(poses, images, [topic, body])
        deadline = time.monotonic() + 5.0
        while counters["failed"] < 1 or counters["malformed"] < len(rubbish) + 1:
            assert time.monotonic() < deadline, counters
            threading.Event().wait(0.01)


def test_newest_only_skips_what_waited() -> None:
    seen: list[int] = []
    busy, go_on = threading.Event(), threading.Event()

    def blocking(views: tuple[View, ...], snapshot: WorldSnapshot) -> Drawn:
        seen.append(snapshot.t_ns)
        busy.set()
        go_on.wait(5.0)
        return draw(views, snapshot)

    topic, body = golden("pose_v2.json")
    message = json.loads(body)
    with original_client() as (poses, images, taken), server(taken, blocking) as counters:
        deadline = time.monotonic() + 5.0
        while not busy.wait(0.05):
            assert time.monotonic() < deadline
            poses.send_multipart([topic, body])
        for ntime in range(1, 6):
            poses.send_multipart([topic, json.dumps(message | {"ntime": ntime}).encode()])
        assert images.poll(200) == 0
        go_on.set()
        while seen[-1] != 5:
            assert time.monotonic() < deadline + 5.0
            threading.Event().wait(0.01)
        assert counters["superseded"] >= 3 and len(seen) <= 4
