"""The filter of offset and drift: its updates against integrals, its times, its suspects."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

import vil_bridge.client
from vil_bridge.client import ClockSync
from vil_bridge.core.types import FloatArray
from vil_bridge.world.clock_sync import ClockModel
from vil_bridge.world.offset_filter import OffsetFilter

MS = 1_000_000
S = 1_000_000_000


def test_the_client_has_the_same_filter_letter_by_letter() -> None:
    assert inspect.getsource(vil_bridge.client.OffsetFilter) == inspect.getsource(OffsetFilter)


def test_client_and_bridge_state_the_same_of_the_same_exchanges() -> None:
    """Both ask.

    The client's offset is its own clock minus the other's, the bridge's the other way round.
    """
    model, sync, rng = ClockModel(), ClockSync(), np.random.default_rng(8)
    for k in range(600):
        sent_ns = k * 60 * MS
        there, back = (100_000 + round(v) for v in rng.exponential(1e6, 2))
        foreign_ns = round((sent_ns + there) * (1 + 4e-5)) + 7 * S + (5 * S if k > 400 else 0)
        received_ns = sent_ns + there + back
        model.add_exchange(sent_ns, foreign_ns, received_ns)
        sync.add(sent_ns, foreign_ns, foreign_ns, received_ns)
        line = model.line
        if line is not None and k != 401 and k != 402:  # the line of before while suspects gather
            # Each accounts its own way out first, and the moments depend on the order a little.
            near_ns = 10_000 if line.samples > 30 else 100_000
            assert abs(line.offset_at(received_ns) + sync.offset_ns(received_ns)) <= near_ns
            assert line.uncertainty_ns == pytest.approx(
                sync.uncertainty_ns(line.t_ref_ns), abs=near_ns
            )
    assert (model.epoch, sync.epoch) == (1, 1)


def density(gap: FloatArray, soft: float, wait: float) -> FloatArray:
    """Of an exponential wait plus normal noise, by integration; shape of ``gap``."""
    queue = np.linspace(0.0, 40.0 * wait, 4001)
    noise = (gap[:, None] - queue) / soft
    return np.trapezoid(np.exp(-0.5 * noise**2 - queue / wait), queue, axis=1) / (
        math.sqrt(2 * math.pi) * soft * wait
    )


@pytest.mark.parametrize(
    ("low", "high", "soft", "waits", "near"),
    [
        (-30.0, 0.3, 0.2, (4.0, 4.0), 2e-3),
        (-0.3, 30.0, 0.2, (4.0, 4.0), 2e-3),
        (-30.0, -1.5, 0.3, (4.0, 9.0), 2e-3),
        (-30.0, 1.0, 0.5, (9.0, 4.0), 2e-3),
        (-1.0, 30.0, 0.5, (9.0, 4.0), 2e-3),
        (-0.5, 1.5, 0.2, (0.7, 1.1), 0.1),
        (-0.8, 0.4, 0.4, (1.1, 0.7), 0.1),
    ],
)
def test_both_ways_update_to_the_moments_of_their_density(
    low: float, high: float, soft: float, waits: tuple[float, float], near: float
) -> None:
    """Two hypotheses about an offset, and drifts that go with it; the unit is 1 ms.

    Where one bound cuts, the moments are exact; where both do, one after the other comes close and
    claims less.
    """
    x = np.linspace(-8.0, 8.0, 1001)
    means = (0.4, -0.2, 0.0)
    found = known(
        [[mean * MS, 2e-6, 1.0 * MS**2, 3e-6 * MS, 5e-11] for mean in means], [0.5, 0.3, 0.2]
    )
    found._waits_ns = [wait * MS for wait in waits]
    found._update(low * MS, high * MS, soft * MS)
    likelihood = density(high - x, soft, waits[0]) * density(x - low, soft, waits[1])
    evidence = []
    for mean, state in zip(means, found._states, strict=True):
        posterior = np.exp(-0.5 * (x - mean) ** 2) * likelihood
        evidence.append(posterior.sum())
        offset = (posterior @ x) / posterior.sum()
        variance = (posterior @ (x - offset) ** 2) / posterior.sum()
        assert state[0] / MS == pytest.approx(offset, abs=near)
        if near < 0.01:
            assert state[2] / MS**2 == pytest.approx(variance, rel=0.005)
        assert 0.99 * variance <= state[2] / MS**2 <= 1.6 * variance
        # Of the drift by the offset, by the covariance before.
        gain, lost = 3e-6 / MS, 1.0 * MS**2 - state[2]
        assert state[1] - 2e-6 == pytest.approx(gain * (state[0] - mean * MS), rel=1e-6)
        assert 3e-6 * MS - state[3] == pytest.approx(gain * lost, rel=1e-6)
        assert 5e-11 - state[4] == pytest.approx(gain * gain * lost, rel=1e-5)
    weights = np.array([0.5, 0.3, 0.2]) * evidence
    assert found._weights == pytest.approx(weights / weights.sum(), rel=max(0.01, near))


def test_a_round_trip_far_beyond_the_usual_speaks_for_neither_way() -> None:
    """Waits were 10 and 50 us; one of 8 ms leaves the offset anywhere between the bounds."""
    found = known([[0.0, 0.0, float(MS) ** 2 * 100, 0.0, 1e-10] for _ in range(3)], [0.5, 0.3, 0.2])
    found._waits_ns = [1e4, 5e4]
    found._update(-4.0 * MS, 4.0 * MS, 20e3)
    for state in found._states:
        # Of 8; the second cut is of what the first left.
        assert state[0] == pytest.approx(0.0, abs=1.0 * MS)
        assert 8.0 / 12**0.5 <= state[2] ** 0.5 / MS <= 4.0


def test_the_far_tail_goes_on_where_the_near_one_ends() -> None:
    near, far = ([0.0, 0.0, 1.0, 0.0, 0.0] for _ in range(2))
    logs = [OffsetFilter()._cut(near, 1.0, -24.99, 0.0), OffsetFilter()._cut(far, 1.0, -25.01, 0.0)]
    assert logs[0] - logs[1] == pytest.approx(25.0 * 0.02, rel=0.01)  # the slope of the tail
    assert near[0] - far[0] == pytest.approx(0.02, abs=1e-4)
    assert near[2] == pytest.approx(far[2], rel=0.02)
    wide = [0.0, 0.0, float(S) ** 2, 0.0, 1e-10]
    OffsetFilter()._cut(wide, 1.0, -40.0 * S, 20e3)
    assert wide[0] == pytest.approx(-40.0 * S - S / 40.0, rel=1e-4)
    assert wide[2] ** 0.5 == pytest.approx(S / 40.0, rel=0.01)


def known(states: list[list[float]], weights: list[float]) -> OffsetFilter:
    found = OffsetFilter()
    found._states, found._weights = states, weights
    return found


def test_time_spreads_each_hypothesis_by_its_own_noise() -> None:
    """All three say the same, so that mixing changes nothing.

    The plain equations of a Kalman filter.
    """
    c00, c01, c11, dt = 4e8, 3.0, 1e-10, 0.5
    found = known([[5.0, 3e-5, c00, c01, c11] for _ in range(3)], [0.5, 0.3, 0.2])
    found._predict(round(dt * S))
    F = np.array([[1.0, dt * S], [0.0, 1.0]])
    for state, (drift_noise, offset_noise) in zip(
        found._states, ((1e-7, 0.0), (2e-4, 0.0), (1e-7, 1e6)), strict=True
    ):
        q = drift_noise**2
        Q = np.array(
            [
                [q * dt**3 / 3 * S**2 + offset_noise**2 * dt, q * dt**2 / 2 * S],
                [q * dt**2 / 2 * S, q * dt],
            ]
        )
        P = F @ np.array([[c00, c01], [c01, c11]]) @ F.T + Q
        assert state[:2] == pytest.approx([5.0 + 3e-5 * dt * S, 3e-5])
        assert state[2:] == pytest.approx([P[0, 0], P[0, 1], P[1, 1]])
    assert found.t_ref_ns == dt * S


def test_hypotheses_follow_on_each_other_and_mix() -> None:
    states = [
        [0.0, 0.0, 1.0, 0.0, 1e-12],
        [40.0, 2e-5, 9.0, 0.0, 1e-12],
        [-30.0, -1e-5, 4.0, 0.0, 1e-12],
    ]
    found = known(states, [0.6, 0.3, 0.1])
    found._predict(2 * S)
    out = [1.0 - math.exp(-2.0 / stay_s) for stay_s in (50.0, 2.0, 0.5)]
    flows = [
        [0.6 * (1 - out[0]), 0.3 * out[1], 0.1 * out[2]],
        [0.3 * out[0], 0.3 * (1 - out[1]), 0.0],
        [0.3 * out[0], 0.0, 0.1 * (1 - out[2])],
    ]
    assert found._weights == pytest.approx([sum(flow) for flow in flows])
    for flow, state in zip(flows, found._states, strict=True):
        share = np.array(flow) / sum(flow)
        assert state[1] == pytest.approx(share @ [0.0, 2e-5, -1e-5])
        assert state[0] == pytest.approx(share @ [0.0, 40.0, -30.0] + 2 * S * state[1])


def test_the_mixture_has_the_mean_and_the_covariance_of_all() -> None:
    rng, weights = np.random.default_rng(1), [0.5, 0.3, 0.2]
    states = [[7.0, 2.0, 3.0, 0.5, 1.0], [-4.0, 1.0, 2.0, -0.3, 2.0], [1.0, -3.0, 1.0, 0.2, 0.5]]
    drawn = np.concatenate(
        [
            rng.multivariate_normal(s[:2], [[s[2], s[3]], [s[3], s[4]]], round(w * 400_000))
            for w, s in zip(weights, states, strict=True)
        ]
    )
    offset, drift, c00, c01, c11 = known(states, weights)._merged(weights)
    assert [offset, drift] == pytest.approx(drawn.mean(0), abs=0.03)
    assert [c00, c01, c11] == pytest.approx(np.cov(drawn.T)[[0, 0, 1], [0, 1, 1]], abs=0.1)


def exchanges(
    found: OffsetFilter, count: int, *, offset_ns: int = 0, start: int = 0, drift: float = 0.0
) -> None:
    """Sixteen a second over a wire: 0.2 ms and a little, both ways alike."""
    rng = np.random.default_rng(start + 1)
    for k in range(start, start + count):
        t_ns = k * S // 16
        true_ns = offset_ns + round(drift * t_ns)
        there, back = (100_000 + round(v) for v in rng.exponential(3e4, 2))
        found.add(t_ns, true_ns - there, true_ns + back)


def test_one_exchange_is_the_middle_of_its_bounds() -> None:
    found = OffsetFilter()
    assert (found.best_rtt_ns, found.offset_at(5), found.uncertainty_at(5)) == (0, 0, 0)
    assert found.add(1000, 500, 900)
    assert (found.count, found.best_rtt_ns) == (1, 400)
    assert abs(found.offset_at(1000) - 700) <= 1
    assert not found.add(2000, 900, 899), "answered before asked"
    assert found.count == 1


def test_drift_is_learnt_with_its_sign_and_extrapolated() -> None:
    for drift in (3e-5, -3e-5):
        found = OffsetFilter()
        exchanges(found, 480, drift=drift)
        assert found.drift == pytest.approx(drift, abs=2e-6)
        later_ns = 35 * S
        assert found.offset_at(later_ns) == pytest.approx(drift * later_ns, abs=60_000)
        assert abs(found.offset_at(later_ns) - drift * later_ns) < found.uncertainty_at(later_ns)
        now_ns = found.t_ref_ns
        assert found.uncertainty_at(now_ns) < 0.5 * found.best_rtt_ns + 30_000
        assert found.uncertainty_at(now_ns + 60 * S) > found.uncertainty_at(now_ns) + MS // 2


def test_an_overtaken_exchange_is_moved_along_the_drift() -> None:
    found = OffsetFilter()
    exchanges(found, 480, drift=4e-4)
    before_ns = found.t_ref_ns
    late_ns = before_ns - 3 * S  # 1.2 ms of drift ago
    assert found.add(late_ns, round(4e-4 * late_ns) - 110_000, round(4e-4 * late_ns) + 110_000)
    assert found.t_ref_ns == before_ns
    assert found.offset_at(before_ns) == pytest.approx(4e-4 * before_ns, abs=20_000)
    assert not found._suspects


def test_three_in_agreement_start_over_and_keep_drift_and_path() -> None:
    found = OffsetFilter()
    exchanges(found, 960, drift=4e-5)
    best, drift = found.best_rtt_ns, found.drift
    exchanges(found, 2, offset_ns=50 * MS, start=960, drift=4e-5)
    assert (found.epoch, len(found._suspects)) == (0, 2)
    assert found.offset_at(60 * S) == pytest.approx(4e-5 * 60 * S, abs=50_000), "the line goes on"
    exchanges(found, 1, offset_ns=50 * MS, start=962, drift=4e-5)
    assert (found.epoch, found.count, found.best_rtt_ns) == (1, 3, best)
    assert found.drift == pytest.approx(drift, abs=1e-6)
    assert found.drift == pytest.approx(4e-5, abs=5e-6)
    assert found.offset_at(60 * S) == pytest.approx(50 * MS + 4e-5 * 60 * S, abs=200_000)


def test_an_exchange_of_before_absolves_and_those_that_differ_prove_nothing() -> None:
    found = OffsetFilter()
    exchanges(found, 960)
    for k in range(2):
        exchanges(found, 1, offset_ns=50 * MS, start=960 + k)
    exchanges(found, 1, start=962)
    assert not found._suspects
    for k in range(6):
        exchanges(found, 1, offset_ns=(50 + 10 * k) * MS, start=963 + k)
    assert found.epoch == 0
    assert len(found._suspects) == 1, "each excludes the one before"
    t_ns = found.t_ref_ns + S // 16
    found.add(t_ns, -50_000, 400 * MS)  # fits the clock of before and the suspect's
    assert len(found._suspects) == 1


def test_the_path_is_less_than_its_best_round_trip() -> None:
    """Of 960 round trips, twice an exponential wait above 0.2 ms, the estimate of the floor is
    closer than the best.
    """
    errors = []
    for seed in range(40):
        found = OffsetFilter()
        for there, back in np.random.default_rng(seed).exponential(1e6, (960, 2)).tolist():
            found._learn(200_000 + round(there + back), 0.0, 0.0) if found._states else found.add(
                0, 0, 10**7
            )
        base_ns, soft_ns = found._path(10**9)
        errors.append(base_ns - 200_000)
        assert base_ns < found.best_rtt_ns
        assert soft_ns == pytest.approx(
            20e3 + 0.5 * (found.best_rtt_ns - base_ns + found.best_rtt_ns / 960)
        )
    assert abs(np.mean(errors)) < 15_000
    assert found._path(150_000)[0] < 150_000, "a new best counts at once"


@pytest.mark.parametrize("count", [6, 8, 16, 40])
def test_few_exchanges_with_waits_on_one_way_claim_no_more_than_they_know(count: int) -> None:
    """Answers wait a millisecond as a mean, requests do not.

    Of 200 runs no error may exceed what is claimed.
    """
    for seed in range(200):
        found, t_ns = OffsetFilter(), 0
        for there, back in np.random.default_rng(seed).exponential((2e4, 1e6), (count, 2)).tolist():
            found.add(t_ns, -50_000 - round(there), 50_000 + round(back))
            t_ns += S // 50
        assert abs(found.offset_at(t_ns)) <= found.uncertainty_at(t_ns) < 2 * MS


@pytest.mark.parametrize("mean_ms", [0.1, 1, 5])
def test_waits_of_first_exchanges_are_no_steps(mean_ms: float) -> None:
    """Each way waits by an exponential law, as on a busy computer.

    Of 300 starts none finds a step that is none.
    """
    for seed in range(300):
        found, t_ns = OffsetFilter(), 0
        for there, back in np.random.default_rng(seed).exponential(mean_ms * MS, (40, 2)).tolist():
            found.add(t_ns, -50_000 - round(there), 50_000 + round(back))
            t_ns += S // 16
        assert (found.epoch, found._suspects[2:]) == (0, [])
        for k in range(5):
            found.add(t_ns + k * S // 16, 100 * MS - 50_000, 100 * MS + 50_000)
        assert found.epoch == 1


def test_a_step_is_found_among_the_first_exchanges_where_bounds_exclude_it() -> None:
    for step_ns, epoch in ((20 * MS, 1), (-20 * MS, 1), (MS // 2, 0)):
        found = OffsetFilter()
        exchanges(found, 4)
        for k in range(4, 8):
            t_ns = k * S // 16
            found.add(t_ns, step_ns - MS // 2, step_ns + MS // 2)
        assert found.epoch == epoch


def test_the_first_exchange_may_be_off_by_half_its_round_trip() -> None:
    found = OffsetFilter()
    found._start(1000, 200, 900)
    assert (found.t_ref_ns, found.offset_ns) == (1000, 550)
    assert found._states == [[0.0, 0.0, 350.0**2, 0.0, 50e-6**2]] * 3


def test_suspects_agree_within_what_a_clock_may_drift() -> None:
    found = OffsetFilter()
    assert found._agree((0, 0, 10), (0, 9, 20), 0.0)
    assert found._agree((0, 0, 10), (0, 15, 20), 5.0)
    assert not found._agree((0, 0, 10), (0, 16, 20), 5.0)
    assert found._agree((S, 0, 10), (0, MS + 10, 2 * MS), 0.0), "a millisecond in a second"
    assert not found._agree((0, 0, 10), (S, MS + 11, 2 * MS), 0.0)


def test_an_exchange_is_suspect_beyond_five_deviations_of_state_and_bound() -> None:
    for excess, suspects in ((4.9, 0), (5.1, 1)):
        found = OffsetFilter()
        exchanges(found, 480)
        found._predict(found.t_ref_ns)
        base_ns, soft_ns = found._path(300_000)
        reach = max(s[0] + excess * (s[2] + soft_ns**2) ** 0.5 for s in found._states)
        low_ns = found.offset_ns + round(reach - 0.5 * base_ns)
        found.add(found.t_ref_ns, low_ns, low_ns + 300_000)
        assert len(found._suspects) == suspects


def test_a_step_may_come_with_another_path() -> None:
    """Of the three answers after it each waited 8 to 12 ms on its way out.

    The sum of what is stated covers that.
    """
    for seed in range(20):
        found = OffsetFilter()
        exchanges(found, 30)
        rng = np.random.default_rng(seed)
        for k in range(30, 36):
            t_ns, there = k * S // 16, round(rng.uniform(8e6, 12e6))
            found.add(t_ns, 30 * S - there, 30 * S + 100_000)
            if found.epoch:
                assert abs(found.offset_at(t_ns) - 30 * S) <= found.uncertainty_at(t_ns) <= 14 * MS
        assert found.epoch == 1 and found.best_rtt_ns < MS
        for k in range(36, 40):
            exchanges(found, 1, offset_ns=30 * S, start=k)
        assert found.uncertainty_at(found.t_ref_ns) < MS
