"""Gates, races, three rotors and the reward that pulls near: against values computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course
from vil_simulation.vehicles.envs.base import VehicleTask
from vil_simulation.vehicles.envs.hover import distance_m
from vil_simulation.vehicles.envs.race import RaceTask
from vil_simulation.vehicles.envs.stabilise import SettleTask, ThreeRotorsTask

WEIGHT_N = 0.73 * 9.81
LEVEL = (0.0, 0.0, 0.0, 1.0)


def alley(gates: int = 2) -> Course:
    """Gates of 1 m, 4 m apart along x at a height of 2 m."""
    centres = np.array([(4.0 * (k + 1), 0.0, 2.0) for k in range(gates)])
    return Course.upright(centres, np.zeros(gates), np.ones((gates, 2)), np.array([0.0, 0.0, 2.0]))


def put(
    task: VehicleTask,
    p_m: tuple[float, float, float],
    v_mps: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> None:
    """Place all vehicles level, with rotors that carry them."""
    task.x[:, 0:3], task.x[:, 3:6], task.x[:, 6:10], task.x[:, 10:13] = p_m, v_mps, LEVEL, 0.0
    task.x[:, 13:17] = 738.6


def hover(task: VehicleTask) -> FloatArray:
    return np.zeros((task.n, task.action_size))


def test_a_race_is_timed_between_its_steps() -> None:
    task = RaceTask(2, course=alley(), laps=2, time_limit_s=20.0, autoreset="disabled")
    task.reset()
    put(task, (0.0, 0.0, 2.0), (7.0, 0.0, 0.0))
    results = [task.step(hover(task)) for _ in range(29)]
    assert not any(result.terminated.any() for result in results)
    assert task.passed.tolist() == [1, 1]
    assert task.last_s == pytest.approx(4.0 / 7.0, rel=1e-9)  # straight on, within the 29th step
    for _ in range(29):
        task.step(hover(task))
    assert task.passed.tolist() == [2, 2]
    assert task.last_s == pytest.approx(8.0 / 7.0, rel=1e-9)
    put(task, (0.0, 0.0, 2.0), (200.0, 0.0, 0.0))  # the next lap: one gate a step
    assert not task.step(hover(task)).terminated.any()
    last = task.step(hover(task))
    assert task.passed.tolist() == [4, 4]
    assert last.terminated.all()
    assert not last.truncated.any()


def test_a_race_follows_the_order_of_its_course() -> None:
    task = RaceTask(1, course=replace(alley(3), order=(2, 0)), laps=2, autoreset="disabled")
    task.reset()
    for start_m, passed in ((2.0, 0), (10.0, 1), (10.0, 1), (2.0, 2), (10.0, 3)):
        put(task, (start_m, 0.0, 2.0), (200.0, 0.0, 0.0))
        task.step(hover(task))
        assert task.passed.tolist() == [passed]
    assert task.observe(slice(None))[0, 0:3] == pytest.approx(
        [4.0 - task.x[0, 0], 0.0, 2.0 - task.x[0, 2]], abs=1e-6
    )


def test_the_races_reward_is_progress_gates_time_and_crashes() -> None:
    task = RaceTask(1, course=alley(), autoreset="disabled")
    task.reset()
    put(task, (0.0, 0.0, 2.0), (5.0, 0.0, 0.0))
    assert task.step(hover(task)).reward == pytest.approx(0.1 - 0.02, abs=1e-6)
    put(task, (3.95, 0.0, 2.0), (5.0, 0.0, 0.0))
    assert task.step(hover(task)).reward == pytest.approx((0.05 - 0.05) + 1.0 - 0.02, abs=1e-6)
    put(task, (7.95, 0.6, 2.0), (5.0, 0.0, 0.0))
    result = task.step(hover(task))
    assert result.terminated.all()  # the frame beside the opening
    assert result.reward == pytest.approx(
        math.hypot(0.05, 0.6) - math.hypot(0.05, 0.6) - 0.02 - 5.0, abs=1e-6
    )


@pytest.mark.parametrize(
    "place", [(4.0, 0.0, 0.03), (4.0, 9.0, 2.0), (-8.1, 0.0, 2.0), (4.0, 0.0, 8.1)]
)
def test_leaving_the_room_is_a_crash(place: tuple[float, float, float]) -> None:
    task = RaceTask(1, course=alley(), autoreset="disabled")
    task.reset()
    put(task, place, (0.0, 0.0, -1.0))
    assert task.step(hover(task)).terminated.all()


def test_what_a_racer_sees() -> None:
    task = RaceTask(1, course=alley(), autoreset="disabled")
    task.reset()
    put(task, (1.0, 0.0, 2.0), (3.0, 0.0, 0.0))
    half = 0.25 * math.pi
    # Looks along y: the gate is to the right.
    task.x[:, 6:10] = (0.0, 0.0, math.sin(half), math.cos(half))
    seen = task.observe(slice(None))[0].reshape(6, 3)
    expected = [(0, -3, 0), (0, -1, 0), (0, -7, 0), (0, 0, 1), (0, -3, 0), (0, 0, 0)]
    assert seen == pytest.approx(np.array(expected, float), abs=1e-12)
    task.passed[:] = 1
    # 5 m behind the last.
    assert task.observe(slice(None))[0, 6:9] == pytest.approx([0.0, -12.0, 0.0], abs=1e-12)
    task.passed[:] = 2
    assert np.isfinite(task.observe(slice(None))).all()


def test_starts_are_where_they_should_be() -> None:
    race = RaceTask(2000, course="oval", autoreset="disabled")
    race.reset()
    away = race.x[:, 0:3] - race.course.start.p_m
    assert 0.29 < np.abs(away).max() < 0.3
    assert np.abs(away.mean(axis=0)).max() < 0.02
    assert (1.0 - 2.0 * (race.x[:, 6] ** 2 + race.x[:, 7] ** 2)).min() > math.cos(0.3)
    three = ThreeRotorsTask(2000, autoreset="disabled")
    three.reset()
    assert 0.98 < np.abs(three.x[:, 0:3] - (0.0, 0.0, 5.0)).max() < 1.0
    assert 0.49 < np.abs(three.x[:, 3:6]).max() < 0.5
    upright = 1.0 - 2.0 * (three.x[:, 6] ** 2 + three.x[:, 7] ** 2)
    assert math.cos(0.45) < upright.min() < math.cos(0.3)
    headings = 2.0 * np.arctan2(three.x[:, 8], three.x[:, 9])
    assert np.histogram(headings % (2.0 * np.pi), 4)[0].min() > 440


def test_two_rotors_carry_and_spin_a_vehicle_with_a_dead_one() -> None:
    task = ThreeRotorsTask(1, autoreset="disabled")
    task.reset()
    put(task, (0.0, 0.0, 5.0))
    commanded = task.commands(np.array([[0.0, -1.0, 0.0]]))
    assert commanded[0] == pytest.approx([0.5 * WEIGHT_N, 0.0, 0.5 * WEIGHT_N, 0.0])
    for _ in range(50):
        result = task.step(np.array([[0.0, -1.0, 0.0]]))
    moments = 0.73 * 0.17**2 * 7.0 / 12.0
    # 9.31 rad/s after 1 s.
    assert task.x[0, 12] == pytest.approx(0.016 * WEIGHT_N / moments, rel=2e-3)
    assert task.x[0, 0:3] == pytest.approx([0.0, 0.0, 5.0], abs=5e-3)
    assert result.reward == pytest.approx(0.11, abs=2e-3)  # yaw costs nothing
    task.x[0, 12] = 95.0
    assert task.step(np.array([[0.0, -1.0, 0.0]])).terminated.all()


def test_the_reward_that_pulls_near() -> None:
    task = SettleTask(1, autoreset="disabled")
    task.reset()
    put(task, (0.0, 0.0, 5.0))
    assert task.step(hover(task)).reward == pytest.approx(0.1 * 1.1, abs=1e-4)
    put(task, (0.3, 0.0, 5.4), (0.0, 2.0, 0.0))
    task.x[:, 10:13] = 0.0, 0.0, 3.0
    reward, ended = task.judge(np.array([[0.5, 0.5, -0.5, -0.5]]))
    near = 0.5 * math.exp(-0.5) + 0.5 * math.exp(-0.5 * (0.5 / 0.15) ** 2)
    assert reward == pytest.approx(0.1 * (near + 0.1 - 0.02 * (2.0 + 3.0 + 1.0)), rel=1e-12)
    assert not ended.any()
    assert distance_m(task.x) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "place", [(10.1, 0.0, 5.0), (0.0, -10.1, 5.0), (0.0, 0.0, 15.1), (0.0, 0.0, 0.02)]
)
def test_who_is_lost_ends(place: tuple[float, float, float]) -> None:
    task = SettleTask(1, autoreset="disabled")
    task.reset()
    put(task, place)
    reward, ended = task.judge(hover(task))
    assert ended.all()
    assert reward < -0.9


@pytest.mark.parametrize("make", [SettleTask, ThreeRotorsTask, RaceTask])
def test_engines_agree_and_random_flight_stays_finite(make: type[VehicleTask]) -> None:
    plain, compiled = (make(24, 5, engine=engine) for engine in ("numpy", "auto"))  # type: ignore[call-arg,arg-type]
    rng = np.random.default_rng(2)
    plain.reset(), compiled.reset()
    for _ in range(100):
        actions = rng.uniform(-1.0, 1.0, (24, plain.action_size))
        one, other = plain.step(actions), compiled.step(actions)
        assert np.isfinite(one.obs).all()
        assert (one.terminated == other.terminated).all()
        np.testing.assert_allclose(one.reward, other.reward, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(one.obs, other.obs, rtol=1e-6, atol=1e-6)
    assert plain.episode.max() > 0


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one lap, not 0"):
        RaceTask(1, laps=0)
