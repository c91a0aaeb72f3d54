"""Lines to autopilots, other bridges and helper processes.

MAVLink, MSP, federation, rings in shared memory.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator
from typing import Any, Final
from zlib import crc32

import numpy as np

from tests.fuzz.target import Target, join, split
from tests.support.federation import RoomMotion
from vil_adapters.mavlink_imu.codec import to_message
from vil_adapters.mavlink_imu.config import MavlinkImuConfig
from vil_adapters.mavlink_imu.source import _InertialSession
from vil_adapters.mavlink_vehicle.config import MavlinkVehicleConfig
from vil_adapters.mavlink_vehicle.convert import VehiclePose, to_local_position, to_odometry
from vil_adapters.mavlink_vehicle.source import _PoseSession
from vil_adapters.msp_imu.convert import AnswerTimes, RestScale, from_counts
from vil_adapters.remote.session import FederationSession
from vil_bridge.client import _BAD_MESSAGE, _Ring
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import ActorKind, TrackingState
from vil_bridge.protocols import msp
from vil_bridge.protocols.federation.messages import (
    ActorInfo,
    ActorPose,
    ClockMessage,
    Description,
    FrameMessage,
    Responder,
    encode_ack,
    encode_clock,
    encode_describe,
    encode_description,
    encode_frame,
    records_of,
)
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.shared_memory import RingAddress, RingReader
from vil_bridge.runtime.supervisor import Status
from vil_simulation.source import ipc as simulated

__all__ = ["TARGETS"]


class _SilentWire:
    """A wire at whose other end nobody is."""

    place, cure, datagrams = "nowhere", "nothing", False

    def fileno(self) -> int:
        return -1

    def receive(self) -> bytes | None:
        return None

    def send(self, frame: bytes) -> bool:
        return bool(frame)

    def close(self) -> None:
        pass


# --- MAVLink -------------------------------------------------------------------------------------

_LOOP: Final = asyncio.new_event_loop()
atexit.register(_LOOP.close)


async def _mavlink(pieces: list[bytes]) -> None:
    """Both conversations with an autopilot, as the loop would hold them."""
    wire, status = _SilentWire(), Status("lab")
    vehicle = MavlinkVehicleConfig(device="/dev/null", subject="drone")
    talks = (
        _InertialSession("lab", MavlinkImuConfig(device="/dev/null"), wire, lambda _: None, status),
        _PoseSession("lab", vehicle, wire, lambda _: None, status),
    )
    for talk in talks:
        for t_ns, piece in enumerate(pieces):
            talk._connection._handle(piece, t_ns)
            talk.on_read()
        talk.on_housekeeping(10**12)


def _mavlink_stream(data: bytes) -> None:
    _LOOP.run_until_complete(_mavlink(split(data)))


_KINDS: Final = list(framing._BY_ID.values())


def _mavlink_messages(data: bytes) -> None:
    """Pieces become the payloads of frames with a right checksum, version 1 or 2, signed or not."""
    frames = []
    for piece in split(data):
        if len(piece) > 1:
            kind, payload = _KINDS[piece[0] % len(_KINDS)], piece[2:255]
            frames.append(
                _sealed(kind, payload, version_1=piece[1] & 1 > 0, signed=piece[1] & 2 > 0)
            )
    _LOOP.run_until_complete(_mavlink(frames))


def _sealed(kind: Any, payload: bytes, *, version_1: bool, signed: bool) -> bytes:
    if version_1 and kind.id < 256:
        head = bytes((len(payload), 0, 1, 1, kind.id))
        magic, tail = b"\xfe", b""
    else:
        head = bytes((len(payload), signed, 0, 0, 1, 1)) + kind.id.to_bytes(3, "little")
        magic, tail = b"\xfd", bytes(13) if signed else b""
    return (
        magic
        + head
        + payload
        + framing._checksum(head + payload, kind.crc_extra).to_bytes(2, "little")
        + tail
    )


def _bodies() -> list[Any]:
    pose = VehiclePose(10**9, np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.0, 0.6, 0.8]))
    w, f = np.array([0.1, 0.2, 0.3]), np.array([0.0, 0.0, 9.8])
    return [
        mavlink.Heartbeat(0, 2, 12, 0, 3, 3),
        *(to_message(kind, 10**9, w, f) for kind in ("highres", "scaled", "raw", "attitude")),
        to_odometry(pose, 20, 1, tracked=True),
        *to_local_position(pose),
        mavlink.TimeSync(0, 5),
        mavlink.CommandAck(511, 0, 0, 0, 255, 190),
    ]


def _mavlink_frames() -> Iterator[bytes]:
    frames = [framing.encode(body, i, system=1, component=1) for i, body in enumerate(_bodies())]
    yield from frames
    yield join(*frames[:5])
    yield b"".join(frames[5:])


def _mavlink_payloads() -> Iterator[bytes]:
    ids = [kind.id for kind in _KINDS]
    pieces = []
    for i, body in enumerate(_bodies()):
        frame = framing.encode(body, 0, system=1, component=1)
        pieces.append(bytes((ids.index(mavlink.message_id(type(body))), i % 4)) + frame[10:-2])
    yield from pieces
    yield join(*pieces)


# --- MSP -----------------------------------------------------------------------------------------


def _msp(data: bytes) -> None:
    parser, scale, times = msp.MspParser(32), RestScale(), AnswerTimes()
    for piece in split(data):
        for message in parser.feed(piece):
            with contextlib.suppress(ProtocolError):
                raw = msp.unpack_raw_imu(message.payload)
                t_ns = times.stamp(1, 2)
                scale.add(t_ns, raw, 16.4)
                from_counts(raw, 16.4, 2048.0)
    assert len(parser._pending) < 64


def _msp_frames() -> Iterator[bytes]:
    payload = msp.pack_raw_imu(msp.MspRawImu((0, 0, 2048), (1, 2, 3)))
    for version in (1, 2):
        for direction in msp.MspDirection:
            yield msp.encode(msp.MspMessage(version, direction, msp.RAW_IMU, payload))


# --- between bridges -----------------------------------------------------------------------------

_RUN: Final = 7
_MODEL: Final = RoomMotion().skeleton_models[0]
_TOLD: Final = Description(
    "far",
    4,
    (
        ActorInfo("drone", ActorKind.VEHICLE, "Quad", (1.0, 2.0, 3.0)),
        ActorInfo("Eva", ActorKind.HUMAN, "", skeleton=_MODEL),
    ),
)


def _federation(data: bytes) -> None:
    """Pieces are messages with a right checksum (kind, run, payload), or as they are when the
    first byte is 255.
    """
    session = FederationSession("far", "far", lambda _: None, Status("far"), 0)
    responder = Responder(_RUN, _TOLD, lambda: 5)
    for t_ns, piece in enumerate(split(data)):
        message = piece[1:]
        if piece and piece[0] != 0xFF:
            checked = struct.pack("<IQ", 0, _RUN) + piece[1:]
            message = b"VILR" + struct.pack("<BBHI", 1, piece[0], 0, crc32(checked)) + checked
        session.handle(message, t_ns)
        with contextlib.suppress(ProtocolError):
            responder.answer(message)


def _federation_talk() -> Iterator[bytes]:
    seen = RoomMotion().at(5_000_000_000)
    human = seen.skeletons[0]
    poses = [
        ActorPose(0, TrackingState.TRACKED, seen.p_m[0], seen.q_xyzw[0]),
        ActorPose(1, TrackingState.TRACKED, human.p_m[0], human.q_xyzw[0], human),
    ]
    told = encode_description(_RUN, _TOLD)
    frames = [encode_frame(FrameMessage(_RUN, i, 4, i, i + 1, *records_of(poses))) for i in (1, 2)]
    others = [encode_clock(ClockMessage(_RUN, 5, 6)), encode_describe(), encode_ack(9)]
    yield join(*(bytes((m[5],)) + m[24:] for m in (told, *frames, *others)))
    yield join(*(b"\xff" + m for m in (told, *frames)))


# --- the process of a simulation -----------------------------------------------------------------


def _simulated(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        simulated.decode_order(data)
    simulated.decode_report(data)


def _simulated_messages() -> Iterator[bytes]:
    note = simulated.StatusUpdate("position", "hover", True, 3, 2, 1)
    sensor = simulated.SensorValues(0, 1, np.zeros(10).tobytes())
    yield simulated.encode(
        simulated.VehicleBatch(5, 6, np.zeros(26).tobytes(), notes=[note], sensors=[sensor])
    )
    clock = simulated.ClockUpdate(1, 2, 1.0, None)
    for order in (
        simulated.FlyCommand(0, "velocity", (1.0, 0.0, 0.0)),
        clock,
        simulated.Start(5, clock),
        simulated.Stop(5),
    ):
        yield simulated.encode(order)


# --- rings ---------------------------------------------------------------------------------------

_PAGES: Final = 5
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def _ring(data: bytes) -> None:
    """Sequence and size that a message told (16 bytes), then the memory itself, read by both
    readers.
    """
    sequence, size = struct.unpack("<QQ", data[:16].ljust(16, b"\0"))
    memory = data[16:]
    fd = os.memfd_create("vil-ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.fchmod(fd, 0o600)
        os.ftruncate(fd, _PAGES * 4096)
        os.pwrite(fd, memory, 0)
        os.pwrite(fd, memory[32:48], 4096)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        nonce = memory[16:32].ljust(16, b"\0").hex()
        with contextlib.suppress(ProtocolError):
            reader = RingReader(RingAddress(os.getpid(), fd, nonce))
            with contextlib.closing(reader):
                reader.read(sequence, size)
        with contextlib.suppress(OSError, *_BAD_MESSAGE):
            ring = _Ring(os.getpid(), fd, nonce)
            with contextlib.closing(ring):
                ring.read(sequence, size)
    finally:
        os.close(fd)


def _ring_memory() -> Iterator[bytes]:
    for slots, slot_bytes in ((1, 3 * 4096), (2, 4096)):
        head = struct.pack("<8sII16s", b"VILRING\x01", slots, slot_bytes, bytes(range(16)))
        yield struct.pack("<QQ", slots, 100) + head + struct.pack("<QQ", slots, 100)


TARGETS: Final = (
    Target("mavlink-stream", _mavlink_stream, (), _mavlink_frames, 2048),
    Target("mavlink-messages", _mavlink_messages, (), _mavlink_payloads, 1024),
    Target("msp", _msp, (), _msp_frames, 1024),
    Target("federation", _federation, (), _federation_talk, 8192),
    Target("simulated-child", _simulated, (ProtocolError,), _simulated_messages, 1024),
    Target("bridge-ring", _ring, (), _ring_memory, 256),
)
