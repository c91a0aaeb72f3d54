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
from vil_bridge.core.types import SourceEvent
from vil_bridge.daemon.marker_bodies import MarkerBodies

__all__ = ["listening"]


@contextlib.asynccontextmanager
async def listening(config: BridgeConfig, names: Iterable[str], take: Emit) -> AsyncIterator[dict[str, Status]]:
    """Run the named sources, and no others, for the length of the block; gives their statuses.

    What a source says on its way out is not passed on: whoever listened has made up their mind.

    Raises:
        ConfigError: a plug-in or a template cannot be had.
        Exception: a source has a bug; raised when the block ends.
    """
    sources = {name: registry.create("sources", name, config.sources[name]) for name in names}
    statuses = {name: Status(name) for name in sources}
    over = False

    def pass_on(event: SourceEvent) -> None:
        if not over:
            take(event)

    takers = {name: _with_template(config, statuses[name], pass_on) for name in sources}
    tasks = [
        asyncio.create_task(supervise(functools.partial(source.run, takers[name]), statuses[name]))
        for name, source in sources.items()
    ]
    try:
        yield statuses
    finally:
        over = True
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        for bug in (end for end in ends if isinstance(end, Exception)):
            raise bug


def _with_template(config: BridgeConfig, status: Status, take: Emit) -> Emit:
    """The same ``take``, behind the template that the source's markers fill where it has one."""
    template = getattr(config.sources[status.name], "marker_template", None)
    return take if template is None else MarkerBodies(template, status).before(take)
