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
    },
}
COMPUTER_VISION: Final[dict[str, Any]] = {"SettingsVersion": 1.2, "SimMode": "ComputerVision"}
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


def runs(kind: str, program: str, port: int, folder: Path) -> None:
    """Run a program to its end."""
    done = run(CLIENT / "bin" / "python", PROGRAMS / f"{kind}.py", program, port, folder, limit_s=120.0)
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
        "travel_uav",
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
