"""A bridge's configuration for vehicles that autopilots' programs fly, and how to connect to the
programs.
"""

from __future__ import annotations

import shlex
from typing import Any, Final

from pydantic import ValidationError

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.registry import resolve
from vil_simulation.sitl.options import SitlOptions
from vil_simulation.sitl.parameters import PRESET, environment_of

_ROOM: Final = "room"
_STEP_HZ: Final = {"px4": 1000, "ardupilot": 1200, "betaflight": 1000}
_SPACING_M: Final = 2.0
_SIZE_M: Final = (0.35, 0.35, 0.12)


def sitl_bridge(options: SitlOptions) -> BridgeConfig:
    """Return the configuration.

    Raises ConfigError: a choice does not fit; names the option or the key.
    """
    # Several worlds live on one computer.
    data = sitl_data(options) | {"stream": {"bind": "tcp://127.0.0.1:0"}}
    try:
        return BridgeConfig.model_validate(data, context={"resolve": resolve})
    except ValidationError as exc:
        raise ConfigError(
            [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors()]
        ) from None


def sitl_data(options: SitlOptions) -> dict[str, Any]:
    """Return the configuration's sections, as a file has them.

    Raises ConfigError: an option does not fit.
    """
    _check(options)
    names = [
        options.program if options.count == 1 else f"{options.program}_{i + 1}"
        for i in range(options.count)
    ]
    real_time = options.program == "betaflight"
    # Their ports are fixed: a network of its own for each, so a source for each.
    if real_time and options.count > 1:
        sources = {
            name: _source(options, {name: _vehicle(options, i)}) for i, name in enumerate(names)
        }
    else:
        sources = {
            "sitl": _source(options, {name: _vehicle(options, i) for i, name in enumerate(names)})
        }
    source_of = {
        subject: name for name, source in sources.items() for subject in source["vehicles"]
    }
    return {
        "version": 1,
        "name": f"sitl-{options.program}",
        "rooms": {_ROOM: {}},
        "require_cameras": False,
        "http": {"port": options.http_port, "scene": options.scene or None},
        "simulation": {} if real_time else {"clock": "simulated", "speed": options.speed},
        "sources": sources,
        "actors": {
            name: {
                "kind": "vehicle",
                "source": source_of[name],
                "subject": name,
                "size_m": list(_SIZE_M),
            }
            for name in names
        },
    }


def connections(options: SitlOptions) -> list[str]:
    """Return how to start each program and how to reach it, one line each, and what older
    versions need.
    """
    lines = []
    for i in range(options.count):
        match options.program:
            case "px4":
                words = [f"{name}={value}" for name, value in environment_of(options).items()]
                start = f"{' '.join(words)} px4 -d ETC -s etc/init.d-posix/rcS -w FOLDER -i {i}"
                reach = f"ground station UDP 14550, programs UDP {14540 + i}, system {i + 1}"
            case "ardupilot":
                speedup = "" if options.speed == 1.0 else f" --speedup {options.speed:g}"
                start = (
                    f"arducopter --model JSON:127.0.0.1 -I {i}{speedup} --defaults "
                    "copter.parm,vehicle.parm"
                )
                # Motion capture takes the second.
                ports = (5760, 5763) if options.indoors else (5760, 5762, 5763)
                reach = (
                    f"MAVLink TCP {', '.join(str(port + 10 * i) for port in ports)}; it waits "
                    "for the first"
                )
            case "betaflight":
                start = "betaflight_SITL.elf"
                reach = "configurator TCP 5761" + (
                    ", in its network namespace" if options.count > 1 else ""
                )
        started = "" if options.command else f"start it: {start}; "
        lines.append(f"{options.program} {i}: {started}{reach}")
    return lines + _notes(options)


def _notes(options: SitlOptions) -> list[str]:
    """Return what the lines of the programs do not say."""
    again = (
        f"vil-bridge sitl {options.program}{' --indoors' if options.indoors else ''} "
        "--print-parameters"
    )
    match options.program:
        case "px4":
            return [
                f"PX4 1.13 and before: PX4_SIM_MODEL=iris, and {again} > "
                "ETC/init.d-posix/px4-rc.params"
            ]
        case "ardupilot":
            notes = [f"vehicle.parm, the parameters that fit the vehicle: {again} > vehicle.parm"]
            if options.speed != 1.0:
                notes.append(
                    "ArduPilot keeps a time of its own: without its option --speedup "
                    f"{options.speed:g} it flies no "
                    "faster than real time"
                )
            return notes
        case "betaflight":
            return []


def _check(options: SitlOptions) -> None:
    if options.indoors and options.program == "betaflight":
        raise ConfigError(
            ["--indoors is for px4 and ardupilot: Betaflight takes no poses. Remove it"]
        )
    if options.speed != 1.0 and options.program == "betaflight":
        raise ConfigError(
            ["--speed is for px4 and ardupilot: Betaflight runs in real time. Remove it"]
        )
    try:
        shlex.split(options.command)
    except ValueError as exc:
        raise ConfigError(
            [f"--command {options.command!r}: {exc}. Close the quote, or escape it"]
        ) from None


def _source(options: SitlOptions, vehicles: dict[str, Any]) -> dict[str, Any]:
    rate_hz = options.rate_hz or 1
    step_hz = _STEP_HZ[options.program]
    source: dict[str, Any] = {
        "type": "simulated",
        "room": _ROOM,
        "step_hz": -(-step_hz // rate_hz) * rate_hz,
        "seed": options.seed,
        "vehicles": vehicles,
    }
    return source | ({"contact": {"scene": options.scene}} if options.scene else {})


def _vehicle(options: SitlOptions, index: int) -> dict[str, Any]:
    autopilot: dict[str, Any] = {"kind": options.program, "instance": index}
    if options.rate_hz is not None:
        autopilot["rate_hz"] = options.rate_hz
    if options.command:
        autopilot |= {"command": shlex.split(options.command), "folder": options.folder}
        environment = environment_of(options)
        if environment:
            autopilot["environment"] = environment
    if options.indoors:
        autopilot |= {"gps": None, "pose": {}}
    if options.program == "betaflight" and options.count > 1:
        autopilot |= {"instance": 0, "namespace": True}
    return {
        "model": "flightgoggles",
        "preset": PRESET,
        "p_m": [_SPACING_M * index, 0.0, 0.0],
        "autopilot": autopilot,
    }
