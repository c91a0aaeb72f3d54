"""Requests to a NatNet server, and what it announced of itself, its clock and its subjects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final

from vil_adapters.optitrack.clock_continuity import Due, EchoClock
from vil_adapters.optitrack.commands import Commands
from vil_adapters.optitrack.config import OptitrackConfig
from vil_adapters.optitrack.convert import NatNetConverter, changed_subjects
from vil_adapters.optitrack.diagnostics import dotted, server_facts, subject_facts
from vil_adapters.optitrack.sockets import NatNetSockets
from vil_adapters.sessions.reports import DropLog, ExpectedSubjects
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.types import ClockExchange
from vil_bridge.protocols.natnet.codec import (
    BITSTREAM_SINCE,
    NEWEST,
    OLDEST,
    TICKS_SINCE,
    Connect,
    MessageId,
    ServerInfo,
    Version,
    decode_echo_reply,
    decode_server_info,
    encode,
    encode_connect,
)
from vil_bridge.protocols.natnet.model import BodyDescription, Models, SkeletonDescription
from vil_bridge.protocols.natnet.model_codec import decode_models
from vil_bridge.runtime.supervisor import Status

logger = logging.getLogger(__name__)

_SILENCE_NS: Final = 1 * NS_PER_S
_CONNECT_PERIOD_NS: Final = 500 * NS_PER_MS
_KEEPALIVE_PERIOD_NS: Final = 1 * NS_PER_S
_MODELS_PERIOD_NS: Final = 1 * NS_PER_S
_CHANGE_PERIOD_NS: Final = 100 * NS_PER_MS
_MODELS_CHECK_PERIOD_NS: Final = 5 * NS_PER_S
_UNITS_ROUNDS: Final = 3
_UNITS_PATIENCE_NS: Final = 200 * NS_PER_MS
_METRES_MM: Final = 1000.0

_CONNECT: Final = encode_connect(Connect("VIL Bridge", natnet_version=NEWEST, bitstream=NEWEST))
_KEEPALIVE: Final = encode(MessageId.KEEPALIVE)
_REQUEST_MODELS: Final = encode(MessageId.REQUEST_MODELDEF, b"\xff\xff\xff\xff")
_REQUEST_MODELS_3: Final = encode(MessageId.REQUEST_MODELDEF)
_MODEL_KINDS_SINCE: Final = (4, 0)


@dataclass(frozen=True, slots=True)
class ServerCallbacks:
    """Callbacks of the session: a reset, a clock exchange, an announcement, a failure."""

    reset: Callable[[str, bool], None]
    exchange: Callable[[ClockExchange], None]
    announced: Callable[[ServerInfo, bool], None]
    failed: Callable[[BaseException], None]


class ServerState:
    """State of one server: connects, sends requests and stores the answers.

    Attributes:
        info: what the server announced; None before. version: layout of what it sends.
        converter: None while descriptions or units are not known.
        frame_ns: arrival of the last frame, set by the session. reply_ns: arrival of the last
            answer.
    """

    def __init__(
        self,
        name: str,
        config: OptitrackConfig,
        link: NatNetSockets,
        status: Status,
        listener: ServerCallbacks,
    ) -> None:
        self.info: ServerInfo | None = None
        self.version: Version = NEWEST
        self.converter: NatNetConverter | None = None
        self.frame_ns = self.reply_ns = now_ns()
        self.echo = EchoClock(name)
        self.commands = Commands(link.send)
        self._name = name
        self._config = config
        self._link = link
        self._status = status
        self._listener = listener
        self._models: Models | None = None
        self._models_before: Models | None = None
        self._models_wanted = True
        self._models_outdated = False  # changed after the last request was sent
        self._described_by: tuple[Version, bytes] | None = None
        self._scale_m: float | None = None
        self._announced_ns = 0
        self._rehandshake = True
        self._expected = ExpectedSubjects(name, config.subjects)
        self._log = DropLog(name, status.counters)
        self._connect_due = Due(_CONNECT_PERIOD_NS)
        self._keepalive_due = Due(_KEEPALIVE_PERIOD_NS)
        self._models_due = Due(_MODELS_PERIOD_NS)
        self._models_check_due = Due(_MODELS_CHECK_PERIOD_NS)
        self._change_due = Due(_CHANGE_PERIOD_NS)
        self._tasks: set[asyncio.Task[None]] = set()
        self.handlers: dict[int, Callable[[bytes, int], None]] = {
            MessageId.SERVERINFO: self._on_server_info,
            MessageId.MODELDEF: self._on_models,
            MessageId.RESPONSE: self._on_response,
            MessageId.UNRECOGNIZED_REQUEST: self._on_response,
            MessageId.ECHORESPONSE: self._on_echo,
        }

    def close(self) -> None:
        """Stop sending requests."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    # --- for the session --------------------------------------------------------------------------

    def connect_again(self) -> None:
        """Connect again: the server may be another one than before."""
        self._rehandshake = True

    def want_models(self, *, at_once: bool = True) -> None:
        """Request the descriptions, at the latest in a second."""
        self._models_wanted = True
        if at_once:
            self._models_due.expedite()

    def models_changed(self, t_ns: int) -> None:
        """Request the descriptions: a frame announced that they changed."""
        self._models_wanted = self._models_outdated = True
        if self._change_due.now(t_ns):
            self._models_due.expedite()
        if self.info is not None:
            self._ask_models(t_ns, self.info)

    def bitstream_changed(self) -> None:
        """Ask for the layout: a frame announced that it changed."""
        self._spawn(self._ask_bitstream())

    # --- every 20 ms ------------------------------------------------------------------------------

    def housekeep(self, t_ns: int) -> None:
        """Send due requests.

        Raises:
            SourceUnavailable: another interface routes to the server now.
        """
        silent = t_ns - self.frame_ns > _SILENCE_NS
        if (silent or self._rehandshake) and self._connect_due.now(t_ns):
            if silent:
                self._link.probe()
            self._link.send(_CONNECT)
        if self.info is None:
            return
        if self._keepalive_due.now(t_ns) and not self.info.multicast:
            self._link.send(_KEEPALIVE)
        if self.info.ticks_per_s:
            echo = self.echo.request(t_ns)
            if echo is not None:
                self._link.send(echo)
        if self._scale_m is None and t_ns - self._announced_ns > _UNITS_PATIENCE_NS:
            self._set_units(_METRES_MM)
        self._models_wanted |= self._models_check_due.now(t_ns)
        self._ask_models(t_ns, self.info)

    def _ask_models(self, t_ns: int, info: ServerInfo) -> None:
        if self._models_wanted and self._models_due.now(t_ns):
            self._models_outdated = False
            request = _REQUEST_MODELS_3
            if info.natnet_version >= _MODEL_KINDS_SINCE:
                request = _REQUEST_MODELS
            self._link.send(request)

    def _reset_models(self) -> None:
        """Hold frames back until names and units of another server are known."""
        self.converter = self._models = self._scale_m = None
        self._described_by = None

    # --- replies ----------------------------------------------------------------------------------

    def _on_server_info(self, datagram: bytes, t_arrival_ns: int) -> None:
        info = self._as_configured(decode_server_info(datagram))
        if info.natnet_version < OLDEST:
            raise SourceUnavailable(
                f"{self._link.server_ip} speaks NatNet {dotted(info.natnet_version)}: 2.5 is needed"
            )
        before = self.info
        self.info = info
        changed = before is not None and info != before
        if t_arrival_ns - self.frame_ns > _SILENCE_NS:
            self.echo.restart()
        if before is None or changed:
            self._reset_models()
            self.echo.restart()
            self._announced_ns = t_arrival_ns
            self.version = min(info.natnet_version, NEWEST)
            self._status.facts.update(server_facts(info, self.version))
        self.reply_ns = t_arrival_ns
        self._rehandshake = False
        self._listener.announced(info, changed)
        self.want_models()
        self.close()
        self._spawn(self._ask_settings(info))

    def _as_configured(self, info: ServerInfo) -> ServerInfo:
        """Return the announcement with the configured values, those that servers before 3.0 lack
        included.
        """
        config = self._config
        if info.natnet_version < TICKS_SINCE:
            info = replace(info, data_port=config.data_port, group=config.multicast_group)
        if config.transport == "auto":
            return info
        group = info.group if info.multicast else config.multicast_group
        return replace(info, multicast=config.transport == "multicast", group=group)

    def _on_models(self, datagram: bytes, t_arrival_ns: int) -> None:
        if self.info is None:
            return
        described_by = self.version, datagram
        if described_by == self._described_by:
            self.reply_ns = t_arrival_ns
            self._models_wanted = self._models_outdated
            return
        models = decode_models(datagram, self.version)
        self._described_by = described_by
        self.reply_ns = t_arrival_ns
        self._models_wanted = self._models_outdated
        before = self._models_before
        changed = changed_subjects(before, models) if before is not None else []
        self._models = self._models_before = models
        if changed:
            self._listener.reset(f"described again: {', '.join(changed)}", False)
        if before is not None and before.by_name.keys() != models.by_name.keys():
            logger.info(
                "%s: the server now describes %s",
                self._name,
                ", ".join(models.by_name) or "no subject",
            )
        self._build_converter()
        self._spawn(self._subscribe(models, self.info))

    def _on_response(self, datagram: bytes, t_arrival_ns: int) -> None:
        self.reply_ns = t_arrival_ns
        if not self.commands.answer(datagram):
            self._status.counters["stray_responses"] += 1

    def _on_echo(self, datagram: bytes, t_arrival_ns: int) -> None:
        if self.info is None or not self.info.ticks_per_s:
            return
        exchange = self.echo.reply(decode_echo_reply(datagram), t_arrival_ns, self.info.ticks_per_s)
        if exchange is None:
            self._status.counters["stray_echoes"] += 1
            return
        self.reply_ns = t_arrival_ns
        if self.echo.jumped(exchange):
            self._listener.reset("the server's clock jumped", True)
        self._listener.exchange(exchange)

    # --- questions --------------------------------------------------------------------------------

    async def _ask_settings(self, info: ServerInfo) -> None:
        """Ask for units first: poses wait for them, for 0.2 s at most."""
        units_mm = await self.commands.units_mm()
        if units_mm is not None:
            self._set_units(units_mm)
        if not info.multicast and info.natnet_version >= BITSTREAM_SINCE:
            await self._ask_bitstream()
        if units_mm is None:
            await self._ask_units_again()
        rate_hz = await self.commands.frame_rate_hz()
        if rate_hz is not None:
            self._status.facts["set_rate_hz"] = rate_hz

    async def _ask_bitstream(self) -> None:
        version = await self.commands.bitstream()
        if version is not None and min(version, NEWEST) != self.version:
            self.version = min(version, NEWEST)
            self.want_models()
            self._status.facts["version"] = dotted(self.version)

    async def _ask_units_again(self) -> None:
        for _ in range(_UNITS_ROUNDS - 1):
            units_mm = await self.commands.units_mm()
            if units_mm is not None:
                self._set_units(units_mm)
                return
        if self._scale_m is None:
            self._set_units(_METRES_MM)
        used_mm = self._status.facts["units_mm"]
        logger.warning(
            "%s: the server does not answer for its units; %g mm per unit are used",
            self._name,
            used_mm,
        )

    def _set_units(self, units_mm: float) -> None:
        """Use units from now on; poses in other units begin a new history."""
        before_m = self._scale_m
        self._scale_m = units_mm * 1e-3
        if before_m == self._scale_m:
            return
        self._status.facts["units_mm"] = units_mm
        if before_m is not None:
            self._listener.reset(f"units are {units_mm:g} mm, {before_m * 1e3:g} mm before", False)
        self._build_converter()

    async def _subscribe(self, models: Models, info: ServerInfo) -> None:
        """Subscribe to the configured subjects only, where the server supports it."""
        if not self._config.subscribe or info.multicast or info.natnet_version < BITSTREAM_SINCE:
            return
        described = models.by_name
        wanted: list[tuple[str, str]] = []
        if self._config.markers != "none":
            wanted.append(("LabeledMarkers", "all"))
        for name in self._config.subjects:
            match described.get(name):
                case BodyDescription():
                    wanted.append(("RigidBody", name))
                case SkeletonDescription():
                    wanted.append(("Skeleton", name))
        done = [
            f"{kind} {name}" for kind, name in wanted if await self.commands.subscribe(kind, name)
        ]
        self._status.facts["subscribed"] = done

    def _spawn(self, question: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(question)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._listener.failed(error)

    # --- results ----------------------------------------------------------------------------------

    def _build_converter(self) -> None:
        if self._models is None or self._scale_m is None or self.info is None:
            self.converter = None
            return
        self.converter = NatNetConverter(
            self._name,
            self._models,
            self.info,
            scale_m=self._scale_m,
            up_axis=self._config.up_axis,
            coordinates=self._config.skeleton_coordinates,
            markers=self._config.markers,
        )
        self._report_subjects(self._models)

    def _report_subjects(self, models: Models) -> None:
        self._status.facts.update(subject_facts(models))
        for line in models.shared_names:
            self._log.warn_once(line, "%s", line)
        self._expected.compare(models.by_name)
