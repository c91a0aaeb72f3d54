"""The hover task.

Flightmare's numbers, the compiled step against the reference, episodes, starts, bits.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

from vil_bridge.core.geometry import q_rotate
from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.vehicles.envs.base import AutoReset, StepResult
from vil_simulation.vehicles.envs.hover import HoverReward, HoverTask, distance_m
from vil_simulation.vehicles.envs.stabilise import SettleTask
from vil_simulation.vehicles.fleet import Engine
from vil_simulation.vehicles.flightmare.parameters import KINGFISHER


def wild(n: int, steps: int, seed: int = 0) -> FloatArray:
    """Random actions, some beyond their limits, shape (steps, n, 4)."""
    return np.random.default_rng(seed).uniform(-1.2, 1.2, (steps, n, 4))


def kept(result: StepResult) -> StepResult:
    """A copy of what the next step overwrites."""
    return copy.deepcopy(result)


def test_actions_are_those_of_quadrotor_env() -> None:
    """f = a m g / 2 + m g / 4: from 0 to 0.75 m g per rotor, and 0 hovers."""
    task = HoverTask(1, engine="numpy")
    m, g = 0.73, 9.81
    np.testing.assert_allclose(task.commands(np.zeros((1, 4))), m * g / 4)
    most = task.model.thrusts_commanded(task.x, task.commands(np.ones((1, 4))))  # type: ignore[attr-defined]
    np.testing.assert_allclose(most, 0.75 * m * g)
    least = task.model.thrusts_commanded(task.x, task.commands(-np.ones((1, 4))))  # type: ignore[attr-defined]
    assert not least.any()
    assert task.limit == 250 and float(task.dt_s) == 0.02


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_reward_and_observation_of_a_known_state(engine: Engine) -> None:
    """Level at 1 m from the goal with known speeds, and half a turn about x: 3 - trace R = 4."""
    task = HoverTask(2, engine=engine)
    task.reset()
    task.x[0] = (
        1.0,
        0.0,
        5.0,
        0.5,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        1.0,
        *np.zeros(3),
        *np.full(4, 738.692),
    )
    task.x[1] = (0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, *np.zeros(7))
    task.x[1, 12] = 2.0
    actions = np.array([[0.0] * 4, [-0.5] * 4])
    obs, reward, terminated, truncated, _ = task.step(actions)
    x = task.x
    assert x[0, 0] == pytest.approx(1.01, abs=1e-6)
    assert reward[0] == pytest.approx(0.1 - 0.002 * 1.01**2 - 0.0002 * 0.25, abs=1e-7)
    fallen = 9.81 * 0.02
    assert reward[1] == pytest.approx(
        0.1
        - 0.002 * (fallen * 0.01) ** 2
        - 0.002 * 4.0
        - 0.0002 * (fallen**2 + 4.0)
        - 0.0002 * 1.0,
        abs=1e-6,
    )
    assert not terminated.any() and not truncated.any()
    for row in range(2):
        columns = [q_rotate(x[row, 6:10], axis) for axis in np.eye(3)]
        expected = np.concatenate(
            (x[row, 0:3] - (0.0, 0.0, 5.0), *columns, x[row, 3:6], x[row, 10:13])
        )
        np.testing.assert_allclose(obs[row], expected, atol=1e-6)


@pytest.mark.parametrize("kind", [HoverTask, SettleTask])
@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_compiled_step_is_the_reference(autoreset: AutoReset, kind: type[HoverTask]) -> None:
    n = 37
    reference = kind(n, 3, autoreset=autoreset, time_limit_s=0.6, engine="numpy")
    compiled = kind(n, 3, autoreset=autoreset, time_limit_s=0.6, engine="native")
    assert (compiled._fused is None, reference._fused is None) == (False, True)
    np.testing.assert_array_equal(reference.reset(), compiled.reset())
    ends = 0
    for actions in wild(n, 150):
        ours, theirs = compiled.step(actions), reference.step(actions)
        over = theirs.terminated | theirs.truncated
        ends += int(over.sum())
        np.testing.assert_array_equal(ours.terminated, theirs.terminated)
        np.testing.assert_array_equal(ours.truncated, theirs.truncated)
        np.testing.assert_array_equal(compiled.episode, reference.episode)
        np.testing.assert_array_equal(compiled.age, reference.age)
        np.testing.assert_allclose(compiled.x, reference.x, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.reward, theirs.reward, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.obs, theirs.obs, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(
            ours.final_obs[over], theirs.final_obs[over], rtol=1e-6, atol=1e-6
        )
        np.testing.assert_array_equal(compiled.distance_m(), distance_m(compiled.x))
        np.testing.assert_array_equal(reference.distance_m(), distance_m(reference.x))
        if autoreset == "disabled" and over.any():
            np.testing.assert_array_equal(compiled.reset(over)[over], reference.reset(over)[over])
            np.testing.assert_array_equal(compiled.distance_m(), distance_m(compiled.x))
    assert ends > 100


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_near_rewards_end_far_away_low_and_tumbling(engine: Engine) -> None:
    task = SettleTask(7, engine=engine, autoreset="disabled")
    task.reset()
    task.x[:, 0:13] = (0.0, 0.0, 5.0, *np.zeros(6), 1.0, 0.0, 0.0, 0.0)
    task.x[1, 0], task.x[2, 1], task.x[3, 2] = 10.01, -10.01, 0.01
    task.x[4, 10:12], task.x[5, 12], task.x[6, 10:13] = (36.0, 36.0), -51.0, (34.0, 34.0, 34.0)
    result = task.step(np.zeros((7, 4)))
    assert result.terminated.tolist() == [False, True, True, True, True, True, False]
    assert (result.reward[1:6] < -0.9).all() and (result.reward[[0, 6]] > 0.0).all()


def flown(n: int, actions: FloatArray, **options: object) -> tuple[bytes, bytes, bytes]:
    """Bits of states, observations and rewards of the first five vehicles after actions."""
    task = HoverTask(n, 7, time_limit_s=0.6, engine="native", **options)  # type: ignore[arg-type]
    task.reset()
    result = [task.step(row[:n]) for row in actions][-1]
    return task.x[:5].tobytes(), result.obs[:5].tobytes(), result.reward[:5].tobytes()


def test_the_same_bits_in_any_batch() -> None:
    actions = wild(33, 80)
    first = flown(33, actions)
    assert all(flown(n, actions) == first for n in (5, 16, 17, 31))


def test_the_same_bits_by_threads_and_in_parts() -> None:
    n, half = 8192, 4096
    actions = wild(n, 40)
    tasks = [
        HoverTask(n, 7, time_limit_s=0.6, engine="native", threads=threads) for threads in (1, 2, 3)
    ]
    parts = [
        HoverTask(half, 7, time_limit_s=0.6, engine="native", first_vehicle=first)
        for first in (0, half)
    ]
    for task in (*tasks, *parts):
        task.reset()
    for row in actions:
        for task in tasks:
            task.step(row)
        for task, first in zip(parts, (0, half), strict=True):
            task.step(row[first : first + half])
    assert len({task.x.tobytes() for task in tasks}) == 1
    assert b"".join(task.x.tobytes() for task in parts) == tasks[0].x.tobytes()


def test_starts_are_the_same_bits_compiled_or_not() -> None:
    compiled = HoverTask(20, 5, time_limit_s=0.02, engine="native")
    compiled.reset()
    compiled.step(np.zeros((20, 4)))
    reference = HoverTask(20, 5, engine="numpy")
    reference.reset()
    reference.reset()
    np.testing.assert_array_equal(compiled.episode, reference.episode)
    assert compiled.x.tobytes() == reference.x.tobytes()


def test_starts_are_uniform_and_seeded() -> None:
    task = HoverTask(4000, 1, engine="numpy")
    first = task.reset().copy()
    x = task.x
    assert (np.abs(x[:, 0:3] - (0.0, 0.0, 5.0)) < 1.0).all() and (np.abs(x[:, 3:6]) < 1.0).all()
    assert np.abs(x[:, 0:2].mean(axis=0)).max() < 0.05 and x[:, 0].std() == pytest.approx(
        3**-0.5, rel=0.05
    )
    up = q_rotate(x[:, 6:10], np.array([0.0, 0.0, 1.0]))
    assert np.abs(up.mean(axis=0)).max() < 0.05, "a uniform rotation turns an axis anywhere alike"
    np.testing.assert_allclose((up * up).mean(axis=0), 1.0 / 3.0, atol=0.02)
    assert not x[:, 10:].any()
    second = task.reset().copy()
    assert (first != second).any(axis=1).all()
    task.seed(1)
    np.testing.assert_array_equal(task.reset(), first)
    task.seed(2)
    assert (task.reset() != first).any(axis=1).all()


def dive(task: HoverTask, until: int = 250) -> tuple[int, StepResult]:
    """Motors off until the first vehicle ends."""
    for step in range(until):
        result = kept(task.step(-np.ones((task.n, 4))))
        if (result.terminated | result.truncated).any():
            return step, result
    raise AssertionError("nobody ended")


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_the_floor_ends_and_time_truncates(engine: Engine) -> None:
    task = HoverTask(1, engine=engine)
    task.reset()
    _, result = dive(task)
    assert result.terminated[0] and not result.truncated[0]
    assert result.final_obs[0, 2] <= 0.02 - 5.0 and abs(result.obs[0, 2]) < 1.0, (
        "last of the old, first of the new"
    )
    assert result.reward[0] < 0.1 - 0.002 * 24.0 - 0.02
    task = HoverTask(1, engine=engine, time_limit_s=0.1)
    task.reset()
    step, result = dive(task)
    assert step == 4 and result.truncated[0] and not result.terminated[0]


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_spinning_faster_than_the_step_follows_ends(engine: Engine) -> None:
    task = HoverTask(1, engine=engine, autoreset="disabled")
    task.reset()
    task.x[0, 10:13] = (0.0, 0.0, 51.0)
    assert task.step(np.zeros((1, 4))).terminated[0]


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_next_step_begins_anew_a_step_later(engine: Engine) -> None:
    task = HoverTask(1, engine=engine, autoreset="next_step", time_limit_s=0.04)
    task.reset()
    seen = []
    for _ in range(5):
        result = kept(task.step(np.ones((1, 4))))
        seen.append((bool(result.truncated[0]), float(result.reward[0]) == 0.0, int(task.age[0])))
    assert seen == [
        (False, False, 1),
        (True, False, 2),
        (False, True, 0),
        (False, False, 1),
        (True, False, 2),
    ]


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_reset_by_mask(engine: Engine) -> None:
    task = HoverTask(3, engine=engine, autoreset="disabled", time_limit_s=0.04)
    task.reset()
    results = [task.step(np.zeros((3, 4))) for _ in range(3)]
    assert results[-1].truncated.all(), "nobody begins anew unasked"
    mask: BoolArray = np.array([False, True, False])
    before = task.x.copy()
    task.reset(mask)
    assert task.age.tolist() == [3, 0, 3] and task.episode.tolist() == [0, 1, 0]
    assert (task.x[[0, 2]] == before[[0, 2]]).all() and (task.x[1] != before[1]).any()


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_bad_actions_change_nothing(engine: Engine) -> None:
    task = HoverTask(20, engine=engine)
    with pytest.raises(ValueError, match="reset"):
        task.step(np.zeros((20, 4)))
    task.reset()
    before = task.x.tobytes()
    for bad in (np.nan, np.inf, -np.inf):
        actions = np.zeros((20, 4))
        actions[13, 2] = bad
        with pytest.raises(ValueError, match="not finite"):
            task.step(actions)
    with pytest.raises(ValueError, match=r"\(20, 4\), not \(20, 3\)"):
        task.step(np.zeros((20, 3)))
    assert task.x.tobytes() == before


def test_a_subclass_that_changes_the_reward_is_asked_for_it() -> None:
    class Alive(HoverTask):
        def judge(self, actions: FloatArray) -> tuple[FloatArray, BoolArray]:
            return np.full(self.n, 42.0), np.zeros(self.n, np.bool_)

    task = Alive(3)
    task.reset()
    assert task.step(np.zeros((3, 4))).reward.tolist() == [42.0] * 3


def test_weights_and_vehicle_can_be_chosen() -> None:
    plain, doubled = (
        HoverTask(4, parameters=KINGFISHER),
        HoverTask(4, parameters=KINGFISHER, reward=HoverReward(1.0)),
    )
    plain.reset()
    doubled.reset()
    actions = wild(4, 1)[0]
    one, two = plain.step(actions), doubled.step(actions)
    squares = (one.obs[:, 0:3].astype(np.float64) ** 2).sum(axis=1)
    np.testing.assert_allclose(one.reward - two.reward, 0.998 * squares, rtol=1e-5)


@pytest.mark.parametrize(
    ("n", "threads", "text"), [(0, 1, "at least one vehicle"), (1, 0, "at least one thread")]
)
def test_impossible_tasks(n: int, threads: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        HoverTask(n, threads=threads)
