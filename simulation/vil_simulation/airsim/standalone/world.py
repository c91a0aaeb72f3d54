"""A bridge's configuration from AirSim's settings.json: vehicles, clock, sensors and the server."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from vil_bridge.config.course import load_course
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_to_euler_zyx
from vil_bridge.core.types import FloatArray
from vil_bridge.registry import resolve
from vil_simulation.airsim.added_vehicles import clear_start
from vil_simulation.airsim.settings import AirsimSettings, VehicleSettings
from vil_simulation.airsim.simulated_vehicles import (
    SPACING_M,
    STEP_HZ,
    entry_of,
    look_of,
    unique_name,
)

_SOURCE: Final = "airsim"
_ROOM: Final = "world"
_PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "px4": ("px4multirotor",),
    "ardupilot": ("arducopter", "arducoptersolo"),
}
"""Programs of ``vil-bridge sitl``, and the types of vehicles that they fly."""
_NORTH: Final = Transform.of(
    (0.0, 0.0, 0.0), (0.0, 0.0, math.sin(math.pi / 4.0), math.cos(math.pi / 4.0))
)


def airsim_bridge(
    settings: AirsimSettings,
    *,
    scene: str,
    profile: str,
    port: int | None,
    bind: str,
    insecure: bool,
    http_port: int,
    compat: bool = False,
    course: str | None = None,
    role: str | None = None,
    folder: Path | None = None,
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
        compat: multirotors fly as AirSim's own code does, its slips included.
        course: name or file of a race course, as a level of the drone racing lab: its gates stand
            in the world, vehicles at its start; None = there is no race.
        role: of every program, view or control; None = control.
        folder: of the files that programs make; None = as the settings say.

    Raises:
        ConfigError: a setting has no meaning, the course cannot be read, or the address needs
            ``insecure``; names the key.
    """
    names = _unique_names(vehicle.name for vehicle in settings.vehicles)
    data: dict[str, Any] = {
        "version": 1,
        "name": "airsim",
        "rooms": {_ROOM: {}},
        **_world(
            settings,
            names,
            scene,
            None if course is None else load_course(course).start,
            compat=compat,
        ),
        **(
            {}
            if course is None
            else {"race": {"course": course, "racers": list(names.values()), "arcade": True}}
        ),
        "require_cameras": False,
        "http": {"port": http_port, "scene": scene},
        "stream": {"bind": "tcp://127.0.0.1:0"},  # several worlds live on one computer
        # A world that is behind shall not take the computer from its programs.
        "realtime": {"fifo_priority": 0},
        "simulation": {"clock": "simulated", "speed": settings.clock_speed},
        "airsim": {
            "bind": bind,
            "insecure": insecure,
            "port": settings.port if port is None else port,
            "scene": scene,
            "profile": profile,
            "settings": settings.text,
            "compat": compat,
            "positions": "start" if course is None else "world",
            "vehicles": names,
            "role": role,
            "folder": None if folder is None else folder.absolute(),
        },
    }
    try:
        return BridgeConfig.model_validate(data, context={"resolve": resolve})
    except ValidationError as exc:
        raise ConfigError(
            [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors()]
        ) from None


def autopilot_lines(settings: AirsimSettings, scene: str) -> list[str]:
    """Return what stands for the autopilots of the settings, and the commands that connect them,
    a line each.
    """
    lines = []
    for program, kinds in _PROGRAMS.items():
        names = [vehicle.name for vehicle in settings.vehicles if vehicle.kind in kinds]
        if names:
            command = f"vil-bridge sitl {program} --count {len(names)} --scene {shlex.quote(scene)}"
            if settings.clock_speed != 1.0:
                command += f" --speed {settings.clock_speed:g}"
            places = ", ".join(f"Vehicles.{name}" for name in names)
            lines.append(
                f"{places}: {program} is not connected; simple_flight flies here. To "
                f"connect it: {command}"
            )
    rovers = [vehicle.name for vehicle in settings.vehicles if vehicle.kind == "ardurover"]
    lines += [
        f"Vehicles.{name}: ardupilot is not connected; a car's model drives here" for name in rovers
    ]
    return lines


def _world(
    settings: AirsimSettings,
    names: Mapping[str, str],
    scene: str,
    player: Transform | None,
    *,
    compat: bool,
) -> dict[str, Any]:
    """Return the sections of the vehicles: the simulated source, and their actors.

    ``player``: the player's start, of which height and tilt do not count; None = the world's
    origin.
    """
    vehicles: dict[str, Any] = {}
    size_m = look_of(settings.mode)["size_m"]
    taken_m: list[FloatArray] = []
    for index, vehicle in enumerate(settings.vehicles):
        start = _start_of(vehicle, index)
        if player is not None:
            start = _on_course(vehicle.start, player)
        if settings.mode != "ComputerVision":  # those touch nothing
            start = clear_start(start, size_m, taken_m)
        taken_m.append(start.p_m)
        vehicles[names[vehicle.name]] = entry_of(vehicle, start, settings, compat=compat)
    origin = dict(
        zip(("latitude_deg", "longitude_deg", "altitude_m"), settings.origin_deg_m, strict=True)
    )
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


def _on_course(start: Transform | None, player: Transform) -> Transform:
    """Return the start of a vehicle on a course.

    Its own place counts from that of the player, who faces north.
    """
    x, y, _ = player.p_m.tolist()
    yaw = float(q_to_euler_zyx(player.q_xyzw)[0])
    level = Transform.of((x, y, 0.0), (0.0, 0.0, math.sin(0.5 * yaw), math.cos(0.5 * yaw)))
    if start is None:
        return level
    return level @ _NORTH.inverse() @ start


def _start_of(vehicle: VehicleSettings, index: int) -> Transform:
    """Return a vehicle's start; those without a place stand in a row and look north."""
    return vehicle.start or Transform.of((SPACING_M * index, 0.0, 0.0), _NORTH.q_xyzw)


def _unique_names(names: Iterable[str]) -> dict[str, str]:
    """Return a name of the bridge for each name of AirSim."""
    found: dict[str, str] = {}
    for name in names:
        found[name] = unique_name(name, found.values())
    return found
