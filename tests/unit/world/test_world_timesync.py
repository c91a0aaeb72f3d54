"""Clock models: two-way exchanges, one-way stamps, drift, jumps."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import SourceFrame
from vil_bridge.kernel import library
from vil_bridge.world.clock_sync import ClockModel
from vil_bridge.world.compiled_clock import CompiledClock
from vil_bridge.world.world import World

S = 1_000_000_000
MS = 1_000_000
OFFSET = 123_456_789_012_345
DRIFT = 25e-6


def foreign(t_bridge_ns: int) -> int:
    return t_bridge_ns + OFFSET + round(DRIFT * t_bridge_ns)


def exchange(
    model: ClockModel, rng: np.random.Generator, t_ns: int, delay_us: float = 100.0
) -> None:
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
    """A transit grown by 60 ms for 10 s is a backward step to stamps alone.

    A forward step is one to both.
    """
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


@pytest.mark.parametrize("pause_s", [0, 30])
def test_the_window_ends_after_30_seconds(pause_s: int) -> None:
    """Packets take 1 ms until 39 s and 6 ms later.

    The fastest ones count for 30 s and then no more, all at once.
    """
    model = ClockModel()
    errors_ns = []
    for k in (*range(40), *range(40 + pause_s, 71)):
        model.add_stamp(k * S + OFFSET - (1 if k < 40 else 6) * MS, k * S)
        # The packet that arrived then had been sent 1 ms before.
        mapped = model.to_bridge(39 * S + OFFSET)
        assert mapped is not None
        errors_ns.append(mapped - 39 * S)
    assert max(errors_ns[39:-1]) <= MS + 1000, "no line lies below a packet of its window"
    assert errors_ns[-1] == 6 * MS


@pytest.mark.parametrize(
    "clock",
    [
        ClockModel,
        pytest.param(
            CompiledClock,
            marks=pytest.mark.skipif(
                library.KERNEL is None, reason=f"no compiled kernel: {library.ABSENT}"
            ),
        ),
    ],
)
def test_a_slow_clock_is_followed_each_second(clock: type[ClockModel]) -> None:
    """It loses 50 ppm, each packet takes 1 ms.

    The line, made again each second, is off by 50 ppm of 0.99 s at most.
    """
    world = World({"room": Transform.identity()}, [])
    mapped_ns: list[int] = []
    world.clocks = defaultdict(clock)
    world.watch(mapped_ns.append)
    nothing = np.zeros((0, 3)), np.zeros((0, 4)), np.zeros(0, dtype=np.bool_)
    sent_ns = range(1000 * S, 1010 * S, 10 * MS)
    for number, t_ns in enumerate(sent_ns):
        lost_ns = 500 * number
        world.ingest(SourceFrame("room", number, t_ns + OFFSET - lost_ns, t_ns + MS, (), *nothing))
    errors_ns = np.array(mapped_ns) - np.array(sent_ns) - MS
    assert np.abs(errors_ns).max() == 49_500  # in the first second, since no drift is known yet
    assert np.abs(errors_ns[-500:]).max() < 5_000


@pytest.mark.parametrize(
    ("stamps", "steps"),
    [
        ([(0, -1000)], 0),
        ([(0, -1000), (10, -1000)], 0),
        ([(0, -1000), (10, -1000), (20, 1), (30, -1000), (40, -1000)], 0),
        ([(0, -1000), (10, -1000), (20, -1000)], 1),
        ([(i * 10, 200) for i in range(300)], 0),
        ([(i * 10, 200) for i in range(302)], 1),
        ([(i * 10, 1 if i == 200 else 200) for i in range(400)], 0),
        ([(i * 250, 200) for i in range(19)], 0),
        ([(i * 250, 200) for i in range(20)], 1),
    ],
    ids=[
        "one from the future",
        "two from the future",
        "two and two",
        "three in a row",
        "late for three seconds",
        "late for more than three seconds",
        "one of them in time",
        "nineteen late ones in 4.5 seconds",
        "twenty",
    ],
)
def test_no_single_stamp_steps_a_clock(stamps: list[tuple[int, int]], steps: int) -> None:
    """Stamps by their arrival and their seeming transit, both in ms; the usual one is 1 ms."""
    model = ClockModel()
    for t_ms in range(0, 5000, 10):
        model.add_stamp(t_ms * MS + OFFSET, t_ms * MS + MS)
    line = model.line
    for t_ms, transit_ms in stamps:
        arrival_ns = (5000 + t_ms) * MS
        model.add_stamp(arrival_ns - transit_ms * MS + OFFSET, arrival_ns)
    assert model.epoch == steps
    assert line is not None and model.line is not None
    jump_ms = (model.line.offset_at(10 * S) - line.offset_at(10 * S)) / MS
    assert jump_ms == pytest.approx(steps * (1 - stamps[-1][1]), abs=0.1)


@pytest.mark.parametrize(
    ("gain_ms", "pause_s", "steps"),
    [(0.0, 0, 0), (0.9, 0, 0), (2.0, 0, 1), (10.0, 400, 0), (100.0, 400, 1)],
    ids=[
        "a shorter way",
        "less than a millisecond",
        "a step",
        "25 ppm for 400 s",
        "a step behind a pause",
    ],
)
def test_stamps_step_a_clock_that_exchanges_know_only_beyond_what_is_known(
    gain_ms: float, pause_s: int, steps: int
) -> None:
    """Exchanges are exact.

    Stamps take 3 ms, then 0.1 ms: three of these come from the future of the stamps alone.
    """
    model = ClockModel()
    for k in range(320):
        t_ns = k * S // 16
        model.add_exchange(t_ns, t_ns + 100_000 + OFFSET, t_ns + 200_000)
        model.add_stamp(t_ns + OFFSET, t_ns + 3 * MS)
    for k in range(3):
        t_ns = (20 + pause_s) * S + k * 10 * MS
        model.add_stamp(t_ns + round(gain_ms * MS) + OFFSET, t_ns + 100_000)
    assert model.epoch == steps
    assert model.line is not None and model.line.method == ("one-way" if steps else "two-way")
