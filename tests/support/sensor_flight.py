"""A world whose drone has sensors, in a room that is turned, fed with readings that differ from one another."""

from __future__ import annotations

import math

import numpy as np

from vil_adapters.simulated.config import SimulatedConfig
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.sensor_readings import SensorKind, SensorReadings
from vil_bridge.core.types import ActorKind, FloatArray
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

_ROOT_HALF = math.sqrt(0.5)
T_WORLD_ROOM = Transform.of((10.0, 20.0, 0.0), (0.0, 0.0, _ROOT_HALF, _ROOT_HALF))
"""The room's x axis points to the world's y axis."""
MOUNT = {"p_body_m": [0.1, 0.0, -0.02], "q_body_sensor": [1.0, 0.0, 0.0, 0.0]}
"""Upside down."""
SENSORS = {
    "imu2": {"type": "imu", "preset": "mpu6000", "rate_hz": 100, "parameters": {"mounting": MOUNT}},
    "baro": {"type": "barometer", "preset": "ms5611"},
    "compass": {"type": "magnetometer", "preset": "airsim"},
    "gps": {"type": "gps"},
    "rotors": {"type": "rotors"},
}
KINDS: dict[str, SensorKind] = {
    "imu2": "imu",
    "baro": "barometer",
    "compass": "magnetometer",
    "gps": "gps",
    "rotors": "rotors",
}
_TYPICAL: dict[SensorKind, list[float]] = {
    "imu": [0.0, 0.0, 0.0, 1.0, 0.1, -0.2, 0.3, 0.5, -0.4, 9.81],
    "barometer": [125.5, 99_800.0, 1013.25],
    "magnetometer": [4e-6, 18e-6, -50e-6],
    "gps": [47.64, -122.14, 123.0, 0.5, 0.75, 1.0, 2.0, 3.0, 3.0],
    "rotors": [2.0, 0.03, 700.0, 2.5, -0.04, 710.0],
}


class SensorFlight:
    """Readings by sensor and bridge time of the measurement, as they went into the world."""

    def __init__(self) -> None:
        config = SimulatedConfig.model_validate(
            {"type": "simulated", "vehicles": {"quad": {"model": "flightgoggles", "sensors": SENSORS}}}
        )
        drone = Actor("drone", ActorKind.VEHICLE, "sim", "quad", sensors=config.sensors_of("quad"))
        bare = Actor("bare", ActorKind.VEHICLE, "sim", "other")
        self.world = World({"sim": T_WORLD_ROOM}, [drone, bare])
        self.rows: dict[str, dict[int, FloatArray]] = {name: {} for name in SENSORS}

    def measure(self) -> None:
        """One reading of each sensor, measured 20 ms ago, of the drone and of a vehicle that is no actor."""
        for name, kind in KINDS.items():
            t_arrival_ns = now_ns()
            t_ns = t_arrival_ns - 20_000_000
            row = np.array(_TYPICAL[kind])
            if kind != "imu":
                row[0] *= 1.0 + 1e-6 * len(self.rows[name])
            else:
                row[4] += 1e-6 * len(self.rows[name])
            values = np.stack((np.zeros(len(row)), row))
            self.rows[name][t_ns] = row
            self.world.ingest(SensorReadings("sim", name, kind, t_ns, t_arrival_ns, ("stranger", "quad"), values))
