"""The parts of a bridge, as plain data: what everything that works on a bridge takes."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vil_bridge import registry
from vil_bridge.assembly.recorded import recording_metadata
from vil_bridge.assembly.world import build_world
from vil_bridge.config.base import PluginConfig
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import WallClock, machine_ns
from vil_bridge.core.errors import ConfigError, RendererError
from vil_bridge.daemon.actor_commands import ActorCommands
from vil_bridge.daemon.cameras import CameraRunner
from vil_bridge.daemon.factories import make_guard, make_publisher
from vil_bridge.daemon.http_access import make_access
from vil_bridge.daemon.output_manager import OutputManager
from vil_bridge.daemon.scene_rays import SceneLibrary, SceneRays
from vil_bridge.daemon.service_runner import ServiceRunner
from vil_bridge.daemon.simulation_clock import SimulationClock
from vil_bridge.daemon.sources import SourceRunner
from vil_bridge.daemon.subject_check import SubjectCheck
from vil_bridge.daemon.vehicle_commands import vehicle_commands
from vil_bridge.interfaces.event_loop import LoopErrors
from vil_bridge.interfaces.ports import RendererClient, SourceContext
from vil_bridge.interfaces.services import services
from vil_bridge.monitoring.camera_history import HistoryRing
from vil_bridge.monitoring.frame_records import CameraLedger
from vil_bridge.monitoring.overload import OverloadDetector
from vil_bridge.monitoring.process_stats import DescriptorCheck
from vil_bridge.monitoring.watchdog import Watchdog
from vil_bridge.outputs.federation.publisher import Publisher
from vil_bridge.outputs.stream.curve_guard import CurveAuthenticator
from vil_bridge.outputs.stream.hub import StreamHub
from vil_bridge.pipeline.renderer_pool import RendererPool
from vil_bridge.protocols import opencv as cv2
from vil_bridge.services.service import HostCamera, Service, ServiceHost
from vil_bridge.web.auth.access import Access
from vil_bridge.world.world import World


@dataclass(frozen=True, slots=True)
class Judgement:
    """Answers about the whole bridge that its parts ask for; any thread.

    Attributes:
        status: states by name, for an onboard client's question.
        status_line: one line for ``systemctl status``.
        camera_problem: why a camera's readers get no pictures, and True while what they would get
            is frozen.
        in_force: the configuration of now, with what changed in flight.
        ledger: a camera's newest frames, as many as asked for at most.
    """

    status: Callable[[], Mapping[str, Any]]
    status_line: Callable[[], str]
    camera_problem: Callable[[str], tuple[str, bool]]
    in_force: Callable[[], BridgeConfig]
    ledger: Callable[[str, int], CameraLedger]


@dataclass(slots=True)
class BridgeHealth:
    """Observers of a bridge; any thread may read.

    Attributes:
        startup: facts about the process, known once the bridge runs.
        started_ns: machine time.
    """

    startup: dict[str, Any]
    subject_check: SubjectCheck
    watchdog: Watchdog
    history: HistoryRing
    started_ns: int = field(default_factory=machine_ns)
    loop_errors: LoopErrors = field(default_factory=LoopErrors)
    overload: OverloadDetector = field(default_factory=OverloadDetector)
    descriptors: DescriptorCheck = field(default_factory=DescriptorCheck)


@dataclass(slots=True)
class BridgeContext:
    """A bridge's parts.

    Any thread may read; ``config`` is replaced while it runs.

    Attributes:
        for_sources: what sources get besides their own configuration. scenes: that answer
            questions.
        loop: runs the bridge; set when it starts.
    """

    config: BridgeConfig
    access: Access
    world: World
    sources: dict[str, SourceRunner]
    cameras: dict[str, CameraRunner]
    outputs: OutputManager
    publisher: Publisher | None
    hub: StreamHub
    pool: RendererPool
    simulation: SimulationClock
    for_sources: SourceContext
    scenes: SceneLibrary
    services: dict[str, ServiceRunner]
    health: BridgeHealth
    loop: asyncio.AbstractEventLoop = field(init=False)


def build(config: BridgeConfig, judgement: Judgement, startup: dict[str, Any]) -> BridgeContext:
    """Make the parts that a configuration describes; none of them runs yet.

    Args:
        config: what to build.
        judgement: answers that the control channel and the service manager ask for.
        startup: facts about the process so far.

    Raises:
        ConfigError: a plug-in or an address cannot be had.
        SinkError: a stream's port cannot be bound.
    """
    simulation = SimulationClock(config.simulation)
    world = build_world(config)
    scenes = SceneLibrary()
    for_sources = SourceContext(clock=simulation.clock, rays=SceneRays(scenes, world, config))
    renderers = {name: _renderer(name, renderer) for name, renderer in config.renderers.items()}
    commands = ActorCommands(config, for_sources.vehicles)
    outputs = OutputManager(config.outputs, commands.fly)
    access = make_access(config.http)
    guard = make_guard(config.stream)
    cameras = _cameras(config, world, for_sources, guard, outputs)
    relays = {name: camera.relay for name, camera in cameras.items()}
    preferences = {name: camera.preference(config) for name, camera in cameras.items()}
    pool = RendererPool(
        renderers, relays, preferences, world, waits=config.simulation.wait_for_cameras
    )
    sources = {name: SourceRunner(name, source) for name, source in config.sources.items()}
    return BridgeContext(
        config=config,
        access=access,
        world=world,
        sources=sources,
        cameras=cameras,
        outputs=outputs,
        publisher=make_publisher(config, world, simulation.clock),
        hub=_hub(config, cameras, for_sources, access, guard, judgement),
        pool=pool,
        simulation=simulation,
        for_sources=for_sources,
        scenes=scenes,
        services=_services(
            config,
            lambda services: ServiceHost(
                config=config,
                in_force=judgement.in_force,
                facts=recording_metadata,
                world=world,
                sources=sources,
                clock=simulation,
                vehicles=for_sources.vehicles,
                scene_of=scenes.of,
                setpoints=commands,
                outputs=outputs,
                cameras=_host_cameras(cameras, judgement),
                services=services,
            ),
        ),
        health=BridgeHealth(
            startup,
            _subject_check(config),
            Watchdog(pool.busy_s, judgement.status_line),
            HistoryRing(tuple(cameras), WallClock.of_run()),
        ),
    )


def _services(
    config: BridgeConfig, host_of: Callable[[Mapping[str, Service]], ServiceHost]
) -> dict[str, ServiceRunner]:
    """Make the services that have a section in the configuration or need none, by name.

    Args:
        config: of the bridge.
        host_of: returns what they may use, from the services that are already made.

    Raises:
        ConfigError: a package or an extra is missing, or a section names what does not exist.
    """
    made: dict[str, Service] = {}
    host = host_of(made)
    for name, plugin in services().items():
        section = getattr(config, plugin.section or name, None)
        if section or plugin.always:
            made[name] = registry.service(name)(section, host)
    return {name: ServiceRunner(name, service) for name, service in made.items()}


def _host_cameras(
    cameras: Mapping[str, CameraRunner], judgement: Judgement
) -> dict[str, HostCamera]:
    return {
        name: HostCamera(
            model=runner.camera.model,
            actor=runner.config.actor,
            modalities=runner.camera.modalities,
            variants=runner.camera.variants,
            pictures=runner.sinks,
            accounted=runner.fan,
            headers=runner.relay.headers,
            ledger=functools.partial(judgement.ledger, name),
        )
        for name, runner in cameras.items()
    }


def _subject_check(config: BridgeConfig) -> SubjectCheck:
    up_axes = {n: axis for n, c in config.sources.items() if (axis := getattr(c, "up_axis", None))}
    return SubjectCheck(config.actors, up_axes)


def _renderer(name: str, config: PluginConfig) -> RendererClient:
    """Make a renderer connection. Raises RendererError: a port is taken."""
    try:
        client: RendererClient = registry.create("renderers", name, config)
    except RendererError as exc:
        raise RendererError(f"renderers.{name}: {exc}") from exc
    return client


def _cameras(
    config: BridgeConfig,
    world: World,
    for_sources: SourceContext,
    guard: CurveAuthenticator | None,
    outputs: OutputManager,
) -> dict[str, CameraRunner]:
    first = config.stream.data_port
    cameras: dict[str, CameraRunner] = {}
    if config.cameras:
        # Loads it too: none of the threads to come shall wait for that.
        if missing := registry.missing("cv2"):
            raise ConfigError(f"cameras: {missing}")
        cv2.setNumThreads(1)
    for i, (name, camera) in enumerate(config.every_camera().items()):
        left = cameras.get(config.left_of(name))
        port = first + i if first else 0
        cameras[name] = CameraRunner(
            name, camera, config, world, for_sources, port, guard, outputs, left
        )
    return cameras


def _hub(
    config: BridgeConfig,
    cameras: dict[str, CameraRunner],
    for_sources: SourceContext,
    access: Access,
    guard: CurveAuthenticator | None,
    judgement: Judgement,
) -> StreamHub:
    hub = StreamHub(
        config.stream.bind,
        on_received=lambda camera, frame_id, t_ns: cameras[camera].relay.record_reception(
            frame_id, t_ns
        ),
        status=judgement.status,
        commands=vehicle_commands(for_sources.vehicles),
        refuses_command=access.refuses_command,
        udp_port=config.stream.udp_port,
        udp_rate_mbps=config.stream.udp_rate_mbps,
        guard=guard,
        on_imu=for_sources.onboard_imu.deliver,
        problem=judgement.camera_problem,
    )
    for camera in cameras.values():
        hub.add_camera(camera.sink, camera.details, camera.relay.wake)
    return hub
