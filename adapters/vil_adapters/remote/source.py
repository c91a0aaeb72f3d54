"""The source: connects to another bridge, and again when nothing comes."""

from __future__ import annotations

import asyncio
from typing import Final

from vil_adapters.remote.config import RemoteConfig
from vil_adapters.remote.links import make_link
from vil_adapters.remote.session import FederationSession
from vil_adapters.remote.tcp_probe import reached, refused
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.ports import Emit, SourceContext
from vil_bridge.core.supervisor import Status
from vil_bridge.protocols.federation.zmq_link import Refusal

__all__ = ["RemoteSource"]

_HOUSEKEEPING_S: Final = 0.02
_SILENCE_NS: Final = 800 * NS_PER_MS
_WAITING_NS: Final = 3 * NS_PER_S


class RemoteSource:
    """The actors of another bridge (implements ``PoseSource``).

    A connection that brought nothing for 0.8 s is given up for a new one: after a cut, TCP itself would
    wait up to twice as long as the cut lasted.
    """

    def __init__(self, name: str, config: RemoteConfig) -> None:
        self.name = name
        self._config = config
        self._refusal: Refusal | None = None

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Receive until cancelled.

        Raises:
            SourceUnavailable: a key cannot be read, or the transport is not installed.
        """
        status.facts["address"] = self._config.address
        session = FederationSession(self.name, self._config.site, emit, status, now_ns())
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_message(data: bytes, t_arrival_ns: int) -> None:
            try:
                session.handle(data, t_arrival_ns)
            except Exception as exc:
                if not failed.done():
                    failed.set_exception(exc)

        explaining = asyncio.create_task(self._explain(session, status))
        self._refusal = None
        ends: tuple[asyncio.Future[None], ...] = (failed, explaining)
        try:
            while True:
                link = make_link(self._config, on_message)
                try:
                    t_open_ns = now_ns()
                    if await link.open():
                        t_open_ns = now_ns()
                    session.connected()
                    while now_ns() - max(t_open_ns, session.t_received_ns) < _SILENCE_NS:
                        session.ask(link, now_ns())
                        ended, _ = await asyncio.wait(ends, timeout=_HOUSEKEEPING_S, return_when="FIRST_COMPLETED")
                        for end in ended:
                            end.result()
                        self._refusal = link.refusal() or self._refusal
                finally:
                    link.close()
                status.counters["connections_given_up"] += 1
        finally:
            explaining.cancel()

    async def _explain(self, session: FederationSession, status: Status) -> None:
        """Report why nothing is emitted, as long as nothing is."""
        config = self._config
        while True:
            await asyncio.sleep(1.0)
            t_ns = now_ns()
            if t_ns - session.t_frame_ns < _WAITING_NS:
                continue
            if t_ns - session.t_received_ns > _WAITING_NS and self._refusal is not None:
                status.waiting(f"{config.address} refuses this bridge. {refused(config, self._refusal)}")
            elif t_ns - session.t_received_ns > _WAITING_NS:
                status.waiting(await reached(config.host, config.port))
            elif session.other_site is not None:
                status.waiting(
                    f"{config.address} is the site {session.other_site!r}, not {config.site!r}: check `site`"
                )
            elif session.described is not None and not session.described.actors:
                status.waiting(f"site {config.site!r} answers and publishes no actor: check its `federation.actors`")
            else:
                status.waiting(f"site {config.site!r} answers and sends no frames: do its own sources run?")
