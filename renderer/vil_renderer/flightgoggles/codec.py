"""FlightGoggles messages: bytes to values and back. Pure functions, no sockets.

The reader takes what the clients of v1.4 to v3 send, and the writer sends the union of their keys,
since every version ignores the keys that it does not know.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.types import DEPTH_NO_HIT, ImageArray
from vil_renderer.flightgoggles.messages import (
    EXTENSION_VERSION,
    MAX_CAMERAS,
    MAX_IMAGE_BYTES,
    MAX_OBJECTS,
    MAX_SIDE_PX,
    ImageHeader,
    PoseExtension,
    PoseMessage,
)

__all__ = [
    "MAX_MESSAGE_BYTES",
    "TOPIC",
    "WireView",
    "decode_images",
    "decode_pose",
    "encode_images",
    "encode_pose",
]

TOPIC: Final = b"Pose"
MAX_MESSAGE_BYTES: Final = 16 << 20
"""Largest JSON part."""
_MIN_JSON_BYTES: Final = 10


@dataclass(frozen=True, slots=True)
class WireView:
    """One received picture, top row first.

    Attributes:
        index: place in the request's camera list, None when the renderer does not say (v1, v2).
        pixels: RGB uint8 (h, w, 3), grey uint8 (h, w) or depth uint16 (h, w); colour and grey are
            views of the received buffer, their rows flipped by a negative stride.
    """

    camera_id: str
    index: int | None
    pixels: ImageArray


_POSE_DECODER: Final = msgspec.json.Decoder(PoseMessage)
_HEADER_DECODER: Final = msgspec.json.Decoder(ImageHeader)
_ENCODER: Final = msgspec.json.Encoder()
_T = TypeVar("_T")


def encode_pose(message: PoseMessage) -> list[bytes]:
    """The two frames of a pose message.

    Raises:
        RendererError: a number is not finite, or a limit of the protocol is exceeded.
    """
    if not 1 <= len(message.cameras) <= MAX_CAMERAS:
        raise RendererError(f"a renderer takes 1 to {MAX_CAMERAS} cameras, not {len(message.cameras)}")
    if len(message.objects) > MAX_OBJECTS:
        raise RendererError(f"a renderer takes {MAX_OBJECTS} objects, not {len(message.objects)}")
    if not (1 <= message.camWidth <= MAX_SIDE_PX and 1 <= message.camHeight <= MAX_SIDE_PX):
        raise RendererError(f"pictures are 1 to {MAX_SIDE_PX} px wide and high")
    body = _ENCODER.encode(message)
    # A number that is not finite becomes "null", which no key may be; names may hold these letters.
    if b"null" in body and not all(map(math.isfinite, _numbers(message))):
        raise RendererError("a pose is not finite: nothing was sent")
    if len(body) > MAX_MESSAGE_BYTES:
        raise RendererError(f"a pose message of {len(body)} bytes exceeds {MAX_MESSAGE_BYTES}")
    return [TOPIC, body]


def decode_pose(frames: Sequence[bytes | memoryview]) -> PoseMessage:
    """Read a pose message of any version.

    Raises:
        ProtocolError: it is malformed.
    """
    if len(frames) != 2 or frames[0] != TOPIC:
        raise ProtocolError(f"a pose message has the two frames 'Pose' and JSON, not {len(frames)} others")
    message = _decode(_POSE_DECODER, frames[1], MAX_MESSAGE_BYTES)
    if message.ntime is UNSET and message.utime is UNSET:
        raise ProtocolError("a pose message without ntime or utime")
    if len({camera.ID for camera in message.cameras}) != len(message.cameras):
        raise ProtocolError("camera IDs are not unique")
    if message.vil is not UNSET:
        _check_extension(message.vil, len(message.cameras))
    return message


def encode_images(header: ImageHeader, images: Sequence[ImageArray]) -> list[bytes | memoryview]:
    """The frames of an answer: JSON, then one new buffer per picture with its bottom row first.

    Args:
        header: its ``cameraIDs`` and ``channels`` run parallel to ``images``.
        images: top row first; uint8 (h, w, 3) or (h, w), or depth uint16 (h, w) with 65535 = no hit.

    Raises:
        RendererError: header and pictures disagree.
    """
    if not len(images) == len(header.cameraIDs) == len(header.channels):
        raise RendererError("each picture needs its camera ID and channel count")
    if not all(map(math.isfinite, _answer_numbers(header))):
        raise RendererError("a range or a landmark is not finite")
    frames: list[bytes | memoryview] = [_ENCODER.encode(header)]
    for image, channels, (width, height) in zip(images, header.channels, _sizes(header), strict=True):
        if image.shape[:2] != (height, width):
            raise RendererError(f"a picture of {image.shape} where {width}x{height} was announced")
        if (channels == 2) != (image.dtype == np.uint16):
            raise RendererError("two channels announce 16-bit depth")
        upwards = image[::-1]
        wire = _depth_to_wire(upwards) if channels == 2 else np.array(upwards, np.uint8, order="C")
        frames.append(wire.data.cast("B"))
    return frames


def decode_images(frames: Sequence[bytes | memoryview]) -> tuple[ImageHeader, tuple[WireView, ...]]:
    """Read an answer of any version; grey and colour pictures are told apart by their byte count.

    Raises:
        ProtocolError: it is malformed.
    """
    if not 1 <= len(frames) <= 1 + MAX_CAMERAS:
        raise ProtocolError(f"an answer has metadata and up to {MAX_CAMERAS} pictures, not {len(frames)} frames")
    header = _decode(_HEADER_DECODER, frames[0], MAX_MESSAGE_BYTES)
    if header.ntime is UNSET and header.utime is UNSET:
        raise ProtocolError("an answer without ntime or utime")
    count = len(frames) - 1
    indexes: Sequence[int | None] = [None] * count if header.cameraIndexes is UNSET else header.cameraIndexes
    if not len(header.channels) == len(header.cameraIDs) == len(indexes) == count:
        raise ProtocolError(f"metadata lists {len(header.cameraIDs)} cameras and {count} pictures came")
    if header.vil is not UNSET:
        _check_version(header.vil.v)
        if header.vil.sizes and len(header.vil.sizes) != count:
            raise ProtocolError("metadata gives a size for some pictures only")
    rows = zip(frames[1:], header.cameraIDs, indexes, header.channels, _sizes(header), strict=True)
    views = [WireView(name, index, _pixels(data, channels, size)) for data, name, index, channels, size in rows]
    return header, tuple(views)


def _decode(decoder: msgspec.json.Decoder[_T], data: bytes | memoryview, limit: int) -> _T:
    size = len(data)
    if not _MIN_JSON_BYTES <= size <= limit:
        raise ProtocolError(f"a JSON part has {_MIN_JSON_BYTES} to {limit} bytes", length=size)
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise ProtocolError(f"malformed JSON: {exc}", length=size) from None


def _check_version(version: int) -> None:
    if version != EXTENSION_VERSION:
        raise ProtocolError(f"version {version} of the extension is unknown")


def _check_extension(vil: PoseExtension, cameras: int) -> None:
    _check_version(vil.v)
    if len(vil.cameras) != cameras:
        raise ProtocolError(f"the extension describes {len(vil.cameras)} of {cameras} cameras")
    for skeleton in vil.skeletons:
        count = len(skeleton.bones)
        lists = (skeleton.parents, skeleton.offsets, skeleton.positions, skeleton.rotations)
        if any(len(values) != count for values in lists) or len(skeleton.tracked) not in (0, count):
            raise ProtocolError(f"skeleton {skeleton.name!r} has lists of different lengths")
        if any(not -1 <= parent < i for i, parent in enumerate(skeleton.parents)):
            raise ProtocolError(f"skeleton {skeleton.name!r} names a bone before its parent")


def _sizes(header: ImageHeader) -> Sequence[tuple[int, int]]:
    if header.vil is not UNSET and header.vil.sizes:
        return header.vil.sizes
    return [(header.camWidth, header.camHeight)] * len(header.cameraIDs)


def _pixels(data: bytes | memoryview, channels: int, size: tuple[int, int]) -> ImageArray:
    width, height = size
    count = width * height
    if len(data) > MAX_IMAGE_BYTES:
        raise ProtocolError("a picture is too large", length=len(data))
    if channels == 2 and len(data) == 2 * count:
        return _depth_from_wire(np.frombuffer(data, "<u2").reshape(height, width)[::-1])
    if channels in (1, 3) and len(data) == 3 * count:
        return np.frombuffer(data, np.uint8).reshape(height, width, 3)[::-1]
    if channels == 1 and len(data) == count:
        return np.frombuffer(data, np.uint8).reshape(height, width)[::-1]
    raise ProtocolError(f"a picture of {width}x{height} with {channels} channels does not fit", length=len(data))


def _depth_to_wire(depth: ImageArray) -> npt.NDArray[np.uint16]:
    # 0 is "no hit" on the wire, so that the nearest step gives way to the next one.
    wire = np.maximum(depth, 1, dtype="<u2")
    wire[depth == DEPTH_NO_HIT] = 0
    return np.ascontiguousarray(wire)


def _depth_from_wire(wire: ImageArray) -> npt.NDArray[np.uint16]:
    depth = wire.astype(np.uint16, order="C")
    depth[depth == 0] = DEPTH_NO_HIT
    return depth


def _numbers(message: PoseMessage) -> Iterator[float]:
    yield message.camFOV
    yield message.camDepthScale
    for camera in message.cameras:
        yield from (*camera.position, *camera.rotation)
    for thing in message.objects:
        yield from (*thing.position, *thing.rotation, *thing.size)
    if message.vil is not UNSET:
        yield from _extension_numbers(message.vil)


def _extension_numbers(vil: PoseExtension) -> Iterator[float]:
    yield from (camera.fov for camera in vil.cameras)
    for actor in vil.actors:
        yield from (*actor.position, *actor.rotation, *actor.size)
    for skeleton in vil.skeletons:
        yield from chain.from_iterable(skeleton.offsets)
        yield from chain.from_iterable(skeleton.positions)
        yield from chain.from_iterable(skeleton.rotations)


def _answer_numbers(header: ImageHeader) -> Iterator[float]:
    yield header.camDepthScale
    yield 0.0 if header.lidarReturn is None else header.lidarReturn
    yield from chain.from_iterable(landmark.position for landmark in header.landmarksInView)
