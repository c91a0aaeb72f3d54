"""Some hundred random calls with extreme values.

The bridge lives, and every vehicle keeps a finite pose.

``python -m tests.attacks.airsim_extremes`` makes as many as one likes.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.support.airsim_extremes import VEHICLES, ExtremeProgram
from tests.support.airsim_server import AirsimConnection, serving

pytestmark = pytest.mark.process

_CALLS: Final = 600
_SEED: Final = 35


def test_extreme_calls_leave_the_bridge_and_its_vehicles_alive(tmp_path: Path) -> None:
    with serving({"Vehicles": VEHICLES}, tmp_path) as port, closing(AirsimConnection(port)) as peer:
        program = ExtremeProgram(peer, _SEED)
        program.run(_CALLS)
        assert not program.problems
        assert program.errors.total() < 0.6 * program.calls.total()
        assert set(peer("listVehicles")) >= set(VEHICLES)  # the calls may have added one
