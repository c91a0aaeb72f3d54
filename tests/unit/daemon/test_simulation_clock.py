"""Pace of a simulation: what was reached lately, and what is offered.

The machine's clock is the test's.
"""

from __future__ import annotations

import time

import pytest

from vil_bridge.config.simulation import SimulationConfig
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.daemon import simulation_clock
from vil_bridge.daemon.simulation_clock import SimulationClock

_LOOK_NS = 250 * NS_PER_MS


class Machine:
    """A computer that has run for a day, and whose clock moves on request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.t_ns = 86_400 * NS_PER_S
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.t_ns)
        monkeypatch.setattr(simulation_clock, "machine_ns", lambda: self.t_ns)

    def look(self, control: SimulationClock, after_ns: int = _LOOK_NS) -> tuple[float, float]:
        """Let time pass and the clock look at it.

        Returns the pace reached and the one offered from then on.
        """
        self.t_ns += after_ns
        control._check()
        return control.state().reached, control.clock.mapping.rate


async def test_the_pace_is_that_of_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    control = SimulationClock(SimulationConfig(clock="simulated", speed=4.0))
    with control.passing():
        assert [machine.look(control) for _ in range(8)] == [(4.0, 4.0)] * 8
        # Of the second of a fourfold look.
        control.clock.bound("camera", control.clock.now_ns() + _LOOK_NS)
        assert machine.look(control) == (1.0, 4.0)
        assert machine.look(control) == (0.0, 4.0)
        control.clock.unbound("camera")
        assert machine.look(control) == (4.0, 4.0)
        control.clock.bound("camera", control.clock.now_ns())
        assert machine.look(control, _LOOK_NS // 2 - 1) == (4.0, 4.0), "too short a time to judge"
        assert machine.look(control, 1) == (0.0, 4.0)


async def test_a_world_that_waits_is_offered_a_quarter_more_than_it_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    control = SimulationClock(SimulationConfig(clock="simulated", speed=4.0, wait_for_cameras=True))
    with control.passing():
        assert machine.look(control) == (4.0, 4.0), "never more than the speed"
        control.clock.bound("camera", control.clock.now_ns() + _LOOK_NS // 2)
        assert machine.look(control) == (0.5, 0.625)
        assert machine.look(control) == (0.0, 0.05), "it never stops by itself"
        control.clock.unbound("camera")
        assert machine.look(control) == (0.05, 0.0625)
        assert machine.look(control) == (0.0625, 0.078125)


async def test_what_was_reached_before_a_pace_says_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    control = SimulationClock(
        SimulationConfig(clock="simulated", speed=2.0, paused=True, wait_for_cameras=True)
    )
    with control.passing():
        assert machine.look(control, 10 * NS_PER_S) == (0.0, 0.0)
        machine.t_ns += _LOOK_NS - 1
        control.set_pace(paused=False)
        assert machine.look(control, 1) == (0.0, 2.0), "the pause is no pace"
        assert machine.look(control, _LOOK_NS - 1) == (2.0, 2.0)
        control.set_pace(speed=3.0)
        assert machine.look(control) == (3.0, 3.0)
