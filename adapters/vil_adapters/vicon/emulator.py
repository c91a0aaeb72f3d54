"""Emulated DataStream server on real sockets: strict where known clients are tolerant.

It greets with the types it supports, sends the contents first, repeats descriptions until a client
has them, then lists them as unchanged, echoes pings in its next packet, and queues at most one
packet per client. The stream carries no clock: a drift shows as frames that come faster than their
stated period, a step as a jump of the frame number.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from ipaddress import IPv4Address
from typing import Final

from vil_adapters.emulation.emulator import EmulatedFrame, Emulator
from vil_adapters.vicon.blocks import (
    FRAME_INFO,
    FRAME_RATE_INFO,
    GLOBAL_SEGMENTS,
    HARDWARE_FRAME_INFO,
    LABELED_RECONS,
    LATENCY_INFO,
    LIGHTWEIGHT_SEGMENTS,
    LOCAL_SEGMENTS,
    OBJECT_QUALITY,
    TIMECODE,
    UNLABELED_RECONS,
)
from vil_adapters.vicon.codec import CONTENTS, ENUMS, Contents, encode_packet
from vil_adapters.vicon.config import TrackerEmulatorConfig
from vil_adapters.vicon.emulator_clients import Client
from vil_adapters.vicon.emulator_frames import BlockGenerator, EncodedFrame
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion
from vil_bridge.protocols.sockets import send_multicast_from, tcp_listener, udp_socket

_ID_STEP: Final = 100
_UNKNOWN_TYPE: Final = 990_001
_UNKNOWN_BLOCK: Final = (
    _UNKNOWN_TYPE.to_bytes(4, "little") + (5).to_bytes(4, "little") + b"\xff\x00\x01\x2b\x1a"
)
_OF_FRAMES: Final = tuple(
    block.type
    for block in (
        FRAME_INFO,
        HARDWARE_FRAME_INFO,
        TIMECODE,
        LATENCY_INFO,
        FRAME_RATE_INFO,
        OBJECT_QUALITY,
    )
) + tuple(
    block.type
    for block in (
        LOCAL_SEGMENTS,
        GLOBAL_SEGMENTS,
        LIGHTWEIGHT_SEGMENTS,
        LABELED_RECONS,
        UNLABELED_RECONS,
    )
)
_LARGEST_DATAGRAM: Final = 65507


class TrackerEmulator(Emulator):
    """Server of ``motion`` as a DataStream on this machine.

    Attributes:
        port: TCP port, known after the start.
    """

    def __init__(
        self,
        config: TrackerEmulatorConfig,
        motion: MocapMotion,
        epoch_ns: int,
        faults: Faults | None = None,
    ) -> None:
        rate = 1.0 + (config.clock_drift_ppm + (faults or Faults()).drift_ppm) * 1e-6
        super().__init__(motion, config.rate_hz * rate, epoch_ns, faults, stream=True)
        self.port = config.port
        self._config = config
        self._random = random.Random(config.seed)  # noqa: S311 - noise, not secrets
        self._period_ns = round(NS_PER_S / (config.rate_hz * rate))
        self._starts = 0
        self._first_ns = epoch_ns
        self._generator = BlockGenerator(motion, config, _ID_STEP)
        self._clients: list[Client] = []
        self._listener: socket.socket | None = None
        self._group_sock: socket.socket | None = None

    @property
    def clients(self) -> int:
        """Return the number of connected clients."""
        return len(self._clients)

    @property
    def supported(self) -> frozenset[int]:
        """Return the types that the server knows."""
        light = set() if self._config.lightweight else {LIGHTWEIGHT_SEGMENTS.type}
        return frozenset((*self._generator.statics, *_OF_FRAMES, CONTENTS.type)) - light

    def set_motion(self, motion: MocapMotion) -> None:
        """Stream another motion from now on, with its own subjects."""
        self.server.motion = motion
        self._generator = BlockGenerator(motion, self._config, _ID_STEP * self._starts)

    def inject(self, data: bytes) -> None:
        """Send these bytes to every client."""
        for client in tuple(self._clients):
            client.deliver(data)

    def foreign_ns(self, t_ns: int) -> int:
        """Return the server's clock, which its frame numbers count, at a bridge time."""
        steps = self._step_frames(t_ns) * NS_PER_S / self._config.rate_hz
        return round(
            (t_ns - self._first_ns) / self._period_ns * NS_PER_S / self._config.rate_hz + steps
        )

    # --- life -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Disconnect all clients at once; may be called twice."""
        for client in self._clients:
            client.close()
        self._clients.clear()
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        if self._group_sock is not None:
            self._group_sock.close()
            self._group_sock = None

    def listen(self) -> None:
        """Listen, with new ids.

        Raises:
            OSError: the port is taken.
        """
        self._starts += 1
        self.set_motion(self.server.motion)
        self._listener = tcp_listener(self._config.bind, self.port)
        self.port = self._listener.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._listener, self.server.guarded(self._accept))

    def _accept(self) -> None:
        if self._listener is None:
            return
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = Client(sock, self._config.split_bytes, self._remove, self.server.count)
        self._clients.append(client)
        self.server.count("connections")
        client.serve(self.server.guarded)
        self._greet(client)

    def _remove(self, client: Client) -> None:
        if client in self._clients:
            self._clients.remove(client)
        client.close()

    def _greet(self, client: Client) -> None:
        """Send a client the supported types, unless the server is half-open."""
        if not client.greeted and not self.server.silent:
            client.greeted = True
            client.deliver(encode_packet(ENUMS.encode(self.supported)))

    # --- frames -----------------------------------------------------------------------------------

    def _on_frame(self, frame: EmulatedFrame) -> None:
        self._first_ns = frame.t_ns - (frame.number - 1) * self._period_ns
        frame_id = frame.number - 1 + self._step_frames(frame.t_ns)
        jitter_ms = abs(self._random.gauss(0.0, self._config.latency_jitter_ms))
        latency_ns = round((self._config.latency_ms + jitter_ms) * NS_PER_MS)
        encoded = EncodedFrame(self._generator, frame_id, frame.seen, latency_ns)
        for client in tuple(self._clients):
            self._greet(client)
            if client is self._multicaster:
                self.server.send(
                    self._multicast, self._packet(encoded, client, b""), latency_ns=latency_ns
                )
            if client.pushing or client.pending:
                client.pending = max(0, client.pending - 1)
                packet = self._packet(encoded, client, client.described)
                self.server.send(client.deliver, packet, latency_ns=latency_ns)

    def _step_frames(self, t_ns: int) -> int:
        """Return by how many frames the injected steps have moved the frame number.

        Back to 0 at most.
        """
        moved_ns = 0
        for size_ns, after_ns in self.server.faults.steps:
            at_ns = self.server.started_ns + after_ns
            if at_ns <= t_ns:
                moved_ns = max(moved_ns + size_ns, min(0, self._first_ns - at_ns))
        return round(moved_ns / self._period_ns)

    def _packet(self, frame: EncodedFrame, client: Client, described: bytes) -> bytes:
        """Return one frame for one client: contents first, descriptions only until it has them."""
        statics = {
            kind: found for kind, found in frame.generator.statics.items() if kind in client.wanted
        }
        descriptions = b"".join(encoded for _, encoded in statics.values())
        repeat = described != descriptions
        if repeat:
            client.expected = descriptions
        counts = {kind: count for kind, (count, _) in statics.items() if repeat and count}
        parts = [descriptions] if repeat else []
        for kind in _OF_FRAMES:
            if kind in client.wanted:
                count, encoded = frame.block(kind, client.filters.get(kind, frozenset()))
                if count:
                    counts[kind] = count
                    parts.append(encoded)
        if self._config.unknown_blocks:
            counts[_UNKNOWN_TYPE] = 1
            parts.insert(0, _UNKNOWN_BLOCK)
        unchanged = frozenset() if repeat else frozenset(statics)
        return encode_packet(CONTENTS.encode(Contents(counts, unchanged)), *parts)

    # --- multicast --------------------------------------------------------------------------------

    @property
    def _multicaster(self) -> Client | None:
        """Return the client that started the multicast; the server sends to one group at a time."""
        return next((client for client in self._clients if client.multicast is not None), None)

    def _multicast(self, packet: bytes) -> None:
        """Send a packet as a datagram, with the descriptions, since receivers come at any time."""
        client = self._multicaster
        if client is None or client.multicast is None:
            return
        if len(packet) > _LARGEST_DATAGRAM:
            self.server.count("oversized")
            return
        if self._group_sock is None:
            self._group_sock = udp_socket(self._config.bind)
            send_multicast_from(self._group_sock, self._config.bind)
        with contextlib.suppress(OSError):
            self._group_sock.sendto(
                packet, (str(IPv4Address(client.multicast.group)), client.multicast.port)
            )
