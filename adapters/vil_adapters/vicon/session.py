"""One connection to a DataStream server: handshake, requests, pings, packets."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address
from typing import Final

from vil_adapters.common.callbacks import guarded
from vil_adapters.common.sockets import multicast_receiver, waiting_datagrams
from vil_adapters.vicon.blocks import (
    APPLICATION_INFO,
    FRAME_INFO,
    FRAME_RATE_INFO,
    GLOBAL_SEGMENTS,
    HARDWARE_FRAME_INFO,
    LABELED_RECONS,
    LATENCY_INFO,
    LIGHTWEIGHT_SEGMENTS,
    OBJECT_QUALITY,
    STREAM_INFO,
    SUBJECT_INFO,
    SUBJECT_SCALE,
    SUBJECT_TOPOLOGY,
    TIMECODE,
    UNLABELED_RECONS,
)
from vil_adapters.vicon.codec import (
    CONTENTS,
    ENUMS,
    NEXT_FRAME,
    PING,
    REQUEST_FRAME,
    START_MULTICAST,
    Blocks,
    Deframer,
    MulticastSender,
    encode_packet,
    split_datagram,
    split_packet,
    types,
)
from vil_adapters.vicon.config import ViconConfig
from vil_adapters.vicon.connection import ViconConnection
from vil_adapters.vicon.receiver import ViconReceiver
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.supervisor import Status

__all__ = ["ViconSession", "wanted_types"]

_SILENCE_NS: Final = 1 * NS_PER_S
_ASK_AGAIN_NS: Final = 100 * NS_PER_MS
_PING_PERIOD_S: Final = 0.1
_MAX_PINGS: Final = 64

_ALWAYS: Final = types(
    CONTENTS,
    STREAM_INFO,
    SUBJECT_INFO,
    FRAME_INFO,
    TIMECODE,
    LATENCY_INFO,
    HARDWARE_FRAME_INFO,
    APPLICATION_INFO,
    FRAME_RATE_INFO,
    OBJECT_QUALITY,
    SUBJECT_TOPOLOGY,
    SUBJECT_SCALE,
)
_START_PUSH: Final = encode_packet(REQUEST_FRAME.encode(1))
_ASK_ONE: Final = {"pull": encode_packet(REQUEST_FRAME.encode(0)), "prefetch": encode_packet(NEXT_FRAME.encode(1))}


def wanted_types(config: ViconConfig, supported: frozenset[int]) -> frozenset[int]:
    """Return the types to request of a server, out of those that it supports."""
    light = config.lightweight and LIGHTWEIGHT_SEGMENTS.type in supported
    wanted = _ALWAYS | {LIGHTWEIGHT_SEGMENTS.type if light else GLOBAL_SEGMENTS.type}
    if config.markers != "none":
        wanted |= {LABELED_RECONS.type}
    if config.markers == "all":
        wanted |= {UNLABELED_RECONS.type}
    return frozenset(wanted & supported | {CONTENTS.type})


class ViconSession:
    """One connection until it ends; the receiver outlives it.

    Attributes:
        over: done when the connection is no longer usable; raises what a callback raised.
        trouble: why it is over.
    """

    def __init__(self, config: ViconConfig, link: ViconConnection, receiver: ViconReceiver, status: Status) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.trouble = ""
        self._config = config
        self._link = link
        self._receiver = receiver
        self._status = status
        self._deframer = Deframer()
        self._greeted = False
        self._framed = False
        self._packet_ns = self._asked_ns = now_ns()
        self._pings: set[int] = set()
        self._ping_timer: asyncio.TimerHandle | None = None
        self._group_sock: socket.socket | None = None

    def open(self) -> None:
        """Begin to read and greet.

        Raises:
            SourceUnavailable: the multicast group cannot be joined.
        """
        loop = asyncio.get_running_loop()
        self._receiver.connected()
        loop.add_reader(self._link.sock, guarded(self.over, self._drain))
        if self._config.multicast_group:
            self._group_sock = multicast_receiver(
                self._config.multicast_group, self._config.multicast_port, self._link.local_ip
            )
            loop.add_reader(self._group_sock, guarded(self.over, self._drain_group))

    def close(self) -> None:
        """Stop reading and release the sockets."""
        loop = asyncio.get_running_loop()
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        if self._group_sock is not None:
            loop.remove_reader(self._group_sock)
            self._group_sock.close()
        loop.remove_reader(self._link.sock)
        self._link.close()

    def housekeep(self, t_ns: int) -> None:
        """End the session when the server has fallen silent; ask again for a frame that never came."""
        quiet_ns = t_ns - self._packet_ns
        if quiet_ns > _SILENCE_NS:
            self._end(self.silence)
        elif self._greeted and t_ns - self._asked_ns > _ASK_AGAIN_NS:
            self._request_frame(t_ns)

    @property
    def silence(self) -> str:
        """Return what has arrived so far, and what to check."""
        if not self._greeted:
            return "connected, but it sends nothing: is that port a DataStream server's?"
        if not self._framed:
            return "it answers, but sends no frames: is the system live, neither paused nor reviewing a recording?"
        if now_ns() - self._packet_ns < _SILENCE_NS:
            return "frames arrive, but they describe no subject that could be read"
        return "connected, but silent: has the system paused, or the network broken?"

    # --- receiving ---------------------------------------------------------------------------------

    def _end(self, trouble: str) -> None:
        if not self.over.done():
            self.trouble = trouble
            self.over.set_result(None)

    def _drain(self) -> None:
        chunks = self._link.receive()
        t_arrival_ns = now_ns()
        for chunk in chunks:
            self._deframer.feed(chunk)
        try:
            for content in self._deframer.packets():
                self._handle(content, t_arrival_ns)
        except ProtocolError as exc:
            self._receiver.malformed("the connection", exc)
            self._end(f"it sends something else than a DataStream ({exc})")
        self._deliver(t_arrival_ns)
        if self._link.ended:
            self._end(self._link.ended)

    def _drain_group(self) -> None:
        assert self._group_sock is not None
        for datagram, (sender_ip, _), t_arrival_ns in waiting_datagrams(self._group_sock):
            if sender_ip != self._link.server_ip:
                self._status.counters["foreign"] += 1
                continue
            try:
                self._handle_blocks(split_datagram(datagram), t_arrival_ns)
            except ProtocolError as exc:
                self._receiver.malformed("a datagram", exc)
        self._deliver(now_ns())

    def _handle(self, content: bytes, t_arrival_ns: int) -> None:
        try:
            self._handle_blocks(split_packet(content), t_arrival_ns)
        except ProtocolError as exc:
            self._receiver.malformed("a packet", exc)

    def _handle_blocks(self, blocks: Blocks, t_arrival_ns: int) -> None:
        self._packet_ns = t_arrival_ns
        supported = ENUMS.first(blocks)
        if supported is not None:
            self._greet(frozenset(supported), t_arrival_ns)
        for token in PING.all(blocks):
            if token in self._pings:
                self._pings.discard(token)
                self._receiver.pings.add(t_arrival_ns - token)
        if self._receiver.handle(blocks, t_arrival_ns):
            self._framed = True
            self._request_frame(t_arrival_ns)

    def _deliver(self, t_arrival_ns: int) -> None:
        try:
            self._receiver.deliver()
        except ProtocolError as exc:
            self._packet_ns = t_arrival_ns
            self._receiver.malformed("a frame", exc)

    # --- asking ------------------------------------------------------------------------------------

    def _greet(self, supported: frozenset[int], t_ns: int) -> None:
        """Answer the server's greeting with the requested types, and start the stream."""
        self._link.send(encode_packet(ENUMS.encode(wanted_types(self._config, supported))))
        if not self._greeted:
            self._greeted = True
            if self._group_sock is not None:
                self._link.send(encode_packet(START_MULTICAST.encode(self._multicast())))
            elif self._config.mode == "push":
                self._link.send(_START_PUSH)
            self._request_frame(t_ns)
            self._ping()

    def _multicast(self) -> MulticastSender:
        group, source = IPv4Address(self._config.multicast_group), IPv4Address(self._link.server_ip)
        return MulticastSender(int(group), int(source), self._config.multicast_port)

    def _request_frame(self, t_ns: int) -> None:
        self._asked_ns = t_ns
        if self._group_sock is None and self._config.mode in _ASK_ONE:
            self._link.send(_ASK_ONE[self._config.mode])

    def _ping(self) -> None:
        """Send a ping and schedule the next."""
        t_ns = now_ns()
        if len(self._pings) >= _MAX_PINGS:
            self._pings.clear()
        self._pings.add(t_ns)
        self._link.send(encode_packet(PING.encode(t_ns)))
        self._ping_timer = asyncio.get_running_loop().call_later(_PING_PERIOD_S, self._ping)
