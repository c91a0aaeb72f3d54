"""The original FlightGoggles programs as far as a client can tell.

They read only the keys of their version.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import zmq

from tests.support.flightgoggles import BLUE, RED

SEEN, UNSEEN = 255, 0

_LENS: Final = (
    "camWidth",
    "camHeight",
    "camFOV",
    "camDepthScale",
    "sceneIsInternal",
    "sceneFilename",
    "cameras",
)
_TOP: Final = {
    1: (*_LENS, "utime", "objects", "windows"),
    2: (*_LENS, "ntime", "objects"),
    3: (*_LENS, "ntime", "objects", "obstaclePerturbationFile"),
}
_PLACE: Final = ("ID", "position", "rotation")
_CAMERA: Final = {
    1: (*_PLACE, "channels", "isDepth", "outputIndex"),
    2: (*_PLACE, "channels", "isDepth", "outputIndex", "hasCollisionCheck"),
    3: (
        *_PLACE,
        "hasCollisionCheck",
        "outputShaderType",
        "motionBlurPercent",
        "shouldRenderThisFrame",
    ),
}
_V3_CHANNELS: Final = {-1: 3, 3: 2, 5: 1}


class OriginalRenderer:
    """One running program: objects stay where they were put last.

    Its pictures are red above blue; the top left pixels, one per name in ``names``, are white while
    the object of that name stands in the scene and black else.
    """

    def __init__(self, version: int, names: Sequence[str]) -> None:
        self._version = version
        self._names = names
        self._place: dict[str, list[float]] = {}

    def answer(self, body: bytes) -> list[bytes]:
        """The frames of the answer to one pose; KeyError when a key of this version is missing."""
        version, message = self._version, json.loads(body)
        message = {key: message[key] for key in _TOP[version]}
        cameras = [{key: camera[key] for key in _CAMERA[version]} for camera in message["cameras"]]
        for thing in message["objects"]:
            assert thing["prefabID"], "an unknown prefab stops the program"
            self._place[thing["ID"]] = thing["position"]
        drawn = [i for i, c in enumerate(cameras) if version < 3 or c["shouldRenderThisFrame"]]
        stamp = "utime" if version == 1 else "ntime"
        header = {key: message[key] for key in (stamp, "camWidth", "camHeight", "camDepthScale")}
        header |= {"cameraIDs": [cameras[i]["ID"] for i in drawn]}
        if version == 3:
            header |= {"cameraIndexes": drawn}
            header |= {"channels": [_V3_CHANNELS[cameras[i]["outputShaderType"]] for i in drawn]}
        else:
            header |= {"channels": [cameras[i]["channels"] for i in drawn]}
            header |= {"isCompressed": False} if version == 1 else {}
        if version > 1:
            header |= {"hasCameraCollision": False, "landmarksInView": [], "lidarReturn": 21.0}
        size = (message["camHeight"], message["camWidth"])
        return [
            json.dumps(header).encode(),
            *(self._picture(size, channels) for channels in header["channels"]),
        ]

    def _picture(self, size: tuple[int, int], channels: int) -> bytes:
        pixels = np.empty((*size, 3), np.uint8)
        pixels[: size[0] // 2], pixels[size[0] // 2 :] = RED, BLUE
        for i, name in enumerate(self._names):
            pixels[0, i] = (
                SEEN if self._place.get(name, [0.0, -1000.0, 0.0])[1] > -500.0 else UNSEEN
            )
        if channels == 2:
            return bytes(2 * size[0] * size[1])
        narrow = self._version == 1 and channels == 1
        return (pixels[::-1, :, :1] if narrow else pixels[::-1]).tobytes()


@contextmanager
def original_renderer(
    ports: tuple[int, int],
    version: int,
    names: Sequence[str] = (),
    program: Callable[[int, Sequence[str]], OriginalRenderer] = OriginalRenderer,
) -> Iterator[list[Exception]]:
    """The program in a thread, dialling the client's (pose, image) ports.

    Yields what went wrong in it.
    """
    stop, failures = threading.Event(), list[Exception]()
    thread = threading.Thread(target=_run, args=(program(version, names), ports, stop, failures))
    thread.start()
    try:
        yield failures
    finally:
        stop.set()
        thread.join(60.0)
        assert not thread.is_alive()
    assert failures == []


def _run(
    program: OriginalRenderer,
    ports: tuple[int, int],
    stop: threading.Event,
    failures: list[Exception],
) -> None:
    context: Any = zmq.Context()
    poses, images = context.socket(zmq.SUB), context.socket(zmq.PUB)
    poses.subscribe(b"Pose")
    for socket, port in zip((poses, images), ports, strict=True):
        socket.connect(f"tcp://127.0.0.1:{port}")
    try:
        while not stop.is_set():
            if poses.poll(20):
                _, body = poses.recv_multipart()
                images.send_multipart(program.answer(body))
    except Exception as exc:
        failures.append(exc)
    finally:
        context.destroy(linger=0)
