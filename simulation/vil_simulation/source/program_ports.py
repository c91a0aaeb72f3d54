"""Ports, rates and command lines of autopilots' programs.

Plain numbers, which a configuration is checked with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from vil_simulation.source.vehicle_config import AutopilotProgramConfig

_FIRST_PORTS: Final = {"px4": 4560, "ardupilot": 9002}
_ARDUPILOT_STEP: Final = 10
_ARDUPILOT_SERIAL1: Final = 5762
RATES_HZ: Final = {"px4": 250, "ardupilot": 1200, "betaflight": 1000}


def rate_of(config: AutopilotProgramConfig) -> int:
    """Return samples per second of simulated time."""
    return config.rate_hz or RATES_HZ[config.kind]


def port_of(config: AutopilotProgramConfig, instance: int) -> int | None:
    """Return our port for an instance; None = Betaflight's, which are fixed, or a serial line."""
    if config.device is not None:
        return None
    match config.kind:
        case "px4":
            return (config.port or _FIRST_PORTS["px4"]) + instance
        case "ardupilot":
            return (config.port or _FIRST_PORTS["ardupilot"]) + _ARDUPILOT_STEP * instance
        case "betaflight":
            return None


def pose_port_of(config: AutopilotProgramConfig, instance: int) -> int | None:
    """Return ArduPilot's port for poses; None = it takes none, or it is another program."""
    if config.pose is None or config.kind != "ardupilot":
        return None
    return (config.pose.port or _ARDUPILOT_SERIAL1) + _ARDUPILOT_STEP * instance


def commands_of(
    config: AutopilotProgramConfig, vehicle: str, instance: int
) -> list[tuple[tuple[str, ...], Path]]:
    """Return the command line of a vehicle's program and its folder.

    Empty = it is started elsewhere.
    """
    if not config.command:
        return []

    values = {
        "{vehicle}": vehicle,
        "{instance}": str(instance),
        "{port}": str(port_of(config, instance) or ""),
    }

    def filled(text: str) -> str:
        for name, value in values.items():
            text = text.replace(name, value)
        return text

    return [
        (tuple(filled(part) for part in config.command), Path(filled(config.folder)).absolute())
    ]
