"""Pixels between client and renderer through shared memory, chosen by themselves, and back to
messages.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zmq

from tests.support.common import wait_until
from tests.support.flightgoggles import (
    Pump,
    ask,
    client,
    draw,
    golden,
    ports,
    server,
    strict_read,
    view,
)
from tests.support.programs import Program
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import CameraModel, Modality, RenderedImage, View, WorldSnapshot
from vil_bridge.optics.pixel_formats import FORMAT_OF
from vil_bridge.runtime.supervisor import ComponentState
from vil_renderer.flightgoggles.client import FlightGogglesClient
from vil_renderer.flightgoggles.codec import decode_header, decode_pose, encode_pose
from vil_renderer.flightgoggles.convert import PoseWriter
from vil_renderer.flightgoggles.convert_renderer import RenderedRequest, read_pose, write_answer
from vil_renderer.flightgoggles.handover import HandoverReader, HandoverWriter

pytestmark = pytest.mark.wire


BY_MEMORY = "shared memory"
SMALL = CameraModel("small", 16, 12, 1.0)

RENDERER = """
import sys, threading
from tests.support.flightgoggles import draw
from vil_renderer.flightgoggles.server import FlightGogglesServerConfig, serve
config = FlightGogglesServerConfig(pose_port=int(sys.argv[1]), image_port=int(sys.argv[2]))
serve(draw, config, threading.Event())
"""


def way(of: FlightGogglesClient) -> Any:
    return of.status.facts.get("pictures_by")


def rings_mapped(pid: int | str = "self") -> int:
    return Path(f"/proc/{pid}/maps").read_text().count("/memfd:vil-ring")


def numbered(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
    """Pictures of every modality whose values are the request's time, so that they cannot be
    mixed up.
    """
    images: list[RenderedImage] = []
    for one in views:
        form = FORMAT_OF[one.modality]
        shape = form.shape(one.camera.width_px, one.camera.height_px)
        pixels = np.full(shape, 1 + snapshot.t_ns % 200).astype(form.dtype)
        pixels[0] += 1
        images.append(RenderedImage(one, pixels, pixels[..., 0] > 0 if form.masked else None))
    return RenderedRequest(tuple(images))


def test_every_modality_comes_through_memory_and_belongs_to_its_pose() -> None:
    with client() as bridge, server(ports(bridge), numbered) as counters:
        pump = Pump(bridge)
        pump.views = tuple(view(SMALL, modality) for modality in Modality)
        pump.frames_reach(5)
        wait_until(lambda: way(bridge) == BY_MEMORY)
        first, before = len(pump.frames), counters["by_ring"]
        for t_ns in range(40):
            request = replace(ask(10_000 + t_ns, pump.views), snapshot=WorldSnapshot(t_ns, ()))
            pump.until(bridge.ready, asking=False)
            bridge.request(request)
            pump.until(lambda: bridge.in_flight == 0, asking=False)
        assert counters["by_ring"] >= before + 40
        for t_ns, frame in enumerate(
            f for f in pump.frames[first:] if f.request.frame_id >= 10_000
        ):
            assert [image.view.modality for image in frame.images] == list(Modality)
            for image in frame.images:
                assert image.pixels.dtype == FORMAT_OF[image.view.modality].dtype
                assert (image.pixels[1:] == 1 + t_ns).all() and (image.pixels[0] == 2 + t_ns).all()
                assert (image.valid is not None and bool(image.valid.all())) == (
                    image.view.modality is Modality.FLOW
                )
        assert bridge.status.counters["malformed"] == counters["malformed"] == 0


@pytest.mark.process
def test_a_renderer_that_is_killed_leaves_nothing_and_the_next_one_takes_over() -> None:
    before = rings_mapped()
    with client() as bridge:
        pump = Pump(bridge)
        for _ in range(2):
            with Program(sys.executable, "-c", RENDERER, *ports(bridge)) as child:
                pump.until(lambda: way(bridge) == BY_MEMORY)
                assert rings_mapped() == before + 1 == rings_mapped(child.pid) + before
                pump.frames_reach(len(pump.frames) + 5)
                child.kill()
                pump.until(lambda: rings_mapped() == before)
        assert bridge.status.counters["malformed"] == 0


def test_a_client_that_restarts_begins_with_messages() -> None:
    with client() as bridge, server(ports(bridge)) as counters:
        pump = Pump(bridge)
        pump.until(lambda: way(bridge) == BY_MEMORY)
        where = {"pose_port": bridge.pose_port, "image_port": bridge.image_port}
        bridge.close()
        with client(**where) as again:
            pump = Pump(again, first_id=pump.next_id)
            pump.frames_reach(1)
            assert way(again) is not None
            pump.until(lambda: way(again) == BY_MEMORY)
        assert counters["malformed"] == counters["failed"] == 0


def test_larger_pictures_get_a_larger_ring() -> None:
    with client() as bridge, server(ports(bridge), numbered) as counters:
        pump = Pump(bridge)
        for side_px in (8, 200, 400):
            pump.views = (view(CameraModel("front", side_px, side_px, 1.0)),)
            wanted = counters["by_ring"] + 5
            while counters["by_ring"] < wanted:
                pump.frames_reach(len(pump.frames) + 1)
            assert pump.frames[-1].images[0].pixels.shape == (side_px, side_px, 3)
        assert bridge.status.counters["malformed"] == 0
        assert rings_mapped() == 2, "one here as writer and one as reader"


def test_ready_requests_without_due_cameras_need_no_memory() -> None:
    with client() as bridge, server(ports(bridge)) as counters:
        pump = Pump(bridge)
        pump.views = (view(due=False),)
        pump.frames_reach(5)
        assert all(frame.images == () for frame in pump.frames)
        assert bridge.status.state is ComponentState.RUNNING and counters["by_ring"] == 0


# --- ends that cannot ---------------------------------------------------------------------------


@contextmanager
def played_by_hand(
    of: FlightGogglesClient,
) -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    context = zmq.Context[zmq.Socket[bytes]]()
    poses, images = context.socket(zmq.SUB), context.socket(zmq.PUB)
    poses.subscribe(b"Pose")
    poses.connect(f"tcp://127.0.0.1:{of.pose_port}")
    images.connect(f"tcp://127.0.0.1:{of.image_port}")
    try:
        yield poses, images
    finally:
        context.destroy(linger=0)


@pytest.mark.parametrize("wrong", [{"nonce": "0" * 32}, {"fd": 9999}, {"pid": 2**22 + 1}])
def test_memory_that_cannot_be_opened_means_messages(wrong: dict[str, Any]) -> None:
    """As when the renderer runs on another host, as another user, or in another container."""
    with client() as bridge, played_by_hand(bridge) as (poses, images):
        giver, pump = HandoverWriter("127.0.0.1"), Pump(bridge)

        def answer() -> None:
            while poses.poll(0):
                message = decode_pose(poses.recv_multipart())
                assert message.vil is not msgspec.UNSET and message.vil.ring is msgspec.UNSET
                views, snapshot = read_pose(message)
                head, *parts = giver.frames(
                    message, views, *write_answer(message, views, draw(views, snapshot), 1)
                )
                told = json.loads(bytes(head))
                told["vil"]["ring"] |= wrong
                images.send_multipart([json.dumps(told).encode(), *parts])

        while len(pump.frames) < 10:
            pump.until(lambda: bool(poses.poll(0)) or len(pump.frames) >= 10)
            answer()
        assert "shared memory cannot be had" in way(bridge)
        assert bridge.status.counters["malformed"] == 0
        giver.close()


def test_a_renderer_of_another_version_is_named_in_the_status() -> None:
    with client() as bridge, played_by_hand(bridge) as (poses, images):
        pump = Pump(bridge)
        while "speaks version 1" not in bridge.status.report().reason:
            pump.until(lambda: bool(poses.poll(0)) or bridge.status.counters["malformed"] > 0)
            while poses.poll(0):
                told = {
                    "ntime": json.loads(poses.recv_multipart()[1])["ntime"],
                    "camWidth": 8,
                    "camHeight": 6,
                }
                told |= {"cameraIDs": [], "channels": [], "vil": {"v": 1}}
                images.send_multipart([json.dumps(told).encode()])
            bridge.receive()
        assert "run bridge and renderer from the same vil-bridge" in bridge.status.report().reason
        assert bridge.status.state is ComponentState.WAITING


def test_an_overwritten_slot_is_counted_and_never_shown() -> None:
    request = ask(1, [view(SMALL)])
    taker, giver = HandoverReader(), HandoverWriter("127.0.0.1")
    message = decode_pose(encode_pose(PoseWriter("", {}).message(request)))
    views, snapshot = read_pose(message)
    answer = write_answer(message, views, numbered(views, snapshot), 1)
    first, *parts = giver.frames(message, views, *answer)
    taker.pictures(decode_header(first), [memoryview(p) for p in parts])
    assert taker.nonce and taker.transport == BY_MEMORY
    assert message.vil is not msgspec.UNSET
    message.vil.ring = taker.nonce
    heads = [giver.frames(message, views, *answer) for _ in range(8)]
    assert all(len(frames) == 1 for frames in heads)
    with pytest.raises(ProtocolError, match="no longer, or was never"):
        taker.pictures(decode_header(heads[0][0]), [])
    (picture,) = taker.pictures(decode_header(heads[-1][0]), [])
    assert picture.pixels.shape == (12, 16, 3)
    taker.close()
    with pytest.raises(ProtocolError, match="not open"):
        taker.pictures(decode_header(heads[-1][0]), [])
    giver.close()


def test_a_distant_client_is_offered_no_memory() -> None:
    request = ask(1, [view(SMALL)])
    message = decode_pose(encode_pose(PoseWriter("", {}).message(request)))
    giver = HandoverWriter("192.0.2.7")
    views, snapshot = read_pose(message)
    head, *parts = giver.frames(
        message, views, *write_answer(message, views, draw(views, snapshot), 1)
    )
    assert "ring" not in json.loads(bytes(head))["vil"] and len(parts) == 1


@pytest.mark.parametrize("version", [1, 2, 3])
def test_strangers_never_hear_of_it(version: int) -> None:
    message = decode_pose(golden(f"pose_v{version}.json"))
    views, snapshot = read_pose(message)
    giver = HandoverWriter("127.0.0.1")
    frames = giver.frames(message, views, *write_answer(message, views, draw(views, snapshot), 1))
    told, pictures = strict_read(version, [bytes(frame) for frame in frames])
    assert len(pictures) == len(message.cameras) and not {"ring", "slot"} & told["vil"].keys()
    assert giver.by_ring == 0
