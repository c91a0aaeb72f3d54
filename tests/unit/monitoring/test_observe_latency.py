"""The latency recorder against NumPy."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.common import PATIENCE_S
from vil_bridge.monitoring.latency import StageHistogram

S = 1_000_000_000


def test_an_empty_stage_says_that_it_knows_nothing() -> None:
    view = StageHistogram().view(5 * S)
    assert view.last_10_s.count == view.since_start.count == 0
    assert view.last_10_s.p50_ms is None and view.since_start.max_ms is None
    assert view.histogram.counts[-1] == 0


@given(st.lists(st.integers(0, 200_000_000), min_size=1, max_size=300))
def test_percentiles_of_the_window_are_exact_and_of_the_run_within_a_sixteenth(
    values_ns: list[int],
) -> None:
    stage = StageHistogram()
    for value_ns in values_ns:
        stage.record(value_ns, S)
    view = stage.view(2 * S)
    expected_ms = np.percentile(values_ns, (50, 95, 99), method="inverted_cdf") / 1e6
    recent, total = view.last_10_s, view.since_start
    assert recent.count == total.count == len(values_ns)
    assert [recent.p50_ms, recent.p95_ms, recent.p99_ms] == pytest.approx(expected_ms, abs=1e-12)
    assert recent.max_ms == total.max_ms == max(values_ns) / 1e6
    for got, expected in zip((total.p50_ms, total.p95_ms, total.p99_ms), expected_ms, strict=True):
        assert got is not None
        assert expected <= got + 1e-12 and got <= expected * 17 / 16 + 1e-6


def test_the_window_forgets_and_the_run_does_not() -> None:
    stage = StageHistogram()
    stage.record(50_000_000, 1 * S)
    stage.record(2_000_000, 8 * S)
    view = stage.view(12 * S)
    assert (view.last_10_s.count, view.last_10_s.max_ms) == (1, 2.0)
    assert (view.since_start.count, view.since_start.max_ms) == (2, 50.0)
    assert stage.view(30 * S).last_10_s.p50_ms is None


def test_the_ring_keeps_the_newest() -> None:
    stage = StageHistogram()
    for index in range(10_000):
        stage.record(index, S + index)
    view = stage.view(2 * S)
    assert view.last_10_s.count == 4096
    assert view.last_10_s.p50_ms == pytest.approx((10_000 - 2049) / 1e6)
    assert view.since_start.count == 10_000


def test_the_histogram_is_cumulative_with_exact_octaves() -> None:
    stage = StageHistogram()
    values_ns = [0, (1 << 16) - 1, 1 << 16, (1 << 20) - 1, 1 << 20, 60 * S, -5]
    for value_ns in values_ns:
        stage.record(value_ns, S)
    histogram = stage.view(S).histogram
    assert histogram.edges_s[-1] == float("inf")
    clamped = np.maximum(values_ns, 0)
    for edge_s, count in zip(histogram.edges_s, histogram.counts, strict=True):
        assert count == np.count_nonzero(clamped < edge_s * 1e9), edge_s
    assert histogram.sum_s == pytest.approx(clamped.sum() / 1e9)


def test_absurd_values_stay_in_bounds() -> None:
    stage = StageHistogram()
    stage.record(1 << 62, S)
    assert stage.view(S).since_start.max_ms == pytest.approx(((1 << 40) - 1) / 1e6)


def test_reading_while_another_thread_writes() -> None:
    stage = StageHistogram()
    go_on = threading.Event()
    go_on.set()

    def write() -> None:
        index = 0
        while go_on.is_set():
            stage.record(1_000_000 + index % 7, S)
            index += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        counts = [stage.view(S).since_start.count for _ in range(200)]
    finally:
        go_on.clear()
        writer.join(PATIENCE_S)
    assert counts == sorted(counts) and counts[-1] > 0
