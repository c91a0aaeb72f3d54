"""AirSim's interface as a service of a running bridge."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from vil_bridge.config.root import ActorConfig, BridgeConfig
from vil_bridge.core.clock import WallClock
from vil_bridge.core.errors import ConfigError, SinkError
from vil_bridge.core.types import ActorKind
from vil_bridge.runtime.access_tokens import Role
from vil_bridge.runtime.heap import exempt_from_collector
from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.runtime.supervisor import Status
from vil_bridge.services.race.service import race_of
from vil_bridge.services.service import Service, ServiceHost
from vil_bridge.world.race.standing import RacerStanding
from vil_simulation.airsim.added_vehicles import AddedOptions
from vil_simulation.airsim.config import AirsimConfig
from vil_simulation.airsim.msgpack_rpc import RpcServer
from vil_simulation.airsim.race_methods import GateNoise, ServedRace
from vil_simulation.airsim.server import AirsimServer
from vil_simulation.airsim.settings import AirsimSettings, parse_settings
from vil_simulation.airsim.turns import ALONE, NEXT_TO_PICTURES
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles

logger = logging.getLogger(__name__)

_KINDS: Final = {"car": "car", "bicycle": "car", "kinematic": "computervision"}


class AirsimService(Service):
    """AirSim's interface of a bridge.

    Raises:
        ConfigError: the settings cannot be read, an actor does not exist, or the renderer of the
            scene is not installed.
    """

    def __init__(self, section: AirsimConfig, host: ServiceHost) -> None:
        self._config = section
        self._host = host
        self._settings = parse_settings(section.settings)
        self._actors = served_actors(host.config, section)
        self._scene = host.scene_of(section.scene, section.profile)
        self._scene.watch_edits(lambda edit: host.vehicles.edit_scene(section.scene, edit))
        self._rpc: RpcServer | None = None

    async def run(self, status: Status) -> None:
        """Serve AirSim's programs once the simulated vehicles fly.

        Raises:
            RendererError: the scene cannot be drawn.
            SinkError: the port is taken.
        """
        config = self._config
        server = self._make_server()
        self._rpc = server.rpc
        try:
            await server.until_ready()
            exempt_from_collector()  # what programs ask for has it run often
            port = await server.start(config.bind, config.port)
            status.running()
            may = " and may only read" if config.role == "view" else ""
            logger.info(
                "AirSim programs connect to %s port %d%s, scene %s",
                config.bind,
                port,
                may,
                config.scene,
            )
            await asyncio.Event().wait()
        except OSError as exc:
            raise SinkError(f"airsim: {config.bind}:{config.port}: {exc}") from None
        finally:
            await server.close()

    def _make_server(self) -> AirsimServer:
        """Return the server, not started."""
        config = self._config
        host = self._host
        bridge = host.config
        vehicles = [
            _served(name, actor, bridge, config, self._settings)
            for name, actor in self._actors.items()
        ]
        bus = host.vehicles
        usual = self._settings.default
        served = ServedVehicles(vehicles, bus, host.world, WallClock.of_run(), usual)
        return AirsimServer(
            self._settings,
            served,
            host.clock,
            self._scene,
            config.scene,
            _race(host),
            added=AddedOptions(config.compat, from_world=config.positions == "world"),
            shares=NEXT_TO_PICTURES if bridge.cameras or bridge.outputs else ALONE,
            role=Role(config.role or Role.CONTROL),
            folder=None if config.folder is None else config.folder.expanduser(),
        )

    def faults(self) -> Mapping[str, int]:
        """Return unwanted input by reason; empty before it serves. Any thread."""
        return {} if self._rpc is None else self._rpc.faults()

    def peer_faults(self) -> PeerFaults | None:
        """Return the senders of unwanted input; None before it serves. Any thread."""
        return None if self._rpc is None else self._rpc.peer_faults


def _race(host: ServiceHost) -> ServedRace | None:
    race = race_of(host.services.get("race"))
    if race is None:
        return None
    seed: int | None = host.config.section("race").seed

    def standing(actor: str) -> RacerStanding:
        if actor not in race.racers:
            raise LookupError(
                f"{actor} does not race. Name it in `race.racers`; they are "
                f"{', '.join(race.racers)}"
            )
        return race.standing(actor)

    def is_out(actor: str) -> bool:
        ended = standing(actor).ended
        return ended is not None and ended.outcome != "finished"

    def passed(actor: str) -> int:
        return max(standing(actor).splits_s, default=-1)

    def restart(after_ns: int) -> None:
        race.reset(after_ns=after_ns)

    return ServedRace(
        lambda: race.course, race.racers, restart, is_out, passed, GateNoise(seed or 0)
    )


def served_actors(config: BridgeConfig, airsim: AirsimConfig) -> dict[str, str]:
    """Return the actors that are vehicles, by their names in AirSim: those that are named first.

    Raises:
        ConfigError: a name is given to an actor that does not exist or is not a vehicle.
    """
    flying = [name for name, actor in config.actors.items() if actor.kind is ActorKind.VEHICLE]
    for name, actor in airsim.vehicles.items():
        if actor not in flying:
            known = ", ".join(flying) or "none"
            raise ConfigError(
                f"airsim.vehicles.{name}: no vehicle is named {actor!r}; known: {known}"
            )
    rest = {name: name for name in flying if name not in airsim.vehicles.values()}
    return {**airsim.vehicles, **rest}


def _served(
    name: str, actor: str, config: BridgeConfig, airsim: AirsimConfig, settings: AirsimSettings
) -> ServedVehicle:
    described = {vehicle.name: vehicle for vehicle in settings.vehicles}.get(
        name, settings.vehicles[0]
    )
    place = config.actors[actor]
    simulated = _simulated(place, config)
    room = config.rooms[getattr(config.sources[place.source], "room", "")].T_world_room.transform()
    origin_m = np.zeros(3)
    if simulated is not None and airsim.positions == "start":
        origin_m = room.apply(np.array(simulated[1]))
    return ServedVehicle(
        name=name,
        actor=actor,
        subject=None if simulated is None else place.subject,
        kind="multirotor" if simulated is None else _KINDS.get(simulated[0], "multirotor"),
        T_world_room=room,
        origin_m=origin_m,
        cameras=described.cameras,
        sensors=described.sensors,
    )


def _simulated(
    actor: ActorConfig, config: BridgeConfig
) -> tuple[str, tuple[float, float, float]] | None:
    """Return model and start of a simulated vehicle; None = the actor is tracked."""
    source = config.sources[actor.source]
    starts: Callable[[], Mapping[str, tuple[str, tuple[float, float, float]]]] = getattr(
        source, "starts", dict
    )
    return starts().get(actor.subject)
