"""A bridge's configuration from AirSim's settings.json: vehicles, clock, sensors and the server."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_to_euler_zyx
from vil_bridge.registry import resolve
from vil_bridge.servers.airsim.sensor_noise import noise_of
from vil_bridge.servers.airsim.settings import (
    AirsimSettings,
    SensorSettings,
    VehicleSettings,
    sensor_key,
)

_SOURCE: Final = "airsim"
_ROOM: Final = "world"
_MODELS: Final = {"Multirotor": "airsim", "Car": "bicycle", "ComputerVision": "kinematic"}
_STEP_HZ: Final = 320
"""AirSim's steps last 3 ms; programs run it at ten times real time."""
_RADIUS_M: Final = 0.15
"""Of a multirotor's sphere for contacts."""
_SPACING_M: Final = 2.0
_SIZES_M: Final = {"airsim": (0.45, 0.45, 0.12), "bicycle": (4.3, 2.0, 1.5), "kinematic": (0.1, 0.1, 0.1)}
_CAR_CONTACT: Final = {"radius_m": 0.85, "length_m": 2.6, "height_m": 0.9}
_PARTS: Final = {"imu": "mpu6000", "barometer": "ms5611", "magnetometer": "airsim", "gps": "airsim"}
"""Sensors that the simulation measures, and their parts."""
_STATE_KINDS: Final = {"airsim": ("rotors", "controls"), "bicycle": ("controls",), "kinematic": ()}
"""Readings that every vehicle of a model hands out, under these names."""
_STATE_HZ: Final = 50.0


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
        "http": {"port": http_port},
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
    model = _MODELS[settings.mode]
    vehicles = {
        names[vehicle.name]: _vehicle(vehicle, index, model, settings)
        for index, vehicle in enumerate(settings.vehicles)
    }
    origin = dict(zip(("latitude_deg", "longitude_deg", "altitude_m"), settings.origin_deg_m, strict=True))
    source = {
        "type": "simulated",
        "room": _ROOM,
        "contact": None if model == "kinematic" else {"scene": scene},
        "process": True,  # its steps do not hold up the calls
        "step_hz": _STEP_HZ,
        "rate_hz": _STEP_HZ // 2,
        "origin": origin,
        "vehicles": vehicles,
    }
    actors = {
        name: {
            "kind": "vehicle",
            "source": _SOURCE,
            "subject": name,
            "size_m": _SIZES_M[model],
            **({"prefab": "car"} if model == "bicycle" else {}),
        }
        for name in names.values()
    }
    return {"sources": {_SOURCE: source}, "actors": actors}


def _vehicle(vehicle: VehicleSettings, index: int, model: str, settings: AirsimSettings) -> dict[str, Any]:
    """Return a vehicle of the simulated source."""
    start = vehicle.start or Transform.of(
        (_SPACING_M * index, 0.0, 0.0), (0.0, 0.0, math.sin(math.pi / 4.0), math.cos(math.pi / 4.0))
    )
    x, y, z = start.p_m.tolist()
    described: dict[str, Any] = {
        "model": model,
        "p_m": (x, y, z),
        "yaw_deg": math.degrees(q_to_euler_zyx(start.q_xyzw)[0]),
        "wind": {"mean_mps": settings.wind_world_mps},
        "sensors": {kind: {"type": kind, "rate_hz": _STATE_HZ} for kind in _STATE_KINDS[model]}
        | {
            sensor_key(name): _sensor(sensor, f"Vehicles.{vehicle.name}.Sensors.{name}.")
            for name, sensor in vehicle.sensors.items()
            if sensor.kind in _PARTS
        },
    }
    if model == "airsim":
        described |= {
            "p_m": (x, y, z + _RADIUS_M),  # AirSim's zero is the bottom of the body
            "autopilot": {"kind": "none"},
            "contact": {"radius_m": _RADIUS_M, "floor_m": _RADIUS_M},
            "on_timeout": "neutral",
        }
    elif model == "bicycle":
        # Cars stand on the floor, whatever the height of their start. Controls hold until the next ones, as in AirSim.
        described |= {"p_m": (x, y, 0.0), "on_timeout": "hold", "contact": _CAR_CONTACT}
    else:
        described |= {"on_timeout": "hold", "contact": {"response": "none", "floor_m": None}}
    return described


def _sensor(sensor: SensorSettings, place: str) -> dict[str, Any]:
    """Return a sensor of the simulated source; it measures at most once a step."""
    noise = noise_of(sensor, place)
    rate_hz = None if noise.rate_hz is None else min(noise.rate_hz, float(_STEP_HZ // 2))
    return {
        "type": sensor.kind,
        "preset": _PARTS[sensor.kind],
        "rate_hz": rate_hz,
        "parameters": dict(noise.parameters),
    }


def _unique_names(names: Iterable[str]) -> dict[str, str]:
    """Return a name of the bridge for each name of AirSim: lower case, letters first."""
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^a-z0-9_-]", "_", name.lower())[:50] or "vehicle"
        plain = plain if plain[0].isalpha() else f"v{plain}"
        unique, number = plain, 2
        while unique in found.values():
            unique, number = f"{plain}_{number}", number + 1
        found[name] = unique
    return found
