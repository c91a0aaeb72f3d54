"""Single environments: gymnasium's checker has nothing to say; pictures show what is there."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import SyncVectorEnv

from tests.support.common import needs_gl
from tests.support.programs import output, run
from vil_bridge.config.course import load_course
from vil_simulation.learning import IDS, TaskEnv, TaskVectorEnv
from vil_simulation.learning.evaluate import fly_once
from vil_simulation.learning.pictures import field_with


def made(id_: str, **settings: Any) -> gymnasium.Env[Any, Any]:
    """The environment without gymnasium's wrappers, as its checker asks for."""
    return gymnasium.make(id_, **settings).unwrapped


@pytest.mark.parametrize("id_", IDS)
def test_the_checker_has_nothing_to_say(id_: str) -> None:
    check_env(made(id_), skip_render_check=True)


@pytest.mark.parametrize(
    ("id_", "settings"),
    [
        ("vil/Hover-v0", {"reward": "flightmare"}),
        ("vil/Race-v0", {"course": "alphapilot", "laps": 1}),
    ],
)
def test_nor_of_the_variants(id_: str, settings: dict[str, Any]) -> None:
    check_env(made(id_, **settings), skip_render_check=True)


@pytest.mark.process
@pytest.mark.gl
def test_nor_of_pictures() -> None:
    needs_gl()
    check_env(made("vil/Gates-v0", observed="depth", size_px=32, render_mode="rgb_array"))


def test_observations_stay_in_their_space_however_wild_the_flight() -> None:
    for id_ in IDS:
        env = made(id_)
        env.action_space.seed(3)
        env.reset(seed=8)
        for _ in range(300):
            observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            assert observation in env.observation_space
            assert np.isfinite(float(reward))
            if terminated or truncated:
                env.reset()


def test_time_is_up_after_the_limit() -> None:
    env = TaskEnv("hover")
    env.reset(seed=0)
    x = env._batch.task.x
    x[:, 0:10], x[:, 13:17] = (0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), 738.6
    ends = [env.step(np.zeros(4))[2:4] for _ in range(250)]
    assert ends[-1] == (False, True)
    assert not any(terminated or truncated for terminated, truncated in ends[:-1])


@pytest.mark.process
@pytest.mark.gl
def test_pictures_are_those_of_single_environments_and_show_the_gates() -> None:
    needs_gl()
    settings: dict[str, Any] = {"observed": "depth", "size_px": 48}
    ours = TaskVectorEnv(2, "gates", autoreset_mode="SameStep", **settings)
    theirs = SyncVectorEnv([lambda: TaskEnv("gates", **settings)] * 2, autoreset_mode="SameStep")
    depth, _ = ours.reset(seed=3)
    assert data_equivalence(depth, theirs.reset(seed=3)[0], exact=True)
    fall = np.full((2, 4), -1.0, np.float32)
    for _ in range(35):
        mine = ours.step(fall)
        assert data_equivalence(mine, theirs.step(fall), exact=True)
    assert depth.shape == (2, 48, 48, 1)
    # 4 m ahead of the start stands the first gate, on legs, and behind the camera's edge the field
    # goes on.
    assert depth.min() < 4.0
    assert ((depth > 3.2) & (depth < 4.3)).sum() > 20
    assert depth.max() == 100.0
    ours.close()
    theirs.close()


@pytest.mark.process
@pytest.mark.gl
def test_gray_and_colours_and_the_view_from_behind() -> None:
    needs_gl()
    env = TaskVectorEnv(2, "hover", observed="rgb", size_px=40, render_mode="rgb_array")
    seen, _ = env.reset(seed=1)
    assert seen.shape == (2, 40, 40, 3)
    assert seen.dtype == np.uint8
    assert seen in env.observation_space
    assert (seen[0] != seen[1]).any()
    pictures = env.render()
    assert pictures is not None
    assert [picture.shape for picture in pictures] == [(480, 640, 3)] * 2
    env.close()
    gray = TaskVectorEnv(2, "hover", observed="gray", size_px=40)
    luma = (seen.astype(int) @ [77, 150, 29] + 128) // 256
    assert np.abs(gray.reset(seed=1)[0][..., 0].astype(int) - luma).max() <= 1
    assert gray.render() is None
    gray.close()


def test_the_courses_gates_stand_in_the_field() -> None:
    course = load_course("oval")
    gates = field_with(course).gates
    assert len(gates) == 8
    for gate, centre, axes, opening in zip(
        gates, course.centres_m, course.axes, course.openings_m, strict=True
    ):
        assert gate.T_world_gate.p_m == pytest.approx(centre)
        assert gate.T_world_gate.rotation() == pytest.approx(axes)
        assert (gate.width_m, gate.height_m) == pytest.approx(tuple(opening))


def test_episodes_are_flown_once_each() -> None:
    env = TaskVectorEnv(6, "hover", autoreset_mode="SameStep", time_limit_s=0.5)
    seen = []

    def tumble(observations: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        seen.append(observations)
        actions = np.zeros((6, 4))
        actions[:3] = (1.0, -1.0, -1.0, 1.0)  # these turn too fast before their time is up
        return actions

    episodes = fly_once(env, tumble, seed=40)
    assert len(seen) == 25
    assert episodes.terminated.tolist() == [True] * 3 + [False] * 3
    assert (episodes.lengths[:3] < 25).all()
    assert (episodes.lengths[3:] == 25).all()
    alone = TaskEnv("hover", time_limit_s=0.5)
    alone.reset(seed=44)
    steps = [alone.step(np.zeros(4)) for _ in range(25)]
    assert episodes.returns[4] == pytest.approx(sum(step[1] for step in steps), rel=1e-12)
    assert episodes.final["distance_m"][4] == steps[-1][4]["distance_m"]
    with pytest.raises(ValueError, match="SameStep"):
        fly_once(TaskVectorEnv(1), tumble, 0)


@pytest.mark.process
@pytest.mark.parametrize(
    ("absent", "module", "extra"),
    [
        ("gymnasium", "vil_simulation.learning", "learn"),
        ("stable_baselines3", "vil_simulation.learning.stable", "train"),
        ("ray", "vil_simulation.learning.rollouts", "ray"),
    ],
)
def test_absent_packages_are_named_with_their_extra(absent: str, module: str, extra: str) -> None:
    code = (
        f"import sys; sys.modules[{absent!r}] = None; import vil_simulation.vehicles.envs.race; "
        f"import {module}"
    )
    done = run(sys.executable, "-c", code, limit_s=100)
    assert done.stderr.splitlines()[-1].endswith(f"pip install '.[{extra}]' in the source folder")


@pytest.mark.process
def test_making_one_by_its_module_needs_no_import_and_no_graphics() -> None:
    code = (
        "import sys, gymnasium\n"
        "env = gymnasium.make('vil_simulation.learning:vil/Race-v0')\n"
        "env.reset(seed=1)\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('moderngl', 'torch', "
        "'ray', 'stable_baselines3')])\n"
    )
    assert output(sys.executable, "-c", code, limit_s=100).split() == ["[]"]
