"""Session with another bridge: judges and emits its messages.

Outlives connections and its restarts.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from vil_adapters.remote.convert import FederationConverter
from vil_adapters.sessions.reports import DropLog, ResetReporter
from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import ActorKind, ClockExchange
from vil_bridge.interfaces.ports import Emit
from vil_bridge.protocols.federation.messages import (
    ClockMessage,
    Description,
    FederationKind,
    FrameMessage,
    claims_frame,
    decode_clock,
    decode_description,
    decode_frame,
    encode_clock,
    encode_describe,
    message_kind,
)
from vil_bridge.protocols.federation.zmq_link import SubscriberLink
from vil_bridge.runtime.supervisor import Status

LATE_NS: Final = 250 * NS_PER_MS
"""A frame that certainly spent longer on its way is dropped.

It would be taken for new by its arrival.
"""
_BURST: Final = 5
_BURST_PERIOD_NS: Final = 20 * NS_PER_MS
_CLOCK_PERIOD_NS: Final = 60 * NS_PER_MS
_DESCRIBE_PERIOD_NS: Final = 200 * NS_PER_MS
_JUMP_NS: Final = 50 * NS_PER_MS


class FederationSession:
    """State of one run of the source.

    Attributes:
        t_received_ns: arrival of the last message of the other bridge.
        t_frame_ns: arrival of the last emitted frame.
        described: a description came on this connection or before.
    """

    def __init__(self, name: str, site: str, emit: Emit, status: Status, t_ns: int) -> None:
        self.t_received_ns = self.t_frame_ns = t_ns
        self._name = name
        self._site = site
        self._emit = emit
        self._status = status
        self._resets = ResetReporter(name, emit, status)
        self._run: int | None = None
        self._converter: FederationConverter | None = None
        self._sequence = -1
        self._pending: deque[int] = deque(maxlen=32)
        self._exchange: ClockExchange | None = None
        self._burst_left = _BURST
        self._clock_due_ns = self._describe_due_ns = 0
        self._description_wanted = True
        self._other_site: str | None = None
        self._drops = DropLog(name, status.counters)

    @property
    def described(self) -> Description | None:
        """Return the newest description."""
        return None if self._converter is None else self._converter.description

    @property
    def other_site(self) -> str | None:
        """Name of the site that answers in place of the wanted one."""
        return self._other_site

    def connected(self) -> None:
        """Begin a new connection: a burst of clock requests, and the description again."""
        self._burst_left = _BURST
        self._clock_due_ns = self._describe_due_ns = 0
        self._description_wanted = True
        self._pending.clear()

    def ask(self, link: SubscriberLink, t_ns: int) -> None:
        """Send the questions that are due."""
        if t_ns >= self._clock_due_ns and link.ask(encode_clock(ClockMessage(0, t_ns))):
            self._clock_due_ns = t_ns + (_BURST_PERIOD_NS if self._burst_left else _CLOCK_PERIOD_NS)
            self._burst_left = max(0, self._burst_left - 1)
            self._pending.append(t_ns)
        if (
            self._description_wanted
            and t_ns >= self._describe_due_ns
            and link.ask(encode_describe())
        ):
            self._describe_due_ns = t_ns + _DESCRIBE_PERIOD_NS

    def handle(self, data: bytes, t_arrival_ns: int) -> None:
        """Handle one message."""
        try:
            if claims_frame(data):  # its checksum is computed once
                self._handle_frame(decode_frame(data), t_arrival_ns)
            else:
                self._handle_other(data, t_arrival_ns)
        except ProtocolError as exc:
            self._drops.count("malformed", "a message: %s", exc)
            return
        self.t_received_ns = t_arrival_ns

    def _handle_other(self, data: bytes, t_arrival_ns: int) -> None:
        kind = message_kind(data)
        if kind is FederationKind.DESCRIPTION:
            self._handle_description(*decode_description(data))
        elif kind is FederationKind.CLOCK:
            self._handle_clock(decode_clock(data), t_arrival_ns)

    def _handle_frame(self, frame: FrameMessage, t_arrival_ns: int) -> None:
        known = self.described
        if known is None or frame.run != self._run or frame.revision != known.revision:
            self._description_wanted = True
            self._status.counters["undescribed"] += 1
            return
        if frame.sequence == self._sequence:
            self._status.counters["duplicates"] += 1
            return
        if frame.sequence < self._sequence:
            self._status.counters["reordered"] += 1
            return
        if self._sequence >= 0 and frame.sequence != self._sequence + 1:
            self._status.counters["lost"] += frame.sequence - self._sequence - 1
        self._sequence = frame.sequence
        if self._surely_late(frame.t_sent_ns, t_arrival_ns):
            self._status.counters["late"] += 1
            return
        assert self._converter is not None
        before = self._converter.untrusted
        converted = self._converter.frame(frame, t_arrival_ns)
        if self._converter.untrusted != before:
            self._status.counters["untrusted"] += self._converter.untrusted - before
        self._emit(converted)
        self.t_frame_ns = t_arrival_ns
        self._status.running()

    def _surely_late(self, t_sent_ns: int, t_arrival_ns: int) -> bool:
        """Return whether the frame is late even by the most favourable reading of the last clock
        exchange.
        """
        if self._exchange is None:
            return False
        # The answer was given before it was received: so the frame was sent at this bridge time at
        # the latest.
        sent_ns = t_sent_ns - self._exchange.t_foreign_ns + self._exchange.t_received_ns
        return t_arrival_ns - sent_ns > LATE_NS

    def _handle_description(self, run: int, description: Description) -> None:
        if description.site != self._site:
            self._other_site = description.site
            self._drops.count(
                "foreign", "a message of the site %r; %r is wanted", description.site, self._site
            )
            return
        self._other_site = None
        self._description_wanted = False
        if run != self._run:
            if self._run is not None:
                self._resets.report("the other bridge restarted")
            self._run = run
            self._sequence = -1
            self._exchange = None
            self._converter = None
            self._burst_left = _BURST
        if self.described is None or self.described.revision != description.revision:
            self._converter = FederationConverter(self._name, description)
        humans = [a.name for a in description.actors if a.kind is ActorKind.HUMAN]
        rigid = [a.name for a in description.actors if a.kind is not ActorKind.HUMAN]
        self._status.facts.update(site=description.site, subjects=rigid, skeletons=humans)

    def _handle_clock(self, clock: ClockMessage, t_arrival_ns: int) -> None:
        if clock.t_subscriber_ns not in self._pending:
            self._status.counters["stray_answers"] += 1
            return
        self._pending.remove(clock.t_subscriber_ns)
        # The description in transit will report a restart.
        if self._run is None or clock.run != self._run:
            self._description_wanted = True
            return
        exchange = ClockExchange(
            self._name, clock.t_subscriber_ns, clock.t_publisher_ns, t_arrival_ns
        )
        if self._exchange is not None and _jumped(self._exchange, exchange):
            self._resets.report("the other bridge's clock jumped")
        self._exchange = exchange
        self._status.facts["round_trip_ms"] = round(
            (t_arrival_ns - clock.t_subscriber_ns) / NS_PER_MS, 2
        )
        self._emit(exchange)


def _jumped(before: ClockExchange, after: ClockExchange) -> bool:
    """Return whether the clock jumped between two answers (allowing 0.1 % of drift)."""
    change_ns = 0
    doubt_ns = _JUMP_NS + (after.t_received_ns - before.t_received_ns) // 1000
    for exchange, sign in ((before, -1), (after, 1)):
        change_ns += (
            sign * (2 * exchange.t_foreign_ns - exchange.t_sent_ns - exchange.t_received_ns) // 2
        )
        doubt_ns += (exchange.t_received_ns - exchange.t_sent_ns) // 2
    return abs(change_ns) > doubt_ns
