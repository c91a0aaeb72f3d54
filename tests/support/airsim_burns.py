"""Calls that cost AirSim's server the most, by kind.

One client asks for them as fast as they are answered.

``python -m tests.support.airsim_burns PORT KIND``: for a minute at most.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgpack
import msgspec

from tests.attacks.attack import moments
from tests.support.common import wait_until

_HOST: Final = "127.0.0.1"
_ANSWER_S: Final = 30.0
_START_S: Final = 120.0
_READ_BYTES: Final = 1 << 18
_CAMERAS: Final = ("front_center", "front_right", "front_left", "bottom_center", "back_center")
_EXPRESSIONS: Final = (
    "(a*)*b",
    "(.*.*.*.*.*.*.*.*.*.*){20}x",
    "(a?){100}a{100}",
    "(((a{1,30}){1,30})b*)*c",
    r"(\w|\d)*!",
)
_CENTRE: Final = {"x_val": 0.0, "y_val": 0.0, "z_val": -2.0}
_COLOUR: Final = (1.0, 0.0, 0.0, 1.0)
_HEADING: Final = {"is_rate": True, "yaw_or_rate": 0.0}

Call = tuple[str, tuple[Any, ...]]


def _points(count: int) -> list[dict[str, float]]:
    return [{"x_val": 0.1 * i, "y_val": 1.0, "z_val": -2.0} for i in range(count)]


def _path(count: int) -> Call:
    return "moveOnPath", (_points(count), 1.0, 60.0, 0, _HEADING)


def _images(kind: int, as_float: bool) -> Call:
    keys = ("camera_name", "image_type", "pixels_as_float", "compress")
    requests = [dict(zip(keys, (name, kind, as_float, False), strict=True)) for name in _CAMERAS]
    return "simGetImages", (requests,)


def _deep(depth: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


def _calls(folder: Path) -> dict[str, list[Call]]:
    pose = {
        "position": _CENTRE,
        "orientation": {"w_val": 1.0, "x_val": 0.0, "y_val": 0.0, "z_val": 0.0},
    }
    return {
        "flood": [("ping", ())],
        "states": [("getMultirotorState", ())],
        "expressions": [("simListSceneObjects", (expression,)) for expression in _EXPRESSIONS]
        + [("simSetSegmentationObjectID", (expression, 7, True)) for expression in _EXPRESSIONS],
        "paths": [_path(32_000), _path(100_000)],
        "long_paths": [_path(5_000)],
        "voxels": [("simCreateVoxelGrid", (_CENTRE, 20, 20, 10, 0.1, str(folder / "grid.binvox")))],
        "plots": [("simPlotPoints", (_points(32_000), _COLOUR, 2.0, 1.0, False))],
        "many_plots": [("simPlotPoints", (_points(1), _COLOUR, 2.0, 60.0, False))],
        "transforms": [
            ("simPlotTransforms", ([pose] * 4_000, 1.0, 1.0, 1.0, False)),
            ("simFlushPersistentMarkers", ()),
        ],
        "pictures": [_images(0, False), _images(2, True)],
        "detections": [
            ("simAddDetectionFilterMeshName", ("0", 0, "*a*a*a*")),
            ("simGetDetections", ("0", 0)),
        ],
        "lidar": [("getLidarData", ("Lidar",))],
        "meshes": [("simGetMeshPositionVertexBuffers", ())],
        "deep": [("ping", (_deep(400),))],
        "wide": [
            ("ping", ([1.5] * 32_000,)),
            ("ping", ([{}] * 32_000,)),
            ("ping", ([[]] * 4_000,)),
        ],
        "texts": [("simPrintLogMessage", ("\udcff" * 20_000, ""))],
    }


KINDS: Final = (*_calls(Path()), "halves", "mute")
"""Kinds of calls; ``halves``: parts of large messages, by connections that end.

``mute``: connections without calls.
"""
_MUTE_AT_ONCE: Final = 64
"""Connections without calls: more than the server gives to one address."""


class Burner:
    """A client that asks for calls of a kind."""

    def __init__(self, port: int, kind: str, folder: Path) -> None:
        self._port = port
        self._mute: list[socket.socket] = []
        self._number = 0
        self.step: Final[Callable[[], None]] = {"halves": self._half, "mute": self._sit}.get(
            kind, self._ask
        )
        self._messages: Iterator[tuple[bytes, int]] = itertools.cycle(
            [_encoded(kind, call) for call in _calls(folder).get(kind, [_path(100_000)])]
        )
        wait_until(self._is_served, _START_S)
        self._peer = self._connected()
        self._unpacker = msgpack.Unpacker(max_buffer_size=1 << 30)
        if kind == "mute":  # on a busy computer, fewer than the limit may connect within a phase
            for _ in range(_MUTE_AT_ONCE):
                self._sit()

    def _is_served(self) -> bool:
        """Return True once the server listens: its scene takes a while."""
        with socket.socket() as peer:
            return peer.connect_ex((_HOST, self._port)) == 0

    def _connected(self) -> socket.socket:
        peer = socket.create_connection((_HOST, self._port), timeout=_ANSWER_S)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return peer

    def _ask(self) -> None:
        """Send a message of one or more calls and read the answers, without unpacking them."""
        message, answers = next(self._messages)
        try:
            self._exchange(message, answers)
        except ConnectionError:  # the server refuses a message before all of it is there
            self._peer.close()
            self._peer = self._connected()
            self._unpacker = msgpack.Unpacker(max_buffer_size=1 << 30)

    def _exchange(self, message: bytes, answers: int) -> None:
        self._peer.sendall(message)
        while answers:
            data = self._peer.recv(_READ_BYTES)
            if not data:
                raise ConnectionResetError
            self._unpacker.feed(data)
            while answers:
                try:
                    self._unpacker.skip()
                except msgpack.OutOfData:
                    break
                answers -= 1

    def _half(self) -> None:
        """Send most of a message, and be gone."""
        message, _ = next(self._messages)
        with self._connected() as peer, contextlib.suppress(ConnectionError):
            peer.sendall(message[: len(message) * 3 // 4])

    def _sit(self) -> None:
        """Connect and say nothing; beyond so many, end the oldest connection."""
        if len(self._mute) >= _MUTE_AT_ONCE:
            self._mute.pop(0).close()
        try:
            self._mute.append(self._connected())
        except OSError:
            return


def _encoded(kind: str, call: Call) -> tuple[bytes, int]:
    """Return a message, the call or 64 of them, and how many answers it gets."""
    method, arguments = call
    one = msgspec.msgpack.encode((0, 1, method, arguments)) if kind != "texts" else _text(method)
    count = 64 if len(one) < 200 and kind in ("flood", "states", "many_plots") else 1
    return one * count, count


def _text(method: str) -> bytes:
    """Return a request with text that breaks the rules of UTF-8."""
    head = msgspec.msgpack.encode((0, 1, method, ()))[:-1]
    return head + b"\x92\xda\xff\xff" + b"\xff" * 65_535 + b"\xa0"


def burn(port: int, kind: str) -> None:
    """Ask until the limit of an attacker's life."""
    with tempfile.TemporaryDirectory() as folder:
        burner = Burner(port, kind, Path(folder))
        for _ in moments(0.02 if kind == "mute" else 0.0):
            burner.step()


if __name__ == "__main__":
    burn(int(sys.argv[1]), sys.argv[2])
