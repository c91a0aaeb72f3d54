"""A conversation with one autopilot: heartbeat, clock, rates, and what all its messages have in common."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from vil_adapters.common.mavlink_message_rates import OUR_COMPONENT, OUR_SYSTEM, RateRequest
from vil_adapters.common.resets import ResetReporter
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.ports import Emit
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import ClockExchange
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.connection import Address, MavlinkConnection
from vil_bridge.protocols.transports import Transport

__all__ = ["HEARTBEAT", "MavlinkSession"]

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=str)

_HOUSEKEEPING_S: Final = 0.1
_HEARTBEAT_EVERY: Final = 10  # housekeepings
_SILENT_NS: Final = 1 * NS_PER_S
_RESTART_NS: Final = NS_PER_S // 2
_OWN_REQUESTS: Final = 32
_GAP_PERIODS: Final = 3
_SHORTEST_GAP_NS: Final = 50 * NS_PER_MS  # an autopilot may be slower than it was asked to be
HEARTBEAT: Final = mavlink.Heartbeat(
    0, mavlink.TYPE_ONBOARD_CONTROLLER, mavlink.AUTOPILOT_INVALID, 0, mavlink.STATE_ACTIVE
)


class MavlinkSession(ABC, Generic[K]):
    """One opening of a wire, until it hangs up; a subclass says what it does with the payload.

    Args:
        name: of the source.
        what: the data that the source is after, for people ("inertial messages").
        wanted: the messages of each kind that serves, best first.
        rate_hz: asked for each of them.
        system: id of the vehicle; None = whoever speaks.

    Attributes:
        kind: the best kind that flows, None while none does.
    """

    def __init__(
        self,
        name: str,
        wire: Transport,
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
        self._wire = wire
        self._what = what
        self._emit = emit
        self._status = status
        self._resets = ResetReporter(name, emit, status)
        self._system = system
        self._rank = {kind: rank for rank, kind in enumerate(wanted)}
        self._wanted_hz = rate_hz
        self._longest_step_ns = max(_SHORTEST_GAP_NS, round(_GAP_PERIODS * NS_PER_S / rate_hz))
        self._request = RateRequest(wanted, rate_hz)
        self._port = MavlinkConnection(
            name, wire, (OUR_SYSTEM, OUR_COMPONENT), status.counters, self._on_message, self.on_read
        )
        self._own_requests: deque[int] = deque(maxlen=_OWN_REQUESTS)
        self._t_newest_ns: int | None = None
        self._candidate_ns: int | None = None
        self._t_heard_ns = now_ns()
        self._rate_start = (now_ns(), 0)
        self._samples = 0
        self._rate_hz = 0.0

    # --- for the subclass --------------------------------------------------------------------------

    @abstractmethod
    def on_body(self, body: mavlink.Body, t_arrival_ns: int) -> None:
        """Take a message that is not about the conversation itself.

        Raises:
            ProtocolError: it cannot be true; counted as ``malformed``.
        """

    def on_read(self) -> None:
        """All that waited was taken."""

    def on_restart(self) -> None:
        """The autopilot restarted: the sample before this one was the first of the new sequence."""

    def on_housekeeping(self, t_ns: int) -> None:
        """Ten times a second."""

    def chosen(self, kind: K) -> bool:
        """Whether messages of this kind are the best that come."""
        if kind not in self._rank:
            return False
        if self.kind is None or self._rank[kind] < self._rank[self.kind]:
            self.kind = kind
            self._status.facts["message"] = kind
        return kind == self.kind

    def fresh(self, t_foreign_ns: int, t_arrival_ns: int) -> bool:
        """Record a sample's stamp, report a restart; False when it is not newer than the last.

        A stamp far in the past is a late datagram or the first one after a restart: the next sample decides.
        """
        before_ns, self._t_newest_ns = self._t_newest_ns, t_foreign_ns
        self._t_heard_ns = t_arrival_ns
        self._samples += 1
        self._status.running()
        candidate_ns, self._candidate_ns = self._candidate_ns, None
        if before_ns is None or t_foreign_ns > before_ns:
            self._note_gap(t_foreign_ns - (before_ns or t_foreign_ns))
            return True
        if t_foreign_ns >= before_ns - _RESTART_NS:
            self._t_newest_ns = before_ns
            return False
        if candidate_ns is None or not candidate_ns < t_foreign_ns <= candidate_ns + _RESTART_NS:
            self._t_newest_ns, self._candidate_ns = before_ns, t_foreign_ns
            return False
        self._own_requests.clear()
        self._request.restart()
        self._resets.report("the autopilot restarted")
        self.on_restart()
        return True

    def _note_gap(self, step_ns: int) -> None:
        if step_ns > self._longest_step_ns:
            self._status.counters["gaps"] += 1
            longest_ms = self._status.facts.get("longest_gap_ms", 0.0)
            self._status.facts["longest_gap_ms"] = max(longest_ms, step_ns / NS_PER_MS)

    # --- life --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read in the loop; between times ask for the clock and the messages, and show a heartbeat."""
        with self._port:
            beat = 0
            while not self._port.ended.done():
                self._housekeep(beat)
                beat += 1
                await asyncio.wait((self._port.ended,), timeout=_HOUSEKEEPING_S)
            self._port.ended.result()

    def _housekeep(self, beat: int) -> None:
        t_ns = now_ns()
        if t_ns - self._t_heard_ns > _SILENT_NS:
            self.kind = None
            self._status.waiting(self._silence_reason())
        if beat % _HEARTBEAT_EVERY == 0:
            self._port.send(HEARTBEAT)
            self._measure_rate(t_ns)
        commands = self._request.due(t_ns, self.kind, self._rate_hz)
        for command in commands:
            self._port.send(command)
        if commands:
            self._note_request("no answer")
        t_sent_ns = now_ns()
        self._own_requests.append(t_sent_ns)
        self._port.send(mavlink.TimeSync(0, t_sent_ns))
        self.on_housekeeping(t_ns)

    def _silence_reason(self) -> str:
        if self._request.peer is None:
            return f"no {self._what} on {self._wire.place}: {self._wire.cure}"
        asked = ", ".join(f"{kind}: {answer}" for kind, answer in self._status.facts.get("requests", {}).items())
        return (
            f"the autopilot (system {self._request.peer[0]}) on {self._wire.place} sends no {self._what}, "
            f"asked for again and again ({asked})"
        )

    def _note_request(self, answer: str) -> None:
        """Keep what became of the request for each kind of message; the dictionary is read by other threads."""
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

    # --- messages ----------------------------------------------------------------------------------

    def _on_message(self, message: framing.MavlinkMessage, t_arrival_ns: int) -> None:
        body = message.body
        sender = message.system, message.component
        if self._system not in (None, message.system):
            self._status.counters["other_systems"] += 1
            return
        if sender == self._request.peer:
            self._request.heard(sender, t_arrival_ns)
        if isinstance(body, mavlink.TimeSync):
            self._on_timesync(body, t_arrival_ns)
        elif isinstance(body, mavlink.Heartbeat):
            if body.autopilot != mavlink.AUTOPILOT_INVALID:
                self._request.heard(sender, t_arrival_ns)
                self._status.facts["autopilot"] = {"system": message.system, "type": body.autopilot}
        elif isinstance(body, mavlink.CommandAck):
            self._on_ack(sender, body)
        elif not isinstance(body, mavlink.CommandLong):
            if self._request.peer is None:
                self._request.heard(sender, t_arrival_ns)
            self._on_payload(body, t_arrival_ns)

    def _on_payload(self, body: mavlink.Body, t_arrival_ns: int) -> None:
        try:
            self.on_body(body, t_arrival_ns)
        except ProtocolError as exc:
            self._status.counters["malformed"] += 1
            if self._status.counters["malformed"] == 1:
                logger.warning("%s: dropped a message: %s", self._name, exc)

    def _on_ack(self, sender: Address, ack: mavlink.CommandAck) -> None:
        """Keep the autopilot's answer; a refusal is told when it is a new one."""
        if not self._request.answered(sender, ack):
            return
        kind, before = self._request.kind, self._status.facts["requests"]
        answer = mavlink.RESULTS[ack.result] if ack.result < len(mavlink.RESULTS) else f"result {ack.result}"
        self._note_request(answer)
        if ack.result != mavlink.RESULT_ACCEPTED:
            self._status.counters["refused"] += 1
            if before.get(kind) != answer:
                logger.warning(
                    "%s: the autopilot will not send %s at %g Hz: %s", self._name, kind, self._wanted_hz, answer
                )

    def _on_timesync(self, body: mavlink.TimeSync, t_arrival_ns: int) -> None:
        if body.tc1_ns == 0:
            self._port.send(mavlink.TimeSync(now_ns(), body.ts1_ns))
        elif body.ts1_ns in self._own_requests:
            self._own_requests.remove(body.ts1_ns)
            self._emit(ClockExchange(self._name, body.ts1_ns, body.tc1_ns, t_arrival_ns))
