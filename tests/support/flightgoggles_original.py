"""The original FlightGoggles clients of v2.0.4 and v3.

Their messages to the letter, and their way of reading answers.

They throw where the metadata lacks a key, compute how many bytes a picture has and copy these
without looking at the size of the part, and compare nothing: what comes is taken for the newest
picture.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, NamedTuple

import numpy as np
import zmq

from tests.support.flightgoggles import need
from vil_bridge.core.types import ImageArray

_NUMBER: Final = (int, float)
_ALWAYS: Final[dict[str, type | tuple[type, ...]]] = {
    "ntime": int,
    "camWidth": int,
    "camHeight": int,
    "camDepthScale": _NUMBER,
    "cameraIDs": list,
    "channels": list,
}
_KEYS: Final[dict[int, dict[str, type | tuple[type, ...]]]] = {
    2: _ALWAYS | {"hasCameraCollision": bool, "landmarksInView": list, "lidarReturn": _NUMBER},
    3: _ALWAYS | {"cameraIndexes": list},
}
_HWM: Final = 6
_EPOCH: Final = 2**60
_PERIOD: Final = 16_666_667
RGB, DEPTH = -1, 3
"""Shader types of v3."""


class Camera(NamedTuple):
    """One camera.

    ``position`` and ``rotation`` in Unity's frame, ``shader`` and ``due`` for v3 only.
    """

    ID: str
    position: Sequence[float]
    rotation: Sequence[float] = (0.0, 0.0, 0.0, 1.0)
    shader: int = RGB
    due: bool = True


class Answer(NamedTuple):
    """What the client made of an answer: pictures top row first, by camera ID."""

    ntime: int
    pictures: dict[str, ImageArray]
    metadata: dict[str, Any]


def ntime_of(number: int) -> int:
    """The stamp of a numbered pose: opaque to the renderer, and beyond what a double holds."""
    return _EPOCH + _PERIOD * number


def number_of(answer: Answer) -> int:
    """The number of the pose whose stamp an answer carries."""
    number, rest = divmod(answer.ntime - _EPOCH, _PERIOD)
    assert rest == 0, answer.ntime
    return number


class OriginalClient(AbstractContextManager["OriginalClient"]):
    """Binds both sockets, publishes poses, takes what comes.

    Args:
        version: 2 or 3.
        size: of the pictures, width and height in pixels.
        taken: (pose, image) ports to bind again; None = free ones.
    """

    def __init__(
        self, version: int, size: tuple[int, int], taken: tuple[int, int] | None = None
    ) -> None:
        self.version = version
        self.size = size
        self._context: Any = zmq.Context()
        self._poses: Any = self._context.socket(zmq.PUB)
        self._images: Any = self._context.socket(zmq.SUB)
        self._poses.setsockopt(zmq.SNDHWM, _HWM)
        self._poses.setsockopt(zmq.XPUB_NODROP, 1)  # only to know what a full queue loses
        self._images.setsockopt(zmq.RCVHWM, _HWM)
        self._images.subscribe(b"")
        ports = []
        for socket, port in zip((self._poses, self._images), taken or ("*", "*"), strict=True):
            socket.bind(f"tcp://127.0.0.1:{port}")
            ports.append(
                int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2].rstrip("\0"))
            )
        self.taken = ports[0], ports[1]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """The ports are free when this returns."""
        self._context.destroy(linger=0)

    def send(
        self, ntime: int, cameras: Sequence[Camera], objects: Sequence[dict[str, Any]] = ()
    ) -> bool:
        """Publish a pose.

        False where the queue was full, and the program would lose it without noticing.
        """
        message: dict[str, Any] = {
            "camDepthScale": 0.2,
            "camFOV": 70.0,
            "camHeight": self.size[1],
            "camWidth": self.size[0],
            "cameras": [self._camera(i, camera) for i, camera in enumerate(cameras)],
            "ntime": ntime,
            "objects": list(objects),
            "sceneFilename": "Abandoned_Factory_Morning",
            "sceneIsInternal": True,
        }
        if self.version == 3:
            message |= {"obstaclePerturbationFile": "", "camDepthScale": 10.0}
        try:
            self._poses.send_multipart([b"Pose", json.dumps(message).encode()], zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def _camera(self, index: int, camera: Camera) -> dict[str, Any]:
        told: dict[str, Any] = {
            "ID": camera.ID,
            "doesLandmarkVisCheck": False,
            "hasCollisionCheck": True,
            "position": list(camera.position),
            "rotation": list(camera.rotation),
        }
        if self.version == 2:
            return told | {"channels": 3, "isDepth": False, "outputIndex": index}
        return told | {
            "outputShaderType": camera.shader,
            "motionBlurPercent": 0.0,
            "shouldRenderThisFrame": camera.due,
        }

    def receive(self, timeout_s: float) -> Answer | None:
        """The next answer; None when there is none in time.

        AssertionError where the program would have ended.
        """
        if not self._images.poll(round(1e3 * timeout_s)):
            return None
        head, *parts = self._images.recv_multipart()
        metadata = json.loads(head)
        need(metadata, _KEYS[self.version])
        pictures = {}
        for i, name in enumerate(metadata["cameraIDs"]):
            pictures[name] = self._copied(metadata, metadata["channels"][i], parts[i])
        return Answer(metadata["ntime"], pictures, metadata)

    def _copied(self, metadata: dict[str, Any], channels: int, part: bytes) -> ImageArray:
        per_pixel = channels if self.version == 2 else 2 if channels == 2 else 3
        width, height = metadata["camWidth"], metadata["camHeight"]
        count = width * height * per_pixel
        assert len(part) >= count, f"the program copies {count} bytes out of {len(part)}"
        wire: ImageArray = np.frombuffer(part[:count], "<u2" if per_pixel == 2 else np.uint8)
        return np.flipud(wire.reshape((height, width, 3) if per_pixel == 3 else (height, width)))
