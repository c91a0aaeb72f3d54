"""Recordings for the benchmarks.

Any folder in EuRoC's layout, plain or gzipped, at the IMU's place by ``T_BS``.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from vil_benchmarks.recordings import BenchRecording, find_recordings, recordings_with_imu
from vil_bridge.cli.main import app
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_exp, q_normalize

MS = 1_000_000
BEGIN_NS = 1_403_715_273_262_142_976
T_BODY_MARKERS = Transform(np.array([0.069, -0.028, -0.124]), q_exp(np.array([0.4, -1.1, 2.0])))
T_BODY_IMU = Transform(np.array([0.01, 0.02, 0.03]), q_exp(np.array([0.0, 0.0, 1.5])))
OPENCV = """%YAML:1.0
sensor_type: pose
T_BS: !!opencv-matrix
   rows: 4
   cols: 4
   dt: d
   data: {data}
"""


def body_at(t_s: float) -> Transform:
    """Return where the body flies: 0.5 m/s, turning at 1 rad/s about the vertical."""
    return Transform(np.array([0.5 * t_s, 0.2, 1.0]), q_exp(np.array([0.0, 0.0, t_s])))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)


def sheet(T: Transform, form: str = "T_BS: {{rows: 4, cols: 4, data: {data}}}\n") -> str:
    return form.format(data=T.matrix().ravel().tolist())


def recorded(folder: Path, poses: str, T_body_sensor: Transform, seconds: float = 1.2) -> Path:
    """Write a flight as a tracking system sees it, with an IMU that is mounted on the body."""
    rows, samples = [], []
    for n in range(round(100 * seconds)):
        T = body_at(n / 100) @ T_body_sensor
        x, y, z, w = T.q_xyzw
        rows.append(
            ",".join(map(repr, [BEGIN_NS + 10 * n * MS, *map(float, (*T.p_m, w, x, y, z))]))
        )
    for n in range(round(200 * seconds) + 40):
        samples.append(f"{BEGIN_NS + (5 * n - 100) * MS}, 0, 0, 1, 0, 0, 9.80665\r")
    write(folder / "mav0" / poses, "#timestamp [ns], p, q\n" + "\n".join(rows) + "\n")
    write(
        folder / "mav0" / "imu0" / "data.csv", "#timestamp [ns], w, f\n" + "\n".join(samples) + "\n"
    )
    return folder


@pytest.mark.parametrize(
    "poses", ["vicon0/data.csv", "mocap0/data.csv.gz", "state_groundtruth_estimate0/data.csv"]
)
def test_poses_become_those_of_the_imu(tmp_path: Path, poses: str) -> None:
    folder = recorded(tmp_path / "V9_01", poses, T_BODY_MARKERS)
    write(folder / "mav0" / poses.partition("/")[0] / "sensor.yaml", sheet(T_BODY_MARKERS, OPENCV))
    write(folder / "mav0" / "imu0" / "sensor.yaml", sheet(T_BODY_IMU))
    recording = BenchRecording.load(folder)
    for row in (0, 57, 119):
        expected = body_at(row / 100) @ T_BODY_IMU
        np.testing.assert_allclose(recording.p_m[row], expected.p_m, atol=1e-9)
        assert abs(recording.q_xyzw[row] @ q_normalize(expected.q_xyzw)) == pytest.approx(
            1.0, abs=1e-12
        )
    assert (
        recording.t_ns[0] == 0
        and recording.imu_ns[0] == -100 * MS
        and recording.period_ns == 10 * MS
    )


def test_without_sensor_yaml_the_poses_are_the_imu_s_own(tmp_path: Path) -> None:
    recording = BenchRecording.load(recorded(tmp_path, "mocap0/data.csv", Transform.identity()))
    np.testing.assert_allclose(recording.p_m[100], body_at(1.0).p_m, atol=1e-12)


def test_a_folder_may_be_a_recording_or_hold_several(tmp_path: Path) -> None:
    for name in ("V9_02", "broad_12_slow_translation", "V9_01"):
        recorded(tmp_path / name, "mocap0/data.csv", Transform.identity(), 0.1)
    (tmp_path / "assets").mkdir()
    assert list(find_recordings(tmp_path, "compensate")) == ["broad_12", "V9_01", "V9_02"]
    assert find_recordings(tmp_path / "V9_02", "compensate") == {"V9_02": tmp_path / "V9_02"}


def test_the_benchmark_runs_on_any_recording(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "V9_01", "vicon0/data.csv", T_BODY_MARKERS)
    write(folder / "mav0" / "vicon0" / "sensor.yaml", sheet(T_BODY_MARKERS))
    done = CliRunner().invoke(app, ["bench", "prediction", "--json", "--data", str(folder)])
    assert done.exit_code == 0, done.output
    names = {row["name"] for row in json.loads(done.stdout)["rows"]}
    assert {
        "bridged_V9_01_56ms_imu_position_p50",
        "forecast_V9_01_20ms_twist_rotation_mean",
    } <= names


def test_files_that_cannot_serve_are_named(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "a", "vicon0/data.csv", Transform.identity(), 0.1)
    yaml = folder / "mav0" / "vicon0" / "sensor.yaml"
    write(yaml, "T_BS: {data: [1, 2]}\n")
    with pytest.raises(ConfigError, match=r"vicon0/sensor\.yaml: T_BS cannot be read"):
        BenchRecording.load(folder)
    write(yaml, f"T_BS: {{data: {[2.0, *np.eye(4).ravel().tolist()[1:]]}}}\n")
    with pytest.raises(ConfigError, match="not a rigid transform"):
        BenchRecording.load(folder)
    (folder / "mav0" / "vicon0" / "data.csv").rename(folder / "mav0" / "poses.csv")
    (folder / "mav0" / "leica0").mkdir()
    with pytest.raises(ConfigError, match=r"no recording.*leica0 has positions only"):
        BenchRecording.load(folder)
    still = recorded(tmp_path / "b", "mocap0/data.csv", Transform.identity(), 0.1)
    (still / "mav0" / "imu0" / "data.csv").unlink()
    with pytest.raises(ConfigError, match="inertial samples"):
        list(recordings_with_imu(still, "compensate"))
