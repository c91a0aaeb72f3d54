"""A world whose drone has sensors, in a room that is turned, fed with readings that differ from
one another.
"""

from __future__ import annotations

import math

import numpy as np

from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.sensor_readings import SensorDescription, SensorKind, SensorReadings
from vil_bridge.core.types import ActorKind, FloatArray
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World
from vil_simulation.source.config import SimulatedConfig

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
            {
                "type": "simulated",
                "vehicles": {"quad": {"model": "flightgoggles", "sensors": SENSORS}},
            }
        )
        drone = Actor("drone", ActorKind.VEHICLE, "sim", "quad", sensors=config.sensors_of("quad"))
        bare = Actor("bare", ActorKind.VEHICLE, "sim", "other")
        self.world = World({"sim": T_WORLD_ROOM}, [drone, bare])
        self.rows: dict[str, dict[int, FloatArray]] = {name: {} for name in SENSORS}

    def measure(self) -> None:
        """One reading of each sensor, measured 20 ms ago, of the drone and of a vehicle that is
        no actor.
        """
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
            self.world.ingest(
                SensorReadings("sim", name, kind, t_ns, t_arrival_ns, ("stranger", "quad"), values)
            )


T_BODY_RING = Transform.of((0.2, 0.0, 0.1), (0.0, 0.0, _ROOT_HALF, _ROOT_HALF))
BEAMS = {"down": (0.0, 0.0, -1.0), "left": (0.0, 1.0, 0.0)}
POINTS = np.array([[0.5, 1.25, -2.0, 7.0], [10.0, -0.125, 3.5, 70_000.0]])
"""Points of a turn in the lidar's axes, and their instances.

The second one comes closer with each turn.
"""


class RangingFlight:
    """A drone with a distance sensor of two beams, of which the second one hits nothing, and a
    lidar.

    Attributes:
        ranges_m: of the first beam, by bridge time of the measurement. turns: points and instances
            likewise.
    """

    def __init__(self) -> None:
        around = SensorDescription("distance", variances=(0.04,))
        sensors = {"around": around, "ring": SensorDescription("lidar", T_BODY_RING)}
        self.world = World(
            {"sim": T_WORLD_ROOM},
            [Actor("drone", ActorKind.VEHICLE, "sim", "quad", sensors=sensors)],
        )
        self.ranges_m: dict[int, float] = {}
        self.turns: dict[int, FloatArray] = {}

    def measure(self) -> None:
        """One reading of each."""
        t_ns, number = now_ns(), len(self.ranges_m)
        self.ranges_m[t_ns] = range_m = 2.0 + 0.125 * (number % 100)
        beams = [*BEAMS["down"], range_m, *BEAMS["left"], 30.0]
        self._ingest("around", "distance", t_ns, [0.5, 30.0, 0.1, 0.0, -0.05, *beams])
        self.turns[t_ns] = points = POINTS - np.array(
            [[0, 0, 0, 0], [0.125 * (number % 50), 0, 0, 0]]
        )
        pose = [*T_BODY_RING.p_m, *T_BODY_RING.q_xyzw]
        self._ingest("ring", "lidar", t_ns, [*pose, *points.ravel(), *[np.nan] * 4])

    def at(self, t_ns: int) -> int:
        """Return the instant of the measurement nearest to another one, at most 1 ms away."""
        nearest = min(self.turns, key=lambda t: abs(t - t_ns))
        assert abs(nearest - t_ns) < 1_000_000
        return nearest

    def _ingest(self, name: str, kind: SensorKind, t_ns: int, row: list[float]) -> None:
        self.world.ingest(SensorReadings("sim", name, kind, t_ns, t_ns, ("quad",), np.array([row])))
