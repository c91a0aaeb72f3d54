"""Requests to an autopilot for messages at a rate: the addressee, the messages and the time; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.connection import Address

__all__ = ["OUR_COMPONENT", "OUR_SYSTEM", "RateRequest"]

K = TypeVar("K", bound=str)

OUR_SYSTEM: Final = 1
OUR_COMPONENT: Final = 191  # onboard computer
_ADDRESSED_TO_US: Final = ((0, 0), (OUR_SYSTEM, OUR_COMPONENT))
_AGAIN_NS: Final = 2 * NS_PER_S
_GONE_NS: Final = 3 * NS_PER_S
_ENOUGH: Final = 0.8


class RateRequest(Generic[K]):
    """Requests that hold an autopilot at a rate.

    PX4 obeys only requests with its own system id, every autopilot resets the rate when it restarts, and none knows all
    messages. So the first request waits for a message of the autopilot. It is repeated every two seconds while too few
    messages come, and changes to the next kind when the autopilot neither sends nor accepts the requested one.

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
        self._asked_ns, self._pending, self._refused = t_ns, len(messages), False
        return [self._command(message, self.peer) for message in messages]

    def answered(self, peer: Address, ack: mavlink.CommandAck) -> bool:
        """Return whether this answers the last request; answers to other senders and repeats do not."""
        ours = (ack.target_system, ack.target_component) in _ADDRESSED_TO_US
        if not (self._pending and ours and peer == self.peer and ack.command == mavlink.CMD_SET_MESSAGE_INTERVAL):
            return False
        self._pending -= 1
        self._refused |= ack.result != mavlink.RESULT_ACCEPTED
        return True

    def _command(self, message: type[mavlink.Body], peer: Address) -> mavlink.CommandLong:
        number, interval_us = float(mavlink.message_id(message)), 1e6 / self._rate_hz
        return mavlink.CommandLong(number, interval_us, 0, 0, 0, 0, 0, mavlink.CMD_SET_MESSAGE_INTERVAL, *peer)
