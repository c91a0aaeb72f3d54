"""The processes around the bridge in ``bench poses``.

A lab whose poses number its frames, and clients that read them.

Each is the target of a child process.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np

from vil_adapters.optitrack.config import MotiveEmulatorConfig, OptitrackConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_adapters.optitrack.source import OptitrackSource
from vil_adapters.vrpn.config import VrpnConfig, VrpnEmulatorConfig
from vil_adapters.vrpn.emulator import VrpnEmulator
from vil_adapters.vrpn.source import VrpnSource
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.types import MotionFrame, SkeletonModel, SourceEvent, SourceFrame
from vil_bridge.interfaces.ports import PoseSource, SourceContext
from vil_bridge.runtime.supervisor import Status

BODIES: Final = 20
RATE_HZ: Final = 240.0
LOOPBACK: Final = "127.0.0.1"
_STEP_M: Final = 0.001
_EXACT_M: Final = 1e-4


class NumberedBodies:
    """Bodies that are at x = N mm in frame N, the same for y and z axes up.

    Attributes:
        filmed: numbers of the frames that were asked for.
    """

    subjects: tuple[str, ...] = tuple(f"cf_{i}" for i in range(1, BODIES + 1))
    skeleton_models: tuple[SkeletonModel, ...] = ()

    def __init__(self) -> None:
        self.filmed: list[int] = []

    def at(self, t_ns: int) -> MotionFrame:
        """Return the frame of an instant, and note its number."""
        number = round(t_ns * RATE_HZ / NS_PER_S)
        self.filmed.append(number)
        return self.frame(number)

    def frame(self, number: int) -> MotionFrame:
        """Return one frame."""
        p_m = np.stack([[number * _STEP_M, 0.2 * i, 1.0] for i in range(BODIES)])
        q_xyzw = np.tile((0.0, 0.0, 0.0, 1.0), (BODIES, 1))
        return MotionFrame(self.subjects, p_m, q_xyzw, np.ones(BODIES, np.bool_))


def frame_number(x_m: Iterable[float]) -> int | None:
    """Return the number of the frame that all bodies show.

    None = some are missing, predicted or of another frame.
    """
    found = list(x_m)
    numbers = {round(x / _STEP_M) for x in found}
    exact = all(abs(x - round(x / _STEP_M) * _STEP_M) < _EXACT_M for x in found)
    return numbers.pop() if exact and len(found) == BODIES and len(numbers) == 1 else None


def lab(conn: Connection, command_port: int, data_port: int, vrpn_port: int) -> None:
    """Run the emulated servers of one motion.

    Answer each message with the numbers filmed since the last one.
    """
    motion = NumberedBodies()
    natnet = MotiveEmulatorConfig(
        command_port=command_port,
        data_port=data_port,
        transport="multicast",
        version="3.1",
        rate_hz=RATE_HZ,
    )
    vrpn = VrpnEmulatorConfig(port=vrpn_port, rate_hz=RATE_HZ)

    async def serve() -> None:
        epoch_ns = now_ns()
        async with MotiveEmulator(natnet, motion, epoch_ns), VrpnEmulator(vrpn, motion, epoch_ns):
            conn.send("ready")
            while await asyncio.to_thread(conn.recv) != "stop":
                conn.send(motion.filmed)
                motion.filmed.clear()

    asyncio.run(serve())


class _Reading:
    """Numbers that a client has read, with the times at which it had them.

    Args:
        each: send every number at once; else say ``reading`` at the first, and send all of them at
            the end.
    """

    def __init__(self, conn: Connection, *, each: bool) -> None:
        self._conn = conn
        self._each = each
        self._read: list[tuple[int, int]] = []
        self._newest: int | None = None

    def take(self, x_m: Iterable[float]) -> None:
        """Note a frame, the first time that it is whole.

        End the process where that was asked for.
        """
        number = frame_number(x_m)
        t_ns = now_ns()
        if number is not None and number != self._newest:
            if self._newest is None and not self._each:
                self._conn.send("reading")
            self._newest = number
            self._read.append((number, t_ns))
            if self._each:
                self._conn.send(number)
        if self._conn.poll():
            self._conn.send(self._read)
            os._exit(0)  # the libraries have no way to end


def natnet_source(conn: Connection, each: bool, command_port: int, _data_port: int) -> None:
    """Run our own NatNet source."""
    source = OptitrackSource("room", OptitrackConfig(command_port=command_port, interface=LOOPBACK))
    _run_source(_Reading(conn, each=each), source)


def vrpn_source(conn: Connection, each: bool, port: int) -> None:
    """Run our own VRPN source."""
    _run_source(_Reading(conn, each=each), VrpnSource("room", VrpnConfig(port=port)))


def _run_source(reading: _Reading, source: PoseSource) -> None:
    def emit(event: SourceEvent) -> None:
        if isinstance(event, SourceFrame):
            reading.take(event.p_m[event.tracked, 0].tolist())

    asyncio.run(source.run(emit, Status("room"), SourceContext()))


def natnet_motioncapture(conn: Connection, each: bool, command_port: int, _data_port: int) -> None:
    """Run PyPI ``motioncapture`` with the vendor's protocol."""
    keys = {"hostname": LOOPBACK, "interface_ip": LOOPBACK, "port_command": str(command_port)}
    _run_motioncapture(_Reading(conn, each=each), "optitrack", keys)


def vrpn_motioncapture(conn: Connection, each: bool, port: int) -> None:
    """Run PyPI ``motioncapture`` with the official VRPN library."""
    _run_motioncapture(_Reading(conn, each=each), "vrpn", {"hostname": f"tcp://{LOOPBACK}:{port}"})


def _run_motioncapture(reading: _Reading, system: str, keys: dict[str, str]) -> None:
    import motioncapture

    os.dup2(2, 1)  # the library prints
    mocap = motioncapture.connect(system, keys)
    while True:
        mocap.waitForNextFrame()
        reading.take([float(body.position[0]) for body in mocap.rigidBodies.values()])


def natnet_natnet(conn: Connection, each: bool, command_port: int, data_port: int) -> None:
    """Run PyPI ``natnet``."""
    from natnet import NatNetClient

    os.dup2(2, 1)  # the library prints
    reading = _Reading(conn, each=each)

    def on_frame(frame: Any) -> None:
        reading.take([body.pos[0] for body in frame.rigid_bodies if body.tracking_valid])

    client = NatNetClient(
        server_ip_address=LOOPBACK,
        local_ip_address=LOOPBACK,
        use_multicast=True,
        command_port=command_port,
        data_port=data_port,
    )
    client.on_data_frame_received_event.handlers.append(on_frame)
    client.connect(10.0)
    client.run_async()
    threading.Event().wait()


READERS: Final[Mapping[tuple[str, str], Callable[..., None]]] = {
    ("natnet", "source"): natnet_source,
    ("natnet", "motioncapture"): natnet_motioncapture,
    ("natnet", "natnet"): natnet_natnet,
    ("vrpn", "source"): vrpn_source,
    ("vrpn", "motioncapture"): vrpn_motioncapture,
}
"""Clients by protocol and program; each takes its pipe, ``each`` and the server's ports."""
