"""Data sets: everything in them is right, and the bytes are the same however and by whomever
they are made.
"""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
import re
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
import pytest

from tests.support.common import ROOT, needs_gl
from tests.support.offline import flight, pose_at, room_file, write_recording
from tests.support.programs import Program, run
from vil_adapters.recording.euroc import EurocMotion
from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.errors import ConfigError, RendererError
from vil_bridge.core.geometry import T_FLU_OPTICAL, Transform, q_from_euler_zyx
from vil_bridge.offline.files import SUMS
from vil_renderer.embedded import RayWorld, load_scene
from vil_simulation.dataset.dataset import DatasetSummary, render_dataset
from vil_simulation.dataset.frames import sequences_of
from vil_simulation.dataset.plan import DatasetPlan, load_plan
from vil_simulation.dataset.shard_renderer import ShardRenderer

pytestmark = [pytest.mark.process, pytest.mark.gl]

SIZE_PX: Final = (96, 72)
CAMERA: Final = CameraModel("left", *SIZE_PX, math.radians(70.0))
BASELINE_M: Final = 0.32
LEFT: Final = ["rgb", "gray", "depth", "depth32", "normals", "semantic", "instance", "flow"]
FRAMES: Final = 5
START_NS: Final = 1_550_000_000


def files(out: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


def trajectory(folder: Path) -> Path:
    """A body that goes sideways, 100 rows a second."""
    lines = []
    for row in range(60):
        x, y, z, w = q_from_euler_zyx(0.3, 0.1, 0.05)
        lines.append(
            f"{1.5 + 0.01 * row:.3f} {-1.0 + 0.002 * row:.4f} {0.004 * row:.4f} 1.2 {x} {y} {z} {w}"
        )
    path = folder / "flight.txt"
    path.write_text("# t x y z qx qy qz qw\n" + "\n".join(lines) + "\n")
    return path


def plan_in(folder: Path) -> DatasetPlan:
    """Everything there is, of a recorded flight in a small room."""
    lens = {"width_px": SIZE_PX[0], "height_px": SIZE_PX[1]}
    told: dict[str, Any] = {
        "scenes": [str(room_file(folder))],
        "trajectory": {"recorded": {"file": trajectory(folder), "start_s": 0.05}},
        "frames": FRAMES,
        "modalities": ["gray", "depth"],
        "cameras": {
            "left": lens | {"modalities": LEFT, "stereo_baseline_m": BASELINE_M},
            "down": lens
            | {"T_body_camera": {"ypr_deg": [0, 90, 0]}, "effects": {"shutter": 0.5, "noise": 2}},
        },
        "imu": {"preset": "mpu6000", "rate_hz": 100},
        "measure": ["lidar", "range", "beacons"],
    }
    return DatasetPlan.model_validate(told)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DatasetPlan, DatasetSummary]:
    """A whole data set, made in one go by this process."""
    needs_gl()
    folder = tmp_path_factory.mktemp("sets")
    plan = plan_in(folder)
    return folder / "whole", plan, render_dataset(plan, folder / "whole")


Made = tuple[Path, DatasetPlan, DatasetSummary]


def index(out: Path) -> list[dict[str, str]]:
    head, *rows = (out / "room" / "frames.csv").read_text().splitlines()
    return [dict(zip(head.split(","), row.split(","), strict=True)) for row in rows]


def read(path: Path) -> Any:
    return np.load(path) if path.suffix == ".npy" else cv2.imread(str(path), cv2.IMREAD_UNCHANGED)


def shown(out: Path, frame: int, camera: str, kind: str) -> Any:
    row = next(row for row in index(out) if (row["frame"], row["camera"]) == (str(frame), camera))
    return read(out / "room" / row[kind])


def body_at(t_ns: int) -> Transform:
    s = 1e-9 * (t_ns - 1_500_000_000)
    return Transform.of((-1.0 + 0.2 * s, 0.4 * s, 1.2), q_from_euler_zyx(0.3, 0.1, 0.05))


def test_the_index_names_every_file_and_every_pose(made: Made) -> None:
    out, _, summary = made
    rows = index(out)
    assert [row["camera"] for row in rows] == ["left", "left_right", "down"] * FRAMES
    assert summary.pictures == FRAMES * (8 + 8 + 2) and summary.frames == summary.drawn == FRAMES
    named = {row[kind] for row in rows for kind in (*LEFT, "beacons") if row[kind]}
    there = {
        str(p.relative_to(out / "room"))
        for p in (out / "room").rglob("*")
        if p.suffix in (".png", ".npy", ".json")
    }
    lidar = {f"mav0/lidar0/data/{row['t_ns']}.npy" for row in rows}
    assert there == named | lidar | {"labels.json"}
    for row in rows[::3]:
        expected = body_at(int(row["t_ns"])) @ T_FLU_OPTICAL
        assert [float(row[k]) for k in ("x_m", "y_m", "z_m")] == pytest.approx(
            expected.p_m.tolist(), abs=1e-6
        )
        q = [float(row[k]) for k in ("qx", "qy", "qz", "qw")]
        assert abs(float(np.dot(q, expected.q_xyzw))) == pytest.approx(1.0, abs=1e-9)
    assert [int(row["t_ns"]) for row in rows[::3]] == [
        START_NS + 50_000_000 * k for k in range(FRAMES)
    ]


def test_the_two_eyes_agree(made: Made) -> None:
    """What the left camera sees at x, the right one sees at x - f b / Z, at the same depth."""
    out, _, _ = made
    left, right = (shown(out, 1, camera, "depth") / 655.35 for camera in ("left", "left_right"))
    v, u = np.mgrid[4:68:8, 40:92:8]
    z = left[v, u]
    there = np.rint(u - CAMERA.f_px * BASELINE_M / z).astype(int)
    inside = there >= 0
    close = np.abs(right[v, np.maximum(there, 0)] - z) < 0.1 * z
    assert close[inside].mean() > 0.8 and inside.sum() > 20
    assert np.abs(left - shown(out, 1, "left", "depth32")).max() <= 0.51 / 655.35
    colour = shown(out, 1, "left", "rgb")[..., ::-1].astype(int)
    assert np.abs((colour @ (77, 150, 29)) / 256 - shown(out, 1, "left", "gray")).max() <= 1.0


def test_flow_looks_back_to_the_frame_before(made: Made) -> None:
    out, _, _ = made
    assert np.isnan(shown(out, 0, "left", "flow")).all(), "there is no frame before the first"
    flow, depth_m = shown(out, 2, "left", "flow"), shown(out, 2, "left", "depth32")
    before, now = (body_at(START_NS + 50_000_000 * k) @ T_FLU_OPTICAL for k in (1, 2))
    fx, fy, cx, cy = CAMERA.intrinsics_px
    v, u = np.mgrid[8:64:9, 8:88:9]
    z = depth_m[v, u]
    points = now.apply(np.stack(((u - cx) / fx * z, (v - cy) / fy * z, z), axis=-1))
    was = before.inverse().apply(points)
    expected = np.stack(
        (u - (fx * was[..., 0] / was[..., 2] + cx), v - (fy * was[..., 1] / was[..., 2] + cy)),
        axis=-1,
    )
    off = np.linalg.norm(flow[v, u] - expected, axis=-1)
    assert np.median(off) < 0.02 and np.isfinite(flow).mean() > 0.9


def test_what_is_measured_is_there(made: Made) -> None:
    out, _, _ = made
    rays = RayWorld(load_scene(out.parent / "room.yaml"))
    t_ns = START_NS + 50_000_000
    body = body_at(t_ns)
    ranges = (out / "room/mav0/range0/data.csv").read_text().splitlines()[1:]
    t, metres, hit = ranges[1].split(",")
    down = body.rotation() @ (0.0, 0.0, -1.0)
    assert (int(t), hit) == (t_ns, "0")
    assert float(metres) == pytest.approx(
        float(rays.cast(body.p_m[None], down[None]).distance_m[0]), abs=1e-4
    )
    points = read(out / f"room/mav0/lidar0/data/{t_ns}.npy")
    assert len(points) > 10_000
    some = points[:: len(points) // 200]
    way = some["p_m"] / some["range_m"][:, None] @ body.rotation().T
    hits = rays.cast(np.broadcast_to(body.p_m, way.shape), way)
    assert np.allclose(hits.distance_m, some["range_m"], atol=2e-3)
    ids = shown(out, 1, "left", "semantic")
    names = {
        number: name
        for name, number in json.loads((out / "room/labels.json").read_text())["classes"].items()
    }
    assert ids.dtype == np.uint16
    assert {"floor", "wall"} <= {names.get(number, "nothing") for number in np.unique(ids).tolist()}
    beacons = json.loads((out / f"room/mav0/cam0/beacons/{t_ns}.json").read_text())
    assert beacons.keys() == {"East_1"}, "the other one is behind the camera"
    x, y, z = (body @ T_FLU_OPTICAL).inverse().apply(np.array([3.85, 1.0, 1.6]))
    fx, fy, cx, cy = CAMERA.intrinsics_px
    assert beacons["East_1"] == pytest.approx([cx + fx * x / z, cy + fy * y / z, z], abs=1e-4)


def test_an_estimator_finds_its_sequence(made: Made) -> None:
    """EuRoC's layout, read by our own reader of it."""
    out, _, _ = made
    motion = EurocMotion(out / "room")
    assert motion.duration_ns == 200_000_000
    about = json.loads((out / "calibration.json").read_text())
    assert about["cameras"]["left"]["K"] == list(CAMERA.intrinsics_px)
    assert (out / "room/mav0/cam2/data.csv").read_text().splitlines()[
        1
    ] == f"{START_NS},{START_NS}.png"
    assert (
        json.loads((out / "dataset.json").read_text())["scenes"]["room"]["smoothed_off_rms_m"]
        < 1e-4
    )


@pytest.mark.long
@pytest.mark.parametrize("at", [1, FRAMES], ids=["at-the-first", "at-the-last"])
def test_workers_and_shards_do_not_show_and_a_killed_worker_s_shard_is_done_again(
    made: Made, tmp_path: Path, at: int
) -> None:
    out, plan, whole = made
    killed: list[int] = []

    def kill_one(done: int, _whole: int) -> None:
        workers = [child for child in multiprocessing.active_children() if child.name == "shards"]
        if done >= at and not killed:
            assert len(workers) == 2
            assert workers[0].pid is not None
            killed.append(workers[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    again = render_dataset(
        plan, tmp_path / "again", workers=2, shard_frames=2, on_progress=kill_one
    )
    assert killed and again.drawn == FRAMES
    assert not [child for child in multiprocessing.active_children() if child.name == "shards"]
    assert files(tmp_path / "again") == files(out)
    assert again.sha256 == whole.sha256


@pytest.mark.long
def test_a_shard_at_which_every_worker_dies_is_named(made: Made, tmp_path: Path) -> None:
    _, plan, _ = made
    ended = threading.Event()

    def kill_all() -> None:
        while not ended.wait(0.001):
            for child in multiprocessing.active_children():
                if child.name == "shards" and child.pid is not None:
                    with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                        os.kill(child.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_all)
    killer.start()
    try:
        with pytest.raises(
            RendererError, match=r"workers died 4 times in a row, at shard .+ Try fewer workers"
        ):
            render_dataset(plan, tmp_path / "set", workers=2, shard_frames=2)
    finally:
        ended.set()
        killer.join()


@pytest.mark.long
def test_after_a_kill_it_goes_on_and_ends_the_same(made: Made, tmp_path: Path) -> None:
    out, plan, whole = made
    path, target = tmp_path / "plan.json", tmp_path / "set"
    path.write_text(plan.model_dump_json())  # JSON is YAML
    program = (
        "import sys; from pathlib import Path; from vil_simulation.dataset.dataset "
        "import render_dataset;"
        "from vil_simulation.dataset.plan import load_plan;"
        "import os, signal\n"
        "def end(done, whole):\n"
        "    if done == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "render_dataset(load_plan(Path(sys.argv[1])), Path(sys.argv[2]), shard_frames=1, "
        "on_progress=end)"
    )
    with Program(sys.executable, "-c", program, path, target) as running:
        assert running.wait(100.0) == -signal.SIGKILL
    assert not (target / SUMS).exists(), "it was killed before it was done"
    (target / "room/mav0/cam0/data" / ".1.png.0.part").write_bytes(b"cut off")
    done = render_dataset(plan, target, shard_frames=1)
    assert 0 < done.drawn <= FRAMES - 2
    assert files(target) == files(out) and done.sha256 == whole.sha256
    assert render_dataset(plan, target).drawn == 0, "complete is complete"
    with pytest.raises(ConfigError, match="holds another data set"):
        render_dataset(plan.model_copy(update={"seed": 1}), target)
    with pytest.raises(ConfigError, match="is not empty"):
        render_dataset(plan, tmp_path)


def test_our_own_recordings_bring_everybody_along(made: Made, tmp_path: Path) -> None:
    """The drone carries the camera and is not seen by it; times are Unix times."""
    recording = write_recording(tmp_path / "flight.mcap", events=flight(0.5))
    told = {
        "scenes": [str(made[0].parent / "room.yaml")],
        "rate_hz": 10,
        "frames": 4,
        "modalities": ["gray"],
    }
    plan = DatasetPlan.model_validate(
        told | {"trajectory": {"recorded": {"file": recording, "start_s": 0.1}}}
    )
    (sequence,) = sequences_of(plan)
    assert sequence.hidden == ("drone",)
    for frame in sequence.frames:
        truth = pose_at(1e-9 * (frame.t_ns - 7) - 5000.0)
        assert np.linalg.norm(frame.T_world_body.p_m - truth.p_m) < 0.01, (
            "the room's clock is not known at once"
        )
        assert [actor.name for actor in frame.snapshot.actors] == [
            "drone"
        ] and frame.snapshot.t_ns == frame.t_ns
    (shard,) = sequence.shards(25)
    seen: dict[str, bytes] = {}
    with ShardRenderer(plan) as artist:
        assert artist.draw(shard, seen.__setitem__).labels["instances"]["drone"] >= 32768
    assert len(seen) == 4


def test_the_verb(tmp_path: Path) -> None:
    needs_gl()
    command = [
        sys.executable,
        "-m",
        "vil_bridge",
        "dataset",
        str(tmp_path / "set"),
        "--frames",
        "2",
        "--size",
        "64",
        "48",
    ]
    command += [
        "--scene",
        str(room_file(tmp_path)),
        "--camera",
        "stereo",
        "--imu",
        "mpu6000",
        "--json",
    ]
    done = run(*command, limit_s=100)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pictures"] == 8 and (tmp_path / "set" / SUMS).exists()
    bad = run(*command, "--camera", "rear", limit_s=100)
    assert bad.returncode == 2 and "one of front, stereo, down" in bad.stderr


def test_the_example_and_the_plan_of_the_page(tmp_path: Path) -> None:
    needs_gl()
    script = ROOT / "examples" / "offline_dataset.py"
    command = [
        sys.executable,
        str(script),
        str(tmp_path / "set"),
        "--frames",
        "1",
        "--size",
        "64",
        "48",
    ]
    done = run(*command, "--scene", room_file(tmp_path), limit_s=100)
    assert done.stdout.startswith("10 pictures in "), done.stderr
    (told,) = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs" / "guides" / "datasets.md").read_text(), re.DOTALL
    )
    (tmp_path / "plan.yaml").write_text(told)
    plan = load_plan(tmp_path / "plan.yaml")
    assert [len(sequence.frames) for sequence in sequences_of(plan)] == [100, 100]
    assert list(plan.every_camera()) == ["left", "left_right", "down"]
