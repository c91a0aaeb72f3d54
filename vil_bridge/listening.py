"""Runs some sources of a configuration for a while, without the rest of the bridge."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Iterable

from vil_bridge import registry
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.ports import Emit
from vil_bridge.core.supervisor import Status, supervise

__all__ = ["listening"]


@contextlib.asynccontextmanager
async def listening(config: BridgeConfig, names: Iterable[str], take: Emit) -> AsyncIterator[dict[str, Status]]:
    """Run the named sources, and no others, for the length of the block; gives their statuses.

    Raises:
        ConfigError: a plug-in cannot be had.
        Exception: a source has a bug; raised when the block ends.
    """
    sources = {name: registry.create("sources", name, config.sources[name]) for name in names}
    statuses = {name: Status(name) for name in sources}
    tasks = [
        asyncio.create_task(supervise(functools.partial(source.run, take), statuses[name]))
        for name, source in sources.items()
    ]
    try:
        yield statuses
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        for bug in (end for end in ends if isinstance(end, Exception)):
            raise bug
