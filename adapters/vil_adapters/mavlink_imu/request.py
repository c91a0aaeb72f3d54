"""Asking an autopilot for its IMU at a rate: of whom, for which message, and when again; pure, it only decides."""

from __future__ import annotations

from typing import Final

from vil_adapters.mavlink_imu.codec import MESSAGE_OF, ImuKind
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.wire import mavlink

__all__ = ["OUR_COMPONENT", "OUR_SYSTEM", "Address", "RateRequest"]

Address = tuple[int, int]
"""System and component."""

OUR_SYSTEM: Final = 1
OUR_COMPONENT: Final = 191  # onboard computer
_ADDRESSED_TO_US: Final = ((0, 0), (OUR_SYSTEM, OUR_COMPONENT))
_AGAIN_NS: Final = 2 * NS_PER_S
_GONE_NS: Final = 3 * NS_PER_S
_ENOUGH: Final = 0.8


class RateRequest:
    """Keeps an autopilot at the wanted rate.

    PX4 obeys only what carries its own system id, every autopilot forgets the rate when it restarts,
    and none knows all messages. So nobody is asked before somebody was heard; the question is
    repeated every two seconds while too little comes, and goes to the next message when the
    autopilot neither sends the one asked for nor agreed to.

    Attributes:
        peer: the autopilot, None while there is none.
    """

    def __init__(self, wanted: tuple[ImuKind, ...], rate_hz: float) -> None:
        self.peer: Address | None = None
        self._wanted = wanted
        self._rate_hz = rate_hz
        self._turn = 0
        self._asked_ns: int | None = None
        self._heard_ns = 0
        self._pending = False
        self._agreed = False

    @property
    def kind(self) -> ImuKind:
        """The message asked for last, or first."""
        return self._wanted[self._turn % len(self._wanted)]

    def heard(self, peer: Address, t_ns: int) -> None:
        """The autopilot sent something; a new one is asked at once."""
        if peer != self.peer:
            self.peer = peer
            self.restart()
        self._heard_ns = t_ns

    def restart(self) -> None:
        """The autopilot forgot what it was asked: ask at once, whatever comes now."""
        self._asked_ns = None

    def due(self, t_ns: int, flowing: ImuKind | None, rate_hz: float) -> mavlink.CommandLong | None:
        """The command to send now, None when nothing is to be asked.

        Args:
            t_ns: bridge time now.
            flowing: the message that comes, None while none does.
            rate_hz: how often, over the last second.
        """
        if self.peer is None:
            return None
        if t_ns - self._heard_ns > _GONE_NS:
            self.peer = None
            return None
        if self._asked_ns is not None:
            if t_ns - self._asked_ns < _AGAIN_NS or rate_hz >= _ENOUGH * self._rate_hz:
                return None
            if flowing != self.kind and not self._agreed:
                self._turn += 1
        self._asked_ns, self._pending, self._agreed = t_ns, True, False
        number = float(mavlink.message_id(MESSAGE_OF[self.kind]))
        command = mavlink.CMD_SET_MESSAGE_INTERVAL
        return mavlink.CommandLong(number, 1e6 / self._rate_hz, 0, 0, 0, 0, 0, command, *self.peer)

    def answered(self, peer: Address, ack: mavlink.CommandAck) -> bool:
        """Whether this answers the question asked last; answers to others and second ones do not."""
        ours = (ack.target_system, ack.target_component) in _ADDRESSED_TO_US
        if not (self._pending and ours and peer == self.peer and ack.command == mavlink.CMD_SET_MESSAGE_INTERVAL):
            return False
        self._pending = False
        self._agreed = ack.result == mavlink.RESULT_ACCEPTED
        return True
