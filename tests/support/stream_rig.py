"""A bridge's stream end for tests.

Hub in a loop's thread, one relay thread per camera, real sockets.
"""

from __future__ import annotations

import asyncio
import functools
import json
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zmq

from tests.support.common import PATIENCE_S, wait_until
from tests.support.frame_headers import frame_header
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.camera_model import Distortion
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import ImageArray
from vil_bridge.outputs.stream.commands import RefusesCommand
from vil_bridge.outputs.stream.curve_guard import CurveAuthenticator
from vil_bridge.outputs.stream.hub import StreamHub
from vil_bridge.outputs.stream.zmq_sink import ZmqStreamSink
from vil_bridge.protocols.zmq.curve import read_public_key, read_secret_key

K = [457.0, 458.0, 319.5, 239.5]
PATIENCE_NS = round(PATIENCE_S * NS_PER_S)
INFO: dict[str, Any] = {
    "width": 640,
    "height": 480,
    "fx": 457.0,
    "fy": 458.0,
    "cx": 319.5,
    "cy": 239.5,
}
INFO |= {
    key: {"p_m": [0.0, 0.0, 0.0], "ypr_deg": [0.0, 0.0, 0.0]}
    for key in ("T_body_camera", "T_body_imu")
}
INFO["distortion"] = None


def header(frame_id: int, **changes: Any) -> FrameHeader:
    """Metadata as the pipeline makes them."""
    return frame_header(frame_id, **({"K": K} | changes))


class _Relay:
    """The thread that owns a camera's sink."""

    def __init__(self, sink: ZmqStreamSink) -> None:
        self.sink = sink
        self.jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.failure: BaseException | None = None
        self.due_ns: int | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            while (job := self._next()) is not None:
                job()
        except BaseException as exc:
            self.failure = exc
        finally:
            self.sink.close()

    def _next(self) -> Callable[[], None] | None:
        due_ns = self.due_ns
        try:
            return self.jobs.get(
                timeout=None if due_ns is None else max(0, due_ns - now_ns()) / NS_PER_S
            )
        except queue.Empty:
            return self.flush

    def flush(self) -> None:
        self.due_ns = self.sink.flush()

    def stop(self) -> None:
        self.jobs.put(None)
        self.thread.join()
        if self.failure is not None:
            raise self.failure


class StreamRig:
    """Starts in the constructor; ``close`` ends everything and raises what went wrong inside."""

    def __init__(
        self,
        cameras: Mapping[str, tuple[str, ...]] | None = None,
        bind: str = "tcp://127.0.0.1:0",
        data_port: int = 0,
        commands: Mapping[str, Callable[[dict[str, Any]], Any]] | None = None,
        guard: CurveAuthenticator | None = None,
        udp_rate_mbps: float = 100.0,
        refuses_command: RefusesCommand = lambda *_: None,
        problem: Callable[[str], tuple[str, bool]] = lambda _: ("", False),
        max_age_ns: int = 10 * PATIENCE_NS,
        lens: Distortion | None = None,
    ) -> None:
        self._lens = lens
        self._max_age_ns = max_age_ns
        self._problem = problem
        self.inertial: list[tuple[str, ImuWindow]] = []
        self._guard = guard
        self._udp_rate_mbps = udp_rate_mbps
        self.received: list[tuple[str, int, int]] = []
        self.sent: list[tuple[int, Mapping[str, int | None]]] = []
        self.errors: list[Any] = []
        self._relays: dict[str, _Relay] = {}
        self._commands = commands
        self._refuses_command = refuses_command
        self.statuses = 0
        self._bind = bind
        self._ready = threading.Event()
        self._cameras = dict(cameras or {"front": ("rgb", "depth")})
        self._data_port = data_port
        self._thread = threading.Thread(target=asyncio.run, args=(self._main(),))
        self._thread.start()
        assert self._ready.wait(60.0)

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(lambda _, context: self.errors.append(context))
        self._stop = asyncio.Event()
        self.hub = StreamHub(
            self._bind,
            on_received=lambda *a: self.received.append(a),
            status=self._status,
            commands=self._commands,
            refuses_command=self._refuses_command,
            problem=self._problem,
            on_imu=lambda *a: self.inertial.append(a),
            udp_rate_mbps=self._udp_rate_mbps,
            guard=self._guard,
        )
        for name, modalities in self._cameras.items():
            self._add(name, modalities)
        await _retry(self.hub.start)
        self.endpoint = self.hub.endpoint
        self._ready.set()
        await self._stop.wait()
        self.hub.close()

    def _status(self) -> dict[str, Any]:
        self.statuses += 1
        return {"state": "fine"}

    def _add(self, name: str, modalities: tuple[str, ...]) -> None:
        offers = dict.fromkeys(modalities, ("compensated", "raw"))
        sink = ZmqStreamSink(
            name,
            offers,
            port=self._data_port,
            guard=self._guard,
            max_age_ns=self._max_age_ns,
            on_sent=lambda frame_id, stamps: self.sent.append(
                (frame_id, msgspec.to_builtins(stamps))
            ),
            lens=self._lens,
        )
        relay = self._relays[name] = _Relay(sink)
        self.hub.add_camera(sink, INFO, lambda: relay.jobs.put(relay.flush))

    def add_camera(self, name: str, modalities: tuple[str, ...] = ("rgb",)) -> None:
        self.loop.call_soon_threadsafe(self._add, name, modalities)

    def sink(self, camera: str = "front") -> ZmqStreamSink:
        return self._relays[camera].sink

    def offer(self, pixels: ImageArray, made: FrameHeader) -> None:
        """Hand a picture to the relay thread of its camera."""
        relay = self._relays[made.camera]
        relay.jobs.put(lambda: relay.sink.offer(made, pixels))
        relay.jobs.put(relay.flush)

    def failed(self, camera: str = "front") -> BaseException | None:
        """What ended the relay thread."""
        return self._relays[camera].failure

    def settle(self, camera: str = "front") -> None:
        """Wait until the relay thread has done everything asked of it so far."""
        done = threading.Event()
        self._relays[camera].jobs.put(done.set)
        assert done.wait(60.0)

    @contextmanager
    def playing(self, pixels: ImageArray, period_s: float = 0.02, **changes: Any) -> Iterator[None]:
        """Offer the same picture with new headers again and again."""
        over = threading.Event()

        def play() -> None:
            frame_id = 0
            while not over.wait(period_s):
                frame_id += 1
                self.offer(pixels, header(frame_id, **changes))

        thread = threading.Thread(target=play)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        for relay in self._relays.values():
            relay.stop()
        if self._guard is not None:
            self._guard.end()
        assert not self.errors

    def __enter__(self) -> StreamRig:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


async def _retry(start: Callable[[], Any]) -> None:
    """An address is free only some time after ZeroMQ closed its last socket in this process."""
    for _ in range(200):
        try:
            await start()
        except SinkError:
            await asyncio.sleep(0.01)
        else:
            return
    await start()


class RawClient:
    """A client written by hand, to do what the real one never would."""

    def __init__(
        self, endpoint: str, server_key: Path | None = None, secret_key: Path | None = None
    ) -> None:
        self._context = zmq.Context()
        self._keys = None
        if server_key is not None and secret_key is not None:
            self._keys = read_public_key(server_key), read_secret_key(secret_key)
        self.control = self._socket()
        self.control.connect(endpoint)
        self.data = self._socket()

    def _socket(self, kind: int = zmq.DEALER) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        if self._keys is not None:
            socket.curve_serverkey, own = self._keys
            socket.curve_publickey, socket.curve_secretkey = own.public, own.secret
        return socket

    def say(self, **message: Any) -> None:
        self.control.send(json.dumps(message).encode())

    def hear(self, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        assert self.control.poll(int(1000 * timeout_s)), "no answer"
        answer: dict[str, Any] = json.loads(self.control.recv())
        return answer

    def ask(self, **message: Any) -> dict[str, Any]:
        self.say(**message)
        return self.hear()

    def register(self, **changes: Any) -> str:
        """Register and connect the data socket; returns the token."""
        wish = {
            "type": "register",
            "v": 1,
            "camera": "front",
            "encoding": "raw",
            "color": "rgb",
            **changes,
        }
        answer = self.ask(**wish)
        assert answer["type"] == "registered", answer
        token: str = answer["token"]
        self.data.setsockopt(zmq.ROUTING_ID, token.encode())
        self.data.connect(f"tcp://127.0.0.1:{answer['data_port']}")
        return token

    def picture(self, timeout_s: float = PATIENCE_S) -> tuple[dict[str, Any], bytes] | None:
        """The next picture, None when none comes in time."""
        if not self.data.poll(int(1000 * timeout_s)):
            return None
        head, payload = self.data.recv_multipart()
        return json.loads(head), payload

    def acknowledge(self, token: str, frame_id: int, t_received_ns: int | None = None) -> None:
        t_ns = t_received_ns or now_ns()
        self.say(
            type="credit", token=token, frame_id=frame_id, t_received_ns=t_ns, uncertainty_ns=1000
        )

    def close(self) -> None:
        self.control.close(linger=0)
        self.data.close(linger=0)
        self._context.term()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@functools.cache
def photo(height_px: int = 480, width_px: int = 640) -> ImageArray:
    """A smooth RGB picture with edges, different in every row and channel; not writeable."""
    y, x = np.mgrid[0:height_px, 0:width_px].astype(np.float64)
    waves = [
        127 + 90 * np.sin(x / 37 + k) * np.cos(y / 29 - k) + 30 * ((x // 80 + y // 60) % 2)
        for k in range(3)
    ]
    picture: ImageArray = np.clip(np.stack(waves, axis=-1), 0, 255).astype(np.uint8)
    picture.flags.writeable = False
    return picture


SMALL = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)


def first(receiver: Receiver, timeout_s: float = PATIENCE_S) -> Frame:
    frame = receiver.next(timeout_s)
    assert frame is not None, receiver.problem
    return frame


def drain(rig: StreamRig, *receivers: Receiver, pixels: ImageArray = SMALL) -> None:
    """Read until nothing offered before can come any more.

    What is offered last has come, and is acknowledged.
    """
    last = header(9_999)
    rig.offer(pixels, last)
    for receiver in receivers:
        while first(receiver).frame_id != last.frame_id:
            pass
    wait_until(lambda: all(told["in_flight"] == 0 for told in rig.hub.report()["front"]))
