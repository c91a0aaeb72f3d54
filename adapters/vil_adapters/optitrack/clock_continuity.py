"""Continuity of stamps and clock echoes: loops, jumps, and the times of requests."""

from __future__ import annotations

from collections import deque
from typing import Final

from vil_adapters.optitrack.compiled_frame import StreamedFrame
from vil_adapters.optitrack.convert import LARGEST_NS, capture_ns, ticks_to_ns
from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.core.types import ClockExchange
from vil_bridge.protocols.natnet.codec import EchoReply, ServerInfo, encode_echo_request


class Due:
    """Limit of one event per period."""

    __slots__ = ("_next_ns", "_period_ns")

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._next_ns = 0

    def now(self, t_ns: int) -> bool:
        """Return True when the event may happen at ``t_ns``; it then counts as done."""
        if t_ns < self._next_ns:
            return False
        self._next_ns = t_ns + self._period_ns
        return True

    def expedite(self) -> None:
        """Allow the event at once."""
        self._next_ns = 0


def stamps_went_on(before: StreamedFrame | None, after: StreamedFrame, info: ServerInfo) -> bool:
    """Return whether a frame was captured later than the one before it.

    Its number may have gone back.
    """
    if before is None:
        return False
    t_before_ns = capture_ns(before.suffix, info)
    t_after_ns = capture_ns(after.suffix, info)
    return t_before_ns is not None and t_after_ns is not None and t_before_ns < t_after_ns


class EchoClock:
    """Two-way exchanges with the server's clock: five at once after a start, then every 60 ms."""

    _BURST: Final = 5
    _BURST_PERIOD_NS: Final = 20 * NS_PER_MS
    _PERIOD_NS: Final = 60 * NS_PER_MS
    _JUMP_NS: Final = 50 * NS_PER_MS
    _DRIFT_LIMIT: Final = 1e-3
    _REMEMBERED: Final = 16
    _SETTLED: Final = 3

    def __init__(self, source: str) -> None:
        self._source = source
        self._pending: deque[int] = deque(maxlen=32)
        self._burst_left = self._BURST
        self._due_ns = 0
        self._last: ClockExchange | None = None
        self._recent: deque[tuple[int, int]] = deque(maxlen=self._REMEMBERED)
        self._offset_ns: int | None = None

    def restart(self) -> None:
        """Begin with a burst again and clear the offset."""
        self._burst_left = self._BURST
        self._due_ns = 0
        self._recent.clear()
        self._offset_ns = None

    def request(self, now_ns: int) -> bytes | None:
        """Return the datagram to send now, None while the next is not due."""
        if now_ns < self._due_ns:
            return None
        self._due_ns = now_ns + (self._BURST_PERIOD_NS if self._burst_left else self._PERIOD_NS)
        self._burst_left = max(0, self._burst_left - 1)
        self._pending.append(now_ns)
        return encode_echo_request(now_ns)

    def reply(self, reply: EchoReply, t_received_ns: int, ticks_per_s: int) -> ClockExchange | None:
        """Return the exchange that a reply completes.

        None where none is pending or its time exceeds 64 bits.
        """
        t_foreign_ns = ticks_to_ns(reply.ticks, ticks_per_s)
        if reply.client not in self._pending or t_foreign_ns > LARGEST_NS:
            return None
        self._pending.remove(reply.client)
        exchange = ClockExchange(self._source, reply.client, t_foreign_ns, t_received_ns)
        self._recent.append((_error_ns(exchange), _offset_ns(exchange)))
        if len(self._recent) >= self._SETTLED:
            self._offset_ns = min(self._recent)[1]
        return exchange

    def age_ns(self, t_foreign_ns: int, t_ns: int) -> int | None:
        """Return the age of a server stamp at a bridge time, by the best of the last exchanges.

        None = unknown.
        """
        return None if self._offset_ns is None else t_ns - (t_foreign_ns - self._offset_ns)

    def jumped(self, exchange: ClockExchange) -> bool:
        """Return whether the server's clock cannot be the one of the exchange before."""
        last = self._last
        self._last = exchange
        if last is None:
            return False
        elapsed_ns = abs(exchange.t_received_ns - last.t_received_ns)
        allowed_ns = (
            self._JUMP_NS + _error_ns(exchange) + _error_ns(last) + self._DRIFT_LIMIT * elapsed_ns
        )
        return abs(_offset_ns(exchange) - _offset_ns(last)) > allowed_ns


def _offset_ns(exchange: ClockExchange) -> int:
    return exchange.t_foreign_ns - (exchange.t_sent_ns + exchange.t_received_ns) // 2


def _error_ns(exchange: ClockExchange) -> int:
    return (exchange.t_received_ns - exchange.t_sent_ns) // 2
