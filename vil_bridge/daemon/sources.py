"""Pose sources of the running bridge, each with its stages into the world."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vil_bridge import registry
from vil_bridge.config.base import PluginConfig
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.types import ImuSample, SourceEvent, SourceFrame
from vil_bridge.daemon.fault_injection import FaultInjector
from vil_bridge.daemon.marker_bodies import MarkerBodies
from vil_bridge.interfaces.ports import Emit, PoseSource, SourceContext
from vil_bridge.monitoring.rate_meter import Meter
from vil_bridge.runtime.supervisor import ComponentState, Status, supervise

_LONGEST_CHECK_NS: Final = NS_PER_S


class SourceRunner:
    """A source with the stages that each of its events passes, in this order.

    source -> injected faults -> marker bodies -> replay gate
    | meter -> world -> subject check -> services -> federation

    A replay enters behind the gate, by :meth:`into_world`. Loop thread.

    Attributes:
        faults: wanted ones, by the configuration or since. fault_injector: injects them while the
            source runs.
        replaced: True while a replay stands in for the source, whose events are held back.
        held_back: events held back in this or the last replay.

    Raises:
        ConfigError: the source or its template cannot be had.
    """

    def __init__(self, name: str, config: PluginConfig) -> None:
        self.source: PoseSource = registry.create("sources", name, config)
        self.faults: str = getattr(config, "faults", "")
        self.fault_injector: FaultInjector | None = None
        self.status = Status(name)
        self.meter = Meter()
        self.replaced = False
        self.held_back = 0
        template: Path | None = getattr(config, "marker_template", None)
        self._bodies = None if template is None else MarkerBodies(template, self.status)
        self._receivers: tuple[Emit, ...] = ()
        self._checked_ns = now_ns()
        self._silent_ns = 0

    async def run(self, context: SourceContext, receivers: Sequence[Emit]) -> None:
        """Run the source, again after each failure, until cancelled.

        Args:
            context: what the source gets.
            receivers: take each event behind the gate, the world first.
        """
        self._receivers = tuple(receivers)
        injector = self.fault_injector = FaultInjector(
            self.faults, self._behind_faults, self.status
        )

        def emit(event: SourceEvent) -> None:
            injector.emit(event)

        with contextlib.closing(injector):
            await supervise(lambda status: self.source.run(emit, status, context), self.status)

    def _behind_faults(self, event: SourceEvent) -> None:
        if self._bodies is not None:
            event = self._bodies.transformed(event)
        if self.replaced:
            self.held_back += 1
            self.status.counters["held_back"] += 1
        else:
            self.into_world(event)

    def into_world(self, event: SourceEvent) -> None:
        """Hand an event, live or replayed, to the world and to those behind it."""
        if isinstance(event, (SourceFrame, ImuSample)):
            self.meter.mark(event.t_arrival_ns)
        for receive in self._receivers:
            receive(event)

    @property
    def received(self) -> int:
        """Frames and samples that came since the start.

        A source may take several at once, and hand on the newest.
        """
        return self.meter.count + self.status.counters["superseded"]

    def set_faults(self, text: str) -> None:
        """Inject other faults from now on; a source that has not started yet starts with them.

        Raises:
            ConfigError: the text cannot be read; the old faults stay.
        """
        if text != self.faults:
            if self.fault_injector is not None:
                self.fault_injector.change(text)
            self.faults = text

    def silent_s(self, t_ns: int) -> float:
        """Return for how long it has not run, seconds; to be asked every now and then.

        Time between two calls counts for one second at most: this process may have stood still, and
        the source be well.
        """
        passed_ns = min(t_ns - self._checked_ns, _LONGEST_CHECK_NS)
        self._checked_ns = t_ns
        if self.status.state is ComponentState.RUNNING:
            self._silent_ns = 0
        else:
            self._silent_ns += passed_ns
        return self._silent_ns / NS_PER_S
