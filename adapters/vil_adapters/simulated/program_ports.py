"""Ports and rates of the programs of autopilots; plain numbers, so that a configuration is checked without them."""

from __future__ import annotations

from typing import Final

from vil_adapters.simulated.vehicle_config import AutopilotProgramConfig

_FIRST_PORTS: Final = {"px4": 4560, "ardupilot": 9002}
_ARDUPILOT_STEP: Final = 10
RATES_HZ: Final = {"px4": 250, "ardupilot": 500, "betaflight": 1000}


def rate_of(config: AutopilotProgramConfig) -> int:
    """Return samples per second of simulated time."""
    return config.rate_hz or RATES_HZ[config.kind]


def port_of(config: AutopilotProgramConfig, instance: int) -> int | None:
    """Return our port for an instance; None = Betaflight's, which are fixed."""
    match config.kind:
        case "px4":
            return (config.port or _FIRST_PORTS["px4"]) + instance
        case "ardupilot":
            return (config.port or _FIRST_PORTS["ardupilot"]) + _ARDUPILOT_STEP * instance
        case "betaflight":
            return None
