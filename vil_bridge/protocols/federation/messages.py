"""Messages between two bridges: poses in batches, a description of the actors, clock exchanges.

Every message begins with the same 24 bytes (little-endian): ``VILR``, version u8, kind u8, zero
u16, CRC-32 of all that follows it u32, zero u32, run u64. A new run is drawn at each start of a
publisher, so that a restart is noticed; a subscriber's own messages carry 0.

=============  ==============================================================================
FRAME          sequence u64, revision u32, actors u16, bones u16, t_capture i64, t_sent i64, then
               the actors' records and the bones' records (64 bytes each, see ``RECORD``)
DESCRIPTION    JSON: site, revision, actors with their skeletons
CLOCK          t_subscriber i64, t_publisher i64 (0 in the question)
DESCRIBE       nothing
ACK            frames received on this connection u64
=============  ==============================================================================

Poses are in the publisher's world (ENU, metres), times in the publisher's clock (nanoseconds). An
actor's record names it by its place in the description with that revision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Annotated, Any, Final
from zlib import crc32

import msgspec
import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import ActorKind, FloatArray, SkeletonFrame, SkeletonModel, TrackingState

_MAGIC: Final = b"VILR"
_VERSION: Final = 1
_PRELUDE: Final = Struct("<4sBBHIIQ")
_KIND_AT: Final = 5
_CHECKED_FROM: Final = 12  # the checksum covers what stands behind it
_FRAME: Final = Struct("<QIHHqq")
_CLOCK: Final = Struct("<qq")
_ACK: Final = Struct("<Q")

MAX_ACTORS: Final = 256
MAX_BONES: Final = 8192
RECORD: Final = np.dtype(
    [
        ("actor", "<u2"),
        ("state", "u1"),
        ("zero", "u1"),
        ("bones", "<u4"),
        ("p_m", "<f8", 3),
        ("q_xyzw", "<f8", 4),
    ]
)
"""One pose: index of the actor, tracking state (0 tracked, 1 coasting, 2 stale, 3 lost or
frozen), number of bones that follow in the bones' block (0 in a bone's own record), pose in the
publisher's world.
"""
MAX_MESSAGE_BYTES: Final = 2**20
MAX_REQUEST_BYTES: Final = 1024  # a handshake with CURVE needs 300
_STATES: Final = (
    TrackingState.TRACKED,
    TrackingState.COASTING,
    TrackingState.STALE,
    TrackingState.LOST,
)
_CODES: Final = {state: code for code, state in enumerate(_STATES)} | {
    # Subscribers of version 1 know no other code.
    TrackingState.FROZEN: _STATES.index(TrackingState.LOST)
}

Records = npt.NDArray[np.void]


class FederationKind(IntEnum):
    """Kind of a message."""

    FRAME = 1
    DESCRIPTION = 2
    CLOCK = 3
    DESCRIBE = 4
    ACK = 5


@dataclass(frozen=True, slots=True)
class ActorInfo:
    """Constant properties of a published actor; humans have a skeleton once it is known."""

    name: str
    kind: ActorKind
    prefab: str = ""
    size_m: tuple[float, float, float] = (0.3, 0.3, 0.1)
    skeleton: SkeletonModel | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """The published actors; the revision grows with every change."""

    site: str
    revision: int
    actors: tuple[ActorInfo, ...]


@dataclass(frozen=True, slots=True)
class ActorPose:
    """One actor in a frame, publisher's world; ``index`` is its place in the description."""

    index: int
    state: TrackingState
    p_m: FloatArray
    q_xyzw: FloatArray
    skeleton: SkeletonFrame | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FrameMessage:
    """The actors of one source at one instant.

    Attributes:
        sequence: counts the frames of a run, whatever their source.
        t_capture_ns: of the actors that are tracked; the time of sending when none is.
        actors: ``RECORD`` shape (n,). bones: ``RECORD`` shape (m,), in the order of the actors.
    """

    run: int
    sequence: int
    revision: int
    t_capture_ns: int
    t_sent_ns: int
    actors: Records
    bones: Records

    def states(self) -> list[TrackingState]:
        """Return the tracking state of each actor."""
        return [_STATES[code] for code in self.actors["state"].tolist()]


@dataclass(frozen=True, slots=True)
class ClockMessage:
    """A clock question (``t_publisher_ns`` 0) or its answer."""

    run: int
    t_subscriber_ns: int
    t_publisher_ns: int = 0


_FRAME_KIND: Final = bytes((FederationKind.FRAME,))

# --- every message ------------------------------------------------------------------------------


def _message(kind: FederationKind, run: int, payload: bytes = b"") -> bytes:
    checked = Struct("<IQ").pack(0, run) + payload
    return _MAGIC + Struct("<BBHI").pack(_VERSION, kind, 0, crc32(checked)) + checked


def message_kind(data: bytes) -> FederationKind:
    """Return the kind of a message; verify its checksum.

    Raises:
        ProtocolError: it is not one of ours, too long, damaged or of a newer version.
    """
    if not _PRELUDE.size <= len(data) <= MAX_MESSAGE_BYTES:
        raise ProtocolError("message is too short or too long", length=len(data))
    magic, version, kind, _, checksum, _, _ = _PRELUDE.unpack_from(data)
    if magic != _MAGIC:
        raise ProtocolError("not a message between bridges", offset=0, length=len(data))
    if version != _VERSION:
        raise ProtocolError(
            f"version {version} of the format; this bridge speaks {_VERSION}", offset=4
        )
    if crc32(data[_CHECKED_FROM:]) != checksum:
        raise ProtocolError("checksum is wrong", offset=8, length=len(data))
    try:
        return FederationKind(kind)
    except ValueError:
        raise ProtocolError(f"unknown kind {kind}", offset=5, length=len(data)) from None


def claims_frame(data: bytes) -> bool:
    """Return whether a message says that it is a frame; :func:`decode_frame` verifies it."""
    return data[_KIND_AT : _KIND_AT + 1] == _FRAME_KIND


def _payload(
    data: bytes, kind: FederationKind, layout: Struct, *, more: bool = False
) -> tuple[int, tuple[Any, ...]]:
    """Run and fixed fields of a message that is ``kind``."""
    if message_kind(data) is not kind:
        raise ProtocolError(f"not a message of kind {kind.name}", offset=5, length=len(data))
    size = _PRELUDE.size + layout.size
    if len(data) < size or (len(data) > size and not more):
        raise ProtocolError(
            f"{kind.name} has a wrong length", offset=_PRELUDE.size, length=len(data)
        )
    return _PRELUDE.unpack_from(data)[6], layout.unpack_from(data, _PRELUDE.size)


# --- frames -------------------------------------------------------------------------------------


def records_of(poses: Sequence[ActorPose]) -> tuple[Records, Records]:
    """Return the records of some actors and of their bones."""
    actors = np.zeros(len(poses), RECORD)
    blocks = [np.zeros(0, RECORD)]
    for record, pose in zip(actors, poses, strict=True):
        record["actor"], record["state"] = pose.index, _CODES[pose.state]
        record["p_m"] = pose.p_m
        record["q_xyzw"] = pose.q_xyzw
        if pose.skeleton is not None:
            block = np.zeros(len(pose.skeleton.p_m), RECORD)
            record["bones"] = len(block)
            block["actor"] = pose.index
            block["state"] = np.where(
                pose.skeleton.tracked, _CODES[pose.state], _CODES[TrackingState.LOST]
            )
            block["p_m"] = pose.skeleton.p_m
            block["q_xyzw"] = pose.skeleton.q_xyzw
            blocks.append(block)
    return actors, np.concatenate(blocks)


def encode_frame(frame: FrameMessage) -> bytes:
    """Return a frame's bytes."""
    head = _FRAME.pack(
        frame.sequence,
        frame.revision,
        len(frame.actors),
        len(frame.bones),
        frame.t_capture_ns,
        frame.t_sent_ns,
    )
    return _message(
        FederationKind.FRAME, frame.run, head + frame.actors.tobytes() + frame.bones.tobytes()
    )


def decode_frame(data: bytes) -> FrameMessage:
    """Return a frame from its bytes; the records are views of them.

    Raises:
        ProtocolError: the bytes contradict themselves.
    """
    run, (sequence, revision, actors, bones, t_capture_ns, t_sent_ns) = _payload(
        data, FederationKind.FRAME, _FRAME, more=True
    )
    start = _PRELUDE.size + _FRAME.size
    if (
        actors > MAX_ACTORS
        or bones > MAX_BONES
        or len(data) != start + RECORD.itemsize * (actors + bones)
    ):
        raise ProtocolError(
            f"{actors} actors and {bones} bones do not fit", offset=start, length=len(data)
        )
    records: Records = np.frombuffer(data, RECORD, actors + bones, start)
    if (records["state"] >= len(_STATES)).any():
        raise ProtocolError("unknown tracking state", offset=start, length=len(data))
    if int(records["bones"][:actors].sum()) != bones:
        raise ProtocolError(
            "the actors' bones are not those of the frame", offset=start, length=len(data)
        )
    return FrameMessage(
        run, sequence, revision, t_capture_ns, t_sent_ns, records[:actors], records[actors:]
    )


# --- descriptions -------------------------------------------------------------------------------

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
_Vector = tuple[float, float, float]


class _SkeletonJson(msgspec.Struct):
    name: _Name
    bones: Annotated[list[_Name], msgspec.Meta(min_length=1, max_length=MAX_BONES)]
    parents: Annotated[list[int], msgspec.Meta(max_length=MAX_BONES)]
    offsets_m: Annotated[list[_Vector], msgspec.Meta(max_length=MAX_BONES)]
    scale: float = 1.0


class _ActorJson(msgspec.Struct):
    name: _Name
    kind: ActorKind
    prefab: Annotated[str, msgspec.Meta(max_length=255)]
    size_m: _Vector
    skeleton: _SkeletonJson | None = None


class _DescriptionJson(msgspec.Struct):
    site: _Name
    revision: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
    actors: Annotated[list[_ActorJson], msgspec.Meta(max_length=MAX_ACTORS)]


_read_description = msgspec.json.Decoder(_DescriptionJson).decode


def encode_description(run: int, description: Description) -> bytes:
    """Return a description's bytes."""
    actors = [
        _ActorJson(a.name, a.kind, a.prefab, a.size_m, _skeleton_json(a.skeleton))
        for a in description.actors
    ]
    content = msgspec.json.encode(_DescriptionJson(description.site, description.revision, actors))
    return _message(FederationKind.DESCRIPTION, run, content)


def decode_description(data: bytes) -> tuple[int, Description]:
    """Run and description.

    Raises:
        ProtocolError: the bytes are no description, or its skeletons contradict themselves.
    """
    run, _ = _payload(data, FederationKind.DESCRIPTION, Struct(""), more=True)
    try:
        read = _read_description(data[_PRELUDE.size :])
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise ProtocolError(f"description: {exc}", offset=_PRELUDE.size, length=len(data)) from None
    actors = tuple(
        ActorInfo(a.name, a.kind, a.prefab, a.size_m, _skeleton_model(a.skeleton))
        for a in read.actors
    )
    if len({a.name for a in actors}) != len(actors):
        raise ProtocolError("description: an actor is listed twice", length=len(data))
    return run, Description(read.site, read.revision, actors)


def _skeleton_json(model: SkeletonModel | None) -> _SkeletonJson | None:
    if model is None:
        return None
    offsets = [(x, y, z) for x, y, z in model.offsets_m.tolist()]
    return _SkeletonJson(model.name, list(model.bones), list(model.parents), offsets, model.scale)


def _skeleton_model(read: _SkeletonJson | None) -> SkeletonModel | None:
    if read is None:
        return None
    if not len(read.bones) == len(read.parents) == len(read.offsets_m):
        raise ProtocolError(f"skeleton {read.name!r}: bones, parents and offsets differ in number")
    if any(not -1 <= parent < i for i, parent in enumerate(read.parents)):
        raise ProtocolError(f"skeleton {read.name!r}: a parent does not stand before its child")
    offsets_m = np.array(read.offsets_m, dtype=np.float64)
    if not np.isfinite(offsets_m).all():
        raise ProtocolError(f"skeleton {read.name!r}: an offset is not finite")
    return SkeletonModel(read.name, tuple(read.bones), tuple(read.parents), offsets_m, read.scale)


# --- small messages -----------------------------------------------------------------------------


def encode_clock(clock: ClockMessage) -> bytes:
    """Return a clock question or answer."""
    return _message(
        FederationKind.CLOCK, clock.run, _CLOCK.pack(clock.t_subscriber_ns, clock.t_publisher_ns)
    )


def decode_clock(data: bytes) -> ClockMessage:
    """Return a clock question or answer from its bytes. Raises ProtocolError."""
    run, (t_subscriber_ns, t_publisher_ns) = _payload(data, FederationKind.CLOCK, _CLOCK)
    return ClockMessage(run, t_subscriber_ns, t_publisher_ns)


def encode_describe() -> bytes:
    """Return a request for the description."""
    return _message(FederationKind.DESCRIBE, 0)


def encode_ack(received: int) -> bytes:
    """Return a message with the number of frames that came on this connection."""
    return _message(FederationKind.ACK, 0, _ACK.pack(received))


def decode_ack(data: bytes) -> int:
    """Return the number of frames that came on this connection. Raises ProtocolError."""
    _, (received,) = _payload(data, FederationKind.ACK, _ACK)
    return int(received)


class Responder:
    """A publisher's answers; any thread may ask.

    Attributes:
        run: of this publisher.
        description: to be replaced as a whole when it changes.
    """

    def __init__(
        self, run: int, description: Description, clock: Callable[[], int] = now_ns
    ) -> None:
        self.run = run
        self.description = description
        self._clock = clock

    def answer(self, request: bytes) -> bytes | None:
        """Return the answer to a request, None when it wants none.

        Raises:
            ProtocolError: the request is malformed.
        """
        kind = message_kind(request)
        if kind is FederationKind.CLOCK:
            return encode_clock(
                ClockMessage(self.run, decode_clock(request).t_subscriber_ns, self._clock())
            )
        if kind is FederationKind.DESCRIBE:
            return encode_description(self.run, self.description)
        return None
