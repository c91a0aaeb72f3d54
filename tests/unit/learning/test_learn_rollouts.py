"""Roll-outs over Ray are those of one process, to the bit.

Training's bridge tells what Stable-Baselines3 asks for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from tests.support.common import ROOT
from vil_simulation.learning import TaskVectorEnv

_OVER_RAY = """
import numpy as np
import ray
from gymnasium.utils.env_checker import data_equivalence

ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
print("started", flush=True)
from vil_simulation.learning.rollouts import RayVectorEnv
from vil_simulation.learning.vector import TaskVectorEnv

far = RayVectorEnv(2, 3, "gates", autoreset_mode="SameStep", time_limit_s=0.4)
near = TaskVectorEnv(6, "gates", autoreset_mode="SameStep", time_limit_s=0.4)
assert (far.observation_space, far.action_space) == (near.observation_space, near.action_space)
assert far.metadata == near.metadata
assert data_equivalence(far.reset(seed=5), near.reset(seed=5), exact=True)
rng, ends = np.random.default_rng(0), set()
for _ in range(45):
    actions = rng.choice(np.float32([-1.0, -0.5, 0.5, 1.0]), (6, 4))
    actions[0, :2], actions[0, 2:] = 1.0, -1.0
    one, other = far.step(actions), near.step(actions)
    assert data_equivalence(one, other, exact=True)
    ends.add(int((one[2] | one[3]).sum()))
assert len(ends) > 2, ends
first = {"reset_mask": np.arange(6) == 0}
assert data_equivalence(far.reset(options=first), near.reset(options=first), exact=True)
try:
    far.step(np.zeros((5, 4)))
except ValueError as error:
    assert "(6, 4)" in str(error)
far.close()
ray.shutdown()
print("equal", flush=True)
"""


@pytest.mark.long
@pytest.mark.process
def test_over_ray_the_bits_are_the_same(tmp_path: Path) -> None:
    if find_spec("ray") is None:
        pytest.skip("Ray is absent: pip install '.[ray]'")
    # Ray keeps a token in the home folder, and its sockets want a short path.
    env = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "HOME": str(tmp_path)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _OVER_RAY],
            env=env,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        if b"started" in (late.stdout or b""):
            raise
        pytest.skip("a local Ray did not start within 240 s here")
    assert done.stdout.split() == ["started", "equal"], done.stderr[-2000:]


def test_the_training_example_runs(tmp_path: Path) -> None:
    if find_spec("stable_baselines3") is None:
        pytest.skip("Stable-Baselines3 is absent: pip install '.[train]'")
    script = ROOT / "examples" / "learning" / "train_hover.py"
    command = [sys.executable, str(script), str(tmp_path), "--steps", "1", "--threads", "1"]
    env = os.environ | {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.search(
        r"\d+ of 100 episodes with unseen seeds end within 0.2 m of the goal", done.stdout
    )
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {"policy.zip", "normalisation.pkl", "curve.csv", "learning_curve.png"}


def test_what_stable_baselines_is_told() -> None:
    if find_spec("stable_baselines3") is None:
        pytest.skip("Stable-Baselines3 is absent: pip install '.[train]'")
    from vil_simulation.learning.stable import StableVecEnv

    with pytest.raises(ValueError, match="SameStep"):
        StableVecEnv(TaskVectorEnv(2))
    inner = TaskVectorEnv(3, autoreset_mode="SameStep", time_limit_s=0.4)
    env = StableVecEnv(TaskVectorEnv(3, autoreset_mode="SameStep", time_limit_s=0.4), seed=6)
    assert (env.reset() == inner.reset(seed=6)[0]).all()
    actions = np.zeros((3, 4), np.float32)
    actions[0] = (1.0, -1.0, -1.0, 1.0)
    returns, told = np.zeros(3), []
    for _ in range(20):
        observations, rewards, done, infos = env.step(actions)
        expected = inner.step(actions)
        np.testing.assert_array_equal(observations, expected[0])
        np.testing.assert_array_equal(done, expected[2] | expected[3])
        assert rewards.dtype == np.float32
        returns[~done] += expected[1][~done]
        told += [(index, infos[index], expected) for index in np.flatnonzero(done)]
    crash = next(info for index, info, _ in told if index == 0)
    assert not crash["TimeLimit.truncated"]
    _, timed, expected = next(each for each in told if each[0] == 2)
    assert timed["TimeLimit.truncated"]
    assert (timed["terminal_observation"] == expected[4]["final_obs"][2]).all()
    assert timed["episode"]["l"] == 20
    assert timed["episode"]["r"] == pytest.approx(returns[2] + expected[1][2])
    assert timed["episode"]["distance_m"] == expected[4]["final_info"]["distance_m"][2]
    assert env.seed(9) == [9, 10, 11]
    assert (env.reset() == inner.reset(seed=9)[0]).all()
    assert env.env_is_wrapped(gymnasium.Wrapper) == [False] * 3
    env.close()
