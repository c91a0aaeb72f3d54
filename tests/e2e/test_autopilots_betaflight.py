"""Betaflight's real program, started by the bridge.

It hovers by remote control, and several have a network each.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import betaflight
from tests.support.betaflight_hover import flown, process_in
from tests.support.common import wait_until
from tests.support.sitl import sitl_bridge
from vil_simulation.sitl.options import SitlOptions

pytestmark = [
    pytest.mark.process,
    pytest.mark.long,
    pytest.mark.alone,
    pytest.mark.timeout(1800),  # the first time, it is downloaded and compiled
]


_ATTEMPTS = 3
_DEVIATION_M = 0.05


def test_it_hovers_by_remote_control(tmp_path: Path) -> None:
    """Betaflight keeps real time.

    A flight for which the computer was too slow says nothing, and is flown again.
    """
    excuses: list[str] = []
    with flown(tmp_path) as pilot:
        while len(excuses) < _ATTEMPTS:
            hover = pilot.hover(10.0)
            problem, excuse = hover.problem(_DEVIATION_M), hover.excuse()
            if not problem:
                break
            assert excuse, f"all was in time, but: {problem}"
            excuses.append(f"{problem}: {excuse}")
        link = pilot.link
    assert not list(process_in(tmp_path / "autopilots" / "betaflight")), "it ended with the bridge"
    if len(excuses) == _ATTEMPTS:
        pytest.skip(f"this computer cannot keep real time now: {'; '.join(excuses)}")
    assert link == "betaflight running"


def test_several_have_a_network_each(tmp_path: Path) -> None:
    command = [str(betaflight.program())]
    with sitl_bridge(
        tmp_path, SitlOptions(program="betaflight", count=2), command=command
    ) as bridge:
        wait_until(
            lambda: [bridge.link(name) for name in bridge.subjects] == ["betaflight running"] * 2
        )
