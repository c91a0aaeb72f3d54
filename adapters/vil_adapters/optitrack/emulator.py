"""Emulated Motive: the same bytes on real sockets, driven by simulated or recorded motion.

Frames are captured on an even grid and transmitted one pipeline latency later, with true stamps of
the server's own clock, which has an offset and drifts. The command and data sockets behave as those
of Motive; injected network faults act in both directions.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from vil_adapters.emulation.emulator import EmulatedFrame, Emulator
from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.convert import ns_to_ticks
from vil_adapters.optitrack.emulator_frames import FrameGenerator, dated
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion
from vil_bridge.protocols.natnet.clients import ClientTable, Subscriptions
from vil_bridge.protocols.natnet.codec import ServerInfo, parse_version
from vil_bridge.protocols.natnet.frame import NatNetFrame, Suffix
from vil_bridge.protocols.natnet.frame_codec import encode_frame
from vil_bridge.protocols.natnet.model_codec import encode_models
from vil_bridge.protocols.natnet.responder import NatNetResponder, ResponderHooks
from vil_bridge.protocols.natnet.streamed import subscribed
from vil_bridge.protocols.sockets import send_multicast_from, udp_socket, waiting_datagrams
from vil_bridge.runtime.datagrams import Address

_TICKS_PER_S: Final = 10_000_000
_CAMERA_SHARE: Final = 0.85
_IDS_PER_RESTART: Final = 100
_EVERYTHING: Final = Subscriptions()


class MotiveEmulator(Emulator):
    """Server of ``motion`` as NatNet on this machine; use it with ``async with`` or ``run()``.

    Attributes:
        command_port, data_port: UDP ports, known after the start.
        counters: those of the server, ``malformed`` requests, ``sent_frames`` (datagrams that left
            the data port, duplicates included) and ``unsent`` (refused by the system).
    """

    def __init__(
        self,
        config: MotiveEmulatorConfig,
        motion: MocapMotion,
        epoch_ns: int,
        faults: Faults | None = None,
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
        self._responder = self._new_responder()
        self._models_changed = False
        self._transmit_ns = 0
        self._command: socket.socket | None = None
        self._data: socket.socket | None = None

    # --- life -------------------------------------------------------------------------------------

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
        self._reset_clients()

    async def restart(self, version: str | None = None) -> None:
        """Die and start again on the same ports, frame numbers from the beginning, maybe as
        another version.
        """
        self.stop()
        if version is not None:
            self._version = parse_version(version)
            self._reset_clients()
        await self.start()

    def set_motion(self, motion: MocapMotion, *, announce: bool = True) -> None:
        """Stream another motion from now on.

        The next frame announces changed models if ``announce``.
        """
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

    def _reset_clients(self) -> None:
        self._clients = self._no_clients()
        self._responder = self._new_responder()

    def _no_clients(self) -> ClientTable:
        return ClientTable(self._version, round(self._config.registration_timeout_s * NS_PER_S))

    # --- frames -----------------------------------------------------------------------------------

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
            version = self._clients.version(address)
            wanted = self._clients.subscriptions(address) or _EVERYTHING
            bits = params | self._clients.announcement(address)
            key = version, bits, wanted.key
            if key not in encoded:
                whole = dated(streamed, version)
                generator = self._generator
                seen = subscribed(whole, generator.subjects, generator.skeletons, wanted)
                encoded[key] = encode_frame(
                    self._stamped(seen, frame.t_ns, self._transmit_ns, bits), version
                )
            self.server.send(self._to(self._data, destination), encoded[key], latency_ns=latency_ns)

    def _stamped(
        self, frame: NatNetFrame, t_ns: int, t_transmit_ns: int, params: int
    ) -> NatNetFrame:
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

    # --- commands ---------------------------------------------------------------------------------

    def _receive(self) -> None:
        if self._command is None:
            return
        for datagram, address, _ in waiting_datagrams(self._command):
            self.server.send(partial(self._answer, address), datagram)

    def _answer(self, address: Address, datagram: bytes) -> None:
        try:
            reply = self._responder.reply(datagram, address, now_ns())
        except ProtocolError:
            self.server.count("malformed")
            return
        if reply is not None:
            self.server.send(self._to(self._command, address), reply)

    def _new_responder(self) -> NatNetResponder:
        hooks = ResponderHooks(
            info=self._server_info,
            models=lambda: self._generator.models,
            ticks=self._ticks,
            rate_hz=lambda: self._config.rate_hz,
            units_mm=self._config.units_to_millimeters,
            stale=lambda: encode_models(self._generator.models, self._version),
        )
        return NatNetResponder(self._version, self._clients, hooks, multicast=self._multicast)

    def _server_info(self) -> ServerInfo:
        return ServerInfo(
            name="Motive",
            app_version=(self._version[0] - 1, self._version[1], 0, 0),
            natnet_version=self._version,
            ticks_per_s=_TICKS_PER_S,
            data_port=self.data_port,
            multicast=self._multicast,
            group=self._config.multicast_group,
        )
