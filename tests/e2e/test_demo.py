"""The demo as a new user runs it, and with real recordings: the pictures prove the compensation."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import cv2
import pytest

from tests.support.common import data_dir
from tests.support.locks import DEMO, modules_outside
from tests.support.programs import VIL_BRIDGE, Program, run
from vil_bridge.runtime.exit_codes import Exit

pytestmark = [pytest.mark.process, pytest.mark.gl]

_PICTURES = ("raw", "compensated", "reference", "difference", "depth", "two_actors")


def _demo(out: Path, seconds: int, *more: str) -> dict[str, Any]:
    """Run it in an environment that has what ``make setup`` installs and nothing else."""
    start = out / "start" / "sitecustomize.py"  # each Python process imports it first
    start.parent.mkdir()
    start.write_text(
        f"import sys\nsys.modules |= dict.fromkeys({set(modules_outside(DEMO))} - "
        "sys.modules.keys())\n"
    )
    summary = out / "summary.json"
    words = ("--seconds", seconds, "--out", out, "--json", summary, *more)
    done = run(
        *VIL_BRIDGE, "demo", *words, limit_s=seconds + 240, env={"PYTHONPATH": str(start.parent)}
    )
    logs = "\n".join(f"{log.name}: {log.read_text()}" for log in out.glob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    (out / "progress.txt").write_text(done.stdout)
    assert "Traceback" not in logs
    found: dict[str, Any] = json.loads(summary.read_text())
    assert set(found["exit_codes"].values()) == {0}, found["exit_codes"]
    return found


@pytest.mark.alone
@pytest.mark.long
def test_simulated_flight_is_seen_compensated_and_summarised(tmp_path: Path) -> None:
    summary = _demo(tmp_path, 12)
    assert summary["frames_received"] > 30
    assert summary["first_picture_s"] is not None
    assert {"request_to_image", "image_to_warp", "send_to_received"} <= set(summary["latency_ms"])
    for values in summary["latency_ms"].values():
        assert values["p50"] <= values["p95"] <= values["p99"] <= values["max"]
    # The artificial delay of 56 ms, give or take 15 ms, lies between image and warp.
    waited = summary["latency_ms"]["image_to_warp"]
    assert waited["p50"] >= 56.0 - 15.0
    assert waited["max"] >= 56.0
    pixels = summary["reprojection_px"]
    assert pixels["uncompensated"] >= 5.0 * pixels["compensated"], pixels
    assert pixels["compensated"] < 1.0, pixels
    assert summary["tracking"]["drone"]["tracked"] >= 1
    assert summary["tracking"]["human"]["tracked"] >= 1
    for name in _PICTURES:
        image = cv2.imread(str(tmp_path / f"{name}.png"))
        assert image is not None, name
        assert float(image.std()) > 5.0, f"{name} is blank"


@pytest.mark.alone
@pytest.mark.long
def test_real_recording_is_compensated_and_its_gaps_are_told(tmp_path: Path) -> None:
    summary = _demo(tmp_path, 20, "--recording", str(data_dir("broad_12_slow_translation")))
    pixels = summary["reprojection_px"]
    assert pixels["uncompensated"] >= 5.0 * pixels["compensated"], pixels
    seen = summary["tracking"]["drone"]
    assert {"tracked", "coasting", "stale", "lost"} <= set(seen), seen
    assert summary["dropped"]["bridge"]["tracking_lost"] > 0
    tracked_s = summary["seconds"] - summary["untracked_s"]
    assert summary["untracked_s"] > 0.0
    assert summary["fps_while_tracked"] == pytest.approx(
        (summary["frames_received"] - 1) / tracked_s, rel=0.01
    )
    progress = (tmp_path / "progress.txt").read_text()
    assert all(f"recording: {phase}" in progress for phase in ("motion", "loss"))


def test_a_missing_recording_is_named(tmp_path: Path) -> None:
    done = run(*VIL_BRIDGE, "demo", "--recording", tmp_path / "nothing")
    assert done.returncode == 2
    assert "no such folder" in done.stderr


def test_the_renderer_starts_before_anything_slow_is_imported() -> None:
    code = (
        "import sys, vil_bridge.cli.main, vil_simulation.demo.first; print('numpy' in sys.modules)"
    )
    assert run(sys.executable, "-c", code).stdout == "False\n"


def test_an_early_end_leaves_no_program_behind(tmp_path: Path) -> None:
    with Program(
        *VIL_BRIDGE, "demo", "--out", tmp_path, "--json", tmp_path / "summary.json"
    ) as demo:
        demo.await_text("status page")
        children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()
        assert children, "the renderer"
        assert demo.end() == Exit.CHECK_FAILED
    assert "ended before the first picture" in demo.text()
    assert not [child for child in children if Path(f"/proc/{child}").exists()]
