"""Sensors on the vehicle, in a hall whose walls answer rays by their equations.

Distances worked out by hand.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, FloatArray, SourceFrame, WorldSnapshot
from vil_bridge.interfaces.scene_queries import RayHits
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World
from vil_simulation.airsim.scene import ServedScene
from vil_simulation.airsim.sensor_methods import SensorMethods
from vil_simulation.airsim.settings import parse_settings
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles

PLACE = (4.0, 5.0, 2.0)
"""East, north, up, of the vehicle."""
START = (3.0, 4.0, 1.0)
"""Of its start: the vehicle is 1 m north, 1 m east, 1 m up of it."""
H = math.sqrt(0.5)
NORTH = (0.0, 0.0, H, H)
"""Nose north, left side west (FLU in ENU)."""
TAIL = (0.5, -0.5, 0.5, 0.5)
"""Nose up, left side west, belly north: it stands on its tail."""


class Hall:
    """Scene of 20 m from west to east, 12 m from south to north and 5 m of height, around
    whatever looks.
    """

    info: Mapping[str, object] = {}
    size_m = np.array([20.0, 12.0, 5.0])

    async def cast(
        self,
        origins_m: FloatArray,
        directions: FloatArray,
        _reach_m: float,
        _now: WorldSnapshot,
        _hide: Sequence[str],
    ) -> RayHits:
        with np.errstate(divide="ignore"):
            range_m = np.where(directions > 0.0, self.size_m - origins_m, origins_m) / np.abs(
                directions
            )
        first = range_m.argmin(axis=1)
        return RayHits(
            range_m.min(axis=1), (first + 1).astype(np.uint32), np.zeros_like(directions)
        )

    async def instances(self) -> Mapping[str, int]:
        return {"east_west": 1, "north_south": 2, "up_down": 3}


def sensors(
    q_world_body: tuple[float, float, float, float], sensor: Mapping[str, Any]
) -> SensorMethods:
    """Return the sensors of a tracked vehicle with one of AirSim's settings."""
    vehicle = {"VehicleType": "SimpleFlight", "Sensors": {"S": {"Enabled": True, **sensor}}}
    settings = parse_settings(
        json.dumps({"SettingsVersion": 1.2, "SimMode": "Multirotor", "Vehicles": {"V": vehicle}})
    )
    fitted = settings.vehicles[0].sensors
    served = ServedVehicle(
        "V", "seer", None, "multirotor", Transform.identity(), np.array(START), {}, fitted
    )
    world = World({"sim": Transform.identity()}, [Actor("seer", ActorKind.VEHICLE, "sim", "seer")])
    t_ns = now_ns()
    pose = (np.array([PLACE]), np.array([q_world_body]))
    world.ingest(SourceFrame("sim", 0, None, t_ns, ("seer",), *pose, np.ones(1, np.bool_)))
    hall: Any = Hall()
    no_clock: Any = None
    vehicles = ServedVehicles([served], VehicleCommandBus(), world, WallClock.of_run())
    return SensorMethods(vehicles, ServedScene(hall, {"V": "seer"}), no_clock)


MOUNT = {"X": 1.0, "Y": 2.0, "Z": -0.5}
"""1 m ahead, 2 m to the right, 0.5 m up: at (6, 6, 2.5) of a nose that looks north."""
TILTED = math.cos(math.radians(30.0))


@pytest.mark.parametrize(
    ("q_world_body", "turn", "range_m", "q_wxyz"),
    [
        (NORTH, {}, 12.0 - 6.0, (1.0, 0.0, 0.0, 0.0)),
        (NORTH, {"Yaw": 90.0}, 20.0 - 6.0, (H, 0.0, 0.0, H)),  # east
        (NORTH, {"Yaw": -90.0}, 6.0, (H, 0.0, 0.0, -H)),  # west
        (NORTH, {"Pitch": -90.0}, 2.5, (H, 0.0, -H, 0.0)),  # the floor
        (NORTH, {"Pitch": 90.0}, 5.0 - 2.5, (H, 0.0, H, 0.0)),  # the ceiling
        (NORTH, {"Roll": 90.0}, 12.0 - 6.0, (H, H, 0.0, 0.0)),
        (NORTH, {"Yaw": 60.0}, 6.0 / math.cos(math.radians(60.0)), (TILTED, 0.0, 0.0, 0.5)),
        (
            NORTH,
            {"Yaw": 90.0, "Pitch": -60.0},
            2.5 / TILTED,
            (H * TILTED, H / 2.0, -H / 2.0, H * TILTED),
        ),
        # On its tail the sensor is 1 m above the vehicle, 2 m east and 0.5 m south of it: at (6,
        # 4.5, 3).
        (TAIL, {}, 5.0 - 3.0, (1.0, 0.0, 0.0, 0.0)),
        (TAIL, {"Pitch": -90.0}, 12.0 - 4.5, (H, 0.0, -H, 0.0)),
        (TAIL, {"Pitch": 90.0}, 4.5, (H, 0.0, H, 0.0)),
        (TAIL, {"Yaw": 90.0}, 20.0 - 6.0, (H, 0.0, 0.0, H)),
        (TAIL, {"Yaw": 180.0}, 3.0, (0.0, 0.0, 0.0, 1.0)),
    ],
)
async def test_a_distance_is_that_from_where_the_sensor_is_mounted_along_where_it_looks(
    q_world_body: tuple[float, float, float, float],
    turn: Mapping[str, float],
    range_m: float,
    q_wxyz: tuple[float, float, float, float],
) -> None:
    found = await sensors(q_world_body, {"SensorType": 5, **MOUNT, **turn}).distance()
    assert found.distance == pytest.approx(range_m)
    place = found.relative_pose.position
    q = found.relative_pose.orientation
    assert (place.x_val, place.y_val, place.z_val) == pytest.approx((1.0, 2.0, -0.5))
    found_q = np.array([q.w_val, q.x_val, q.y_val, q.z_val])
    assert np.copysign(1.0, found_q @ q_wxyz) * found_q == pytest.approx(q_wxyz, abs=1e-9)


RING = {
    "SensorType": 6,
    "NumberOfChannels": 1,
    "VerticalFOVUpper": 0.0,
    "VerticalFOVLower": 0.0,
    "PointsPerSecond": 40,
    "RotationsPerSecond": 10,
    "HorizontalFOVStart": 0.0,
    "HorizontalFOVEnd": 360.0,
    "X": 1.0,
}
"""Four beams, at right angles, 1 m ahead of the vehicle."""


@pytest.mark.parametrize(
    ("q_world_body", "points", "place", "q_wxyz"),
    [
        # At (4, 6, 2), the beams north, east, south and west.
        (
            NORTH,
            [(8, 1, -1), (2, 17, -1), (-4, 1, -1), (2, -3, -1)],
            (2, 1, -1),
            (1.0, 0.0, 0.0, 0.0),
        ),
        # At (4, 5, 3), the beams up, east, down and west.
        (TAIL, [(1, 1, -4), (1, 17, -2), (1, 1, 1), (1, -3, -2)], (1, 1, -2), (H, 0.0, H, 0.0)),
    ],
)
async def test_points_of_a_lidar_are_north_east_and_down_of_the_vehicles_start(
    q_world_body: tuple[float, float, float, float],
    points: list[tuple[float, float, float]],
    place: tuple[float, float, float],
    q_wxyz: tuple[float, float, float, float],
) -> None:
    """The start is at (3, 4, 1) of a hall with walls at 0 and 20 m, 0 and 12 m, floor and
    ceiling at 0 and 5 m.
    """
    scan = await sensors(q_world_body, RING).lidar()
    found = np.array(msgspec.msgpack.decode(bytes(scan.point_cloud))).reshape(-1, 3)
    np.testing.assert_allclose(found, points, atol=1e-5)
    p = scan.pose.position
    q = scan.pose.orientation
    assert (p.x_val, p.y_val, p.z_val) == pytest.approx(place)
    assert (q.w_val, q.x_val, q.y_val, q.z_val) == pytest.approx(q_wxyz, abs=1e-9)


async def test_points_in_the_axes_of_a_lidar_do_not_depend_on_the_vehicles_start() -> None:
    """Ahead 6 m to the north wall, 16 m to the east one on the right, 6 m behind, 4 m to the
    left.
    """
    scan = await sensors(NORTH, {**RING, "DataFrame": "SensorLocalFrame"}).lidar()
    found = np.array(msgspec.msgpack.decode(bytes(scan.point_cloud))).reshape(-1, 3)
    np.testing.assert_allclose(found, [(6, 0, 0), (0, 16, 0), (-6, 0, 0), (0, -4, 0)], atol=1e-5)
