"""settings.json as AirSim reads it: defaults, places of ignored keys, errors that name the key."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import q_rotate
from vil_simulation.airsim.settings import AirsimSettings, CaptureSettings, parse_settings


def read(**root: Any) -> AirsimSettings:
    return parse_settings(json.dumps(root))


def test_an_empty_file_has_the_defaults_of_airsim() -> None:
    settings = read()
    (vehicle,) = settings.vehicles
    assert (settings.mode, settings.clock_speed, settings.port) == ("Multirotor", 1.0, 41451)
    assert settings.origin_deg_m == (47.641468, -122.140165, 122.0)
    assert (vehicle.name, vehicle.kind, vehicle.start) == ("SimpleFlight", "simpleflight", None)
    assert list(vehicle.cameras) == [
        "front_center",
        "front_right",
        "front_left",
        "bottom_center",
        "back_center",
    ]
    assert vehicle.cameras["front_center"].capture(0) == CaptureSettings(256, 144, 90.0)
    assert sorted(s.kind for s in vehicle.sensors.values()) == [
        "barometer",
        "gps",
        "imu",
        "magnetometer",
    ]
    assert settings.ignored == ()


@pytest.mark.parametrize(
    ("mode", "name", "kinds"),
    [
        ("Car", "PhysXCar", ["gps"]),
        ("ComputerVision", "ComputerVision", []),
        ("", "SimpleFlight", None),
    ],
)
def test_a_mode_has_its_default_vehicle_and_sensors(
    mode: str, name: str, kinds: list[str] | None
) -> None:
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
    # East.
    assert np.allclose(q_rotate(second.start.q_xyzw, np.array([1.0, 0.0, 0.0])), [1.0, 0.0, 0.0])


def test_a_camera_looks_up_with_a_positive_pitch_and_right_with_a_positive_yaw() -> None:
    cameras = {"up": {"Pitch": 30, "Z": -1}, "right": {"Yaw": 90, "Y": 0.5}, "0": {"Roll": 90}}
    (vehicle,) = read(Vehicles={"D": {"VehicleType": "SimpleFlight", "Cameras": cameras}}).vehicles
    ahead = np.array([1.0, 0.0, 0.0])
    up, right, rolled = (vehicle.cameras[n].T_body_camera for n in ("up", "right", "0"))
    assert np.allclose(
        up.rotation() @ ahead, [math.cos(math.pi / 6), 0.0, 0.5]
    ) and up.p_m.tolist() == [0, 0, 1]
    assert np.allclose(right.rotation() @ ahead, [0.0, -1.0, 0.0]) and right.p_m.tolist() == [
        0,
        -0.5,
        0,
    ]
    # Left side up.
    assert np.allclose(rolled.rotation() @ np.array([0.0, 1.0, 0.0]), [0.0, 0.0, 1.0])
    assert len(vehicle.cameras) == 8  # the five default cameras stay


def test_a_capture_replaces_its_type_wholly() -> None:
    defaults = {
        "CaptureSettings": [{"ImageType": 0, "Width": 640, "Height": 480, "FOV_Degrees": 60}]
    }
    own = {"CaptureSettings": [{"ImageType": 0, "Width": 320}, {"ImageType": 2, "Height": 20}]}
    settings = read(
        CameraDefaults=defaults,
        Vehicles={"D": {"VehicleType": "SimpleFlight", "Cameras": {"c": own}}},
    )
    cameras = settings.vehicles[0].cameras
    assert cameras["front_center"].capture(0) == CaptureSettings(640, 480, 60.0)
    assert cameras["c"].capture(0) == CaptureSettings(320, 144, 90.0)
    assert (
        cameras["c"].capture(2) == CaptureSettings(256, 20, 90.0)
        and cameras["c"].capture(1) == CaptureSettings()
    )


def test_a_sensor_entry_is_off_unless_it_is_enabled() -> None:
    sensors = {
        "Distance": {"SensorType": 5, "Enabled": True, "MaxDistance": 10},
        "Off": {"SensorType": 6},
        "Imu": {"SensorType": 2, "Enabled": True},
        "Echo": {"SensorType": 7, "Enabled": True},
        "Strange": {"SensorType": 99, "Enabled": True},
    }
    settings = read(Vehicles={"D": {"VehicleType": "SimpleFlight", "Sensors": sensors}})
    found = settings.vehicles[0].sensors
    assert sorted(found) == ["Distance", "Imu", "barometer", "gps", "magnetometer"]
    assert found["Distance"].values["MaxDistance"] == 10
    assert settings.ignored == (
        "Vehicles.D.Sensors.Echo.SensorType: 7, Echo of Cosys-AirSim, is a sensor that "
        "is missing here",
        "Vehicles.D.Sensors.Strange.SensorType: 99 is a sensor that is missing here",
    )


def test_what_is_ignored_is_listed_with_its_place() -> None:
    settings = read(
        PhysiceEngineName="x",
        ViewMode="Fpv",
        Vehicles={"D": {"VehicleType": "SimpleFlight", "Kolor": 1}},
    )
    assert settings.ignored == (
        "PhysiceEngineName: AirSim does not know it either",
        "ViewMode: has no meaning here",
        "Vehicles.D.Kolor: AirSim does not know it either",
    )


def test_keys_without_an_effect_are_listed_in_every_section() -> None:
    capture = {"ImageType": 0, "Width": 64, "ProjectionMode": "Orthographic", "FOVDegrees": 60}
    camera = {"CaptureSettings": [capture], "Gimbal": {}, "Pich": 10}
    lidar = {"SensorType": 6, "Enabled": True, "DrawDebugPoints": True, "NumberOfChanels": 4}
    gps = {"SensorType": 3, "Enabled": True, "EpvInitial": 3, "EphTimeConstant": 2}
    drone = {
        "VehicleType": "SimpleFlight",
        "DefaultVehicleState": "Disarmed",
        "Pitch": 10,
        "Roll": 0,
        "Model": "Generic",
        "Cameras": {"c": camera},
        "Sensors": {"Lidar": lidar, "Gps": gps},
    }
    settings = read(
        ClockType="ScalableClock",
        LocalHostIp="0.0.0.0",
        Wind={"X": 1, "Gusts": 3},
        OriginGeopoint={"Latitude": 40, "Height": 3},
        Recording={
            "RecordOnMove": False,
            "Interval": 1,
            "Cameras": [{"CameraName": "0", "Pixels": 1}],
        },
        CameraDefaults={"CaptureSettings": [{"MotionBlurAmount": 1}], "NoiseSettings": []},
        ExternalCameras={"tower": {"Gimbal": {}}},
        Vehicles={
            "A": drone,
            "B": {"VehicleType": "SimpleFlight", "DefaultVehicleState": "Armed", "Pitch": 0},
        },
    )
    unknown, unused = "AirSim does not know it either", "has no meaning here"
    assert sorted(settings.ignored) == sorted(
        [
            f"ClockType: {unused}",
            f"LocalHostIp: {unused}",
            f"Wind.Gusts: {unknown}",
            f"OriginGeopoint.Height: {unknown}",
            f"Recording.Interval: {unknown}",
            f"Recording.Cameras[0].Pixels: {unknown}",
            f"CameraDefaults.NoiseSettings: {unused}",
            f"CameraDefaults.CaptureSettings[0].MotionBlurAmount: {unused}",
            f"ExternalCameras.tower.Gimbal: {unused}",
            "Vehicles.A.DefaultVehicleState: vehicles start armed here",
            "Vehicles.A.Pitch: vehicles start level here",
            f"Vehicles.A.Model: {unused}",
            f"Vehicles.A.Cameras.c.Gimbal: {unused}",
            f"Vehicles.A.Cameras.c.Pich: {unknown}",
            f"Vehicles.A.Cameras.c.CaptureSettings[0].ProjectionMode: {unused}",
            f"Vehicles.A.Cameras.c.CaptureSettings[0].FOVDegrees: {unknown}",
            f"Vehicles.A.Sensors.Lidar.DrawDebugPoints: {unused}",
            f"Vehicles.A.Sensors.Lidar.NumberOfChanels: {unknown}",
            f"Vehicles.A.Sensors.Gps.EpvInitial: {unused}",
            f"Vehicles.A.Sensors.Gps.EphTimeConstant: {unknown}",
        ]
    )


def test_every_key_that_sets_noise_has_an_effect() -> None:
    noise = {
        "PressureFactorSigma": 0.1, "PressureFactorTau": 1, "UncorrelatedNoiseSigma": 1,
        "UpdateFrequency": 10,
        "UpdateLatency": 0.1, "StartupDelay": 0.1,
    }  # fmt: skip
    imu = (
        "AngularRandomWalk",
        "GyroBiasStability",
        "GyroBiasStabilityTau",
        "VelocityRandomWalk",
        "AccelBiasStability",
    )
    sensors = {
        "Barometer": {"SensorType": 1, **noise},
        "Imu": {"SensorType": 2, **dict.fromkeys(imu, 1), "AccelBiasStabilityTau": 1},
        "Magnetometer": {
            "SensorType": 4,
            "NoiseSigma": 1,
            "NoiseBias": 1,
            "ScaleFactor": 1,
            "UpdateFrequency": 1,
        },
    }
    assert read(Vehicles={"D": {"VehicleType": "SimpleFlight", "Sensors": sensors}}).ignored == ()


def test_calls_without_a_vehicle_go_to_the_one_of_the_first_person_view() -> None:
    plain, shown = (
        {"VehicleType": "SimpleFlight"},
        {"VehicleType": "SimpleFlight", "IsFpvVehicle": True},
    )
    assert read().default == "SimpleFlight"
    assert read(Vehicles={"B": plain, "A": plain}).default == "A"
    settings = read(Vehicles={"A": plain, "B": shown, "C": shown, "D": plain})
    assert settings.default == "C" and [v.name for v in settings.vehicles] == ["A", "B", "C", "D"]
    assert settings.ignored == ()


@pytest.mark.parametrize(
    ("mode", "height_m"), [("Multirotor", 0.0), ("Car", 1.0), ("ComputerVision", 1.0)]
)
def test_a_sensor_without_a_place_is_above_what_is_not_a_multirotor(
    mode: str, height_m: float
) -> None:
    sensors = {
        "b": {"SensorType": 5, "Enabled": True, "X": 2},
        "a": {"SensorType": 6, "Enabled": True},
        "c": {"SensorType": 6, "Enabled": True, "Z": -3},
    }
    (vehicle,) = read(SimMode=mode, Vehicles={"V": {"Sensors": sensors}}).vehicles
    mounts = {
        name: s.T_body_sensor.p_m.tolist()
        for name, s in vehicle.sensors.items()
        if s.kind in ("distance", "lidar")
    }
    assert mounts == {"a": [0, 0, height_m], "b": [2, 0, height_m], "c": [0, 0, 3]}
    # AirSim's order: the first of a kind is the one without a name.
    assert list(mounts) == ["a", "b", "c"]


def test_sensors_that_are_the_same_in_the_simulation_are_refused() -> None:
    entry = {"SensorType": 2, "Enabled": True}
    off = {"SensorType": 2, "Enabled": False}
    with pytest.raises(
        ConfigError, match=r"Vehicles\.D\.Sensors\.a_b: is the same as 'a b' here.*Rename one"
    ):
        read(Vehicles={"D": {"Sensors": {"a b": entry, "a_b": entry}}})
    assert (
        "a b" in read(Vehicles={"D": {"Sensors": {"a b": entry, "a_b": off}}}).vehicles[0].sensors
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "line 1, column 2: not JSON"),
        ("[]", "must be a JSON object, not list"),
        (
            '{"SimMode": "Boat"}',
            "SimMode: 'Boat' is unknown. Write Multirotor, Car, ComputerVision",
        ),
        ('{"SimMode": []}', "SimMode: [] is unknown"),
        ('{"SimMode": "multirotor"}', "SimMode: 'multirotor' has the wrong case. Write Multirotor"),
        (
            '{"SimMode": "SkidVehicle"}',
            "SimMode: SkidVehicle is a mode of Cosys-AirSim that is missing here. Write Car",
        ),
        ('{"ClockSpeed": "fast"}', "ClockSpeed: must be a number from 0.01 to 100"),
        ('{"ClockSpeed": NaN}', "ClockSpeed: must be a number"),
        ('{"ClockSpeed": true}', "ClockSpeed: must be a number"),
        ('{"Vehicles": []}', "Vehicles: must be an object"),
        (
            '{"Vehicles": {"D": {"VehicleType": "PhysXCar"}}}',
            "Vehicles.D.VehicleType: 'physxcar' does not fit",
        ),
        ('{"Vehicles": {"D": {"X": 1e9}}}', "Vehicles.D.X: must be a number"),
        (
            '{"CameraDefaults": {"CaptureSettings": [{"Width": 1e9}]}}',
            "CaptureSettings[0].Width: must be a number",
        ),
        (
            '{"CameraDefaults": {"CaptureSettings": [3]}}',
            "CaptureSettings: must be a list of objects",
        ),
        (
            '{"Vehicles": {"D": {"Sensors": {"L": {"SensorType": 6, "DataFrame": "World"}}}}}',
            "Vehicles.D.Sensors.L.DataFrame: must be VehicleInertialFrame or "
            "SensorLocalFrame, not 'World'",
        ),
    ],
)
def test_an_error_names_the_key(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_settings(text)
    assert problem in str(raised.value)


def test_a_vehicle_that_does_not_fit_the_mode_is_left_out_with_a_line() -> None:
    vehicles = {
        "Car1": {"VehicleType": "PhysXCar"},
        "Drone1": {"VehicleType": "SimpleFlight"},
        "Drone2": {"VehicleType": "simpleflihgt"},
        "Husky": {"VehicleType": "CPHusky"},
        "Spare": {"VehicleType": "SimpleFlight", "AutoCreate": False, "IsFpvVehicle": True},
        "Used": {"AutoCreate": True},
    }
    settings = read(Vehicles=vehicles)
    assert [vehicle.name for vehicle in settings.vehicles] == ["Drone1", "Used"]
    assert settings.default == "Drone1"
    known = "simpleflight, px4multirotor, arducopter, arducoptersolo"
    assert settings.ignored == (
        "Vehicles.Car1.VehicleType: 'physxcar' does not fit SimMode Multirotor; the "
        "vehicle is left out",
        f"Vehicles.Drone2.VehicleType: 'simpleflihgt' is unknown. Write one of {known}; "
        "the vehicle is left out",
        "Vehicles.Husky.VehicleType: 'cphusky' is a vehicle of Cosys-AirSim; the vehicle "
        "is left out",
        "Vehicles.Spare.AutoCreate: false; the vehicle is left out",
    )
    (car,) = read(SimMode="Car", Vehicles=vehicles).vehicles[:1]
    assert car.name == "Car1"


def test_settings_that_leave_no_vehicle_are_refused_with_every_reason() -> None:
    with pytest.raises(ConfigError) as raised:
        read(Vehicles={"A": {"AutoCreate": False}, "B": {"VehicleType": "ComputerVision"}})
    assert raised.value.problems == [
        "Vehicles: none is left. Correct SimMode, a VehicleType or AutoCreate:",
        "Vehicles.A.AutoCreate: false",
        "Vehicles.B.VehicleType: 'computervision' does not fit SimMode Multirotor",
    ]


def test_keys_of_other_programs_and_versions_and_of_the_wrong_case_are_called_so() -> None:
    capture = {"ImageType": 0, "width": 640, "LumenGIEnable": True}
    lidar = {"SensorType": 6, "Enabled": True, "MeasurementsPerCycle": 512}
    settings = read(
        SettingsVersion=1.0,
        simmode="Car",
        UsageScenario="",
        SegCaptureSettings={},
        Annotation=[],
        CameraDefaults={"CaptureSettings": [capture]},
        Vehicles={
            "D": {
                "VehicleType": "SimpleFlight",
                "Lockstep": True,
                "Lights": {},
                "Sensors": {"L": lidar},
            }
        },
    )
    cosys = "is a key of Cosys-AirSim and has no meaning here"
    wrong = "has the wrong case, and AirSim ignores it too."
    older = "is a key of settings of version 1.0."
    assert settings.ignored == (
        "SettingsVersion: 1.0 is older than 1.2, which is read here",
        f"simmode: {wrong} Write SimMode",
        f"UsageScenario: {older} Write SimMode",
        f"SegCaptureSettings: {older} Write CameraDefaults.CaptureSettings, with an entry "
        "for each ImageType",
        f"Annotation: {cosys}",
        f"Vehicles.D.Lockstep: {wrong} Write LockStep",
        f"Vehicles.D.Lights: {cosys}",
        f"CameraDefaults.CaptureSettings[0].width: {wrong} Write Width",
        f"CameraDefaults.CaptureSettings[0].LumenGIEnable: {cosys}",
        f"Vehicles.D.Sensors.L.MeasurementsPerCycle: {cosys}",
    )


def test_wind_is_given_in_ned() -> None:
    assert read(Wind={"X": 1, "Y": 2, "Z": 3}).wind_world_mps == (2.0, 1.0, -3.0)
