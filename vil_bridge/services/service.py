"""A service of a bridge, and the parts of the bridge that it may use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.bridge_time import BridgeTime
from vil_bridge.interfaces.scene_queries import SceneQueries
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.monitoring.snapshot import SimulationView
from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.world.race.live import RaceMonitor
from vil_bridge.world.world import World

__all__ = ["ClockControl", "Service", "ServiceHost"]


class ClockControl(Protocol):
    """Control of the bridge's clock. Both setters raise ValueError with the reason.

    Attributes:
        clock: the bridge's own.
    """

    clock: BridgeTime

    def state(self) -> SimulationView:
        """Return how time passes now."""
        ...

    def set_pace(self, *, paused: bool | None = None, speed: float | None = None) -> None:
        """Pause, go on, or change the speed."""
        ...

    def step(self, duration_ns: int) -> None:
        """Let a paused world go on for a while."""
        ...


@dataclass(frozen=True, slots=True)
class ServiceHost:
    """The parts of a bridge that a service may use.

    Attributes:
        config: of the bridge, as it started.
        world: where the actors are.
        clock: control of the bridge's time.
        vehicles: commands to simulated vehicles.
        scene_of: returns a scene that answers questions, by its name or file; raises ConfigError
            where the renderer is not installed.
        race: of the bridge; None = it has none.
    """

    config: BridgeConfig
    world: World
    clock: ClockControl
    vehicles: VehicleCommandBus
    scene_of: Callable[[str], SceneQueries]
    race: RaceMonitor | None


class Service:
    """One capability of a running bridge, constructed as ``Implementation(section, host)``.

    ``section`` is its part of the configuration. The constructor raises ConfigError where that
    names what does not exist.
    """

    async def run(self) -> None:
        """Serve until cancelled; a service that only looks on has nothing to do here.

        Raises:
            VilBridgeError: it cannot listen, or lacks what it needs.
        """
        await asyncio.Event().wait()

    def check(self) -> Sequence[str]:
        """Return what is worse than asked, as sentences; called five times a second, in a thread.

        Empty = nothing is.
        """
        return ()

    def adopt(self, config: BridgeConfig) -> None:
        """Take over what of a changed configuration may change while it runs; any thread."""

    def view(self) -> Any:
        """Return its part of the status, of the type ``View`` of its module ``view``. Any thread.

        None = it has none.
        """
        return None

    def faults(self) -> Mapping[str, int]:
        """Return unwanted input by reason; empty before it serves. Any thread."""
        return {}

    def peer_faults(self) -> PeerFaults | None:
        """Return the senders of unwanted input; None before it serves. Any thread."""
        return None
