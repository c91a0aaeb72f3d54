"""Questions and answers as bytes, between a scene's process and its owner.

Arrays travel in shared memory; those of poses, which are short, travel within the messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import View, WorldSnapshot
from vil_bridge.interfaces.scene_queries import PictureBefore, SceneMarker

MOST_VIEWS: Final = 64
MOST_PIXELS_ALONG: Final = 4096
MOST_RAYS: Final = 1_000_000
MOST_EDITS: Final = 4096
MOST_MARKED_POINTS: Final = 100_000
MOST_BYTES: Final = 512 << 20
"""Bound on a question and on an answer."""


class FallingPose(msgspec.Struct, array_like=True, frozen=True):
    """Pose of the axes of a falling object at a bridge time."""

    t_ns: int
    p_m: tuple[float, float, float]
    q_xyzw: tuple[float, float, float, float]


class ObjectState(msgspec.Struct, array_like=True, frozen=True):
    """An edited object.

    Attributes:
        asset: what a spawned one is made of; empty = an object of the scene.
        p_m, q_xyzw: of its own axes in the world, at rest. scale: of its asset.
        gone: it was destroyed.
        falls: it falls until something stops it. way: its poses until it rests, oldest first; empty
            = it rests.
    """

    name: str
    asset: str
    p_m: tuple[float, float, float]
    q_xyzw: tuple[float, float, float, float]
    scale: tuple[float, float, float]
    instance: int
    gone: bool = False
    falls: bool = False
    way: tuple[FallingPose, ...] = ()


class Load(msgspec.Struct, tag="load", frozen=True):
    """Load the scene; the first question. The answer is the renderer's ``info``."""

    scene: str
    profile: str
    device: int | None
    depth_reach_m: float
    states: tuple[ObjectState, ...] = ()
    markers: tuple[SceneMarker, ...] = ()


class SetObjects(msgspec.Struct, tag="set", frozen=True):
    """Set the edits of objects, all of them: one that is not named is as the scene has it.

    Those that fall and have changed begin to fall at ``t_ns``, and so do those that rested on a
    changed one. The answer is a list of all states with their ways.
    """

    states: tuple[ObjectState, ...]
    t_ns: int


class Assets(msgspec.Struct, tag="assets", frozen=True):
    """List what can be spawned. The answer is a list of names."""


class Images(msgspec.Struct, tag="images", frozen=True):
    """Draw views. The answer holds an array for each, and a mask for each picture of flow.

    Attributes:
        before: snapshot that flow looks back to, and the cameras then; None = the last picture of
            each camera.
    """

    views: tuple[View, ...]
    snapshot: msgspec.Raw
    before: PictureBefore | None = None


class Cast(msgspec.Struct, tag="cast", frozen=True):
    """Cast the rays of two float32 arrays (n, 3).

    The answer holds ranges, instance ids and normals.
    """

    reach_m: float
    hide: tuple[str, ...]
    snapshot: msgspec.Raw


class Objects(msgspec.Struct, tag="objects", frozen=True):
    """List the objects at a time. The answer is a list of :class:`ObjectRow`."""

    t_ns: int


class Instances(msgspec.Struct, tag="instances", frozen=True):
    """List the instance ids of objects and actors. The answer is a map from name to id."""


class Occupied(msgspec.Struct, tag="occupied", frozen=True):
    """Find the cells of a grid that surfaces pass. The answer is an array of bool."""

    first_m: tuple[float, float, float]
    cell_m: float
    shape: tuple[int, int, int]


class ListMeshes(msgspec.Struct, tag="meshes", frozen=True):
    """Return all objects as triangles. The answer is a list of names, and two arrays for each."""


class AddMarkers(msgspec.Struct, tag="markers", frozen=True):
    """Drop the oldest markers, so many as ``dropped`` says, and draw further ones."""

    markers: tuple[SceneMarker, ...] = ()
    dropped: int = 0


Question = (
    Load
    | Images
    | Cast
    | Objects
    | Instances
    | SetObjects
    | Assets
    | Occupied
    | ListMeshes
    | AddMarkers
)


class ObjectRow(msgspec.Struct, array_like=True, frozen=True):
    """One object, as :class:`vil_bridge.interfaces.scene_queries.QueriedObject` has it.

    ``moves`` by itself, on a path.
    """

    name: str
    p_m: tuple[float, float, float]
    q_xyzw: tuple[float, float, float, float]
    size_m: tuple[float, float, float]
    centre_m: tuple[float, float, float]
    instance: int
    movable: bool
    scale: tuple[float, float, float]
    moves: bool


class ArrayPlace(msgspec.Struct, array_like=True, frozen=True):
    """Array in the shared memory: offset in bytes, NumPy's name of the type, shape."""

    offset: int
    dtype: str
    shape: tuple[int, ...]


class QueryMessage(msgspec.Struct, array_like=True, frozen=True):
    """A question or an answer with its arrays.

    Attributes:
        body: a :data:`Question`, or the value of the answer. error: why there is no answer; empty =
            there is one.
        work_ns: time that the answer took in the scene's process, without its transport.
    """

    body: msgspec.Raw
    arrays: tuple[ArrayPlace, ...] = ()
    error: str = ""
    work_ns: int = 0


def encode(value: Any) -> bytes:
    """Return a message as bytes."""
    return _ENCODER.encode(value)


def decode_question(data: bytes | msgspec.Raw) -> Question:
    """Return a question. Raises ProtocolError: it is not one."""
    return _decoded(_QUESTIONS, data)


def decode_snapshot(data: bytes | msgspec.Raw) -> WorldSnapshot:
    """Return a snapshot. Raises ProtocolError: it is not one."""
    return _decoded(_SNAPSHOTS, data)


def decode_message(data: bytes) -> QueryMessage:
    """Return a message. Raises ProtocolError: it is not one."""
    return _decoded(_MESSAGES, data)


def decode_objects(data: bytes | msgspec.Raw) -> list[ObjectRow]:
    """Return rows of objects. Raises ProtocolError: they are none."""
    return _decoded(_OBJECTS, data)


def decode_states(data: bytes | msgspec.Raw) -> list[ObjectState]:
    """Return states of objects. Raises ProtocolError: they are none."""
    return _decoded(_STATES, data)


def decode_instances(data: bytes | msgspec.Raw) -> dict[str, int]:
    """Return instance ids by name. Raises ProtocolError: they are none."""
    return _decoded(_INSTANCES, data)


def decode_names(data: bytes | msgspec.Raw) -> list[str]:
    """Return names. Raises ProtocolError: they are none."""
    return _decoded(_NAMES, data)


def decode_info(data: bytes | msgspec.Raw) -> dict[str, Any]:
    """Return a renderer's ``info``. Raises ProtocolError: it is not one."""
    return _decoded(_INFO, data)


_T = TypeVar("_T")


def _decoded(decoder: msgspec.msgpack.Decoder[_T], data: bytes | msgspec.Raw) -> _T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, TypeError) as exc:
        raise ProtocolError(str(exc)) from exc


def _from_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    raise NotImplementedError(f"{type(value)} cannot be sent")


def _to_array(_type: Any, value: Sequence[Any]) -> Any:
    dtype, shape, data = value
    return np.frombuffer(data, dtype).reshape(shape)


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_from_array)
_QUESTIONS: Final[msgspec.msgpack.Decoder[Question]] = msgspec.msgpack.Decoder(
    Question, dec_hook=_to_array
)
_SNAPSHOTS: Final = msgspec.msgpack.Decoder(WorldSnapshot, dec_hook=_to_array)
_MESSAGES: Final = msgspec.msgpack.Decoder(QueryMessage)
_OBJECTS: Final = msgspec.msgpack.Decoder(list[ObjectRow])
_STATES: Final = msgspec.msgpack.Decoder(list[ObjectState])
_INSTANCES: Final = msgspec.msgpack.Decoder(dict[str, int])
_NAMES: Final = msgspec.msgpack.Decoder(list[str])
_INFO: Final = msgspec.msgpack.Decoder(dict[str, Any])
