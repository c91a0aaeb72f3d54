"""Twins as a service of a running bridge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vil_bridge.services.service import Service, ServiceHost
from vil_bridge.services.twins.config import TwinConfig
from vil_bridge.services.twins.monitor import CALM_SHARE, TwinMonitor, TwinPair
from vil_bridge.services.twins.view import TwinView, View

__all__ = ["TwinService"]


class TwinService(Service):
    """Watch over the distances of all twins."""

    def __init__(self, section: Mapping[str, TwinConfig], host: ServiceHost) -> None:
        pairs = [TwinPair(name, **twin.model_dump()) for name, twin in section.items()]
        self._monitor = TwinMonitor(host.world, pairs)
        for pair in pairs:
            host.setpoints.follow(pair.vehicle, pair.twin)

    def check(self) -> Sequence[str]:
        """Compare the paths; return a sentence for each twin in alarm."""
        self._monitor.check()
        alarms = self._monitor.alarms
        return tuple(self._alarm(pair) for pair in self._monitor.pairs if pair.name in alarms)

    def view(self) -> View:
        """Return the distances by pair. Any thread."""
        return {pair.name: self._view(pair) for pair in self._monitor.pairs}

    def _alarm(self, pair: TwinPair) -> str:
        distances = self._monitor.distances[pair.name]
        far = ""
        if distances is not None:
            far = f": {distances.position_rms_m:.2f} m rms from {pair.vehicle}"
        ends = f"alarm_m is {pair.alarm_m:g} m, and it ends below {CALM_SHARE * pair.alarm_m:g} m"
        return f"twin {pair.name} is in alarm{far}; {ends}. Compare the two flights"

    def _view(self, pair: TwinPair) -> TwinView:
        monitor = self._monitor
        distances = monitor.distances[pair.name]
        known = {} if distances is None else distances._asdict()
        return TwinView(
            pair.vehicle,
            pair.twin,
            pair.window_s,
            pair.alarm_m,
            pair.name in monitor.alarms,
            monitor.episodes[pair.name],
            **known,
        )
