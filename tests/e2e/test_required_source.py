"""A required source that never comes ends the daemon with its own exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs import VIL_BRIDGE, run

pytestmark = pytest.mark.process


_CONFIG = """
version: 1
rooms: {lab: {}}
sources:
  imu: {type: mavlink-imu, device: %s, required_within_s: 0.5}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


def test_a_required_source_that_stays_away_ends_the_bridge_with_code_4(tmp_path: Path) -> None:
    config = tmp_path / "lab.yaml"
    config.write_text(_CONFIG % (tmp_path / "no-such-device"))
    done = run(*VIL_BRIDGE, "run", config)
    assert done.returncode == 4, done.stderr
    assert "source imu is required and waiting" in done.stderr
    assert "Traceback" not in done.stderr
