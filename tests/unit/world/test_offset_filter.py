"""The filter of offset and drift: its updates against integrals, its times, its suspects."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

import vil_bridge.client
from vil_bridge.client import ClockSync
from vil_bridge.world.clock_sync import ClockModel
from vil_bridge.world.offset_filter import OffsetFilter

MS = 1_000_000
S = 1_000_000_000


def test_the_client_has_the_same_filter_letter_by_letter() -> None:
    assert inspect.getsource(vil_bridge.client.OffsetFilter) == inspect.getsource(OffsetFilter)


def test_client_and_bridge_state_the_same_of_the_same_exchanges() -> None:
    """Both ask; the client's offset is its own clock minus the other's, the bridge's the other way round."""
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
            assert line.uncertainty_ns == pytest.approx(sync.uncertainty_ns(line.t_ref_ns), abs=near_ns)
    assert (model.epoch, sync.epoch) == (1, 1)


def moments(log_density: np.ndarray, x: np.ndarray) -> tuple[float, float, float]:
    """Log of the integral, mean and variance of an unnormalised density on an even grid."""
    top = log_density.max()
    weight = np.exp(log_density - top)
    step = x[1] - x[0]
    mean = (weight @ x) / weight.sum()
    return top + math.log(weight.sum() * step), mean, (weight @ (x - mean) ** 2) / weight.sum()


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("edge", "soft", "wait"),
    [(0.3, 0.2, 0.7), (-1.5, 0.2, 0.7), (4.0, 0.5, 2.0), (1.0, 0.05, 0.02)],
    ids=["near", "excluded", "far", "no wait"],
)
def test_a_bound_updates_to_the_exact_moments(sign: float, edge: float, soft: float, wait: float) -> None:
    """A normal offset of variance 1 and a drift that goes with it; the unit is 1 ms."""
    offset = 0.4 * MS
    state = [offset, 2e-6, 1.0 * MS**2, 3e-6 * MS, 5e-11]
    log = OffsetFilter()._bound(state, sign, edge * MS, soft * MS, wait * MS)

    x = np.linspace(-8.0, 8.0, 4001)
    queue = np.linspace(0.0, 60.0 * wait, 4001)
    prior = np.exp(-0.5 * (x - 0.4) ** 2) / math.sqrt(2 * math.pi)
    noise = (edge - sign * x[:, None] - queue) / soft
    density = np.exp(-0.5 * noise**2 - queue / wait) / (math.sqrt(2 * math.pi) * soft * wait)
    likelihood = np.trapezoid(density, queue, axis=1)
    with np.errstate(divide="ignore"):
        integral, mean, variance = moments(np.log(prior * likelihood), x)
    assert state[0] / MS == pytest.approx(mean, abs=2e-3)
    assert state[2] / MS**2 == pytest.approx(variance, rel=5e-3)
    assert log + math.log(MS) == pytest.approx(integral, abs=5e-3)
    gain = 3e-6 / MS  # of the drift by the offset, by the covariance before
    assert state[1] - 2e-6 == pytest.approx(gain * (state[0] - offset), rel=1e-9)
    lost = 1.0 * MS**2 - state[2]
    assert 3e-6 * MS - state[3] == pytest.approx(gain * lost, rel=1e-6)
    assert 5e-11 - state[4] == pytest.approx(gain * gain * lost, rel=1e-5)


def test_the_far_tail_goes_on_where_the_near_one_ends() -> None:
    """Offsets known to a second, bounds to 20 us: the series of the normal tail against the next branch."""
    near, far = ([0.0, 0.0, s * s, 0.0, 1e-10] for s in (24.9 * 5e3, 25.1 * 5e3))
    logs = [OffsetFilter()._bound(state, 1.0, 0.0, 20.0, 0.0) for state in (near, far)]
    assert logs[0] == pytest.approx(logs[1], abs=0.02)
    assert near[0] == pytest.approx(far[0], rel=0.02)
    assert near[2] == pytest.approx(far[2], rel=0.02)
    wide = [0.0, 0.0, float(S) ** 2, 0.0, 1e-10]
    OffsetFilter()._bound(wide, 1.0, 3e5, 20e3, 1e5)
    assert wide[0] == pytest.approx(3e5 - 1e5, abs=2e3)  # the prior says nothing: the edge less the mean wait
    assert wide[2] ** 0.5 == pytest.approx((1e5**2 + 20e3**2) ** 0.5, rel=0.02)


def known(states: list[list[float]], weights: list[float]) -> OffsetFilter:
    found = OffsetFilter()
    found._states, found._weights = states, weights
    return found


def test_time_spreads_each_hypothesis_by_its_own_noise() -> None:
    """All three say the same, so that mixing changes nothing: the plain equations of a Kalman filter."""
    c00, c01, c11, dt = 4e8, 3.0, 1e-10, 0.5
    found = known([[5.0, 3e-5, c00, c01, c11] for _ in range(3)], [0.5, 0.3, 0.2])
    found._predict(round(dt * S))
    F = np.array([[1.0, dt * S], [0.0, 1.0]])
    for state, (drift_noise, offset_noise) in zip(found._states, ((1e-7, 0.0), (2e-4, 0.0), (1e-7, 1e6)), strict=True):
        q = drift_noise**2
        Q = np.array([[q * dt**3 / 3 * S**2 + offset_noise**2 * dt, q * dt**2 / 2 * S], [q * dt**2 / 2 * S, q * dt]])
        P = F @ np.array([[c00, c01], [c01, c11]]) @ F.T + Q
        assert state[:2] == pytest.approx([5.0 + 3e-5 * dt * S, 3e-5])
        assert state[2:] == pytest.approx([P[0, 0], P[0, 1], P[1, 1]])
    assert found.t_ref_ns == dt * S


def test_hypotheses_follow_on_each_other_and_mix() -> None:
    states = [[0.0, 0.0, 1.0, 0.0, 1e-12], [40.0, 2e-5, 9.0, 0.0, 1e-12], [-30.0, -1e-5, 4.0, 0.0, 1e-12]]
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


def exchanges(found: OffsetFilter, count: int, *, offset_ns: int = 0, start: int = 0, drift: float = 0.0) -> None:
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
    """Of 960 round trips, twice an exponential wait above 0.2 ms, the estimate of the floor is closer than the best."""
    errors = []
    for seed in range(40):
        found = OffsetFilter()
        for there, back in np.random.default_rng(seed).exponential(1e6, (960, 2)).tolist():
            found._learn(200_000 + round(there + back), 0.0, 0.0) if found._states else found.add(0, 0, 10**7)
        base_ns, soft_ns = found._path(10**9)
        errors.append(base_ns - 200_000)
        assert base_ns < found.best_rtt_ns
        assert soft_ns == pytest.approx(20e3 + 0.5 * (found.best_rtt_ns - base_ns + found.best_rtt_ns / 960))
    assert abs(np.mean(errors)) < 15_000
    assert found._path(150_000)[0] < 150_000, "a new best counts at once"
