"""Moves of a group's vehicles: each gets its turn every 20 ms of simulated time since it began."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from vil_bridge.interfaces.vehicle_moves import MoveEnd, StickPositions
from vil_simulation.source.ipc import MoveReport
from vil_simulation.vehicles.airsim.moves import FlightCommand, FlightState, MoveFlight
from vil_simulation.vehicles.airsim.path_following import PERIOD_S
from vil_simulation.vehicles.airsim.simple_flight import SimpleFlight

NEVER: Final = 1 << 62


@dataclass(slots=True)
class _Running:
    """A move: its number, the step at which it began, its turns so far, the step of its next
    one.
    """

    number: int
    flight: MoveFlight
    began: int
    turns: int
    due: int


class MoveRunner:
    """Moves that are under way, by row.

    Args:
        dt_s: a step. state_of: returns the state of a row. command: gives a row its command.

    Attributes:
        ends: reports of moves that ended since the last :meth:`pop_ends`.
        due: step of the next turn of any move.
    """

    def __init__(
        self,
        dt_s: Fraction,
        state_of: Callable[[int], FlightState],
        command: Callable[[int, FlightCommand], None],
    ) -> None:
        self.ends: list[MoveReport] = []
        self.due = NEVER
        self._step_s = dt_s.as_integer_ratio()
        self._period = max(
            Fraction(PERIOD_S).limit_denominator(1000) / dt_s, Fraction(1)
        ).as_integer_ratio()
        self._state_of = state_of
        self._command = command
        self._running: dict[int, _Running] = {}
        self._sticks: dict[int, tuple[StickPositions | None, int]] = {}

    def begin(self, row: int, number: int, flight: MoveFlight | MoveEnd, step: int) -> None:
        """Start a move, whose first turn is now."""
        self.cancel(row)
        if isinstance(flight, MoveEnd):
            self._report(number, flight)
            return
        running = self._running[row] = _Running(number, flight, step, 0, step)
        self._turn(row, running, step)
        self._schedule()

    def cancel(self, row: int, problem: str = "") -> None:
        """End the move of a row, if any, short of its goal; ``problem``: that ended it."""
        running = self._running.pop(row, None)
        if running is not None:
            self._report(running.number, MoveEnd(reached=False, problem=problem))
            self._schedule()

    def set_sticks(self, row: int, sticks: StickPositions | None, until: int) -> None:
        """Set the remote control of a row, up to a step; None = it is off."""
        self._sticks[row] = sticks, until

    def set_flight(self, row: int, flight: SimpleFlight) -> None:
        """Let the move of a row, if any, go on with other gains."""
        if row in self._running:
            self._running[row].flight.flight = flight

    def runs(self, row: int) -> bool:
        """Return True while a row has a move."""
        return row in self._running

    def pop_ends(self) -> list[MoveReport]:
        """Return the reports once."""
        ends = self.ends
        self.ends = []
        return ends

    def advance(self, step: int) -> None:
        """Give every move that is due its turn."""
        if step < self.due:
            return
        for row, running in list(self._running.items()):
            if running.due <= step:
                self._turn(row, running, step)
        self._schedule()

    def _turn(self, row: int, running: _Running, step: int) -> None:
        sticks, until = self._sticks.get(row, (None, step))
        state = self._state_of(row)._replace(sticks=sticks if step <= until else None)
        times, per = self._step_s
        done = running.flight.update((step - running.began) * times / per, state)
        if isinstance(done, MoveEnd):
            del self._running[row]
            self._report(running.number, done)
            return
        if done is not None:
            self._command(row, done)
        running.turns += 1
        steps, turns = self._period
        running.due = running.began - (-running.turns * steps // turns)

    def _report(self, number: int, end: MoveEnd) -> None:
        self.ends.append(MoveReport(number, end.reached, end.problem))

    def _schedule(self) -> None:
        self.due = min((running.due for running in self._running.values()), default=NEVER)
