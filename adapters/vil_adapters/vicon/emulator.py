"""An emulated DataStream server on real sockets: strict where the clients we know are tolerant.

It greets with the types it supports, puts the contents first, repeats descriptions until a client has
them, then lists them as unchanged, echoes pings in its next packet, and keeps at most one packet
waiting per client. The stream carries no clock, so a drift shows as frames that come faster than
their stated period, and a step as a jump of the frame number.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from ipaddress import IPv4Address
from typing import Final

from vil_adapters.emulation.emulator import EmulatedFrame, EmulatedServer, Emulator
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
from vil_bridge.core.faults import Faults
from vil_bridge.core.ports import MocapMotion

__all__ = ["TrackerEmulator"]

_ID_STEP: Final = 100
_UNKNOWN_TYPE: Final = 990_001
_UNKNOWN_BLOCK: Final = _UNKNOWN_TYPE.to_bytes(4, "little") + (5).to_bytes(4, "little") + b"\xff\x00\x01\x2b\x1a"
_OF_FRAMES: Final = tuple(
    block.type for block in (FRAME_INFO, HARDWARE_FRAME_INFO, TIMECODE, LATENCY_INFO, FRAME_RATE_INFO, OBJECT_QUALITY)
) + tuple(
    block.type for block in (LOCAL_SEGMENTS, GLOBAL_SEGMENTS, LIGHTWEIGHT_SEGMENTS, LABELED_RECONS, UNLABELED_RECONS)
)
_LARGEST_DATAGRAM: Final = 65507


class TrackerEmulator(Emulator):
    """Serves ``motion`` as a DataStream on this machine.

    Attributes:
        port: TCP port, known after the start.
        epoch_ns: bridge time at which the motion began.
    """

    def __init__(
        self, config: TrackerEmulatorConfig, motion: MocapMotion, epoch_ns: int, faults: Faults | None = None
    ) -> None:
        faults = faults or Faults()
        self.port = config.port
        self.epoch_ns = epoch_ns
        self._config = config
        self._random = random.Random(config.seed)  # noqa: S311 - noise, not secrets
        self._rate = 1.0 + (config.clock_drift_ppm + faults.drift_ppm) * 1e-6
        self._period_ns = round(NS_PER_S / (config.rate_hz * self._rate))
        self.stage = EmulatedServer(
            motion,
            config.rate_hz * self._rate,
            epoch_ns,
            faults,
            on_shot=self._on_shot,
            on_power=self._on_power,
            stream=True,
        )
        self._starts = 0
        self._first_ns = epoch_ns
        self._film = BlockGenerator(motion, config, _ID_STEP)
        self._clients: list[Client] = []
        self._listener: socket.socket | None = None
        self._group_sock: socket.socket | None = None

    @property
    def clients(self) -> int:
        """How many clients are connected."""
        return len(self._clients)

    @property
    def supported(self) -> frozenset[int]:
        """Types that the server knows."""
        light = set() if self._config.lightweight else {LIGHTWEIGHT_SEGMENTS.type}
        return frozenset((*self._film.statics, *_OF_FRAMES, CONTENTS.type)) - light

    def film(self, motion: MocapMotion) -> None:
        """Film something else from now on: subjects come and go."""
        self.stage.motion = motion
        self._film = BlockGenerator(motion, self._config, _ID_STEP * self._starts)

    def inject(self, data: bytes) -> None:
        """Send these bytes to every client."""
        for client in tuple(self._clients):
            client.deliver(data)

    def foreign_ns(self, t_ns: int) -> int:
        """The server's clock, which its frame numbers count, at an instant of the bridge's."""
        steps = self._step_frames(t_ns) * NS_PER_S / self._config.rate_hz
        return round((t_ns - self._first_ns) / self._period_ns * NS_PER_S / self._config.rate_hz + steps)

    # --- life --------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Bind and listen.

        Raises:
            OSError: the port is taken.
        """
        self._begin()

    def close(self) -> None:
        """Hang up on everybody at once; may be called twice."""
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

    def _begin(self) -> None:
        """Listen, with new ids."""
        self._starts += 1
        self.film(self.stage.motion)
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._config.bind, self.port))
            listener.listen()
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        self.port = listener.getsockname()[1]
        asyncio.get_running_loop().add_reader(listener, self.stage.guarded(self._accept))

    def _on_power(self, on: bool) -> None:
        if on:
            self._begin()
        else:
            self.close()

    def _accept(self) -> None:
        if self._listener is None:
            return
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = Client(sock, self._config.split_bytes, self._forget, self.stage.count)
        self._clients.append(client)
        self.stage.count("connections")
        client.serve(self.stage.guarded)
        self._greet(client)

    def _forget(self, client: Client) -> None:
        if client in self._clients:
            self._clients.remove(client)
        client.close()

    def _greet(self, client: Client) -> None:
        """Tell a client what there is, unless the server is just playing dead."""
        if not client.greeted and not self.stage.silent:
            client.greeted = True
            client.deliver(encode_packet(ENUMS.encode(self.supported)))

    # --- frames ------------------------------------------------------------------------------------

    def _on_shot(self, shot: EmulatedFrame) -> None:
        self._first_ns = shot.t_ns - (shot.number - 1) * self._period_ns
        frame_id = shot.number - 1 + self._step_frames(shot.t_ns)
        jitter_ms = abs(self._random.gauss(0.0, self._config.latency_jitter_ms))
        latency_ns = round((self._config.latency_ms + jitter_ms) * NS_PER_MS)
        exposure = EncodedFrame(self._film, frame_id, shot.seen, latency_ns)
        for client in tuple(self._clients):
            self._greet(client)
            if client is self._multicaster:
                self.stage.send(self._multicast, self._packet(exposure, client, b""), latency_ns=latency_ns)
            if client.pushing or client.pending:
                client.pending = max(0, client.pending - 1)
                packet = self._packet(exposure, client, client.told)
                self.stage.send(client.deliver, packet, latency_ns=latency_ns)

    def _step_frames(self, t_ns: int) -> int:
        """By how many frames the injected steps have moved the frame number: back to 0 at most, once and for all."""
        moved_ns = 0
        for size_ns, after_ns in self.stage.faults.steps:
            at_ns = self.stage.started_ns + after_ns
            if at_ns <= t_ns:
                moved_ns = max(moved_ns + size_ns, min(0, self._first_ns - at_ns))
        return round(moved_ns / self._period_ns)

    def _packet(self, exposure: EncodedFrame, client: Client, told: bytes) -> bytes:
        """One frame for one client: contents first, descriptions only until it has them."""
        statics = {kind: found for kind, found in exposure.film.statics.items() if kind in client.wanted}
        descriptions = b"".join(encoded for _, encoded in statics.values())
        repeat = told != descriptions
        if repeat:
            client.expected = descriptions
        counts = {kind: count for kind, (count, _) in statics.items() if repeat and count}
        parts = [descriptions] if repeat else []
        for kind in _OF_FRAMES:
            if kind in client.wanted:
                count, encoded = exposure.block(kind, client.filters.get(kind, frozenset()))
                if count:
                    counts[kind] = count
                    parts.append(encoded)
        if self._config.unknown_blocks:
            counts[_UNKNOWN_TYPE] = 1
            parts.insert(0, _UNKNOWN_BLOCK)
        unchanged = frozenset() if repeat else frozenset(statics)
        return encode_packet(CONTENTS.encode(Contents(counts, unchanged)), *parts)

    # --- multicast ---------------------------------------------------------------------------------

    @property
    def _multicaster(self) -> Client | None:
        """The client that started the multicast; the server sends to one group at a time."""
        return next((client for client in self._clients if client.multicast is not None), None)

    def _multicast(self, packet: bytes) -> None:
        """The same packets as datagrams, each with the descriptions, since receivers come at any time."""
        client = self._multicaster
        if client is None or client.multicast is None:
            return
        if len(packet) > _LARGEST_DATAGRAM:
            self.stage.count("oversized")
            return
        if self._group_sock is None:
            self._group_sock = self._open_group_sock()
        with contextlib.suppress(OSError):
            self._group_sock.sendto(packet, (str(IPv4Address(client.multicast.group)), client.multicast.port))

    def _open_group_sock(self) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(self._config.bind))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        sock.bind((self._config.bind, 0))
        return sock
