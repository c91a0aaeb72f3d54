"""The same seed gives an autopilot the same bytes, however slow the computer, and whatever
pauses it.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterable
from typing import Any, Final, get_args

import pytest

from tests.support.sitl_flights import STEP_HZ, Kind, SitlFlight
from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_simulation.source.ipc import ClockUpdate, Order

pytestmark = pytest.mark.process

_PAUSE_S: Final = float(os.environ.get("VIL_PAUSE_S", "3"))
"""Wall time of the pause in flight: a minute by hand."""
_LENGTH: Final = "--flight", "box", "--seconds", 9


def indoors(kind: Kind, seed: int = 5) -> SitlFlight:
    return SitlFlight(kind, seed=seed, gps=None, pose={"delay_ms": 20})


class SlowComputer:
    """Disturbances of a flight.

    The stand-in and the steps stop for moments, and the world pauses once, in flight.

    Attributes:
        steps: of the simulation at its begin and at its end.
    """

    def __init__(self, flight: SitlFlight, kind: Kind) -> None:
        self.steps: list[int] = []
        self._flight = flight
        self._pause_at = 7 * STEP_HZ[kind]
        self._random = random.Random(3)
        self._until_ns: int | None = None
        self._bridge_ns = 0

    def orders(self) -> Iterable[Order]:
        """Disturb, between two turns of the stepper.

        Return the orders of a pause and of its end.
        """
        simulation, now_ns = self._flight.simulation, machine_ns()
        if self._until_ns is not None and now_ns >= self._until_ns:
            self.steps.append(simulation.steps)
            self._until_ns = None
            return [ClockUpdate(now_ns, self._bridge_ns, 1000.0, None)]
        if not self.steps and simulation.steps >= self._pause_at:
            self.steps.append(simulation.steps)
            self._until_ns = now_ns + round(_PAUSE_S * NS_PER_S)
            self._bridge_ns = simulation.t_of(simulation.steps) + self._flight.start_ns
            return [ClockUpdate(now_ns, self._bridge_ns, 0.0, None)]
        if self._random.random() < 0.01:
            self._stop()
        return []

    def _stop(self) -> None:
        program = self._flight.program
        assert program is not None
        program.send_signal(signal.SIGSTOP)
        time.sleep(self._random.uniform(0.0, 0.03))
        program.send_signal(signal.SIGCONT)
        time.sleep(self._random.uniform(0.0, 0.03))


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_slow_computer_and_a_pause_change_nothing(kind: Kind) -> None:
    quick = indoors(kind).fly(*_LENGTH)
    flight = indoors(kind)
    computer = SlowComputer(flight, kind)
    slow: dict[str, Any] = flight.fly(*_LENGTH, orders=computer.orders)
    assert quick["violation"] == slow["violation"] == ""
    assert computer.steps[0] == computer.steps[1], "no step in the pause"
    assert slow["largest_gap_s"] > 0.9 * _PAUSE_S
    assert slow["received_sha256"] == quick["received_sha256"]
    assert slow.get("poses_sha256") == quick.get("poses_sha256")
    assert slow["altitude_m"] == quick["altitude_m"]
    assert slow["altitude_m"][-1][1] == pytest.approx(1.5, abs=0.1), "it flies"


def test_another_seed_is_another_flight() -> None:
    flights = [indoors("px4", seed).fly("--seconds", 1) for seed in (5, 6)]
    assert flights[0]["received_sha256"] != flights[1]["received_sha256"]
