"""MODELDEF of NatNet 2.5 to 4.2, both ways, every type of description."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from vil_bridge.protocols.natnet.codec import OLDEST, SIZED_SINCE, MessageId, Version, encode
from vil_bridge.protocols.natnet.model import (
    AssetDescription,
    AssetMarkerDescription,
    BodyDescription,
    CameraDescription,
    Description,
    DeviceDescription,
    ForcePlateDescription,
    MarkerDescription,
    MarkerSetDescription,
    Models,
    SkeletonDescription,
    UnknownDescription,
)
from vil_bridge.protocols.natnet.reader import DatagramReader

_MARKERS_SINCE: Final = (3, 0)
_MARKER_NAMES_SINCE: Final = (4, 0)
_ATTITUDES_SINCE: Final = (4, 2)

_ID_PARENT_OFFSET: Final = Struct("<ii3f")
_PLATE: Final = Struct("<2f3f144f12fii")
_KINDS: Final = Struct("<ii")
_POSE: Final = Struct("<3f4f")
_ASSET_MARKER: Final = Struct("<i3ffh")
_QUATERNION: Final = Struct("<4f")
_VECTOR: Final = Struct("<3f")
_I32: Final = Struct("<i")


# --- reading -------------------------------------------------------------------------------------


def decode_models(datagram: bytes, version: Version) -> Models:
    """Read the descriptions laid out as ``version`` says.

    Raises:
        ProtocolError: the version is unknown, or counts, sizes or strings contradict the length.
    """
    reader = DatagramReader(datagram)
    if version < OLDEST:
        raise reader.error(f"layout of NatNet {version[0]}.{version[1]} is not known")
    sized = version >= SIZED_SINCE
    items: list[Description] = []
    unread = 0
    for _ in range(reader.count(5)):
        kind = reader.i32()
        part = reader.part(reader.i32()) if sized else reader
        read = _READERS.get(kind) if 0 <= kind <= _last_kind(version) else None
        if read is not None:
            items.append(read(part, version))
            if sized:
                unread += part.left
        elif sized:
            items.append(UnknownDescription(kind, part.data[part.skip(part.left) : part.end]))
        else:
            raise reader.error(f"description of unknown type {kind}")
    reader.finish()
    return Models(tuple(items), unread)


def _last_kind(version: Version) -> int:
    if version >= SIZED_SINCE:
        return 6
    return 5 if version >= _MARKERS_SINCE else 2


def _texts(reader: DatagramReader) -> tuple[str, ...]:
    return tuple(reader.text() for _ in range(reader.count(1)))


def _read_marker_set(reader: DatagramReader, _version: Version) -> MarkerSetDescription:
    return MarkerSetDescription(reader.text(), _texts(reader))


def _read_body(reader: DatagramReader, version: Version) -> BodyDescription:
    name = reader.text()
    identity, parent_id, *offset = reader.take(_ID_PARENT_OFFSET)
    turn: Any = reader.take(_QUATERNION) if version >= _ATTITUDES_SINCE else (0.0, 0.0, 0.0, 1.0)
    markers = _read_markers(reader, version) if version >= _MARKERS_SINCE else ()
    return BodyDescription(
        name, identity, parent_id, (offset[0], offset[1], offset[2]), turn, markers
    )


def _read_markers(reader: DatagramReader, version: Version) -> tuple[MarkerDescription, ...]:
    count = reader.count(_VECTOR.size + _I32.size)
    places: list[Any] = [reader.take(_VECTOR) for _ in range(count)]
    labels = [reader.i32() for _ in range(count)]
    names = [""] * count
    if version >= _MARKER_NAMES_SINCE:
        names = [reader.text() for _ in range(count)]
    return tuple(map(MarkerDescription, places, labels, names))


def _read_bodies(reader: DatagramReader, version: Version) -> tuple[BodyDescription, ...]:
    return tuple(
        _read_body(reader, version) for _ in range(reader.count(1 + _ID_PARENT_OFFSET.size))
    )


def _read_skeleton(reader: DatagramReader, version: Version) -> SkeletonDescription:
    return SkeletonDescription(reader.text(), reader.i32(), _read_bodies(reader, version))


def _read_plate(reader: DatagramReader, _version: Version) -> ForcePlateDescription:
    identity = reader.i32()
    serial = reader.text()
    width, length, x, y, z, *rest, plate_type, data_type = reader.take(_PLATE)
    calibration = tuple(rest[:144])
    corners = tuple(rest[144:])
    return ForcePlateDescription(
        identity,
        serial,
        width,
        length,
        (x, y, z),
        calibration,
        corners,
        plate_type,
        data_type,
        _texts(reader),
    )


def _read_device(reader: DatagramReader, _version: Version) -> DeviceDescription:
    identity = reader.i32()
    name = reader.text()
    serial = reader.text()
    device_type, data_type = reader.take(_KINDS)
    return DeviceDescription(identity, name, serial, device_type, data_type, _texts(reader))


def _read_camera(reader: DatagramReader, _version: Version) -> CameraDescription:
    name = reader.text()
    x, y, z, *turn = reader.take(_POSE)
    return CameraDescription(name, (x, y, z), (turn[0], turn[1], turn[2], turn[3]))


def _read_asset(reader: DatagramReader, version: Version) -> AssetDescription:
    name = reader.text()
    kind, identity = reader.take(_KINDS)
    bodies = _read_bodies(reader, version)
    markers = tuple(_read_asset_marker(reader) for _ in range(reader.count(1 + _ASSET_MARKER.size)))
    return AssetDescription(name, identity, bodies, markers, kind)


def _read_asset_marker(reader: DatagramReader) -> AssetMarkerDescription:
    name = reader.text()
    identity, x, y, z, size, params = reader.take(_ASSET_MARKER)
    return AssetMarkerDescription(name, identity, (x, y, z), size, params)


_READERS: Final[dict[int, Callable[[DatagramReader, Version], Description]]] = {
    0: _read_marker_set,
    1: _read_body,
    2: _read_skeleton,
    3: _read_plate,
    4: _read_device,
    5: _read_camera,
    6: _read_asset,
}


# --- writing -------------------------------------------------------------------------------------


def encode_models(models: Models, version: Version) -> bytes:
    """Write the descriptions; what the version cannot carry is left out.

    Raises:
        ValueError: the version is unknown, or the descriptions do not fit into a datagram.
    """
    if version < OLDEST:
        raise ValueError(f"layout of NatNet {version[0]}.{version[1]} is not known")
    sized = version >= SIZED_SINCE
    packed = [_pack(item, version) for item in models.items]
    carried = [(kind, content) for kind, content in packed if sized or kind <= _last_kind(version)]
    parts = [_I32.pack(len(carried))]
    for kind, content in carried:
        parts.append(_I32.pack(kind))
        if sized:
            parts.append(_I32.pack(len(content)))
        parts.append(content)
    return encode(MessageId.MODELDEF, b"".join(parts))


def _pack(item: Description, version: Version) -> tuple[int, bytes]:
    match item:
        case MarkerSetDescription():
            return 0, _text(item.name) + _pack_texts(item.markers)
        case BodyDescription():
            return 1, _pack_body(item, version)
        case SkeletonDescription():
            return 2, _text(item.name) + _I32.pack(item.id) + _pack_bodies(item.bones, version)
        case ForcePlateDescription():
            numbers = (
                *item.origin,
                *item.calibration,
                *item.corners,
                item.plate_type,
                item.data_type,
            )
            plate = _PLATE.pack(item.width, item.length, *numbers)
            return 3, _I32.pack(item.id) + _text(item.serial) + plate + _pack_texts(item.channels)
        case DeviceDescription():
            head = _I32.pack(item.id) + _text(item.name) + _text(item.serial)
            return 4, head + _KINDS.pack(item.device_type, item.data_type) + _pack_texts(
                item.channels
            )
        case CameraDescription():
            return 5, _text(item.name) + _POSE.pack(*item.p, *item.q)
        case AssetDescription():
            head = (
                _text(item.name)
                + _KINDS.pack(item.kind, item.id)
                + _pack_bodies(item.bodies, version)
            )
            return 6, head + _I32.pack(len(item.markers)) + b"".join(
                map(_pack_asset_marker, item.markers)
            )
        case UnknownDescription():
            return item.kind, item.content


def _text(text: str) -> bytes:
    return text.encode() + b"\0"


def _pack_texts(texts: tuple[str, ...]) -> bytes:
    return _I32.pack(len(texts)) + b"".join(map(_text, texts))


def _pack_bodies(bodies: tuple[BodyDescription, ...], version: Version) -> bytes:
    return _I32.pack(len(bodies)) + b"".join(_pack_body(body, version) for body in bodies)


def _pack_body(body: BodyDescription, version: Version) -> bytes:
    parts = [_text(body.name), _ID_PARENT_OFFSET.pack(body.id, body.parent_id, *body.offset)]
    if version >= _ATTITUDES_SINCE:
        parts.append(_QUATERNION.pack(*body.offset_q))
    if version >= _MARKERS_SINCE:
        parts.append(_I32.pack(len(body.markers)))
        parts += [_VECTOR.pack(*marker.p) for marker in body.markers]
        parts += [_I32.pack(marker.label) for marker in body.markers]
    if version >= _MARKER_NAMES_SINCE:
        parts += [_text(marker.name) for marker in body.markers]
    return b"".join(parts)


def _pack_asset_marker(marker: AssetMarkerDescription) -> bytes:
    return _text(marker.name) + _ASSET_MARKER.pack(marker.id, *marker.p, marker.size, marker.params)
