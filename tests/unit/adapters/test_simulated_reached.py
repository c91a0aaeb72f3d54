"""The handler knows which state is the last one up to an instant, at any rates of steps and
poses.
"""

from __future__ import annotations

import pytest

from vil_bridge.core.clock import NS_PER_S
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.simulation import Simulation

START_NS = 123_456_789


@pytest.mark.parametrize(
    ("step_hz", "rate_hz"), [(960, 200), (320, 160), (1000, 333.3), (100, 100)]
)
def test_an_instant_is_reached_with_the_last_pose_up_to_it(step_hz: int, rate_hz: float) -> None:
    rates = {"step_hz": step_hz, "rate_hz": rate_hz, "control_hz": 50}
    vehicles = {"v": {"model": "kinematic"}}
    config = SimulatedConfig.model_validate({"type": "simulated", **rates, "vehicles": vehicles})
    handler, simulation = CommandHandler("sim", config, lambda _order: True), Simulation(config)
    handler.begin(START_NS)
    goal_ns = NS_PER_S // 7
    due = simulation.step_at(goal_ns)
    batches = simulation.advance(due)
    assert len(batches) > 2
    for batch in batches:
        assert not handler.has_reached("v", START_NS + goal_ns)
        handler.update(batch, batch.states())
    assert handler.has_reached("v", START_NS + goal_ns)
    assert handler.state("v").steps == batches[-1].steps
