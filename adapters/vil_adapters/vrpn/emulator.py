"""Emulated VRPN server: real bytes on real sockets, driven by simulated or recorded motion."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Coroutine
from typing import Any, Final

from vil_adapters.emulation.emulator import EmulatedFrame, Emulator
from vil_adapters.vrpn.config import VrpnEmulatorConfig
from vil_adapters.vrpn.connection import VrpnConnection
from vil_adapters.vrpn.convert import VrpnFrame, sender_and_sensor
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.faults import Faults
from vil_bridge.core.geometry import q_conj, q_mul
from vil_bridge.core.ports import MocapMotion
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.sockets import tcp_listener, udp_socket, waiting_datagrams
from vil_bridge.protocols.vrpn.codec import (
    COOKIE,
    PING,
    PONG,
    POSE,
    VELOCITY,
    TrackerPose,
    Velocity,
    decode_connect_request,
    encode_pose,
    encode_velocity,
)
from vil_bridge.protocols.vrpn.id_mapping import CONTROL, Incoming, Outgoing

_MAX_CLIENTS: Final = 16
_CONNECT_TIMEOUT_S: Final = 1.0
_PORT_ATTEMPTS: Final = 16
_STEP_NS: Final = NS_PER_MS
_DITHER_M: Final = 1e-9
"""A pose solved from images never repeats exactly; clients treat one that does as lost or frozen."""
_ZERO: Final = TrackerPose(0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))


class VrpnEmulator(Emulator):
    """Server of the rigid bodies of ``motion`` as VRPN trackers, with velocities.

    Clients connect by TCP or ask by UDP to be connected to. Messages of one instant form one chunk, to which the
    faults apply as a whole.

    Attributes:
        port: TCP and UDP port, known after the start.
    """

    def __init__(
        self, config: VrpnEmulatorConfig, motion: MocapMotion, epoch_ns: int, faults: Faults | None = None
    ) -> None:
        super().__init__(
            motion,
            config.rate_hz,
            epoch_ns,
            faults,
            stream=True,
            offset_s=config.clock_offset_s,
            drift_ppm=config.clock_drift_ppm,
        )
        self.port = config.port
        self._config = config
        self._frame = VrpnFrame(config.units, config.up_axis)
        self._sockets: tuple[socket.socket, ...] = ()
        self._clients: dict[VrpnConnection, bool] = {}  # whether they were greeted
        self._tasks: set[asyncio.Task[None]] = set()
        self._outgoing = Outgoing()
        self._greeting = COOKIE
        self._last: dict[str, TrackerPose] = {}

    @property
    def clients(self) -> int:
        """Return the number of open connections."""
        return len(self._clients)

    # --- sockets -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Release all sockets at once; may be called twice."""
        loop = asyncio.get_running_loop()
        for sock in self._sockets:
            loop.remove_reader(sock)
            sock.close()
        for task in self._tasks:
            task.cancel()
        for link in list(self._clients):
            link.abort()
        self._sockets = ()
        self._clients.clear()

    def listen(self) -> None:
        """Bind and listen.

        Raises:
            OSError: a port is taken.
        """
        tcp, udp = self._sockets = _bind(self._config.bind, self.port)
        self.port = tcp.getsockname()[1]
        self._outgoing = Outgoing()
        devices = dict.fromkeys(sender_and_sensor(name)[0] for name in self.server.motion.subjects)
        self._greeting = COOKIE + self._outgoing.describe((CONTROL, *devices), (POSE, VELOCITY, PING, PONG))
        loop = asyncio.get_running_loop()
        loop.add_reader(tcp, self.server.guarded(lambda: self._accept(tcp)))
        loop.add_reader(udp, self.server.guarded(lambda: self._on_request(udp)))

    def _accept(self, tcp: socket.socket) -> None:
        try:
            sock, _ = tcp.accept()
        except OSError:
            return
        loop = asyncio.get_running_loop()
        self._spawn(loop.connect_accepted_socket(self._link, sock))

    def _on_request(self, udp: socket.socket) -> None:
        """Connect to a client that asks for it; at its own address only, never to third parties."""
        for datagram, (sender_ip, _), _ in waiting_datagrams(udp):
            try:
                ip, port = decode_connect_request(datagram)
            except ProtocolError:
                self.server.count("malformed")
                continue
            if ip != sender_ip:
                self.server.count("foreign")
            elif not self.server.silent:
                self._spawn(asyncio.get_running_loop().create_connection(self._link, ip, port))

    def _spawn(self, connecting: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(self._connect(connecting))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _connect(connecting: Coroutine[Any, Any, Any]) -> None:
        with contextlib.suppress(OSError):
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await connecting

    # --- messages ----------------------------------------------------------------------------------

    def _link(self) -> VrpnConnection:
        incoming = Incoming()

        def on_data(data: bytes, _t_arrival_ns: int) -> None:
            self._on_data(link, incoming, data)

        link = VrpnConnection(on_data, self._on_made)
        return link

    def _on_made(self, link: VrpnConnection) -> None:
        if len(self._clients) >= _MAX_CLIENTS or not self._sockets:
            link.abort()
            return
        # Past the faults, which would break the stream before it began; only a silent server holds it back.
        self._clients[link] = not self.server.silent
        link.closed.add_done_callback(lambda _: self._clients.pop(link, None))
        if self._clients[link]:
            link.send(self._greeting)

    def _on_data(self, link: VrpnConnection, incoming: Incoming, data: bytes) -> None:
        try:
            for message in incoming.feed(data):
                if message.kind == PING:
                    pong = self._outgoing.message(message.sender, PONG, self.foreign_ns(now_ns()))
                    self.server.send(link.send, pong)
        except (ProtocolError, KeyError):
            self.server.count("malformed")
            link.abort()

    # --- frames ------------------------------------------------------------------------------------

    def _on_frame(self, frame: EmulatedFrame) -> None:
        chunk = self._poses(frame)
        for link, greeted in self._clients.items():
            if chunk and greeted:
                self.server.send(link.send, chunk, latency_ns=round(self._config.latency_ms * NS_PER_MS))

    def _poses(self, frame: EmulatedFrame) -> bytes:
        """Return the pose and velocity messages of one frame."""
        t_ns, seen = self.foreign_ns(frame.t_ns), frame.seen
        p, q = self._frame.from_room(seen.p_m, seen.q_xyzw)
        p = p + _DITHER_M * (frame.number % 2)
        v, turn = self._rates(frame.t_ns - self.server.epoch_ns)
        chunk: list[bytes] = []
        for i, name in enumerate(seen.subjects):
            sender, sensor = sender_and_sensor(name)
            pose = TrackerPose(sensor, _three(p[i]), _four(q[i]))
            if seen.tracked[i]:
                self._last[name] = pose
                velocity = encode_velocity(Velocity(sensor, _three(v[i]), _four(turn[i]), _STEP_NS / NS_PER_S))
                chunk.append(self._outgoing.message(sender, VELOCITY, t_ns, velocity))
            elif self._config.untracked == "omit":
                continue
            else:
                zero = _ZERO._replace(sensor=sensor)
                pose = self._last.get(name, zero) if self._config.untracked == "repeat" else zero
            chunk.append(self._outgoing.message(sender, POSE, t_ns, encode_pose(pose)))
        return b"".join(chunk)

    def _rates(self, t_ns: int) -> tuple[FloatArray, FloatArray]:
        """Return velocities (n, 3) in streamed units per second, and rotations (n, 4) within a millisecond."""
        now, later = self.server.motion.at(t_ns), self.server.motion.at(t_ns + _STEP_NS)
        turn = q_mul(later.q_xyzw, q_conj(now.q_xyzw))
        return self._frame.from_room((later.p_m - now.p_m) * (NS_PER_S / _STEP_NS), turn)


def _three(values: FloatArray) -> tuple[float, float, float]:
    x, y, z = values.tolist()
    return x, y, z


def _four(values: FloatArray) -> tuple[float, float, float, float]:
    x, y, z, w = values.tolist()
    return x, y, z, w


def _bind(ip: str, port: int) -> tuple[socket.socket, socket.socket]:
    """Return a TCP and a UDP socket on the same port.

    Raises:
        OSError: the port is taken.
    """
    for left in reversed(range(1 if port else _PORT_ATTEMPTS)):
        tcp = tcp_listener(ip, port)
        try:
            return tcp, udp_socket(ip, tcp.getsockname()[1])
        except OSError:
            tcp.close()
            if not left:
                raise
    raise AssertionError("unreachable")
