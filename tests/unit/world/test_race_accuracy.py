"""The race clock against the continuous truth: lap times, and passes at the edge of the margin."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import numpy as np
import pytest

from tests.support.race_flights import (
    crossing_times,
    gate_course,
    is_clear,
    lap_path,
    near_gate,
    oval,
    poses,
)
from vil_bridge.core.types import FloatArray
from vil_bridge.world.race.clock import RaceClock
from vil_bridge.world.race.events import GatePassed, LapDone, RaceEnded, RaceEvent

DURATION_S = 45.0


def flown(
    clock: RaceClock, feed: Iterable[tuple[int, FloatArray, FloatArray | None]]
) -> list[RaceEvent]:
    clock.signal(0)
    events: list[RaceEvent] = []
    for t_ns, p_m, v_mps in feed:
        events += clock.feed(t_ns, p_m, v_mps)
    return events + clock.flush()


@functools.cache
def crossings_of_laps(seed: int, pace: float) -> list[FloatArray]:
    """Return for each gate of the oval the times at which a flight passes it."""
    path = lap_path(seed, pace)
    course = oval()
    return [crossing_times(path, course, gate, DURATION_S / pace)[0] for gate in range(8)]


@pytest.mark.parametrize("v_noise_mps", [None, 0.05])
@pytest.mark.parametrize("rate_hz", [30.0, 60.0, 240.0])
@pytest.mark.parametrize("gaps", ["none", "random", "on every gate"])
def test_lap_times_are_those_of_the_continuous_truth(
    rate_hz: float, gaps: str, v_noise_mps: float | None
) -> None:
    worst = 0.0
    for seed, pace in enumerate((1.0, 1.5, 2.0)):  # up to 21 m/s and 38 m/s^2
        path, course, duration_s = lap_path(seed, pace), oval(), DURATION_S / pace
        truth = crossings_of_laps(seed, pace)
        clock = RaceClock(course, radius_m=0.1)
        on_gates = np.sort(np.concatenate(truth)) if gaps == "on every gate" else None
        rate = 1.0 if gaps == "random" else 0.0
        feed = poses(
            path,
            duration_s,
            rate_hz,
            seed,
            gaps_per_s=rate,
            gaps_at_s=on_gates,
            v_noise_mps=v_noise_mps,
        )
        events = flown(clock, feed)
        passed = [event for event in events if isinstance(event, GatePassed)]
        assert len(passed) == 25  # three laps of eight gates, and the first one again
        for event in passed:
            worst = max(worst, np.abs(truth[event.number % 8] - 1e-9 * event.t_ns).min())
        laps = [event.lap_s for event in events if isinstance(event, LapDone)]
        assert laps == pytest.approx(np.diff(truth[0])[:3], abs=2e-3 if gaps == "none" else 5e-3)
        (end,) = [event for event in events if isinstance(event, RaceEnded)]
        assert (end.outcome, end.passed) == ("finished", 25)
    assert worst < 2e-3


@pytest.mark.parametrize(
    ("rate_hz", "duration_s", "gaps_per_s"),
    [
        (30.0, 600.0, 0.5),
        pytest.param(30.0, 3600.0, 0.5, marks=pytest.mark.long),
        (240.0, 240.0, 1.0),
    ],
)
def test_passes_at_the_margin_are_found_and_misses_refused(
    rate_hz: float, duration_s: float, gaps_per_s: float
) -> None:
    """Minutes and an hour next to a gate at 30 Hz, and minutes at 240 Hz: 3 cm decide."""
    course = gate_course(margin_m=0.1)
    path = near_gate(3, course)
    clock = RaceClock(course)
    events = flown(clock, poses(path, duration_s, rate_hz, 5, gaps_per_s=gaps_per_s))
    found = np.array([1e-9 * event.t_ns for event in events if isinstance(event, GatePassed)])
    t_s, own = crossing_times(path, course, 0, duration_s - 1.0)
    t_s, own = t_s[t_s > 1.0], own[t_s > 1.0]
    clear = is_clear(path, course, t_s)
    room_m = -np.maximum(np.abs(own[:, 1]) - 0.6, np.abs(own[:, 2]) - 0.5) - 0.1
    away_s = np.abs(
        found[np.clip(np.searchsorted(found, t_s)[:, None] + [-1, 0], 0, len(found) - 1)]
        - t_s[:, None]
    )
    nearest_s = away_s.min(axis=1)
    through, past = clear & (room_m >= 0.03), clear & (room_m <= -0.03)
    assert through.sum() > duration_s / 10.0
    assert past.sum() > duration_s / 10.0
    assert (np.abs(room_m[clear]) < 0.05).sum() > duration_s / 60.0
    assert nearest_s[through].max() < 0.05
    assert nearest_s[past].min() > 0.05
