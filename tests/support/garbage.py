"""Everything that does not belong on a bridge's ports.

Random bytes, truncations, messages of 10 MB.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import UNSET

from tests.support.flightgoggles import draw
from tests.support.harness import Rig, sockets_of
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.natnet.codec import (
    NEWEST,
    Connect,
    EchoReply,
    MessageId,
    ServerInfo,
    encode,
    encode_connect,
    encode_echo_reply,
    encode_server_info,
    encode_text,
)
from vil_renderer.flightgoggles.codec import decode_pose, encode_images
from vil_renderer.flightgoggles.convert_renderer import read_pose, write_answer

HUGE: Final = 10 << 20
HTTP: Final = b"GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n\r\nabcd"
REQUESTS: Final = (
    {"type": "register", "v": 1, "camera": "front", "encoding": "raw", "color": "rgb"},
    {"type": "ping", "token": "a", "t1": 1},
    {"type": "credit", "token": "a", "frame_id": 3, "t_received_ns": 4, "uncertainty_ns": 5},
    {"type": "command", "id": 1, "name": "a", "args": {"b": [1, {}]}},
)
ODD_JSON: Final = (
    *(b"null", b"[]", b"{}", b"[" * 60000, b'{"type":' * 5000, b"\xff" * 99),
    b'{"type":"ping","v":1e999,"t1":1e999}',
)
MOST_MALFORMED: Final = 100
"""Messages on one connection of the control channel.

More are a flood, and a connection that goes on is ended.
"""
_GREETING: Final = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_SOCKET_TYPE: Final = {
    "control": b"DEALER",
    "data": b"DEALER",
    "poses": b"SUB",
    "images": b"PUB",
    "http": b"REQ",
}
_MORE, _LONG, _COMMAND = 1, 2, 4
random_ = random.Random(5)
_ports = random.SystemRandom()


def _connected(port: int) -> socket.socket:
    """Connect from a random port, and from another one where the bridge still waits for the end of
    its last connection.

    The kernel takes neighbouring ports, one after another: those of an earlier crowd, which the
    bridge still holds.
    """
    for _ in range(4):
        with contextlib.suppress(OSError):  # timed out, or the port is taken
            return socket.create_connection(
                ("127.0.0.1", port), 2.0, ("127.0.0.1", _ports.randrange(32768, 61000))
            )
    return socket.create_connection(("127.0.0.1", port), timeout=10.0)


class ZmtpPeer:
    """A ZeroMQ peer written by hand, since libzmq on this side would share the other side's
    defects.
    """

    def __init__(self, port: int, socket_type: bytes) -> None:
        self._socket = _connected(port)
        self._socket.settimeout(5.0)
        self._socket.sendall(_GREETING + _ready(socket_type))
        self._read(len(_GREETING))
        self.frame()

    def __enter__(self) -> ZmtpPeer:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._socket.close()

    def send(self, *parts: bytes) -> None:
        """One message. Raises OSError when the other side has hung up."""
        last = len(parts) - 1
        self._socket.sendall(
            b"".join(_frame(_MORE * (i < last), part) for i, part in enumerate(parts))
        )

    def frame(self) -> bytes:
        """The content of the next frame."""
        flags, *_ = self._read(1)
        size = int.from_bytes(self._read(8 if flags & _LONG else 1), "big")
        return self._read(size)

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = self._socket.recv(size - len(found))
            assert more, "hung up"
            found += more
        return found


def _overheard(port: int) -> list[bytes]:
    """A pose message as the bridge sends it."""
    with ZmtpPeer(port, b"SUB") as ear:
        ear.send(b"\x01Pose")
        return [ear.frame(), ear.frame()]


def _frame(flags: int, content: bytes) -> bytes:
    if len(content) < 256:
        return bytes((flags, len(content))) + content
    return struct.pack(">BQ", flags | _LONG, len(content)) + content


def _ready(socket_type: bytes) -> bytes:
    return _frame(
        _COMMAND, b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(socket_type)) + socket_type
    )


def prefixes(*messages: bytes) -> list[bytes]:
    """Every message cut off at every offset."""
    return [message[:end] for message in messages for end in range(len(message))]


def noise(count: int, largest: int) -> list[bytes]:
    """Random bytes of random lengths."""
    return [random_.randbytes(random_.randint(1, largest)) for _ in range(count)]


def _handshake(socket_type: bytes) -> bytes:
    """A whole ZMTP 3 handshake and one message."""
    return _GREETING + _ready(socket_type) + _frame(0, b"hello")


def natnet_messages(command_port: int) -> list[bytes]:
    """Messages of a real server.

    Asked of the emulator on its own port, frames and models among it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(5.0)
        asker.bind(("127.0.0.1", 0))
        server = ("127.0.0.1", command_port)
        asker.sendto(
            encode_connect(Connect("test", natnet_version=NEWEST, bitstream=NEWEST)), server
        )
        asker.sendto(encode(MessageId.REQUEST_MODELDEF, b"\xff" * 4), server)
        found: dict[int, bytes] = {}
        while not {MessageId.SERVERINFO, MessageId.MODELDEF, MessageId.FRAMEOFDATA} <= set(found):
            data = asker.recv(65536)
            found[int.from_bytes(data[:2], "little")] = data
        asker.sendto(encode(MessageId.DISCONNECT), server)
    info = ServerInfo("Motive", (3, 1, 0, 0), NEWEST, 10_000_000, 1511, False, "239.255.42.99")
    more = (
        encode_server_info(info),
        encode_echo_reply(EchoReply(1, 2)),
        encode_text(MessageId.RESPONSE, "Bitstream,4.1"),
        encode(MessageId.RESPONSE, struct.pack("<f", 1000.0)),
    )
    return [*found.values(), *more]


class Thrower:
    """Throws every kind of rubbish once per round, and counts what it threw by port."""

    def __init__(self, rig: Rig, serial: int) -> None:
        pid = rig.pid("daemon")
        known = {
            rig.stream_port: "control",
            rig.pose_port: "poses",
            rig.image_port: "images",
            rig.http_port: "http",
        }
        listening = [s.local_port for s in sockets_of(pid, "tcp") if s.listens]
        self.tcp = {port: known.get(port, "data") for port in listening}
        self.udp = [s.local_port for s in sockets_of(pid, "udp") if not s.remote_port]
        assert sorted(self.tcp.values()) == [
            "control",
            "data",
            "data",
            "data",
            "http",
            "images",
            "poses",
        ]
        assert len(self.udp) == 2
        self.serial = serial
        self.thrown: Counter[str] = Counter()
        self._held = contextlib.ExitStack()
        self.natnet = [m for port in rig.command_ports for m in natnet_messages(port)]
        self.pose = _overheard(rig.pose_port)
        message = decode_pose(self.pose)
        message.ntime = 1
        assert message.vil is not UNSET
        for camera in message.vil.cameras:
            camera.width, camera.height = 8, 6
        views, snapshot = read_pose(message)
        small = tuple(v for v in views if v.due)[:1]
        header, pictures = write_answer(message, views, draw(small, snapshot), 1)
        self.answer = [bytes(part) for part in encode_images(header, pictures)]

    def __enter__(self) -> Thrower:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._held.close()

    def round(self) -> Iterator[None]:
        """Everything once; yields often."""
        for port in self.tcp:
            yield from self._raw(port)
        for port, name in self.tcp.items():
            if name != "http":
                yield from self._zmtp(port, name)
        for port in self.udp:
            yield from self._datagrams(port)
        yield from self._line()

    def _raw(self, port: int) -> Iterator[None]:
        whole = _handshake(_SOCKET_TYPE[self.tcp[port]])
        oversized = [
            whole + b"\x02" + struct.pack(">Q", size) + b"x" * 999
            for size in (HUGE, 1 << 40, (1 << 63) - 1)
        ]
        payloads = [
            *noise(30, 2000),
            *oversized,
            random_.randbytes(HUGE),
            whole + bytes(HUGE),
            b"GET / " + b"a" * HUGE,
        ]
        payloads += [*prefixes(whole, HTTP), b"".join(self.pose), *self.natnet[:2]]
        with contextlib.ExitStack() as held:
            for i, payload in enumerate(payloads):
                peer = held.enter_context(_connected(port))
                with contextlib.suppress(OSError):  # cut off, as it should be
                    peer.sendall(payload)
                self.thrown[f"raw {self.tcp[port]}"] += 1
                self.thrown[f"huge {self.tcp[port]}"] += len(payload) >= HUGE
                if i % 20 == 19:
                    held.close()
                    yield

    def _zmtp(self, port: int, name: str) -> Iterator[None]:
        for messages in self._messages(name):
            # libzmq does not read to the end what a peer that left has sent, so they stay: except
            # at the poses' port, where they would pass for renderers.
            peer = ZmtpPeer(port, _SOCKET_TYPE[name])
            with (
                peer if name == "poses" else contextlib.nullcontext(self._held.enter_context(peer))
            ):
                for parts in messages:
                    peer.send(*parts)
                    self.thrown[name] += 1
            yield
        for parts in ([random_.randbytes(HUGE)], [bytes(HUGE), b"x"]):
            with contextlib.suppress(OSError), ZmtpPeer(port, _SOCKET_TYPE[name]) as peer:
                peer.send(*parts)
            self.thrown[f"{name} huge"] += 1
            yield

    def _messages(self, name: str) -> list[list[list[bytes]]]:
        """Messages of more or less the right form, one list for each connection."""
        several = [noise(random_.randint(1, 4), 200) for _ in range(20)]
        if name == "control":
            cut = [[part] for part in prefixes(*(json.dumps(r).encode() for r in REQUESTS))]
            few = [cut[i : i + MOST_MALFORMED] for i in range(0, len(cut), MOST_MALFORMED)]
            return [several, *few, [[odd] for odd in ODD_JSON]]
        if name == "data":
            return [several]
        if name == "poses":
            topics = [[b"\x01" + random_.randbytes(40)] for _ in range(200)]
            return [several, topics, [[p] for p in prefixes(b"\x01Pose")], [[b"\x02" * 250]] * 20]
        header, picture = self.answer
        cut = [[p, picture] for p in prefixes(header)] + [[header, p] for p in prefixes(picture)]
        return [several, cut, [[header], [header, picture, picture], self.pose]]

    def _datagrams(self, port: int) -> Iterator[None]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            for i, data in enumerate(
                [*noise(200, 3000), *noise(3, 65000), b"", *prefixes(*self.natnet)]
            ):
                peer.sendto(data, ("127.0.0.1", port))
                self.thrown["udp"] += 1
                if i % 50 == 49:
                    yield

    def _line(self) -> Iterator[None]:
        sample = framing.encode(mavlink.TimeSync(1, 2), 0, system=1, component=1)
        for data in [*noise(50, 300), *prefixes(sample), b"\xfd" * 3000, b"\xfe\xff" * 500]:
            with contextlib.suppress(BlockingIOError):
                self.thrown["serial"] += os.write(self.serial, data)
            yield
