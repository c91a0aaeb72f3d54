"""The wires of FlightGoggles and Flightmare, read by both ends, and Flightmare's files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import numpy as np
from msgspec import UNSET

from tests.fuzz.target import Target, join, scratch, split
from tests.property.test_flightmare_random import ASKED, FRAME, POSE, REQUESTS
from tests.support.flightgoggles import ask, drone, golden, human, picture, pose_at
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.types import ActorKind, Modality
from vil_bridge.optics.pixel_formats import FORMAT_OF
from vil_renderer.flightgoggles.codec import (
    TOPIC,
    decode_header,
    decode_images,
    decode_pose,
    decode_slot,
    encode_images,
    encode_pose,
)
from vil_renderer.flightgoggles.convert import PoseWriter, read_answer
from vil_renderer.flightgoggles.convert_renderer import read_pose
from vil_renderer.flightgoggles.messages import EXTENSION_VERSION, AnswerExtension, ImageHeader
from vil_renderer.flightgoggles.pictures import PixelImage
from vil_renderer.flightmare.codec import (
    decode_answer,
    decode_events,
    decode_point_cloud_state,
    decode_request,
    decode_time,
    dialect_of,
)
from vil_renderer.flightmare.convert import read_frame
from vil_renderer.flightmare.convert_renderer import read_scene
from vil_renderer.flightmare.files import read_object_csv
from vil_renderer.flightmare.messages import FlightmareHeader, SceneMessage
from vil_renderer.flightmare.scenes import our_scene

__all__ = ["TARGETS"]

_PREFABS: Final = {ActorKind.VEHICLE: "Quad", ActorKind.HUMAN: "", ActorKind.PROP: ""}
_ASKED: Final = ask(1)


# --- FlightGoggles -------------------------------------------------------------------------------


def _pose(data: bytes) -> None:
    """The renderer's end."""
    read_pose(decode_pose([TOPIC, *split(data)]))


def _poses() -> Iterator[bytes]:
    for name in ("pose_v1.json", "pose_v2.json", "pose_v3.json"):
        yield golden(name)[1]
    actors = [human(0.3), drone("d", pose_at(0, 0, 1))]
    yield encode_pose(PoseWriter("Hall", _PREFABS).message(ask(1, actors=actors)))[1]


def _answer(data: bytes) -> None:
    """The bridge's end, by message and by shared memory."""

    parts = split(data)
    with contextlib.suppress(ProtocolError):
        read_answer(*decode_images(parts), _ASKED, 0)
    header = decode_header(parts[0])
    if header.vil is UNSET:
        return
    memory = np.frombuffer(b"".join(parts[1:]), np.uint8)
    read_answer(header, decode_slot(header, memory), _ASKED, 0)


def _answers() -> Iterator[bytes]:
    key = _ASKED.views[0].key
    for modality, channels in ((Modality.RGB, 3), (Modality.DEPTH, 2), (Modality.GRAY, 1)):
        header = ImageHeader(
            camWidth=8,
            camHeight=6,
            cameraIDs=[key],
            channels=[channels],
            cameraIndexes=[0],
            ntime=1,
        )
        pictures = [PixelImage(picture(modality, 8, 6))]
        yield join(*map(bytes, encode_images(header, pictures)))
        header.vil = AnswerExtension(v=EXTENSION_VERSION, formats=[FORMAT_OF[modality].name])
        yield join(*map(bytes, encode_images(header, pictures)))


# --- Flightmare ----------------------------------------------------------------------------------


def _request(data: bytes) -> None:
    request = decode_request(split(data))
    if isinstance(request, SceneMessage):
        our_scene(dialect_of(request), request.scene_id)
        read_scene(request, request, request.stamp or 0)


def _frame(data: bytes) -> None:
    parts = split(data)
    for reader in (decode_events, decode_point_cloud_state, decode_time):
        with contextlib.suppress(ProtocolError):
            reader(parts[0])
    answer, pictures = decode_answer(parts)
    if isinstance(answer, FlightmareHeader):
        read_frame(answer, pictures, POSE.vehicles, ASKED, 0)


_FILE: Final = scratch() / "objects.csv"


def _objects(data: bytes) -> None:
    _FILE.write_bytes(data)
    read_object_csv(_FILE)


_CSV: Final = (
    b"prefab,x,y,z,qw,qx,qy,qz,sx,sy,sz\nrpg_gate,1,2,3,1,0,0,0,1,1,1\n"
    b"crate,4.5,5,6,0.7,0,0,0.7,2,2,2\n"
)

TARGETS: Final = (
    Target("flightgoggles-pose", _pose, (ProtocolError,), _poses, 8192, is_json=True),
    Target("flightgoggles-answer", _answer, (ProtocolError,), _answers, is_json=True),
    Target(
        "flightmare-request",
        _request,
        (ProtocolError,),
        lambda: [join(*r) for r in REQUESTS],
        8192,
        is_json=True,
    ),
    Target(
        "flightmare-answer", _frame, (ProtocolError,), lambda: [join(*FRAME)], 8192, is_json=True
    ),
    Target("flightmare-objects", _objects, (RendererError,), lambda: [_CSV], 2048),
)
