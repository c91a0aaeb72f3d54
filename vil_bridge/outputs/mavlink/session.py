"""One opening of a line to an autopilot.

Heartbeats, its clock requests, and a pulse for what is sent.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Final

from vil_bridge.core.clock import NS_PER_S, Ticker, now_ns
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.connection import Address, MavlinkConnection
from vil_bridge.protocols.transports import Transport
from vil_bridge.runtime.supervisor import Status

_HEARTBEAT_S: Final = 1.0
_HEARTBEAT: Final = mavlink.Heartbeat(
    0, mavlink.TYPE_ONBOARD_CONTROLLER, mavlink.AUTOPILOT_INVALID, 0, mavlink.STATE_ACTIVE
)


class AutopilotSession(ABC):
    """A line to one autopilot.

    Args:
        name: of the output. transport: opened. address: to send as. rate_hz: of :meth:`on_tick`.
        status: counts ``timesync`` answers and what the connection counts.

    Attributes:
        port: sends messages. transport: as given. status: as given.
    """

    def __init__(
        self, name: str, transport: Transport, address: Address, rate_hz: float, status: Status
    ) -> None:
        self.status: Final = status
        self.transport: Final = transport
        self.port: Final = MavlinkConnection(
            name, transport, address, status.counters, self.on_message
        )
        self._period_ns = round(NS_PER_S / rate_hz)

    async def run(self) -> None:
        """Send until the transport closes."""
        ticker = Ticker(self._period_ns, self._on_tick)
        with self.port:
            ticker.start()
            try:
                while not self.port.ended.done():
                    self.port.send(_HEARTBEAT)
                    self.on_heartbeat()
                    await asyncio.wait((self.port.ended,), timeout=_HEARTBEAT_S)
                self.port.ended.result()
            finally:
                ticker.stop()

    @abstractmethod
    def on_tick(self) -> None:
        """Send what is new."""

    @abstractmethod
    def on_heartbeat(self) -> None:
        """Check what is due once a second."""

    def on_message(self, message: framing.MavlinkMessage, _t_arrival_ns: int) -> None:
        """Answer a clock request with the clock of ``time_usec``."""
        body = message.body
        if isinstance(body, mavlink.TimeSync) and body.tc1_ns == 0:
            self.port.send(mavlink.TimeSync(now_ns(), body.ts1_ns))  # read as late as can be
            self.status.counters["timesync"] += 1

    def _on_tick(self, _due_ns: int, _missed: int) -> None:
        self.on_tick()
