"""OptiTrack source: one NatNet session that outlives restarts of the server."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from vil_adapters.optitrack.clock_continuity import Due, stamps_went_on
from vil_adapters.optitrack.compiled_frame import StreamedFrame, read_frame
from vil_adapters.optitrack.compiled_stream import CompiledStream, StreamedBatch, compiled_stream
from vil_adapters.optitrack.config import OptitrackConfig
from vil_adapters.optitrack.convert import NatNetConverter, capture_ns
from vil_adapters.optitrack.diagnostics import (
    FrameRate,
    SilenceDiagnosis,
    latency_facts,
    silence_reason,
)
from vil_adapters.optitrack.fast_codec import decode_poses
from vil_adapters.optitrack.server_state import ServerCallbacks, ServerState
from vil_adapters.optitrack.sockets import NatNetSockets
from vil_adapters.sessions.callbacks import guarded
from vil_adapters.sessions.frame_order import DROPPED, FrameOrder, FrameVerdict
from vil_adapters.sessions.reports import DropLog, ResetReporter
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, Ticker, now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import SourceFrame
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.protocols.natnet.codec import MessageId, ServerInfo, encode, message_id
from vil_bridge.protocols.natnet.frame import Suffix
from vil_bridge.runtime.datagrams import Address, Tap
from vil_bridge.runtime.supervisor import Status

_HOUSEKEEPING_NS: Final = 20 * NS_PER_MS
_SILENCE_NS: Final = 1 * NS_PER_S
_WAITING_NS: Final = 3 * NS_PER_S
_FACTS_PERIOD_NS: Final = 1 * NS_PER_S
_MAX_DATAGRAMS_PER_WAKE: Final = 512
_FRAME: Final = int(MessageId.FRAMEOFDATA)
_NEW: Final = FrameVerdict.NEW
_CHANGED: Final = Suffix.MODELS_CHANGED | Suffix.BITSTREAM_CHANGED
_DISCONNECT: Final = encode(MessageId.DISCONNECT)


class NatNetSession:
    """State of one run of the source.

    Attributes:
        failed: done when a callback raised, so that ``run`` raises it.
    """

    def __init__(
        self, name: str, config: OptitrackConfig, link: NatNetSockets, emit: Emit, status: Status
    ) -> None:
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._name = name
        self._link = link
        self._emit = emit
        self._status = status
        self._resets = ResetReporter(name, emit, status)
        self._max_age_ns = round(config.max_age_ms * NS_PER_MS)
        self._server = ServerState(
            name,
            config,
            link,
            status,
            ServerCallbacks(self._reset, emit, self._on_announcement, self._fail),
        )
        self._order = FrameOrder()
        self._read = read_frame if config.markers == "none" else decode_poses
        self._frame_port: int | None = None
        self._emitted_ns = now_ns()
        self._facts_due = Due(_FACTS_PERIOD_NS)
        self._stream = compiled_stream(
            link.server_ip, usable=config.markers == "none" and not link.tapped
        )
        self._latest: StreamedFrame | CompiledStream | None = None
        self._stale_ms: float | None = None
        self._rate = FrameRate()
        self._drops = DropLog(name, status.counters)
        self._ticker = Ticker(_HOUSEKEEPING_NS, self._on_tick)
        self._housekept_ns = 0
        status.facts.update(address=f"{link.server_ip}:{link.server_port}", interface=link.local_ip)

    # --- receiving --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin receiving and asking."""
        self.listen(self._link.sock)
        self._ticker.start()

    def listen(self, sock: socket.socket) -> None:
        """Read a socket whenever a datagram waits in it."""
        asyncio.get_running_loop().add_reader(sock, guarded(self.failed, self._drain), sock)

    def close(self) -> None:
        """Disconnect from the server and release the sockets."""
        self._ticker.stop()
        self._server.close()
        self._link.send(_DISCONNECT)
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._link.sock)
        self._leave()
        self._link.close()

    def _leave(self) -> None:
        if self._link.group_sock is not None:
            asyncio.get_running_loop().remove_reader(self._link.group_sock)
        self._link.leave()

    def _fail(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)

    @property
    def _newest(self) -> StreamedFrame | None:
        """The frame delivered last."""
        if isinstance(self._latest, CompiledStream):
            self._latest = self._latest.frame()
        return self._latest

    def _drain(self, sock: socket.socket) -> None:
        """Read what waits, act on it, emit the newest frame.

        Usual frames in the kernel, where it is there.
        """
        stream = self._stream
        server = self._server
        if stream is None:
            self._drain_each(sock, None, None)
        elif not stream.takes(server.converter, server.info, server.version):
            self._drain_behind(stream, sock, None, None)
        elif (batch := stream.receive(sock.fileno())) is not None:
            self._take(stream, batch, sock)

    def _take(self, stream: CompiledStream, batch: StreamedBatch, sock: socket.socket) -> None:
        """Deliver what the kernel read, and go on behind it."""
        if batch.has_frame:
            self._server.frame_ns = batch.t_arrival_ns
            counters = self._status.counters
            counters["lost"] = batch.lost
            if batch.superseded:
                counters["superseded"] += batch.superseded
        converter = self._server.converter
        if batch.converted and converter is not None:
            self._latest = stream
            frame = converter.streamed(
                *(batch.number, batch.t_foreign_ns, batch.t_arrival_ns, batch.latency_ns),
                all_poses=batch.all_poses,
            )
            self._hand_on(converter, frame, batch.params, batch.unread)
            return
        held = (stream.frame(held=True), batch.t_arrival_ns) if batch.has_frame else None
        self._drain_behind(stream, sock, held, batch.odd)

    def _drain_behind(
        self,
        stream: CompiledStream,
        sock: socket.socket,
        newest: tuple[StreamedFrame, int] | None,
        received: tuple[bytes, Address, int] | None,
    ) -> None:
        """Handle what the kernel left, and let it go on behind that."""
        stream.update(self._order)
        self._latest = self._newest  # while the stream knows its layout
        self._drain_each(sock, newest, received)
        server = self._server
        stream.bind(server.converter, server.info, server.version, self._frame_port, self._order)

    def _drain_each(
        self,
        sock: socket.socket,
        newest: tuple[StreamedFrame, int] | None,
        received: tuple[bytes, Address, int] | None,
    ) -> None:
        """Read each datagram that waits behind the received one and act on both, emit the newest
        frame.
        """
        for count in range(_MAX_DATAGRAMS_PER_WAKE):
            if received is None:
                if count and not self._link.can_read(sock):
                    break
                received = self._link.receive(sock)
                if received is None:
                    break
            datagram, sender, t_arrival_ns = received
            received = None
            try:
                identity = message_id(datagram) if sender[0] == self._link.server_ip else None
                if identity is None or not self._is_from_server(
                    identity, sender[1], len(datagram), t_arrival_ns
                ):
                    self._drops.count(
                        "foreign", "a datagram from %s:%d, which is not the server", *sender
                    )
                    continue
                frame = self._handle(identity, datagram, t_arrival_ns)
            except ProtocolError as exc:
                self._drops.count("malformed", "a datagram: %s", exc)
                continue
            if frame is not None:
                if newest is not None:
                    self._status.counters["superseded"] += 1
                newest = frame, t_arrival_ns
        if newest is not None:
            self._deliver(*newest)

    def _is_from_server(self, identity: int, port: int, size: int, t_arrival_ns: int) -> bool:
        """Return whether a datagram of the server's address comes from a port that the server uses
        for its kind.

        Answers come from the command port. Frames come from the announced data port; behind a relay
        or an address translation that port is another one: then the first port that sends frames is
        it, until it is silent.

        Raises:
            ProtocolError: the datagram comes from another port of the server than its kind.
        """
        is_frame = identity == _FRAME
        if is_frame and port == self._frame_port:
            return True
        info = self._server.info
        if info is None and is_frame:
            return True
        silent = t_arrival_ns - self._server.frame_ns > _SILENCE_NS
        if (
            is_frame
            and info is not None
            and (self._frame_port is None or silent or port == info.data_port)
        ):
            self._frame_port = port
        own_port: int | None = self._link.server_port
        what = "an answer"
        if is_frame:
            own_port = self._frame_port
            what = "a frame"
        if port == own_port:
            return True
        if port in (self._frame_port, self._link.server_port):
            raise ProtocolError(f"{what} from port {port}", length=size)
        return False

    def _handle(self, identity: int, datagram: bytes, t_arrival_ns: int) -> StreamedFrame | None:
        """Handle one datagram; return a frame that may be emitted."""
        if identity == _FRAME:
            return self._handle_frame(datagram, t_arrival_ns)
        handler = self._server.handlers.get(identity)
        if handler is not None:
            handler(datagram, t_arrival_ns)
        return None

    def _handle_frame(self, datagram: bytes, t_arrival_ns: int) -> StreamedFrame | None:
        info = self._server.info
        if info is None:
            return None
        try:
            frame = self._read(datagram, self._server.version)
        except ProtocolError:
            self._server.connect_again()  # perhaps the server came back with another version
            raise
        self._server.frame_ns = t_arrival_ns
        verdict = self._order.judge(frame.number, t_arrival_ns, capture_ns(frame.suffix, info))
        params = frame.suffix.params
        if verdict is not _NEW:
            if verdict in DROPPED:
                self._status.counters[DROPPED[verdict]] += 1
                return None
            looped = bool(params & Suffix.PLAYBACK) and stamps_went_on(self._newest, frame, info)
            self._reset(f"frame numbers go on from {frame.number}", not looped)
            if not params & Suffix.PLAYBACK:
                self._server.connect_again()
        self._status.counters["lost"] = self._order.lost
        if params & _CHANGED:
            self._on_changes(params, t_arrival_ns)
        return frame

    def _on_changes(self, params: int, t_arrival_ns: int) -> None:
        if params & Suffix.MODELS_CHANGED:
            self._server.models_changed(t_arrival_ns)
        if params & Suffix.BITSTREAM_CHANGED:
            self._server.bitstream_changed()

    def _deliver(self, frame: StreamedFrame, t_arrival_ns: int) -> None:
        self._latest = frame
        converter = self._server.converter
        info = self._server.info
        if converter is None or info is None:
            self._status.counters["undescribed"] += 1
            return
        self._hand_on(
            converter, converter.frame(frame, t_arrival_ns), frame.suffix.params, frame.unread
        )

    def _hand_on(
        self, converter: NatNetConverter, converted: SourceFrame, params: int, unread: int
    ) -> None:
        t_arrival_ns = converted.t_arrival_ns
        t_foreign_ns = converted.t_foreign_ns
        if params & Suffix.PLAYBACK:  # a recording has its old stamps
            t_foreign_ns = None
        if self._is_stale(t_foreign_ns, t_arrival_ns):
            self._status.counters["stale"] += 1
            return
        self._emit(converted)
        self._emitted_ns = t_arrival_ns
        if converter.unknown:
            self._server.want_models(at_once=False)
        if converter.nonfinite or converter.implausible:
            self._report_bad_poses(converter)
        if unread:
            self._status.facts["unread_bytes"] = unread
            self._drops.warn_once(
                "unread", "%d bytes of each frame are of a newer layout and skipped", unread
            )
        self._status.running()
        if t_arrival_ns - self._housekept_ns >= _HOUSEKEEPING_NS:
            # Frames come: no wake-up is needed for that.
            self._ticker.postpone(t_arrival_ns + 2 * _HOUSEKEEPING_NS)
            self._housekeep(t_arrival_ns)

    def _report_bad_poses(self, converter: NatNetConverter) -> None:
        for reason, count in (
            ("nonfinite", converter.nonfinite),
            ("implausible", converter.implausible),
        ):
            if count:
                self._status.counters[reason] += count
                self._drops.warn_once(
                    reason, "%d poses of a frame are %s; their bodies are untracked", count, reason
                )

    def _is_stale(self, t_foreign_ns: int | None, t_arrival_ns: int) -> bool:
        """Return whether a frame was captured too long ago."""
        self._stale_ms = None
        if t_foreign_ns is None:
            return False
        age_ns = self._server.echo.age_ns(t_foreign_ns, t_arrival_ns)
        if age_ns is None or age_ns <= self._max_age_ns:
            return False
        self._stale_ms = age_ns / NS_PER_MS
        return True

    def _reset(self, reason: str, clock: bool) -> None:
        """Restart histories; the clock too, unless the server's continued."""
        self._rate.restart()
        if clock:
            self._server.echo.restart()
        self._resets.report(reason, clock=clock)

    def _on_announcement(self, info: ServerInfo, changed: bool) -> None:
        """Receive from where the frames are sent."""
        if changed:
            self._order.restart()
            self._reset(f"{info.name} now announces itself differently", True)
        wanted = (info.group, info.data_port) if info.multicast else None
        if wanted != self._link.group:
            self._leave()
            if wanted is not None:
                self.listen(self._link.join(*wanted))

    # --- every 20 ms, with the next frame after that where frames come ----------------------------

    def _on_tick(self, _due_ns: int, _missed: int) -> None:
        """Send due requests and update the status."""
        guarded(self.failed, self._housekeep)(now_ns())

    def _housekeep(self, t_ns: int) -> None:
        self._housekept_ns = t_ns
        server = self._server
        server.housekeep(t_ns)
        if t_ns - self._emitted_ns > _WAITING_NS:
            if self._stream is not None:
                self._stream.update(self._order)
            diagnosis = SilenceDiagnosis(
                answering=t_ns - server.reply_ns < _WAITING_NS,
                frames=t_ns - server.frame_ns <= _SILENCE_NS,
                repeated=None if server.converter is None else self._order.repeated,
                stale_ms=self._stale_ms,
            )
            self._status.waiting(silence_reason(self._link, server.info, diagnosis))
        if self._latest is not None and server.info is not None and self._facts_due.now(t_ns):
            self._report_stream(server.info, server.converter)

    def _report_stream(self, info: ServerInfo, converter: NatNetConverter | None) -> None:
        facts = self._status.facts
        newest = self._newest
        assert newest is not None, "asked before"
        rate_hz = self._rate.measure_hz(newest, info)
        if rate_hz is not None:
            facts["frame_rate_hz"] = rate_hz
        facts["latency_ms"] = latency_facts(newest.suffix, info)
        if converter is not None:
            facts["skeleton_coordinates"] = converter.skeleton_coordinates


class OptitrackSource:
    """Rigid bodies and skeletons from Motive (implements ``PoseSource`` and ``DatagramSource``)."""

    def __init__(self, name: str, config: OptitrackConfig) -> None:
        self.name = name
        self.tap: Tap | None = None
        self._config = config

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Receive until cancelled.

        Raises:
            SourceUnavailable: the server's name or interface is unknown, or a group cannot be
                joined.
        """
        config = self._config
        link = await NatNetSockets.open(
            config.server, config.command_port, config.interface, self.tap
        )
        session = NatNetSession(self.name, config, link, emit, status)
        try:
            session.start()
            await session.failed
        finally:
            session.close()
