"""Emulated QTM: its real-time protocol on real sockets, driven by a motion."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Final, cast

from vil_adapters.emulation.emulator import EmulatedFrame, Emulator
from vil_adapters.qualisys.codec import (
    LARGEST_DATAGRAM_BYTES,
    DataFrame,
    Event,
    Framing,
    PacketType,
    decode_discovery_request,
    encode_data,
    encode_data_in_datagrams,
    encode_discovery_reply,
    encode_packet,
    encode_text,
)
from vil_adapters.qualisys.config import QtmEmulatorConfig
from vil_adapters.qualisys.convert import describe, generate
from vil_adapters.qualisys.parameters import Parameters, encode_parameters
from vil_bridge.core.clock import NS_PER_MS, now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion
from vil_bridge.protocols.sockets import udp_socket

Destination = tuple[str, int]
"""IPv4 address and UDP port."""

_PORTS: Final = range(1023, 65536)
"""Ports that QTM takes."""


def read_destination(argument: str, client: IPv4Address, server: IPv4Address) -> Destination:
    """Read ``udp[:address]:port`` of a StreamFrames command; without an address it is the client's.

    Datagrams go to the client's own address, or to loopback for a client on this machine, never to
    a third party.

    Args:
        argument: in lower case.
        client: address of the peer of the TCP connection that the command came by.
        server: our address of that connection.

    Raises:
        ProtocolError: the argument cannot be read, or its address is refused; the text is the
            reply.
    """
    try:
        word, *addresses, port = argument.split(":")
        (address,) = map(IPv4Address, addresses or [str(client)])
        if word != "udp" or not port.isdecimal() or int(port) not in _PORTS:
            raise ValueError(argument)
    except ValueError:
        raise ProtocolError("Parse error") from None
    on_this_machine = client.is_loopback or client == server
    if address != client and not (address.is_loopback and on_this_machine):
        raise ProtocolError(
            f"UDP address {address} is not the client's. Leave the address out: UDP:{port}"
        )
    return str(address), int(port)


Version = tuple[int, int]

_NEWEST_VERSION: Final[Version] = (1, 25)
_OLDEST_VERSION: Final[Version] = (1, 8)
_HEADER_BYTES: Final = 8
_UNSENT_LIMIT_BYTES: Final = 1 << 20
_GREETING: Final = "QTM RT Interface connected"
_TITLE: Final = "QTM Version is 2023.3 (build 12345)"
_DISCOVERY_TEXT: Final = "QTM emulator, QTM 2023.3 (build 12345), 0 cameras"
_SKELETONS: Final = {"skeleton", "skeleton:global"}
_SKELETONS_SINCE: Final[Version] = (1, 19)
_COMPONENTS: Final = {"6d", *_SKELETONS}


class QtmEmulator(Emulator):
    """Server of ``motion`` as QTM on this machine: commands by TCP, frames by TCP or UDP.

    Attributes:
        port, discovery_port: TCP and UDP ports, known after the start.
        counters: those of the server, ``malformed``, ``slow`` (frames not sent to a client that
            does not read), ``refused`` (UDP destinations), ``oversized`` and ``unsent``
            (datagrams).
    """

    def __init__(
        self,
        config: QtmEmulatorConfig,
        motion: MocapMotion,
        epoch_ns: int,
        faults: Faults | None = None,
    ) -> None:
        super().__init__(
            motion, config.rate_hz, epoch_ns, faults, stream=True, drift_ppm=config.clock_drift_ppm
        )
        self.port = config.port
        self.discovery_port = config.discovery_port
        self.config = config
        self._clients: set[_Client] = set()
        self._server: asyncio.Server | None = None
        self._discovery: asyncio.DatagramTransport | None = None
        self._datagrams: socket.socket | None = None
        self._opening: asyncio.Task[None] | None = None
        self._latest: EmulatedFrame | None = None
        self._first_number = 0
        self._began_ns = 0

    # --- life -------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Bind and listen.

        Raises:
            OSError: a port is taken.
        """
        loop = asyncio.get_running_loop()
        bind = self.config.bind
        self._server = await loop.create_server(lambda: _Client(self), bind, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self._discovery, _ = await loop.create_datagram_endpoint(
            lambda: _Discovery(self), (bind, self.discovery_port)
        )
        self.discovery_port = self._discovery.get_extra_info("sockname")[1]
        self._datagrams = udp_socket(bind)
        self._first_number = 0
        self._began_ns = self.server.foreign_ns(now_ns())

    def close(self) -> None:
        """Release all sockets at once."""
        if self._opening is not None:
            self._opening.cancel()
        if self._server is not None:
            self._server.close()
        if self._discovery is not None:
            self._discovery.abort()
        if self._datagrams is not None:
            self._datagrams.close()
        for client in tuple(self._clients):
            client.disconnect()
        self._server = self._discovery = self._datagrams = self._opening = self._latest = None

    def listen(self) -> None:
        """Open the sockets in a task, after an injected restart."""
        self._opening = asyncio.get_running_loop().create_task(self.open())
        self._opening.add_done_callback(
            lambda task: task.cancelled() or self.server.guarded(task.result)()
        )

    def foreign_ns(self, t_ns: int) -> int:
        """Return the stamp of a bridge time: since the measurement began, the server's clock."""
        return self.server.foreign_ns(t_ns) - self._began_ns

    def set_motion(self, motion: MocapMotion) -> None:
        """Stream another motion from now on and announce that the settings changed."""
        self.server.motion = motion
        for client in self._clients:
            client.send(encode_packet(PacketType.EVENT, bytes([Event.CAMERA_SETTINGS_CHANGED])))

    def rewind(self) -> None:
        """Restart stamps and frame numbers, as when a played file loops."""
        self._first_number = 0 if self._latest is None else self._latest.number
        self._began_ns = self.server.foreign_ns(now_ns())

    # --- for the clients --------------------------------------------------------------------------

    def join(self, client: _Client) -> None:
        """Add a connected client."""
        self._clients.add(client)

    def leave(self, client: _Client) -> None:
        """Remove a client."""
        self._clients.discard(client)

    def parameters(self) -> Parameters:
        """Return the described bodies and skeletons."""
        motion = self.server.motion
        config = self.config
        return describe(
            motion.subjects, motion.skeleton_models, config.up_axis, config.disabled_bodies
        )

    def latest(self, components: frozenset[str]) -> bytes | None:
        """Return the body of a data packet with the newest frame; None before the first."""
        return None if self._latest is None else encode_data(self._frame(self._latest, components))

    def send_datagram(self, packet: bytes, destination: Destination) -> None:
        """Send a packet as one datagram, if it fits."""
        if len(packet) > LARGEST_DATAGRAM_BYTES:
            self.server.count("oversized")
        elif self._datagrams is not None:
            try:
                self._datagrams.sendto(packet, destination)
            except OSError:
                self.server.count("unsent")

    def _on_frame(self, frame: EmulatedFrame) -> None:
        self._latest = frame
        made: dict[tuple[frozenset[str], bool], list[bytes]] = {}
        latency_ns = round(self.config.latency_ms * NS_PER_MS)
        for client in self._clients:
            if not client.wanted:
                continue
            by_udp = client.destination is not None
            key = client.wanted, by_udp
            if key not in made:
                data = self._frame(frame, client.wanted)
                made[key] = encode_data_in_datagrams(data) if by_udp else [encode_data(data)]
            for body in made[key]:
                send = client.send_datagram if by_udp else client.send_frame
                self.server.send(send, body, latency_ns=latency_ns, datagram=by_udp)

    def _frame(self, frame: EmulatedFrame, components: frozenset[str]) -> DataFrame:
        config = self.config
        number = max(1, frame.number - self._first_number)
        local = "skeleton" in components
        data = generate(
            frame.seen,
            number,
            self.foreign_ns(frame.t_ns),
            config.up_axis,
            config.disabled_bodies,
            local=local,
        )
        if "6d" not in components:
            data = replace(data, bodies=None)
        if not components & _SKELETONS:
            data = replace(data, skeletons=None)
        return data


class _Client(asyncio.Protocol):
    """One TCP connection.

    Attributes:
        wanted: components of the frames that it asked for; empty = none.
        destination: of its frames by UDP; None = by TCP.
    """

    def __init__(self, emulator: QtmEmulator) -> None:
        self.wanted: frozenset[str] = frozenset()
        self.destination: Destination | None = None
        self._emulator = emulator
        self._framing = Framing()
        self._version: Version = _NEWEST_VERSION
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet (called by the loop)."""
        self._transport = cast(asyncio.Transport, transport)
        self._emulator.join(self)
        self.send(encode_text(PacketType.COMMAND, _GREETING))
        self.send(encode_packet(PacketType.EVENT, bytes([Event.CONNECTED])))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Remove the client (called by the loop)."""
        self._transport = None
        self._emulator.leave(self)

    def disconnect(self) -> None:
        """End the connection at once, without a message."""
        if self._transport is not None:
            self._transport.abort()
        self._transport = None
        self._emulator.leave(self)

    def send(self, packet: bytes) -> None:
        """Send a packet other than a frame; a half-open server sends nothing."""
        if self._transport is not None and not self._emulator.server.silent:
            self._transport.write(packet)

    def send_frame(self, body: bytes) -> None:
        """Send a frame, unless the client does not read."""
        if self._transport is None:
            return
        if self._transport.get_write_buffer_size() > _UNSENT_LIMIT_BYTES:
            self._emulator.server.count("slow")
            return
        self._transport.write(encode_packet(PacketType.DATA, body))

    def send_datagram(self, body: bytes) -> None:
        """Send a frame by UDP, unless the stream or the connection has ended since it was
        captured.
        """
        if self._transport is not None and self.destination is not None:
            self._emulator.send_datagram(encode_packet(PacketType.DATA, body), self.destination)

    def data_received(self, data: bytes) -> None:
        """Answer commands (called by the loop)."""
        try:
            for kind, packet in self._framing.feed(data):
                if kind != PacketType.COMMAND:
                    self._emulator.server.count("malformed")
                    continue
                command = (
                    packet[_HEADER_BYTES:].rstrip(b"\0").decode(errors="replace").lower().split()
                )
                for reply in self._answer(command):
                    self.send(reply)
        except ProtocolError:
            self._emulator.server.count("malformed")
            self.disconnect()

    def _answer(self, command: list[str]) -> list[bytes]:
        match command:
            case ["version", text]:
                return [self._agree(text)]
            case ["version"]:
                return [_reply(f"Version is {_dotted(self._version)}")]
            case ["qtmversion"]:
                return [_reply(_TITLE)]
            case ["byteorder"]:
                return [_reply("Byte order is little endian")]
            case ["getstate"]:
                return [encode_packet(PacketType.EVENT, bytes([Event.CAPTURE_STARTED]))]
            case ["getparameters", *wanted] if wanted:
                return [self._parameters(set(wanted))]
            case ["getcurrentframe", *wanted] if _COMPONENTS.issuperset(wanted):
                body = self._emulator.latest(frozenset(wanted))
                if body is None:
                    return [encode_packet(PacketType.NO_MORE_DATA, b"")]
                return [encode_packet(PacketType.DATA, body)]
            case ["streamframes", "stop"]:
                self.wanted = frozenset()
                self.destination = None
                return []
            case ["streamframes", "allframes", *wanted] if wanted and _COMPONENTS.issuperset(
                wanted
            ):
                self.wanted = frozenset(wanted)
                self.destination = None
                return []
            case ["streamframes", "allframes", to, *wanted] if wanted and _COMPONENTS.issuperset(
                wanted
            ):
                return self._stream_to(to, frozenset(wanted))
        return [encode_text(PacketType.ERROR, "Parse error")]

    def _stream_to(self, argument: str, wanted: frozenset[str]) -> list[bytes]:
        """Stream by UDP from now on.

        The frames are the reply, unless the destination is refused.
        """
        if self._transport is None:
            return []
        client, server = (
            self._transport.get_extra_info(name)[0] for name in ("peername", "sockname")
        )
        try:
            self.destination = read_destination(argument, IPv4Address(client), IPv4Address(server))
        except ProtocolError as refusal:
            self._emulator.server.count("refused")
            return [encode_text(PacketType.ERROR, str(refusal))]
        self.wanted = wanted
        return []

    def _agree(self, text: str) -> bytes:
        major, _, minor = text.partition(".")
        if not (major.isdecimal() and minor.isdecimal() and len(text) < 8):
            return encode_text(PacketType.ERROR, "Parse error")
        version = int(major), int(minor)
        if not _OLDEST_VERSION <= version <= _NEWEST_VERSION:
            return encode_text(PacketType.ERROR, "Version NOT supported")
        self._version = version
        return _reply(f"Version set to {_dotted(version)}")

    def _parameters(self, wanted: set[str]) -> bytes:
        if "skeleton" in wanted and self._version < _SKELETONS_SINCE:
            return encode_text(PacketType.ERROR, "Parse error")
        if "all" in wanted:
            wanted = {"3d", "6d", "skeleton"}
        xml = encode_parameters(self._emulator.parameters(), _dotted(self._version), wanted)
        return encode_text(PacketType.XML, xml)


class _Discovery(asyncio.DatagramProtocol):
    """Protocol that answers requests on the discovery port."""

    def __init__(self, emulator: QtmEmulator) -> None:
        self._emulator = emulator
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the socket (called by the loop)."""
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | object, int]) -> None:
        """Send the base port (called by the loop)."""
        try:
            reply_port = decode_discovery_request(data)
        except ProtocolError:
            self._emulator.server.count("malformed")
            return
        if self._transport is not None and not self._emulator.server.silent:
            reply = encode_discovery_reply(_DISCOVERY_TEXT, self._emulator.port - 1)
            self._transport.sendto(reply, (addr[0], reply_port))


def _reply(text: str) -> bytes:
    return encode_text(PacketType.COMMAND, text)


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
