"""A service of a bridge, and the parts of the bridge that it may use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.bridge_time import BridgeTime
from vil_bridge.core.types import CameraModel, SourceEvent
from vil_bridge.interfaces.planned_path import PlannedPaths
from vil_bridge.interfaces.ports import Emit
from vil_bridge.interfaces.scene_queries import SceneQueries
from vil_bridge.interfaces.setpoints import Setpoint
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.interfaces.voxels import VoxelMap
from vil_bridge.monitoring.frame_records import CameraLedger
from vil_bridge.monitoring.snapshot import SimulationView
from vil_bridge.pipeline.camera_relay import FanOut
from vil_bridge.pipeline.compensation import HeaderWriter
from vil_bridge.recording.metadata import RecordingFacts
from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world.world import World

if TYPE_CHECKING:
    from fastapi import APIRouter

__all__ = [
    "ActorSetpoints",
    "ClockControl",
    "HostCamera",
    "OutputOffers",
    "Service",
    "ServiceHost",
    "SourceGate",
]


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


class ActorSetpoints(Protocol):
    """Set-points for actors that are simulated vehicles. Any thread."""

    def fly(self, actor: str, setpoint: Setpoint) -> None:
        """Give a set-point to the vehicle that an actor is, and to its followers.

        Raises:
            ValueRefused: none of them is a simulated vehicle, or a model cannot hold it.
            ValueError: it cannot do that now.
        """
        ...

    def follow(self, actor: str, follower: str) -> None:
        """Let a second actor fly the set-points of a first one too, such as its twin."""
        ...

    def is_simulated(self, actor: str) -> bool:
        """Return True if an actor is a simulated vehicle that flies now."""
        ...


class OutputOffers(Protocol):
    """Values that outputs send besides poses and pictures."""

    def offer_maps(self, maps: Mapping[str, VoxelMap]) -> None:
        """Give maps, by name, to the outputs that send them, now and later."""
        ...

    def offer_paths(self, paths: PlannedPaths) -> None:
        """Give planned flights to the outputs that send them, now and later."""
        ...


class SourceGate(Protocol):
    """Gate between a source and the world. Loop thread.

    Attributes:
        status: of the source.
        replaced: True while others stand in for the source, whose events are held back.
        held_back: events held back this time or the last.
    """

    status: Status
    replaced: bool
    held_back: int

    def into_world(self, event: SourceEvent) -> None:
        """Hand an event to the world and to those behind it, past the gate."""
        ...


@dataclass(frozen=True, slots=True)
class HostCamera:
    """A camera of the bridge.

    Attributes:
        model: its geometry.
        actor: on which it is.
        modalities: that it offers. variants: of each, the compensated one first.
        pictures: hands them to all that take them.
        accounted: hands those to readers that are frames of the ledger.
        headers: writes their headers.
        ledger: returns the newest frames, as many as asked for at most; any thread.
    """

    model: CameraModel
    actor: str
    modalities: Sequence[str]
    variants: Sequence[str]
    pictures: FanOut
    accounted: FanOut
    headers: HeaderWriter
    ledger: Callable[[int], CameraLedger]


@dataclass(frozen=True, slots=True)
class ServiceHost:
    """The parts of a bridge that a service may use.

    Attributes:
        config: of the bridge, as it started.
        in_force: returns the configuration of now, with what changed in flight; any thread.
        facts: returns what a file of the bridge's data says about a configuration; takes Unix time
            minus bridge time too, nanoseconds.
        world: where the actors are.
        sources: gates between the live sources and the world, by name.
        clock: control of the bridge's time.
        vehicles: commands to simulated vehicles.
        scene_of: returns a scene that answers questions, by its name or file and the quality of
            its pictures; raises ConfigError where the renderer is not installed.
        setpoints: for actors that are simulated vehicles.
        outputs: take what else a service makes.
        cameras: by name.
        services: those that were made before, in the order of the table, by name.
    """

    config: BridgeConfig
    in_force: Callable[[], BridgeConfig]
    facts: Callable[[BridgeConfig, int], RecordingFacts]
    world: World
    sources: Mapping[str, SourceGate]
    clock: ClockControl
    vehicles: VehicleCommandBus
    scene_of: Callable[[str, str], SceneQueries]
    setpoints: ActorSetpoints
    outputs: OutputOffers
    cameras: Mapping[str, HostCamera]
    services: Mapping[str, Service]


class Service:
    """One capability of a running bridge, constructed as ``Implementation(section, host)``.

    ``section`` is its part of the configuration. The constructor raises ConfigError where that
    names what does not exist.
    """

    async def begin(self) -> None:
        """Begin, once: in the loop, before HTTP serves and before sources and cameras run.

        Raises:
            VilBridgeError: it cannot, which ends the bridge.
        """

    async def end(self) -> None:
        """End, once: after sources, cameras and outputs, before HTTP ends.

        Called after a failed :meth:`begin` too.
        """

    async def run(self, status: Status) -> None:
        """Serve until cancelled; a service that only looks on has nothing to do here.

        Args:
            status: of the service; ``status.running()`` says that it has begun. A failure before
                that ends the bridge, one after it ends the service, which is started again.

        Raises:
            VilBridgeError: it cannot listen, or lacks what it needs.
        """
        status.running()
        await asyncio.Event().wait()

    def taps(self) -> Sequence[Emit]:
        """Return functions that take each event of the sources, after the world did.

        They are called in the loop, for every pose: they do not wait.
        """
        return ()

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

    def modes(self) -> Sequence[str]:
        """Return its words of the status' ``modes`` that are true now. Any thread."""
        return ()

    def updates(self) -> Mapping[str, Callable[[], Any]]:
        """Return states that pages get when they change, by event of ``/api/v1/updates``.

        Called once, in the thread of HTTP; each function returns the state of now.
        """
        return {}

    def routes(self) -> Sequence[APIRouter]:
        """Return its REST routes; called once, in the thread of HTTP."""
        return ()

    def faults(self) -> Mapping[str, int]:
        """Return unwanted input by reason; empty before it serves. Any thread."""
        return {}

    def peer_faults(self) -> PeerFaults | None:
        """Return the senders of unwanted input; None before it serves. Any thread."""
        return None
