"""Vicon source: DataStream connections, one after the other, to a server that may restart."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address
from typing import Final

from vil_adapters.sessions.callbacks import guarded
from vil_adapters.sessions.servers import find, route, trouble_text
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
from vil_adapters.vicon.convert import ViconConverter
from vil_adapters.vicon.receiver import ViconReceiver
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.protocols.sockets import multicast_receiver, waiting_datagrams
from vil_bridge.runtime.supervisor import Status

_RECEIVE_BYTES: Final = 1 << 18
_MAX_READS_PER_WAKE: Final = 64
_MAX_UNSENT_BYTES: Final = 1 << 16


class ViconConnection:
    """A connected socket.

    Attributes:
        server_ip: of the peer. local_ip: interface of the route there.
        ended: the peer closed or the network broke; empty while neither happened.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.server_ip = str(sock.getpeername()[0])
        self.local_ip = str(sock.getsockname()[0])
        self.ended = ""
        self._unsent = b""

    def receive(self) -> list[bytes]:
        """Return what has arrived, in order."""
        chunks: list[bytes] = []
        for _ in range(_MAX_READS_PER_WAKE):
            try:
                chunk = self.sock.recv(_RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as exc:
                self.ended = trouble_text(exc)
                break
            if not chunk:
                self.ended = "the server closed the connection"
                break
            chunks.append(chunk)
            if len(chunk) < _RECEIVE_BYTES:
                break  # nothing more waits, and an exception that says so takes 15 us
        return chunks

    def send(self, packet: bytes) -> None:
        """Send, or hold what the socket does not accept yet.

        A peer that accepts nothing is given up.
        """
        self._unsent += packet
        try:
            self._unsent = self._unsent[self.sock.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            if len(self._unsent) > _MAX_UNSENT_BYTES:
                self.ended = "the server accepts no more requests"
        except OSError as exc:
            self.ended = trouble_text(exc)

    def close(self) -> None:
        """Release the socket."""
        self.sock.close()


async def connect(address: tuple[str, int], interface: str, timeout_s: float) -> ViconConnection:
    """Connect within a time-out.

    Raises:
        OSError: refused, no route, or (TimeoutError) no answer.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if interface != "auto":
            sock.bind((interface, 0))
        async with asyncio.timeout(timeout_s):
            await asyncio.get_running_loop().sock_connect(sock, address)
        return ViconConnection(sock)
    except BaseException:
        sock.close()
        raise


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
_ASK_ONE: Final = {
    "pull": encode_packet(REQUEST_FRAME.encode(0)),
    "prefetch": encode_packet(NEXT_FRAME.encode(1)),
}


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

    def __init__(
        self, config: ViconConfig, link: ViconConnection, receiver: ViconReceiver, status: Status
    ) -> None:
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
        """End the session when the server has fallen silent.

        Ask again for a frame that never came.
        """
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
            return (
                "it answers, but sends no frames: is the system live, neither paused nor "
                "reviewing a recording?"
            )
        if now_ns() - self._packet_ns < _SILENCE_NS:
            return "frames arrive, but they describe no subject that could be read"
        return "connected, but silent: has the system paused, or the network broken?"

    # --- receiving --------------------------------------------------------------------------------

    def _end(self, trouble: str) -> None:
        if not self.over.done():
            self.trouble = trouble
            self.over.set_result(None)

    def _drain(self) -> None:
        if self.over.done():
            return  # the stream is broken or at its end: what follows in it says nothing
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

    # --- asking -----------------------------------------------------------------------------------

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
        group = IPv4Address(self._config.multicast_group)
        source = IPv4Address(self._link.server_ip)
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


_PROBE_PERIOD_S: Final = 0.5
_CONNECT_TIMEOUT_S: Final = 1.5
_HOUSEKEEPING_S: Final = 0.05
_WAITING_NS: Final = 1 * NS_PER_S


class ViconSource:
    """Objects, persons and markers from a DataStream server (implements ``PoseSource``)."""

    def __init__(self, name: str, config: ViconConfig) -> None:
        self.name = name
        self._config = config

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Receive until cancelled.

        Raises:
            SourceUnavailable: the server's name is unknown, or a multicast group cannot be joined.
        """
        config = self._config
        converter = ViconConverter(self.name, segments=config.segments, markers=config.markers)
        multicast = bool(config.multicast_group)
        receiver = ViconReceiver(
            self.name, converter, config.subjects, emit, status, datagrams=multicast
        )
        receiver.emitted_ns = now_ns()
        mode: str = config.mode
        if multicast:
            mode = "multicast"
        while True:
            tried_ns = now_ns()
            address = await find(config.server, config.port)
            interface: str = config.interface
            if interface == "auto":
                interface = route(address)
            status.facts.update(
                address=f"{address[0]}:{address[1]}", interface=interface, mode=mode
            )
            try:
                link = await connect(address, config.interface, _CONNECT_TIMEOUT_S)
            except OSError as exc:
                trouble = trouble_text(exc)
            else:
                trouble = await self._follow(link, receiver, status)
                status.counters["disconnects"] += 1
            self._report_silence(receiver, status, trouble)
            await asyncio.sleep(max(0.0, _PROBE_PERIOD_S - (now_ns() - tried_ns) / NS_PER_S))

    async def _follow(self, link: ViconConnection, receiver: ViconReceiver, status: Status) -> str:
        """Use a connection until it ends; return the reason."""
        session = ViconSession(self._config, link, receiver, status)
        try:
            session.open()
            while not session.over.done():
                await asyncio.wait((session.over,), timeout=_HOUSEKEEPING_S)
                session.housekeep(now_ns())
                self._report_silence(receiver, status, session.silence)
            session.over.result()
            return session.trouble
        finally:
            session.close()

    def _report_silence(self, receiver: ViconReceiver, status: Status, trouble: str) -> None:
        if now_ns() - receiver.emitted_ns <= _WAITING_NS:
            return
        via = ""
        if interface := status.facts.get("interface"):
            via = f" via interface {interface}"
        status.waiting(
            f"no frames from {status.facts['address']}{via} ({trouble}): does Tracker, "
            "Nexus or Shogun run there with "
            f"its DataStream on port {self._config.port}, and does its firewall let TCP in?"
        )
