"""FRAMEOFDATA of NatNet 2.5 to 4.2: the whole truth of a datagram, both ways.

From 4.1 on every section contains its size: unknown bytes at the end of a section, and unknown
sections before the suffix, are passed over and counted. The bridge itself reads frames with
``lean``, which passes over what no pose needs; a test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ProtocolError
from vil_bridge.protocols.natnet.codec import OLDEST, SIZED_SINCE, MessageId, Version, encode
from vil_bridge.protocols.natnet.frame import (
    BODY,
    INNER_MARKER,
    MARKER,
    TRACKED,
    AnalogSamples,
    AssetPose,
    MarkerSet,
    NatNetFrame,
    Points,
    Records,
    SkeletonPose,
    Suffix,
)
from vil_bridge.protocols.natnet.reader import DatagramReader

_T = TypeVar("_T")

_PARAMS_SINCE: Final = (2, 6)
_FORCE_PLATES_SINCE: Final = (2, 9)
_PLAIN_BODIES_SINCE: Final = (3, 0)
_DEVICES_SINCE: Final = (3, 0)

_I32: Final = Struct("<i")
_COUNT_AND_SIZE: Final = Struct("<ii")
_POSE: Final = Struct("<i3f4f")
_ERROR: Final = Struct("<f")
_ERROR_PARAMS: Final = Struct("<fh")
_SUFFIX_41: Final = Struct("<IIdQQQIIhi")
_SUFFIX_30: Final = Struct("<IIdQQQhi")
_SUFFIX_27: Final = Struct("<fIIdhi")
_SUFFIX_26: Final = Struct("<fIIfhi")
_SUFFIX_25: Final = Struct("<fIIi")
_INNER_BYTES: Final = INNER_MARKER.itemsize
_MARKER_25: Final = np.dtype([("id", "<i4"), ("p", "<f4", 3), ("size", "<f4")])
_MARKER_26: Final = np.dtype([("id", "<i4"), ("p", "<f4", 3), ("size", "<f4"), ("params", "<i2")])


# --- reading -------------------------------------------------------------------------------------


def decode_frame(datagram: bytes, version: Version) -> NatNetFrame:
    """Read a whole frame laid out as ``version`` says.

    Raises:
        ProtocolError: the version is unknown, or counts, sizes or the end mark contradict the
            length.
    """
    reader = DatagramReader(datagram)
    if version < OLDEST:
        raise reader.error(f"layout of NatNet {version[0]}.{version[1]} is not known")
    number = reader.i32()
    sections = _Sections(reader, version)
    marker_sets = sections.next(_marker_sets, 5)
    other_markers = sections.next(lambda part, count, _: read_points(part, count), 12)
    bodies, body_markers = sections.next(_all_bodies, _least_body(version))
    skeletons = sections.next(_skeletons, 8)
    assets: tuple[AssetPose, ...] = ()
    if sections.sized:
        assets = sections.next(_assets, 12)
    markers = sections.next(_labeled, _marker_layout(version).itemsize)
    force_plates: tuple[AnalogSamples, ...] = ()
    if version >= _FORCE_PLATES_SINCE:
        force_plates = sections.next(_analog, 8)
    devices: tuple[AnalogSamples, ...] = ()
    if version >= _DEVICES_SINCE:
        devices = sections.next(_analog, 8)
    spare = reader.left - suffix_bytes(version) if sections.sized else 0
    start = reader.skip(max(0, spare))
    tail = reader.data[start : reader.offset]
    suffix = read_suffix(reader, version)
    reader.finish()
    return NatNetFrame(
        number,
        bodies,
        skeletons,
        markers,
        suffix,
        sections.unread + len(tail),
        assets,
        marker_sets,
        other_markers,
        body_markers,
        force_plates,
        devices,
        tail,
    )


class _Sections:
    """Reader of the sections in order; from 4.1 on each within its size."""

    def __init__(self, reader: DatagramReader, version: Version) -> None:
        self.sized = version >= SIZED_SINCE
        self.unread = 0
        self._reader = reader
        self._version = version

    def next(self, read: Callable[[DatagramReader, int, Version], _T], least_bytes: int) -> _T:
        """Return the next section, of elements that take at least ``least_bytes`` each."""
        if not self.sized:
            return read(self._reader, self._reader.count(least_bytes), self._version)
        count, size = self._reader.take(_COUNT_AND_SIZE)
        part = self._reader.part(size)
        if not 0 <= count * least_bytes <= size:
            raise part.error(f"section of {count} elements in {size} bytes")
        value = read(part, count, self._version)
        self.unread += part.left
        return value


def view(reader: DatagramReader, count: int, layout: np.dtype[np.void]) -> Records:
    """Return the next records, uncopied."""
    return np.ndarray(count, layout, reader.data, reader.skip(count * layout.itemsize))


def fill(part: DatagramReader, count: int, layout: np.dtype[np.void]) -> Records:
    """Return a view of records that share a part evenly; fields of a newer layout are skipped."""
    if not count:
        return np.empty(0, layout)
    stride, rest = divmod(part.left, count)
    if rest or stride < layout.itemsize:
        raise part.error(f"{count} records in {part.left} bytes")
    return np.ndarray(count, layout, part.data, part.skip(count * layout.itemsize), (stride,))


def read_points(reader: DatagramReader, count: int) -> Points:
    """Return the next positions, uncopied, shape (count, 3)."""
    return np.ndarray((count, 3), "<f4", reader.data, reader.skip(count * 12))


def _all_bodies(
    reader: DatagramReader, count: int, version: Version
) -> tuple[Records, tuple[Records, ...]]:
    if version >= SIZED_SINCE:
        return fill(reader, count, BODY), ()
    return _bodies(reader, count, version)


def _least_body(version: Version) -> int:
    return BODY.itemsize if version >= _PLAIN_BODIES_SINCE else _POSE.size + _I32.size


def _bodies(
    reader: DatagramReader, count: int, version: Version
) -> tuple[Records, tuple[Records, ...]]:
    """Return the bodies or bones, and the markers inside each of them (2.x).

    Before 2.6 only a pose of zeros marks an untracked body.
    """
    if version >= _PLAIN_BODIES_SINCE:
        return view(reader, count, BODY), ()
    bodies: Records = np.zeros(count, BODY)
    inner: list[Records] = []
    for i in range(count):
        identity, *pose = reader.take(_POSE)
        inner.append(_inner_markers(reader))
        if version >= _PARAMS_SINCE:
            error, params = reader.take(_ERROR_PARAMS)
        else:
            (error,) = reader.take(_ERROR)
            params = TRACKED if any(pose[3:]) else 0
        bodies[i] = (identity, pose[:3], pose[3:], error, params)
    return bodies, tuple(inner)


def _inner_markers(reader: DatagramReader) -> Records:
    count = reader.count(_INNER_BYTES)
    markers: Records = np.empty(count, INNER_MARKER)
    markers["p"] = read_points(reader, count)
    for name in ("id", "size"):
        markers[name] = np.ndarray(count, INNER_MARKER[name], reader.data, reader.skip(4 * count))
    return markers


def _marker_layout(version: Version) -> np.dtype[np.void]:
    """Return the labeled markers unchanged."""
    if version >= _PLAIN_BODIES_SINCE:
        return MARKER
    return _MARKER_26 if version >= _PARAMS_SINCE else _MARKER_25


def _labeled(reader: DatagramReader, count: int, version: Version) -> Records:
    if version >= SIZED_SINCE:
        return fill(reader, count, MARKER)
    return _as(view(reader, count, _marker_layout(version)), MARKER)


def _as(records: Records, layout: np.dtype[np.void]) -> Records:
    """Return the fields that both layouts have; the same array when the layouts are the same."""
    if records.dtype == layout:
        return records
    out: Records = np.zeros(len(records), layout)
    for name in set(records.dtype.names or ()) & set(layout.names or ()):
        out[name] = records[name]
    return out


def _marker_sets(reader: DatagramReader, count: int, _version: Version) -> tuple[MarkerSet, ...]:
    return tuple(
        MarkerSet(reader.text(), read_points(reader, reader.count(12))) for _ in range(count)
    )


def _skeletons(reader: DatagramReader, count: int, version: Version) -> tuple[SkeletonPose, ...]:
    least = _least_body(version)
    return tuple(
        SkeletonPose(reader.i32(), *_bodies(reader, reader.count(least), version))
        for _ in range(count)
    )


def _assets(reader: DatagramReader, count: int, _version: Version) -> tuple[AssetPose, ...]:
    return tuple(
        AssetPose(
            reader.i32(),
            view(reader, reader.count(BODY.itemsize), BODY),
            view(reader, reader.count(MARKER.itemsize), MARKER),
        )
        for _ in range(count)
    )


def _analog(reader: DatagramReader, count: int, _version: Version) -> tuple[AnalogSamples, ...]:
    devices = []
    for _ in range(count):
        identity = reader.i32()
        channels = reader.count(4)
        samples = tuple(_samples(reader, reader.count(4)) for _ in range(channels))
        devices.append(AnalogSamples(identity, samples))
    return tuple(devices)


def _samples(reader: DatagramReader, count: int) -> npt.NDArray[np.float32]:
    return np.ndarray(count, "<f4", reader.data, reader.skip(4 * count))


# --- suffix --------------------------------------------------------------------------------------


def _suffix_layout(version: Version) -> Struct:
    if version >= SIZED_SINCE:
        return _SUFFIX_41
    if version >= (3, 0):
        return _SUFFIX_30
    if version >= (2, 7):
        return _SUFFIX_27
    return _SUFFIX_26 if version >= _PARAMS_SINCE else _SUFFIX_25


def suffix_bytes(version: Version) -> int:
    """Return the size of the suffix, which ends every frame."""
    return _suffix_layout(version).size


def read_suffix(reader: DatagramReader, version: Version) -> Suffix:
    """Read stamps and flags; check the end mark."""
    layout = _suffix_layout(version)
    start = reader.offset
    values = reader.take(layout)
    if values[-1] != 0:
        raise ProtocolError(
            f"end mark is {values[-1]}", offset=start + layout.size - 4, length=len(reader.data)
        )
    return _suffix_of(values, layout)


def last_suffix(datagram: bytes, version: Version) -> Suffix:
    """Return the stamps and flags of a datagram whose end was checked."""
    layout = _suffix_layout(version)
    return _suffix_of(layout.unpack_from(datagram, len(datagram) - layout.size), layout)


def _suffix_of(values: tuple[Any, ...], layout: Struct) -> Suffix:
    if layout is _SUFFIX_41:
        code, sub, timestamp_s, mid, received, transmit, precision_s, fraction, params, _ = values
        return Suffix(
            timestamp_s, mid, received, transmit, params, code, sub, precision_s, fraction
        )
    if layout is _SUFFIX_30:
        code, sub, timestamp_s, mid, received, transmit, params, _ = values
        return Suffix(timestamp_s, mid, received, transmit, params, code, sub)
    latency_s, code, sub = values[:3]
    extra: dict[str, Any] = {"timestamp_s": None}
    if layout is not _SUFFIX_25:
        extra = {"timestamp_s": values[3], "params": values[4]}
    return Suffix(timecode=code, timecode_sub=sub, old_latency_s=latency_s, **extra)


def _pack_suffix(suffix: Suffix, version: Version) -> bytes:
    layout = _suffix_layout(version)
    code = suffix.timecode, suffix.timecode_sub
    timestamp_s = suffix.timestamp_s or 0.0
    if layout is _SUFFIX_25:
        return layout.pack(suffix.old_latency_s, *code, 0)
    if layout is _SUFFIX_26 or layout is _SUFFIX_27:
        return layout.pack(suffix.old_latency_s, *code, timestamp_s, suffix.params, 0)
    stamps = *code, timestamp_s, suffix.mid_exposure, suffix.received, suffix.transmit
    precision = (suffix.precision_s, suffix.precision_fraction) if layout is _SUFFIX_41 else ()
    return layout.pack(*stamps, *precision, suffix.params, 0)


# --- writing -------------------------------------------------------------------------------------


def encode_frame(frame: NatNetFrame, version: Version) -> bytes:
    """Write a frame; what the version cannot carry is left out.

    Raises:
        ValueError: the version is unknown, or the frame does not fit into a datagram.
    """
    if version < OLDEST:
        raise ValueError(f"layout of NatNet {version[0]}.{version[1]} is not known")
    sized = version >= SIZED_SINCE

    def section(count: int, content: bytes) -> bytes:
        if not sized:
            return _I32.pack(count) + content
        return _COUNT_AND_SIZE.pack(count, len(content)) + content

    def section_of(items: Sequence[_T], pack: Callable[[_T, Version], bytes]) -> bytes:
        return section(len(items), b"".join([pack(item, version) for item in items]))

    parts = [
        _I32.pack(frame.number),
        section_of(frame.marker_sets, _pack_marker_set),
        section(len(frame.other_markers), _floats(frame.other_markers)),
        section(len(frame.bodies), _pack_bodies(frame.bodies, frame.body_markers, version)),
        section_of(frame.skeletons, _pack_skeleton),
    ]
    if sized:
        parts.append(section_of(frame.assets, _pack_asset))
    markers = _as(frame.markers, _marker_layout(version))
    parts.append(section(len(markers), markers.tobytes()))
    if version >= _FORCE_PLATES_SINCE:
        parts.append(section_of(frame.force_plates, _pack_analog))
    if version >= _DEVICES_SINCE:
        parts.append(section_of(frame.devices, _pack_analog))
    if sized:
        parts.append(frame.tail)
    parts.append(_pack_suffix(frame.suffix, version))
    return encode(MessageId.FRAMEOFDATA, b"".join(parts))


def _floats(values: npt.NDArray[np.float32]) -> bytes:
    return np.ascontiguousarray(values, "<f4").tobytes()


def _pack_marker_set(markers: MarkerSet, _version: Version) -> bytes:
    return markers.name.encode() + b"\0" + _I32.pack(len(markers.p)) + _floats(markers.p)


def _pack_bodies(bodies: Records, inner: tuple[Records, ...], version: Version) -> bytes:
    if version >= _PLAIN_BODIES_SINCE:
        return _as(bodies, BODY).tobytes()
    inner += (np.empty(0, INNER_MARKER),) * (len(bodies) - len(inner))
    end = BODY.itemsize if version >= _PARAMS_SINCE else BODY.itemsize - BODY["params"].itemsize
    packed = []
    for record, markers in zip(bodies, inner, strict=True):
        body = record.tobytes()
        block = (
            _I32.pack(len(markers))
            + _floats(markers["p"])
            + markers["id"].tobytes()
            + markers["size"].tobytes()
        )
        packed += [body[: _POSE.size], block, body[_POSE.size : end]]
    return b"".join(packed)


def _pack_skeleton(skeleton: SkeletonPose, version: Version) -> bytes:
    bones = _pack_bodies(skeleton.bones, skeleton.markers, version)
    return _COUNT_AND_SIZE.pack(skeleton.id, len(skeleton.bones)) + bones


def _pack_asset(asset: AssetPose, _version: Version) -> bytes:
    bodies = _COUNT_AND_SIZE.pack(asset.id, len(asset.bodies)) + _as(asset.bodies, BODY).tobytes()
    return bodies + _I32.pack(len(asset.markers)) + _as(asset.markers, MARKER).tobytes()


def _pack_analog(analog: AnalogSamples, _version: Version) -> bytes:
    channels = [_I32.pack(len(samples)) + _floats(samples) for samples in analog.channels]
    return _COUNT_AND_SIZE.pack(analog.id, len(analog.channels)) + b"".join(channels)
