"""Vehicles of AirSim's settings as entries of a simulated source, and their looks as actors."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from vil_bridge.core.geometry import Transform, q_to_euler_zyx
from vil_simulation.airsim.sensor_noise import noise_of
from vil_simulation.airsim.settings import (
    AirsimSettings,
    Mode,
    SensorSettings,
    VehicleSettings,
    sensor_key,
)

MODELS: Final[Mapping[Mode, str]] = {
    "Multirotor": "airsim",
    "Car": "bicycle",
    "ComputerVision": "kinematic",
}
STEP_HZ: Final = 320
"""AirSim's steps last 3 ms; programs run it at ten times real time."""
SPACING_M: Final = 2.0
"""Between vehicles whose places the settings leave open."""
_RADIUS_M: Final = 0.15
"""Of a multirotor's sphere for contacts."""
_SIZES_M: Final = {
    "airsim": (0.45, 0.45, 0.12),
    "bicycle": (4.3, 2.0, 1.5),
    "kinematic": (0.1, 0.1, 0.1),
}
_CAR_CONTACT: Final = {"radius_m": 0.85, "length_m": 2.6, "height_m": 0.9}
_PARTS: Final = {"imu": "mpu6000", "barometer": "ms5611", "magnetometer": "airsim", "gps": "airsim"}
"""Sensors that the simulation measures, and their parts."""
_STATE_KINDS: Final = {"airsim": ("rotors", "controls"), "bicycle": ("controls",), "kinematic": ()}
"""Readings that every vehicle of a model hands out, under these names."""
_STATE_HZ: Final = 50.0


def look_of(mode: Mode) -> dict[str, Any]:
    """Return size and prefab of a mode's vehicles, as an actor of the configuration has them."""
    model = MODELS[mode]
    return {"size_m": _SIZES_M[model], **({"prefab": "car"} if model == "bicycle" else {})}


def entry_of(
    vehicle: VehicleSettings, start: Transform, settings: AirsimSettings, *, compat: bool = False
) -> dict[str, Any]:
    """Return a vehicle of the simulated source.

    Args:
        vehicle: whose entry to return.
        start: its pose in the source's room; its heading alone counts.
        settings: those of the world.
        compat: a multirotor flies as AirSim's own code does, its slips included.

    Raises:
        ConfigError: a sensor's value has no meaning; names the key.
    """
    model = MODELS[settings.mode]
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
            "compat": compat,
            "autopilot": {"kind": "none"},
            "contact": {"radius_m": _RADIUS_M, "floor_m": _RADIUS_M},
            "on_timeout": "neutral",
        }
    elif model == "bicycle":
        # Cars stand on the floor, whatever the height of their start. Controls hold until the next
        # ones, as in AirSim.
        described |= {"p_m": (x, y, 0.0), "on_timeout": "hold", "contact": _CAR_CONTACT}
    else:
        described |= {"on_timeout": "hold", "contact": {"response": "none", "floor_m": None}}
    return described


def unique_name(name: str, taken: Collection[str]) -> str:
    """Return a name of the bridge for one of AirSim: lower case, letters first, and no other's."""
    plain = re.sub(r"[^a-z0-9_-]", "_", name.lower())[:50] or "vehicle"
    plain = plain if plain[0].isalpha() else f"v{plain}"
    unique = plain
    number = 2
    while unique in taken:
        unique = f"{plain}_{number}"
        number = number + 1
    return unique


def _sensor(sensor: SensorSettings, place: str) -> dict[str, Any]:
    """Return a sensor of the simulated source; it measures at most once a step."""
    noise = noise_of(sensor, place)
    rate_hz = None if noise.rate_hz is None else min(noise.rate_hz, float(STEP_HZ // 2))
    return {
        "type": sensor.kind,
        "preset": _PARTS[sensor.kind],
        "rate_hz": rate_hz,
        "parameters": dict(noise.parameters),
    }
