"""OptiTrack source: one NatNet session that outlives restarts of the server."""

from __future__ import annotations

import asyncio
from typing import Final

from vil_adapters.optitrack.config import OptitrackConfig
from vil_adapters.optitrack.link import Link
from vil_adapters.optitrack.session import Session
from vil_bridge.core.clock import now_ns
from vil_bridge.core.ports import Emit
from vil_bridge.core.supervisor import Status

__all__ = ["OptitrackSource"]

_HOUSEKEEPING_S: Final = 0.02


class OptitrackSource:
    """Rigid bodies and skeletons from Motive (implements ``PoseSource``)."""

    def __init__(self, name: str, config: OptitrackConfig) -> None:
        self.name = name
        self._config = config

    async def run(self, emit: Emit, status: Status) -> None:
        """Receive until cancelled.

        Raises:
            SourceUnavailable: the server's name or interface is unknown, or a group cannot be joined.
        """
        config = self._config
        link = await Link.open(config.server, config.command_port, config.interface)
        session = Session(self.name, config, link, emit, status)
        try:
            session.listen(link.sock)
            while not session.failed.done():
                session.housekeep(now_ns())
                await asyncio.wait((session.failed,), timeout=_HOUSEKEEPING_S)
            session.failed.result()
        finally:
            session.close()
