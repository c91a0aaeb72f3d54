"""Rubbish on every port of a bridge at work: counted, survived, and no obstacle to the pictures."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import statistics
import struct
import threading
import time
import tty
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import zmq
from msgspec import UNSET

from tests.flightgoggles_support import draw
from tests.harness import Rig, delivered, rss_mb, sockets_of, wait_until
from vil_adapters.optitrack.codec import (
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
from vil_bridge.core.wire import mavlink
from vil_renderer.flightgoggles.codec import decode_pose, encode_images
from vil_renderer.flightgoggles.convert_renderer import read_pose, write_answer

SOAK_S: Final = float(os.environ.get("VIL_SOAK_S", "15"))
HUGE: Final = 10 << 20
LARGEST_GROWTH_MB: Final = 10.0
GREETING: Final = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
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

pytestmark = pytest.mark.timeout(180 + 2 * SOAK_S)
random_ = random.Random(5)


# --- what is thrown ----------------------------------------------------------------------------


def prefixes(*messages: bytes) -> list[bytes]:
    """Every message cut off at every offset."""
    return [message[:end] for message in messages for end in range(len(message))]


def noise(count: int, largest: int) -> list[bytes]:
    """Random bytes of random lengths."""
    return [random_.randbytes(random_.randint(1, largest)) for _ in range(count)]


def handshake(kind: bytes) -> bytes:
    """A whole ZMTP 3 handshake of a socket type, and one message."""
    ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    return GREETING + bytes((4, len(ready))) + ready + b"\x00\x05hello"


def natnet_messages(folder_port: int) -> list[bytes]:
    """What a real server sends: asked of the emulator on its own port, frames and models among it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(5.0)
        asker.bind(("127.0.0.1", 0))
        server = ("127.0.0.1", folder_port)
        asker.sendto(encode_connect(Connect("test", natnet_version=NEWEST, bitstream=NEWEST)), server)
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
        known = {rig.stream_port: "control", rig.pose_port: "poses", rig.image_port: "images", rig.http_port: "http"}
        listening = [s.local_port for s in sockets_of(pid, "tcp") if s.listens]
        self.tcp = {port: known.get(port, "data") for port in listening}
        self.udp = [s.local_port for s in sockets_of(pid, "udp") if not s.remote_port]
        assert sorted(self.tcp.values()) == ["control", "data", "data", "data", "http", "images", "poses"]
        assert len(self.udp) == 2
        self.serial = serial
        self.thrown: Counter[str] = Counter()
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.natnet = [m for port in rig.command_ports for m in natnet_messages(port)]
        self.pose = self._overheard(rig.pose_port)
        message = decode_pose(self.pose)
        message.ntime = 1
        assert message.vil is not UNSET
        for camera in message.vil.cameras:
            camera.width, camera.height = 8, 6
        views, snapshot = read_pose(message)
        small = tuple(v for v in views if v.due)[:1]
        header, pictures = write_answer(message, views, draw(small, snapshot), 1)
        self.answer = [bytes(part) for part in encode_images(header, pictures)]

    def _overheard(self, port: int) -> list[bytes]:
        """A pose message as the bridge sends it."""
        with self.context.socket(zmq.SUB) as ear:
            ear.subscribe(b"Pose")
            ear.connect(f"tcp://127.0.0.1:{port}")
            assert ear.poll(5000)
            return ear.recv_multipart()

    def __enter__(self) -> Thrower:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.context.destroy(linger=0)

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
        kind = {"control": b"DEALER", "data": b"DEALER", "poses": b"SUB", "images": b"PUB", "http": b"REQ"}
        whole = handshake(kind[self.tcp[port]])
        oversized = [whole + b"\x02" + struct.pack(">Q", size) + b"x" * 999 for size in (HUGE, 1 << 40, (1 << 63) - 1)]
        payloads = [*noise(30, 2000), *oversized, random_.randbytes(HUGE), whole + bytes(HUGE), b"GET / " + b"a" * HUGE]
        payloads += [*prefixes(whole, HTTP), b"".join(self.pose), *self.natnet[:2]]
        with contextlib.ExitStack() as held:
            for i, payload in enumerate(payloads):
                peer = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=2.0))
                with contextlib.suppress(OSError):  # cut off, as it should be
                    peer.sendall(payload)
                self.thrown[f"raw {self.tcp[port]}"] += 1
                if i % 20 == 19:
                    held.close()
                    yield

    def _zmtp(self, port: int, name: str) -> Iterator[None]:
        kind = {"control": zmq.DEALER, "data": zmq.DEALER, "poses": zmq.XSUB, "images": zmq.XPUB}[name]
        for messages in self._messages(name):
            with self.context.socket(kind) as peer:
                peer.setsockopt(zmq.LINGER, 10_000)
                peer.setsockopt(zmq.SNDHWM, 0)
                peer.connect(f"tcp://127.0.0.1:{port}")
                if name == "images":
                    assert peer.poll(5000), "no subscription"
                for parts in messages:
                    peer.send_multipart(parts, zmq.NOBLOCK)
                    self.thrown[name] += 1
            yield

    def _messages(self, name: str) -> list[list[list[bytes]]]:
        """Batches of messages; the huge ones, which may end the connection, come alone."""
        several = [noise(random_.randint(1, 4), 200) for _ in range(20)]
        huge = [[[random_.randbytes(HUGE)]], [[bytes(HUGE), b"x"]]]
        self.thrown[f"{name} huge"] += len(huge)
        if name == "control":
            requests = [json.dumps(r).encode() for r in REQUESTS]
            return [several, [[p] for p in prefixes(*requests)], [[o] for o in ODD_JSON], *huge]
        if name == "data":
            return [several, *huge]
        if name == "poses":
            topics = [[b"\x01" + random_.randbytes(40)] for _ in range(200)]
            return [several, topics, [[p] for p in prefixes(b"\x01Pose")], [[b"\x02" * 250]] * 20, *huge]
        header, picture = self.answer
        cut = [[p, picture] for p in prefixes(header)] + [[header, p] for p in prefixes(picture)]
        return [several, cut, [[header]], [[header, picture, picture]], [self.pose], *huge]

    def _datagrams(self, port: int) -> Iterator[None]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            for i, data in enumerate([*noise(200, 3000), *noise(3, 65000), b"", *prefixes(*self.natnet)]):
                peer.sendto(data, ("127.0.0.1", port))
                self.thrown["udp"] += 1
                if i % 50 == 49:
                    yield

    def _line(self) -> Iterator[None]:
        sample = mavlink.encode(mavlink.TimeSync(1, 2), 0, system=1, component=1)
        for data in [*noise(50, 300), *prefixes(sample), b"\xfd" * 3000, b"\xfe\xff" * 500]:
            self.thrown["serial"] += os.write(self.serial, data)
            yield


# --- the bridge under it -----------------------------------------------------------------------


class Autopilot:
    """A pty whose far end the bridge reads: an IMU at rest, whatever else is written between."""

    def __init__(self, link: Path) -> None:
        self.master, self._slave = os.openpty()
        tty.setraw(self._slave)
        link.symlink_to(os.ttyname(self._slave))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        sequence = 0
        while not self._over.wait(0.005):
            sequence += 1
            time_us = time.monotonic_ns() // 1000
            body = mavlink.HighresImu(time_us, 0.0, 0.0, -9.81, 0.0, 0.0, 0.0)
            os.write(self.master, mavlink.encode(body, sequence, system=1, component=1))

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        os.close(self.master)
        os.close(self._slave)


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Autopilot]]:
    link = tmp_path_factory.mktemp("serial") / "imu"
    autopilot = Autopilot(link)
    yield link, autopilot
    autopilot.close()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, line: tuple[Path, Autopilot]) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("garbage")
    with Rig(folder, imu=line[0], actors__drone__tracking__coast_after_ms=150) as made:
        made.start_all()
        yield made


def test_garbage_everywhere(rig: Rig, line: tuple[Path, Autopilot], record_property: Any) -> None:
    pids = {name: rig.pid(name) for name in ("daemon", "client")}
    before = rig.get()
    memory: list[tuple[float, float]] = []
    rounds = 0
    begun_s = time.monotonic()
    with Thrower(rig, line[1].master) as thrower:
        while time.monotonic() - begun_s < SOAK_S or not rounds:
            for _ in thrower.round():
                memory.append((time.monotonic() - begun_s, rss_mb(pids["daemon"])))
                assert rig.alive("daemon"), rig.log("daemon")[-3000:]
            rounds += 1
        took_s = time.monotonic() - begun_s
        pictures = rig.received() - delivered(before)
        thrown = thrower.thrown
        wait_until(lambda: not _missing(thrown, before, rig.get()), 15.0, lambda: _missing(thrown, before, rig.get()))
    wait_until(lambda: not rig.trouble(), 5.0, rig.trouble)
    early_mb, late_mb = _rss_at(memory, min(10.0, 0.7 * took_s)), _rss_at(memory, took_s)
    report = {
        "seconds": round(took_s, 1),
        "rounds": rounds,
        "thrown": dict(thrower.thrown),
        "pictures_per_s": round(pictures / took_s, 1),
        "rss_mb": {"first": memory[0][1], "early": early_mb, "late": late_mb},
    }
    record_property("garbage", report)
    print(json.dumps(report))
    assert {name: rig.pid(name) for name in pids} == pids and all(map(rig.alive, pids))
    assert pictures / took_s > 5.0, report
    assert late_mb - early_mb < LARGEST_GROWTH_MB, report
    log = rig.log("daemon")
    assert "Traceback" not in log and "ERROR" not in log and log.count("WARNING") < 20, log[-3000:]


def test_idle_peers_do_not_keep_people_out(rig: Rig) -> None:
    """Whoever connects and asks nothing, or half a question, is cut off."""
    with contextlib.ExitStack() as held:
        for i in range(100):
            peer = held.enter_context(socket.create_connection(("127.0.0.1", rig.http_port)))
            peer.sendall(HTTP[: i % 40])
        with pytest.raises(OSError, match="503"):
            rig.get()
        wait_until(lambda: not rig.trouble(), 15.0, rig.trouble, period_s=0.2)
    assert rig.get()["faults"]["http"]["too_many"] > 0


def test_bridge_ends_clean_after_garbage(rig: Rig) -> None:
    code, took_s = rig.end("daemon")
    assert code == 0 and took_s < 2.0


def _rss_at(memory: list[tuple[float, float]], t_s: float) -> float:
    """Median over the two seconds before, MB."""
    return round(statistics.median(mb for t, mb in memory if t_s - 2.0 <= t <= t_s), 1)


def _missing(thrown: Counter[str], before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[int, float]]:
    """Ports that counted less than what was thrown at them: counted and thrown."""
    first, last = _counted(before), _counted(after)
    counted = {name: count - first[name] for name, count in last.items()}
    enough = {
        "control": thrown["control"] - thrown["control huge"],
        "control connections": thrown["raw control"],
        "data": thrown["data"] - thrown["data huge"],
        "data connections": thrown["raw data"],
        "images": thrown["images"] - thrown["images huge"],
        "renderer connections": thrown["raw poses"] + thrown["raw images"],
        "http": 10,
        "udp": thrown["udp"],
        "serial": 0.9 * thrown["serial"],  # some bytes pass for frames of unknown messages
    }
    return {name: (counted[name], count) for name, count in enough.items() if counted[name] < count}


def _counted(status: dict[str, Any]) -> dict[str, int]:
    faults, hall = status["faults"], status["renderers"]["hall"]["report"]["counters"]
    sources = {name: source["report"]["counters"] for name, source in status["sources"].items()}
    streams = [faults[f"stream/{name}"] for name in status["streams"]]
    return {
        "control": faults["control"]["malformed"],
        "control connections": faults["control"]["disconnected"],
        "data": sum(stream["malformed"] for stream in streams),
        "data connections": sum(stream["disconnected"] for stream in streams),
        "images": hall["malformed"],
        "renderer connections": hall["disconnected"],
        "http": faults["http"]["malformed"],
        "udp": sum(sources[name].get("malformed", 0) for name in ("motive_flight", "motive_actor")),
        "serial": sources["imu"].get("garbage_bytes", 0),
    }
