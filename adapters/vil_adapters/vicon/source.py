"""Vicon source: DataStream connections, one after the other, to a server that may restart."""

from __future__ import annotations

import asyncio
from typing import Final

from vil_adapters.common.addresses import find, route, trouble_text
from vil_adapters.vicon.config import ViconConfig
from vil_adapters.vicon.connection import ViconConnection, connect
from vil_adapters.vicon.convert import ViconConverter
from vil_adapters.vicon.receiver import ViconReceiver
from vil_adapters.vicon.session import ViconSession
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.ports import Emit, SourceContext
from vil_bridge.core.supervisor import Status

__all__ = ["ViconSource"]

_PROBE_PERIOD_S: Final = 0.5
_CONNECT_TIMEOUT_S: Final = 1.5
_HOUSEKEEPING_S: Final = 0.05
_WAITING_NS: Final = 1 * NS_PER_S


class ViconSource:
    """Objects, persons and markers from a DataStream server (implements ``PoseSource``)."""

    def __init__(self, name: str, config: ViconConfig) -> None:
        self.name = name
        self._config = config

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Receive until cancelled.

        Raises:
            SourceUnavailable: the server's name is unknown, or a multicast group cannot be joined.
        """
        config = self._config
        converter = ViconConverter(self.name, segments=config.segments, markers=config.markers)
        multicast = bool(config.multicast_group)
        receiver = ViconReceiver(self.name, converter, config.subjects, emit, status, datagrams=multicast)
        receiver.emitted_ns = now_ns()
        while True:
            tried_ns = now_ns()
            address = await find(config.server, config.port)
            status.facts.update(
                address=f"{address[0]}:{address[1]}",
                interface=route(address) if config.interface == "auto" else config.interface,
                mode="multicast" if multicast else config.mode,
            )
            try:
                link = await connect(address, config.interface, _CONNECT_TIMEOUT_S)
            except OSError as exc:
                trouble = trouble_text(exc)
            else:
                trouble = await self._follow(link, receiver, status)
                status.counters["disconnects"] += 1
            self._report_silence(receiver, status, trouble)
            await asyncio.sleep(max(0.0, _PROBE_PERIOD_S - (now_ns() - tried_ns) / NS_PER_S))

    async def _follow(self, link: ViconConnection, receiver: ViconReceiver, status: Status) -> str:
        """Use a connection until it ends; return the reason."""
        session = ViconSession(self._config, link, receiver, status)
        try:
            session.open()
            while not session.over.done():
                await asyncio.wait((session.over,), timeout=_HOUSEKEEPING_S)
                session.housekeep(now_ns())
                self._report_silence(receiver, status, session.silence)
            session.over.result()
            return session.trouble
        finally:
            session.close()

    def _report_silence(self, receiver: ViconReceiver, status: Status, trouble: str) -> None:
        if now_ns() - receiver.emitted_ns <= _WAITING_NS:
            return
        via = f" via interface {interface}" if (interface := status.facts.get("interface")) else ""
        status.waiting(
            f"no frames from {status.facts['address']}{via} ({trouble}): does Tracker, Nexus or Shogun run there with "
            f"its DataStream on port {self._config.port}, and does its firewall let TCP in?"
        )
