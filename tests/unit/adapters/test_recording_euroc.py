"""EuRoC folders as motion: what is read, what is refused, and how windows map onto run time."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from vil_adapters.recording import EurocMotion, Window
from vil_bridge.core.errors import ConfigError
from vil_bridge.protocols.euroc import find_mocap, read_rows

S = 1_000_000_000
MS = 1_000_000
T0 = 1_403_715_273_262_142_976  # a real EuRoC epoch: 19 digits that float64 cannot hold
POSE_HEADER = (
    "#timestamp [ns],p_RS_R_x [m],p_RS_R_y [m],p_RS_R_z [m],q_RS_w [],q_RS_x [],q_RS_y "
    "[],q_RS_z []\n"
)
IMU_HEADER = (
    "#timestamp [ns],w_RS_S_x [rad s^-1],w_RS_S_y,w_RS_S_z,a_RS_S_x [m s^-2],a_RS_S_y,a_RS_S_z\n"
)


def pose_row(t_ns: int, x_m: float = 0.0, yaw_rad: float = 0.0) -> str:
    w, z = math.cos(0.5 * yaw_rad), math.sin(0.5 * yaw_rad)
    return f"{T0 + t_ns},{x_m:.6f},2.0,1.5,{w:.9f},0.0,0.0,{z:.9f}\n"


def imu_row(t_ns: int) -> str:
    return f"{T0 + t_ns},{t_ns / S:.6f},0.2,0.3,0.4,0.5,9.81\n"


def write(folder: Path, poses: str, imu: str, *, mocap: str = "mocap0") -> Path:
    for name, header, rows in ((mocap, POSE_HEADER, poses), ("imu0", IMU_HEADER, imu)):
        (folder / "mav0" / name).mkdir(parents=True)
        (folder / "mav0" / name / "data.csv").write_text(header + rows, newline="")
    return folder


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """IMU for one second at 200 Hz; poses at 100 Hz from 0.2 s to 0.8 s, 0.4 s to 0.5 s missing."""
    pose_ms = [*range(200, 401, 10), *range(500, 801, 10)]
    poses = "".join(pose_row(t * MS, x_m=t / 1000.0, yaw_rad=t / 1000.0) for t in pose_ms)
    return write(tmp_path, poses, "".join(imu_row(t * MS) for t in range(0, 1001, 5)))


def test_poses_are_interpolated_and_gaps_are_not(short: Path) -> None:
    motion = EurocMotion(short, "wand")
    assert motion.subjects == ("wand",)
    assert motion.duration_ns == S
    assert (motion.mocap_rate_hz, motion.imu_rate_hz) == (100.0, 200.0)
    frame = motion.at(306 * MS)
    assert frame.subjects == ("wand",) and frame.tracked.tolist() == [True]
    np.testing.assert_allclose(frame.p_m, [[0.306, 2.0, 1.5]], atol=1e-9)
    np.testing.assert_allclose(
        frame.q_xyzw, [[0.0, 0.0, math.sin(0.153), math.cos(0.153)]], atol=1e-8
    )
    truth = motion.truth(306 * MS)
    assert truth is not None
    np.testing.assert_array_equal(truth.p_m, frame.p_m[0])


def test_outside_the_tracked_times_the_body_is_untracked_and_frozen(short: Path) -> None:
    motion = EurocMotion(short)
    for t_ms, frozen_x_m in ((0, 0.0), (199, 0.0), (401, 0.4), (499, 0.4), (801, 0.8), (1000, 0.8)):
        frame = motion.at(t_ms * MS)
        assert not frame.tracked[0], t_ms
        assert frame.p_m[0, 0] == pytest.approx(frozen_x_m)
        assert motion.truth(t_ms * MS) is None
    for t_ms in (200, 400, 500, 800):
        assert motion.at(t_ms * MS).tracked[0], t_ms


def test_a_step_of_one_and_a_half_periods_is_bridged_and_a_longer_one_is_a_gap(
    tmp_path: Path,
) -> None:
    # Steps of 15 ms, then a row late enough to be a gap.
    rows = [*range(0, 100, 10), 105, *range(120, 200, 10)]
    rows.remove(130)
    motion = EurocMotion(
        write(tmp_path, "".join(pose_row(t * MS) for t in rows), imu_row(0) + imu_row(200 * MS))
    )
    assert motion.truth(97 * MS) is not None
    assert motion.truth(110 * MS) is not None
    assert motion.truth(130 * MS) is None


def test_imu_samples_keep_their_times_and_values(short: Path) -> None:
    motion = EurocMotion(short)
    samples = motion.imu_between(-1, 20 * MS)
    assert [t for t, *_ in samples] == [0, 5 * MS, 10 * MS, 15 * MS, 20 * MS]
    np.testing.assert_allclose(samples[2][1], [0.01, 0.2, 0.3])
    np.testing.assert_allclose(samples[2][2], [0.4, 0.5, 9.81])
    assert [t for t, *_ in motion.imu_between(5 * MS, 14 * MS)] == [10 * MS]
    assert motion.imu_between(5 * MS, 5 * MS) == []


def test_windows_play_in_order_and_then_again(short: Path) -> None:
    motion = EurocMotion(short, playlist=[Window(600 * MS, 700 * MS), Window(100 * MS, 300 * MS)])
    assert motion.cuts_ns == (100 * MS,)
    for run_ms, recording_ms in (
        (0, 600),
        (99, 699),
        (100, 100),
        (299, 299),
        (300, 600),
        (399, 699),
        (400, 100),
    ):
        assert motion.recording_time_ns(run_ms * MS) == recording_ms * MS
    assert motion.at(50 * MS).p_m[0, 0] == pytest.approx(0.65)
    assert not motion.at(150 * MS).tracked[0]
    assert motion.at(250 * MS).p_m[0, 0] == pytest.approx(0.25)


def test_the_imu_of_joined_windows_runs_on_without_a_hole_or_a_repetition(short: Path) -> None:
    motion = EurocMotion(short, playlist=[Window(600 * MS, 700 * MS), Window(100 * MS, 300 * MS)])
    samples = motion.imu_between(-1, 600 * MS)
    assert [t for t, *_ in samples] == [t * MS for t in range(0, 601, 5)]
    recorded_s = [0.001 * (t % 300 + 600 if t % 300 < 100 else t % 300) for t in range(0, 601, 5)]
    np.testing.assert_allclose([w[0] for _, w, _ in samples], recorded_s, atol=1e-9)
    pieces = [s for t in range(-1, 600) for s in motion.imu_between(t * MS, (t + 1) * MS)]
    assert [t for t, *_ in pieces] == [t * MS for t in range(0, 601, 5)]


def test_a_whole_recording_loops(short: Path) -> None:
    motion = EurocMotion(short, playlist=EurocMotion(short).demo_playlist(0))
    assert motion.cuts_ns == ()
    assert motion.recording_time_ns(motion.duration_ns) == motion.duration_ns
    assert motion.recording_time_ns(motion.duration_ns + 1) == 0


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """60 s: poses from 2.5 s to 57 s, at rest until 20 s, then moving at 0.2 m/s.

    IMU throughout.
    """
    times_ms = range(2500, 57001, 10)
    poses = "".join(pose_row(t * MS, x_m=max(0.0, 0.0002 * (t - 20000))) for t in times_ms)
    return write(
        tmp_path, poses, "".join(imu_row(t * MS) for t in range(0, 60001, 5)), mocap="vicon0"
    )


def test_the_demo_shows_acquisition_then_motion_then_loss_within_its_time(long: Path) -> None:
    motion = EurocMotion.demo(long, 20)
    acquire, flight, lose = motion.playlist
    assert (acquire.start_ns, acquire.end_ns) == (1300 * MS, 3300 * MS)
    assert (lose.start_ns, lose.end_ns) == (56500 * MS, 60 * S)
    assert sum(w.duration_ns for w in motion.playlist) == 20 * S
    begin_ns = motion.motion_begin_ns()
    assert 19900 * MS <= begin_ns <= 20 * S
    assert flight.start_ns == begin_ns - 500 * MS
    states = [bool(motion.at(t * MS).tracked[0]) for t in range(0, 20000, 10)]
    assert [t for t in range(1, 2000) if states[t] != states[t - 1]] == [120, 1701]
    assert not states[0]


def test_the_demo_says_what_is_shown(long: Path) -> None:
    motion = EurocMotion.demo(long, 20)
    phases = [motion.phase(t * MS) for t in range(0, 20000, 10)]
    changes = [
        (10 * i, phase) for i, phase in enumerate(phases) if i == 0 or phase != phases[i - 1]
    ]
    assert [phase for _, phase in changes] == ["acquisition", "rest", "motion", "loss"]
    assert [t_ms for t_ms, _ in changes][1::2] == [1200, 17010]


def test_a_demo_shorter_than_its_events_still_moves(long: Path) -> None:
    acquire, flight, lose = EurocMotion(long).demo_playlist(3)
    assert flight.duration_ns == 2 * S
    assert acquire.duration_ns == 2 * S and lose.duration_ns > 3 * S


def test_a_demo_longer_than_the_recording_plays_all_of_it(short: Path) -> None:
    assert EurocMotion(short).demo_playlist(30) == (Window(0, S + 1),)


def test_turning_on_the_spot_is_motion_and_a_body_at_rest_has_none(tmp_path: Path) -> None:
    turning = "".join(
        pose_row(t * MS, yaw_rad=max(0.0, 0.001 * (t - 5000))) for t in range(1000, 9000, 10)
    )
    imu = imu_row(0) + imu_row(9000 * MS)
    assert EurocMotion(write(tmp_path / "a", turning, imu)).motion_begin_ns() == pytest.approx(
        4920 * MS, abs=20 * MS
    )
    resting = "".join(pose_row(t * MS) for t in range(1000, 9000, 10))
    assert EurocMotion(write(tmp_path / "b", resting, imu)).motion_begin_ns() == S
    two_rows = pose_row(S) + pose_row(S + 10 * MS)
    assert EurocMotion(write(tmp_path / "c", two_rows, imu)).motion_begin_ns() == S


def test_line_ends_blanks_gzip_and_a_byte_order_mark_are_read(short: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for sub in ("mocap0", "imu0"):
        text = (short / "mav0" / sub / "data.csv").read_text()
        (other / "mav0" / sub).mkdir(parents=True)
        foreign = "\ufeff" + text.replace(",", ", ").replace("\n", "\r\n") + "\r\n"
        with gzip.open(other / "mav0" / sub / "data.csv.gz", "wb") as file:
            file.write(foreign.encode())
    for t_ns in (0, 306 * MS, 450 * MS):
        np.testing.assert_array_equal(
            EurocMotion(short).at(t_ns).p_m, EurocMotion(other).at(t_ns).p_m
        )


GOOD = pose_row(0) + pose_row(10 * MS)


@pytest.mark.parametrize(
    ("rows", "line", "reason"),
    [
        (GOOD + "1.40363657975856E+018,0,0,0,1,0,0,0\n", 4, "spreadsheet"),
        (GOOD + "1403715273.5,0,0,0,1,0,0,0\n", 4, "not a whole number"),
        (GOOD + "-5,0,0,0,1,0,0,0\n", 4, "not a whole number"),
        (GOOD + f"{'9' * 19},0,0,0,1,0,0,0\n", 4, "64 bits"),
        (GOOD + f"{'9' * 5000},0,0,0,1,0,0,0\n", 4, "64 bits"),
        (GOOD + f"{T0 + S},0,0,0,1,0,0\n", 4, "7 columns, expected 8"),
        (GOOD + f"{T0 + S},0,0,0,1,0,0,0,0\n", 4, "9 columns, expected 8"),
        (GOOD + f"{T0 + S},0,0,zero,1,0,0,0\n", 4, "zero"),
        (GOOD + f"{T0 + S},0,0,nan,1,0,0,0\n", 4, "finite"),
        (GOOD + f"{T0 + S},0,0,0,0,0,0,0\n", 4, "unit length"),
        (pose_row(5) + pose_row(4), 3, "does not follow"),
    ],
)
def test_a_malformed_row_is_named_with_its_line(
    tmp_path: Path, rows: str, line: int, reason: str
) -> None:
    folder = write(tmp_path, rows, imu_row(0) + imu_row(MS))
    with pytest.raises(ConfigError, match=reason) as error:
        EurocMotion(folder)
    assert f"mocap0/data.csv:{line}: " in str(error.value)


def test_a_state_estimate_serves_where_there_is_no_tracking_system(tmp_path: Path) -> None:
    """Its 17 columns begin with those of a tracking system.

    The real one comes first where there is one.
    """
    folder = write(tmp_path / "both", GOOD, imu_row(0) + imu_row(MS))
    poses = folder / "mav0" / "mocap0" / "data.csv"
    states = folder / "mav0" / "state_groundtruth_estimate0" / "data.csv"
    states.parent.mkdir()
    more = ",1.5,-2.5,0.25,0.01,0.02,0.03,0.1,0.2,0.3"
    states.write_text(
        "".join(f"{row}{more}\n" for row in (pose_row(20 * MS) + pose_row(30 * MS)).splitlines())
    )
    assert EurocMotion(folder).truth(0) is not None
    assert find_mocap(folder) == poses
    poses.unlink()
    motion = EurocMotion(folder)
    assert (motion.truth(0), motion.truth(20 * MS) is not None) == (None, True)
    np.testing.assert_array_equal(motion.at(30 * MS).p_m, read_rows(states, 7)[1][1:, :3])


def test_rows_that_repeat_a_time_are_left_out_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    twice = write(
        tmp_path / "twice", pose_row(0) * 3 + pose_row(10 * MS) * 2, imu_row(0) + imu_row(MS)
    )
    t_ns, values = read_rows(find_mocap(twice), 7)
    assert (len(t_ns), len(values)) == (2, 2)
    assert "left out 3 rows that repeat a time" in caplog.text


def test_files_that_cannot_serve_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"mocap0/data\.csv.*vicon0/data\.csv"):
        EurocMotion(tmp_path)
    empty = write(tmp_path / "empty", pose_row(0), imu_row(0) + imu_row(MS))
    with pytest.raises(ConfigError, match="holds 1 rows"):
        EurocMotion(empty)
    no_imu = write(tmp_path / "no_imu", GOOD, "")
    (no_imu / "mav0" / "imu0" / "data.csv").unlink()
    with pytest.raises(ConfigError, match=r"imu0/data\.csv"):
        EurocMotion(no_imu)
    cut = write(tmp_path / "cut", GOOD, imu_row(0))
    (cut / "mav0" / "imu0" / "data.csv").unlink()
    (cut / "mav0" / "imu0" / "data.csv.gz").write_bytes(
        gzip.compress(IMU_HEADER.encode() * 100)[:-20]
    )
    with pytest.raises(ConfigError, match="cannot be read"):
        EurocMotion(cut)
    binary = write(tmp_path / "binary", GOOD, imu_row(0))
    (binary / "mav0" / "imu0" / "data.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        EurocMotion(binary)


@pytest.mark.parametrize("window", [Window(-1, 5), Window(5, 5), Window(0, 2 * S)])
def test_a_window_outside_the_recording_is_refused(short: Path, window: Window) -> None:
    with pytest.raises(ConfigError, match="outside"):
        EurocMotion(short, playlist=[window])
