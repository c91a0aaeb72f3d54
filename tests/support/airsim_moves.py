"""Simulated vehicles of AirSim that fly moves, without clocks and threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.vehicle_moves import Move, TurnRateMove
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import MoveOrder, PlaceOrder, VehicleBatch, VehicleOrder
from vil_simulation.source.simulation import Simulation

_LONGEST_S = 120.0
_SETTLING_S = 4.0


@dataclass
class Flown:
    """End of a move, how long it took, and the states (n, 13) on the way."""

    reached: bool
    problem: str
    took_s: float
    track: FloatArray

    @property
    def end_m(self) -> FloatArray:
        """The position at the end."""
        place: FloatArray = self.track[-1, :3]
        return place


@dataclass
class Aviary:
    """One vehicle: it stands at the start, its motors off, and obeys moves."""

    vehicle: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    batches: list[VehicleBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        entry = {
            "model": "airsim",
            "autopilot": {"kind": "none"},
            "p_m": [0.0, 0.0, 0.0],
            **self.vehicle,
        }
        config = {"type": "simulated", "vehicles": {"drone": entry}, **self.source}
        self.simulation = Simulation(SimulatedConfig.model_validate(config))
        self.moves = 0

    @property
    def state(self) -> FloatArray:
        """Position, velocity, attitude, rates now, (13,)."""
        row: FloatArray = self.simulation.batch().states()[0]
        return row

    def order(self, order: VehicleOrder) -> None:
        """Give an order now."""
        assert self.simulation.order(order)

    def hover_at(self, height_m: float) -> None:
        """Lift the vehicle to a height above its start, where its flight controller holds it."""
        x, y, z, *_ = self.state.tolist()
        qx, qy, qz, qw = self.state[6:10].tolist()
        still = (0.0, 0.0, 0.0)
        self.order(PlaceOrder(0, (x, y, z + height_m), (qx, qy, qz, qw), still, still))
        self.start(TurnRateMove(0.0, _SETTLING_S))
        self.advance(_SETTLING_S - 0.02)

    def start(self, move: Move) -> int:
        """Start a move; return its number."""
        self.moves += 1
        self.order(MoveOrder(0, self.moves, move))
        return self.moves

    def advance(self, seconds: float) -> list[VehicleBatch]:
        """Let simulated time pass."""
        found = self.simulation.advance(
            self.simulation.steps + round(seconds / self.simulation.dt_s)
        )
        self.batches += found
        return found

    def fly(self, move: Move, longest_s: float = _LONGEST_S) -> Flown:
        """Fly a move to its end."""
        return self.wait_for(self.start(move), longest_s)

    def wait_for(self, number: int, longest_s: float = _LONGEST_S) -> Flown:
        """Let time pass until a move ends."""
        began, track = self.simulation.steps, []
        pending = [self.simulation.batch(pose=False)]
        while True:
            for batch in pending:
                track.append(batch.states()[0])
                for end in batch.ends:
                    if end.number == number:
                        took_s = float((batch.steps - began) * self.simulation.dt_s)
                        return Flown(end.reached, end.problem, took_s, np.array(track))
            assert self.simulation.steps - began < longest_s / self.simulation.dt_s, (
                "the move does not end"
            )
            pending = self.advance(0.02)


def in_air(height_m: float = 2.0, *, floor: bool = False, **vehicle: Any) -> Aviary:
    """Return a vehicle that hovers at a height, in steps of 3 ms as AirSim.

    Without a floor many are made at once.
    """
    contact = {} if floor else {"floor_m": None}
    place = {"p_m": [0.0, 0.0, height_m], "autopilot": {"kind": "hover"}, "contact": contact}
    made = Aviary({**place, **vehicle}, {"rate_hz": 50.0, "control_hz": 50, "step_hz": 320})
    made.advance(0.5)
    return made
