"""Session with one autopilot.

Heartbeat, clock exchanges, requests for message rates and restarts.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final, Generic, TypeVar

from vil_adapters.sessions.reports import DropLog, ResetReporter
from vil_bridge.config.transport import TransportConfig
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError, SourceUnavailable
from vil_bridge.core.types import ClockExchange, SourceReset
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.connection import Address, MavlinkConnection
from vil_bridge.protocols.transports import Transport, open_transport
from vil_bridge.runtime.supervisor import Status

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=str)
C = TypeVar("C", bound=TransportConfig)

OUR_SYSTEM: Final = 1
OUR_COMPONENT: Final = 191  # onboard computer
_ADDRESSED_TO_US: Final = ((0, 0), (OUR_SYSTEM, OUR_COMPONENT))
_AGAIN_NS: Final = 2 * NS_PER_S
_GONE_NS: Final = 3 * NS_PER_S
_ENOUGH: Final = 0.8


class RateRequest(Generic[K]):
    """Requests that hold an autopilot at a rate.

    PX4 obeys only requests with its own system id, every autopilot resets the rate when it
    restarts, and none knows all messages. So the first request waits for a message of the
    autopilot. It is repeated every two seconds while too few messages come, and changes to the next
    kind when the autopilot neither sends nor accepts the requested one.

    Args:
        wanted: the messages of each suitable kind, best first.
        rate_hz: requested for each of them.

    Attributes:
        peer: the autopilot, None while there is none.
    """

    def __init__(self, wanted: Mapping[K, tuple[type[mavlink.Body], ...]], rate_hz: float) -> None:
        self.peer: Address | None = None
        self._wanted = tuple(wanted.items())
        self._rate_hz = rate_hz
        self._turn = 0
        self._asked_ns: int | None = None
        self._received_ns = 0
        self._pending = 0
        self._refused = False

    @property
    def kind(self) -> K:
        """Return the kind requested last, or first."""
        return self._wanted[self._turn % len(self._wanted)][0]

    def received(self, peer: Address, t_ns: int) -> None:
        """Record a message of the autopilot; a new autopilot gets a request at once."""
        if peer != self.peer:
            self.peer = peer
            self.restart()
        self._received_ns = t_ns

    def restart(self) -> None:
        """Send the request again at once: the autopilot lost it."""
        self._asked_ns = None

    def due(self, t_ns: int, flowing: K | None, rate_hz: float) -> list[mavlink.CommandLong]:
        """Return the commands to send now.

        Args:
            t_ns: bridge time now.
            flowing: the kind that arrives, None while none does.
            rate_hz: its rate, over the last second.
        """
        if self.peer is None:
            return []
        if t_ns - self._received_ns > _GONE_NS:
            self.peer = None
            return []
        if self._asked_ns is not None:
            if t_ns - self._asked_ns < _AGAIN_NS or rate_hz >= _ENOUGH * self._rate_hz:
                return []
            if flowing != self.kind and (self._pending or self._refused):
                self._turn += 1
        _, messages = self._wanted[self._turn % len(self._wanted)]
        self._asked_ns = t_ns
        self._pending = len(messages)
        self._refused = False
        return [self._command(message, self.peer) for message in messages]

    def answered(self, peer: Address, ack: mavlink.CommandAck) -> bool:
        """Return whether this answers the last request.

        Answers to other senders and repeats do not.
        """
        ours = (ack.target_system, ack.target_component) in _ADDRESSED_TO_US
        if not (
            self._pending
            and ours
            and peer == self.peer
            and ack.command == mavlink.CMD_SET_MESSAGE_INTERVAL
        ):
            return False
        self._pending -= 1
        self._refused |= ack.result != mavlink.RESULT_ACCEPTED
        return True

    def _command(self, message: type[mavlink.Body], peer: Address) -> mavlink.CommandLong:
        number = float(mavlink.message_id(message))
        interval_us = 1e6 / self._rate_hz
        return mavlink.CommandLong(
            number, interval_us, 0, 0, 0, 0, 0, mavlink.CMD_SET_MESSAGE_INTERVAL, *peer
        )


_HOUSEKEEPING_S: Final = 0.1
_HEARTBEAT_EVERY: Final = 10  # housekeepings
_SILENT_NS: Final = 1 * NS_PER_S
_RESTART_NS: Final = NS_PER_S // 2
_OWN_REQUESTS: Final = 32
_GAP_PERIODS: Final = 3
_SHORTEST_GAP_NS: Final = 50 * NS_PER_MS  # an autopilot may send less often than requested
HEARTBEAT: Final = mavlink.Heartbeat(
    0, mavlink.TYPE_ONBOARD_CONTROLLER, mavlink.AUTOPILOT_INVALID, 0, mavlink.STATE_ACTIVE
)


class MavlinkSource(ABC, Generic[C]):
    """Autopilot on a serial line or UDP that may disappear and return while the bridge runs.

    ``PoseSource``.
    """

    def __init__(self, name: str, config: C) -> None:
        self.name = name
        self._config = config

    @abstractmethod
    def _session(self, transport: Transport, emit: Emit, status: Status) -> MavlinkSession[Any]:
        """Return the session for an open transport."""

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Wait for the device, read it until it disconnects, wait for it again; never returns.

        Raises:
            SourceUnavailable: UDP: the other side is unknown, no interface leads there, or the port
                is taken.
        """
        while True:
            try:
                opened = await open_transport(self._config, status)
            except OSError as exc:
                raise SourceUnavailable(exc.strerror or str(exc)) from exc
            with closing(opened) as transport:
                await self._session(transport, emit, status).run()
            emit(SourceReset(self.name, "the serial line was lost"))


class MavlinkSession(ABC, Generic[K]):
    """One open transport, until it disconnects; a subclass handles the payload.

    Args:
        name: of the source.
        what: the data that the source needs, for messages ("inertial messages").
        wanted: the messages of each suitable kind, best first.
        rate_hz: requested for each of them.
        system: id of the vehicle; None = any.

    Attributes:
        kind: the best kind that flows, None while none does.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        what: str,
        wanted: Mapping[K, tuple[type[mavlink.Body], ...]],
        rate_hz: float,
        emit: Emit,
        status: Status,
        *,
        system: int | None = None,
    ) -> None:
        self.kind: K | None = None
        self._name = name
        self._transport = transport
        self._what = what
        self._emit = emit
        self._status = status
        self._resets = ResetReporter(name, emit, status)
        self._system = system
        self._rank = {kind: rank for rank, kind in enumerate(wanted)}
        self._wanted_hz = rate_hz
        self._longest_step_ns = max(_SHORTEST_GAP_NS, round(_GAP_PERIODS * NS_PER_S / rate_hz))
        self._request = RateRequest(wanted, rate_hz)
        self._connection = MavlinkConnection(
            name,
            transport,
            (OUR_SYSTEM, OUR_COMPONENT),
            status.counters,
            self._on_message,
            self.on_read,
        )
        self._own_requests: deque[int] = deque(maxlen=_OWN_REQUESTS)
        self._t_newest_ns: int | None = None
        self._candidate_ns: int | None = None
        self._t_received_ns = now_ns()
        self._drops = DropLog(name, status.counters)
        self._rate_start = (now_ns(), 0)
        self._samples = 0
        self._rate_hz = 0.0

    # --- for the subclass -------------------------------------------------------------------------

    @abstractmethod
    def on_body(self, body: mavlink.Body, t_arrival_ns: int) -> None:
        """Handle a message of the payload.

        Raises:
            ProtocolError: its values are impossible; counted as ``malformed``.
        """

    def on_read(self) -> None:
        """Handle the end of a read: all waiting messages were handled."""

    def on_restart(self) -> None:
        """Handle a restart: the sample before this one was the first of the new sequence."""

    def on_housekeeping(self, t_ns: int) -> None:
        """Check time-outs, ten times a second."""

    def chosen(self, kind: K) -> bool:
        """Return whether messages of this kind are the best that arrive."""
        if kind not in self._rank:
            return False
        if self.kind is None or self._rank[kind] < self._rank[self.kind]:
            self.kind = kind
            self._status.facts["message"] = kind
        return kind == self.kind

    def fresh(self, t_foreign_ns: int, t_arrival_ns: int) -> bool:
        """Record a sample's stamp, report a restart; False when it is not newer than the last.

        A stamp far in the past is a late datagram or the first one after a restart: the next sample
        decides.
        """
        before_ns = self._t_newest_ns
        self._t_newest_ns = t_foreign_ns
        self._t_received_ns = t_arrival_ns
        self._samples += 1
        self._status.running()
        candidate_ns = self._candidate_ns
        self._candidate_ns = None
        if before_ns is None or t_foreign_ns > before_ns:
            self._record_gap(t_foreign_ns - (before_ns or t_foreign_ns))
            return True
        if t_foreign_ns >= before_ns - _RESTART_NS:
            self._t_newest_ns = before_ns
            return False
        if candidate_ns is None or not candidate_ns < t_foreign_ns <= candidate_ns + _RESTART_NS:
            self._t_newest_ns = before_ns
            self._candidate_ns = t_foreign_ns
            return False
        self._own_requests.clear()
        self._request.restart()
        self._resets.report("the autopilot restarted")
        self.on_restart()
        return True

    def _record_gap(self, step_ns: int) -> None:
        if step_ns > self._longest_step_ns:
            self._status.counters["gaps"] += 1
            longest_ms = self._status.facts.get("longest_gap_ms", 0.0)
            self._status.facts["longest_gap_ms"] = max(longest_ms, step_ns / NS_PER_MS)

    # --- life -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read in the loop; send clock requests, message requests and heartbeats."""
        with self._connection:
            turn = 0
            while not self._connection.ended.done():
                self._housekeep(turn)
                turn += 1
                await asyncio.wait((self._connection.ended,), timeout=_HOUSEKEEPING_S)
            self._connection.ended.result()

    def _housekeep(self, turn: int) -> None:
        t_ns = now_ns()
        if t_ns - self._t_received_ns > _SILENT_NS:
            self.kind = None
            self._status.waiting(self._silence_reason())
        if turn % _HEARTBEAT_EVERY == 0:
            self._connection.send(HEARTBEAT)
            self._measure_rate(t_ns)
        commands = self._request.due(t_ns, self.kind, self._rate_hz)
        for command in commands:
            self._connection.send(command)
        if commands:
            self._record_request("no answer")
        t_sent_ns = now_ns()
        self._own_requests.append(t_sent_ns)
        self._connection.send(mavlink.TimeSync(0, t_sent_ns))
        self.on_housekeeping(t_ns)

    def _silence_reason(self) -> str:
        if self._request.peer is None:
            return f"no {self._what} on {self._transport.place}: {self._transport.cure}"
        asked = ", ".join(
            f"{kind}: {answer}" for kind, answer in self._status.facts.get("requests", {}).items()
        )
        return (
            f"the autopilot (system {self._request.peer[0]}) on {self._transport.place} "
            f"sends no {self._what}, "
            f"although they were requested ({asked})"
        )

    def _record_request(self, answer: str) -> None:
        """Store the answer to the request for each kind of message.

        Other threads read the dictionary.
        """
        requests = self._status.facts.get("requests", {})
        kind = self._request.kind
        if answer != "no answer" or kind not in requests:
            self._status.facts["requests"] = {**requests, kind: answer}

    def _measure_rate(self, t_ns: int) -> None:
        since_ns, samples = self._rate_start
        if t_ns > since_ns:
            self._rate_hz = (self._samples - samples) * 1e9 / (t_ns - since_ns)
            self._status.facts["rate_hz"] = round(self._rate_hz, 1)
        self._rate_start = (t_ns, self._samples)

    # --- messages ---------------------------------------------------------------------------------

    def _on_message(self, message: framing.MavlinkMessage, t_arrival_ns: int) -> None:
        body = message.body
        sender = message.system, message.component
        if self._system not in (None, message.system):
            self._status.counters["other_systems"] += 1
            return
        if sender == self._request.peer:
            self._request.received(sender, t_arrival_ns)
        if isinstance(body, mavlink.TimeSync):
            self._on_timesync(body, t_arrival_ns)
        elif isinstance(body, mavlink.Heartbeat):
            if body.autopilot != mavlink.AUTOPILOT_INVALID:
                self._request.received(sender, t_arrival_ns)
                self._status.facts["autopilot"] = {"system": message.system, "type": body.autopilot}
        elif isinstance(body, mavlink.CommandAck):
            self._on_ack(sender, body)
        elif not isinstance(body, mavlink.CommandLong):
            if self._request.peer is None:
                self._request.received(sender, t_arrival_ns)
            self._on_payload(body, t_arrival_ns)

    def _on_payload(self, body: mavlink.Body, t_arrival_ns: int) -> None:
        try:
            self.on_body(body, t_arrival_ns)
        except ProtocolError as exc:
            self._drops.count("malformed", "a message: %s", exc)

    def _on_ack(self, sender: Address, ack: mavlink.CommandAck) -> None:
        """Store the autopilot's answer; a new refusal is logged."""
        if not self._request.answered(sender, ack):
            return
        kind = self._request.kind
        before = self._status.facts["requests"]
        answer = f"result {ack.result}"
        if ack.result < len(mavlink.RESULTS):
            answer = mavlink.RESULTS[ack.result]
        self._record_request(answer)
        if ack.result != mavlink.RESULT_ACCEPTED:
            self._status.counters["refused"] += 1
            if before.get(kind) != answer:
                logger.warning(
                    "%s: the autopilot will not send %s at %g Hz: %s",
                    self._name,
                    kind,
                    self._wanted_hz,
                    answer,
                )

    def _on_timesync(self, body: mavlink.TimeSync, t_arrival_ns: int) -> None:
        if body.tc1_ns == 0:
            self._connection.send(mavlink.TimeSync(now_ns(), body.ts1_ns))
        elif body.ts1_ns in self._own_requests:
            self._own_requests.remove(body.ts1_ns)
            self._emit(ClockExchange(self._name, body.ts1_ns, body.tc1_ns, t_arrival_ns))
