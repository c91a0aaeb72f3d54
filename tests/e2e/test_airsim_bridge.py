"""A bridge with a recorded real vehicle and a simulated one.

AirSim programs see both and fly one.
"""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from tests.support.common import PATIENCE_S, data_dir, needs_gl, wait_until
from tests.support.programs import VIL_BRIDGE, Program
from vil_simulation.airsim.msgpack_rpc import FAULTS
from vil_simulation.airsim.object_ids import PALETTE, initial_id

pytestmark = pytest.mark.process

CONFIG = """
version: 1
require_cameras: false
rooms: {{lab: {{}}}}
sources:
  real: {{type: motion-file, room: lab, path: "{track}", subject: real}}
  sim: {{type: simulated, room: lab, vehicles: {{helper: {{model: airsim,
      autopilot: {{kind: none}}, contact: {{floor_m: 0.0}}, sensors: {{rotors: {{type: rotors}},
          controls: {{type: controls}}}}}}}}}}
actors:
  tracked: {{kind: vehicle, source: real, subject: real, size_m: [0.5, 0.5, 0.2]}}
  helper: {{kind: vehicle, source: sim, subject: helper}}
stream: {{bind: "tcp://127.0.0.1:0"}}
http: {{port: 0}}
airsim: {{port: 0, scene: empty}}
"""


class CallRefused(Exception):  # noqa: N818 - it says what happened
    """An answer with an error."""


@contextmanager
def program(port: int) -> Iterator[Any]:
    with socket.create_connection(("127.0.0.1", port), timeout=60.0) as peer:
        unpacker = msgpack.Unpacker(raw=False)

        def call(method: str, *arguments: Any) -> Any:
            peer.sendall(msgpack.packb((0, 1, method, arguments)))
            while True:
                for _, _, error, result in unpacker:
                    if error is not None:
                        raise CallRefused(error)
                    return result
                data = peer.recv(1 << 20)
                assert data
                unpacker.feed(data)

        yield call


def rotors_are_those_of_the_bridge(call: Any, port: int, http_port: int) -> None:
    """Rotors at rest in their speed: the RPC and REST read them at different instants."""
    call("enableApiControl", True, "helper")
    call("armDisarm", True, "helper")
    url = f"http://127.0.0.1:{http_port}/api/v1/vehicles/helper/sensors"

    def readings() -> Any:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    with program(port) as pilot, ThreadPoolExecutor(1) as pool:
        moved = pool.submit(pilot, "moveByMotorPWMs", 0.5, 0.5, 0.5, 0.5, 60.0, "helper")
        commanded = [0.5, 0.5, 0.5, 0.5]
        wait_until(lambda: readings()["controls"]["controls"]["values"][:4] == commanded)
        wait_until(
            lambda: (
                readings()["rotors"]["rotors"]["speeds_radps"]
                == pytest.approx(speeds(call), rel=1e-9)
            )
        )
        assert min(speeds(call)) > 100.0
        call("cancelLastTask", "helper")
        assert moved.result(PATIENCE_S) is False


def an_added_vehicle_joins_the_simulated_one(call: Any) -> None:
    """Two at one place.

    The second one stands further east, and each has its own name in the bridge.
    """
    north = {"x_val": 30.0, "y_val": 5.0, "z_val": 0.0}
    level = {"w_val": 1.0, "x_val": 0.0, "y_val": 0.0, "z_val": 0.0}
    for name in ("Helper", "helper!"):
        assert (
            call("simAddVehicle", name, "SimpleFlight", {"position": north, "orientation": level})
            is True
        )
    assert call("listVehicles") == ["tracked", "helper", "Helper", "helper!"]
    places = [call("simGetObjectPose", name)["position"] for name in ("Helper", "helper!")]
    assert [place["x_val"] for place in places] == pytest.approx([30.0, 30.0], abs=0.01)
    assert [place["y_val"] for place in places] == pytest.approx([5.0, 7.0], abs=0.01)
    call("enableApiControl", True, "helper!")
    assert call("armDisarm", True, "helper!") is True
    call("takeoff", 20.0, "helper!")
    up = call("getMultirotorState", "helper!")["kinematics_estimated"]["position"]["z_val"]
    assert up < -1.3
    assert (
        abs(call("getMultirotorState", "Helper")["kinematics_estimated"]["position"]["z_val"])
        < 0.05
    )


def speeds(call: Any) -> list[float]:
    return [rotor["speed"] for rotor in call("getRotorStates", "helper")["rotors"]]


def test_a_program_sees_the_tracked_vehicle_and_flies_the_other(tmp_path: Path) -> None:
    needs_gl()
    config = tmp_path / "bridge.yaml"
    config.write_text(
        CONFIG.format(track=data_dir("trajectories") / "tum_freiburg1_xyz-groundtruth.txt")
    )
    with Program(*VIL_BRIDGE, "run", config, log=tmp_path / "log") as bridge:
        port = int(bridge.await_text(r"AirSim programs connect to .* port (\d+)")[1])
        with program(port) as call:
            assert call("listVehicles") == ["tracked", "helper"]
            first = call("simGetVehiclePose", "tracked")["position"]["x_val"]
            wait_until(
                lambda: (
                    abs(call("simGetVehiclePose", "tracked")["position"]["x_val"] - first) > 0.01
                )
            )
            assert call("getMultirotorState", "tracked")["landed_state"] == 1
            for method, arguments in (
                ("takeoff", (20.0, "tracked")),
                ("enableApiControl", (True, "tracked")),
            ):
                with pytest.raises(
                    CallRefused, match="a real vehicle that a motion-capture system tracks"
                ):
                    call(method, *arguments)
            with pytest.raises(CallRefused, match="this bridge runs in real time"):
                call("simPause", True)
            place = call("simGetObjectPose", "tracked")["position"]
            origin = call("simGetObjectPose", "helper")["position"]
            south = {
                "position": {
                    "x_val": place["x_val"] - origin["x_val"] - 2.5,
                    "y_val": place["y_val"] - origin["y_val"],
                    "z_val": place["z_val"] - origin["z_val"],
                },
                "orientation": {"w_val": 1.0, "x_val": 0.0, "y_val": 0.0, "z_val": 0.0},
            }
            call("simSetVehiclePose", south, True, "helper")
            request = {
                "camera_name": "0",
                "image_type": 5,
                "pixels_as_float": False,
                "compress": False,
            }
            picture = call("simGetImages", [request], "helper", False)[0]
            rgb = np.frombuffer(picture["image_data_uint8"], np.uint8).reshape(144, 256, 3)[
                :, :, ::-1
            ]
            assert (rgb == PALETTE[initial_id("tracked")]).all(axis=2).sum() > 50
            above = {**south, "position": {**south["position"]}}
            above["position"]["x_val"] += 2.5
            above["position"]["z_val"] -= 0.8
            call("simGetCollisionInfo", "helper")
            hit = None

            def falls_onto_the_tracked_vehicle() -> bool:
                nonlocal hit
                hit = call("simGetCollisionInfo", "helper")
                return bool(hit["object_name"] == "tracked")

            place = call("simGetObjectPose", "tracked")["position"]
            for axis in ("x_val", "y_val"):
                above["position"][axis] = place[axis] - origin[axis]
            call("simSetVehiclePose", above, True, "helper")
            wait_until(falls_onto_the_tracked_vehicle)
            assert hit is not None and hit["normal"]["z_val"] < -0.2
            rotors_are_those_of_the_bridge(
                call, port, int(bridge.await_text(r"http://127.0.0.1:(\d+)")[1])
            )
            an_added_vehicle_joins_the_simulated_one(call)
        assert bridge.end() == 0


PAUSED = """
version: 1
require_cameras: false
rooms: {lab: {}}
simulation: {clock: simulated, paused: true}
sources:
  sim:
    type: simulated
    room: lab
    vehicles:
      helper:
        model: airsim
        autopilot: {kind: none}
        sensors: {Gps: {type: gps, preset: airsim},
            Baro: {type: barometer, parameters: {startup_s: 0.5}}}
actors: {helper: {kind: vehicle, source: sim, subject: helper}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
airsim: {port: 0, scene: empty}
"""


def test_a_receiver_before_its_first_report_is_invalid_and_garbage_is_counted(
    tmp_path: Path,
) -> None:
    needs_gl()
    config = tmp_path / "bridge.yaml"
    config.write_text(PAUSED)
    with Program(*VIL_BRIDGE, "run", config, log=tmp_path / "log") as bridge:
        port = int(bridge.await_text(r"AirSim programs connect to .* port (\d+)")[1])
        page = bridge.await_text(r"status page (http\S+)")[1]
        with program(port) as call:
            report = call("getGpsData", "", "")
            assert report["is_valid"] is False and report["gnss"]["fix_type"] == 0
            call("simContinueForTime", 3.0)
            report = call("getGpsData", "", "")
            assert report["is_valid"] is True and report["gnss"]["time_utc"] > 0
        with socket.create_connection(("127.0.0.1", port), timeout=60.0) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert peer.recv(1) == b""
        with urllib.request.urlopen(f"{page}api/v1/status", timeout=60.0) as answer:
            status = json.load(answer)
        assert status["faults"]["airsim"] == dict.fromkeys(FAULTS, 0) | {"malformed": 1}
        assert [row["reason"] for row in status["peer_faults"] if row["port"] == "airsim"] == [
            "malformed"
        ]
        assert bridge.end() == 0


def test_a_sensor_that_starts_is_waited_for_unless_the_world_is_paused(tmp_path: Path) -> None:
    needs_gl()
    config = tmp_path / "bridge.yaml"
    config.write_text(PAUSED)
    with Program(*VIL_BRIDGE, "run", config, log=tmp_path / "log") as bridge:
        port = int(bridge.await_text(r"AirSim programs connect to .* port (\d+)")[1])
        with program(port) as call, program(port) as other, ThreadPoolExecutor(1) as pool:
            with pytest.raises(
                CallRefused, match="'' has not measured yet, and the world is paused"
            ):
                call("getBarometerData", "", "")
            began_ns = call("getMultirotorState", "")["timestamp"]
            call("simPause", False)
            asked = pool.submit(other, "getBarometerData", "", "")
            assert asked.result(60.0)["time_stamp"] - began_ns >= 450_000_000
            assert abs(call("getBarometerData", "Baro", "")["altitude"] - 123.0) < 30.0
        assert bridge.end() == 0
