"""``vil-bridge bench airsim``.

Pictures, calls and fairness of the AirSim server, by clients over real sockets.

The references are measured in turns with it: the renderer alone in this process, and a bare
MessagePack-RPC server.
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import msgpack
import msgspec
import numpy as np

from vil_benchmarks.report import Row
from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.errors import VilBridgeError
from vil_bridge.core.geometry import Transform, q_from_euler_zyx, q_from_matrix, q_mul
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    Modality,
    TrackingState,
    View,
    WorldSnapshot,
)

_HOST: Final = "127.0.0.1"
_START_S: Final = 120.0
_ROUNDS: Final = 5
_PER_ROUND: Final = 60
_BUFFER_BYTES: Final = 1 << 18
"""New memory for each answer would take longer than to read a picture."""
_CLIENTS: Final = 8
_FAIR_S: Final = 2.0
_CAMERAS: Final = ("front", "rear", "left", "right", "down")
_SCENE: Final = "blocks"
_OPTICAL: Final = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
_BARE: Final = """
import asyncio, msgpack
async def serve(reader, writer):
    unpacker = msgpack.Unpacker(raw=False)
    while data := await reader.read(65536):
        unpacker.feed(data)
        for _, number, _, _ in unpacker:
            writer.write(msgpack.packb((1, number, None, True)))
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


class _Client:
    """A client that waits for each answer."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((_HOST, port), timeout=_START_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unpacker = msgpack.Unpacker(raw=False, max_buffer_size=1 << 28)
        self._number = 0
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._socket.close()

    def call(self, method: str, *arguments: object) -> Any:
        """Return a result. Raises VilBridgeError: the call failed."""
        self._number += 1
        self._socket.sendall(msgspec.msgpack.encode((0, self._number, method, arguments)))
        while True:
            for _, _, error, result in self._unpacker:
                if error is not None:
                    raise VilBridgeError(f"{method}: {error}")
                return result
            count = self._socket.recv_into(self._buffer)
            if not count:
                raise VilBridgeError(f"{method}: the server closed the connection")
            self._unpacker.feed(self._buffer[:count])


def bench_airsim() -> list[Row]:
    """Measure; about a minute. Raises VilBridgeError: a call fails, which no row survives."""
    captures = [{"ImageType": kind, "Width": 256, "Height": 256} for kind in (0, 2)]
    cameras = {
        name: {"Yaw": 72 * i, "CaptureSettings": captures} for i, name in enumerate(_CAMERAS)
    }
    settings = {"Vehicles": {"Drone1": {"VehicleType": "SimpleFlight", "Cameras": cameras}}}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "settings.json"
        path.write_text(json.dumps(settings))
        words = ("-m", "vil_bridge", "airsim", str(path), "--port", "0", "--scene", _SCENE)
        with _server(r"AirSim programs connect to .* port (\d+)", *words) as (port, pid):
            bare_server = _server(r"port (\d+)", "-c", _BARE)
            with bare_server as (bare, bare_pid), _Client(port) as client, _Client(bare) as plain:
                rows = _picture_rows(client)
                with _apart((pid, bare_pid)):
                    rows += _call_rows(client, plain)
            rows.append(Row("eight_clients_fair", _fairness(port), "share", _CLIENTS))
    return rows


@contextmanager
def _server(pattern: str, *words: str) -> Iterator[tuple[int, int]]:
    """Run a Python program; yield the port that it prints, and its process.

    Raises VilBridgeError: none came.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, *words],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            end_s = time.monotonic() + _START_S
            while True:
                log.seek(0)
                text = log.read().decode(errors="replace")
                if found := re.search(pattern, text):
                    yield int(found[1]), process.pid
                    return
                if process.poll() is not None or time.monotonic() > end_s:
                    raise VilBridgeError(f"a server did not start:\n{text[-2000:]}")
                time.sleep(0.05)
        finally:
            process.terminate()
            process.wait()


@contextmanager
def _apart(servers: tuple[int, int]) -> Iterator[None]:
    """Hold this client on the first processor and the loops of both servers on the last one.

    Otherwise the system chooses for each pair whether they share one, and a call costs 31 or 85 us
    by that alone.
    """
    all_of_them = os.sched_getaffinity(0)
    first = min(all_of_them)
    last = max(all_of_them)
    os.sched_setaffinity(0, {first})
    for pid in servers:
        os.sched_setaffinity(pid, {last})
    try:
        yield
    finally:
        for pid in (0, *servers):
            os.sched_setaffinity(pid, all_of_them)


def _picture_rows(client: _Client) -> list[Row]:
    """Return rows of pictures; the renderer alone takes turns with the server."""
    from vil_renderer.embedded import EmbeddedRenderer

    one = [_request("front_center", 0)]
    step = [_request(name, kind) for name in _CAMERAS for kind in (0, 2)]
    view = _view()
    os.environ["LP_NUM_THREADS"] = "1"  # as in the scene's process
    with EmbeddedRenderer(_SCENE) as renderer:
        draw = lambda: renderer.render([view], _snapshot())  # noqa: E731
        ask = lambda: client.call("simGetImages", one, "", False)  # noqa: E731
        drawn_s, asked_s = _in_turns(draw, ask)
    step_s = _times(lambda: client.call("simGetImages", step, "", False), 12)
    picture = client.call("simGetImages", one, "", False)[0]
    if len(picture["image_data_uint8"]) != 256 * 144 * 3:
        raise VilBridgeError(f"simGetImages: no picture: {picture['message']}")
    return [
        Row("rgb_256x144_hz", 1.0 / float(np.median(asked_s)), "1/s", len(asked_s)),
        Row("render_alone_ms", 1e3 * float(np.median(drawn_s)), "ms", len(drawn_s)),
        Row(
            "ratio_to_render", float(np.median(asked_s) / np.median(drawn_s)), "ratio", len(asked_s)
        ),
        Row("step_5cams_rgbd_256_hz", 1.0 / float(np.median(step_s)), "1/s", len(step_s)),
    ]


def _call_rows(client: _Client, plain: _Client) -> list[Row]:
    """Return rows of short calls."""
    ping_s, bare_s = _in_turns(lambda: client.call("ping"), lambda: plain.call("ping"))
    state_s = _times(lambda: client.call("getMultirotorState", ""), _ROUNDS * _PER_ROUND)
    ratio = float(np.median(ping_s) / np.median(bare_s))
    return [
        Row("ping_us_p50", 1e6 * float(np.median(ping_s)), "us", len(ping_s)),
        Row("ping_us_p50_ratio_to_bare_msgpack", ratio, "ratio", len(ping_s)),
        Row("calls_per_s_state", 1.0 / float(np.median(state_s)), "1/s", len(state_s)),
    ]


def _fairness(port: int) -> float:
    """Return Jain's index of the calls that clients got answered at the same time.

    1 = all the same.
    """
    counts = [0] * _CLIENTS
    end_s = time.monotonic() + _FAIR_S

    def work(index: int) -> None:
        with _Client(port) as client:
            while time.monotonic() < end_s:
                client.call("getMultirotorState", "")
                counts[index] += 1

    threads = [threading.Thread(target=work, args=(index,)) for index in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (_CLIENTS * squares) if squares else 0.0


def _in_turns(a: Callable[[], object], b: Callable[[], object]) -> tuple[list[float], list[float]]:
    """Return the seconds of each call of two works that take turns.

    The first round does not count.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(_ROUNDS + 1):
        for work, found in zip((a, b), times, strict=True):
            measured = _times(work, _PER_ROUND if number else 5)
            found += measured if number else []
    return times


def _times(work: Callable[[], object], count: int) -> list[float]:
    found = []
    for _ in range(count):
        begun_s = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun_s)
    return found


def _request(camera: str, kind: int) -> dict[str, object]:
    return {
        "camera_name": camera,
        "image_type": kind,
        "pixels_as_float": kind != 0,
        "compress": False,
    }


def _snapshot() -> WorldSnapshot:
    """Return a new world with one vehicle at its start, as each picture of the server has."""
    place = Transform.of((0.0, 0.0, 0.15), q_from_euler_zyx(math.pi / 2.0, 0.0, 0.0))
    vehicle = ActorState("drone1", ActorKind.VEHICLE, TrackingState.TRACKED, 0, place)
    return WorldSnapshot(time.monotonic_ns(), (vehicle,))


def _view() -> View:
    """Return what ``front_center`` of a vehicle at its start sees."""
    facing_north = q_from_euler_zyx(math.pi / 2.0, 0.0, 0.0)
    T = Transform(np.array([0.0, 0.46, 0.15]), q_mul(facing_north, q_from_matrix(_OPTICAL)))
    camera = CameraModel("bench", 256, 144, 2.0 * math.atan(144.0 / 256.0))
    return View(camera, Modality.RGB, T, 0, hide=("drone1",))
