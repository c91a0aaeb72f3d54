"""Betaflight's real program, started by the bridge: several have a network each. Wants a quiet computer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import betaflight
from tests.support.common import wait_until
from tests.support.sitl import sitl_bridge
from vil_bridge.tools.sitl_options import SitlOptions

pytestmark = [
    pytest.mark.process,
    pytest.mark.long,
    pytest.mark.alone,
    pytest.mark.timeout(1800),  # the first time, it is downloaded and compiled
]


def test_several_have_a_network_each(tmp_path: Path) -> None:
    command = [str(betaflight.program())]
    with sitl_bridge(tmp_path, SitlOptions(program="betaflight", count=2), command=command) as bridge:
        wait_until(lambda: [bridge.link(name) for name in bridge.subjects] == ["betaflight running"] * 2)
