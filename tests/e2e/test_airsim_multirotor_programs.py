"""Programs that fly a multirotor with AirSim's own client, against `vil-bridge airsim`.

There is one vehicle: another one that only stands would take as much of the processor.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.airsim_server import (
    RANGING_DRONE,
    run_cosys_program,
    run_program,
    serving_programs,
)

pytestmark = pytest.mark.process

MULTIROTOR: Final[dict[str, Any]] = {
    "SettingsVersion": 1.2,
    "SimMode": "Multirotor",
    "ClockSpeed": 4,
    "Vehicles": {"Drone1": RANGING_DRONE},
}


@pytest.fixture(scope="module")
def multirotor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with serving_programs(MULTIROTOR, tmp_path_factory.mktemp("multirotor")) as port:
        yield port


@pytest.mark.parametrize(
    "program",
    [
        "hello_drone",
        "box",
        "path",
        "pause_continue_drone",
        "teleport",
        "state",
        "weather",
        "manual_levels",
        "gains",
        "sticks",
        "set_wind",
        "wall",
        "obstacles",
    ],
)
def test_a_program_flies_a_multirotor(program: str, multirotor: int, tmp_path: Path) -> None:
    run_program("multirotor", program, multirotor, tmp_path)


@pytest.mark.parametrize("program", ["hello_drone", "path", "state"])
def test_a_program_with_the_client_of_cosys_airsim_flies_a_multirotor(
    program: str, multirotor: int, tmp_path: Path
) -> None:
    run_cosys_program("multirotor", program, multirotor, tmp_path)
