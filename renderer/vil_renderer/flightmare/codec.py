"""Flightmare messages: bytes to values and back. Pure functions, no sockets.

The first part of a frame does not say what pictures follow: that is in the settings, so that
pictures stay bytes here and :func:`colours_from_wire` and :func:`depth_from_wire` read them once
their size is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.types import ImageArray
from vil_renderer.flightmare.messages import (
    MAX_IMAGE_BYTES,
    MAX_PARTS,
    CollisionCheckMessage,
    CollisionStateMessage,
    Dialect,
    EventCameraMessage,
    EventMessage,
    EventsMessage,
    FlightmareHeader,
    FlightmareObject,
    PointCloudMessage,
    PointCloudStateMessage,
    ReadyMessage,
    SceneMessage,
    TimeMessage,
    VehicleMessage,
)

Part: TypeAlias = bytes | memoryview
Request: TypeAlias = SceneMessage | PointCloudMessage | CollisionCheckMessage
Answer: TypeAlias = ReadyMessage | FlightmareHeader | CollisionStateMessage

TOPIC: Final = b"Pose"
_EVENT_TOPIC: Final = b"Event"
_POINT_CLOUD_TOPIC: Final = b"PointCloud"
_CHECK_TOPIC: Final = b"CollisionCheck"
_CHECK_ANSWER: Final = b"CollisionState"
SUBSCRIPTIONS: Final = (TOPIC, _EVENT_TOPIC, _POINT_CLOUD_TOPIC, _CHECK_TOPIC)
"""Topic that a renderer subscribes to."""
MAX_MESSAGE_BYTES: Final = 32 << 20
"""Largest JSON part: 256 vehicles of 64 cameras are 12 MB as flightlib writes them."""
_MIN_JSON_BYTES: Final = 10
_T = TypeVar("_T")

_SCENE: Final = msgspec.json.Decoder(SceneMessage)
_POINT_CLOUD: Final = msgspec.json.Decoder(PointCloudMessage)
_CHECK: Final = msgspec.json.Decoder(CollisionCheckMessage)
_CHECKED: Final = msgspec.json.Decoder(CollisionStateMessage)
_POINT_CLOUD_STATE: Final = msgspec.json.Decoder(PointCloudStateMessage)
_EVENTS: Final = msgspec.json.Decoder(EventsMessage)
_TIME: Final = msgspec.json.Decoder(TimeMessage)
_READY_OR_FRAME: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_READY: Final = msgspec.json.Decoder(ReadyMessage)
_FRAME: Final = msgspec.json.Decoder(FlightmareHeader)
_ENCODER: Final = msgspec.json.Encoder()


# --- client to renderer ---------------------------------------------------------------------------


def encode_scene(message: SceneMessage) -> list[bytes]:
    """Encode the two parts of a settings or pose message.

    Raises:
        RendererError: a number is not finite, or a limit of the protocol is exceeded.
    """
    body = _ENCODER.encode(message)
    # A number that is not finite becomes "null", which no key may be; names may hold these letters.
    if b"null" in body and not all(map(math.isfinite, _numbers(message))):
        raise RendererError("a pose is not finite: nothing was sent")
    if len(body) > MAX_MESSAGE_BYTES:
        raise RendererError(f"a message of {len(body)} bytes exceeds {MAX_MESSAGE_BYTES}")
    return [TOPIC, body]


def encode_request(message: Request) -> list[bytes]:
    """Encode the two parts of any request.

    Raises:
        RendererError: see :func:`encode_scene`.
    """
    if isinstance(message, SceneMessage):
        return encode_scene(message)
    topic = _POINT_CLOUD_TOPIC if isinstance(message, PointCloudMessage) else _CHECK_TOPIC
    return [topic, _ENCODER.encode(message)]


def decode_request(parts: Sequence[Part]) -> Request:
    """Read what a client of any dialect sends.

    Raises:
        ProtocolError: it is malformed.
    """
    if len(parts) != 2:
        raise ProtocolError(f"a request has a topic and JSON, not {len(parts)} parts")
    topic = bytes(parts[0])
    body = parts[1]
    if topic == _POINT_CLOUD_TOPIC:
        return _decode(_POINT_CLOUD, body)
    if topic == _CHECK_TOPIC:
        return _decode(_CHECK, body)
    if topic not in (TOPIC, _EVENT_TOPIC):
        raise ProtocolError(f"the topic {topic[:20]!r} is unknown")
    message = _decode(_SCENE, body)
    for kind, names in (
        ("vehicle", [v.ID for v in message.vehicles]),
        ("camera", [c.ID for v in message.vehicles for c in (*v.cameras, *_event_cameras(v))]),
    ):
        if len(set(names)) != len(names):
            raise ProtocolError(f"two of the {kind} IDs are the same")
    return message


def dialect_of(message: SceneMessage) -> Dialect:
    """Return the version that wrote a settings or pose message."""
    cameras = [camera for vehicle in message.vehicles for camera in vehicle.cameras]
    if message.static_objects is not UNSET or message.dynamic_objects is not UNSET:
        return Dialect.V2022
    if any(vehicle.eventcameras is not UNSET for vehicle in message.vehicles):
        return Dialect.EVENT_CAMERA
    if message.ntime is not UNSET or any(camera.post_processing is not UNSET for camera in cameras):
        return Dialect.AGILE_AUTONOMY
    if message.tree_message is not UNSET:
        return Dialect.AVOIDBENCH
    return Dialect.MASTER


# --- renderer to client ---------------------------------------------------------------------------


def encode_answer(answer: Answer, parts: Sequence[Part] = ()) -> list[Part]:
    """Encode the parts of ready, of a frame with its pictures, or of a checked collision.

    Raises:
        RendererError: a range is not finite.
    """
    if isinstance(answer, CollisionStateMessage):
        return [_CHECK_ANSWER, _ENCODER.encode(answer)]
    if isinstance(answer, FlightmareHeader):
        ranges = chain.from_iterable(vehicle.lidar_ranges for vehicle in answer.pub_vehicles)
        if not all(map(math.isfinite, ranges)):
            raise RendererError("a range is not finite")
    return [_ENCODER.encode(answer), *parts]


def encode_json(message: PointCloudStateMessage | EventsMessage | TimeMessage) -> bytes:
    """Encode one of the JSON parts that some dialects add to a frame."""
    return _ENCODER.encode(message)


def decode_answer(parts: Sequence[Part]) -> tuple[Answer, Sequence[Part]]:
    """Read what a renderer of any dialect sends: what it is, and the parts behind the first JSON.

    Raises:
        ProtocolError: it is malformed.
    """
    if not 1 <= len(parts) <= MAX_PARTS:
        raise ProtocolError(f"a renderer sends 1 to {MAX_PARTS} parts, not {len(parts)}")
    if bytes(parts[0][: len(_CHECK_ANSWER)]) == _CHECK_ANSWER and len(parts) == 2:
        return _decode(_CHECKED, parts[1]), ()
    if "ready" in _decode(_READY_OR_FRAME, parts[0]):
        if len(parts) != 1:
            raise ProtocolError(f"ready comes alone, not with {len(parts) - 1} parts")
        return _decode(_READY, parts[0]), ()
    header = _decode(_FRAME, parts[0])
    if header.stamp is None:
        raise ProtocolError("a frame without frame_id or ntime")
    return header, parts[1:]


def decode_point_cloud_state(data: Part) -> PointCloudStateMessage:
    """Decode the second part of an AvoidBench frame. Raises ProtocolError."""
    return _decode(_POINT_CLOUD_STATE, data)


def decode_events(data: Part) -> list[EventMessage]:
    """Decode the events of one event camera. Raises ProtocolError."""
    return _decode(_EVENTS, data).events


def decode_time(data: Part) -> TimeMessage:
    """Decode the times of one event camera. Raises ProtocolError."""
    return _decode(_TIME, data)


# --- pictures -------------------------------------------------------------------------------------


def colours_to_wire(pixels: ImageArray) -> memoryview:
    """Copy colours uint8 (h, w, 3), top row first, to a new buffer with the bottom row first."""
    return np.array(pixels[::-1], np.uint8, order="C").data.cast("B")


def depth_to_wire(depth_m: ImageArray, far_m: float, no_hit_m: float) -> memoryview:
    """Convert depth (h, w) in metres to float32 shares of ``far_m``, 1 beyond it and where
    nothing was hit.
    """
    share = np.minimum(depth_m[::-1] / np.float32(far_m), np.float32(1.0), dtype="<f4")
    share[depth_m[::-1] >= no_hit_m] = 1.0
    return np.ascontiguousarray(share).data.cast("B")


def colours_from_wire(data: Part, width_px: int, height_px: int) -> npt.NDArray[np.uint8]:
    """Return the colours (h, w, 3), top row first: a view of the buffer.

    Raises:
        ProtocolError: the size differs.
    """
    _check_size(data, 3 * width_px * height_px)
    return np.frombuffer(data, np.uint8).reshape(height_px, width_px, 3)[::-1]


def depth_from_wire(data: Part, width_px: int, height_px: int) -> npt.NDArray[np.float32]:
    """Return the depth (h, w), top row first, as a share 0..1 of the far plane; NaN counts as 1.

    Raises:
        ProtocolError: the size differs.
    """
    _check_size(data, 4 * width_px * height_px)
    share = np.frombuffer(data, "<f4").reshape(height_px, width_px)[::-1]
    clipped: npt.NDArray[np.float32] = np.where(
        share < 1.0, np.maximum(share, 0.0), np.float32(1.0)
    )
    return clipped


def _check_size(data: Part, wanted: int) -> None:
    if len(data) != wanted or wanted > MAX_IMAGE_BYTES:
        raise ProtocolError(f"a picture of {wanted} bytes was expected", length=len(data))


def _decode(decoder: msgspec.json.Decoder[_T], data: Part) -> _T:
    size = len(data)
    if not _MIN_JSON_BYTES <= size <= MAX_MESSAGE_BYTES:
        raise ProtocolError(
            f"a JSON part has {_MIN_JSON_BYTES} to {MAX_MESSAGE_BYTES} bytes", length=size
        )
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise ProtocolError(f"malformed JSON: {exc}", length=size) from None


def _event_cameras(vehicle: VehicleMessage) -> Sequence[EventCameraMessage]:
    return () if vehicle.eventcameras is UNSET else vehicle.eventcameras


def _numbers(message: SceneMessage) -> Iterator[float]:
    objects: list[FlightmareObject] = []
    for some in (message.objects, message.static_objects, message.dynamic_objects):
        if some is not UNSET:
            objects += some
    for thing in objects:
        yield from (*thing.position, *thing.rotation, *thing.size)
    for vehicle in message.vehicles:
        yield from (*vehicle.position, *vehicle.rotation, *vehicle.size)
        for camera in vehicle.cameras:
            yield from (
                camera.fov,
                *(math.nan if value is None else value for value in camera.T_BC),
            )
