"""``vil-bridge run --faults``: which faults reach which source, and what is said of mistakes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.programs import VIL_BRIDGE, run
from vil_bridge.cli.main import main

CONFIG = """
version: 1
rooms: {lab: {}}
sources:
  imu: {type: mavlink-imu, device: %s, required_within_s: 0.5, faults: loss=99%%}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "lab.yaml"
    path.write_text(CONFIG % (tmp_path / "no-such-device"))
    return path


@pytest.mark.process
def test_the_faults_of_the_command_line_replace_those_of_the_file(config: Path) -> None:
    faults = ["--faults", "imu:loss=5%,delay=20ms±5", "--faults", "imu:drift=50ppm"]
    done = run(*VIL_BRIDGE, "run", config, *faults)
    assert done.returncode == 4, done.stderr
    assert "source imu: faults are injected: loss=5%,delay=20ms±5,drift=50ppm" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mocap:loss=5%", "--faults mocap:loss=5%: write SOURCE:FAULTS; sources here: imu"),
        ("loss=5%", "--faults loss=5%: write SOURCE:FAULTS; sources here: imu"),
        ("imu:loss=5", "fault 'loss=5': write a share such as 5%"),
        ("imu:restart=1s", "the 'restart' fault works with emulators only"),
    ],
)
def test_mistakes_are_explained(
    text: str,
    said: str,
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["vil-bridge", "run", str(config), "--faults", text])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert said in capsys.readouterr().err
