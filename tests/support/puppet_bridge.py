"""A bridge that says what a test wants it to say."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import zmq

from tests.support.common import wait_until, wait_until_most
from tests.support.stream_rig import SMALL, header
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.clock import now_ns


class PuppetBridge:
    """Registers whoever asks and then sends what it is told to, with a clock that can be moved."""

    def __init__(self) -> None:
        self.instance = "x"
        self.ahead_ns = 0
        self.simulated = False
        self.token = 0
        self._context = zmq.Context()
        self._control, self._data = self._router(), self._router()
        port = self._control.bind_to_random_port("tcp://127.0.0.1")
        self._data_port = self._data.bind_to_random_port("tcp://127.0.0.1")
        self.endpoint = f"tcp://127.0.0.1:{port}"
        self.client = b""
        self.credits: list[int] = []

    def _router(self) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        return socket

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Have no control channel for a while."""
        self._control.close()
        yield
        self._control = self._router()
        wait_until(self._bound)

    def _bound(self) -> bool:
        try:
            self._control.bind(self.endpoint)
        except zmq.ZMQError:  # some time after the old socket was closed
            return False
        return True

    def serve(self, until: float) -> None:
        while time.monotonic() < until and self._control.poll(10):
            self.client, payload = self._control.recv_multipart()
            message = json.loads(payload)
            if message["type"] == "ping":
                t = now_ns() + self.ahead_ns
                pong = {
                    "type": "pong",
                    "t1": message["t1"],
                    "t2": t,
                    "t3": t,
                    "known": True,
                    "in_flight": 0,
                }
                pong["simulated"] = self.simulated
                self.control(json.dumps({**pong, "instance": self.instance}).encode())
            elif message["type"] == "register":
                self.token += 1
                answer = {
                    "type": "registered",
                    "token": str(self.token),
                    "data_port": self._data_port,
                    "camera": {},
                }
                self.control(json.dumps(answer).encode())
            elif message["type"] == "credit":
                self.credits.append(message["frame_id"])

    def serve_until(self, condition: Callable[[], object]) -> None:
        """Serve until a condition holds."""

        def met() -> bool:
            if condition():
                return True
            self.serve(time.monotonic() + 0.02)
            return False

        wait_until(met)

    def control(self, payload: bytes) -> None:
        self._control.send_multipart([self.client, payload])

    def picture(self, *parts: bytes) -> bool:
        try:
            self._data.send_multipart([str(self.token).encode(), *parts])
        except zmq.ZMQError:
            return False
        return True

    def show(self, receiver: Receiver, t_display_ns: int, **changes: object) -> Frame | None:
        """Send a good picture as soon as the client is connected; what the client makes of it."""
        refused = receiver.counters["late"] + receiver.counters["malformed"]
        self.send(receiver, t_display_ns, 5, **changes)
        frame: Frame | None = None

        def decided() -> bool:
            nonlocal frame
            frame = receiver.next(0.01)
            return (
                frame is not None
                or receiver.counters["late"] + receiver.counters["malformed"] > refused
            )

        wait_until(decided)
        return frame

    def show_until_covered(self, receiver: Receiver) -> None:
        """Show pictures of now until most are as near to it as the client's clock claims."""

        def covered() -> bool:
            self.serve(time.monotonic() + 0.02)
            t_ns = now_ns()
            frame = self.show(receiver, t_ns + self.ahead_ns)
            return frame is not None and abs(frame.t_ns - t_ns) <= frame.clock_uncertainty_ns

        wait_until_most(covered)

    def send(
        self, receiver: Receiver, t_display_ns: int, frame_id: int = 5, **changes: object
    ) -> None:
        """Send a good picture as soon as the client is connected, and wait until it arrived."""
        size = {"width": 8, "height": 6, "format": "rgb8", "encoding": "raw", "rows": "top_down"}
        good = msgspec.json.encode(
            {**header(frame_id, t_display_ns=t_display_ns).fields(), **size, **changes}
        )
        seen = receiver.counters["received"]
        self.serve_until(lambda: self.picture(good, SMALL.tobytes()))
        wait_until(lambda: receiver.counters["received"] > seen)

    def close(self) -> None:
        self._control.close()
        self._data.close()
        self._context.term()

    def __enter__(self) -> PuppetBridge:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
