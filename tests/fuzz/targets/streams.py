"""Messages of readers and receivers to the bridge, and those of a bridge that the reader's own file
takes.
"""

from __future__ import annotations

import contextlib
import json
import struct
import time
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import zmq

from tests.fuzz.target import Target, join, split
from tests.support.garbage import REQUESTS
from tests.support.ledger import flown_ledger
from vil_bridge.client import _BAD_MESSAGE, ClockSync, Receiver, _Packets
from vil_bridge.core.errors import ProtocolError
from vil_bridge.monitoring.frame_records import ledger_lines, read_ledger
from vil_bridge.monitoring.report.figures import figures_of
from vil_bridge.outputs.rtp.reports import receiver_reports
from vil_bridge.outputs.stream.fec import decode_report, is_from, packets, stream_id
from vil_bridge.outputs.stream.messages import ImuReport, decode_request
from vil_bridge.protocols.image_codecs import encode_jpeg

__all__ = ["TARGETS"]

_TOKEN: Final = "0123456789abcdef"
_CONTEXT: Final = zmq.Context()


# --- the bridge's side ---------------------------------------------------------------------------


def _control(data: bytes) -> None:
    request = decode_request(data)
    if isinstance(request, ImuReport):
        request.window()


def _requests() -> Iterator[bytes]:
    imu = {
        "type": "imu",
        "token": "a",
        "t_ns": [1, 2],
        "w_radps": [[0, 0, 1]] * 2,
        "f_mps2": [[0, 0, 9.8]] * 2,
    }
    for request in (
        *REQUESTS,
        imu,
        {"type": "status", "id": 1},
        {"type": "unregister", "token": "a"},
    ):
        yield json.dumps(request).encode()


def _report(data: bytes) -> None:
    is_from(_TOKEN, data)
    decode_report(data)


def _reports() -> Iterator[bytes]:
    yield _Packets._REPORT.pack(b"VILR", stream_id(_TOKEN), 1, 46, 6, 77, -5, 6, bytes(16)) + bytes(
        16
    )


def _rtcp_reports() -> Iterator[bytes]:
    block = struct.pack(">IB3sIIII", 1, 25, b"\0\0\5", 900, 45, 1 << 20, 1 << 16)
    yield struct.pack(">BBHI", 0x81, 201, 7, 9) + block
    yield struct.pack(">BBHI", 0x82, 201, 13, 9) + 2 * block + struct.pack(">BBHI", 0x80, 203, 1, 9)


def _ledger(data: bytes) -> None:
    for camera in read_ledger(data.splitlines()):
        with contextlib.suppress(ProtocolError):
            figures_of(camera)


# --- the reader's file ---------------------------------------------------------------------------


class _Deaf(Receiver):
    """A receiver without sockets and thread, that is handed its messages."""

    def __init__(self, registered: bool) -> None:
        super().__init__("tcp://127.99.0.1:9", "front")
        self._wake_in.close()
        self._wake_out.close()
        self._poller = zmq.Poller()
        self._control = self._connect(_CONTEXT, "", 0)
        self._pings.append(5)
        if registered:
            self._token = _TOKEN

    def _run(self) -> None:
        pass

    def _connect(self, context: Any, endpoint: str, limit_bytes: int, identity: str = "") -> Any:
        sock = _CONTEXT.socket(zmq.DEALER)
        sock.setsockopt(zmq.LINGER, 0)
        self._poller.register(sock, zmq.POLLIN)
        return sock

    def _send(self, message: dict[str, Any]) -> bool:
        return bool(json.dumps(message))

    def end(self) -> None:
        self._leave()
        self._control.close()


@contextlib.contextmanager
def _deaf(*, registered: bool) -> Iterator[_Deaf]:
    receiver = _Deaf(registered)
    try:
        yield receiver
    finally:
        receiver.end()


def _client_control(data: bytes) -> None:
    with _deaf(registered=False) as receiver:
        for piece in split(data):
            with contextlib.suppress(*_BAD_MESSAGE):
                receiver._on_control([zmq.Frame(piece)])


def _answers() -> Iterator[bytes]:
    camera = {"width": 8, "height": 6, "fx": 4.0, "fy": 4.0, "cx": 3.5, "cy": 2.5}
    registered = {
        "type": "registered",
        "token": _TOKEN,
        "data_port": 5561,
        "udp_port": 5562,
        "camera": camera,
    }
    pong = {
        "type": "pong",
        "t1": 5,
        "t2": 6,
        "t3": 7,
        "instance": "a",
        "in_flight": 0,
        "known": False,
    }
    error = {"type": "error", "reason": "no such camera", "known": ["front"]}
    answers = [
        pong,
        registered,
        error,
        {"type": "status", "id": 1, "status": {}},
        {"type": "result", "id": 1, "ok": True},
    ]
    yield from (json.dumps(answer).encode() for answer in answers)
    yield join(*(json.dumps(answer).encode() for answer in answers))
    yield join(json.dumps(registered | {"transport": "udp"}).encode(), json.dumps(pong).encode())


def _client_picture(data: bytes) -> None:
    """Header and picture of a message, as far as the frame that the vehicle gets."""
    with _deaf(registered=True) as receiver:
        with contextlib.suppress(*_BAD_MESSAGE):
            receiver._on_message([zmq.Frame(part) for part in split(data)])
        receiver.next(0.0)


def _header(**more: Any) -> dict[str, Any]:
    pose = {"p_m": [1.0, 2.0, 3.0], "q_xyzw": [0.0, 0.0, 0.0, 1.0]}
    return {
        "v": 1,
        "frame_id": 7,
        "t_display_ns": 5,
        "width": 8,
        "height": 6,
        "format": "gray8",
        "encoding": "raw",
        "K": [4.0, 4.0, 3.5, 2.5],
        "pose_rendered": pose,
        "pose_display": pose,
        "motion": {"v_world_mps": [0, 0, 0], "w_body_radps": [0, 0, 0], "gyro_bias_radps": None},
        "compensation": {"method": "homography"},
        "stamps_ns": {"capture": 1, "request": 2, "send": 4},
        "tracking": "tracked",
        **more,
    }


def _pictures() -> Iterator[bytes]:
    gray = np.arange(48, dtype=np.uint8).reshape(6, 8)
    rgb = np.repeat(gray[..., None], 3, axis=2)
    yield join(json.dumps(_header()).encode(), gray.tobytes())
    yield join(json.dumps(_header(encoding="jpeg")).encode(), encode_jpeg(gray, "gray", 90)[0])
    yield join(
        json.dumps(_header(encoding="jpeg", format="rgb8")).encode(), encode_jpeg(rgb, "rgb", 90)[0]
    )
    yield join(json.dumps(_header(format="flow32f", rows="bottom_up")).encode(), bytes(384))
    memory = {"pid": 1, "fd": 3, "nonce": "00" * 16, "sequence": 1, "size": 48}
    yield join(json.dumps(_header(memory=memory)).encode(), b"")


_FIXED: Final = struct.Struct("<QIIHHH")


def _client_packets(data: bytes) -> None:
    """Pieces are the rest of datagrams after magic and stream, which are right."""
    end = _Packets("tcp://127.99.0.1", 9, _TOKEN, lambda *_: None)
    with contextlib.closing(end):
        for piece in split(data):
            with contextlib.suppress(*_BAD_MESSAGE):
                end._add(b"VILU" + stream_id(_TOKEN) + piece)
        assert len(end._pictures) <= 4


def _datagrams() -> Iterator[bytes]:
    small = [d[12:] for d in packets(stream_id(_TOKEN), 1, 1, b"{}", bytes(200))]
    yield join(*small)
    yield join(*small[1:])
    for index in (0, 1, 4):
        yield _FIXED.pack(2, 1, 12, index, 3, 4) + b"abcd"
    yield join(*(_FIXED.pack(i, 1, 12, i, 3, 4) + b"abcd" for i in (0, 2, 3)))


def _clock(data: bytes) -> None:
    """Any four stamps of clock exchanges, one after another."""
    sync = ClockSync()
    for at in range(0, len(data) - 31, 32):
        sync.add(*struct.unpack_from("<4q", data, at))
        sync.to_bridge_ns(time.monotonic_ns())
        sync.uncertainty_ns(time.monotonic_ns())


TARGETS: Final = (
    Target("stream-control", _control, (ProtocolError,), _requests, 2048, is_json=True),
    Target("udp-report", _report, (ProtocolError,), _reports, 256),
    Target(
        "rtcp", lambda data: receiver_reports(data, 1, 10**18), (ProtocolError,), _rtcp_reports, 512
    ),
    Target("ledger", _ledger, (ProtocolError,), lambda: [ledger_lines(flown_ledger(3))], 4096),
    Target("client-control", _client_control, (), _answers, 2048, is_json=True),
    Target("client-picture", _client_picture, (), _pictures, 4096, is_json=True),
    Target("client-packets", _client_packets, (), _datagrams, 2048),
    Target(
        "client-clock", _clock, (), lambda: [struct.pack("<8q", 1, 2, 3, 4, 11, 12, 13, 14)], 1024
    ),
)
