"""Runs some sources of a configuration for a while, without the rest of the bridge."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.types import SourceEvent
from vil_bridge.daemon.sources import SourceRunner
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.runtime.supervisor import Status


@contextlib.asynccontextmanager
async def listening(
    config: BridgeConfig, names: Iterable[str], receive: Emit
) -> AsyncIterator[dict[str, Status]]:
    """Run the named sources, and no others, for the length of the block; gives their statuses.

    Faults of the configuration are not injected. Events that a source emits while it ends are
    dropped.

    Raises:
        ConfigError: a plug-in or a template cannot be had.
        Exception: a source has a bug; raised when the block ends.
    """
    runners = {name: SourceRunner(name, config.sources[name]) for name in names}
    context = SourceContext()
    over = False

    def emit(event: SourceEvent) -> None:
        if not over:
            receive(event)

    for runner in runners.values():
        runner.faults = ""
    tasks = [asyncio.create_task(runner.run(context, [emit])) for runner in runners.values()]
    try:
        yield {name: runner.status for name, runner in runners.items()}
    finally:
        over = True
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        for bug in (end for end in ends if isinstance(end, Exception)):
            raise bug
