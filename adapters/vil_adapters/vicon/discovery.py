"""Search for DataStream servers: they announce nothing, so hosts are asked one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from vil_adapters.sessions.discovery import SubjectRates, ask_each
from vil_adapters.vicon.config import ViconConfig
from vil_adapters.vicon.source import ViconSource
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.interfaces.ports import FoundSource, SourceContext
from vil_bridge.runtime.supervisor import Status

_PORT: Final[int] = ViconConfig.model_fields["port"].default


async def discover(targets: Sequence[str], timeout_s: float) -> list[FoundSource]:
    """Return the DataStream servers among ``targets``, or on this computer when there are none.

    Args:
        targets: ``host`` or ``host:port``.
        timeout_s: how long to receive from each of them, all at once.

    Raises:
        ConfigError: a target is neither.
    """
    return await ask_each(targets, _PORT, lambda host, port: _ask(host, port, timeout_s))


async def _ask(host: str, port: int, timeout_s: float) -> FoundSource | None:
    """Receive from one server; None when no frame came."""
    config = ViconConfig(server=host, port=port)
    status = Status("discover")
    rates = SubjectRates()
    with suppress(SourceUnavailable, TimeoutError):
        async with asyncio.timeout(timeout_s):
            await ViconSource("discover", config).run(rates.count, status, SourceContext())
    if not rates.frames:
        return None
    return FoundSource(
        type="vicon",
        config={"server": config.server, "port": config.port},
        title=f"Vicon DataStream at {status.facts['address']}, {rates.rate_hz or 0.0:.0f} Hz",
        bodies=rates.rates(status.facts["subjects"]),
        skeletons=rates.rates(status.facts["skeletons"]),
    )
