"""settings.json as AirSim reads it: defaults, places of ignored keys, errors that name the key."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import q_rotate
from vil_bridge.servers.airsim.settings import AirsimSettings, CaptureSettings, parse_settings


def read(**root: Any) -> AirsimSettings:
    return parse_settings(json.dumps(root))


def test_an_empty_file_has_the_defaults_of_airsim() -> None:
    settings = read()
    (vehicle,) = settings.vehicles
    assert (settings.mode, settings.clock_speed, settings.port) == ("Multirotor", 1.0, 41451)
    assert settings.origin_deg_m == (47.641468, -122.140165, 122.0)
    assert (vehicle.name, vehicle.kind, vehicle.start) == ("SimpleFlight", "simpleflight", None)
    assert list(vehicle.cameras) == ["front_center", "front_right", "front_left", "bottom_center", "back_center"]
    assert vehicle.cameras["front_center"].capture(0) == CaptureSettings(256, 144, 90.0)
    assert sorted(s.kind for s in vehicle.sensors.values()) == ["barometer", "gps", "imu", "magnetometer"]
    assert settings.ignored == ()


@pytest.mark.parametrize(
    ("mode", "name", "kinds"),
    [("Car", "PhysXCar", ["gps"]), ("ComputerVision", "ComputerVision", []), ("", "SimpleFlight", None)],
)
def test_a_mode_has_its_default_vehicle_and_sensors(mode: str, name: str, kinds: list[str] | None) -> None:
    (vehicle,) = read(SimMode=mode).vehicles
    assert vehicle.name == name
    assert kinds is None or [s.kind for s in vehicle.sensors.values()] == kinds


def test_vehicles_are_in_alphabetical_order_and_start_in_ned() -> None:
    settings = read(
        Vehicles={
            "Drone2": {"VehicleType": "SimpleFlight", "X": 1, "Y": 2, "Z": -3, "Yaw": 90},
            "Drone1": {"VehicleType": "SimpleFlight"},
        }
    )
    first, second = settings.vehicles
    assert (first.name, first.start, second.name) == ("Drone1", None, "Drone2")
    assert second.start is not None
    assert second.start.p_m.tolist() == [2.0, 1.0, 3.0]
    assert np.allclose(q_rotate(second.start.q_xyzw, np.array([1.0, 0.0, 0.0])), [1.0, 0.0, 0.0])  # east


def test_a_camera_looks_up_with_a_positive_pitch_and_right_with_a_positive_yaw() -> None:
    cameras = {"up": {"Pitch": 30, "Z": -1}, "right": {"Yaw": 90, "Y": 0.5}, "0": {"Roll": 90}}
    (vehicle,) = read(Vehicles={"D": {"VehicleType": "SimpleFlight", "Cameras": cameras}}).vehicles
    ahead = np.array([1.0, 0.0, 0.0])
    up, right, rolled = (vehicle.cameras[n].T_body_camera for n in ("up", "right", "0"))
    assert np.allclose(up.rotation() @ ahead, [math.cos(math.pi / 6), 0.0, 0.5]) and up.p_m.tolist() == [0, 0, 1]
    assert np.allclose(right.rotation() @ ahead, [0.0, -1.0, 0.0]) and right.p_m.tolist() == [0, -0.5, 0]
    assert np.allclose(rolled.rotation() @ np.array([0.0, 1.0, 0.0]), [0.0, 0.0, 1.0])  # left side up
    assert len(vehicle.cameras) == 8  # the five default cameras stay


def test_a_capture_replaces_its_type_wholly() -> None:
    defaults = {"CaptureSettings": [{"ImageType": 0, "Width": 640, "Height": 480, "FOV_Degrees": 60}]}
    own = {"CaptureSettings": [{"ImageType": 0, "Width": 320}, {"ImageType": 2, "Height": 20}]}
    settings = read(CameraDefaults=defaults, Vehicles={"D": {"VehicleType": "SimpleFlight", "Cameras": {"c": own}}})
    cameras = settings.vehicles[0].cameras
    assert cameras["front_center"].capture(0) == CaptureSettings(640, 480, 60.0)
    assert cameras["c"].capture(0) == CaptureSettings(320, 144, 90.0)
    assert cameras["c"].capture(2) == CaptureSettings(256, 20, 90.0) and cameras["c"].capture(1) == CaptureSettings()


def test_a_sensor_entry_is_off_unless_it_is_enabled() -> None:
    sensors = {
        "Distance": {"SensorType": 5, "Enabled": True, "MaxDistance": 10},
        "Off": {"SensorType": 6},
        "Imu": {"SensorType": 2, "Enabled": True},
        "Strange": {"SensorType": 99, "Enabled": True},
    }
    settings = read(Vehicles={"D": {"VehicleType": "SimpleFlight", "Sensors": sensors}})
    found = settings.vehicles[0].sensors
    assert sorted(found) == ["Distance", "Imu", "barometer", "gps", "magnetometer"]
    assert found["Distance"].values["MaxDistance"] == 10
    assert settings.ignored == ("Vehicles.D.Sensors.Strange.SensorType: 99 is a sensor that is missing here",)


def test_what_is_ignored_is_listed_with_its_place() -> None:
    settings = read(PhysiceEngineName="x", ViewMode="Fpv", Vehicles={"D": {"VehicleType": "SimpleFlight", "Kolor": 1}})
    assert settings.ignored == (
        "PhysiceEngineName: AirSim does not know it either",
        "ViewMode: has no meaning here",
        "Vehicles.D.Kolor: AirSim does not know it either",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "must be a JSON object"),
        ('{"SimMode": "Boat"}', "SimMode: 'Boat' is unknown"),
        ('{"ClockSpeed": "fast"}', "ClockSpeed: must be a number from 0.01 to 100"),
        ('{"ClockSpeed": NaN}', "ClockSpeed: must be a number"),
        ('{"ClockSpeed": true}', "ClockSpeed: must be a number"),
        ('{"Vehicles": []}', "Vehicles: must be an object"),
        ('{"Vehicles": {"D": {"VehicleType": "PhysXCar"}}}', "Vehicles.D.VehicleType: 'physxcar' does not fit"),
        ('{"Vehicles": {"D": {"X": 1e9}}}', "Vehicles.D.X: must be a number"),
        ('{"CameraDefaults": {"CaptureSettings": [{"Width": 1e9}]}}', "CaptureSettings[0].Width: must be a number"),
        ('{"CameraDefaults": {"CaptureSettings": [3]}}', "CaptureSettings: must be a list of objects"),
    ],
)
def test_an_error_names_the_key(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_settings(text)
    assert problem in str(raised.value)
