"""Services of a running bridge, each behind a boundary within which it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import VilBridgeError
from vil_bridge.core.types import SourceEvent
from vil_bridge.interfaces.bulkhead import Bulkhead
from vil_bridge.interfaces.ports import Emit
from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.runtime.supervisor import BACKOFF_FIRST_S, ComponentState, Status, supervise
from vil_bridge.services.service import Service

if TYPE_CHECKING:
    from fastapi import APIRouter

__all__ = ["ServiceRunner"]


class ServiceRunner:
    """A service that fails alone, by name, and is started again.

    One that fails before it has begun ends the bridge, as a port of the stream does that is taken.

    Attributes:
        service: itself.
        status: of its run.
    """

    def __init__(self, name: str, service: Service) -> None:
        self.service: Final = service
        self.status: Final = Status(f"service {name}")
        self._bulkhead = Bulkhead(self.status.name)

    async def begin(self) -> None:
        """Let it begin. Raises VilBridgeError: it cannot."""
        await self.service.begin()

    async def end(self) -> None:
        """Let it end."""
        await self.service.end()

    async def run(self) -> None:
        """Run it until cancelled.

        Raises:
            VilBridgeError, OSError: it could not begin.
        """
        try:
            await self._run_once(self.status)
        except (VilBridgeError, OSError) as exc:
            if self.status.state is ComponentState.STARTING:
                raise
            self.status.retrying(str(exc))
            await asyncio.sleep(BACKOFF_FIRST_S)
        await supervise(self._run_once, self.status)

    async def _run_once(self, status: Status) -> None:
        await self._bulkhead.run(partial(self.service.run, status))

    def taps(self) -> Sequence[Emit]:
        """Return its functions that take each event of the sources."""
        return [self._guarded(tap) for tap in self._bulkhead.call(self.service.taps) or ()]

    def _guarded(self, tap: Emit) -> Emit:
        """Return a tap whose exceptions end the service alone.

        The boundary's own call copies a context, which takes 5 us for every pose.
        """
        bulkhead = self._bulkhead

        def take(event: SourceEvent) -> None:
            if bulkhead.failed:
                return
            try:
                tap(event)
            except BaseException as exc:  # a library's panic is not an Exception
                bulkhead.fail(exc)

        return take

    def check(self) -> Sequence[str]:
        """Return what is worse than asked, as sentences; its own failure first."""
        found = self._bulkhead.call(self.service.check)
        report = self.status.report()
        if report.state is ComponentState.RETRYING:
            return (f"{report.name} failed and is started again: {report.reason}",)
        return found or ()

    def adopt(self, config: BridgeConfig) -> None:
        """Let it take over a changed configuration; any thread."""
        self._bulkhead.call(self.service.adopt, config)

    def view(self) -> Any:
        """Return its part of the status; None = it has none, or has failed. Any thread."""
        return self._bulkhead.call(self.service.view)

    def modes(self) -> Sequence[str]:
        """Return its words of the status' ``modes`` that are true now. Any thread."""
        return self._bulkhead.call(self.service.modes) or ()

    def updates(self) -> Mapping[str, Callable[[], Any]]:
        """Return its states that pages get when they change, by event; None while it has failed.

        Called once, in the thread of HTTP.
        """
        states = self._bulkhead.call(self.service.updates) or {}
        return {event: partial(self._bulkhead.call, state) for event, state in states.items()}

    def routes(self) -> Sequence[APIRouter]:
        """Return its REST routes; called once, in the thread of HTTP."""
        return self._bulkhead.call(self.service.routes) or ()

    def faults(self) -> Mapping[str, int]:
        """Return its unwanted input by reason. Any thread."""
        return self._bulkhead.call(self.service.faults) or {}

    def peer_faults(self) -> PeerFaults | None:
        """Return the senders of its unwanted input. Any thread."""
        found: PeerFaults | None = self._bulkhead.call(self.service.peer_faults)
        return found
