"""OptiTrack source: one NatNet session that outlives restarts of the server."""

from __future__ import annotations

from typing import Final

from vil_adapters.optitrack.config import OptitrackConfig
from vil_adapters.optitrack.session import NatNetSession
from vil_adapters.optitrack.sockets import NatNetSockets
from vil_bridge.core.clock import NS_PER_MS, Ticker
from vil_bridge.core.datagrams import Tap
from vil_bridge.core.ports import Emit, SourceContext
from vil_bridge.core.supervisor import Status

__all__ = ["OptitrackSource"]

_HOUSEKEEPING_NS: Final = 20 * NS_PER_MS


class OptitrackSource:
    """Rigid bodies and skeletons from Motive (implements ``PoseSource`` and ``DatagramSource``)."""

    def __init__(self, name: str, config: OptitrackConfig) -> None:
        self.name = name
        self.tap: Tap | None = None
        self._config = config

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Receive until cancelled.

        Raises:
            SourceUnavailable: the server's name or interface is unknown, or a group cannot be joined.
        """
        config = self._config
        link = await NatNetSockets.open(config.server, config.command_port, config.interface, self.tap)
        session = NatNetSession(self.name, config, link, emit, status)
        ticker = Ticker(_HOUSEKEEPING_NS, session.on_tick)
        try:
            session.listen(link.sock)
            ticker.start()
            await session.failed
        finally:
            ticker.stop()
            session.close()
