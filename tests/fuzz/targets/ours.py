"""Our own recordings, and what pages and their clients say to each other."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from pydantic import ValidationError

from tests.fuzz.target import Target, scratch
from tests.support.captures_by_hand import fragments, pcap, pcapng
from tests.support.motions import Dance
from vil_adapters.optitrack.capture_server import CapturedSession
from vil_bridge.core.errors import ConfigError, ProtocolError, RecordingError
from vil_bridge.core.types import ClockExchange, ImuSample, SourceEvent, SourceFrame, SourceReset
from vil_bridge.protocols.natnet.codec import (
    Connect,
    EchoReply,
    MessageId,
    ServerInfo,
    encode,
    encode_connect,
    encode_echo_reply,
    encode_echo_request,
    encode_server_info,
    encode_text,
)
from vil_bridge.protocols.pcap.pcap import PREAMBLE, encode_datagram, read_capture
from vil_bridge.recording.event_codec import EventDecoder, EventEncoder
from vil_bridge.recording.mcap_writer import McapFile
from vil_bridge.recording.reader import Recording
from vil_bridge.recording.topics import (
    CONFIG_META,
    EVENTS,
    FORMAT,
    HEADERS,
    LEDGER,
    LOST,
    PICTURES,
    RECORDING_META,
)
from vil_bridge.runtime.datagrams import Datagram
from vil_bridge.web.live.codec import decode_live, encode_preview
from vil_bridge.web.schemas.live import Subscription

__all__ = ["TARGETS"]

_FOLDER: Final = scratch()
_META: Final = {
    "format": FORMAT,
    "bridge": "lab",
    "version": "1.0",
    "started_utc_ns": "1000",
    "utc_offset_ns": "500",
    "sources": "lab",
}


def _read_whole(path: Path) -> None:
    with Recording(path) as recording:
        _ = recording.duration_s, recording.truncated, recording.lost()
        for walk in (
            recording.events(),
            recording.pictures("front"),
            recording.headers(),
            recording.ledger(),
        ):
            with contextlib.suppress(RecordingError):
                for _found in walk:
                    pass


def _file(data: bytes) -> None:
    path = _FOLDER / "file.mcap"
    path.write_bytes(data)
    _read_whole(path)


def _chunk(data: bytes) -> None:
    """The records of a chunk that is not compressed and tells no checksum, in a file that is
    right.
    """
    body = struct.pack("<QQQII", 1, 2, len(data), 0, 0) + struct.pack("<Q", len(data)) + data
    path = _FOLDER / "chunk.mcap"
    path.write_bytes(_HEAD + struct.pack("<BQ", 6, len(body)) + body)
    _read_whole(path)


def _capture(data: bytes) -> None:
    """A capture as the server that plays it uses it, asked the questions of that day."""
    path = _FOLDER / "file.pcap"
    path.write_bytes(data)
    datagrams = read_capture(path)
    conversation = CapturedSession.find(datagrams)
    for datagram in datagrams:
        conversation.record(datagram)
        conversation.streamed(datagram)
        with contextlib.suppress(ProtocolError):
            conversation.answer(datagram.payload, datagram.t_ns)


def _captures() -> Iterator[bytes]:
    client, server = ("127.0.0.1", 40000), ("127.0.0.1", 1510)
    said = (
        encode_connect(Connect("lab")),
        encode_server_info(
            ServerInfo("Motive", (3, 1, 0, 0), (4, 1, 0, 0), 10_000_000, 1511, multicast=False)
        ),
        encode_text(MessageId.REQUEST, "FrameRate"),
        encode(MessageId.RESPONSE, struct.pack("<f", 240.0)),
        encode_echo_request(5),
        encode_echo_reply(EchoReply(5, 6)),
        encode(MessageId.REQUEST_MODELDEF),
        encode(MessageId.MODELDEF, bytes(4)),
        encode(MessageId.FRAMEOFDATA, bytes(40)),
    )
    ends = (client, server)
    datagrams = [
        Datagram(10**9 + i, ends[i % 2], ends[1 - i % 2], text) for i, text in enumerate(said)
    ]
    yield PREAMBLE + b"".join(map(encode_datagram, datagrams))
    yield PREAMBLE + encode_datagram(Datagram(1, client, server, b"objects"))
    ethernet = [bytes(12) + b"\x08\x00" + encode_datagram(datagram)[16:] for datagram in datagrams]
    yield pcap(1, ethernet, ">")
    yield pcapng(1, [*ethernet, *(bytes(12) + b"\x08\x00" + piece for piece in fragments())])


def _dance() -> list[SourceEvent]:
    seen = Dance().at(10**9)
    frame = SourceFrame(
        "lab", 1, 5, 6, seen.subjects, seen.p_m, seen.q_xyzw, seen.tracked, seen.skeletons
    )
    imu = ImuSample("lab", 5, 6, np.zeros(3), np.ones(3))
    return [frame, imu, ClockExchange("lab", 1, 2, 3), SourceReset("lab", "it restarted"), frame]


def _records() -> list[tuple[str, bytes]]:
    encoder = EventEncoder()
    found = [(f"{EVENTS}lab", data) for event in _dance() for data in encoder.encode(event, 7)]
    header = {"frame_id": 1, "t_display_ns": 5}
    return [
        *found,
        (f"{HEADERS}front/raw", json.dumps(header).encode()),
        (f"{PICTURES}front/raw", b"\x1a\x04jpeg"),
        (f"{LEDGER}front", b"{}"),
        (LOST, b'{"a": 1}'),
    ]


def _stages() -> tuple[bytes, bytes, bytes]:
    """A recording's bytes when only its head is written, when its writer is killed, and when it
    ended well.
    """
    path = _FOLDER / "seed.mcap"
    file = McapFile(path)
    file.start()
    file.metadata(RECORDING_META, _META)
    file.metadata(CONFIG_META, {"yaml": "version: 1\n"})
    head = path.read_bytes()
    for topic, data in _records():
        file.write(file.channel(topic, "json"), 1000, data)
    file.flush()
    killed = path.read_bytes()
    file.finish()
    return head, killed, path.read_bytes()


_HEAD, _KILLED, _WHOLE = _stages()


def _chunks() -> Iterator[bytes]:
    """The records of the first chunk, as one chunk and each event alone."""
    numbers = {
        topic: i + 1 for i, topic in enumerate(dict.fromkeys(topic for topic, _ in _records()))
    }
    channels = {topic: _channel(number, topic) for topic, number in numbers.items()}
    messages = [channels[topic] + _message(numbers[topic], data) for topic, data in _records()]
    yield b"".join(messages)
    yield from messages


def _channel(number: int, topic: str) -> bytes:
    texts = b"".join(struct.pack("<I", len(text)) + text for text in (topic.encode(), b"json"))
    body = struct.pack("<HH", number, 0) + texts + struct.pack("<I", 0)
    return struct.pack("<BQ", 4, len(body)) + body


def _message(channel: int, data: bytes) -> bytes:
    body = struct.pack("<HIQQ", channel, 0, 1000, 1000) + data
    return struct.pack("<BQ", 5, len(body)) + body


def _events(data: bytes) -> None:
    EventDecoder().decode("lab", 5, data)


def _subscriptions() -> Iterator[bytes]:
    yield b'{"poses_hz": 30, "previews": [{"camera": "front", "variant": "compensated", "hz": 10}]}'
    yield b'{"poses_hz": 0}'


def _live() -> Iterator[bytes]:
    poses = (
        struct.pack("<BBHIq", 1, 1, 1, 4, 10**9)
        + struct.pack("<HBB9f", 0, 0, 0, *range(9))
        + struct.pack("<H", 1)
    )
    yield poses + struct.pack("<HH14f", 0, 2, *range(14))
    yield encode_preview({"camera": "front", "frame_id": 1}, b"jpeg")


TARGETS: Final = (
    Target("recording-file", _file, (RecordingError,), lambda: [_KILLED, _WHOLE], 4096),
    Target("recording-chunk", _chunk, (RecordingError,), _chunks, 4096),
    Target(
        "recording-events",
        _events,
        (RecordingError,),
        lambda: [d for t, d in _records() if t.startswith(EVENTS)],
    ),
    Target("capture", _capture, (RecordingError, ConfigError), _captures),
    Target(
        "live-subscription",
        Subscription.model_validate_json,
        (ValidationError,),
        _subscriptions,
        1024,
        is_json=True,
    ),
    Target("live-messages", decode_live, (ProtocolError,), _live, 1024),
)
