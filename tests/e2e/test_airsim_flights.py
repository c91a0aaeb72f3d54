"""Flights with the reference's numbers, and the most used methods, with AirSim's own client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.airsim_server import CAR, RANGING_DRONE, run_program, serving_programs

pytestmark = [pytest.mark.process, pytest.mark.long]


FLIGHTS: Final[dict[str, Any]] = {
    "SettingsVersion": 1.2,
    "SimMode": "Multirotor",
    "ClockSpeed": 4,
    "Vehicles": {
        "Drone1": RANGING_DRONE,
    },
}


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with serving_programs(FLIGHTS, tmp_path_factory.mktemp("flights")) as port:
        yield port


@pytest.fixture(scope="module")
def car(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with serving_programs(CAR, tmp_path_factory.mktemp("car")) as port:
        yield port


@pytest.mark.parametrize(
    "program",
    ["circle", "square", "takeoff_and_land", "hover", "rotate", "heights", "path_results"],
)
def test_a_flight_is_as_good_as_the_references(program: str, flights: int, tmp_path: Path) -> None:
    run_program("flights", program, flights, tmp_path)


def test_the_most_used_methods_are_called_step_by_step(
    flights: int, car: int, tmp_path: Path
) -> None:
    run_program("steps", 10, flights, tmp_path, car)
