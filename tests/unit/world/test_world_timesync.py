"""Clock models: two-way exchanges, one-way stamps, drift, jumps."""

from __future__ import annotations

import numpy as np
import pytest

from vil_bridge.world.clock_sync import ClockModel

S = 1_000_000_000
OFFSET = 123_456_789_012_345
DRIFT = 25e-6


def foreign(t_bridge_ns: int) -> int:
    return t_bridge_ns + OFFSET + round(DRIFT * t_bridge_ns)


def exchange(model: ClockModel, rng: np.random.Generator, t_ns: int, delay_us: float = 100.0) -> None:
    """One request: each way takes ``delay_us`` and an exponential tail."""
    there, back = (round(1e3 * (delay_us + rng.exponential(0.3 * delay_us))) for _ in range(2))
    model.add_exchange(t_ns, foreign(t_ns + there), t_ns + there + back)


def test_exchanges_follow_offset_and_drift_within_the_stated_uncertainty() -> None:
    model, rng = ClockModel(), np.random.default_rng(3)
    for k in range(240):
        exchange(model, rng, k * S // 4)
    t_ns = 60 * S
    mapped = model.to_bridge(foreign(t_ns))
    assert mapped is not None
    assert abs(mapped - t_ns) < 20_000
    line = model.line
    assert line is not None
    assert (line.method, line.samples) == ("two-way", 240)
    assert abs(line.drift - DRIFT) < 3e-6
    assert abs(mapped - t_ns) <= line.uncertainty_ns < 200_000


def test_unknown_stays_unknown_and_three_exchanges_are_enough() -> None:
    model, rng = ClockModel(), np.random.default_rng(1)
    assert (model.to_bridge(5), model.line) == (None, None)
    for k in range(3):
        assert model.line is None
        exchange(model, rng, k * S)
    assert model.line is not None


def test_an_outage_keeps_the_line_and_one_exchange_narrows_it_again() -> None:
    model, rng = ClockModel(), np.random.default_rng(8)
    for k in range(240):
        exchange(model, rng, k * S // 4)
    before = model.line
    assert before is not None
    model.add_stamp(foreign(400 * S), 400 * S + 3_000_000)
    assert model.line is before
    mapped = before.to_bridge(foreign(400 * S))
    assert abs(mapped - 400 * S) <= before.uncertainty_at(400 * S) < 100_000_000
    exchange(model, rng, 400 * S)
    assert model.line is not None and model.line.method == "two-way"
    assert model.line.uncertainty_at(400 * S) < 500_000
    assert model.epoch == 0


def test_stamps_do_not_restart_what_exchanges_know_better() -> None:
    """A transit grown by 60 ms for 10 s is a backward step to stamps alone; a forward step is one to both."""
    model, rng = ClockModel(), np.random.default_rng(9)

    def second(k: int, transit_ns: int, step_ns: int = 0, *, echoes: bool = True) -> None:
        for i in range(20):
            t_ns = k * S + i * S // 20
            if echoes:
                there, back = (round(1e5 + rng.exponential(1e5)) for _ in range(2))
                model.add_exchange(t_ns, foreign(t_ns + there) + step_ns, t_ns + there + back)
            model.add_stamp(foreign(t_ns) + step_ns, t_ns + transit_ns)

    for k in range(20):
        second(k, 1_000_000)
    for k in range(20, 30):
        second(k, 61_000_000)
    assert model.epoch == 0
    assert model.line is not None and model.line.method == "two-way" and model.line.samples == 600
    for k in range(30, 33):
        second(k, 61_000_000, 200_000_000, echoes=False)
    assert model.epoch == 1
    assert model.line.method == "one-way"


def test_one_way_stamps_give_the_fastest_packet_and_survive_jitter() -> None:
    model, rng = ClockModel(), np.random.default_rng(2)
    for k in range(3000):
        t = k * S // 100
        model.add_stamp(foreign(t), t + 400_000 + round(rng.exponential(2e6)))
    assert model.line is not None
    assert model.line.method == "one-way"
    mapped = model.to_bridge(foreign(30 * S))
    assert mapped is not None
    assert 0 <= mapped - 30 * S < 600_000  # the shortest transit stays hidden in the offset


def test_exchanges_take_over_from_stamps() -> None:
    model, rng = ClockModel(), np.random.default_rng(4)
    model.add_stamp(foreign(0), 5_000_000)
    assert model.to_bridge(foreign(S)) == pytest.approx(S + 5_000_000, abs=100_000)
    for k in range(4):
        exchange(model, rng, S + k * S // 4)
    model.add_stamp(foreign(2 * S), 2 * S + 5_000_000)
    assert model.to_bridge(foreign(2 * S)) == pytest.approx(2 * S, abs=100_000)


def test_a_stepped_clock_restarts_the_fit_once() -> None:
    model, rng = ClockModel(), np.random.default_rng(5)
    for k in range(40):
        exchange(model, rng, k * S // 4)
    for k in range(40, 60):
        t = k * S // 4
        model.add_exchange(t, foreign(t + 100_000) + 7 * S, t + 200_000)
    assert model.epoch == 1
    assert model.to_bridge(foreign(15 * S) + 7 * S) == pytest.approx(15 * S, abs=200_000)


def test_an_answer_before_its_question_is_no_exchange() -> None:
    model, rng = ClockModel(), np.random.default_rng(7)
    for k in range(4):
        t = k * S
        model.add_exchange(t, foreign(t), t - 1)
    assert model.line is None
    for k in range(10, 14):
        exchange(model, rng, k * S)
    before = model.line
    model.add_exchange(15 * S, foreign(15 * S), 15 * S - 1)
    assert model.line is before is not None


def test_a_single_slow_exchange_changes_little() -> None:
    model, rng = ClockModel(), np.random.default_rng(6)
    for k in range(100):
        exchange(model, rng, k * S // 4)
    before = model.to_bridge(foreign(26 * S))
    model.add_exchange(25 * S, foreign(25 * S + 50_000_000), 25 * S + 50_100_000)
    after = model.to_bridge(foreign(26 * S))
    assert before is not None
    assert after is not None
    assert abs(after - before) < 10_000
    assert model.epoch == 0
