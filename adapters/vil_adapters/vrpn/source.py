"""VRPN source: one connection after another, until it is cancelled."""

from __future__ import annotations

import asyncio
from typing import Final

from vil_adapters.vrpn.config import VrpnConfig
from vil_adapters.vrpn.connection import VrpnConnection, call_back, connect, explain
from vil_adapters.vrpn.session import VrpnSession
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ProtocolError, SourceUnavailable
from vil_bridge.core.network import local_address, resolve
from vil_bridge.core.ports import Emit, SourceContext
from vil_bridge.core.supervisor import Status

__all__ = ["VrpnSource"]

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

    async def _connect(self, ip: str, session: VrpnSession, status: Status) -> VrpnConnection | None:
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
