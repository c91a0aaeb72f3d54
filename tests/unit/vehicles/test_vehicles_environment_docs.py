"""The environment's page: its code runs, and its vehicles are where it says."""

from __future__ import annotations

import re

import numpy as np

from tests.support.common import ROOT
from vil_simulation.vehicles.environment.gravity import gravity_mps2

PAGE = (ROOT / "docs" / "reference" / "vehicles" / "environment.md").read_text()


def test_the_pages_code_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    fleet = names["fleet"]
    x, around = fleet.x, fleet.around  # type: ignore[attr-defined]
    heights = np.asarray(names["height_m"])
    assert np.abs(heights - [452.0, 452.0, 454.0]).max() < 0.5
    assert np.abs(np.asarray(names["latitude_deg"]) - 47.4).max() < 1e-4
    # Everything arrived: wind blew, the air is thinner, the one below is pushed, the ground helps
    # all a little.
    assert np.abs(x[:, :2] - [(0.0, 0.0), (5.0, 0.0), (5.0, 0.0)]).max() > 0.05
    assert (around[:, 9] < 1.175).all()
    assert np.allclose(around[:, 10], gravity_mps2(heights), atol=1e-5)
    assert around[1, 5] < -0.1
    assert around[2, 5] == 0.0
    assert (around[:, 11] > 1.0).all()
