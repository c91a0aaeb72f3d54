"""The types of sensors and humans in ``types/*.lcm`` as bytes; pure functions."""

from __future__ import annotations

import math
import struct
from typing import Final

import numpy as np

from vil_bridge.core.sensor_readings import (
    ActorReading,
    BarometerReading,
    BeaconsReading,
    ControlsReading,
    DistanceReading,
    GpsReading,
    ImuReading,
    LidarReading,
    MagnetometerReading,
    RotorsReading,
    SensorDescription,
)
from vil_bridge.core.types import SkeletonFrame
from vil_bridge.outputs.lcm.messages import count, doubles, integer, string

_SKELETON: Final = struct.pack(">Q", 0x4F2591317A387A5C)
_INERTIAL: Final = struct.pack(">Q", 0xAEA6888BEB65E60E)
_BAROMETER: Final = struct.pack(">Q", 0x77CDE6B3843BBE68)
_MAGNETOMETER: Final = struct.pack(">Q", 0x9DB8C811006B2EC0)
_GPS: Final = struct.pack(">Q", 0x6E80F85DD534DDAE)
_ROTORS: Final = struct.pack(">Q", 0xDED6DCB8C151D933)
_CONTROLS: Final = struct.pack(">Q", 0xBECC2632A2D772AE)
_DISTANCE: Final = struct.pack(">Q", 0x8F793433DD41AD90)
_BEACONS: Final = struct.pack(">Q", 0x4AA63F1F0C8F1656)
_LIDAR: Final = struct.pack(">Q", 0x483A316C49434614)


def encode_skeleton(t_utc_ns: int, actor: str, skeleton: SkeletonFrame) -> bytes:
    """vil.skeleton_t; poses in the world."""
    model = skeleton.model
    n = len(model.bones)
    return b"".join(
        (
            *(_SKELETON, integer(t_utc_ns), string(actor), count(n), *map(string, model.bones)),
            *(
                struct.pack(f">{n}i", *model.parents),
                doubles(skeleton.p_m.ravel()),
                doubles(skeleton.q_xyzw.ravel()),
            ),
            struct.pack(f">{n}b", *skeleton.tracked.tolist()),
        )
    )


def encode_reading(t_utc_ns: int, one: ActorReading, sensor: SensorDescription) -> bytes:
    """Return a reading with the type of its kind, vil.inertial_t to vil.beacons_t.

    Places are in the world.
    """
    head = integer(t_utc_ns) + string(one.actor) + string(one.sensor)
    match one.reading:
        case ImuReading() as r:
            q_xyzw = sensor.attitude(r)
            return _INERTIAL + head + doubles((*q_xyzw, *r.w_body_radps, *r.f_body_mps2))
        case BarometerReading() as r:
            return _BAROMETER + head + doubles((r.pressure_pa, r.altitude_m, r.qnh_hpa))
        case MagnetometerReading() as r:
            return _MAGNETOMETER + head + doubles(r.b_body_t)
        case GpsReading() as r:
            place = r.latitude_deg, r.longitude_deg, r.altitude_m, r.eph_m, r.epv_m
            return (
                _GPS
                + head
                + doubles((*place, *r.v_world_mps))
                + struct.pack(">b", r.fix if r.valid else 0)
            )
        case RotorsReading() as r:
            unknown = (math.nan,) * len(r.speeds_radps)
            numbers = *r.speeds_radps, *(r.thrusts_n or unknown), *(r.torques_nm or unknown)
            return _ROTORS + head + count(len(r.speeds_radps)) + doubles(numbers)
        case ControlsReading() as r:
            return _CONTROLS + head + string(r.mode) + count(len(r.values)) + doubles(r.values)
        case DistanceReading() as r:
            beams = doubles(np.ravel(r.directions_body)) + doubles(r.ranges_m)
            return (
                _DISTANCE
                + head
                + doubles((r.min_m, r.max_m, *r.p_body_m))
                + count(len(r.ranges_m))
                + beams
            )
        case LidarReading() as r:
            points = r.points_m.astype(">f4").tobytes() + r.instances.astype(">i4").tobytes()
            return (
                _LIDAR
                + head
                + doubles((*r.p_body_m, *r.q_body_sensor))
                + count(len(r.points_m))
                + points
            )
        case BeaconsReading() as r:
            named = count(len(r.names)) + b"".join(map(string, r.names))
            return _BEACONS + head + named + doubles(np.ravel(r.places_m)) + doubles(r.ranges_m)
