"""VRPN source: one connection after another, until it is cancelled."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from vil_adapters.sessions.reports import ResetReporter, missing_names
from vil_adapters.vrpn.compiled_table import IS_COMPILED, CompiledTrackerTable
from vil_adapters.vrpn.config import VrpnConfig
from vil_adapters.vrpn.connection import call_back, connect, explain
from vil_adapters.vrpn.convert import VrpnFrame, subject_name
from vil_adapters.vrpn.tracker_table import PoseVerdict, TrackerTable
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError, SourceUnavailable
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.protocols.vrpn.codec import (
    COOKIE,
    PING,
    PONG,
    POSE,
    VELOCITY,
    decode_pose,
    decode_velocity,
)
from vil_bridge.protocols.vrpn.connection import VrpnConnection
from vil_bridge.protocols.vrpn.id_mapping import CONTROL, Incoming, Outgoing, ResolvedMessage
from vil_bridge.runtime.network import local_address, resolve
from vil_bridge.runtime.supervisor import Status

logger = logging.getLogger(__name__)

_WAITING_NS: Final = 3 * NS_PER_S
_GREETING_NS: Final = 1 * NS_PER_S
_PING_AFTER_NS: Final = 1 * NS_PER_S
_DEAD_AFTER_NS: Final = 3 * NS_PER_S
_FACTS_PERIOD_NS: Final = 1 * NS_PER_S
_MISSING_AFTER_NS: Final = 500 * NS_PER_MS

_DROPS: Final = {
    PoseVerdict.DUPLICATE: "duplicates",
    PoseVerdict.UNUSABLE: "unusable",
    PoseVerdict.IMPLAUSIBLE_STAMP: "implausible_stamps",
    PoseVerdict.TOO_MANY: "too_many_subjects",
}


class VrpnSession:
    """Frames from one connection after another.

    Attributes:
        trouble: why no messages are exchanged, empty while they are.
    """

    def __init__(self, name: str, config: VrpnConfig, emit: Emit, status: Status) -> None:
        self.trouble = ""
        self._name = name
        self._wanted = frozenset(config.subjects)
        self._emit = emit
        self._status = status
        self._resets = ResetReporter(name, emit, status)
        self._frame = VrpnFrame(config.units, config.up_axis)
        self._trackers = self._make_table(config)
        self._incoming, self._outgoing = self._make_incoming(), Outgoing()
        self._connected_ns = self._received_ns = self._pinged_ns = 0
        self._emitted_ns = self._facts_ns = now_ns()
        self._seen: set[str] = set()
        self._warned_of: set[str] = set()
        self._speeds_mps: dict[str, float] = {}
        self._undescribed_before = 0
        self._malformed_logged = False

    def _make_table(self, config: VrpnConfig) -> TrackerTable | CompiledTrackerTable:
        make = CompiledTrackerTable if IS_COMPILED else TrackerTable
        return make(self._name, self._frame, repeats_mean_lost=config.repeats_mean_lost)

    def _make_incoming(self) -> Incoming:
        if not isinstance(self._trackers, CompiledTrackerTable):
            return Incoming()
        self._trackers.unbind()
        return Incoming(self._read_poses, self._trackers.unbind)

    # --- the connection ---------------------------------------------------------------------------

    def connected(self, link: VrpnConnection) -> None:
        """Greet; descriptions of the peer's earlier connection are void."""
        t_ns = now_ns()
        self._undescribed_before += self._incoming.undescribed
        self._incoming, self._outgoing = self._make_incoming(), Outgoing()
        self._connected_ns = self._received_ns = self._pinged_ns = t_ns
        self._seen.clear()
        link.send(COOKIE)

    def disconnected(self, trouble: str) -> None:
        """Record the end of a connection and its reason.

        The server's clock, that of its computer, may continue.
        """
        self.trouble = trouble
        if self._trackers.names:
            self._reset("the connection was lost", clock=False)

    def on_data(self, data: bytes, t_arrival_ns: int) -> None:
        """Handle received bytes and emit the frames in them.

        Raises:
            ProtocolError: the stream is broken; only a new connection helps.
        """
        self._received_ns = t_arrival_ns
        try:
            for message in self._incoming.feed(data):
                self.trouble = ""
                self._handle(message, t_arrival_ns)
        finally:
            self._flush()

    def malformed(self, what: str, error: ProtocolError) -> None:
        """Count it, log the first."""
        self._status.counters["malformed"] += 1
        if not self._malformed_logged:
            self._malformed_logged = True
            logger.warning("%s: %s: %s", self._name, what, error)

    def housekeep(self, t_ns: int) -> None:
        """Update the status."""
        lost = self._trackers.silent(t_ns)
        if lost is not None:
            self._emit(lost)
        self._warn_of_missing(t_ns)
        if t_ns - self._facts_ns >= _FACTS_PERIOD_NS:
            self._report_rates(t_ns)
        if t_ns - self._emitted_ns > _WAITING_NS:
            self._status.waiting(self._silence_reason())

    def check(self, t_ns: int, link: VrpnConnection) -> str:
        """Ping a silent server; return why the connection is dead, empty while it is not."""
        if self._incoming.version is None:
            if t_ns - self._connected_ns > _GREETING_NS:
                return "accepts connections but sends nothing"
            return ""
        device = next((name for name in self._incoming.senders.values() if name != CONTROL), None)
        if device is None or t_ns - self._received_ns < _PING_AFTER_NS:
            return ""
        if t_ns - self._pinged_ns > _PING_AFTER_NS:
            self._pinged_ns = t_ns
            link.send(
                self._outgoing.describe((device,), (PING,))
                + self._outgoing.message(device, PING, t_ns)
            )
        if t_ns - self._received_ns > _DEAD_AFTER_NS:
            return "fell silent: is it hung, or the network cut?"
        return ""

    # --- messages ---------------------------------------------------------------------------------

    def _handle(self, message: ResolvedMessage, t_arrival_ns: int) -> None:
        """Handle a message.

        A malformed one is dropped alone, since the begin of the next one is known.
        """
        try:
            self._on_message(message, t_arrival_ns)
        except ProtocolError as exc:
            self.malformed(f"dropped a message of {message.sender!r}", exc)

    def _on_message(self, message: ResolvedMessage, t_arrival_ns: int) -> None:
        if message.kind == POSE:
            pose = decode_pose(message.payload)
            name = subject_name(message.sender, pose.sensor)
            self._seen.add(name)
            if self._wanted and name not in self._wanted:
                self._status.counters["unwanted"] += 1
                self._bind(message.sender, pose.sensor, None)
                return
            verdict = self._trackers.judge(name, pose, message.t_ns, t_arrival_ns)
            if verdict is PoseVerdict.CLOCK_JUMPED:
                self._flush()
                self._reset("the server's clock jumped", clock=True)
                verdict = self._trackers.judge(name, pose, message.t_ns, t_arrival_ns)
            if verdict in _DROPS:
                self._status.counters[_DROPS[verdict]] += 1
            self._bind(message.sender, pose.sensor, name)
        elif message.kind == VELOCITY:
            velocity = decode_velocity(message.payload)
            speed_mps = sum(v * v for v in velocity.v) ** 0.5 * self._frame.scale_m
            self._speeds_mps[subject_name(message.sender, velocity.sensor)] = round(speed_mps, 3)
        elif message.kind == PONG:
            self._status.counters["pongs"] += 1

    def _read_poses(self, data: bytes, at: int) -> int:
        """Let the kernel read the poses of known bodies.

        Return the offset of the first other message.
        """
        assert isinstance(self._trackers, CompiledTrackerTable)
        end = self._trackers.read(data, at, self._received_ns)
        if end != at:
            self.trouble = ""
        return end

    def _bind(self, sender: str, sensor: int, name: str | None) -> None:
        """Let the kernel know the ids of a body."""
        if isinstance(self._trackers, CompiledTrackerTable):
            pose_type = next(
                number for number, kind in self._incoming.kinds.items() if kind == POSE
            )
            senders = [
                number for number, device in self._incoming.senders.items() if device == sender
            ]
            self._trackers.bind(pose_type, senders, sensor, name)

    def _flush(self) -> None:
        for frame in self._trackers.frames():
            self._emitted_ns = frame.t_arrival_ns
            self._status.running()
            self._emit(frame)
        if isinstance(self._trackers, CompiledTrackerTable):
            for reason, count in self._trackers.drops():
                self._status.counters[reason] += count
        self._status.counters["superseded"] = self._trackers.superseded
        self._status.counters["repeated"] = self._trackers.repeated
        self._status.counters["undescribed"] = self._undescribed_before + self._incoming.undescribed

    def _reset(self, reason: str, *, clock: bool) -> None:
        self._trackers.restart(clock=clock)
        self._resets.report(reason, clock=clock)

    # --- status -----------------------------------------------------------------------------------

    def _warn_of_missing(self, t_ns: int) -> None:
        """Log at once which wanted body is missing in the stream, and which bodies it has."""
        missing = self._wanted - self._seen
        if (
            self._connected_ns
            and missing - self._warned_of
            and t_ns - self._connected_ns > _MISSING_AFTER_NS
        ):
            if self._incoming.version is None:
                return
            self._warned_of |= missing
            logger.warning("%s: %s", self._name, self._mismatch(missing))

    def _mismatch(self, missing: frozenset[str]) -> str:
        announced = {name for name in self._incoming.senders.values() if name != CONTROL}
        return missing_names(missing, sorted(self._seen | announced))

    def _report_rates(self, t_ns: int) -> None:
        elapsed_s = (t_ns - self._facts_ns) / NS_PER_S
        self._facts_ns = t_ns
        facts = self._status.facts
        facts["subjects"] = list(self._trackers.names)
        facts["rate_hz"] = {
            name: round(n / elapsed_s, 1) for name, n in self._trackers.counts().items()
        }
        if self._incoming.version is not None:
            facts["version"] = self._incoming.version
        if self._speeds_mps:
            facts["speed_mps"] = dict(self._speeds_mps)

    def _silence_reason(self) -> str:
        place = f"{self._status.facts['address']} (from {self._status.facts['interface']})"
        if self.trouble:
            return f"the VRPN server at {place} {self.trouble}"
        missing = self._wanted - self._seen
        if missing and self._seen:
            return f"{place} sends none of the wanted trackers: {self._mismatch(missing)}"
        announced = [name for name in self._incoming.senders.values() if name != CONTROL]
        if not announced:
            return (
                f"{place} announces no tracker: is a rigid body defined and VRPN streaming enabled?"
            )
        return (
            f"{place} announces {', '.join(announced)} but sends no poses: is playback "
            "paused, is the body in sight?"
        )


_HOUSEKEEPING_S: Final = 0.02
_CONNECT_TIMEOUT_S: Final = 1.0
_RETRY_S: Final = 0.2


class VrpnSource:
    """Trackers of a VRPN server (implements ``PoseSource``)."""

    def __init__(self, name: str, config: VrpnConfig) -> None:
        self.name = name
        self._config = config

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Receive until cancelled.

        Raises:
            SourceUnavailable: the server's name is unknown, or no interface leads there.
        """
        config = self._config
        try:
            ip = await resolve(config.server, config.port)
            interface = local_address(ip, config.port)
        except OSError as exc:
            raise SourceUnavailable(f"cannot reach {config.server}: {exc.strerror or exc}") from exc
        status.facts.update(address=f"{ip}:{config.port}", interface=interface)
        session = VrpnSession(self.name, config, emit, status)
        while True:
            link = await self._connect(ip, session, status)
            if link is not None:
                await self._serve(link, session)
            session.housekeep(now_ns())
            await asyncio.sleep(_RETRY_S)

    async def _connect(
        self, ip: str, session: VrpnSession, status: Status
    ) -> VrpnConnection | None:
        peer = ip, self._config.port, session.on_data, session.connected, _CONNECT_TIMEOUT_S
        try:
            if not self._config.connect_back:
                return await connect(*peer)
            link, rejected = await call_back(*peer)
        except OSError as exc:
            session.trouble = explain(exc)
            return None
        status.counters["foreign"] += rejected
        return link

    async def _serve(self, link: VrpnConnection, session: VrpnSession) -> None:
        """Use one connection until it ends or is given up."""
        trouble = ""
        try:
            while not (link.closed.done() or trouble):
                await asyncio.wait((link.closed,), timeout=_HOUSEKEEPING_S)
                session.housekeep(now_ns())
                trouble = session.check(now_ns(), link)
            if link.closed.done():
                link.closed.result()
                trouble = "closed the connection"
        except ProtocolError as exc:
            # The server is unchanged: its bodies and its clock stay known.
            session.malformed("the stream is broken, connecting again", exc)
            session.trouble = f"sends something else than VRPN: {exc}"
        else:
            session.disconnected(trouble)
        finally:
            link.abort()
