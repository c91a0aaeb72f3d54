"""Programs that drive cars with AirSim's own client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.airsim_server import CAR, run_program, serving_programs

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def car(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with serving_programs(CAR, tmp_path_factory.mktemp("car")) as port:
        yield port


@pytest.mark.parametrize("program", ["hello_car", "course"])
def test_a_program_drives_a_car(program: str, car: int, tmp_path: Path) -> None:
    run_program("car", program, car, tmp_path)
