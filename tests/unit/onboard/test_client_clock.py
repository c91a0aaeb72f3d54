"""The client's clock mapping against simulated links whose truth is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vil_bridge.client import ClockSync

S = 1_000_000_000


def exchanges(
    sync: ClockSync,
    seconds: float,
    *,
    offset_ns: int = 5 * S,
    drift: float = 25e-6,
    delay_ns: Callable[[np.random.Generator], float],
    seed: int = 1,
    start_s: float = 0.0,
) -> Callable[[int], int]:
    """Five exchanges a second; returns the true vehicle time of a bridge time."""
    rng = np.random.default_rng(seed)

    def vehicle(t_bridge_ns: float) -> int:
        return round(t_bridge_ns * (1 + drift)) + offset_ns

    for i in range(int(5 * seconds)):
        t0 = start_s * S + i * S / 5
        t2 = t0 + delay_ns(rng)
        t3 = t2 + 20_000
        t4 = t3 + delay_ns(rng)
        sync.add(vehicle(t0), round(t2), round(t3), vehicle(t4))
    return vehicle


def test_one_exchange_is_enough_to_begin_with() -> None:
    sync = ClockSync()
    sync.add(1000, 501_000, 502_000, 3000)  # vehicle minus bridge = -499 500 ns
    assert len(sync) == 1
    assert sync.to_vehicle_ns(1_000_000) == 500_500
    assert sync.to_bridge_ns(500_500) == 1_000_000
    assert sync.uncertainty_ns(3000) >= 500  # half the round trip of 1 us, at least


@pytest.mark.parametrize(
    ("delay_ns", "limit_us"),
    [
        (lambda rng: 100e3 + rng.exponential(50e3), 15),  # wired
        (lambda rng: 800e3 + rng.exponential(700e3), 120),  # good Wi-Fi
        # With spikes.
        (lambda rng: 1e6 + rng.exponential(500e3) + 30e6 * (rng.random() < 0.2), 200),
    ],
)
def test_a_drifting_clock_is_followed_within_the_stated_uncertainty(
    delay_ns: Callable[[np.random.Generator], float], limit_us: float
) -> None:
    errors_us = []
    for seed in range(5):
        sync = ClockSync()
        vehicle = exchanges(sync, 60, delay_ns=delay_ns, seed=seed)
        for ahead_s in (0.0, 0.5):
            t_ns = round((60 + ahead_s) * S)
            error_ns = abs(sync.to_vehicle_ns(t_ns) - vehicle(t_ns))
            assert error_ns <= sync.uncertainty_ns(vehicle(t_ns))
            errors_us.append(error_ns / 1e3)
    assert np.median(errors_us) < limit_us


def test_both_directions_agree() -> None:
    sync = ClockSync()
    exchanges(sync, 60, delay_ns=lambda rng: rng.exponential(100e3), drift=400e-6)
    for t_ns in (55 * S, 60 * S, 61 * S):
        assert abs(sync.to_bridge_ns(sync.to_vehicle_ns(t_ns)) - t_ns) <= 5


def test_a_lopsided_path_stays_within_half_the_round_trip() -> None:
    sync = ClockSync()
    for i in range(100):
        t0 = i * S // 5
        sync.add(t0, t0 + 4_000_000, t0 + 4_000_000, t0 + 4_100_000)
    assert abs(sync.to_vehicle_ns(20 * S) - 20 * S) <= sync.uncertainty_ns(20 * S)
    assert sync.uncertainty_ns(20 * S) < 2_200_000


def test_a_jump_of_the_clock_starts_over_after_three_exchanges_and_a_spike_does_not() -> None:
    sync = ClockSync()
    exchanges(sync, 10, delay_ns=lambda rng: 100e3 + rng.exponential(20e3))
    spike = round(10.1 * S)
    sync.add(spike + 5 * S, spike + 90_000_000, spike + 90_000_000, spike + 5 * S + 180_000_000)
    assert sync.epoch == 0
    vehicle = exchanges(
        sync, 2, offset_ns=9 * S, delay_ns=lambda rng: 100e3 + rng.exponential(20e3), start_s=10.2
    )
    assert sync.epoch == 1
    assert abs(sync.to_vehicle_ns(12 * S) - vehicle(12 * S)) < 100_000


def test_impossible_exchanges_are_ignored_and_memory_is_bounded() -> None:
    sync = ClockSync()
    sync.add(100, 0, 1000, 200)  # the bridge would have taken longer than the whole exchange
    sync.add(100, 0, 0, 50)  # answered before asked
    assert len(sync) == 0
    for i in range(1500):
        sync.add(i * S, i * S + 500, i * S + 500, i * S + 1000 + i % 7)
    assert len(sync) == 1500
    assert len(sync._filter._window) == len(sync._filter._ranked) == 960
    assert sync._filter._ranked == sorted(sync._filter._window)
