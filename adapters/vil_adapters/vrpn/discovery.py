"""Search for VRPN servers and their trackers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

from vil_adapters.sessions.discovery import ask_each
from vil_adapters.vrpn.config import VrpnConfig
from vil_adapters.vrpn.connection import connect
from vil_adapters.vrpn.convert import subject_name
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.interfaces.ports import FoundSource
from vil_bridge.protocols.vrpn.codec import COOKIE, POSE, decode_pose
from vil_bridge.protocols.vrpn.connection import VrpnConnection
from vil_bridge.protocols.vrpn.id_mapping import Incoming

_PORT: Final[int] = VrpnConfig.model_fields["port"].default
_CONNECT_SHARE: Final = 0.5


async def discover(targets: Sequence[str], timeout_s: float) -> list[FoundSource]:
    """Connect to each target (``host`` or ``host:port``; none = this computer) and count poses.

    VRPN has no broadcast: servers elsewhere are found only where they are asked.

    Raises:
        ConfigError: a target is neither.
    """
    return await ask_each(targets, _PORT, lambda host, port: _ask(host, port, timeout_s))


async def _ask(host: str, port: int, timeout_s: float) -> FoundSource | None:
    """Return a server with its rates; None when it does not answer as VRPN does."""
    rates = _TrackerRates()
    until = asyncio.get_running_loop().time() + timeout_s
    try:
        link = await connect(host, port, rates.on_data, _greet, timeout_s * _CONNECT_SHARE)
    except OSError:
        return None
    try:
        await asyncio.wait((link.closed,), timeout=until - asyncio.get_running_loop().time())
    finally:
        link.abort()
    return rates.found(host, port)


def _greet(link: VrpnConnection) -> None:
    link.send(COOKIE)


class _TrackerRates:
    """Counter of the poses of each tracker."""

    def __init__(self) -> None:
        self._incoming = Incoming()
        self._poses: Counter[str] = Counter()
        self._first_ns = self._last_ns = 0

    def on_data(self, data: bytes, t_arrival_ns: int) -> None:
        for message in self._incoming.feed(data):
            if message.kind == POSE:
                self._first_ns = self._first_ns or t_arrival_ns
                self._last_ns = t_arrival_ns
                self._poses[subject_name(message.sender, decode_pose(message.payload).sensor)] += 1

    def found(self, host: str, port: int) -> FoundSource | None:
        """Return the server with the rate of each tracker."""
        if self._incoming.version is None:
            return None
        elapsed_s = (self._last_ns - self._first_ns) / NS_PER_S
        bodies = tuple(
            (name, round((count - 1) / elapsed_s, 1) if elapsed_s else None)
            for name, count in self._poses.items()
        )
        return FoundSource(
            "vrpn", {"server": host, "port": port}, f"VRPN server {self._incoming.version}", bodies
        )
