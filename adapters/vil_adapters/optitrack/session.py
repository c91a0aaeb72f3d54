"""One NatNet session: connects, asks, receives, judges, emits; rebuilt whenever the server is silent.

One datagram wakes the loop, everything that waits is read and stamped, and the newest frame is
emitted; the frames it overtook are counted. Commands are repeated until they are answered.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

from vil_adapters.optitrack.codec import (
    BITSTREAM_SINCE,
    NEWEST,
    Connect,
    MessageId,
    ServerInfo,
    Version,
    bitstream_reply,
    decode_echo_reply,
    decode_server_info,
    encode,
    encode_connect,
    encode_text,
    message_id,
    response_f32,
)
from vil_adapters.optitrack.config import OptitrackConfig
from vil_adapters.optitrack.continuity import Due, EchoClock, FrameOrder, Verdict, stamps_went_on
from vil_adapters.optitrack.convert import Converter, changed_subjects
from vil_adapters.optitrack.facts import (
    FrameRate,
    dotted,
    latency_facts,
    server_facts,
    silence_reason,
    subject_facts,
)
from vil_adapters.optitrack.frame import Frame, Suffix, decode_frame
from vil_adapters.optitrack.link import Link
from vil_adapters.optitrack.model import Models, decode_models
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.ports import Emit
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import SourceReset

__all__ = ["Session"]

logger = logging.getLogger(__name__)

_SILENCE_NS: Final = 1 * NS_PER_S
_WAITING_NS: Final = 3 * NS_PER_S
_CONNECT_PERIOD_NS: Final = 500 * NS_PER_MS
_KEEPALIVE_PERIOD_NS: Final = 1 * NS_PER_S
_MODELS_PERIOD_NS: Final = 1 * NS_PER_S
_CHANGE_PERIOD_NS: Final = 100 * NS_PER_MS
_UNITS_PERIOD_NS: Final = 200 * NS_PER_MS
_UNITS_PATIENCE_NS: Final = 1 * NS_PER_S
_FACTS_PERIOD_NS: Final = 1 * NS_PER_S
_MAX_DATAGRAMS_PER_WAKE: Final = 512
_UNITS_RANGE_MM: Final = (1e-3, 1e6)

_CONNECT: Final = encode_connect(Connect("VIL Bridge", natnet_version=NEWEST, bitstream=NEWEST))
_KEEPALIVE: Final = encode(MessageId.KEEPALIVE)
_DISCONNECT: Final = encode(MessageId.DISCONNECT)
_REQUEST_MODELS: Final = encode(MessageId.REQUEST_MODELDEF, b"\xff\xff\xff\xff")
_REQUEST_MODELS_3: Final = encode(MessageId.REQUEST_MODELDEF)
_MODEL_KINDS_SINCE: Final = (4, 0)
_REQUEST_UNITS: Final = encode_text(MessageId.REQUEST, "UnitsToMillimeters")
_REQUEST_BITSTREAM: Final = encode_text(MessageId.REQUEST, "Bitstream")


class Session:
    """State of one run of the source.

    Attributes:
        failed: done when a callback raised, so that ``run`` raises it.
    """

    def __init__(self, name: str, config: OptitrackConfig, link: Link, emit: Emit, status: Status) -> None:
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._name = name
        self._config = config
        self._link = link
        self._emit = emit
        self._status = status
        self._info: ServerInfo | None = None
        self._version: Version = NEWEST
        self._models: Models | None = None
        self._models_before: Models | None = None
        self._models_wanted = True
        self._models_outdated = False  # changed after the last request was sent
        self._scale_m: float | None = None
        self._converter: Converter | None = None
        self._order = FrameOrder()
        self._echo = EchoClock(name)
        self._rehandshake = True
        self._frame_ns = self._reply_ns = self._emitted_ns = self._info_ns = now_ns()
        self._connect_due = Due(_CONNECT_PERIOD_NS)
        self._keepalive_due = Due(_KEEPALIVE_PERIOD_NS)
        self._models_due = Due(_MODELS_PERIOD_NS)
        self._change_due = Due(_CHANGE_PERIOD_NS)
        self._units_due = Due(_UNITS_PERIOD_NS)
        self._facts_due = Due(_FACTS_PERIOD_NS)
        self._newest: Frame | None = None
        self._rate = FrameRate()
        self._missing: set[str] = set()
        self._warned: set[str] = set()
        self._handlers: dict[int, Callable[[bytes, int], None]] = {
            MessageId.SERVERINFO: self._on_server_info,
            MessageId.MODELDEF: self._on_models,
            MessageId.RESPONSE: self._on_response,
            MessageId.ECHORESPONSE: self._on_echo,
        }
        status.facts.update(address=f"{link.server_ip}:{link.server_port}", interface=link.local_ip)

    # --- receiving ---------------------------------------------------------------------------------

    def listen(self, sock: socket.socket) -> None:
        """Read a socket whenever something waits in it."""
        asyncio.get_running_loop().add_reader(sock, self._on_readable, sock)

    def close(self) -> None:
        """Tell the server and release the sockets."""
        self._link.send(_DISCONNECT)
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._link.sock)
        self._leave()
        self._link.close()

    def _leave(self) -> None:
        if self._link.group_sock is not None:
            asyncio.get_running_loop().remove_reader(self._link.group_sock)
        self._link.leave()

    def _on_readable(self, sock: socket.socket) -> None:
        try:
            self._drain(sock)
        except Exception as exc:
            if not self.failed.done():
                self.failed.set_exception(exc)

    def _drain(self, sock: socket.socket) -> None:
        """Read what waits, act on it, emit the newest frame."""
        newest: tuple[Frame, int] | None = None
        for _ in range(_MAX_DATAGRAMS_PER_WAKE):
            received = self._link.receive(sock)
            if received is None:
                break
            datagram, sender_ip, t_arrival_ns = received
            if sender_ip != self._link.server_ip:
                self._count("foreign", "a datagram from %s, which is not the server", sender_ip)
                continue
            try:
                frame = self._take(datagram, t_arrival_ns)
            except ProtocolError as exc:
                self._count("malformed", "a datagram: %s", exc)
                continue
            if frame is not None:
                self._status.counters["superseded"] += newest is not None
                newest = frame, t_arrival_ns
        if newest is not None:
            self._deliver(*newest)

    def _count(self, reason: str, message: str, *args: object) -> None:
        """Count every drop, warn of the first of its kind."""
        self._status.counters[reason] += 1
        if reason not in self._warned:
            self._warned.add(reason)
            logger.warning("%s: dropped " + message, self._name, *args)

    def _take(self, datagram: bytes, t_arrival_ns: int) -> Frame | None:
        """Act on one datagram; returns a frame that may be emitted."""
        identity = message_id(datagram)
        if identity == MessageId.FRAMEOFDATA:
            return self._take_frame(datagram, t_arrival_ns)
        handler = self._handlers.get(identity)
        if handler is not None:
            handler(datagram, t_arrival_ns)
        return None

    def _take_frame(self, datagram: bytes, t_arrival_ns: int) -> Frame | None:
        if self._info is None:
            return None
        try:
            frame = decode_frame(datagram, self._version)
        except ProtocolError:
            self._rehandshake = True  # perhaps the server came back with another version
            raise
        self._frame_ns = t_arrival_ns
        verdict = self._order.judge(frame.number)
        self._status.counters["lost"] = self._order.lost
        if verdict in (Verdict.DUPLICATE, Verdict.REORDERED):
            self._status.counters["duplicates" if verdict is Verdict.DUPLICATE else "reordered"] += 1
            return None
        params = frame.suffix.params
        if verdict is Verdict.RESTARTED:
            looped = bool(params & Suffix.PLAYBACK) and stamps_went_on(self._newest, frame, self._info)
            self._reset(f"frame numbers went back to {frame.number}", clock=not looped)
            if not params & Suffix.PLAYBACK:
                self._rehandshake = True
                self._forget_models()
        if params & Suffix.MODELS_CHANGED:
            self._models_wanted = self._models_outdated = True
            if self._change_due.now(t_arrival_ns):
                self._models_due.expedite()
            self._ask_models(t_arrival_ns, self._info)
        if params & Suffix.BITSTREAM_CHANGED:
            self._link.send(_REQUEST_BITSTREAM)
        return frame

    def _deliver(self, frame: Frame, t_arrival_ns: int) -> None:
        self._newest = frame
        if self._converter is None:
            self._status.counters["undescribed"] += 1
            return
        self._emit(self._converter.frame(frame, t_arrival_ns))
        self._emitted_ns = t_arrival_ns
        self._models_wanted |= self._converter.unknown
        if self._converter.nonfinite:
            self._status.counters["nonfinite"] += self._converter.nonfinite
        self._status.running()

    def _reset(self, reason: str, *, clock: bool = True) -> None:
        """Let histories start over; the clock too, unless the server's went on."""
        logger.info("%s: histories start over: %s", self._name, reason)
        self._status.counters["resets"] += 1
        self._rate.restart()
        if clock:
            self._echo.restart()
        self._emit(SourceReset(self._name, reason, clock))

    # --- replies -----------------------------------------------------------------------------------

    def _on_server_info(self, datagram: bytes, t_arrival_ns: int) -> None:
        info = decode_server_info(datagram)
        before, self._info = self._info, info
        changed = before is not None and info != before
        if before is None or changed or t_arrival_ns - self._frame_ns > _SILENCE_NS:
            self._forget_models()
            self._echo.restart()
        if before is None or changed:
            self._version = min(info.natnet_version, NEWEST)
            self._status.facts.update(server_facts(info, self._version))
        if changed:
            self._order.restart()
            self._reset(f"{info.name} now announces itself differently")
        self._info_ns = self._reply_ns = t_arrival_ns
        self._rehandshake = False
        self._follow_transport(info)
        if not info.multicast and info.natnet_version >= BITSTREAM_SINCE:
            self._link.send(_REQUEST_BITSTREAM)
        self._models_wanted = True
        self._models_due.expedite()

    def _forget_models(self) -> None:
        """Hold frames back until names and units are told anew."""
        self._converter = self._models = self._scale_m = None
        self._units_due.expedite()
        self._models_wanted = True
        self._models_due.expedite()

    def _follow_transport(self, info: ServerInfo) -> None:
        wanted = (info.group, info.data_port) if info.multicast else None
        if wanted == self._link.group:
            return
        self._leave()
        if wanted is not None:
            self.listen(self._link.join(*wanted))

    def _on_models(self, datagram: bytes, t_arrival_ns: int) -> None:
        if self._info is None:
            return
        models = decode_models(datagram, self._version)
        self._reply_ns = t_arrival_ns
        self._models_wanted = self._models_outdated
        if models == self._models and self._converter is not None:
            return
        changed = changed_subjects(self._models_before, models) if self._models_before is not None else []
        self._models = self._models_before = models
        if changed:
            self._reset(f"described anew: {', '.join(changed)}", clock=False)
        self._build_converter()

    def _on_response(self, datagram: bytes, t_arrival_ns: int) -> None:
        self._reply_ns = t_arrival_ns
        if len(datagram) == len(encode(MessageId.RESPONSE, bytes(4))):
            units_mm = response_f32(datagram)
            if self._scale_m is None and _UNITS_RANGE_MM[0] <= units_mm <= _UNITS_RANGE_MM[1]:
                self._use_units(units_mm)
            return
        version = bitstream_reply(datagram)
        if version is not None and min(version, NEWEST) != self._version:
            self._version = min(version, NEWEST)
            self._models_wanted = True
            self._models_due.expedite()
            self._status.facts["version"] = dotted(self._version)

    def _use_units(self, units_mm: float) -> None:
        self._scale_m = units_mm * 1e-3
        self._status.facts["units_mm"] = units_mm
        self._build_converter()

    def _on_echo(self, datagram: bytes, t_arrival_ns: int) -> None:
        if self._info is None or not self._info.ticks_per_s:
            return
        exchange = self._echo.reply(decode_echo_reply(datagram), t_arrival_ns, self._info.ticks_per_s)
        if exchange is None:
            self._status.counters["stray_echoes"] += 1
            return
        self._reply_ns = t_arrival_ns
        if self._echo.jumped(exchange):
            self._reset("the server's clock jumped")
        self._emit(exchange)

    def _build_converter(self) -> None:
        if self._models is None or self._scale_m is None or self._info is None:
            return
        self._converter = Converter(
            self._name,
            self._models,
            self._info,
            scale_m=self._scale_m,
            up_axis=self._config.up_axis,
            coordinates=self._config.skeleton_coordinates,
        )
        self._tell_subjects(self._models)

    # --- every 20 ms -------------------------------------------------------------------------------

    def housekeep(self, t_ns: int) -> None:
        """Send what is due and keep the status true.

        Raises:
            SourceUnavailable: another interface routes to the server now.
        """
        silent = t_ns - self._frame_ns > _SILENCE_NS
        if (silent or self._rehandshake) and self._connect_due.now(t_ns):
            if silent:
                self._link.probe()
            self._link.send(_CONNECT)
        if self._info is not None:
            self._ask(t_ns, self._info)
        if t_ns - self._emitted_ns > _WAITING_NS:
            answering = t_ns - self._reply_ns < _WAITING_NS
            repeated = None if self._converter is None else self._order.repeated
            self._status.waiting(
                silence_reason(self._link, self._info, answering=answering, frames=not silent, repeated=repeated)
            )
        if self._newest is not None and self._info is not None and self._facts_due.now(t_ns):
            self._tell_stream(self._newest, self._info)

    def _ask(self, t_ns: int, info: ServerInfo) -> None:
        if self._keepalive_due.now(t_ns) and not info.multicast:
            self._link.send(_KEEPALIVE)
        if info.ticks_per_s:
            echo = self._echo.request(t_ns)
            if echo is not None:
                self._link.send(echo)
        self._ask_models(t_ns, info)
        if self._scale_m is None and t_ns - self._info_ns > _UNITS_PATIENCE_NS:
            logger.warning("%s: the server does not tell its units; metres are assumed", self._name)
            self._use_units(1000.0)
        elif self._scale_m is None and self._units_due.now(t_ns):
            self._link.send(_REQUEST_UNITS)

    def _ask_models(self, t_ns: int, info: ServerInfo) -> None:
        if self._models_wanted and self._models_due.now(t_ns):
            self._models_outdated = False
            self._link.send(_REQUEST_MODELS if info.natnet_version >= _MODEL_KINDS_SINCE else _REQUEST_MODELS_3)

    def _tell_stream(self, newest: Frame, info: ServerInfo) -> None:
        facts = self._status.facts
        rate_hz = self._rate.measure_hz(newest, info)
        if rate_hz is not None:
            facts["frame_rate_hz"] = rate_hz
        facts["latency_ms"] = latency_facts(newest.suffix, info)
        if self._converter is not None:
            facts["skeleton_coordinates"] = self._converter.skeleton_coordinates
        if newest.unread:
            facts["unread_bytes"] = newest.unread

    def _tell_subjects(self, models: Models) -> None:
        self._status.facts.update(subject_facts(models))
        seen = list(models.by_name)
        missing = set(self._config.subjects).difference(seen)
        if missing - self._missing:
            logger.warning("%s: wanted %s; the stream has %s", self._name, sorted(missing), seen)
        self._missing = missing
