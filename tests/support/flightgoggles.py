"""A bridge's requests, a renderer to draw them, and readers as strict as the original clients."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from tests.support.common import PATIENCE_S, ROOT, Stopwatch
from tests.support.served import served
from vil_bridge.core.camera_model import Distortion, Effects, LensModel
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    BoolArray,
    CameraModel,
    ImageArray,
    Modality,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    SkeletonFrame,
    SkeletonModel,
    TrackingState,
    View,
    WorldSnapshot,
)
from vil_bridge.optics.pixel_formats import FORMAT_OF
from vil_renderer.flightgoggles.client import FlightGogglesClient
from vil_renderer.flightgoggles.codec import decode_pose, encode_pose
from vil_renderer.flightgoggles.config import FlightGogglesConfig
from vil_renderer.flightgoggles.convert import PoseWriter
from vil_renderer.flightgoggles.messages import PoseMessage
from vil_renderer.flightgoggles.server import (
    Draw,
    FlightGogglesServerConfig,
    RenderedRequest,
    serve,
)

GOLDEN = ROOT / "tests" / "golden" / "flightgoggles"
FRONT = CameraModel("front", 8, 6, math.radians(70.0))
FISHEYE = CameraModel(
    "fish",
    10,
    6,
    math.radians(80.0),
    (412.5, 410.25, 4.75, 2.5),
    Distortion(LensModel.EQUIDISTANT, (0.01, -0.02, 0.003, -0.0004)),
    Effects(shutter=0.5, exposure_ev=-1.5, auto_exposure=True, noise=2.0, vignetting=0.3, dirt=0.1),
)
RED, BLUE = (250, 10, 20), (5, 15, 240)
PREFABS = dict.fromkeys(ActorKind, "")
BONES = ("Hip", "Chest", "LThigh", "LShin")
PARENTS = (-1, 0, 0, 2)
OFFSETS_M = np.array([[0.0, 0.0, 0.95], [0.0, 0.0, 0.4], [0.0, 0.1, 0.0], [0.0, 0.0, -0.42]])


def golden(name: str) -> list[bytes]:
    """The frames of a stored pose message."""
    return [b"Pose", (GOLDEN / name).read_bytes().strip()]


def pose_at(
    x: float, y: float, z: float, yaw: float = 0.0, pitch: float = 0.0, roll: float = 0.0
) -> Transform:
    return Transform.of((x, y, z), q_from_euler_zyx(yaw, pitch, roll))


def walker(phase: float) -> SkeletonFrame:
    """A walking figure: every bone turned and placed differently, changing with ``phase``."""
    poses = [
        pose_at(
            4.0 + 0.3 * math.cos(phase) + 0.05 * i,
            0.3 * math.sin(phase) - 0.1 * i,
            0.95 + OFFSETS_M[i, 2],
            yaw=phase + 0.1 * i,
            pitch=0.6 * math.sin(phase + i),
            roll=0.2 * math.cos(phase - i),
        )
        for i in range(len(BONES))
    ]
    return SkeletonFrame(
        SkeletonModel("Actor", BONES, PARENTS, OFFSETS_M),
        np.stack([p.p_m for p in poses]),
        np.stack([p.q_xyzw for p in poses]),
        np.ones(len(BONES), dtype=np.bool_),
    )


def human(
    phase: float, state: TrackingState = TrackingState.TRACKED, prefab: str = "Bone"
) -> ActorState:
    skeleton = walker(phase)
    root = Transform(skeleton.p_m[0], skeleton.q_xyzw[0])
    return ActorState("human", ActorKind.HUMAN, state, 0, root, skeleton, prefab, (0.5, 0.6, 1.8))


def drone(
    name: str, T_world_body: Transform, state: TrackingState = TrackingState.TRACKED
) -> ActorState:
    return ActorState(
        name, ActorKind.VEHICLE, state, 0, T_world_body, None, "Blackeagle", (0.35, 0.3, 0.12)
    )


def view(
    camera: CameraModel = FRONT,
    modality: Modality = Modality.RGB,
    pose: Transform | None = None,
    due: bool = True,
    hide: tuple[str, ...] = (),
) -> View:
    return View(
        camera, modality, pose or pose_at(1.0, 2.0, 3.0, 0.4, -0.2, 0.1), 77, due, True, hide
    )


def ask(
    frame_id: int, views: Sequence[View] = (), actors: Sequence[ActorState] = ()
) -> RenderRequest:
    return RenderRequest(
        frame_id, time.monotonic_ns(), tuple(views) or (view(),), WorldSnapshot(77, tuple(actors))
    )


def picture(modality: Modality, width: int, height: int) -> ImageArray:
    """Red above blue, light above dark, far above near; the top row of the depth hits nothing."""
    if modality is Modality.DEPTH:
        depth = np.full((height, width), 1000, np.uint16)
        depth[0] = 65535
        return depth
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[: height // 2], pixels[height // 2 :] = RED, BLUE
    return pixels if modality is Modality.RGB else np.ascontiguousarray(pixels[..., 0])


def same_mask(a: BoolArray | None, b: BoolArray | None) -> bool:
    """Both absent, or equal."""
    return a is b if a is None or b is None else bool(np.array_equal(a, b))


def drawing(one: View) -> RenderedImage:
    """A picture of any modality in which no pixel is like another."""
    form = FORMAT_OF[one.modality]
    shape = form.shape(one.camera.width_px, one.camera.height_px)
    ramp: ImageArray = (np.arange(math.prod(shape)).reshape(shape) % 251 + 1).astype(form.dtype)
    valid: BoolArray | None = ramp[..., 0] % 3 > 0 if form.masked else None
    return RenderedImage(one, ramp, valid)


def message_of(request: RenderRequest) -> PoseMessage:
    return decode_pose(encode_pose(PoseWriter("Hall", PREFABS).message(request)))


def draw(views: tuple[View, ...], snapshot: WorldSnapshot) -> RenderedRequest:
    """The picture of every due view."""
    images = [
        RenderedImage(v, picture(v.modality, v.camera.width_px, v.camera.height_px))
        for v in views
        if v.due
    ]
    return RenderedRequest(tuple(images), info={"renderer": "test"})


def server(
    client_ports: tuple[int, int], draw_with: Draw = draw, **options: Any
) -> AbstractContextManager[Counter[str]]:
    """A renderer in a thread, dialling the given (pose, image) ports."""
    return served(
        serve,
        draw_with,
        FlightGogglesServerConfig(pose_port=client_ports[0], image_port=client_ports[1], **options),
    )


@contextmanager
def client(**options: Any) -> Iterator[FlightGogglesClient]:
    """A client on free ports."""
    made = FlightGogglesClient(
        "renderer", FlightGogglesConfig(**{"pose_port": 0, "image_port": 0, **options})
    )
    try:
        yield made
    finally:
        made.close()


def ports(of: FlightGogglesClient) -> tuple[int, int]:
    return of.pose_port, of.image_port


class Pump:
    """Plays scheduler and relay: asks whenever the client is ready, collects the frames."""

    def __init__(self, driven: FlightGogglesClient, first_id: int = 1) -> None:
        self.client = driven
        self.frames: list[RenderedFrame] = []
        self.asked = 0
        self.next_id = first_id
        self.views: tuple[View, ...] = (view(),)
        self.actors: tuple[ActorState, ...] = ()

    def until(
        self,
        done: Callable[[], bool],
        timeout_s: float = PATIENCE_S,
        period_s: float = 0.004,
        asking: bool = True,
    ) -> float:
        """Turn until ``done()``; fails after the time-out.

        Returns the seconds that it took, by a stopwatch.
        """
        stopwatch, deadline = Stopwatch(), time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < deadline, (
                f"not in {timeout_s} s: {self.client.status.report()}"
            )
            if asking and self.client.ready():
                self.asked += 1
                self.client.request(ask(self.next_id, self.views, self.actors))
                self.next_id += 1
            self.client.keep_alive()
            while (frame := self.client.receive()) is not None:
                self.frames.append(frame)
            threading.Event().wait(period_s)
            stopwatch.turn()
        return stopwatch.seconds

    def frames_reach(
        self, count: int, timeout_s: float = PATIENCE_S, period_s: float = 0.004
    ) -> float:
        """Turn until that many frames have come in total; returns what :meth:`until` does."""
        return self.until(lambda: len(self.frames) >= count, timeout_s, period_s)


# --- readers after the message definitions of the original clients ------------------------------


def need(header: dict[str, Any], keys: dict[str, type | tuple[type, ...]]) -> None:
    for key, kind in keys.items():
        assert key in header, f"{key} is missing"
        assert isinstance(header[key], kind), f"{key} is {type(header[key])}"
        assert kind is bool or not isinstance(header[key], bool), key


def strict_read(version: int, frames: Sequence[bytes]) -> tuple[dict[str, Any], list[ImageArray]]:
    """Read an answer as the client of v1, v2 or v3 does.

    Its keys, its byte counts, its row flip.
    """
    header = json.loads(frames[0])
    keys: dict[str, type | tuple[type, ...]] = {
        "camWidth": int,
        "camHeight": int,
        "camDepthScale": (int, float),
        "cameraIDs": list,
        "channels": list,
        "utime" if version == 1 else "ntime": int,
    }
    if version == 1:
        keys["isCompressed"] = bool
    if version == 2:
        keys |= {"hasCameraCollision": bool, "landmarksInView": list, "lidarReturn": (int, float)}
    if version == 3:
        keys["cameraIndexes"] = list
    need(header, keys)
    width, height = header["camWidth"], header["camHeight"]
    assert len(frames) - 1 == len(header["cameraIDs"]) == len(header["channels"])
    pictures: list[ImageArray] = []
    for data, channels in zip(frames[1:], header["channels"], strict=True):
        per_pixel = {1: channels, 2: 3, 3: 2 if channels == 2 else 3}[version]
        assert len(data) == width * height * per_pixel
        wire: ImageArray = np.frombuffer(data, "<u2" if per_pixel == 2 else np.uint8)
        pictures.append(
            np.flipud(wire.reshape((height, width, 3) if per_pixel == 3 else (height, width)))
        )
    return header, pictures
