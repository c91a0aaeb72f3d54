"""Flights of data sets: motion, what an IMU feels of it and ground truth agree.

Plans are read strictly.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.support.offline import room_file
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import GRAVITY_MPS2, q_conj, q_from_euler_zyx, q_log, q_mul, q_rotate
from vil_bridge.core.types import FloatArray, Modality
from vil_simulation.dataset.frames import grid_ns, sequences_of
from vil_simulation.dataset.inertial import write_inertial
from vil_simulation.dataset.plan import (
    CirclePath,
    DatasetPlan,
    RacePath,
    WaypointsPath,
    load_plan,
)
from vil_simulation.dataset.recorded_trajectory import RecordedFlight, SeenPoses
from vil_simulation.dataset.trajectories import Flight, FlownCurve, curve_of
from vil_simulation.vehicles.sensors.presets import IMU_PRESETS

GATES_M = np.array([[0.0, 0.0, 1.5], [4.0, 2.0, 2.0], [8.0, -1.0, 1.5], [3.0, -4.0, 1.8]])
NO_GATES = np.empty((0, 3))


def assert_consistent(flight: Flight, t_ns: list[int]) -> None:
    """Velocities and accelerations are those of the poses, by central differences of 0.1 ms."""
    step_ns = 100_000
    now = flight.motion(t_ns)
    before, after = (flight.motion([t + d for t in t_ns]) for d in (-step_ns, step_ns))
    span_s = 2e-9 * step_ns
    np.testing.assert_allclose(
        now.v_world_mps, (after.p_world_m - before.p_world_m) / span_s, atol=1e-5
    )
    np.testing.assert_allclose(
        now.a_world_mps2, (after.v_world_mps - before.v_world_mps) / span_s, atol=1e-3
    )
    turned = q_log(q_mul(q_conj(before.q_world_body), after.q_world_body)) / span_s
    np.testing.assert_allclose(now.w_body_radps, turned, atol=1e-4)
    np.testing.assert_allclose(
        now.alpha_body_radps2, (after.w_body_radps - before.w_body_radps) / span_s, atol=1e-2
    )
    force = q_rotate(now.q_world_body, now.f_body_mps2) - np.array([0.0, 0.0, GRAVITY_MPS2])
    np.testing.assert_allclose(force, now.a_world_mps2, atol=1e-9)


def test_curves_are_flown_banked_and_through_their_points() -> None:
    fly = WaypointsPath(
        points_m=tuple(map(tuple, GATES_M.tolist())), speed_mps=3.0, acceleration_mps2=4.0
    )
    flight = FlownCurve(curve_of(fly, NO_GATES, endless=False))
    t_ns = grid_ns(flight.start_ns, 200.0, int(flight.duration_ns / 5e6))
    truth = flight.motion(t_ns)
    for point in GATES_M:
        assert np.linalg.norm(truth.p_world_m - point, axis=1).min() < 0.01
    speed, acceleration = (
        np.linalg.norm(a, axis=1).max() for a in (truth.v_world_mps, truth.a_world_mps2)
    )
    assert speed <= 3.001 and acceleration <= 4.001
    assert max(speed / 3.0, acceleration / 4.0) > 0.99, "as fast as a limit allows"
    np.testing.assert_allclose(
        truth.f_body_mps2[:, :2], 0.0, atol=1e-9, err_msg="thrust is all that a multicopter feels"
    )
    assert_consistent(flight, t_ns[20:-20:37])


def test_a_race_takes_the_gates_of_the_scene_lap_by_lap() -> None:
    flight = FlownCurve(curve_of(RacePath(laps=2), GATES_M, endless=False))
    truth = flight.motion(grid_ns(flight.start_ns, 500.0, int(flight.duration_ns / 2e6)))
    near = np.linalg.norm(truth.p_world_m - GATES_M[1], axis=1) < 0.05
    assert np.count_nonzero(np.diff(near.astype(int)) == 1) == 2
    with pytest.raises(ConfigError, match="a scene with gates, this one has 0"):
        curve_of(RacePath(), NO_GATES, endless=False)


def test_a_circle_lasts_as_long_as_the_frames_ask() -> None:
    round_and_round = FlownCurve(curve_of(CirclePath(), NO_GATES, endless=True))
    far = round_and_round.motion([round_and_round.start_ns + 10**12])
    assert math.hypot(*far.p_world_m[0, :2]) == pytest.approx(1.5)
    assert np.linalg.norm(far.v_world_mps) == pytest.approx(0.8)
    twice = FlownCurve(curve_of(CirclePath(), NO_GATES, endless=False))
    assert twice.duration_ns == pytest.approx(1e9 * (4 * math.pi * 1.5 / 0.8 + 2.0), rel=1e-6)
    with pytest.raises(ConfigError, match="trajectory: ramps"):
        curve_of(CirclePath(turns=0.01), NO_GATES, endless=False)


def recorded(rows: FloatArray, noise_m: float = 0.0) -> SeenPoses:
    """A body that swings in x and turns about z, seen at times (n,)."""
    rng = np.random.default_rng(4)
    p = np.column_stack(
        (np.sin(2.0 * rows), 0.3 * rows, np.full_like(rows, 1.2))
    ) + noise_m * rng.normal(size=(len(rows), 3))
    q = np.array([q_from_euler_zyx(3.0 * t, 0.1 * math.sin(t), 0.0) for t in rows])
    q[::2] *= -1.0  # both signs are the same attitude
    return SeenPoses(np.round(1e9 * rows).astype(np.int64) + 7_000_000_000, p, q, "body")


def test_a_recorded_flight_is_smooth_and_near() -> None:
    rows = np.arange(0.0, 4.0, 0.01) + np.random.default_rng(5).uniform(0.0, 0.004, 400)
    flight = RecordedFlight(recorded(rows, noise_m=2e-4), 0.5, 0.05)
    assert 1e-4 < flight.off_m < 5e-4, "it goes through the middle of the noise"
    t_ns = grid_ns(flight.start_ns + 100_000_000, 50.0, 150)
    truth, t_s = flight.motion(t_ns), 1e-9 * (np.array(t_ns) - 7_000_000_000)
    np.testing.assert_allclose(truth.p_world_m[:, 0], np.sin(2.0 * t_s), atol=1e-3)
    np.testing.assert_allclose(truth.v_world_mps[:, 0], 2.0 * np.cos(2.0 * t_s), atol=0.03)
    np.testing.assert_allclose(truth.w_body_radps[:, 2], 3.0, atol=0.05)
    assert_consistent(flight, t_ns[::17])


def test_a_recorded_flight_ends_where_nobody_saw_it() -> None:
    rows = np.concatenate((np.arange(0.0, 1.0, 0.01), np.arange(1.8, 3.0, 0.01)))
    flight = RecordedFlight(recorded(rows), 0.0, 0.05)
    assert flight.duration_ns == 990_000_000
    assert flight.ends == "then it was not seen for 0.8 s"
    with pytest.raises(ConfigError, match=r"start_s 5\.0 is behind the end"):
        RecordedFlight(recorded(rows), 5.0, 0.05)


def test_only_what_lies_between_two_gaps_makes_the_flight() -> None:
    rows = np.concatenate((np.arange(0.0, 1.0, 0.01), np.arange(1.8, 3.0, 0.01), [1e9, 1e9 + 0.01]))
    seen = recorded(rows)
    flight = RecordedFlight(seen, 1.3, 0.05)  # nobody saw it then: it begins where somebody did
    assert flight.start_ns == seen.t_ns[100]
    assert flight.duration_ns == 1_190_000_000
    assert flight.off_m < 1e-3
    with pytest.raises(ConfigError, match=r"seen 2 times .* choose another start_s"):
        RecordedFlight(seen, 1e6, 0.05)


def table(path: Path) -> FloatArray:
    return np.loadtxt(path, delimiter=",", comments="#", ndmin=2)


def test_imu_and_ground_truth_are_those_of_the_imu_on_the_body(tmp_path: Path) -> None:
    imu = {
        "preset": "vn100",
        "rate_hz": 400,
        "T_body_imu": {"p_m": [0.1, -0.05, 0.02], "ypr_deg": [90, 0, 0]},
    }
    told = {"scenes": [str(room_file(tmp_path))], "rate_hz": 10, "frames": 11, "imu": imu}
    plan = DatasetPlan.model_validate(told)
    (sequence,) = sequences_of(plan)
    for folder in ("one", "two"):
        write_inertial(plan, sequence, tmp_path / folder)
    write_inertial(plan.model_copy(update={"seed": 1}), sequence, tmp_path / "other")
    rows = {
        name: table(tmp_path / name / "mav0" / "imu0" / "data.csv")
        for name in ("one", "two", "other")
    }
    assert np.array_equal(rows["one"], rows["two"])
    assert not np.array_equal(rows["one"], rows["other"]), "noise by the seed"
    state = table(tmp_path / "one" / "mav0" / "state_groundtruth_estimate0" / "data.csv")
    assert len(state) == len(rows["one"]) == 401 and state[0, 0] == sequence.frames[0].t_ns
    truth = sequence.flight.motion([int(t) for t in state[:, 0]])
    # The IMU's x looks to the body's left.
    felt_w = truth.w_body_radps[:, [1, 0, 2]] * (1.0, -1.0, 1.0)
    white = IMU_PRESETS["vn100"].gyro.white
    off = rows["one"][:, 1:4] - felt_w - state[:, 11:14]
    assert off.std() == pytest.approx(float(np.max(white)) * 20.0, rel=0.1), (
        "density times the root of the rate"
    )
    p_world_imu = truth.p_world_m + q_rotate(
        truth.q_world_body, np.broadcast_to([0.1, -0.05, 0.02], (401, 3))
    )
    np.testing.assert_allclose(state[:, 1:4], p_world_imu, atol=1e-9)
    np.testing.assert_allclose(np.diff(state[:, 1:4], axis=0) / 0.0025, state[:-1, 8:11], atol=0.02)
    assert abs(rows["one"][:, 6].mean() - GRAVITY_MPS2) < 0.1


def test_samples_of_an_imu_fit_the_instants_of_their_stamps(tmp_path: Path) -> None:
    """Least squares of rate error against angular acceleration give the lag.

    Half a period would be 25 ms.
    """
    zigzag = [(0.0, 0.0, 1.5), (0.5, 0.4, 1.6), (0.0, 0.8, 1.4), (0.5, 1.2, 1.5)]
    path = {"waypoints": {"points_m": zigzag, "speed_mps": 4.0, "acceleration_mps2": 8.0}}
    asked = {"scenes": [str(room_file(tmp_path))], "trajectory": path, "rate_hz": 10, "frames": 12}
    plan = DatasetPlan.model_validate({**asked, "imu": {"preset": "vn100", "rate_hz": 20}})
    (sequence,) = sequences_of(plan)
    write_inertial(plan, sequence, tmp_path)
    samples = table(tmp_path / "mav0" / "imu0" / "data.csv")
    truth = sequence.flight.motion([int(t) for t in samples[:, 0]])
    steady = slice(1, -1)
    error = (samples[:, 1:4] - truth.w_body_radps)[steady]
    change = truth.alpha_body_radps2[steady]
    lag_s = -(error * change).sum() / (change * change).sum()
    assert np.abs(change).max() > 1.0, "the flight can tell a lag"
    assert abs(lag_s) < 0.003


def problems_of(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as found:
        load_plan(path)
    return [line.replace(f"{path}:", "") for line in found.value.problems]


def test_a_plan_is_read_with_places(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(
        "scenes: [hall, my/room.yaml]\ntrajectory: {recorded: {file: flight.txt}}\n"
        "modalities: [gray, flow]\n"
    )
    plan = load_plan(path)
    assert plan.scenes == ("hall", str(tmp_path / "my" / "room.yaml"))
    assert (
        plan.trajectory.recorded is not None
        and plan.trajectory.recorded.file == tmp_path / "flight.txt"
    )
    assert plan.every_camera()["front"].modalities == (Modality.GRAY, Modality.FLOW)
    assert problems_of(
        tmp_path, "scene: hall\nrate_hz: -1\ntrajectory: {circle: {}, race: {}}\n"
    ) == [
        "1:1: scene: unknown key (did you mean 'scenes'?)",
        "2:1: rate_hz: should be greater than 0, got '-1'",
        "3:1: trajectory: wants exactly one of circle, waypoints, race, recorded",
    ]
    cameras = (
        "cameras:\n  a: {effects: {auto_exposure: true}}\n  b: {fov_y_deg: 60, lens: "
        "{pinhole_px: [9, 9, 9, 9]}}\n"
    )
    first, second = problems_of(tmp_path, cameras)
    assert (
        first == "2:3: cameras.a: effects.auto_exposure depends on all pictures before: set "
        "effects.exposure_ev instead"
    )
    assert second.startswith("3:3: cameras.b: fov_y_deg and lens.pinhole_px both say")
    assert "camera front needs rgb or gray" in problems_of(tmp_path, "modalities: [depth]\n")[0]
    assert "known: mpu6000" in problems_of(tmp_path, "imu: {preset: best}\n")[0]
    assert (
        "two scenes have the same name: hall, hall"
        in problems_of(tmp_path, "scenes: [hall, a/hall.yaml]\n")[0]
    )


def test_too_many_frames_and_missing_scenes_are_told(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"the flight lasts 25\.56 s: that is 512 frames at 20 Hz, not 513"
    ):
        sequences_of(
            DatasetPlan.model_validate({"trajectory": {"circle": {"turns": 2}}, "frames": 513})
        )
    with pytest.raises(ConfigError, match=r"no scene is named 'hal'; .*did you mean 'hall'"):
        sequences_of(DatasetPlan(scenes=("hal",)))
    with pytest.raises(ConfigError, match="there is no such file"):
        sequences_of(DatasetPlan(scenes=(str(tmp_path / "none.yaml"),)))
