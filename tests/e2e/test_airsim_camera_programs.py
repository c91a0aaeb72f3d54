"""Programs that place cameras, and programs of agents that see, with AirSim's own client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.airsim_server import run_program, serving_programs

pytestmark = pytest.mark.process


def front(size_px: int, depth_px: int) -> dict[str, Any]:
    """Return the camera of AirVLN and CityNavAgent."""
    sizes = [
        {"ImageType": kind, "Width": px, "Height": px} for kind, px in ((0, size_px), (3, depth_px))
    ]
    return {"front_0": {"X": 0.5, "CaptureSettings": sizes}}


COMPUTER_VISION: Final[dict[str, Any]] = {
    "SettingsVersion": 1.2,
    "SimMode": "ComputerVision",
    "ExternalCameras": {
        "fixed": {
            "X": 1,
            "Y": 2,
            "Z": -3,
            "Yaw": 30,
            "CaptureSettings": [
                {"ImageType": kind, "Width": 64, "Height": 48, "FOV_Degrees": 80} for kind in (0, 1)
            ],
        }
    },
    "Vehicles": {
        "ComputerVision": {"VehicleType": "ComputerVision"},
        "Drone_1": {"VehicleType": "ComputerVision", "X": -12, "Cameras": front(224, 256)},
        "Drone_2": {"VehicleType": "ComputerVision", "X": -12, "Y": 4, "Cameras": front(512, 512)},
    },
}


@pytest.fixture(scope="module")
def vision(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with serving_programs(COMPUTER_VISION, tmp_path_factory.mktemp("vision")) as port:
        yield port


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
        "weather",
        "recording",
    ],
)
def test_a_program_places_a_camera(program: str, vision: int, tmp_path: Path) -> None:
    run_program("vision", program, vision, tmp_path)


@pytest.mark.parametrize("program", ["air_vln", "city_nav_agent"])
def test_a_program_of_an_agent_sees(program: str, vision: int, tmp_path: Path) -> None:
    run_program("agents", program, vision, tmp_path)
