"""Learn to hover from any attitude with PPO, and draw the learning curve.

    pip install '.[train]'          # several GB: torch
    python examples/learning/train_hover.py out/hover

Writes policy.zip and normalisation.pkl (Stable-Baselines3's own files), curve.csv and
learning_curve.png, and prints how many of 100 episodes with seeds of their own end within 0.2 m of
the goal.
"""

from __future__ import annotations

import argparse
import csv
import time
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecNormalize

import vil_simulation.learning  # registers the environments  # noqa: F401
from vil_simulation.learning.evaluate import Episodes, fly_once
from vil_simulation.learning.stable import StableVecEnv

VEHICLES = 256
STEPS_PER_ROLLOUT = 64
GOAL_M = 0.2
EPISODES = 100
WATCHED_SEED, FINAL_SEED = 1_000_000, 2_000_000  # training has 0 to 255


@dataclass
class Row:
    """One point of the learning curve."""

    wall_s: float
    cpu_s: float
    steps: int
    mean_return: float
    within_goal: int
    median_m: float


class Curve(BaseCallback):
    """Flies 100 episodes after every tenth roll-out; ends the training when time is up."""

    def __init__(self, normalised: VecNormalize, limit_s: float) -> None:
        super().__init__()
        self.normalised = normalised
        self.limit_s = limit_s
        self.rows: list[Row] = []
        self.begun_s, self.begun_cpu_s = time.monotonic(), time.process_time()
        self.rollouts = 0

    def _on_step(self) -> bool:
        return time.monotonic() - self.begun_s < self.limit_s

    def _on_rollout_end(self) -> None:
        self.rollouts += 1
        if self.rollouts % 10 == 0:
            self.look()

    def look(self) -> None:
        """Add a row."""
        episodes = evaluate(self.model, self.normalised, WATCHED_SEED)
        near = within_goal(episodes)
        wall_s, cpu_s = time.monotonic() - self.begun_s, time.process_time() - self.begun_cpu_s
        median_m = float(np.median(episodes.final["distance_m"]))
        row = Row(wall_s, cpu_s, self.num_timesteps, float(episodes.returns.mean()), near, median_m)
        self.rows.append(row)
        there = f"return {row.mean_return:6.2f}, {near:3d} of {EPISODES} there"
        print(f"{wall_s:4.0f} s, {row.steps:8d} steps: {there}", flush=True)  # noqa: T201


def evaluate(model: PPO, normalised: VecNormalize, seed: int) -> Episodes:
    """Fly 100 episodes with the policy's mean actions."""
    env = gymnasium.make_vec(
        "vil/Hover-v0", EPISODES, vectorization_mode="vector_entry_point", autoreset_mode="SameStep"
    )

    def policy(observations: np.ndarray) -> np.ndarray:
        return model.predict(normalised.normalize_obs(observations), deterministic=True)[0]

    return fly_once(env, policy, seed)


def within_goal(episodes: Episodes) -> int:
    """Episodes that ended in time and near the goal."""
    return int((~episodes.terminated & (episodes.final["distance_m"] <= GOAL_M)).sum())


def draw(rows: list[Row], path: Path) -> None:
    """Draw the learning curve: how many arrive, and how near they come."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    seconds = [row.cpu_s for row in rows]
    axes.plot(
        seconds,
        [row.within_goal for row in rows],
        color="#1f5fa8",
        label="within 0.2 m after 5 s, of 100",
    )
    axes.axhline(95, color="#1f5fa8", linewidth=0.8, linestyle=":")
    axes.set(
        xlabel="CPU time of training, s",
        ylabel="episodes within 0.2 m",
        ylim=(0, 102),
        xlim=(0, seconds[-1]),
    )
    right = axes.twinx()
    right.semilogy(seconds, [row.median_m for row in rows], color="#c0561c")
    right.set_ylabel("median distance at the end, m", color="#c0561c")
    axes.yaxis.label.set_color("#1f5fa8")
    axes.set_title(
        f"vil/Hover-v0, PPO, {rows[-1].steps / 1e6:.1f} M steps, {rows[-1].wall_s:.0f} s"
    )
    figure.savefig(path, dpi=110)


def main() -> None:
    """Train, evaluate, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=float, default=3e6)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(given.threads)
    env = gymnasium.make_vec(
        "vil/Hover-v0", VEHICLES, vectorization_mode="vector_entry_point", autoreset_mode="SameStep"
    )
    normalised = VecNormalize(StableVecEnv(env, given.seed), norm_reward=False)
    model = PPO(
        "MlpPolicy",
        normalised,
        n_steps=STEPS_PER_ROLLOUT,
        batch_size=4096,
        n_epochs=5,
        learning_rate=lambda left: 1e-3 * max(left, 0.0) + 1e-5,
        policy_kwargs={"net_arch": [64, 64], "log_std_init": -0.7},
        seed=given.seed,
        device="cpu",
    )
    curve = Curve(normalised, 60.0 * given.minutes)
    model.learn(int(given.steps), callback=curve)
    curve.look()
    normalised.training = False
    final = evaluate(model, normalised, FINAL_SEED)
    print(  # noqa: T201
        f"{within_goal(final)} of {EPISODES} episodes with unseen seeds end within "
        f"{GOAL_M} m of the goal"
    )
    model.save(given.folder / "policy.zip")
    normalised.save(str(given.folder / "normalisation.pkl"))
    with (given.folder / "curve.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [[field.name for field in fields(Row)], *map(astuple, curve.rows)]
        )
    draw(curve.rows, given.folder / "learning_curve.png")


if __name__ == "__main__":
    main()
