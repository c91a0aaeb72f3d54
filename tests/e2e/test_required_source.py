"""A required source that never comes ends the daemon with its own exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    run = subprocess.run(
        [sys.executable, "-m", "vil_bridge", "run", str(config)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert run.returncode == 4, run.stderr
    assert "source imu is required and waiting" in run.stderr
    assert "Traceback" not in run.stderr
