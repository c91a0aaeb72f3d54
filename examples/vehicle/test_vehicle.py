"""The model moves by its equations, and flies in a bridge: run ``pytest`` in this folder."""

from __future__ import annotations

import math
from pathlib import Path

import httpx
import pytest
import yaml
from vil_example.model import ExampleVehicle

from tests.support.bridge_rig import running
from tests.support.extensions import make_known, readme_configuration
from vil_bridge.core.clock import NS_PER_S
from vil_simulation.vehicles.fleet import Fleet

PACKAGE = Path(__file__).parent


def test_it_moves_by_its_equations() -> None:
    """A force moves one of two vehicles against its drag."""
    # TODO: a motion of the vehicle that has a closed form.
    model = ExampleVehicle(mass_kg=2.0, drag_nspm=0.5)
    fleet = Fleet(model, n=2)
    force_n = (1.0, 0.0, model.mass_kg * model.gravity_mps2)
    fleet.command((*force_n, 0.0, 0.0, 0.0), which=0)
    while fleet.t_ns < 2 * NS_PER_S:
        fleet.advance()
    pushed, left_alone = fleet.truth().v_world_mps
    top_mps = force_n[0] / model.drag_nspm
    reached = 1.0 - math.exp(-2.0 * model.drag_nspm / model.mass_kg)
    assert pushed == pytest.approx((top_mps * reached, 0.0, 0.0), abs=1e-9)
    assert left_alone == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)


def test_a_parameter_without_a_meaning_is_refused() -> None:
    """A mass below 0 is named with what to write."""
    with pytest.raises(ValueError, match=r"mass_kg is -1\.0 .* Set all of them above 0"):
        ExampleVehicle(mass_kg=-1.0)


async def test_a_bridge_flies_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands over REST lift it in a running bridge."""
    make_known(PACKAGE, tmp_path, monkeypatch)
    config = readme_configuration(PACKAGE)
    # TODO: a command of the vehicle, and what follows from it.
    up = {"mode": "wrench", "values": {"force_body_n": [0, 0, 30], "torque_body_nm": [0, 0, 0]}}
    async with (
        running(yaml.safe_dump(config)) as bridge,
        httpx.AsyncClient(base_url=f"{bridge.http.url}api/v1", timeout=60.0) as web,
    ):
        height_m = 0.0
        while height_m < 1.5:  # it starts at 1 m, once the bridge has loaded it
            await web.post("/vehicles/mine/command", json=up)
            state = (await web.get("/vehicles/mine")).json()
            height_m = state.get("p_world_m", (0.0, 0.0, 0.0))[2]
