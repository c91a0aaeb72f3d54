"""The embedded renderer's process behind the Flightmare protocol, asked as the original client
asks.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.common import wait_until
from tests.support.embedded import renderer
from tests.support.flightmare_original import UNTURNED, OldClient
from tests.support.geometry_scenes import opened_points
from tests.support.programs import Program

pytestmark = [pytest.mark.process, pytest.mark.gl]

LOAD_S = 300.0


def test_pictures_lidar_collision_and_point_cloud(tmp_path: Path) -> None:
    renderer("hall")  # skips where there is no OpenGL
    with OldClient("master", cameras=2, layers=(True, True, True), hwm=1000) as old:
        command = [
            sys.executable,
            "-m",
            "vil_renderer.embedded.servers.main",
            "-protocol",
            "flightmare",
            "-scene",
            "client",
        ]
        command += ["-input-port", str(old.taken[0]), "-output-port", str(old.taken[1])]
        with Program(*command, cwd=tmp_path) as child:
            check_frames(old)
            check_point_cloud(old, tmp_path)
            assert child.end() == 0 and "Traceback" not in child.text()


def check_frames(old: OldClient) -> None:
    carrier = old.vehicles[0]
    for camera in carrier["cameras"]:
        camera |= {"width": 64, "height": 48, "T_BC": UNTURNED}  # along the body's y
    ring = {
        "ID": "ring",
        "num_beams": 4,
        "max_distance": 50.0,
        "start_angle": 0.0,
        "end_angle": 3 * np.pi / 2,
    }
    carrier["lidars"] = [ring | {"T_BS": UNTURNED}]
    carrier["position"] = [0.0, 1.5, 0.0]
    old.connect(LOAD_S)
    old.render(1, move=False)
    number, (colour, share, ids, flow, *second) = old.handle_output(LOAD_S)
    assert number == 1 and len(second) == 4
    assert colour.std() > 5.0 and np.array_equal(second[0], colour), (
        "two cameras at one place see the same"
    )
    depth_m = 100.0 * share
    assert depth_m.min() > 0.1 and 1.0 < np.median(depth_m) < 30.0
    assert len(np.unique(ids.reshape(-1, 3), axis=0)) > 2, "several things are seen"
    assert not flow.any(), "nothing has moved yet"
    assert not old.states[0]["collision"]
    ranges = old.states[0]["lidar_ranges"]
    assert len(ranges) == 4 and all(0.1 < r < 51.0 for r in ranges)
    # The second beam looks where the camera looks: the middle of its picture, whose pixels are
    # wide.
    middle = depth_m[22:26, 30:34]
    assert middle.min() - 0.3 <= ranges[1] <= middle.max() + 0.3
    carrier["position"] = [0.0, -0.02, 0.0]
    old.render(2, move=False)
    old.handle_output(LOAD_S)
    assert old.states[0]["collision"], "in the floor"


def check_point_cloud(old: OldClient, folder: Path) -> None:
    box = {"range": [4.0, 4.0, 1.0], "origin": [0.0, 0.0, 0.0], "resolution": 0.25}
    old.send("PointCloud", box | {"path": "clouds/", "file_name": "floor"})
    path = folder / "clouds" / "floor.ply"
    wait_until(path.exists, LOAD_S)
    points = opened_points(path)
    assert len(points) >= 16 * 16 and np.abs(points[:, 2]).max() <= 0.5
    floor = np.abs(points[:, 2]) <= 0.25
    assert floor.sum() >= 2 * 16 * 16, "the floor is two cells thick"
