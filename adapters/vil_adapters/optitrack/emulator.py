"""A stand-in for Motive that speaks the same bytes, driven by simulated or recorded motion.

Frames are captured on an even grid and transmitted one pipeline latency later, with true stamps of a
clock of its own that has an offset and drifts. Its command and data sockets behave as Motive's do.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Final, Self

from vil_adapters.optitrack.clients import Address, Clients
from vil_adapters.optitrack.codec import (
    BITSTREAM_SINCE,
    EchoReply,
    MessageId,
    ServerInfo,
    Version,
    decode_connect,
    decode_echo_request,
    decode_text,
    encode,
    encode_echo_reply,
    encode_server_info,
    encode_text,
    message_id,
    parse_version,
)
from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.convert import ns_to_ticks
from vil_adapters.optitrack.filming import Film
from vil_adapters.optitrack.frame import Frame, Records, SkeletonPose, Suffix, encode_frame
from vil_adapters.optitrack.model import encode_models
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, Ticker, now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.ports import Motion

__all__ = ["MotiveEmulator"]

_TICKS_PER_S: Final = 10_000_000
_CAMERA_SHARE: Final = 0.85
_MAX_DATAGRAMS_PER_WAKE: Final = 64
_DATAGRAM_BYTES: Final = 65536
_I32: Final = Struct("<i")
_F32: Final = Struct("<f")
_OK: Final = encode(MessageId.RESPONSE, _I32.pack(0))
_REFUSED: Final = encode(MessageId.RESPONSE, _I32.pack(-1))
_UNRECOGNIZED: Final = encode(MessageId.UNRECOGNIZED_REQUEST)


@dataclass(frozen=True, slots=True)
class _Shot:
    """What was captured at ``t_ns`` (bridge clock) and waits for transmission."""

    number: int
    t_ns: int
    bodies: Records
    skeletons: tuple[SkeletonPose, ...]


class MotiveEmulator:
    """Serves ``motion`` as NatNet on this machine; use it with ``async with`` or ``run()``.

    Attributes:
        command_port, data_port: UDP ports, known after the start.
        counters: ``frames``, ``dropped`` (the wanted loss), ``missed_ticks``, ``malformed``, ``unsent``.
    """

    def __init__(self, config: MotiveEmulatorConfig, motion: Motion, epoch_ns: int) -> None:
        self.command_port = config.command_port
        self.data_port = config.data_port
        self.counters: Counter[str] = Counter()
        self._config = config
        self._film = Film(motion, config)
        self.epoch_ns = epoch_ns
        self._version = parse_version(config.version)
        self._random = random.Random(config.seed)  # noqa: S311 - noise, not secrets
        self._clients = self._no_clients()
        self._number = 0
        self._models_changed = False
        self._transmit_after_ns = 0
        self._ticker: Ticker | None = None
        self._delays: set[Ticker] = set()
        self._pipeline: deque[_Shot] = deque()
        self._command: socket.socket | None = None
        self._data: socket.socket | None = None
        self._failed: asyncio.Future[None] | None = None

    # --- life --------------------------------------------------------------------------------------

    @property
    def clients(self) -> tuple[Address, ...]:
        """Addresses of the registered unicast clients."""
        return self._clients.addresses

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        if self._failed is not None and self._failed.done():
            self._failed.result()

    async def run(self) -> None:
        """Serve until cancelled; also starts and stops.

        Raises:
            OSError: a port is taken.
        """
        self.start()
        try:
            if self._failed is not None:
                await self._failed
        finally:
            self.stop()

    def start(self) -> None:
        """Open the sockets and begin to film; needs the running loop.

        Raises:
            OSError: a port is taken.
        """
        loop = asyncio.get_running_loop()
        try:
            self._command, self.command_port = self._bind(self.command_port)
            self._data, self.data_port = self._bind(self.data_port, shared=self._multicast)
        except OSError:
            self.stop()
            raise
        if self._multicast:
            interface = socket.inet_aton(self._config.bind)
            self._data.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
            self._data.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        self._failed = self._failed or loop.create_future()
        self._number = 0
        loop.add_reader(self._command, self._guarded(self._answer))
        self._ticker = Ticker(round(NS_PER_S / self._config.rate_hz), self._on_tick)
        self._ticker.start()

    def stop(self) -> None:
        """Close everything at once, without a word to the clients, as a killed server does."""
        for ticker in (*self._delays, *filter(None, [self._ticker])):
            ticker.stop()
        self._delays.clear()
        self._pipeline.clear()
        self._ticker = None
        if self._command is not None and self._command.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._command)
        for sock in filter(None, (self._command, self._data)):
            sock.close()
        self._command = self._data = None
        self._clients = self._no_clients()

    def restart(self, version: str | None = None) -> None:
        """Stop and start on the same ports, frame numbers from the beginning, maybe as another version."""
        self.stop()
        if version is not None:
            self._version = parse_version(version)
            self._clients = self._no_clients()
        self.start()

    def film(self, motion: Motion) -> None:
        """Film something else from now on; the next frame says that the models changed."""
        self._film = Film(motion, self._config)
        self._models_changed = True

    def inject(self, datagram: bytes) -> None:
        """Send these bytes from the data port to everybody who gets frames."""
        for address in self._listeners(now_ns()):
            self._send(self._data, datagram, address)

    def foreign_ns(self, t_ns: int) -> int:
        """The server's clock at an instant of the bridge's."""
        drift_ns = round((t_ns - self.epoch_ns) * self._config.clock_drift_ppm * 1e-6)
        return t_ns + drift_ns + round(self._config.clock_offset_s * NS_PER_S)

    @property
    def _multicast(self) -> bool:
        return self._config.transport == "multicast"

    def _no_clients(self) -> Clients:
        return Clients(self._version, round(self._config.registration_timeout_s * NS_PER_S))

    def _bind(self, port: int, *, shared: bool = False) -> tuple[socket.socket, int]:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setblocking(False)
        try:
            if shared:  # clients of a group bind the same port
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((self._config.bind, port))
        except OSError:
            sock.close()
            raise
        return sock, sock.getsockname()[1]

    def _guarded(self, callback: Callable[[], None]) -> Callable[[], None]:
        """A loop callback whose failure ends ``run``."""

        def call() -> None:
            try:
                callback()
            except Exception as exc:
                if self._failed is None or self._failed.done():
                    raise
                self._failed.set_exception(exc)

        return call

    # --- frames ------------------------------------------------------------------------------------

    def _on_tick(self, due_ns: int, missed: int) -> None:
        self.counters["missed_ticks"] += missed
        self._number += 1
        self._guarded(lambda: self._capture(due_ns))()

    def _capture(self, t_ns: int) -> None:
        """Film the instant and transmit it when the pipeline is through with it, in order."""
        if not self._listeners(t_ns):
            return
        self._pipeline.append(_Shot(self._number, t_ns, *self._film.at(t_ns - self.epoch_ns)))
        jitter_ms = abs(self._random.gauss(0.0, self._config.latency_jitter_ms))
        transmit_ns = t_ns + round((self._config.latency_ms + jitter_ms) * NS_PER_MS)
        self._transmit_after_ns = max(self._transmit_after_ns + 1, transmit_ns)
        self._later(self._transmit_after_ns - now_ns(), self._guarded(self._transmit))

    def _later(self, delay_ns: int, action: Callable[[], None]) -> None:
        """Call once after a delay; timers of the loop would round it up to milliseconds."""

        def fire(_due_ns: int, _missed: int) -> None:
            ticker.stop()
            self._delays.discard(ticker)
            action()

        ticker = Ticker(max(1, delay_ns), fire)
        self._delays.add(ticker)
        ticker.start()

    def _transmit(self) -> None:
        """Send the oldest shot, whichever of several due delays ended first."""
        shot = self._pipeline.popleft()
        t_ns = now_ns()
        params = Suffix.MODELS_CHANGED if self._models_changed else 0
        self._models_changed = False
        encoded: dict[tuple[Version, int], bytes] = {}
        for address in self._listeners(t_ns):
            key = self._clients.version(address), params | self._clients.announcement(address)
            if key not in encoded:
                encoded[key] = encode_frame(self._stamped(shot, t_ns, key[1]), key[0])
            if self._random.random() < self._config.loss:
                self.counters["dropped"] += 1
            else:
                self._send(self._data, encoded[key], address)
        self.counters["frames"] += 1

    def _stamped(self, shot: _Shot, t_transmit_ns: int, params: int) -> Frame:
        received_ns = shot.t_ns + round((t_transmit_ns - shot.t_ns) * _CAMERA_SHARE)
        suffix = Suffix(
            timestamp_s=(self.foreign_ns(shot.t_ns) - self.foreign_ns(self.epoch_ns)) / NS_PER_S,
            mid_exposure=self._ticks(shot.t_ns),
            received=self._ticks(received_ns),
            transmit=self._ticks(t_transmit_ns),
            params=params,
        )
        return Frame(shot.number, shot.bodies, shot.skeletons, suffix=suffix)

    def _ticks(self, t_ns: int) -> int:
        return ns_to_ticks(self.foreign_ns(t_ns), _TICKS_PER_S)

    def _listeners(self, t_ns: int) -> list[Address]:
        if self._multicast:
            return [(self._config.multicast_group, self.data_port)]
        return self._clients.due(t_ns)

    def _send(self, sock: socket.socket | None, datagram: bytes, address: Address) -> None:
        if sock is None:
            return
        try:
            sock.sendto(datagram, address)
        except OSError:
            self.counters["unsent"] += 1

    # --- commands ----------------------------------------------------------------------------------

    def _answer(self) -> None:
        for _ in range(_MAX_DATAGRAMS_PER_WAKE):
            if self._command is None:
                return
            try:
                datagram, address = self._command.recvfrom(_DATAGRAM_BYTES)
            except BlockingIOError:
                return
            except OSError:
                continue
            try:
                reply = self._reply(datagram, address, now_ns())
            except ProtocolError:
                self.counters["malformed"] += 1
                continue
            if reply is not None:
                self._send(self._command, reply, address)

    def _reply(self, datagram: bytes, address: Address, t_ns: int) -> bytes | None:
        identity = message_id(datagram)
        self._clients.touch(address, t_ns)
        match identity:
            case MessageId.CONNECT:
                connect = decode_connect(datagram)
                if not self._multicast:
                    self._clients.register(connect, address, t_ns)
                return self._server_info()
            case MessageId.DISCOVERY:
                decode_connect(datagram)
                return self._server_info()
            case MessageId.REQUEST_MODELDEF:
                return encode_models(self._film.models, self._clients.version(address))
            case MessageId.ECHOREQUEST:
                return encode_echo_reply(EchoReply(decode_echo_request(datagram), self._ticks(t_ns)))
            case MessageId.REQUEST:
                return self._command_reply(decode_text(datagram), address)
            case MessageId.DISCONNECT:
                self._clients.forget(address)
                return None
            case MessageId.KEEPALIVE:
                return None
            case _:
                return _UNRECOGNIZED

    def _server_info(self) -> bytes:
        info = ServerInfo(
            name="Motive",
            app_version=(self._version[0] - 1, self._version[1], 0, 0),
            natnet_version=self._version,
            ticks_per_s=_TICKS_PER_S,
            data_port=self.data_port,
            multicast=self._multicast,
            group=self._config.multicast_group,
        )
        return encode_server_info(info, stale=encode_models(self._film.models, self._version))

    def _command_reply(self, command: str, address: Address) -> bytes:
        name, _, argument = command.partition(",")
        match name:
            case "FrameRate":
                return encode(MessageId.RESPONSE, _F32.pack(self._config.rate_hz))
            case "UnitsToMillimeters":
                return encode(MessageId.RESPONSE, _F32.pack(self._config.units_to_millimeters))
            case "CurrentMode":
                return _OK
            case "Bitstream" if address in self.clients and self._version >= BITSTREAM_SINCE:
                return self._bitstream_reply(argument, address)
        return _UNRECOGNIZED

    def _bitstream_reply(self, wanted: str, address: Address) -> bytes:
        if not wanted:
            version = self._clients.version(address)
            return encode_text(MessageId.RESPONSE, f"Bitstream,{version[0]}.{version[1]}")
        with contextlib.suppress(ValueError):
            if self._clients.set_version(address, parse_version(wanted)):
                return _OK
        return _REFUSED
