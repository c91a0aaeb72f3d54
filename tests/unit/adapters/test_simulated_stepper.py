"""Steps in bridge time.

Made where something happens, and all those before an order or a standstill.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

import pytest

from vil_bridge.core.bridge_time import TimeMapping
from vil_bridge.core.clock import NS_PER_MS, machine_ns
from vil_simulation.source import simulation as steps
from vil_simulation.source import stepper
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import ArmCommand, ClockUpdate, Order, Stop
from vil_simulation.source.simulation import Simulation
from vil_simulation.source.stepper import Stepper, WakeupTimer

MS = NS_PER_MS
CONFIG = SimulatedConfig.model_validate(
    {
        "type": "simulated",
        "step_hz": 1000,
        "rate_hz": 50,
        "control_hz": 100,
        "vehicles": {"quad": {"model": "flightgoggles"}},
    }
)


def run(mapping: TimeMapping, start_ns: int, turns: Iterator[Iterable[Order]]) -> Simulation:
    """Step until the orders end it, one of their items a turn."""
    simulation, timer = Simulation(CONFIG), WakeupTimer()
    Stepper(simulation, start_ns, mapping, lambda: next(turns), lambda _batch: None, timer).run()
    timer.close()
    return simulation


def test_it_wakes_only_where_something_happens() -> None:
    turns = 0

    def orders() -> Iterator[Iterable[Order]]:
        nonlocal turns
        while True:
            turns += 1
            yield [Stop(200 * MS)] if turns == 1 else []

    start_ns = machine_ns()
    simulation = run(TimeMapping(start_ns, start_ns), start_ns, orders())
    assert simulation.steps == 200
    assert turns <= 25, "a turn for each of the autopilot's, which the poses share"


def test_all_steps_before_a_standstill_are_made() -> None:
    start_ns = machine_ns()

    def orders() -> Iterator[Iterable[Order]]:
        until_ns = machine_ns() + 50 * MS
        while machine_ns() < until_ns:
            yield []
        yield [Stop()]

    simulation = run(TimeMapping(start_ns, start_ns, 1.0, start_ns + 7 * MS), start_ns, orders())
    assert simulation.steps == 7


@pytest.mark.parametrize("changed_at", [None, 3])
def test_an_order_takes_effect_after_the_steps_before_it(changed_at: int | None) -> None:
    """The clock stands after 7 steps.

    Another order of the same turn may say that it stood after 3 already.
    """
    disarm: list[Order] = [ArmCommand(0, False)]
    if changed_at is not None:
        disarm.append(ClockUpdate(0, changed_at * MS, 0.0, None))
    simulation = run(TimeMapping(0, 7 * MS, 0.0), 0, iter([disarm, [Stop()]]))
    expected = Simulation(CONFIG)
    expected.advance(changed_at or 7)
    expected.order(ArmCommand(0, False))
    for one in (simulation, expected):
        one.advance(20)
    assert simulation.batch().bodies == expected.batch().bodies


def test_slow_steps_are_caught_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 s are due; between two looks at the clock, 6 ms pass."""
    readings = count(0, 6 * MS)
    for module in (stepper, steps):
        monkeypatch.setattr(module, "machine_ns", readings.__next__)
    simulation = run(TimeMapping(0, 10_000 * MS, 0.0), 0, iter([[], [Stop()]]))
    assert 0 < simulation.steps <= 30, "a part ends at the autopilot's next cycle, of 10 steps"
    expected = Simulation(CONFIG)
    expected.advance(simulation.steps)
    assert simulation.batch().bodies == expected.batch().bodies
