"""Sessions in EuRoC's layout, read by evo, by our own source, and by a parser that knows only
the format.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml
from evo.tools import file_interface

from vil_adapters.motions.drone import BRISK, DroneMotion
from vil_adapters.recording.euroc import EurocMotion
from vil_bridge.core.camera_model import CameraModel, Distortion, LensModel
from vil_bridge.core.geometry import T_FLU_OPTICAL, Transform, q_to_matrix
from vil_bridge.core.types import FloatArray, ImageArray
from vil_bridge.protocols.euroc import EurocCamera, EurocImu, EurocWriter

START_NS = 1_403_636_579_758_555_392  # needs all 19 digits
SIZE_PX = (64, 48)
LENS = Distortion(LensModel.PLUMB_BOB, (-0.28, 0.07, 2e-4, 2e-5, 0.0))
MODEL = CameraModel("front", *SIZE_PX, math.radians(70.0), distortion=LENS)
T_IMU_CAMERA = Transform.of((0.12, 0.01, 0.03)) @ T_FLU_OPTICAL
MOTION = DroneMotion(path=BRISK, imu_rate_hz=200)
SECONDS = 2


def picture(number: int) -> ImageArray:
    return np.random.default_rng(number).integers(0, 255, SIZE_PX[::-1], dtype=np.uint8)


def velocity_mps(t_ns: int) -> FloatArray:
    return (MOTION.truth(t_ns + 100_000).p_m - MOTION.truth(t_ns - 100_000).p_m) / 2e-4


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("session")
    camera = EurocCamera(MODEL, T_IMU_CAMERA, 20.0)
    with EurocWriter(folder, {"cam0": camera}, EurocImu(200.0)) as writer:
        for t_ns, w_radps, f_mps2 in MOTION.imu_between(-1, SECONDS * 10**9):
            assert writer.add_imu(START_NS + t_ns, w_radps, f_mps2)
        for n in range(20 * SECONDS):
            t_ns = 50_000_000 * n
            assert writer.add_image("cam0", START_NS + t_ns, picture(n))
            bias = np.array([0.01, -0.02, 0.015])
            assert writer.add_truth(START_NS + t_ns, MOTION.truth(t_ns), velocity_mps(t_ns), bias)
    return folder


def strict_rows(path: Path, columns: int) -> tuple[list[int], list[list[str]]]:
    """Times and cells of a data.csv, by the letter of the format."""
    head, *lines = path.read_text(encoding="ascii").splitlines()
    assert head.startswith("#") and len(head.split(",")) == columns
    cells = [line.split(",") for line in lines]
    assert all(len(row) == columns and row[0].isdigit() for row in cells)
    times = [int(row[0]) for row in cells]
    assert all(0 <= a < b < 2**63 for a, b in itertools.pairwise(times)), (
        "times strictly increase and fit int64"
    )
    return times, [row[1:] for row in cells]


def test_a_parser_that_knows_only_the_format_reads_all_back(session: Path) -> None:
    mav = session / "mav0"
    times, names = strict_rows(mav / "cam0" / "data.csv", 2)
    assert [name for (name,) in names] == [f"{t_ns}.png" for t_ns in times]
    assert sorted(p.name for p in (mav / "cam0" / "data").iterdir()) == sorted(n for (n,) in names)
    for n, t_ns in enumerate(times):
        assert t_ns == START_NS + 50_000_000 * n
        pixels = cv2.imread(str(mav / "cam0" / "data" / f"{t_ns}.png"), cv2.IMREAD_UNCHANGED)
        assert np.array_equal(np.asarray(pixels), picture(n))
    times, cells = strict_rows(mav / "imu0" / "data.csv", 7)
    samples = MOTION.imu_between(-1, SECONDS * 10**9)
    assert times == [START_NS + t for t, _, _ in samples]
    assert np.array_equal(
        np.array(cells, float), [np.concatenate((w, f)) for _, w, f in samples]
    ), "not a digit lost"
    times, cells = strict_rows(mav / "state_groundtruth_estimate0" / "data.csv", 17)
    for t_ns, row in zip(times, np.array(cells, float), strict=True):
        T = MOTION.truth(t_ns - START_NS)
        assert np.array_equal(row[:3], T.p_m)
        assert np.array_equal(row[3:7], T.q_xyzw[[3, 0, 1, 2]]), "scalar first"
        assert np.allclose(row[7:10], velocity_mps(t_ns - START_NS), atol=1e-9)
        assert row[10:].tolist() == [0.01, -0.02, 0.015, 0.0, 0.0, 0.0]


def test_the_sheet_of_the_camera_projects_as_the_renderer_does(session: Path) -> None:
    sheet = yaml.safe_load((session / "mav0" / "cam0" / "sensor.yaml").read_text())
    assert (sheet["sensor_type"], sheet["camera_model"], sheet["resolution"]) == (
        "camera",
        "pinhole",
        list(SIZE_PX),
    )
    assert tuple(sheet["intrinsics"]) == MODEL.intrinsics_px
    assert sheet["intrinsics"][2:] == [31.5, 23.5], "pixel centres are integers"
    assert (sheet["distortion_model"], sheet["distortion_coefficients"]) == (
        "radial-tangential",
        [-0.28, 0.07, 2e-4, 2e-5],
    )
    assert (sheet["T_BS"]["rows"], sheet["T_BS"]["cols"]) == (4, 4)
    T_BS = np.array(sheet["T_BS"]["data"]).reshape(4, 4)
    point = T_BS @ [0.0, 0.0, 2.0, 1.0]  # 2 m before the lens is 2 m ahead of it in the body
    np.testing.assert_allclose(point, [2.12, 0.01, 0.03, 1.0], atol=1e-12)
    imu = yaml.safe_load((session / "mav0" / "imu0" / "sensor.yaml").read_text())
    assert imu["sensor_type"] == "imu" and imu["rate_hz"] == 200.0
    assert np.array_equal(np.array(imu["T_BS"]["data"]).reshape(4, 4), np.eye(4))
    assert (
        0
        < imu["gyroscope_random_walk"]
        < imu["gyroscope_noise_density"]
        < imu["accelerometer_noise_density"]
    )


def test_evo_reads_the_ground_truth(session: Path) -> None:
    path = session / "mav0" / "state_groundtruth_estimate0" / "data.csv"
    trajectory = file_interface.read_euroc_csv_trajectory(str(path))
    assert trajectory.num_poses == 20 * SECONDS and trajectory.check()[0]
    for pose, n in zip(trajectory.poses_se3, range(20 * SECONDS), strict=True):
        T = MOTION.truth(50_000_000 * n)
        np.testing.assert_allclose(pose[:3, 3], T.p_m, atol=1e-12)
        np.testing.assert_allclose(pose[:3, :3], q_to_matrix(T.q_xyzw), atol=1e-12)


def test_our_own_source_replays_it(session: Path) -> None:
    replay = EurocMotion(session)
    for t_ns in (0, 1_500_000_000, 1_950_000_000):
        played, T = replay.truth(t_ns), MOTION.truth(t_ns)
        assert played is not None
        np.testing.assert_allclose(played.p_m, T.p_m, atol=1e-9)
        np.testing.assert_allclose(np.abs(played.q_xyzw @ T.q_xyzw), 1.0, atol=1e-12)
    felt, true = replay.imu_between(10**9, 2 * 10**9), MOTION.imu_between(10**9, 2 * 10**9)
    assert [t for t, _, _ in felt] == [t for t, _, _ in true]
    assert np.array_equal([f for _, _, f in felt], [f for _, _, f in true])


def test_what_does_not_follow_is_left_out_and_counted(tmp_path: Path) -> None:
    camera = EurocCamera(MODEL, T_IMU_CAMERA, 20.0)
    zero = np.zeros(3)
    with EurocWriter(tmp_path, {"cam0": camera}, EurocImu(200.0)) as writer:
        for t_ns, taken in ((5, True), (5, False), (4, False), (6, True), (-1, False)):
            assert writer.add_imu(t_ns, zero, zero) is taken
            assert writer.add_image("cam0", t_ns, picture(0)) is taken
        with pytest.raises(ValueError, match="cam0 takes uint8"):
            writer.add_image("cam0", 7, picture(0).T.copy())
        # On the disk before it is closed.
        rows = strict_rows(tmp_path / "mav0" / "imu0" / "data.csv", 7)[0]
        assert (
            rows == [5, 6] and writer.refused == {"imu0": 3, "cam0": 3} and writer.rows["cam0"] == 2
        )
    with pytest.raises(FileExistsError):
        EurocWriter(tmp_path, {"cam0": camera}, EurocImu(200.0))


def test_a_lens_for_which_the_layout_has_no_words_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    lens = Distortion(LensModel.PLUMB_BOB, (-0.28, 0.07, 0.0, 0.0, 0.01))
    model = CameraModel("front", *SIZE_PX, 1.2, distortion=lens)
    with pytest.raises(ValueError, match="no third radial term"):
        EurocWriter(tmp_path, {"cam0": EurocCamera(model, T_IMU_CAMERA, 20.0)}, EurocImu(200.0))
    assert not (tmp_path / "mav0").exists()


def test_normal_motion_is_what_papers_call_normal() -> None:
    times = range(4 * 10**9, 90 * 10**9, 4 * 10**8)
    speed_mps = np.array([np.linalg.norm(velocity_mps(t)) for t in times])
    w_radps = np.array([np.linalg.norm(w) for _, w, _ in MOTION.imu_between(4 * 10**9, 40 * 10**9)])
    assert 1.9 < np.sqrt(np.mean(speed_mps**2)) < 2.1
    assert 0.9 < w_radps.mean() < 1.1
    p_m = np.array([MOTION.truth(t).p_m for t in times])
    assert (p_m > [-3.4, -2.4, 0.7]).all() and (p_m < [0.4, 2.4, 2.4]).all(), (
        "the hall keeps that volume free"
    )
