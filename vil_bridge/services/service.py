"""A service of a bridge, and the parts of the bridge that it may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

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


class Service(Protocol):
    """One capability of a running bridge, constructed with its section of the configuration."""

    async def run(self, host: ServiceHost) -> None:
        """Serve until cancelled.

        Raises:
            ConfigError: its section names what does not exist, or an extra is missing.
            SinkError: its port is taken.
        """
        ...

    def faults(self) -> Mapping[str, int]:
        """Return unwanted input by reason; empty before it serves. Any thread."""
        ...

    def peer_faults(self) -> PeerFaults | None:
        """Return the senders of unwanted input; None before it serves. Any thread."""
        ...
