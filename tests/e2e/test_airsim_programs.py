"""Programs of AirSim's users with AirSim's own client, against `vil-bridge airsim`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.airsim_server import CLIENT, serving
from tests.support.common import ROOT
from tests.support.programs import run

pytestmark = pytest.mark.process

PROGRAMS: Final = ROOT / "tests" / "support" / "airsim_programs"


def five(size_px: int) -> dict[str, Any]:
    """Return the cameras of TravelUAV and UAV_ON."""
    sizes = [{"ImageType": kind, "Width": px, "Height": px} for kind, px in ((0, size_px), (2, 256))]
    mounts = {
        "FrontCamera": {"X": 1},
        "RearCamera": {"X": -1, "Yaw": 180},
        "LeftCamera": {"Y": -1, "Yaw": -90},
        "RightCamera": {"Y": 1, "Yaw": 90},
        "DownCamera": {"Pitch": -90},
    }
    return {name: {**mount, "CaptureSettings": sizes} for name, mount in mounts.items()}


def front(size_px: int, depth_px: int) -> dict[str, Any]:
    """Return the camera of AirVLN and CityNavAgent."""
    sizes = [{"ImageType": kind, "Width": px, "Height": px} for kind, px in ((0, size_px), (3, depth_px))]
    return {"front_0": {"X": 0.5, "CaptureSettings": sizes}}


MULTIROTOR: Final[dict[str, Any]] = {
    "SettingsVersion": 1.2,
    "SimMode": "Multirotor",
    "ClockSpeed": 4,
    "Vehicles": {
        "Drone1": {
            "VehicleType": "SimpleFlight",
            "Sensors": {
                "Distance": {"SensorType": 5, "Enabled": True, "Pitch": -90},
                "Lidar": {"SensorType": 6, "Enabled": True, "PointsPerSecond": 20_000, "Z": -1},
            },
        },
        "Drone2": {"VehicleType": "SimpleFlight", "X": 4},
        "Drone_1": {
            "VehicleType": "SimpleFlight",
            "X": -12,
            "Cameras": five(256),
            "Sensors": {"Imu": {"SensorType": 2, "Enabled": True}},
        },
        "Drone_2": {"VehicleType": "SimpleFlight", "X": -12, "Y": 4, "Cameras": five(512)},
    },
}
COMPUTER_VISION: Final[dict[str, Any]] = {
    "SettingsVersion": 1.2,
    "SimMode": "ComputerVision",
    "ExternalCameras": {
        "fixed": {
            "X": 1,
            "Y": 2,
            "Z": -3,
            "Yaw": 30,
            "CaptureSettings": [{"ImageType": kind, "Width": 64, "Height": 48, "FOV_Degrees": 80} for kind in (0, 1)],
        }
    },
    "Vehicles": {
        "ComputerVision": {"VehicleType": "ComputerVision"},
        "Drone_1": {"VehicleType": "ComputerVision", "X": -12, "Cameras": front(224, 256)},
        "Drone_2": {"VehicleType": "ComputerVision", "X": -12, "Y": 4, "Cameras": front(512, 512)},
    },
}
CAR: Final[dict[str, Any]] = {"SettingsVersion": 1.2, "SimMode": "Car", "ClockSpeed": 2}


@contextmanager
def served(settings: dict[str, Any], folder: Path) -> Iterator[int]:
    """Run a server and yield its port; skips without the client."""
    if not (CLIENT / ".installed").exists():
        pytest.skip("AirSim's client is missing: sh scripts/airsim_client.sh")
    with serving(settings, folder) as port:
        yield port


@pytest.fixture(scope="module")
def multirotor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with served(MULTIROTOR, tmp_path_factory.mktemp("multirotor")) as port:
        yield port


@pytest.fixture(scope="module")
def vision(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with served(COMPUTER_VISION, tmp_path_factory.mktemp("vision")) as port:
        yield port


@pytest.fixture(scope="module")
def car(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with served(CAR, tmp_path_factory.mktemp("car")) as port:
        yield port


def runs(kind: str, program: object, port: int, folder: Path, *more: object) -> None:
    """Run a program to its end."""
    done = run(CLIENT / "bin" / "python", PROGRAMS / f"{kind}.py", program, port, folder, *more, limit_s=300.0)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "program",
    [
        "hello_drone",
        "box",
        "path",
        "pause_continue_drone",
        "teleport",
        "state",
        "multi_agent",
        "manual_levels",
        "set_wind",
        "wall",
        "obstacles",
        "two_vehicles",
    ],
)
def test_a_program_flies_a_multirotor(program: str, multirotor: int, tmp_path: Path) -> None:
    runs("multirotor", program, multirotor, tmp_path)


@pytest.mark.parametrize(
    "program",
    [
        "cv_mode",
        "depth",
        "ground_truth",
        "fov_change",
        "external_camera",
        "objects",
        "segmentation",
        "create_objects",
        "geometry",
        "markers",
        "recording",
    ],
)
def test_a_program_places_a_camera(program: str, vision: int, tmp_path: Path) -> None:
    runs("vision", program, vision, tmp_path)


@pytest.mark.parametrize("program", ["hello_car", "course"])
def test_a_program_drives_a_car(program: str, car: int, tmp_path: Path) -> None:
    runs("car", program, car, tmp_path)


@pytest.mark.parametrize("program", ["air_vln", "city_nav_agent"])
def test_a_program_of_an_agent_sees(program: str, vision: int, tmp_path: Path) -> None:
    runs("agents", program, vision, tmp_path)


@pytest.mark.parametrize("program", ["travel_uav", "uav_on"])
def test_a_program_of_an_agent_flies(program: str, multirotor: int, tmp_path: Path) -> None:
    runs("agents", program, multirotor, tmp_path)


def test_the_most_used_methods_are_called_step_by_step(multirotor: int, car: int, tmp_path: Path) -> None:
    runs("steps", 10, multirotor, tmp_path, car)


@pytest.mark.parametrize(
    "program", ["circle", "square", "takeoff_and_land", "hover", "rotate", "heights", "path_results"]
)
def test_a_flight_is_as_good_as_the_references(program: str, multirotor: int, tmp_path: Path) -> None:
    runs("flights", program, multirotor, tmp_path)
