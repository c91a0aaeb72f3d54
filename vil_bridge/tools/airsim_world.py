"""A bridge's configuration from AirSim's settings.json: vehicles, clock, sensors and the server."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform
from vil_bridge.registry import resolve
from vil_bridge.servers.airsim.settings import AirsimSettings, VehicleSettings
from vil_bridge.servers.airsim.simulated_vehicles import SPACING_M, STEP_HZ, entry_of, look_of, unique_name

_SOURCE: Final = "airsim"
_ROOM: Final = "world"


def airsim_bridge(
    settings: AirsimSettings, *, scene: str, profile: str, port: int | None, bind: str, insecure: bool, http_port: int
) -> BridgeConfig:
    """Return the configuration of a bridge that stands in for AirSim.

    Args:
        settings: those of AirSim's settings.json.
        scene: a scene's name or file.
        profile: quality of the pictures.
        port: of the RPC; None = as the settings say.
        bind: address of the RPC.
        insecure: allow an address that the network can reach.
        http_port: of the status page; 0 = any free one.

    Raises:
        ConfigError: a setting has no meaning, or the address needs ``insecure``; names the key.
    """
    names = _unique_names(vehicle.name for vehicle in settings.vehicles)
    data: dict[str, Any] = {
        "version": 1,
        "name": "airsim",
        "rooms": {_ROOM: {}},
        **_world(settings, names, scene),
        "require_cameras": False,
        "http": {"port": http_port, "scene": scene},
        "stream": {"bind": "tcp://127.0.0.1:0"},  # several worlds live on one computer
        "realtime": {"fifo_priority": 0},  # a world that is behind shall not take the computer from its programs
        "simulation": {"clock": "simulated", "speed": settings.clock_speed},
        "airsim": {
            "bind": bind,
            "insecure": insecure,
            "port": settings.port if port is None else port,
            "scene": scene,
            "profile": profile,
            "settings": settings.text,
            "vehicles": names,
        },
    }
    try:
        return BridgeConfig.model_validate(data, context={"resolve": resolve})
    except ValidationError as exc:
        raise ConfigError([f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors()]) from None


def _world(settings: AirsimSettings, names: Mapping[str, str], scene: str) -> dict[str, Any]:
    """Return the sections of the vehicles: the simulated source, and their actors."""
    vehicles = {
        names[vehicle.name]: entry_of(vehicle, _start_of(vehicle, index), settings)
        for index, vehicle in enumerate(settings.vehicles)
    }
    origin = dict(zip(("latitude_deg", "longitude_deg", "altitude_m"), settings.origin_deg_m, strict=True))
    source = {
        "type": "simulated",
        "room": _ROOM,
        "contact": None if settings.mode == "ComputerVision" else {"scene": scene},
        "process": True,  # its steps do not hold up the calls
        "step_hz": STEP_HZ,
        "rate_hz": STEP_HZ // 2,
        "origin": origin,
        "vehicles": vehicles,
    }
    actors = {
        name: {
            "kind": "vehicle",
            "source": _SOURCE,
            "subject": name,
            **look_of(settings.mode),
        }
        for name in names.values()
    }
    return {"sources": {_SOURCE: source}, "actors": actors}


def _start_of(vehicle: VehicleSettings, index: int) -> Transform:
    """Return a vehicle's start; those without a place stand in a row and look north."""
    return vehicle.start or Transform.of(
        (SPACING_M * index, 0.0, 0.0), (0.0, 0.0, math.sin(math.pi / 4.0), math.cos(math.pi / 4.0))
    )


def _unique_names(names: Iterable[str]) -> dict[str, str]:
    """Return a name of the bridge for each name of AirSim."""
    found: dict[str, str] = {}
    for name in names:
        found[name] = unique_name(name, found.values())
    return found
