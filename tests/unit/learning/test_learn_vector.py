"""Vector environments do what as many single ones do, to the bit, in every mode of resetting."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from vil_simulation.learning import IDS, TaskEnv, TaskVectorEnv

Envs = VectorEnv[Any, Any, Any]
MODES = [mode.value for mode in AutoresetMode]


def native(id_: str, n: int, **settings: Any) -> Envs:
    return gymnasium.make_vec(id_, n, vectorization_mode="vector_entry_point", **settings)


def singles(id_: str, n: int, mode: str, **settings: Any) -> Envs:
    return SyncVectorEnv([lambda: TaskEnv(IDS[id_], **settings)] * n, autoreset_mode=mode)


def wild(env: Envs, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Full-range actions, held by each vehicle for so long that all crash soon."""
    return rng.choice(np.array([-1.0, -0.6, 0.2, 1.0], np.float32), env.action_space.shape or ())


@pytest.mark.parametrize("id_", IDS)
@pytest.mark.parametrize("mode", MODES)
def test_a_vector_is_as_many_single_ones(id_: str, mode: str) -> None:
    n = 5
    # Some are truncated, others terminated.
    settings = {"time_limit_s": 0.5} if id_ == "vil/Hover-v0" else {}
    ours, theirs = (
        native(id_, n, autoreset_mode=mode, **settings),
        singles(id_, n, mode, **settings),
    )
    assert ours.metadata["autoreset_mode"] is theirs.metadata["autoreset_mode"]
    assert ours.single_observation_space == theirs.single_observation_space
    assert (ours.observation_space, ours.action_space) == (
        theirs.observation_space,
        theirs.action_space,
    )
    assert data_equivalence(ours.reset(seed=11), theirs.reset(seed=11), exact=True)
    rng = np.random.default_rng(4)
    ends = 0
    for _ in range(110):
        actions = wild(ours, rng)
        mine, other = ours.step(actions), theirs.step(actions)
        assert data_equivalence(mine, other, exact=True)
        over = mine[2] | mine[3]
        ends += int(over.sum())
        if mode == "Disabled" and over.any():
            assert data_equivalence(
                ours.reset(options={"reset_mask": over}),
                theirs.reset(options={"reset_mask": over}),
                exact=True,
            )
    assert ends >= n
    assert data_equivalence(ours.reset(), theirs.reset(), exact=True)
    seeds: Any = [9, 3, 7, 1, 2]
    assert data_equivalence(ours.reset(seed=seeds), theirs.reset(seed=seeds), exact=True)
    ours.close()


@pytest.mark.parametrize("id_", IDS)
def test_any_split_of_the_vehicles_gives_the_same_bits(id_: str) -> None:
    sizes = (1, 2, 16, 33)
    whole, parts = native(id_, sum(sizes)), [native(id_, size) for size in sizes]
    starts = np.cumsum((0, *sizes[:-1]))
    whole.reset(seed=0)
    for part, start in zip(parts, starts, strict=True):
        part.reset(seed=int(start))
    rng = np.random.default_rng(1)
    for _ in range(30):
        actions = wild(whole, rng)
        expected = whole.step(actions)
        got = [
            part.step(actions[start : start + part.num_envs])
            for part, start in zip(parts, starts, strict=True)
        ]
        for column in range(4):
            assert (np.concatenate([each[column] for each in got]) == expected[column]).all()


def test_truncation_is_not_termination_and_the_last_observation_is_kept() -> None:
    env = native("vil/Hover-v0", 3, autoreset_mode="SameStep", time_limit_s=0.2)
    env.reset(seed=0)
    hover = np.zeros((3, 4), np.float32)
    for _ in range(9):
        _, _, terminated, truncated, infos = env.step(hover)
        assert not (terminated | truncated).any()
        assert "final_obs" not in infos
    observation, _, terminated, truncated, infos = env.step(hover)
    assert truncated.all()
    assert not terminated.any()
    last = np.stack(list(infos["final_obs"]))
    assert np.linalg.norm(last[:, :3], axis=1) == pytest.approx(
        infos["final_info"]["distance_m"], rel=1e-6
    )
    assert (last != observation).any(axis=1).all()
    assert (observation[:, 15:18] == 0.0).all()  # new episodes begin without body rates


def test_seeds_decide_everything_and_differ_between_vehicles_and_episodes() -> None:
    env = native("vil/Hover-v0", 4)
    first, _ = env.reset(seed=2**70 + 5)
    second, _ = env.reset()
    assert len(np.unique(np.vstack((first, second)), axis=0)) == 8
    again = native("vil/Hover-v0", 4)
    assert (again.reset(seed=2**70 + 5)[0] == first).all()
    assert (again.reset()[0] == second).all()
    assert (again.reset(seed=2**70 + 5)[0] == first).all()
    unseeded, _ = native("vil/Hover-v0", 4).reset()
    assert (unseeded != first).any()


def test_what_is_given_back_is_the_callers_own() -> None:
    env = native("vil/Race-v0", 2)
    first, infos = env.reset(seed=1)
    kept, told = first.copy(), infos["gates_passed"].copy()
    stepped = env.step(np.zeros((2, 4), np.float32))
    reward = stepped[1].copy()
    env.step(np.ones((2, 4), np.float32))
    assert (first == kept).all()
    assert (infos["gates_passed"] == told).all()
    assert (stepped[1] == reward).all()


def test_bad_input_is_named() -> None:
    with pytest.raises(
        ValueError, match="no task named 'hoover'; known: hover, three_rotors, gates, race"
    ):
        TaskVectorEnv(1, "hoover")
    with pytest.raises(ValueError, match="no observation named 'infrared'; known: state, gray"):
        TaskVectorEnv(1, observed="infrared")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="size_px must be 8 to 2048, got 4"):
        TaskVectorEnv(1, observed="gray", size_px=4)
    with pytest.raises(ValueError, match="no reward named 'far'; known: near, flightmare"):
        TaskVectorEnv(1, reward="far")
    with pytest.raises(ValueError, match="no course is named 'maze'; known: alphapilot, "):
        TaskVectorEnv(1, "race", course="maze")
    env = TaskVectorEnv(2)
    with pytest.raises(ValueError, match="reset"):
        env.step(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="2 vehicles have 2 seeds, not 3"):
        env.reset(seed=[1, 2, 3])
    with pytest.raises(ValueError, match=r"reset_mask must have the shape \(2,\)"):
        env.reset(options={"reset_mask": np.ones(3, np.bool_)})
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"actions have shape \(2, 4\), not \(4,\)"):
        env.step(np.zeros(4))
    with pytest.raises(ValueError, match="not finite"):
        env.step(np.full((2, 4), np.nan))


def test_who_disables_resets_is_told_to_do_them() -> None:
    env = TaskVectorEnv(2, autoreset_mode="Disabled", time_limit_s=0.02)
    env.reset(seed=0)
    env.step(np.zeros((2, 4)))
    with pytest.raises(ValueError, match=r"episodes of \[0 1\] are over"):
        env.step(np.zeros((2, 4)))
