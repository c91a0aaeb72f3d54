"""FRAMEOFDATA: rigid bodies, skeletons, labeled markers and stamps of one instant.

Bodies are viewed as packed numpy records, never copied or looped over. What the bridge does not use
(marker sets, trained assets, force plates, devices) is passed over: by its size from 4.1 on, by its
counts before. From 4.1 on unknown sections before the suffix are passed over too, since the suffix
has a fixed size and ends the datagram.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_adapters.optitrack.codec import SIZED_SINCE, MessageId, Reader, Version, encode
from vil_bridge.core.errors import ProtocolError

__all__ = ["BODY", "MARKER", "TRACKED", "Frame", "Records", "SkeletonPose", "Suffix", "decode_frame", "encode_frame"]

Records = npt.NDArray[np.void]

BODY: Final = np.dtype([("id", "<i4"), ("p", "<f4", 3), ("q", "<f4", 4), ("error", "<f4"), ("params", "<i2")])
"""Rigid body or bone: position and attitude (x, y, z, w), mean marker error, params bit 0 = tracked."""

MARKER: Final = np.dtype([("id", "<i4"), ("p", "<f4", 3), ("size", "<f4"), ("params", "<i2"), ("residual", "<f4")])
"""Labeled marker: params bit 0 = occluded, bit 4 = unlabeled."""

TRACKED: Final = 1
"""Bit of a body's params."""

_I32: Final = Struct("<i")
_COUNT_AND_SIZE: Final = Struct("<ii")
_POSE: Final = Struct("<i3f4f")
_ERROR_PARAMS: Final = Struct("<fh")
_F32: Final = Struct("<f")
_SUFFIX_3: Final = Struct("<IIdQQQhi")
_SUFFIX_41: Final = Struct("<IIdQQQIIhi")
_SUFFIX_27: Final = Struct("<fIIdhi")
_SUFFIX_26: Final = Struct("<fIIfhi")
_SUFFIX_25: Final = Struct("<fIIi")
_NO_RECORDS: Final[Records] = np.empty(0, BODY)
_NO_MARKERS: Final[Records] = np.empty(0, MARKER)


@dataclass(frozen=True, slots=True)
class Suffix:
    """Stamps and flags of a frame.

    Attributes:
        timestamp_s: since the server started; None = not told (2.5).
        mid_exposure, received, transmit: ticks of the server's clock; 0 = not told.
    """

    timestamp_s: float | None = 0.0
    mid_exposure: int = 0
    received: int = 0
    transmit: int = 0
    params: int = 0

    RECORDING = 1
    MODELS_CHANGED = 2
    PLAYBACK = 4
    BITSTREAM_CHANGED = 8


@dataclass(frozen=True, slots=True, eq=False)
class SkeletonPose:
    """One skeleton; ``bones`` are records of type ``BODY`` whose id is (skeleton id << 16) | bone id."""

    id: int
    bones: Records


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One frame in the server's units and axes; the arrays view the datagram.

    Attributes:
        bodies: records of type ``BODY``. markers: records of type ``MARKER``.
        unread: bytes of sections that this reader does not know.
    """

    number: int
    bodies: Records = field(default_factory=lambda: _NO_RECORDS)
    skeletons: tuple[SkeletonPose, ...] = ()
    markers: Records = field(default_factory=lambda: _NO_MARKERS)
    suffix: Suffix = Suffix()
    unread: int = 0


def decode_frame(datagram: bytes, version: Version) -> Frame:
    """Read a frame laid out as ``version`` says.

    Raises:
        ProtocolError: counts, sizes or the end mark contradict the datagram's length.
    """
    reader = Reader(datagram)
    number = reader.i32()
    if version >= SIZED_SINCE:
        bodies, skeletons, markers = _sized_sections(reader)
    else:
        bodies, skeletons, markers = _counted_sections(reader, version)
    layout = _suffix_layout(version)
    unread = reader.left - layout.size
    if unread and version >= SIZED_SINCE:
        reader.skip(unread)
    suffix = _read_suffix(reader, layout)
    reader.finish()
    return Frame(number, bodies, skeletons, markers, suffix, unread)


# --- 4.1 and newer: every section tells its size -------------------------------------------------


def _sized_sections(reader: Reader) -> tuple[Records, tuple[SkeletonPose, ...], Records]:
    _section(reader)  # marker sets
    _section(reader)  # legacy unlabeled markers
    count, part = _section(reader)
    bodies = _sized_records(part, count, BODY)
    count, part = _section(reader)
    skeletons = _skeletons(part, count)
    _section(reader)  # assets
    count, part = _section(reader)
    markers = _sized_records(part, count, MARKER)
    _section(reader)  # force plates
    _section(reader)  # devices
    return bodies, skeletons, markers


def _section(reader: Reader) -> tuple[int, Reader]:
    count, size = reader.take(_COUNT_AND_SIZE)
    if not 0 <= count <= size:
        raise reader.error(f"section of {count} elements in {size} bytes")
    return count, reader.part(size)


def _sized_records(part: Reader, count: int, layout: np.dtype[np.void]) -> Records:
    """View ``count`` records that fill the part; longer ones than known keep their known fields."""
    if not count:
        return np.empty(0, layout)
    stride, rest = divmod(part.left, count)
    if rest or stride < layout.itemsize:
        raise part.error(f"{count} records in {part.left} bytes")
    return np.ndarray(count, layout, part.data, part.offset, (stride,))


def _skeletons(part: Reader, count: int) -> tuple[SkeletonPose, ...]:
    skeletons = []
    for _ in range(count):
        (identity,) = part.take(_I32)
        skeletons.append(SkeletonPose(identity, _records(part, part.count(BODY.itemsize), BODY)))
    return tuple(skeletons)


def _records(reader: Reader, count: int, layout: np.dtype[np.void]) -> Records:
    return np.ndarray(count, layout, reader.data, reader.skip(count * layout.itemsize))


# --- before 4.1: everything has to be counted through --------------------------------------------


def _counted_sections(reader: Reader, version: Version) -> tuple[Records, tuple[SkeletonPose, ...], Records]:
    for _ in range(reader.count(5)):
        reader.text()
        reader.skip(reader.count(12) * 12)
    reader.skip(reader.count(12) * 12)
    bodies = _counted_bodies(reader, version)
    skeletons: list[SkeletonPose] = []
    if version >= (2, 1):
        count = reader.count(8)
        skeletons = [SkeletonPose(reader.i32(), _counted_bodies(reader, version)) for _ in range(count)]
    markers = _NO_MARKERS
    if version >= (3, 0):
        markers = _records(reader, reader.count(MARKER.itemsize), MARKER)
    elif version >= (2, 3):
        size = 22 if version >= (2, 6) else 20
        reader.skip(reader.count(size) * size)
    if version >= (2, 9):
        _skip_channels(reader)
    if version >= (3, 0):
        _skip_channels(reader)
    return bodies, tuple(skeletons), markers


def _counted_bodies(reader: Reader, version: Version) -> Records:
    if version >= (3, 0):
        return _records(reader, reader.count(BODY.itemsize), BODY)
    count = reader.count(_POSE.size + _I32.size)
    bodies: Records = np.zeros(count, BODY)
    for i in range(count):
        pose = reader.take(_POSE)
        markers = reader.count(12)
        reader.skip(markers * (20 if version >= (2, 0) else 12))
        error, params = 0.0, TRACKED
        if version >= (2, 6):
            error, params = reader.take(_ERROR_PARAMS)
        elif version >= (2, 0):
            (error,) = reader.take(_F32)
        bodies[i] = (pose[0], pose[1:4], pose[4:8], error, params)
    return bodies


def _skip_channels(reader: Reader) -> None:
    for _ in range(reader.count(8)):
        reader.i32()
        for _ in range(reader.count(4)):
            reader.skip(reader.count(4) * 4)


# --- suffix --------------------------------------------------------------------------------------


def _suffix_layout(version: Version) -> Struct:
    if version >= SIZED_SINCE:
        return _SUFFIX_41
    if version >= (3, 0):
        return _SUFFIX_3
    if version >= (2, 7):
        return _SUFFIX_27
    return _SUFFIX_26 if version >= (2, 6) else _SUFFIX_25


def _read_suffix(reader: Reader, layout: Struct) -> Suffix:
    start = reader.offset
    values = reader.take(layout)
    if values[-1] != 0:
        raise ProtocolError(f"end mark is {values[-1]}", offset=start + layout.size - 4, length=len(reader.data))
    if layout is _SUFFIX_25:
        return Suffix(timestamp_s=None)
    if layout is _SUFFIX_26 or layout is _SUFFIX_27:
        return Suffix(timestamp_s=values[3], params=values[4])
    return Suffix(values[2], values[3], values[4], values[5], values[-2])


# --- encoding ------------------------------------------------------------------------------------


def encode_frame(frame: Frame, version: Version) -> bytes:
    """Write a frame of 3.0 or newer; sections that :class:`Frame` does not hold are empty.

    Raises:
        ValueError: the version is older, or the frame does not fit into a datagram.
    """
    if version < (3, 0):
        raise ValueError(f"frames of NatNet {version[0]}.{version[1]} are only read")
    sized = version >= SIZED_SINCE

    def section(count: int, content: bytes = b"") -> bytes:
        return (_COUNT_AND_SIZE.pack(count, len(content)) if sized else _I32.pack(count)) + content

    skeletons = b"".join(
        _COUNT_AND_SIZE.pack(skeleton.id, len(skeleton.bones)) + _packed(skeleton.bones, BODY)
        for skeleton in frame.skeletons
    )
    parts = [
        _I32.pack(frame.number),
        section(0),
        section(0),
        section(len(frame.bodies), _packed(frame.bodies, BODY)),
        section(len(frame.skeletons), skeletons),
        section(0) if sized else b"",
        section(len(frame.markers), _packed(frame.markers, MARKER)),
        section(0),
        section(0),
        _pack_suffix(frame.suffix, sized),
    ]
    return encode(MessageId.FRAMEOFDATA, b"".join(parts))


def _packed(records: Records, layout: np.dtype[np.void]) -> bytes:
    return np.ascontiguousarray(records, dtype=layout).tobytes()


def _pack_suffix(suffix: Suffix, sized: bool) -> bytes:
    stamps: tuple[Any, ...] = (suffix.timestamp_s or 0.0, suffix.mid_exposure, suffix.received, suffix.transmit)
    if sized:
        return _SUFFIX_41.pack(0, 0, *stamps, 0, 0, suffix.params, 0)
    return _SUFFIX_3.pack(0, 0, *stamps, suffix.params, 0)
