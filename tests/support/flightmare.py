"""A bridge's requests, pictures that carry the number of their frame, both ends on free ports, and
a lossy link.

``python -m tests.support.flightmare POSE_PORT IMAGE_PORT`` is our server on the real wire, for the
harness; it loses the first of its ready messages.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import numpy as np
import zmq

from tests.support.flightgoggles import Pump as AnyPump
from tests.support.flightgoggles import view
from tests.support.served import served
from vil_bridge.core.types import (
    CameraModel,
    ImageArray,
    Modality,
    RenderedFrame,
    RenderedImage,
    View,
    WorldSnapshot,
)
from vil_renderer.flightmare.client import FlightmareClient
from vil_renderer.flightmare.config import FlightmareConfig
from vil_renderer.flightmare.server import FlightmareServerConfig, RenderedRequest, Senses, serve

FRONT: Final = CameraModel("front", 16, 8, 1.2)
_BITS: Final = 64
_TOP, _BOTTOM = 200, 20
NO_HIT_M: Final = 100.0


# --- pictures that carry the number of their frame ------------------------------------------------


def painted(number: int, camera: str, width: int, height: int) -> ImageArray:
    """Colours: red holds the bits of the number from the top left, green names the camera, blue
    falls downwards.
    """
    pixels = np.zeros((height, width, 3), np.uint8)
    bits = np.array([(number >> i) & 1 for i in range(_BITS)], np.uint8)
    pixels.reshape(-1, 3)[:_BITS, 0] = 255 * bits
    pixels[..., 1] = mark_of(camera)
    pixels[..., 2] = np.linspace(_TOP, _BOTTOM, height).astype(np.uint8)[:, None]
    return pixels


def mark_of(camera: str) -> int:
    """The green of a camera's pictures."""
    return sum(camera.encode()) % 251 + 1


def number_in(pixels: ImageArray, camera: str) -> int:
    """The frame number in a picture.

    Fails when it is another camera's, upside down, or of mixed colours.
    """
    assert pixels.shape[2] == 3
    assert (pixels[..., 1] == mark_of(camera)).all(), (
        "the picture of another camera, or channels swapped"
    )
    assert pixels[0, 0, 2] > pixels[-1, 0, 2], "upside down"
    bits = pixels.reshape(-1, 3)[:_BITS, 0]
    assert set(np.unique(bits).tolist()) <= {0, 255}
    return sum(1 << i for i in range(_BITS) if bits[i])


def depth_m(number: int) -> float:
    """Depth below the top row, which hits nothing."""
    return 1.0 + (number % 61) * 0.5


def picture(view: View, number: int) -> RenderedImage:
    """What the tests' renderer draws of a view."""
    width, height = view.camera.width_px, view.camera.height_px
    match view.modality:
        case Modality.DEPTH32:
            pixels: ImageArray = np.full((height, width), depth_m(number), np.float32)
            pixels[0] = NO_HIT_M
        case Modality.INSTANCE:
            pixels = np.arange(width * height, dtype=np.uint16).reshape(height, width) + np.uint16(
                number % 1000
            )
        case Modality.FLOW:
            pixels = np.zeros((height, width, 2), np.float32)
            pixels[..., 0] = 0.5 * width
            return RenderedImage(view, pixels, np.ones((height, width), np.bool_))
        case _:
            pixels = painted(number, view.camera.name, width, height)
    return RenderedImage(view, pixels)


def draw(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
    """Every view with the number of the frame in it."""
    return RenderedRequest(
        tuple(picture(view, snapshot.t_ns) for view in views), info={"renderer": "painter"}
    )


# --- both ends ------------------------------------------------------------------------------------


def server(
    ports: tuple[int, int], draw_with: Any = draw, senses: Senses | None = None, **options: Any
) -> AbstractContextManager[Counter[str]]:
    """Our server in a thread, dialling the client's (pose, image) ports."""
    return served(
        serve,
        draw_with,
        FlightmareServerConfig(pose_port=ports[0], image_port=ports[1], **options),
        senses,
    )


@contextmanager
def client(**options: Any) -> Iterator[FlightmareClient]:
    """Our client on free ports."""
    made = FlightmareClient(
        "renderer", FlightmareConfig(**{"pose_port": 0, "image_port": 0, **options})
    )
    try:
        yield made
    finally:
        made.close()


def ports(of: FlightmareClient) -> tuple[int, int]:
    return of.pose_port, of.image_port


class Pump(AnyPump):
    """Plays scheduler and relay for our client, and looks at every frame that it gets."""

    def __init__(self, driven: FlightmareClient, first_id: int = 1) -> None:
        super().__init__(driven, first_id)  # type: ignore[arg-type]
        self.views = (view(FRONT),)
        self._looked_at = 0

    def check_new(self) -> None:
        """Every frame since the last call shows its own number, and no frame came twice or out
        of order.
        """
        for frame in self.frames[self._looked_at :]:
            check_frame(frame)
        self._looked_at = len(self.frames)
        ids = [frame.request.frame_id for frame in self.frames]
        assert ids == sorted(set(ids))


def check_frame(frame: RenderedFrame) -> None:
    """The pictures of a frame belong to its request."""
    number = frame.request.frame_id
    for image in frame.images:
        if image.view.modality is Modality.RGB:
            shown = number_in(image.pixels, image.view.camera.name)
            # A repeated pose has a number of its own; its pictures still are of this request.
            assert shown == number or shown >= 1 << 62, f"frame {number} shows {shown}"
        elif image.view.modality is Modality.DEPTH32:
            assert (image.pixels[0] == NO_HIT_M).all()
            if number < 1 << 62:
                assert abs(float(image.pixels[-1, 0]) - depth_m(number)) < 1e-4


# --- a link that loses messages -------------------------------------------------------------------


@contextmanager
def lossy(
    client_ports: tuple[int, int], lost: Callable[[str, Sequence[bytes]], bool]
) -> Iterator[tuple[int, int]]:
    """A wire between client and renderer; yields the ports that the renderer dials.

    ``lost`` is asked of every message with "pose" or "image" and its parts.
    """
    context: Any = zmq.Context()
    poses_in, poses_out, images_in, images_out = (
        context.socket(k) for k in (zmq.SUB, zmq.PUB, zmq.SUB, zmq.PUB)
    )
    for each in (poses_in, images_in):
        each.subscribe(b"")
    taken = (
        poses_out.bind_to_random_port("tcp://127.0.0.1"),
        images_in.bind_to_random_port("tcp://127.0.0.1"),
    )
    poses_in.connect(f"tcp://127.0.0.1:{client_ports[0]}")
    images_out.connect(f"tcp://127.0.0.1:{client_ports[1]}")
    stop = threading.Event()

    def carry() -> None:
        poller = zmq.Poller()
        poller.register(poses_in, zmq.POLLIN)
        poller.register(images_in, zmq.POLLIN)
        while not stop.is_set():
            for source, _ in poller.poll(20):
                parts = source.recv_multipart()
                if not lost("pose" if source is poses_in else "image", parts):
                    (poses_out if source is poses_in else images_out).send_multipart(parts)

    thread = threading.Thread(target=carry)
    thread.start()
    try:
        yield taken
    finally:
        stop.set()
        thread.join(60.0)
        context.destroy(linger=0)
        assert not thread.is_alive()


class LosesFirst:
    """Loses the first messages of which ``which`` holds."""

    def __init__(self, count: int, which: Callable[[str, Sequence[bytes]], bool]) -> None:
        self.left = count
        self._which = which

    def __call__(self, way: str, parts: Sequence[bytes]) -> bool:
        if self.left == 0 or not self._which(way, parts):
            return False
        self.left -= 1
        return True


def is_ready(way: str, parts: Sequence[bytes]) -> bool:
    return way == "image" and b'"ready"' in parts[0]


def main(pose_port: int, image_port: int) -> None:
    """Serve until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with lossy((pose_port, image_port), LosesFirst(1, is_ready)) as taken:
        print("ready", flush=True)
        serve(draw, FlightmareServerConfig(pose_port=taken[0], image_port=taken[1]), stop)


if __name__ == "__main__":
    main(*(int(port) for port in sys.argv[1:3]))
