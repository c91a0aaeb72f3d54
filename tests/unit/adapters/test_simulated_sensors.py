"""Sensors of simulated vehicles: rates, latency, values, noise, and their way to the bus."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.support.sensors import at_rest
from vil_bridge.core.clock import WallClock
from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.sensor_readings import (
    BarometerReading,
    BeaconsReading,
    ControlsReading,
    GpsReading,
    ImuReading,
    MagnetometerReading,
    RotorsReading,
)
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.vehicle_moves import VehicleDisturbance
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import (
    DisturbOrder,
    FlyCommand,
    Order,
    SensorValues,
    decode_report,
    encode,
)
from vil_simulation.source.simulation import Simulation
from vil_simulation.vehicles.environment.geodesy import GeoOrigin
from vil_simulation.vehicles.sensors.beacon_ranges import BeaconParameters, BeaconReceiver

SECOND = 960
START_NS = 7_000_000_000
PERIOD_NS = 5_000_000
"""Of an inertial sensor whose rate is not stated."""
ALL = {kind: {"type": kind} for kind in ("imu", "barometer", "magnetometer", "gps")}
AIRSIM = {
    "imu": {"type": "imu", "preset": "mpu6000"},
    "barometer": {"type": "barometer", "preset": "ms5611"},
    "magnetometer": {"type": "magnetometer", "preset": "airsim"},
    "gps": {"type": "gps", "preset": "airsim"},
}


def config(source: dict[str, Any] | None = None, **vehicle: Any) -> SimulatedConfig:
    entry = {"model": "flightgoggles", **vehicle}
    return SimulatedConfig.model_validate(
        {"type": "simulated", "vehicles": {"drone": entry}, **(source or {})}
    )


def flown(of: SimulatedConfig, steps: int, chunk: int = 10_000) -> list[SensorValues]:
    made, found = Simulation(of), []
    while made.steps < steps:
        for batch in made.advance(min(steps, made.steps + chunk)):
            found += decode_report(encode(batch)).sensors
    return found


def rows(values: list[SensorValues], sensor: int, vehicles: int) -> FloatArray:
    return np.array([v.rows(vehicles) for v in values if v.sensor == sensor])


def handler_after(of: SimulatedConfig, steps: int) -> CommandHandler:
    handler = CommandHandler("sim", of, lambda _order: True)
    handler.begin(START_NS)
    for batch in Simulation(of).advance(steps):
        handler.update(batch, batch.states())
    return handler


def test_ideal_sensors_read_the_truth_of_their_vehicle() -> None:
    of = config(sensors=ALL, count=2, p_m=[1.0, 2.0, 3.0], spacing_m=4.0)
    handler = handler_after(of, SECOND)
    found = handler.readings("drone_2")
    assert handler.state("drone_2").sensors == {kind: kind for kind in ALL}

    imu = found["imu"]
    assert isinstance(imu, ImuReading)
    assert imu.t_ns == START_NS + 10**9 - PERIOD_NS // 2, "a mean has the stamp of its middle"
    assert imu.q_world_body == pytest.approx((0.0, 0.0, 0.0, 1.0), abs=1e-3)
    assert imu.f_body_mps2 == pytest.approx((0.0, 0.0, 9.81), abs=0.05)

    height_m = 122.0 + handler.state("drone_2").p_world_m[2]
    barometer = found["barometer"]
    assert isinstance(barometer, BarometerReading)
    assert barometer.altitude_m == pytest.approx(height_m, abs=1e-3)
    assert barometer.pressure_pa == pytest.approx(99827.0, abs=15.0)
    assert barometer.qnh_hpa == pytest.approx(1013.25)

    magnetometer = found["magnetometer"]
    # The dipole in Redmond: 18.2 north, 4.0 east, 50.0 down.
    assert isinstance(magnetometer, MagnetometerReading)
    assert np.multiply(magnetometer.b_body_t, 1e6) == pytest.approx(
        (3.994, 18.201, -50.043), abs=0.1
    )

    gps = found["gps"]
    assert isinstance(gps, GpsReading)
    place = GeoOrigin(47.641468, -122.140165, 122.0).to_geodetic((5.0, 2.0, height_m - 122.0))
    assert (gps.latitude_deg, gps.longitude_deg) == pytest.approx(place[:2], abs=1e-8)
    assert gps.altitude_m == pytest.approx(height_m, abs=1e-3)
    assert (gps.fix, gps.valid) == (3, True)
    assert gps.t_utc_us == WallClock.of_run().utc_ns(gps.t_ns) // 1000


def test_each_sensor_keeps_its_rate_whatever_the_steps() -> None:
    of = config(
        sensors={
            "fast": {"type": "imu", "rate_hz": 333.0},
            "slow": {"type": "barometer", "rate_hz": 7.0},
        }
    )
    found = flown(of, SECOND)
    assert len([v for v in found if v.sensor == 0]) == 333
    slow = [v.t_ns for v in found if v.sensor == 1]
    assert len(slow) == 7
    assert max(abs(t - round(k * 1e9 / 7)) for k, t in enumerate(slow, 1)) <= 1e9 / 960


def test_a_receiver_starts_late_and_its_readings_come_with_its_latency() -> None:
    of = config(sensors={"gps": AIRSIM["gps"]})
    made, came = Simulation(of), []
    for batch in made.advance(4 * SECOND):
        came += [(batch.t_ns, v.t_ns, v.rows(1)[0]) for v in batch.sensors]
    assert came[0][:2] == (1_200_000_000, 1_000_000_000)  # startup 1 s, latency 0.2 s
    assert {released - measured for released, measured, _ in came} == {200_000_000}
    for _, t_ns, row in came:
        assert row[3] == pytest.approx(0.1 + 99.9 * math.exp(-t_ns / 1e9 / 0.9))
    fixes = {fix: next(t_ns for _, t_ns, row in came if row[8] == fix) / 1e9 for fix in (2.0, 3.0)}
    assert fixes == pytest.approx({2.0: 2.92, 3.0: 3.19}, abs=0.02)


def test_noise_has_the_size_of_the_part_and_repeats_with_the_seed() -> None:
    still: dict[str, Any] = {
        "model": "car",
        "sensors": AIRSIM,
        "count": 30,
        "contact": {"floor_m": None},
    }
    first, again = flown(config(**still), SECOND), flown(config(**still), SECOND, chunk=370)
    other = flown(config({"seed": 5}, **still), 10)
    assert [(v.sensor, v.t_ns, v.values) for v in first] == [
        (v.sensor, v.t_ns, v.values) for v in again
    ]
    assert first[0].values != other[0].values
    gyro = rows(first, 0, 30)[:, :, 4:7]
    assert gyro.std() == pytest.approx(8.7266e-5 * math.sqrt(200.0), rel=0.05)
    pressure = rows(first, 1, 30)[:, :, 1]
    assert np.diff(pressure, axis=0).std() == pytest.approx(2.7 * math.sqrt(2.0), rel=0.1)
    field = rows(first, 2, 30)
    assert field.std(axis=0) == pytest.approx(np.full((30, 3), 0.005e-4), rel=0.5)
    assert field.std(axis=0).mean() == pytest.approx(0.005e-4, rel=0.05)


def test_two_sensors_of_a_kind_have_noise_of_their_own() -> None:
    of = config(imu={"preset": "mpu6000"}, sensors={"second": AIRSIM["imu"]})
    found = flown(of, 10)
    assert {v.sensor for v in found} == {0, 1}
    assert not np.array_equal(rows(found, 0, 1)[0, 0, 4:], rows(found, 1, 1)[0, 0, 4:])
    assert rows(found, 0, 1)[0, 0, :4] == pytest.approx(rows(found, 1, 1)[0, 0, :4])


def test_single_values_of_a_part_are_replaced() -> None:
    mount = {
        "p_body_m": [0.0, 0.0, 0.1],
        "q_body_sensor": [0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)],
    }
    of = config(
        sensors={"m": {"type": "magnetometer", "parameters": {"mounting": mount, "scale": 2.0}}}
    )
    turned = handler_after(of, 40).readings("drone")["m"]
    assert isinstance(turned, MagnetometerReading)
    assert np.multiply(turned.b_body_t, 1e6) == pytest.approx((36.402, -7.988, -100.086), abs=0.2)


def test_compat_gives_the_field_that_airsim_computes() -> None:
    of = config(model="airsim", compat=True, sensors={"m": {"type": "magnetometer"}})
    found = handler_after(of, 40).readings("drone")["m"]
    assert isinstance(found, MagnetometerReading)
    assert np.multiply(found.b_body_t, 1e6) == pytest.approx((3.409, 25.043, -36.581), abs=0.1)


def test_a_sensor_without_a_reading_yet_is_absent_and_vehicles_have_only_their_own() -> None:
    both = {"vehicles": {"a": {"model": "car", "sensors": ALL}, "b": {"model": "car"}}}
    of = SimulatedConfig.model_validate({"type": "simulated", **both})
    assert handler_after(of, 5).readings("a").keys() == {"imu"}
    assert handler_after(of, SECOND).readings("a").keys() == ALL.keys()
    assert handler_after(of, SECOND).readings("b") == {}


@pytest.mark.parametrize("model", ["airsim", "flightmare", "flightgoggles"])
def test_rotors_of_every_multirotor_push_as_its_inertial_sensor_feels(model: str) -> None:
    """Each of the three weighs 1 kg."""
    of = config(model=model, sensors={"rotors": {"type": "rotors"}, "imu": {"type": "imu"}})
    found = handler_after(of, SECOND).readings("drone")
    rotors, imu = found["rotors"], found["imu"]
    assert isinstance(rotors, RotorsReading) and isinstance(imu, ImuReading)
    assert rotors.t_ns == imu.t_ns + PERIOD_NS // 2 == START_NS + 10**9
    assert sum(rotors.thrusts_n) == pytest.approx(imu.f_body_mps2[2], rel=1e-3)
    assert len(rotors.speeds_radps) == 4 and min(rotors.speeds_radps) > 100.0
    assert sum(rotors.torques_nm) == pytest.approx(0.0, abs=1e-3)
    assert sorted(np.sign(rotors.torques_nm)) == [-1.0, -1.0, 1.0, 1.0]


def test_the_state_of_an_airsim_vehicle_has_the_rotors_of_the_reading() -> None:
    handler = handler_after(config(model="airsim", sensors={"rotors": {"type": "rotors"}}), SECOND)
    reading, state = handler.readings("drone")["rotors"], handler.state("drone")
    assert isinstance(reading, RotorsReading) and reading.t_ns == state.t_ns
    shown = [(r.thrust_n, r.torque_nm, r.speed_radps) for r in state.rotors]
    assert shown == list(
        zip(reading.thrusts_n, reading.torques_nm, reading.speeds_radps, strict=True)
    )


def test_controls_are_the_command_that_each_model_obeys_in_its_own_mode() -> None:
    of = config(
        model="flightmare", count=2, sensors={"controls": {"type": "controls", "rate_hz": 960.0}}
    )
    handler, made = CommandHandler("sim", of, lambda _order: True), Simulation(of)
    handler.begin(START_NS)
    made.order(FlyCommand(1, "thrusts", (1.0, 2.0, 3.0, 2.0)))
    for batch in made.advance(2):
        batch = decode_report(encode(batch))
        handler.update(batch, batch.states())
    flown, commanded = (handler.readings(name)["controls"] for name in ("drone_1", "drone_2"))
    assert isinstance(flown, ControlsReading) and isinstance(commanded, ControlsReading)
    assert (flown.mode, len(flown.values)) == ("rates", 4)  # of the autopilot
    assert flown.values[0] == pytest.approx(9.81, abs=0.5)
    assert (commanded.mode, commanded.values) == ("thrusts", (1.0, 2.0, 3.0, 2.0))
    car = handler_after(
        config(model="car", sensors={"controls": {"type": "controls"}}), 10
    ).readings("drone")
    assert car["controls"] == ControlsReading(START_NS + 10_416_667, "speed", (0.0, 0.0))


def test_ranges_to_beacons_are_those_of_the_pose_within_reach() -> None:
    beacons = {"near": [0.0, 4.0, 1.0], "far": [100.0, 0.0, 0.0], "up": [0.0, 0.0, 3.5]}
    receiver = {
        "type": "beacons",
        "rate_hz": 20.0,
        "parameters": {"beacons": beacons, "max_m": 30.0, "bias_m": 0.1},
    }
    of = config(
        model="kinematic", count=2, spacing_m=3.0, p_m=[0.0, 0.0, 1.0], sensors={"uwb": receiver}
    )
    handler = handler_after(of, 48)
    first, second = (handler.readings(name)["uwb"] for name in ("drone_1", "drone_2"))
    assert isinstance(first, BeaconsReading) and isinstance(second, BeaconsReading)
    assert (first.t_ns, first.names) == (START_NS + 50_000_000, ("near", "up"))
    assert first.places_m == ((0.0, 4.0, 1.0), (0.0, 0.0, 3.5))
    assert first.ranges_m == pytest.approx((4.1, 2.6))
    assert second.ranges_m == pytest.approx((5.1, 0.1 + math.hypot(3.0, 2.5)))


def test_noise_of_beacons_has_its_size_and_repeats() -> None:
    receiver = {
        "type": "beacons",
        "rate_hz": 960.0,
        "parameters": {"beacons": {"A": [0, 0, 5]}, "noise_m": 0.1},
    }
    of = config(model="kinematic", count=20, spacing_m=0.1, sensors={"uwb": receiver})
    ranges = rows(flown(of, 100), 0, 20)[:, :, 3]
    assert (ranges - ranges.mean(axis=0)).std() == pytest.approx(0.1, rel=0.05)
    assert np.array_equal(ranges, rows(flown(of, 100, chunk=7), 0, 20)[:, :, 3])


def test_a_range_is_never_negative_and_the_reach_includes_its_end() -> None:
    beacons = {"end": (3.0, 4.0, 0.0), "near": (0.0, 0.0, 0.3), "beyond": (0.0, 5.001, 0.0)}
    receiver = BeaconReceiver(1, BeaconParameters(beacons=beacons, max_m=5.0, bias_m=-0.5))
    np.testing.assert_allclose(
        receiver.measure(at_rest(1, 0)).ranges_m, [[4.5, 0.0, np.nan]], atol=1e-12
    )


def test_noise_at_a_beacon_is_cut_at_zero() -> None:
    """A normal distribution of deviation 0.1 m without its negative half.

    Mean 0.1 / sqrt(2 pi), half of it zeros.
    """
    receiver = BeaconReceiver(
        5_000, BeaconParameters(beacons={"here": (0.0, 0.0, 0.0)}, noise_m=0.1), seed=3
    )
    ranges_m = receiver.measure(at_rest(5_000, 0)).ranges_m
    assert (ranges_m == 0.0).mean() == pytest.approx(0.5, abs=0.03)
    assert ranges_m.min() == 0.0 and ranges_m.mean() == pytest.approx(
        0.1 / math.sqrt(2.0 * math.pi), rel=0.08
    )


def test_wind_forces_and_broken_rotors_are_checked_and_passed_on() -> None:
    sent: list[Order] = []
    of = config()

    def send(order: Order) -> bool:
        sent.append(order)
        return True

    handler = CommandHandler("sim", of, send)
    wind = VehicleDisturbance((1.0, 0.0, 0.0), lost_shares=(0.0, 0.0, 0.5, 1.0))
    with pytest.raises(ValueError, match="does not fly yet"):
        handler.handle("drone", wind)
    handler.begin(START_NS)
    handler.update(Simulation(of).batch(), np.zeros((1, 13)))
    handler.handle("drone", wind)
    assert sent == [DisturbOrder(0, wind)]
    for wrong in (math.nan, 1e9):
        with pytest.raises(ValueRefused, match="force_world_n must be from -10000 to 10000 N"):
            handler.handle("drone", VehicleDisturbance(force_world_n=(wrong, 0.0, 0.0)))
    for shares in ((0.5,), (0.0, 0.0, 0.0, 1.1), (0.0, 0.0, 0.0, -0.1)):
        with pytest.raises(ValueRefused, match="one number from 0 to 1 for each of the 4 rotors"):
            handler.handle("drone", VehicleDisturbance(lost_shares=shares))
    car = config(model="kinematic")
    handler = CommandHandler("sim", car, send)
    handler.begin(START_NS)
    handler.update(Simulation(car).batch(), np.zeros((1, 13)))
    with pytest.raises(ValueRefused, match="the places of this model's rotors are not known"):
        handler.handle("drone", VehicleDisturbance(lost_shares=(0.5,)))


@pytest.mark.parametrize(
    ("vehicle", "problem"),
    [
        ({"sensors": {"s": {"type": "sonar"}}}, "imu"),
        ({"sensors": {"s": {"type": "gps", "preset": "ms5611"}}}, "known: ideal, airsim"),
        (
            {"sensors": {"s": {"type": "gps", "parameters": {"white": 1}}}},
            "known: accuracy_first_m",
        ),
        ({"sensors": {"s": {"type": "gps", "parameters": {"latency_s": -1}}}}, "latency_s"),
        (
            {"sensors": {"s": {"type": "gps", "parameters": {"accuracy_s": 0}}}},
            "accuracy_s must be positive",
        ),
        (
            {"sensors": {"s": {"type": "barometer", "parameters": {"drift_s": 0}}}},
            "tau_s must be positive",
        ),
        (
            {"model": "car", "sensors": {"r": {"type": "rotors"}}},
            "sensors.r: model 'car' has no rotors",
        ),
        ({"sensors": {"r": {"type": "controls", "preset": "ms5611"}}}, "known: ideal"),
        ({"sensors": {"u": {"type": "beacons"}}}, "needs some; set beacons"),
        (
            {"sensors": {"u": {"type": "beacons", "parameters": {"beacons": {"a,b": [0, 0, 0]}}}}},
            "without commas",
        ),
        ({"imu": {}, "sensors": {"imu": {"type": "imu"}}}, "two sensors of one name"),
    ],
)
def test_a_wrong_sensor_is_refused_with_what_there_is(
    vehicle: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValidationError, match=problem):
        config(**vehicle)
