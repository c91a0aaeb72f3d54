"""Codec of the live feed's binary messages, little-endian.

Poses and camera previews (docs/reference/rest.md).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import ActorState, FloatArray, TrackingState, WorldSnapshot

VERSION: Final = 1
_POSES: Final = 1
_PREVIEW: Final = 2
NEVER_SEEN: Final = "never seen"
_STATES: Final = ("tracked", "coasting", "stale", "lost", NEVER_SEEN, "frozen")
"""By their code on the wire: new ones come last."""
_CODE_OF: Final = {state: _STATES.index(state) for state in TrackingState}
_HEAD: Final = struct.Struct("<BBHIq")
_COUNT: Final = struct.Struct("<H")
_BONES: Final = struct.Struct("<HH")
_PREVIEW_HEAD: Final = struct.Struct("<BBH")
_ACTOR: Final = np.dtype(
    [
        ("index", "<u2"),
        ("state", "u1"),
        ("flags", "u1"),
        ("age_s", "<f4"),
        ("p_world_m", "<f4", 3),
        ("q_xyzw", "<f4", 4),
        ("speed_mps", "<f4"),
    ]
)
_BONE: Final = np.dtype("<f4")
_PER_BONE: Final = 7


@dataclass(frozen=True, slots=True)
class LiveSkeleton:
    """Bones of one human in the world.

    Attributes:
        index: of the actor in the scene's list.
        p_world_m: shape (m, 3). q_xyzw: shape (m, 4).
    """

    index: int
    p_world_m: npt.NDArray[np.float32]
    q_xyzw: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LivePoses:
    """All actors at ``t_ns``; arrays have one row per actor.

    Attributes:
        revision: of the scene that ``index`` (n,) counts in.
        states: ``tracked``, ``coasting``, ``stale``, ``lost`` or ``never seen``.
        age_s: shape (n,), NaN unknown. p_world_m: shape (n, 3). q_xyzw: shape (n, 4).
        speed_mps: shape (n,), NaN unknown.
    """

    revision: int
    t_ns: int
    index: npt.NDArray[np.uint16]
    states: tuple[str, ...]
    age_s: npt.NDArray[np.float32]
    p_world_m: npt.NDArray[np.float32]
    q_xyzw: npt.NDArray[np.float32]
    speed_mps: npt.NDArray[np.float32]
    skeletons: tuple[LiveSkeleton, ...]


@dataclass(frozen=True, slots=True)
class LivePreview:
    """A camera's picture as JPEG.

    Attributes:
        header: ``camera, variant, frame_id, blank, t_capture_ns, t_image_ns, age_s, angle_rad,
            width, height, K``, and ``pose`` of the optical axes in the world.
    """

    header: dict[str, Any]
    jpeg: bytes


def encode_poses(snapshot: WorldSnapshot, speeds_mps: FloatArray, revision: int) -> bytes:
    """Return the message of a world; ``speeds_mps`` (n,) of its actors, NaN unknown."""
    actors = snapshot.actors
    table = np.zeros(len(actors), _ACTOR)
    table["index"] = np.arange(len(actors))
    table["state"] = [_code(a) for a in actors]
    table["age_s"] = [np.nan if a.age_ns is None else 1e-9 * a.age_ns for a in actors]
    table["p_world_m"] = np.array([a.T_world_body.p_m for a in actors]).reshape(-1, 3)
    table["q_xyzw"] = np.array([a.T_world_body.q_xyzw for a in actors]).reshape(-1, 4)
    table["speed_mps"] = speeds_mps
    humans = [(i, a.skeleton) for i, a in enumerate(actors) if a.skeleton is not None]
    parts = [_HEAD.pack(_POSES, VERSION, len(actors), revision, snapshot.t_ns), table.tobytes()]
    parts.append(_COUNT.pack(len(humans)))
    for index, skeleton in humans:
        parts.append(_BONES.pack(index, len(skeleton.p_m)))
        parts.append(np.hstack((skeleton.p_m, skeleton.q_xyzw)).astype(_BONE).tobytes())
    return b"".join(parts)


def _code(actor: ActorState) -> int:
    return _STATES.index(NEVER_SEEN) if actor.age_ns is None else _CODE_OF[actor.state]


def encode_preview(header: Mapping[str, Any], jpeg: bytes) -> bytes:
    """Return the message of a picture."""
    text = msgspec.json.encode(header)
    return b"".join((_PREVIEW_HEAD.pack(_PREVIEW, VERSION, len(text)), text, jpeg))


def decode_live(message: bytes) -> LivePoses | LivePreview:
    """Decode a message of either kind.

    Raises:
        ProtocolError: it is neither, of another version, or shorter or longer than it says.
    """
    if len(message) < _PREVIEW_HEAD.size:
        raise ProtocolError("live message too short", length=len(message))
    kind = message[0]
    version = message[1]
    if version != VERSION or kind not in (_POSES, _PREVIEW):
        raise ProtocolError(
            f"live message of kind {kind}, version {version}: unknown",
            offset=0,
            length=len(message),
        )
    return _decode_poses(message) if kind == _POSES else _decode_preview(message)


def _decode_preview(message: bytes) -> LivePreview:
    size = _PREVIEW_HEAD.unpack_from(message)[2]
    end = _PREVIEW_HEAD.size + size
    if len(message) < end:
        raise ProtocolError(
            "header of a preview truncated", offset=_PREVIEW_HEAD.size, length=len(message)
        )
    try:
        header = msgspec.json.decode(message[_PREVIEW_HEAD.size : end], type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise ProtocolError(
            f"header of a preview: {exc}", offset=_PREVIEW_HEAD.size, length=len(message)
        ) from exc
    return LivePreview(header, message[end:])


def _decode_poses(message: bytes) -> LivePoses:
    if len(message) < _HEAD.size:
        raise ProtocolError("header of poses truncated", length=len(message))
    _, _, count, revision, t_ns = _HEAD.unpack_from(message)
    end = _HEAD.size + count * _ACTOR.itemsize
    if len(message) < end + _COUNT.size:
        raise ProtocolError(f"{count} actors truncated", offset=_HEAD.size, length=len(message))
    table = np.frombuffer(message, _ACTOR, count, _HEAD.size)
    codes = table["state"].tolist()
    if any(code >= len(_STATES) for code in codes):
        raise ProtocolError(
            f"tracking state {max(codes)} unknown", offset=_HEAD.size, length=len(message)
        )
    return LivePoses(
        revision,
        t_ns,
        table["index"],
        tuple(_STATES[code] for code in codes),
        table["age_s"],
        table["p_world_m"],
        table["q_xyzw"],
        table["speed_mps"],
        _decode_skeletons(message, end),
    )


def _decode_skeletons(message: bytes, at: int) -> tuple[LiveSkeleton, ...]:
    (count,) = _COUNT.unpack_from(message, at)
    at += _COUNT.size
    found = []
    for _ in range(count):
        if len(message) < at + _BONES.size:
            raise ProtocolError("skeleton truncated", offset=at, length=len(message))
        index, bones = _BONES.unpack_from(message, at)
        at += _BONES.size
        if len(message) < at + bones * _PER_BONE * _BONE.itemsize:
            raise ProtocolError(f"{bones} bones truncated", offset=at, length=len(message))
        poses = np.frombuffer(message, _BONE, bones * _PER_BONE, at).reshape(bones, _PER_BONE)
        at += poses.nbytes
        found.append(LiveSkeleton(index, poses[:, :3], poses[:, 3:]))
    if at != len(message):
        raise ProtocolError("bytes after the last skeleton", offset=at, length=len(message))
    return tuple(found)
