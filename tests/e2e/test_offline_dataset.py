"""examples/offline_dataset.py: three frames with everything in them, and a second start that goes on."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tests.support import ROOT, needs_gl
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.optics import CameraModel
from vil_bridge.pipeline.camera import T_FLU_OPTICAL
from vil_renderer.embedded import RayWorld, load_scene

pytestmark = pytest.mark.gl

SIZE_PX = (96, 72)
CAMERA = CameraModel("left", *SIZE_PX, math.radians(70.0))
PNG = {"left": ("rgb", "gray", "depth", "semantic", "instance"), "right": ("rgb", "gray", "depth")}
NPY = ("depth32", "normals", "flow")
SCENE = """
scene: a small room
objects:
  - {name: floor, plane: {size_m: [10, 10]}, material: {surface: mat}, class: floor}
  - {name: north, box: {size_m: [10, 0.2, 4]}, p_m: [0, 4, 0], material: {surface: wall_block}, class: wall}
  - {name: east, box: {size_m: [0.2, 10, 4]}, p_m: [4, 0, 0], material: {surface: wall_brick}, class: wall}
  - {name: south, box: {size_m: [10, 0.2, 4]}, p_m: [0, -4, 0], material: {surface: wall_block}, class: wall}
  - {name: west, box: {size_m: [0.2, 10, 4]}, p_m: [-4, 0, 0], material: {surface: wall_brick}, class: wall}
  - {name: crate, box: {size_m: [0.8, 0.8, 0.8]}, p_m: [1.5, 1, 0.4], material: {surface: crate}, class: box}
beacons: [{name: East_1, p_m: [3.85, 1, 1.6]}, {name: East_2, p_m: [-3.85, 0, 2]}]
"""


def render(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    needs_gl()
    command = [sys.executable, str(ROOT / "examples" / "offline_dataset.py"), str(out), *options]
    command += ["--scene", str(scene_in(out)), "--size", *map(str, SIZE_PX)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def scene_in(out: Path) -> Path:
    """The scene file beside a data set."""
    path = out.parent / "room.yaml"
    path.write_text(SCENE)
    return path


def table(out: Path) -> list[list[float]]:
    return [[float(v) for v in line.split(",")] for line in (out / "frames.csv").read_text().splitlines()[1:]]


def files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def trajectory(folder: Path) -> Path:
    """A body that goes sideways in the laboratory, 100 rows a second."""
    lines = []
    for row in range(30):
        x, y, z, w = q_from_euler_zyx(0.3, 0.1, 0.05)
        lines.append(f"{1.5 + 0.01 * row:.3f} {-1.0 + 0.002 * row:.4f} {0.004 * row:.4f} 1.2 {x} {y} {z} {w}")
    path = folder / "flight.txt"
    path.write_text("# t x y z qx qy qz qw\n" + "\n".join(lines) + "\n")
    return path


def test_three_frames_of_a_trajectory_with_everything_and_again_in_two_goes(tmp_path: Path) -> None:
    options = ("--trajectory", str(trajectory(tmp_path)), "--rate", "20")
    whole = tmp_path / "whole"
    done = render(whole, *options, "--frames", "3")
    assert done.returncode == 0, done.stderr
    check_files(whole)
    check_geometry(whole)
    check_measurements(whole)

    pieces = tmp_path / "pieces"
    assert render(pieces, *options, "--frames", "2").returncode == 0
    with (pieces / "frames.csv").open("a") as rows:
        rows.write("1600000000,0.1,")  # as if it had been killed while it wrote
    assert render(pieces, *options, "--frames", "3").returncode == 0
    assert files(pieces) == files(whole), "flow included, which is towards the frame before"

    other = render(whole, "--trajectory", options[1], "--rate", "10", "--frames", "3")
    assert other.returncode == 1
    assert "holds another data set" in other.stderr
    assert len(table(whole)) == 3


def check_files(out: Path) -> None:
    expected = {"dataset.json", "frames.csv"}
    for number in ("000000", "000001", "000002"):
        expected |= {f"{camera}/{m}/{number}.png" for camera, modalities in PNG.items() for m in modalities}
        expected |= {f"left/{m}/{number}.npy" for m in NPY} | {f"left/{number}.json", f"lidar/{number}.npy"}
    assert files(out).keys() == expected
    about = json.loads((out / "dataset.json").read_text())
    assert about["K"] == list(CAMERA.intrinsics_px)
    assert (about["baseline_m"], about["distortion"], about["scene"]) == (0.32, None, str(scene_in(out)))


def check_geometry(out: Path) -> None:
    rows = table(out)
    assert [row[0] for row in rows] == [1.50e9, 1.55e9, 1.60e9], "rows of the file, 20 a second"
    for i, row in enumerate(rows):
        T_world_body = Transform.of((-1.0 + 0.01 * i, 0.02 * i, 1.2), q_from_euler_zyx(0.3, 0.1, 0.05))
        expected = T_world_body @ T_FLU_OPTICAL
        assert row[1:4] == pytest.approx(expected.p_m.tolist(), abs=1e-9)
        assert abs(float(np.dot(row[4:8], expected.q_xyzw))) == pytest.approx(1.0, abs=1e-9)
    check_left_and_right_agree(out)
    assert np.isnan(np.load(out / "left/flow/000000.npy")).all(), "there is no frame before the first"
    flow, depth_m = np.load(out / "left/flow/000002.npy"), np.load(out / "left/depth32/000002.npy")
    assert flow.shape == (*depth_m.shape, 2) and np.isfinite(flow).mean() > 0.9
    assert 0.05 < float(np.nanmedian(np.abs(flow[..., 0]))) < 3.0


def check_left_and_right_agree(out: Path) -> None:
    """What the left camera sees at x, the right one sees at x - f b / Z, at the same depth."""
    left, right = (read(out / camera / "depth" / "000001.png") / 655.35 for camera in ("left", "right"))
    v, u = np.mgrid[4:68:8, 40:92:8]
    z = left[v, u]
    there = np.rint(u - CAMERA.f_px * 0.32 / z).astype(int)
    inside = there >= 0
    close = np.abs(right[v, np.maximum(there, 0)] - z) < 0.1 * z
    assert close[inside].mean() > 0.8 and inside.sum() > 20
    assert np.abs(left - np.load(out / "left/depth32/000001.npy")).max() <= 0.51 / 655.35
    colour = read(out / "left/rgb/000001.png")[..., ::-1].astype(int)
    gray = read(out / "left/gray/000001.png")
    assert np.abs((colour @ (77, 150, 29)) / 256 - gray).max() <= 1.0


def check_measurements(out: Path) -> None:
    rays = RayWorld(load_scene(scene_in(out)))
    row = table(out)[1]
    T_world_body = Transform(np.array(row[1:4]), np.array(row[4:8])) @ T_FLU_OPTICAL.inverse()
    down = T_world_body.rotation() @ (0.0, 0.0, -1.0)
    assert row[8] == pytest.approx(float(rays.cast(T_world_body.p_m[None], down[None]).distance_m[0]), abs=1e-4)
    assert row[9] == 0.0
    points: Any = np.load(out / "lidar/000001.npy")
    assert len(points) > 10_000
    some = points[:: len(points) // 200]
    way = some["p_m"] / some["range_m"][:, None] @ T_world_body.rotation().T
    hits = rays.cast(np.broadcast_to(T_world_body.p_m, way.shape), way)
    assert np.allclose(hits.distance_m, some["range_m"], atol=2e-3)
    assert np.array_equal(hits.semantic, some["semantic"])
    ids = read(out / "left/semantic/000001.png")
    assert ids.dtype == np.uint16 and set(np.unique(points["semantic"])) & set(np.unique(ids))
    beacons = json.loads((out / "left/000001.json").read_text())["beacons"]
    assert beacons.keys() == {"East_1"}, "the other one is behind the camera"
    T_world_camera = Transform(np.array(row[1:4]), np.array(row[4:8]))
    x, y, z = T_world_camera.inverse().apply(np.array([3.85, 1.0, 1.6]))
    fx, fy, cx, cy = CAMERA.intrinsics_px
    assert beacons["East_1"] == pytest.approx([cx + fx * x / z, cy + fy * y / z, z], abs=1e-6)


def read(path: Path) -> Any:
    return cv2.imread(str(path), cv2.IMREAD_UNCHANGED)


def test_a_circle_needs_no_file(tmp_path: Path) -> None:
    done = render(tmp_path / "set", "--frames", "1")
    assert done.returncode == 0, done.stderr
    assert table(tmp_path / "set")[0][1:4] == [0.0, -1.5, 1.5]
