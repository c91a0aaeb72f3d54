"""Programs of the drone racing lab on the race of a bridge.

Start, gates, last gate, disqualification.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.airsim_server import AirsimConnection, CallRefused
from tests.support.common import needs_gl, wait_until
from tests.support.programs import VIL_BRIDGE, Program
from vil_bridge.core.geometry import q_to_matrix
from vil_bridge.core.types import FloatArray
from vil_simulation.airsim.frames import attitude_of
from vil_simulation.airsim.values import Quaternionr

pytestmark = [pytest.mark.process, pytest.mark.gl]

COURSE = """
course: line
start: {p_m: [0, 0, 2], yaw_deg: 0}
rules: {clock: first_gate, missed: stop}
laps: 2
order: [Gate2, Gate1]
gates:
  - {name: Gate1, p_m: [0, 8, 3], yaw_deg: 180, width_m: 3, height_m: 4}
  - {name: Gate2, p_m: [6, 0, 2], yaw_deg: 30, width_m: 4, height_m: 2}
"""
CONFIG = """
version: 1
require_cameras: false
rooms: {hall: {}}
sources:
  sim:
    type: simulated
    room: hall
    vehicles:
      drone_1: {model: kinematic, p_m: [0, 0, 2], command_timeout_ms: 60000}
      watcher: {model: kinematic, p_m: [0, -9, 2]}
actors:
  drone_1: {kind: vehicle, source: sim, subject: drone_1}
  watcher: {kind: vehicle, source: sim, subject: watcher}
race: {course: "%s/line.yaml", racers: [drone_1]}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
airsim: {port: 0, scene: empty}
"""


def placed(x_m: float, y_m: float, z_m: float) -> dict[str, Any]:
    """Return a pose of the world (ENU) as the RPC has it, relative to the start of the drone."""
    position = {"x_val": y_m, "y_val": x_m, "z_val": 2.0 - z_m}
    return {
        "position": position,
        "orientation": {"w_val": 1.0, "x_val": 0.0, "y_val": 0.0, "z_val": 0.0},
    }


def axes(pose: dict[str, Any]) -> FloatArray:
    """Return the axes of a pose of the RPC, as columns in the world (ENU).

    Those of the body are FRD.
    """
    q = pose["orientation"]
    R_world_flu = q_to_matrix(
        attitude_of(Quaternionr(q["w_val"], q["x_val"], q["y_val"], q["z_val"]))
    )
    return np.asarray(R_world_flu @ np.diag([1.0, -1.0, -1.0]))


def test_a_program_of_the_racing_lab_flies_a_race(tmp_path: Path) -> None:
    needs_gl()
    (tmp_path / "line.yaml").write_text(COURSE)
    (tmp_path / "bridge.yaml").write_text(CONFIG % tmp_path)
    with Program(*VIL_BRIDGE, "run", tmp_path / "bridge.yaml", log=tmp_path / "log") as bridge:
        port = int(bridge.await_text(r"AirSim programs connect to .* port (\d+)")[1])
        bridge.await_text("race: starting signal")
        call = AirsimConnection(port)
        check_gates(call)
        check_race(call, bridge)
        call.close()


def check_gates(call: AirsimConnection) -> None:
    assert {"Gate1", "Gate2"} <= set(call("simListSceneObjects", "Gate.*"))
    size = call("simGetNominalGateInnerDimensions")
    assert (size["x_val"], size["z_val"]) == (4.0, 2.0)  # Gate2 is the first in the order
    scale = call("simGetObjectScaleInternal", "Gate1")
    assert (scale["x_val"], scale["z_val"]) == (0.75, 2.0)
    pose = call("simGetObjectPose", "Gate2")
    place = [pose["position"][key] for key in ("x_val", "y_val", "z_val")]
    assert place == [0.0, 6.0, -2.0]
    flight = axes(pose)[:, 1]
    down = axes(pose)[:, 2]
    assert flight == pytest.approx([np.cos(np.radians(30.0)), 0.5, 0.0], abs=1e-9)
    assert down == pytest.approx([0.0, 0.0, -1.0], abs=1e-9)
    noisy = call("simGetObjectPose", "Gate2", True)
    wrong = [noisy["position"][key] for key in ("x_val", "y_val", "z_val")]
    assert wrong == pytest.approx(place, abs=2.0) and wrong != place


def check_race(call: AirsimConnection, bridge: Program) -> None:
    assert (call("simGetLastGatePassed", "drone_1"), call("simGetDisqualified", "drone_1")) == (
        -1,
        False,
    )
    with pytest.raises(CallRefused, match="watcher does not race"):
        call("simGetLastGatePassed", "watcher")
    call("simStartRace", 1)
    bridge.await_text("race: set up again")
    bridge.await_that(lambda: bridge.text().count("starting signal") == 2, "second signal")
    ways = (((5.0, 0.0, 2.0), (7.0, 0.0, 2.0), 0), ((1.0, 8.0, 3.0), (-1.0, 8.0, 3.0), 1))
    for way in (*ways, ways[0]):
        fly(call, *way)
    assert call("simGetDisqualified", "drone_1") is False
    for _ in range(2):  # the gate that is due was left out
        sweep(call, *ways[0][:2])
    wait_until(lambda: call("simGetDisqualified", "drone_1"))
    call("simResetRace")
    wait_until(
        lambda: (
            not call("simGetDisqualified", "drone_1")
            and call("simGetLastGatePassed", "drone_1") == -1
        )
    )


def fly(call: AirsimConnection, start: Any, end: Any, gate: int) -> None:
    """Move through a gate and wait until it counts."""
    sweep(call, start, end)
    wait_until(
        lambda: call("simGetLastGatePassed", "drone_1") == gate,
        what=lambda: call("simGetLastGatePassed"),
    )


def sweep(call: AirsimConnection, start: Any, end: Any) -> None:
    for share in np.linspace(0.0, 1.0, 60):
        call(
            "simSetVehiclePose",
            placed(*((1.0 - share) * np.array(start) + share * np.array(end))),
            True,
            "drone_1",
        )
