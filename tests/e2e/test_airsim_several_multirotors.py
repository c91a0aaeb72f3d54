"""Programs that fly several multirotors at a time with AirSim's own client, against `vil-bridge
airsim`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.airsim_server import RANGING_DRONE, run_program, serving_programs

pytestmark = pytest.mark.process

MULTIROTORS: Final[dict[str, Any]] = {
    "SettingsVersion": 1.2,
    "SimMode": "Multirotor",
    "ClockSpeed": 4,
    "Vehicles": {"Drone1": RANGING_DRONE, "Drone2": {"VehicleType": "SimpleFlight", "X": 4}},
}


@pytest.fixture(scope="module")
def multirotors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with serving_programs(MULTIROTORS, tmp_path_factory.mktemp("multirotors")) as port:
        yield port


@pytest.mark.parametrize("program", ["multi_agent", "two_vehicles", "add_drone"])
def test_a_program_flies_several_multirotors(
    program: str, multirotors: int, tmp_path: Path
) -> None:
    run_program("multirotor", program, multirotors, tmp_path)
