"""A wall that an AirSim program's vehicle hits while the renderer's process stands still."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_airsim_bridge import program
from tests.support.common import needs_gl
from tests.support.programs import VIL_BRIDGE, Program

pytestmark = pytest.mark.process

PILLAR_M, RADIUS_M = (23.1, 9.57), 0.75
"""Cylinder2 of the scene blocks: north and east; its radius."""


def scene_processes(parent: int) -> list[int]:
    """Return the processes below one that draw scenes."""
    tasks = Path(f"/proc/{parent}/task").iterdir()
    children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    mine = [
        child
        for child in children
        if b"vil_renderer" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return mine + [found for child in children for found in scene_processes(child)]


def vector(x: float, y: float, z: float) -> dict[str, float]:
    return {"x_val": x, "y_val": y, "z_val": z}


def test_a_wall_is_hit_at_ten_metres_a_second_while_the_renderer_is_stopped(tmp_path: Path) -> None:
    needs_gl()
    hit: dict[str, Any] = {}
    with Program(*VIL_BRIDGE, "airsim", "--port", 0, log=tmp_path / "log") as bridge:
        port = int(bridge.await_text(r"AirSim programs connect to 127\.0\.0\.1 port (\d+)")[1])
        with program(port) as call:
            call("simListSceneObjects", ".*")
            drawing = scene_processes(bridge.pid)
            assert drawing
            for process in drawing:
                os.kill(process, signal.SIGSTOP)
            try:
                call("simPause", True)
                state = call("simGetGroundTruthKinematics", "")
                state["position"] = vector(18.0, PILLAR_M[1], -4.0)
                state["linear_velocity"] = vector(10.0, 0.0, 0.0)
                call("simSetKinematics", state, True, "")
                for _ in range(50):  # a second of simulated time
                    call("simContinueForTime", 0.02)
                    hit = call("simGetCollisionInfo", "")
                    if hit["object_name"]:
                        break
                assert call("simGetGroundTruthKinematics", "")["linear_velocity"]["x_val"] < -1.0
            finally:
                for process in drawing:
                    os.kill(process, signal.SIGCONT)
        assert bridge.end() == 0
    assert hit["object_name"] == "Cylinder2"
    assert hit["normal"]["x_val"] == pytest.approx(-1.0, abs=0.05)
    assert hit["impact_point"]["x_val"] == pytest.approx(PILLAR_M[0] - RADIUS_M, abs=0.03)
    assert hit["impact_point"]["y_val"] == pytest.approx(PILLAR_M[1], abs=0.15)
    assert 0.0 <= hit["penetration_depth"] < 10.0 / 320
