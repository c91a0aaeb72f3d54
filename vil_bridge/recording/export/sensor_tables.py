"""Readings of sensors as rows of text."""

from __future__ import annotations

from collections.abc import Iterator

from vil_bridge.core.sensor_readings import (
    BarometerReading,
    BeaconsReading,
    ControlsReading,
    DistanceReading,
    GpsReading,
    ImuReading,
    LidarReading,
    MagnetometerReading,
    RotorsReading,
    SensorReading,
)


def sensor_head(reading: SensorReading) -> str:
    """Return the names of the columns of a sensor's rows, without the time."""
    match reading:
        case ImuReading():
            return "qx,qy,qz,qw,wx_radps,wy_radps,wz_radps,fx_mps2,fy_mps2,fz_mps2"
        case BarometerReading():
            return "altitude_m,pressure_pa,qnh_hpa"
        case MagnetometerReading():
            return "bx_t,by_t,bz_t"
        case GpsReading():
            return "latitude_deg,longitude_deg,altitude_m,eph_m,epv_m,vx_mps,vy_mps,vz_mps,fix"
        case RotorsReading(speeds_radps=speeds):
            rotors = range(1, len(speeds) + 1)
            return ",".join(f"speed_{i}_radps,thrust_{i}_n,torque_{i}_nm" for i in rotors)
        case ControlsReading():
            return "mode,values"
        case DistanceReading(ranges_m=ranges):
            beams = range(1, len(ranges) + 1)
            return "min_m,max_m," + ",".join(f"x_{i},y_{i},z_{i},range_{i}_m" for i in beams)
        case LidarReading():
            return "x_m,y_m,z_m,instance"
        case BeaconsReading():
            return "beacon,x_m,y_m,z_m,range_m"


def sensor_rows(reading: SensorReading) -> Iterator[list[str]]:
    """Yield a reading's rows, without the time: one, or one of each point or beacon.

    Empty = unknown.
    """
    match reading:
        case ImuReading():
            yield [*map(repr, (*reading.q_world_body, *reading.w_body_radps, *reading.f_body_mps2))]
        case BarometerReading():
            yield [*map(repr, (reading.altitude_m, reading.pressure_pa, reading.qnh_hpa))]
        case MagnetometerReading():
            yield [*map(repr, reading.b_body_t)]
        case GpsReading() as r:
            place = r.latitude_deg, r.longitude_deg, r.altitude_m, r.eph_m, r.epv_m
            yield [*map(repr, (*place, *r.v_world_mps, r.fix))]
        case RotorsReading() as r:
            unknown = ("",) * len(r.speeds_radps)
            columns = r.speeds_radps, r.thrusts_n or unknown, r.torques_nm or unknown
            yield [
                v if isinstance(v, str) else repr(v)
                for rotor in zip(*columns, strict=True)
                for v in rotor
            ]
        case ControlsReading():
            yield [reading.mode, " ".join(map(repr, reading.values))]
        case DistanceReading() as r:
            beams = [(*ahead, m) for ahead, m in zip(r.directions_body, r.ranges_m, strict=True)]
            yield [*map(repr, (r.min_m, r.max_m)), *(repr(v) for beam in beams for v in beam)]
        case LidarReading():
            for point, instance in zip(
                reading.points_m.tolist(), reading.instances.tolist(), strict=True
            ):
                yield [*map(repr, point), str(instance)]
        case BeaconsReading() as r:
            for name, place_m, range_m in zip(r.names, r.places_m, r.ranges_m, strict=True):
                yield [name, *map(repr, (*place_m, range_m))]
