"""A FlightGoggles renderer and a client, played by hand on real sockets."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import zmq

from tests.support.flightgoggles import (
    BLUE,
    RED,
    Pump,
)
from vil_renderer.flightgoggles.client import FlightGogglesClient

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
    """Answer poses until one answer has arrived (the first may find no subscription).

    Returns it.
    """
    answer: list[bytes] = []
    while not pump.frames:
        pump.until(lambda: bool(pump.frames) or poses.poll(0) > 0)
        if not pump.frames:
            answer = answer_to(poses.recv_multipart())
            images.send_multipart(answer)
    return answer


@contextlib.contextmanager
def original_client() -> Iterator[tuple[Socket, Socket, tuple[int, int]]]:
    """The two sockets of an original client."""
    with sockets(zmq.PUB, zmq.SUB) as (poses, images):
        taken = [each.bind_to_random_port("tcp://127.0.0.1") for each in (poses, images)]
        images.subscribe(b"")
        yield poses, images, (taken[0], taken[1])
