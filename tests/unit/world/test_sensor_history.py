"""Readings of sensors in the world: whose they are, their order, and their axes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.sensor_flight import KINDS, MOUNT, SENSORS, SensorFlight
from vil_bridge.core.sensor_readings import GpsReading, ImuReading, SensorReadings
from vil_bridge.outputs.new_samples import WorldNews
from vil_simulation.source.config import SimulatedConfig


def test_each_reading_comes_once_and_belongs_to_its_actor() -> None:
    flight = SensorFlight()
    sensors = flight.world.sensors
    flight.measure()
    first, found = sensors.since(0, ["drone"])
    assert first == sensors.newest == len(KINDS)
    assert [(r.actor, r.sensor) for r in found] == [("drone", name) for name in KINDS]
    assert sensors.since(first, ["drone"]) == (first, [])
    flight.measure()
    second, found = sensors.since(first, ["drone"])
    assert [r.reading.t_ns for r in found] == [max(flight.rows[r.sensor]) for r in found]
    assert sensors.since(0, ["bare"]) == (second, [])


def test_attitudes_and_velocities_are_in_the_worlds_axes() -> None:
    flight = SensorFlight()
    flight.measure()
    found = {r.sensor: r.reading for r in flight.world.sensors.since(0, ["drone"])[1]}
    imu, gps = found["imu2"], found["gps"]
    assert isinstance(imu, ImuReading) and isinstance(gps, GpsReading)
    assert imu.q_world_body == pytest.approx((0.0, 0.0, 0.5**0.5, 0.5**0.5))
    assert imu.w_body_radps == pytest.approx((0.1, -0.2, 0.3))
    assert gps.v_world_mps == pytest.approx((-2.0, 1.0, 3.0))
    (row,) = flight.rows["gps"].values()
    assert gps.latitude_deg == row[0]


def test_of_more_events_than_memory_holds_the_newest_remain() -> None:
    flight = SensorFlight()
    values = np.zeros((1, 3))
    event = SensorReadings("sim", "baro", "barometer", 0, 0, ("quad",), values)
    for n in range(5000):
        flight.world.ingest(replace(event, t_ns=n))
    newest, found = flight.world.sensors.since(0, ["drone"])
    assert newest == 5000
    assert [r.reading.t_ns for r in found] == list(range(5000 - 4096, 5000))


def test_points_of_lidars_are_bounded_in_bytes() -> None:
    flight = SensorFlight()
    values = np.zeros((1, 7 + 4 * 100_000))
    for n in range(100):
        flight.world.ingest(SensorReadings("sim", "ring", "lidar", n, n, ("quad",), values))
    newest, found = flight.world.sensors.since(0, ["drone"])
    assert newest == 100
    assert [r.reading.t_ns for r in found] == list(range(100 - (64 << 20) // values.nbytes, 100))


def test_news_have_strictly_increasing_stamps() -> None:
    flight = SensorFlight()
    news = WorldNews(flight.world, ("drone",))
    event = SensorReadings("sim", "baro", "barometer", 0, 0, ("quad",), np.zeros((1, 3)))
    for t_ns in (5, 7, 6, 7, 8):
        flight.world.ingest(replace(event, t_ns=t_ns))
    assert [r.reading.t_ns for r in news.readings()] == [5, 7, 8]


def test_descriptions_have_mounts_and_the_variances_of_the_parts() -> None:
    described = SensorFlight().world.sensors.descriptions("drone")
    assert {name: sensor.kind for name, sensor in described.items()} == KINDS
    imu = described["imu2"]
    assert imu.T_body_sensor.p_m.tolist() == MOUNT["p_body_m"]
    assert imu.T_body_sensor.q_xyzw.tolist() == MOUNT["q_body_sensor"]
    # Density of the mpu6000.
    assert imu.variances[:3] == pytest.approx([8.7266e-5**2 * 100.0] * 3, rel=1e-3)
    assert described["baro"].variances == pytest.approx([2.7**2])
    assert described["compass"].variances == pytest.approx([0.005e-4**2] * 3)
    assert described["gps"].variances == ()


def test_a_clone_has_the_sensors_of_its_entry() -> None:
    entry = {"model": "flightgoggles", "count": 2, "sensors": SENSORS}
    config = SimulatedConfig.model_validate(
        {"type": "simulated", "vehicles": {"quad": entry, "bare": {"model": "car"}}}
    )
    assert set(config.sensors_of("quad_2")) == set(SENSORS)
    assert config.sensors_of("bare") == config.sensors_of("stranger") == {}
