"""Race as a service of a running bridge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.frame_header import HeaderRace
from vil_bridge.services.race.bridge_race import BridgeRace
from vil_bridge.services.race.config import RaceConfig
from vil_bridge.services.race.view import View
from vil_bridge.services.service import Service, ServiceHost
from vil_bridge.world.race.live import RaceMonitor

if TYPE_CHECKING:
    from fastapi import APIRouter

__all__ = ["RaceService", "race_of"]


class RaceService(Service):
    """Judge the race of a bridge, and write it into the headers of the racers' cameras.

    Attributes:
        race: of the bridge; None = it has none.
    """

    def __init__(self, section: RaceConfig | None, host: ServiceHost) -> None:
        self.race: BridgeRace | None = None
        if section is None:
            return
        self.race = BridgeRace(section, host)
        for camera in host.cameras.values():
            if camera.actor in section.racers:
                camera.headers.race = _header_race(self.race.monitor, camera.actor)

    def check(self) -> Sequence[str]:
        """Judge the poses that came; a race degrades nothing."""
        if self.race is not None:
            self.race.monitor.check()
        return ()

    def adopt(self, config: BridgeConfig) -> None:
        """Take over rooms that were moved."""
        if self.race is not None:
            self.race.adopt(config)

    def view(self) -> View:
        """Return the race as it was judged last; None = the bridge has none. Any thread."""
        if self.race is None:
            return None
        return self.race.view()

    def routes(self) -> Sequence[APIRouter]:
        """Return the routes ``/api/v1/race``."""
        from vil_bridge.services.race.routes import race_router

        return (race_router(self.race),)


def race_of(service: Service | None) -> RaceMonitor | None:
    """Return the race that a bridge's service ``race`` judges; None = it has none."""
    if not isinstance(service, RaceService) or service.race is None:
        return None
    return service.race.monitor


def _header_race(race: RaceMonitor, actor: str) -> Callable[[int], HeaderRace]:
    """Return the function that gives a racer's race at an instant, for headers."""

    def now(t_ns: int) -> HeaderRace:
        one = race.standing(actor).instant
        return HeaderRace(
            state=one.phase,
            next_gate=one.next_gate,
            passed=one.passed,
            lap=one.lap,
            laps=one.laps,
            race_s=one.race_s(t_ns),
            penalty_s=one.penalty_s,
        )

    return now
