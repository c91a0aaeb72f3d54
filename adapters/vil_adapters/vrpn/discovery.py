"""Finds VRPN servers and what they track."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

from vil_adapters.vrpn.codec import COOKIE, POSE, decode_pose
from vil_adapters.vrpn.config import VrpnConfig
from vil_adapters.vrpn.connection import VrpnConnection, connect
from vil_adapters.vrpn.convert import subject_name
from vil_adapters.vrpn.id_mapping import Incoming
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.network import host_and_port
from vil_bridge.core.ports import FoundSource

__all__ = ["discover"]

_PORT: Final[int] = VrpnConfig.model_fields["port"].default
_LOOPBACK: Final = "127.0.0.1"
_CONNECT_SHARE: Final = 0.5


async def discover(targets: Sequence[str], timeout_s: float) -> list[FoundSource]:
    """Connect to each target (``host`` or ``host:port``; none = this computer) and listen.

    VRPN has no broadcast: servers elsewhere are found only where they are asked.

    Raises:
        ConfigError: a target is neither.
    """
    places = [host_and_port(target, _PORT) for target in targets or (_LOOPBACK,)]
    found = await asyncio.gather(*(_ask(host, port, timeout_s) for host, port in places))
    return [source for source in found if source is not None]


async def _ask(host: str, port: int, timeout_s: float) -> FoundSource | None:
    """What a server tells within the time; None when it is not there or speaks something else."""
    ear = _Ear()
    until = asyncio.get_running_loop().time() + timeout_s
    try:
        link = await connect(host, port, ear.on_data, _greet, timeout_s * _CONNECT_SHARE)
    except OSError:
        return None
    try:
        await asyncio.wait((link.closed,), timeout=until - asyncio.get_running_loop().time())
    finally:
        link.abort()
    return ear.found(host, port)


def _greet(link: VrpnConnection) -> None:
    link.send(COOKIE)


class _Ear:
    """Counts the poses of each tracker."""

    def __init__(self) -> None:
        self._incoming = Incoming()
        self._poses: Counter[str] = Counter()
        self._first_ns = self._last_ns = 0

    def on_data(self, data: bytes, t_arrival_ns: int) -> None:
        for heard in self._incoming.feed(data):
            if heard.kind == POSE:
                self._first_ns = self._first_ns or t_arrival_ns
                self._last_ns = t_arrival_ns
                self._poses[subject_name(heard.sender, decode_pose(heard.payload).sensor)] += 1

    def found(self, host: str, port: int) -> FoundSource | None:
        """The server with the rate of each tracker."""
        if self._incoming.version is None:
            return None
        elapsed_s = (self._last_ns - self._first_ns) / NS_PER_S
        bodies = tuple(
            (name, round((count - 1) / elapsed_s, 1) if elapsed_s else None) for name, count in self._poses.items()
        )
        return FoundSource("vrpn", {"server": host, "port": port}, f"VRPN server {self._incoming.version}", bodies)
