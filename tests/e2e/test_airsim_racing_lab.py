"""A program with the calls of the drone racing lab's baseline, in their order, and its opponent
in the same client.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.airsim_server import AirsimConnection
from tests.support.common import needs_gl
from tests.support.programs import VIL_BRIDGE, Program
from vil_bridge.core.types import FloatArray

pytestmark = [pytest.mark.process, pytest.mark.gl]

COURSE = """
course: meadow
start: {p_m: [0, 0, 1], yaw_deg: 0}
rules: {collision: ignore}
gates:
  - {name: Gate1_4, p_m: [14, 2, 3], yaw_deg: 20, width_m: 4, height_m: 4}
  - {name: Gate0, p_m: [7, 0, 2.5], yaw_deg: 0, width_m: 4, height_m: 4}
  - {name: Gate10_2, p_m: [19, 6, 3], yaw_deg: 60, width_m: 4, height_m: 4}
order: [Gate0, Gate1_4, Gate10_2]
"""
SETTINGS = """
{"SettingsVersion": 1.2, "SimMode": "Multirotor", "ViewMode": "NoDisplay", "ClockSpeed": 3,
    "Vehicles": {
  "drone_1": {"VehicleType": "SimpleFlight", "X": 0, "Y": 0, "Z": 0, "Cameras": {"fpv_cam": {
    "X": 0.25, "Y": 0, "Z": 0, "CaptureSettings": [{"ImageType": 0, "Width": 320, "Height": 240,
        "FOV_Degrees": 90}]}}},
  "drone_2": {"VehicleType": "SimpleFlight", "X": 0, "Y": 0, "Z": 0}}}
"""
GAINS = [5.0, 0.0, 3.0, 0.0, 0.4, 0.0, 0.04, 0.0, 2.0, 0.0, 0.4, 0.0, 3.0, 0.1]
SPLINE = [True, False, False]
"""Constraints of position, velocity and acceleration."""
SHOWN = [False, [1.0, 1.0, 0.0, 1.0], True, 1.0]
"""Drawing of the curve; where it is planned again."""
GATES = ("Gate0", "Gate1_4", "Gate10_2")
TAKEOFF_M = 1.0
DEPTH = 1


@pytest.mark.long
def test_the_baseline_and_its_opponent_race_in_every_tier(tmp_path: Path) -> None:
    needs_gl()
    (tmp_path / "meadow.yaml").write_text(COURSE)
    (tmp_path / "settings.json").write_text(SETTINGS)
    command = [
        *VIL_BRIDGE,
        "airsim",
        tmp_path / "settings.json",
        "--course",
        tmp_path / "meadow.yaml",
        "--port",
        0,
    ]
    with Program(*command, log=tmp_path / "log") as bridge:
        port = int(bridge.await_text(r"AirSim programs connect to .* port (\d+)", 300.0)[1])
        for tier in (1, 2, 3):
            fly_a_race(port, bridge, tier)


def fly_a_race(port: int, bridge: Program, tier: int) -> None:
    """Load, start, take off, ask for gates, fly through all of them while pictures come, and
    reset.
    """
    call = AirsimConnection(port)
    images = AirsimConnection(port)
    assert call("ping") and call("simLoadLevel", "Soccer_Field_Easy")
    opponent: AirsimConnection | None = None
    if tier != 2:
        opponent = AirsimConnection(port)
        prepare(opponent, "drone_2")
    see_the_first_gate(images)
    call("simStartRace", tier)
    if opponent is not None:
        take_off(opponent, "drone_2")
    prepare(call, "drone_1")
    call.answers(take_off(call, "drone_1"))
    names = sorted(call("simListSceneObjects", "Gate.*"), key=gate_number)
    assert tuple(names) == GATES
    true_m = {name: position(call("simGetObjectPose", name, False)) for name in names}
    seen_m = {name: position(call("simGetObjectPose", name, tier != 1)) for name in names}
    for name in names:
        away_m = float(np.abs(seen_m[name] - true_m[name]).max())
        assert (0.0 < away_m <= 1.5) if tier != 1 else away_m == 0.0
    call.send(
        "moveOnSpline",
        points(seen_m[name] for name in names),
        *SPLINE,
        30.0,
        15.0,
        *SHOWN,
        "drone_1",
    )
    bridge.await_that(lambda: images("simGetLastGatePassed", "drone_1") >= 0, "drone_1 has a gate")
    if opponent is not None:  # 4 s after its take-off in the lab: not in the way of drone_1
        opponent.send(
            "moveOnSpline",
            points(true_m[name] for name in names),
            *SPLINE,
            30.0,
            15.0,
            *SHOWN,
            "drone_2",
        )
    look(images, images("simGetVehiclePose", "drone_1"))
    bridge.await_that(
        lambda: images("simGetLastGatePassed", "drone_1") == 2, "drone_1 has the last gate"
    )
    assert images("simGetDisqualified", "drone_1") is False
    if opponent is not None:  # drone_1 hovers in the last gate
        bridge.await_that(
            lambda: images("simGetLastGatePassed", "drone_2") >= 1, "drone_2 has two gates"
        )
    else:
        assert images("simGetLastGatePassed", "drone_2") == -1
    call("simResetRace")
    home = [position(call("simGetVehiclePose", racer)) for racer in ("drone_1", "drone_2")]
    assert np.abs(home[0][:2]).max() < 0.1, home  # both positions count from the world's origin
    assert np.abs(home[1][:2] - (-2.0, 0.0)).max() < 0.1, home
    for connection in (call, images, opponent):
        if connection is not None:
            connection.close()


def prepare(call: AirsimConnection, racer: str) -> None:
    call("enableApiControl", True, racer)
    assert call("armDisarm", True, racer)
    call("setTrajectoryTrackerGains", GAINS, racer)


def take_off(call: AirsimConnection, racer: str) -> int:
    start_m = position(call("simGetVehiclePose", racer))
    return call.send(
        "moveOnSpline", points([start_m - (0.0, 0.0, TAKEOFF_M)]), *SPLINE, 15.0, 5.0, *SHOWN, racer
    )


def look(call: AirsimConnection, pose: dict[str, Any]) -> None:
    """Take a picture of the first camera of the first vehicle.

    320 x 240 bytes of three colours, a gate in view.
    """
    request = {
        "camera_name": "fpv_cam",
        "image_type": 0,
        "pixels_as_float": False,
        "compress": False,
    }
    (answer,) = call("simGetImages", [request])
    assert (answer["width"], answer["height"]) == (320, 240), answer["message"]
    pixels = np.frombuffer(answer["image_data_uint8"], np.uint8).reshape(240, 320, 3)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20
    eye_m = np.array([answer["camera_position"][f"{axis}_val"] for axis in "xyz"])
    assert np.linalg.norm(eye_m - position(pose)) < 3.0


def see_the_first_gate(call: AirsimConnection) -> None:
    """Look from the start: in front of the sky the sides of a gate that is 7 m away."""
    request = {
        "camera_name": "fpv_cam",
        "image_type": DEPTH,
        "pixels_as_float": True,
        "compress": False,
    }
    (answer,) = call("simGetImages", [request])
    depth_m = np.array(answer["image_data_float"]).reshape(answer["height"], answer["width"])
    sky_m = depth_m[: answer["height"] // 2 - 4]
    assert 6.0 < sky_m.min() < 7.5, sky_m.min()


def gate_number(name: str) -> int:
    return int(name.split("_")[0][4:])


def position(pose: dict[str, Any]) -> FloatArray:
    found = np.array([pose["position"][f"{axis}_val"] for axis in "xyz"])
    assert not np.isnan(found).any()
    return found


def points(places_m: Any) -> list[dict[str, float]]:
    return [
        dict(zip(("x_val", "y_val", "z_val"), place.tolist(), strict=True)) for place in places_m
    ]
