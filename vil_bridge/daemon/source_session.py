"""Runs some sources of a configuration for a while, without the rest of the bridge."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any

from vil_bridge import registry
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.ports import Emit, PoseSource, SourceContext
from vil_bridge.core.supervisor import Status, supervise
from vil_bridge.core.types import SourceEvent
from vil_bridge.daemon.marker_bodies import MarkerBodies
from vil_bridge.daemon.sources import run_of

__all__ = ["listening"]


@contextlib.asynccontextmanager
async def listening(config: BridgeConfig, names: Iterable[str], receive: Emit) -> AsyncIterator[dict[str, Status]]:
    """Run the named sources, and no others, for the length of the block; gives their statuses.

    Events that a source emits while it ends are dropped.

    Raises:
        ConfigError: a plug-in or a template cannot be had.
        Exception: a source has a bug; raised when the block ends.
    """
    sources = {name: registry.create("sources", name, config.sources[name]) for name in names}
    statuses = {name: Status(name) for name in sources}
    context = SourceContext()
    over = False

    def into_block(bodies: MarkerBodies | None) -> Emit:
        def emit(event: SourceEvent) -> None:
            if not over:
                receive(event if bodies is None else bodies.transformed(event))

        return emit

    def supervised(name: str, source: PoseSource) -> Coroutine[Any, Any, None]:
        template = getattr(config.sources[name], "marker_template", None)
        emit = into_block(None if template is None else MarkerBodies(template, statuses[name]))
        run = run_of(source)
        return supervise(lambda status: run(emit, status, context), statuses[name])

    tasks = [asyncio.create_task(supervised(name, source)) for name, source in sources.items()]
    try:
        yield statuses
    finally:
        over = True
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        for bug in (end for end in ends if isinstance(end, Exception)):
            raise bug
