"""Programs of agents that fly and see, with AirSim's own client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.airsim_server import run_program, serving_programs

pytestmark = [pytest.mark.process, pytest.mark.long]


def five(size_px: int) -> dict[str, Any]:
    """Return the cameras of TravelUAV and UAV_ON."""
    sizes = [
        {"ImageType": kind, "Width": px, "Height": px} for kind, px in ((0, size_px), (2, 256))
    ]
    mounts = {
        "FrontCamera": {"X": 1},
        "RearCamera": {"X": -1, "Yaw": 180},
        "LeftCamera": {"Y": -1, "Yaw": -90},
        "RightCamera": {"Y": 1, "Yaw": 90},
        "DownCamera": {"Pitch": -90},
    }
    return {name: {**mount, "CaptureSettings": sizes} for name, mount in mounts.items()}


AGENTS: Final[dict[str, Any]] = {
    "SettingsVersion": 1.2,
    "SimMode": "Multirotor",
    "ClockSpeed": 4,
    "Vehicles": {
        "Drone_1": {
            "VehicleType": "SimpleFlight",
            "X": -12,
            "Cameras": five(256),
            "Sensors": {"Imu": {"SensorType": 2, "Enabled": True}},
        },
        "Drone_2": {"VehicleType": "SimpleFlight", "X": -12, "Y": 4, "Cameras": five(512)},
    },
}


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with serving_programs(AGENTS, tmp_path_factory.mktemp("agents")) as port:
        yield port


@pytest.mark.parametrize("program", ["travel_uav", "uav_on"])
def test_a_program_of_an_agent_flies(program: str, agents: int, tmp_path: Path) -> None:
    run_program("agents", program, agents, tmp_path)
