"""The AirSim server of a running bridge, from its configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from vil_bridge.config.airsim import AirsimConfig
from vil_bridge.config.root import ActorConfig, BridgeConfig
from vil_bridge.core.access_tokens import Role
from vil_bridge.core.clock import WallClock
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import ActorKind
from vil_bridge.daemon.context import BridgeContext
from vil_bridge.servers.airsim.added_vehicles import AddedOptions
from vil_bridge.servers.airsim.race_methods import GateNoise, ServedRace
from vil_bridge.servers.airsim.server import AirsimServer
from vil_bridge.servers.airsim.settings import AirsimSettings, parse_settings
from vil_bridge.servers.airsim.vehicles import ServedVehicle, ServedVehicles
from vil_bridge.servers.turns import ALONE, NEXT_TO_PICTURES
from vil_bridge.world.race.live import RaceMonitor
from vil_bridge.world.race.standing import RacerStanding

_KINDS: Final = {"car": "car", "bicycle": "car", "kinematic": "computervision"}


def make_airsim(context: BridgeContext, config: AirsimConfig) -> AirsimServer:
    """Make the server, not started.

    Raises:
        ConfigError: the settings cannot be read, an actor does not exist, or an extra is missing.
    """
    settings = parse_settings(config.settings)
    named = served_actors(context.config, config)
    vehicles = [
        _served(name, actor, context.config, config, settings) for name, actor in named.items()
    ]
    bus, scene = context.for_sources.vehicles, context.scenes.of(config.scene)
    scene.watch_edits(lambda edit: bus.edit_scene(config.scene, edit))
    served = ServedVehicles(vehicles, bus, context.world, WallClock.of_run(), settings.default)
    configured = context.config.race
    seed = 0 if configured is None else configured.seed or 0
    return AirsimServer(
        settings,
        served,
        context.simulation,
        scene,
        config.scene,
        _race(context.race, seed),
        added=AddedOptions(config.compat, from_world=config.positions == "world"),
        shares=NEXT_TO_PICTURES if context.config.cameras or context.config.outputs else ALONE,
        role=Role(config.role or Role.CONTROL),
        folder=None if config.folder is None else config.folder.expanduser(),
    )


def _race(race: RaceMonitor | None, seed: int) -> ServedRace | None:
    if race is None:
        return None

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

    return ServedRace(lambda: race.course, race.racers, restart, is_out, passed, GateNoise(seed))


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
