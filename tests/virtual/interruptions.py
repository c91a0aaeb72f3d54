"""Parts that end, hang and start again in the virtual world, besides the motion capture.

A seed draws when.

A source ends as when the network goes down. The bridge's event loop, its HTTP server and the
renderer hang. The renderer and the autopilot end and start again.
"""

from __future__ import annotations

import errno
import random
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.virtual.machine import replace

__all__ = ["Autopilot", "Interruptions", "end_source", "hang_http"]

_MAVLINK_2: Final = 0xFD
_VISION_POSITION_ESTIMATE: Final = 102
_HEADER_BYTES: Final = 10


@dataclass(frozen=True, slots=True)
class Interruptions:
    """Instants, in seconds of the run, and durations; a duration of 0 = it does not happen.

    Attributes:
        renderer_hangs: it hangs; otherwise it ends and starts again.
        source_s: instant at which a source ends.
        loop_hang_s, http_hang_s, autopilot_away_s, renderer_away_s: durations.
    """

    renderer_s: float
    renderer_away_s: float
    renderer_hangs: bool
    source_s: float
    loop_s: float
    loop_hang_s: float
    http_s: float
    http_hang_s: float
    autopilot_s: float
    autopilot_away_s: float

    @classmethod
    def draw(cls, chance: random.Random, earliest_s: float, seconds: float) -> Interruptions:
        """Draw those of a run; none begins before the earliest instant or in the last fifth."""

        def instant_s() -> float:
            return chance.uniform(max(0.2 * seconds, earliest_s), 0.8 * seconds)

        return cls(
            renderer_s=instant_s(),
            renderer_away_s=chance.uniform(1.0, 5.0),
            renderer_hangs=chance.random() < 0.5,
            source_s=chance.choice((instant_s(), 2.0 * seconds)),
            loop_s=instant_s(),
            loop_hang_s=chance.choice((0.0, 0.05, 0.3, 1.0)),
            http_s=instant_s(),
            http_hang_s=chance.choice((0.0, 0.5, 4.0)),
            autopilot_s=instant_s(),
            autopilot_away_s=chance.uniform(0.5, 4.0),
        )


def end_source(passed_s: Callable[[], float], at_s: float) -> None:
    """Let one source of the motion capture fail once, from an instant on."""
    from vil_adapters.optitrack import source

    session: Any = source.NatNetSession
    housekeep = session._housekeep
    failures = [OSError(errno.ENETDOWN, "Network is down")]

    def failing(self: Any, t_ns: int) -> None:
        if failures and passed_s() >= at_s:
            raise failures.pop()
        housekeep(self, t_ns)

    replace(session, _housekeep=failing)


def hang_http(passed_s: Callable[[], float], at_s: float, hang_s: float) -> None:
    """Let the thread of the HTTP server hang once, from an instant on."""
    from vil_bridge.web import uvicorn_internals

    server: Any = uvicorn_internals.UvicornServer
    on_tick = server.on_tick
    hangs = [hang_s]

    async def hanging(self: Any, counter: int) -> bool:
        if hangs and passed_s() >= at_s:
            time.sleep(hangs.pop())  # noqa: ASYNC251 - the thread hangs
        ends: bool = await on_tick(self, counter)
        return ends

    replace(server, on_tick=hanging)


class Autopilot:
    """An autopilot that takes poses by MAVLink and UDP, and is away for a while.

    Args:
        fail: takes what does not hold.

    Attributes:
        poses: number received.
    """

    def __init__(self, port: int, fail: Callable[[str], None]) -> None:
        self.poses = 0
        self._port = port
        self._fail = fail
        self._newest_us = 0

    def run(self, stop: threading.Event, away_at_s: float, away_s: float) -> None:
        """Receive until ``stop`` is set; be away once, so many seconds from now."""
        ended = threading.Event()
        end = threading.Timer(away_at_s, ended.set)
        end.daemon = True
        end.start()
        self._receive(ended)
        stop.wait(away_s)
        self._receive(stop)

    def _receive(self, stop: threading.Event) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("127.0.0.1", self._port))
            poller = select.poll()
            poller.register(sock, select.POLLIN)
            while not stop.is_set():
                if poller.poll(200):
                    self._take(sock.recv(2048))

    def _take(self, datagram: bytes) -> None:
        """Check that capture times increase: a pose is never sent twice."""
        if (
            datagram[0] != _MAVLINK_2
            or int.from_bytes(datagram[7:10], "little") != _VISION_POSITION_ESTIMATE
        ):
            return
        (stamp_us,) = struct.unpack_from("<Q", datagram, _HEADER_BYTES)
        if stamp_us <= self._newest_us:
            self._fail(
                f"autopilot: a pose of {stamp_us} us comes after one of {self._newest_us} us"
            )
        if 1000 * stamp_us > time.monotonic_ns():
            self._fail(f"autopilot: a pose of the future: {stamp_us} us")
        self._newest_us = stamp_us
        self.poses += 1
