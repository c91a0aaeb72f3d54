"""Velocities of pilots.

The vehicle takes them on without overshoot, and stops without swinging back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from vil_bridge.core.types import FloatArray
from vil_simulation.source.autopilot import Autopilot, autopilot_of
from vil_simulation.source.model_factory import ModelFactory
from vil_simulation.source.vehicle_config import Vehicle, VehicleConfig
from vil_simulation.vehicles.fleet import Fleet

PERIOD_S = 1.0 / 120.0
ROW = np.array([0])


class Rig(NamedTuple):
    """One vehicle at rest 20 m above the floor, with its autopilot."""

    autopilot: Autopilot
    fleet: Fleet

    def fly(self, seconds: float) -> FloatArray:
        """Fly on, and return velocities (n, 3) at the autopilot's steps."""
        seen = []
        for _ in range(round(seconds / PERIOD_S)):
            self.fleet.command(self.autopilot.commands(ROW, self.fleet.x, np.zeros(1)))
            self.fleet.advance(8)
            seen.append(self.fleet.x[0, 3:6].copy())
        return np.array(seen)


def rig(model: str) -> Rig:
    config = VehicleConfig(model=model, p_m=(0.0, 0.0, 20.0))
    factory = ModelFactory(config)
    autopilot = autopilot_of(factory, [Vehicle(0, "drone", config, (0.0, 0.0, 20.0))], PERIOD_S)
    assert autopilot is not None
    fleet = Fleet(factory.make(factory.steered_mode), 1)
    fleet.place(
        p_world_m=np.array([[0.0, 0.0, 20.0]]), q_world_body=np.array([[0.0, 0.0, 0.0, 1.0]])
    )
    autopilot.hold(0, fleet.x[0])
    return Rig(autopilot, fleet)


@pytest.mark.parametrize("model", ["flightgoggles", "flightmare"])
@pytest.mark.parametrize(
    "wanted_mps", [(4.0, 0.0, 0.0), (0.0, -3.0, 2.0), (0.0, 0.0, -2.0), (9.0, 0.0, 0.0)]
)
def test_a_velocity_is_taken_on_and_given_up_smoothly(
    model: str, wanted_mps: tuple[float, float, float]
) -> None:
    one, wanted, speed = rig(model), np.array(wanted_mps), float(np.linalg.norm(wanted_mps))
    one.autopilot.steer(0, "velocity", [*wanted_mps, 0.0], one.fleet.x[0])
    along = one.fly(4.0) @ wanted / speed
    assert along.max() < 1.2 * speed  # it was 1.35
    assert along[-60:] == pytest.approx(speed, abs=0.12 * speed)
    one.autopilot.steer(0, "velocity", [0.0, 0.0, 0.0, 0.0], one.fleet.x[0])
    along = one.fly(6.0) @ wanted / speed
    assert along.min() > -0.2 * speed  # it was -0.6
    assert np.abs(along[-60:]).max() < 0.06


def test_a_new_velocity_begins_from_the_one_before() -> None:
    one = rig("flightgoggles")
    for _ in range(25):  # as pilots send them, with small changes
        one.autopilot.steer(0, "velocity", [3.0, 0.0, 0.0, 0.0], one.fleet.x[0])
        one.fly(0.1)
    assert one.fleet.x[0, 3] == pytest.approx(3.0, abs=0.15)
    one.autopilot.steer(0, "velocity", [3.0, 1.0, 0.0, 0.0], one.fleet.x[0])
    assert np.abs(one.fly(2.0)[:, 0] - 3.0).max() < 0.4
