"""Emulated Motive: the same bytes on real sockets, driven by simulated or recorded motion.

Frames are captured on an even grid and transmitted one pipeline latency later, with true stamps of the server's own
clock, which has an offset and drifts. The command and data sockets behave as those of Motive; injected network faults
act in both directions.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from struct import Struct
from typing import Final

from vil_adapters.emulation.emulator import EmulatedFrame, Emulator
from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.convert import ns_to_ticks
from vil_adapters.optitrack.emulator_frames import FrameGenerator, dated, subscribed
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.faults import Faults
from vil_bridge.core.ports import MocapMotion
from vil_bridge.protocols.natnet.clients import Address, ClientTable, Subscriptions
from vil_bridge.protocols.natnet.codec import (
    BITSTREAM_SINCE,
    TICKS_SINCE,
    EchoReply,
    MessageId,
    ServerInfo,
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
from vil_bridge.protocols.natnet.frame import NatNetFrame, Suffix
from vil_bridge.protocols.natnet.frame_codec import encode_frame
from vil_bridge.protocols.natnet.model_codec import encode_models
from vil_bridge.protocols.natnet.reader import HEADER_BYTES
from vil_bridge.protocols.sockets import send_multicast_from, udp_socket, waiting_datagrams

_TICKS_PER_S: Final = 10_000_000
_CAMERA_SHARE: Final = 0.85
_IDS_PER_RESTART: Final = 100
_I32: Final = Struct("<i")
_F32: Final = Struct("<f")
_OK: Final = encode(MessageId.RESPONSE, _I32.pack(0))
_REFUSED: Final = encode(MessageId.RESPONSE, _I32.pack(-1))
_UNRECOGNIZED: Final = encode(MessageId.UNRECOGNIZED_REQUEST)
_EVERYTHING: Final = Subscriptions()


class MotiveEmulator(Emulator):
    """Server of ``motion`` as NatNet on this machine; use it with ``async with`` or ``run()``.

    Attributes:
        command_port, data_port: UDP ports, known after the start.
        counters: those of the server, ``malformed`` requests, ``sent_frames`` (datagrams that left the
            data port, duplicates included) and ``unsent`` (refused by the system).
    """

    def __init__(
        self, config: MotiveEmulatorConfig, motion: MocapMotion, epoch_ns: int, faults: Faults | None = None
    ) -> None:
        super().__init__(
            motion,
            config.rate_hz,
            epoch_ns,
            faults,
            offset_s=config.clock_offset_s,
            drift_ppm=config.clock_drift_ppm,
        )
        self.command_port = config.command_port
        self.data_port = config.data_port
        self._config = config
        self._first_id = 1
        self._generator = FrameGenerator(motion, config)
        self._version = parse_version(config.version)
        self._random = random.Random(self.server.faults.seed)  # noqa: S311 - noise, not secrets
        self._clients = self._no_clients()
        self._models_changed = False
        self._transmit_ns = 0
        self._command: socket.socket | None = None
        self._data: socket.socket | None = None

    # --- life --------------------------------------------------------------------------------------

    @property
    def clients(self) -> tuple[Address, ...]:
        """Return the addresses of the registered unicast clients."""
        return self._clients.addresses

    def listen(self) -> None:
        """Bind both ports.

        Raises:
            OSError: a port is taken.
        """
        self._command = udp_socket(self._config.bind, self.command_port)
        self.command_port = self._command.getsockname()[1]
        # Clients of a group bind the same port.
        self._data = udp_socket(self._config.bind, self.data_port, shared=self._multicast)
        self.data_port = self._data.getsockname()[1]
        if self._multicast:
            send_multicast_from(self._data, self._config.bind)
        asyncio.get_running_loop().add_reader(self._command, self.server.guarded(self._receive))

    def close(self) -> None:
        """Release the ports at once, without a message to the clients, and remove these."""
        if self._command is not None and self._command.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._command)
        for sock in filter(None, (self._command, self._data)):
            sock.close()
        self._command = self._data = None
        self._clients = self._no_clients()

    async def restart(self, version: str | None = None) -> None:
        """Die and start again on the same ports, frame numbers from the beginning, maybe as another version."""
        self.stop()
        if version is not None:
            self._version = parse_version(version)
            self._clients = self._no_clients()
        await self.start()

    def set_motion(self, motion: MocapMotion, *, announce: bool = True) -> None:
        """Stream another motion from now on; the next frame announces changed models if ``announce``."""
        self.server.motion = motion
        self._generator = FrameGenerator(motion, self._config, self._first_id)
        self._models_changed = announce

    def inject(self, datagram: bytes) -> None:
        """Send these bytes from the data port to all clients that get frames, past all faults."""
        for _, destination in self._listeners(now_ns()):
            self._send(self._data, destination, datagram)

    def _on_power(self, up: bool) -> None:
        """Close, or start again with new ids."""
        if up:
            self._first_id += _IDS_PER_RESTART
            self._generator = FrameGenerator(self.server.motion, self._config, self._first_id)
        super()._on_power(up)

    @property
    def _multicast(self) -> bool:
        return self._config.transport == "multicast"

    def _no_clients(self) -> ClientTable:
        return ClientTable(self._version, round(self._config.registration_timeout_s * NS_PER_S))

    # --- frames ------------------------------------------------------------------------------------

    def _on_frame(self, frame: EmulatedFrame) -> None:
        """Transmit the frame after the latency of the pipeline, in order."""
        listeners = self._listeners(frame.t_ns)
        if not listeners:
            return
        jitter_ms = abs(self._random.gauss(0.0, self._config.latency_jitter_ms))
        transmit_ns = frame.t_ns + round((self._config.latency_ms + jitter_ms) * NS_PER_MS)
        self._transmit_ns = max(self._transmit_ns + 1, transmit_ns)
        params = Suffix.MODELS_CHANGED if self._models_changed else 0
        self._models_changed = False
        streamed = self._generator.frame(frame.number, frame.seen)
        encoded: dict[object, bytes] = {}
        latency_ns = max(1, self._transmit_ns - now_ns())  # never past those that still wait
        for address, destination in listeners:
            version, wanted = self._clients.version(address), self._clients.subscriptions(address) or _EVERYTHING
            bits = params | self._clients.announcement(address)
            key = version, bits, wanted.key
            if key not in encoded:
                seen = subscribed(dated(streamed, version), self._generator, wanted)
                encoded[key] = encode_frame(self._stamped(seen, frame.t_ns, self._transmit_ns, bits), version)
            self.server.send(self._to(self._data, destination), encoded[key], latency_ns=latency_ns)

    def _stamped(self, frame: NatNetFrame, t_ns: int, t_transmit_ns: int, params: int) -> NatNetFrame:
        since_start_s = (self.foreign_ns(t_ns) - self.foreign_ns(self.epoch_ns)) / NS_PER_S
        suffix = Suffix(
            timestamp_s=since_start_s,
            mid_exposure=self._ticks(t_ns),
            received=self._ticks(t_ns + round((t_transmit_ns - t_ns) * _CAMERA_SHARE)),
            transmit=self._ticks(t_transmit_ns),
            params=params,
            old_latency_s=since_start_s,
        )
        return replace(frame, suffix=suffix)

    def _ticks(self, t_ns: int) -> int:
        return ns_to_ticks(self.foreign_ns(t_ns), _TICKS_PER_S)

    def _listeners(self, t_ns: int) -> list[tuple[Address, Address]]:
        """Return the clients that get frames, each with the destination."""
        if self._multicast:
            group = self._config.multicast_group, self.data_port
            return [(group, group)]
        port = self._config.client_port
        return [(address, (address[0], port or address[1])) for address in self._clients.due(t_ns)]

    def _to(self, sock: socket.socket | None, destination: Address) -> Callable[[bytes], None]:
        return partial(self._send, sock, destination)

    def _send(self, sock: socket.socket | None, destination: Address, datagram: bytes) -> None:
        if sock is None or sock.fileno() < 0:
            return
        try:
            sock.sendto(datagram, destination)
            self.server.count("sent_frames", int(sock is self._data))
        except OSError:
            self.server.count("unsent")

    # --- commands ----------------------------------------------------------------------------------

    def _receive(self) -> None:
        if self._command is None:
            return
        for datagram, address, _ in waiting_datagrams(self._command):
            self.server.send(partial(self._answer, address), datagram)

    def _answer(self, address: Address, datagram: bytes) -> None:
        try:
            reply = self._reply(datagram, address, now_ns())
        except ProtocolError:
            self.server.count("malformed")
            return
        if reply is not None:
            self.server.send(self._to(self._command, address), reply)

    def _reply(self, datagram: bytes, address: Address, t_ns: int) -> bytes | None:
        # Old clients announce four bytes of payload where there is none, and real servers answer them.
        bare = len(datagram) == HEADER_BYTES
        identity = message_id(datagram[:2] + b"\0\0" if bare else datagram)
        self._clients.renew(address, t_ns)
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
                return encode_models(self._generator.models, self._clients.version(address))
            case MessageId.ECHOREQUEST if self._version >= TICKS_SINCE:
                return encode_echo_reply(EchoReply(decode_echo_request(datagram), self._ticks(t_ns)))
            case MessageId.REQUEST:
                return self._command_reply(decode_text(datagram), address)
            case MessageId.DISCONNECT:
                self._clients.remove(address)
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
        return encode_server_info(info, stale=encode_models(self._generator.models, self._version))

    def _command_reply(self, command: str, address: Address) -> bytes:
        name, _, argument = command.partition(",")
        subscriptions = self._clients.subscriptions(address)
        match name:
            case "FrameRate":
                return encode(MessageId.RESPONSE, _F32.pack(self._config.rate_hz))
            case "UnitsToMillimeters":
                return encode(MessageId.RESPONSE, _F32.pack(self._config.units_to_millimeters))
            case "CurrentMode":
                return _OK
            case "Bitstream" if address in self.clients and self._version >= BITSTREAM_SINCE:
                return self._bitstream_reply(argument, address)
            case "SubscribeToData" | "SubscribeByID" if subscriptions is not None:
                return _OK if subscriptions.command(name, argument) else _REFUSED
        return _UNRECOGNIZED

    def _bitstream_reply(self, wanted: str, address: Address) -> bytes:
        if not wanted:
            version = self._clients.version(address)
            return encode_text(MessageId.RESPONSE, f"Bitstream,{version[0]}.{version[1]}")
        with contextlib.suppress(ValueError):
            if self._clients.set_version(address, parse_version(wanted)):
                return _OK
        return _REFUSED
