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
from vil_bridge.core.types import BoolArray, ImageArray, Modality
from vil_bridge.optics.pixel_formats import FORMAT_OF, GRAY8, PIXEL_FORMATS, RGB8, PixelFormat
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
from vil_renderer.flightgoggles.pictures import (
    ImageLayout,
    PixelImage,
    from_slot,
    from_wire,
    to_wire,
)

TOPIC: Final = b"Pose"
MAX_MESSAGE_BYTES: Final = 16 << 20
"""Largest JSON part."""
_MIN_JSON_BYTES: Final = 10
_DEPTH16: Final = FORMAT_OF[Modality.DEPTH]


@dataclass(frozen=True, slots=True)
class WireView:
    """One received picture, top row first.

    Attributes:
        index: place in the request's camera list, None when the renderer does not say (v1, v2).
        pixels: as one of :mod:`vil_bridge.optics.pixel_formats`; what came as a message part is a
            view of the received buffer, its rows flipped by a negative stride, except for depth16.
        valid: mask of a picture that has one, (h, w).
    """

    camera_id: str
    index: int | None
    pixels: ImageArray
    valid: BoolArray | None = None


_POSE_DECODER: Final = msgspec.json.Decoder(PoseMessage)
_HEADER_DECODER: Final = msgspec.json.Decoder(ImageHeader)
_ENCODER: Final = msgspec.json.Encoder()
_T = TypeVar("_T")


NUMBER: Final = b"\2"
RING: Final = b"\4"


@dataclass(frozen=True, slots=True)
class WrittenPose:
    """A pose message that is JSON already, with marks for its number and for the nonce of shared
    memory.
    """

    text: bytes
    number: int
    ring: str = ""

    @property
    def body(self) -> bytes:
        """Return the JSON."""
        ring = (RING, b'"%s"' % self.ring.encode()) if self.ring else (b',"ring":' + RING, b"")
        return self.text.replace(NUMBER, b"%d" % self.number).replace(*ring)


def encode_pose(message: PoseMessage | WrittenPose) -> list[bytes]:
    """Encode the two frames of a pose message.

    Raises:
        RendererError: a number is not finite, or a limit of the protocol is exceeded.
    """
    if isinstance(message, WrittenPose):  # within the limits, or it would not have been written
        return [TOPIC, message.body]
    if not 1 <= len(message.cameras) <= MAX_CAMERAS:
        raise RendererError(
            f"a renderer takes 1 to {MAX_CAMERAS} cameras, not {len(message.cameras)}"
        )
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
        raise ProtocolError(
            f"a pose message has the two frames 'Pose' and JSON, not {len(frames)} others"
        )
    message = _decode(_POSE_DECODER, frames[1], MAX_MESSAGE_BYTES)
    if message.ntime is UNSET and message.utime is UNSET:
        raise ProtocolError("a pose message without ntime or utime")
    if len({camera.ID for camera in message.cameras}) != len(message.cameras):
        raise ProtocolError("camera IDs are not unique")
    if message.vil is not UNSET:
        _check_extension(message.vil, len(message.cameras))
    return message


def encode_images(header: ImageHeader, pictures: Sequence[PixelImage]) -> list[bytes | memoryview]:
    """Encode the frames of an answer.

    JSON, then one new buffer per picture with its bottom row first.

    Args:
        header: its lists run parallel to ``pictures``; without ``vil.formats``, ``channels`` = 2
            says depth16.
        pictures: what they are to be on the wire.

    Raises:
        RendererError: header and pictures disagree.
    """
    head = encode_header(header)
    forms = _formats(header) or list(map(_form_of, pictures, header.channels))
    if (
        not len(pictures)
        == len(header.cameraIDs)
        == len(header.channels)
        == len(forms)
        == len(_sizes(header))
    ):
        raise RendererError("each picture needs its camera ID, channel count, size and format")
    for form, picture, (width, height) in zip(forms, pictures, _sizes(header), strict=True):
        if not ImageLayout(form, width, height).fits(picture):
            raise RendererError(
                f"a picture of {picture.pixels.shape} where {width}x{height} {form.name} "
                "was announced"
            )
    return [head, *map(to_wire, pictures, forms)]


def encode_header(header: ImageHeader) -> bytes:
    """Encode the first frame of an answer.

    Raises:
        RendererError: a number is not finite.
    """
    if not all(map(math.isfinite, _answer_numbers(header))):
        raise RendererError("a range or a landmark is not finite")
    return _ENCODER.encode(header)


def decode_images(frames: Sequence[bytes | memoryview]) -> tuple[ImageHeader, tuple[WireView, ...]]:
    """Read an answer of any version whose pictures follow as message parts.

    Raises:
        ProtocolError: it is malformed.
    """
    if not 1 <= len(frames) <= 1 + MAX_CAMERAS:
        raise ProtocolError(
            f"an answer has metadata and up to {MAX_CAMERAS} pictures, not {len(frames)} frames"
        )
    header = decode_header(frames[0])
    return header, decode_pictures(header, frames[1:])


def decode_header(frame: bytes | memoryview) -> ImageHeader:
    """Read the first frame of an answer.

    Raises:
        ProtocolError: it is malformed.
    """
    header = _decode(_HEADER_DECODER, frame, MAX_MESSAGE_BYTES)
    if header.ntime is UNSET and header.utime is UNSET:
        raise ProtocolError("an answer without ntime or utime")
    count = len(header.cameraIDs)
    if len(header.channels) != count or (
        header.cameraIndexes is not UNSET and len(header.cameraIndexes) != count
    ):
        raise ProtocolError(
            f"metadata lists {count} cameras and other numbers of indexes or channels"
        )
    if header.vil is not UNSET:
        _check_version(header.vil.v)
        if any(given and len(given) != count for given in (header.vil.sizes, header.vil.formats)):
            raise ProtocolError("metadata gives size or format of some pictures only")
        if not all(map(PIXEL_FORMATS.__contains__, header.vil.formats)):
            raise ProtocolError(f"the formats {header.vil.formats} are not all known")
    return header


def decode_pictures(
    header: ImageHeader, parts: Sequence[bytes | memoryview]
) -> tuple[WireView, ...]:
    """Read the parts that follow; without a format the byte count distinguishes grey from colour.

    Raises:
        ProtocolError: they are not what the metadata announces.
    """
    if len(parts) != len(header.cameraIDs):
        raise ProtocolError(
            f"metadata lists {len(header.cameraIDs)} cameras and {len(parts)} pictures came"
        )
    if max(map(len, parts), default=0) > MAX_IMAGE_BYTES:
        raise ProtocolError("a picture is too large", length=max(map(len, parts)))
    sizes = _sizes(header)
    forms = _formats(header) or [
        _form_from(len(part), channels, width * height)
        for part, channels, (width, height) in zip(parts, header.channels, sizes, strict=True)
    ]
    found = zip(parts, forms, sizes, strict=True)
    return _views(header, [from_wire(part, ImageLayout(form, *size)) for part, form, size in found])


def decode_slot(header: ImageHeader, data: npt.NDArray[np.uint8]) -> tuple[WireView, ...]:
    """Read the pictures of an answer out of a copy of their shared-memory slot.

    Raises:
        ProtocolError: it is not what the metadata announces.
    """
    forms = _formats(header)
    if len(forms) != len(header.cameraIDs):
        raise ProtocolError("pictures in shared memory need their formats")
    layouts = [ImageLayout(form, *size) for form, size in zip(forms, _sizes(header), strict=True)]
    return _views(header, from_slot(data, layouts))


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
        raise ProtocolError(
            f"the other end speaks version {version} of the extension 'vil' and this one "
            f"{EXTENSION_VERSION}: "
            "run bridge and renderer from the same vil-bridge"
        )


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


def _formats(header: ImageHeader) -> list[PixelFormat]:
    return [] if header.vil is UNSET else [PIXEL_FORMATS[name] for name in header.vil.formats]


def _form_of(picture: PixelImage, channels: int) -> PixelFormat:
    if channels == 2:
        return _DEPTH16
    return GRAY8 if picture.pixels.ndim == 2 else RGB8


def _form_from(size: int, channels: int, count: int) -> PixelFormat:
    """Return the format of a part with ``size`` bytes and ``count`` pixels.

    Grey of v2 and v3 has three bytes each.
    """
    if channels == 2:
        return _DEPTH16
    if channels not in (1, 3):
        raise ProtocolError(f"no picture has {channels} channels", length=size)
    return GRAY8 if channels == 1 and size == count else RGB8


def _views(header: ImageHeader, pictures: Sequence[PixelImage]) -> tuple[WireView, ...]:
    indexes: Sequence[int | None] = (
        [None] * len(pictures) if header.cameraIndexes is UNSET else header.cameraIndexes
    )
    rows = zip(header.cameraIDs, indexes, pictures, strict=True)
    return tuple([WireView(name, index, *picture) for name, index, picture in rows])


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
    for camera in vil.cameras:
        yield camera.fov
        if camera.reach is not UNSET:
            yield camera.reach
        if camera.pinhole is not UNSET:
            yield from camera.pinhole
        if camera.distortion is not UNSET:
            yield from camera.distortion.coefficients
        if camera.effects is not UNSET:
            yield from msgspec.structs.astuple(camera.effects)
    if vil.lighting is not UNSET:
        if vil.lighting.time is not UNSET:
            yield vil.lighting.time
        for lamp in vil.lighting.lamps.values():
            yield from (lamp.power, *lamp.colour)
        if vil.lighting.weather is not UNSET:
            yield from vil.lighting.weather.wind
    for actor in vil.actors:
        yield from (*actor.position, *actor.rotation, *actor.size)
    for skeleton in vil.skeletons:
        yield from chain.from_iterable(skeleton.offsets)
        yield from chain.from_iterable(skeleton.positions)
        yield from chain.from_iterable(skeleton.rotations)


def _answer_numbers(header: ImageHeader) -> Iterator[float]:
    yield header.camDepthScale
    if header.lidarReturn is not None:
        yield header.lidarReturn
    yield from chain.from_iterable(landmark.position for landmark in header.landmarksInView)
    if header.vil is not UNSET and header.vil.near is not UNSET:
        yield from chain.from_iterable(
            (*surface.position, *surface.normal) for surface in header.vil.near
        )
