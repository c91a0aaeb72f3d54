"""Pose sources of the running bridge, each with its stages into the world."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from vil_bridge import registry
from vil_bridge.config.base import PluginConfig
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.ports import PoseSource
from vil_bridge.core.supervisor import ComponentState, Status
from vil_bridge.daemon.fault_injection import FaultInjector
from vil_bridge.daemon.marker_bodies import MarkerBodies
from vil_bridge.monitoring.rate_meter import Meter

__all__ = ["SourceRunner"]

_LONGEST_LOOK_NS: Final = NS_PER_S


class SourceRunner:
    """A source with its status, its meter, the faults injected into it and its marker template.

    Attributes:
        faults: wanted ones, by the configuration or since. fault_injector: injects them while the source runs.

    Raises:
        ConfigError: the source or its template cannot be had.
    """

    def __init__(self, name: str, config: PluginConfig) -> None:
        self.source: PoseSource = registry.create("sources", name, config)
        self.faults: str = getattr(config, "faults", "")
        self.fault_injector: FaultInjector | None = None
        self.status = Status(name)
        template: Path | None = getattr(config, "marker_template", None)
        self.subjects = None if template is None else MarkerBodies(template, self.status)
        self.meter = Meter()
        self._looked_ns = now_ns()
        self._silent_ns = 0

    def silent_s(self, t_ns: int) -> float:
        """For how long it has not run, however its trouble changed since; to be asked every now and then.

        Time in which nobody asked hardly counts: then this process stood still, and the source may be well.
        """
        passed_ns, self._looked_ns = min(t_ns - self._looked_ns, _LONGEST_LOOK_NS), t_ns
        self._silent_ns = 0 if self.status.state is ComponentState.RUNNING else self._silent_ns + passed_ns
        return self._silent_ns / NS_PER_S
