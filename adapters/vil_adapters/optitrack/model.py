"""MODELDEF: names, hierarchy and offsets of what the frames hold.

Rigid bodies and skeletons are kept; marker sets, force plates, devices, cameras and trained assets
are passed over: by their size from 4.1 on, field by field before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Final

from vil_adapters.optitrack.codec import SIZED_SINCE, MessageId, Reader, Version, encode

__all__ = ["BodyDescription", "Models", "SkeletonDescription", "decode_models", "encode_models"]

_Vector = tuple[float, float, float]
_Quaternion = tuple[float, float, float, float]

_RIGID_BODY: Final = 1
_SKELETON: Final = 2

_ID_PARENT_OFFSET: Final = Struct("<ii3f")
_QUATERNION: Final = Struct("<4f")
_VECTOR: Final = Struct("<3f")
_I32: Final = Struct("<i")
_LEAST_BODY_BYTES: Final = _ID_PARENT_OFFSET.size


@dataclass(frozen=True, slots=True)
class BodyDescription:
    """A rigid body, or a bone of a skeleton.

    Attributes:
        parent_id: of a bone, the parent's id without the skeleton's part, 0 for the root; -1 for a body.
        offset: origin in the parent's axes, in streamed units.
        offset_q: attitude relative to the parent (x, y, z, w); 4.2 and newer.
        markers: positions in the body's axes, in streamed units.
    """

    name: str
    id: int
    parent_id: int = -1
    offset: _Vector = (0.0, 0.0, 0.0)
    offset_q: _Quaternion = (0.0, 0.0, 0.0, 1.0)
    markers: tuple[_Vector, ...] = ()


@dataclass(frozen=True, slots=True)
class SkeletonDescription:
    """A skeleton and its bones, in the server's order."""

    name: str
    id: int
    bones: tuple[BodyDescription, ...]


@dataclass(frozen=True, slots=True)
class Models:
    """What a server describes, as far as the bridge uses it."""

    bodies: tuple[BodyDescription, ...] = ()
    skeletons: tuple[SkeletonDescription, ...] = ()

    @property
    def by_name(self) -> dict[str, BodyDescription | SkeletonDescription]:
        """Bodies and skeletons by their names."""
        described: list[BodyDescription | SkeletonDescription] = [*self.bodies, *self.skeletons]
        return {item.name: item for item in described}


def decode_models(datagram: bytes, version: Version) -> Models:
    """Read the descriptions laid out as ``version`` says.

    Raises:
        ProtocolError: counts, sizes or strings contradict the datagram's length.
    """
    reader = Reader(datagram)
    bodies: list[BodyDescription] = []
    skeletons: list[SkeletonDescription] = []
    for _ in range(reader.count(8)):
        kind = reader.i32()
        part = reader.part(reader.i32()) if version >= SIZED_SINCE else reader
        if kind == _RIGID_BODY:
            bodies.append(_read_body(part, version))
        elif kind == _SKELETON:
            skeletons.append(_read_skeleton(part, version))
        elif version < SIZED_SINCE:
            _skip_other(reader, kind)
    reader.finish()
    return Models(tuple(bodies), tuple(skeletons))


def _read_body(reader: Reader, version: Version) -> BodyDescription:
    name = reader.text() if version >= (2, 0) else ""
    identity, parent_id, *offset = reader.take(_ID_PARENT_OFFSET)
    offset_q: _Quaternion = (0.0, 0.0, 0.0, 1.0)
    if version >= (4, 2):
        x, y, z, w = reader.take(_QUATERNION)
        offset_q = (x, y, z, w)
    markers: tuple[_Vector, ...] = ()
    if version >= (3, 0):
        count = reader.count(_VECTOR.size + _I32.size)
        markers = tuple(_vector(*reader.take(_VECTOR)) for _ in range(count))
        reader.skip(count * _I32.size)
        if version >= (4, 0):
            _skip_texts(reader, count)
    return BodyDescription(name, identity, parent_id, _vector(*offset), offset_q, markers)


def _vector(x: float, y: float, z: float) -> _Vector:
    return x, y, z


def _read_skeleton(reader: Reader, version: Version) -> SkeletonDescription:
    name = reader.text()
    identity = reader.i32()
    bones = tuple(_read_body(reader, version) for _ in range(reader.count(_LEAST_BODY_BYTES)))
    return SkeletonDescription(name, identity, bones)


def _skip_texts(reader: Reader, count: int) -> None:
    for _ in range(count):
        reader.text()


def _skip_marker_set(reader: Reader) -> None:
    reader.text()
    _skip_texts(reader, reader.count(1))


def _skip_force_plate(reader: Reader) -> None:
    reader.i32()
    reader.text()
    reader.skip(4 * (1 + 1 + 3 + 144 + 12 + 1 + 1))
    _skip_texts(reader, reader.count(1))


def _skip_device(reader: Reader) -> None:
    reader.i32()
    _skip_texts(reader, 2)
    reader.skip(4 * 2)
    _skip_texts(reader, reader.count(1))


def _skip_camera(reader: Reader) -> None:
    reader.text()
    reader.skip(4 * 7)


_SKIP: Final[dict[int, Callable[[Reader], None]]] = {
    0: _skip_marker_set,
    3: _skip_force_plate,
    4: _skip_device,
    5: _skip_camera,
}


def _skip_other(reader: Reader, kind: int) -> None:
    skip = _SKIP.get(kind)
    if skip is None:
        raise reader.error(f"description of unknown type {kind}")
    skip(reader)


# --- encoding ------------------------------------------------------------------------------------


def encode_models(models: Models, version: Version) -> bytes:
    """Write the descriptions of 3.0 or newer; markers carry no label and no name.

    Raises:
        ValueError: the version is older, or the descriptions do not fit into a datagram.
    """
    if version < (3, 0):
        raise ValueError(f"descriptions of NatNet {version[0]}.{version[1]} are only read")
    described = [(_RIGID_BODY, _pack_body(body, version)) for body in models.bodies]
    described += [(_SKELETON, _pack_skeleton(skeleton, version)) for skeleton in models.skeletons]
    parts = [_I32.pack(len(described))]
    for kind, content in described:
        parts += [_I32.pack(kind), _I32.pack(len(content)) if version >= SIZED_SINCE else b"", content]
    return encode(MessageId.MODELDEF, b"".join(parts))


def _pack_skeleton(skeleton: SkeletonDescription, version: Version) -> bytes:
    head = skeleton.name.encode() + b"\0" + _I32.pack(skeleton.id) + _I32.pack(len(skeleton.bones))
    return head + b"".join(_pack_body(bone, version) for bone in skeleton.bones)


def _pack_body(body: BodyDescription, version: Version) -> bytes:
    parts = [body.name.encode(), b"\0", _ID_PARENT_OFFSET.pack(body.id, body.parent_id, *body.offset)]
    if version >= (4, 2):
        parts.append(_QUATERNION.pack(*body.offset_q))
    count = len(body.markers)
    parts.append(_I32.pack(count))
    parts += [_VECTOR.pack(*marker) for marker in body.markers]
    parts.append(bytes(_I32.size * count))
    if version >= (4, 0):
        parts.append(bytes(count))
    return b"".join(parts)
