"""Flights with known truth for the race clock: laps of an oval, and random flight next to a gate.

Poses of a mocap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.config.course import load_course
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.courses.course import ClockStart, Course, CourseGate, RaceRules

Path = Callable[[FloatArray], FloatArray]
"""Positions (n, 3) at times (n,)."""

_CLEAR_M: Final = 0.08


def oval(clock: ClockStart = "first_gate", laps: int = 3) -> Course:
    return replace(load_course("oval"), laps=laps, rules=RaceRules(clock))


def lap_path(seed: int, pace: float = 1.0) -> Path:
    """Laps of the oval at 4 to 11 m/s times ``pace``, with up to 10 m/s^2 times its square, off
    the gates' centres.
    """
    rng = np.random.default_rng(seed)
    rate = rng.uniform(0.6, 0.8)
    swing, phase = rng.uniform(0.1, 0.25), rng.uniform(0.0, 6.0, 4)

    def path(t_s: FloatArray) -> FloatArray:
        t_s = pace * t_s
        angle = -2.0 + rate * t_s + swing * np.sin(0.9 * t_s + phase[0])
        x, y, z = 12.0 * np.cos(angle), 6.0 * np.sin(angle), 2.0 + 0.5 * np.sin(2.0 * angle)
        off = 0.25 * np.sin(np.array([1.7, 2.3, 3.1])[:, None] * t_s + phase[1:, None])
        return np.stack((x, y, z), axis=1) + off.T

    return path


def gate_course(margin_m: float) -> Course:
    """One tilted gate of 1.2 x 1 m that is flown for ever."""
    gate = CourseGate(
        "Gate1",
        Transform.of((1.0, -2.0, 2.0), q_from_euler_zyx(0.6, 0.2, -0.1)),
        1.2,
        1.0,
        margin_m,
    )
    return Course(
        "gate",
        (gate,),
        Transform.identity(),
        laps=10**6,
        rules=RaceRules("signal", collision="ignore"),
    )


def near_gate(seed: int, course: Course) -> Path:
    """Random flight around a gate, through it and past it, at up to 8 m/s."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.7, 4.0, (3, 6))
    phases = rng.uniform(0.0, 2.0 * np.pi, (3, 6))
    sizes = np.array([0.8, 0.35, 0.3])[:, None] * rng.uniform(0.3, 1.0, (3, 6))
    pose = course.gates[0].T_world_gate

    def path(t_s: FloatArray) -> FloatArray:
        own = (sizes[:, :, None] * np.sin(rates[:, :, None] * t_s + phases[:, :, None])).sum(axis=1)
        return pose.apply(own.T)

    return path


def crossing_times(
    path: Path, course: Course, gate: int, duration_s: float
) -> tuple[FloatArray, FloatArray]:
    """Return times at which a path crosses a gate's plane forwards, (k,), and positions in the
    gate's axes, (k, 3).
    """
    axes, centre = course.axes[gate], course.centres_m[gate]

    def height(t_s: FloatArray) -> FloatArray:
        distances: FloatArray = (path(t_s) - centre) @ axes[:, 0]
        return distances

    grid = np.arange(0.0, duration_s, 1e-3)
    heights = np.concatenate(
        [height(part) for part in np.array_split(grid, 1 + len(grid) // 200_000)]
    )
    at = np.flatnonzero((heights[:-1] < 0.0) & (heights[1:] >= 0.0))
    low, high = grid[at], grid[at + 1]
    for _ in range(30):
        middle = 0.5 * (low + high)
        before = height(middle) < 0.0
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    return low, (path(low) - centre) @ axes


def is_clear(path: Path, course: Course, t_s: FloatArray) -> BoolArray:
    """Return whether the flight comes from 8 cm before the gate's plane to 8 cm behind it at
    crossings (k,).
    """
    axes, centre = course.axes[0], course.centres_m[0]
    steps = np.arange(1, 400) * 2.5e-3

    def leaves(distances: FloatArray) -> bool:
        """Return whether distances reach 8 cm before they come back to 0."""
        far = np.flatnonzero(distances > _CLEAR_M)
        return bool(len(far)) and bool((distances[: far[0]] > 0.0).all())

    heights = (
        (path(t + sign * steps) - centre) @ axes[:, 0] * sign for t in t_s for sign in (1.0, -1.0)
    )
    sides = np.array([leaves(one) for one in heights]).reshape(-1, 2)
    return np.asarray(sides[:, 0] & sides[:, 1])


def poses(
    path: Path,
    duration_s: float,
    rate_hz: float,
    seed: int,
    *,
    noise_m: float = 5e-4,
    gaps_per_s: float = 0.0,
    gaps_at_s: FloatArray | None = None,
    v_noise_mps: float | None = None,
) -> Iterator[tuple[int, FloatArray, FloatArray | None]]:
    """Yield time, position and velocity (None without ``v_noise_mps``) as a mocap measures them,
    with gaps of 0.1 s.
    """
    rng = np.random.default_rng(seed)
    t_s: FloatArray = np.arange(rng.uniform(0.0, 1.0 / rate_hz), duration_s, 1.0 / rate_hz)
    gaps = rng.uniform(0.0, duration_s, rng.poisson(gaps_per_s * duration_s))
    gaps = np.sort(
        gaps if gaps_at_s is None else gaps_at_s - rng.uniform(0.02, 0.08, len(gaps_at_s))
    )
    if len(gaps):
        before = gaps[np.clip(np.searchsorted(gaps, t_s, side="right") - 1, 0, None)]
        t_s = t_s[~((t_s > before) & (t_s < before + 0.1))]
    t_ns = np.round(1e9 * t_s).astype(np.int64)
    exact = path(np.asarray(1e-9 * t_ns, np.float64))
    measured = exact + rng.normal(0.0, noise_m, exact.shape)
    speeds = (path(t_s + 1e-4) - path(t_s - 1e-4)) / 2e-4
    for k, t in enumerate(t_ns.tolist()):
        v_mps = None if v_noise_mps is None else speeds[k] + rng.normal(0.0, v_noise_mps, 3)
        yield t, measured[k], v_mps
