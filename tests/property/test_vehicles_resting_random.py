"""Vehicles that a floor or a scene holds.

Accelerometers show weight, steadily, and nothing moves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tests.unit.adapters.test_simulated_simulation import simulation
from vil_bridge.core.geometry import q_exp, q_rotate
from vil_bridge.core.types import FloatArray
from vil_simulation.source.simulation import Simulation

_TABLE = """
scene: table
objects:
  - {name: table, box: {size_m: [2.0, 2.0, 1.0]}, p_m: [0.0, 0.0, 0.0]}
"""
_TABLE_M, _RADIUS_M = 1.0, 0.15
_MODES = {"flightgoggles": "motor_speeds", "flightmare": "thrusts", "airsim": "rotors"}


def _standing(model: str, step_hz: int, scene: str | None, share: float) -> Simulation:
    """Return a vehicle whose rotors push with a share of its weight."""
    source: dict[str, Any] = {"step_hz": step_hz, "control_hz": 10, "rate_hz": 10}
    if scene is not None:
        source["contact"] = {"scene": scene}
    contact = {"radius_m": _RADIUS_M, "floor_m": 0.0 if scene is None else None}
    made = simulation(source, model=model, armed=False, autopilot={"kind": "none"}, contact=contact)
    fleets = made.groups[0].fleets
    fleets.switch(0, _MODES[model])
    flown = fleets.of_row(0)
    hover = {
        "flightgoggles": lambda m: np.sqrt(share) * m.parameters.hover_radps,
        "flightmare": lambda m: share * m.hover_thrust_n,
        "airsim": lambda m: share * m.airframe.hover_control(m.gravity_mps2),
    }
    flown.u[:] = hover[model](flown.model)
    return made


def _forces(made: Simulation, steps: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return specific forces, positions and rates at every step, (steps, 3) each."""
    found = []
    for _ in range(steps):
        made.advance(made.steps + 1)
        truth = made.groups[0].truth()
        found.append((truth.f_body_mps2[0], truth.p_world_m[0], truth.w_body_radps[0]))
    forces, places, rates = (np.array(column) for column in zip(*found, strict=True))
    return forces, places, rates


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scene") / "table.yaml"
    path.write_text(_TABLE)
    return path


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example(
    model="flightgoggles", step_hz=960, on_table=True, share=0.61, drop_m=0.0, tilt=(0.0, 0.25, 0.0)
)
@given(
    model=st.sampled_from(sorted(_MODES)),
    step_hz=st.sampled_from((960, 1000, 2000)),
    on_table=st.booleans(),
    share=st.floats(0.0, 0.95),
    drop_m=st.floats(0.0, 0.05),
    tilt=st.tuples(st.floats(-0.3, 0.3), st.floats(-0.3, 0.3), st.floats(-3.0, 3.0)),
)
def test_a_vehicle_at_rest_feels_its_weight_and_does_not_move(
    table: Path,
    model: str,
    step_hz: int,
    on_table: bool,
    share: float,
    drop_m: float,
    tilt: tuple[float, float, float],
) -> None:
    made = _standing(model, step_hz, str(table) if on_table else None, share)
    group = made.groups[0]
    up = q_rotate(q_exp(np.array(tilt)), np.array((0.0, 0.0, 1.0)))
    # Else it slides.
    assume(share * np.hypot(up[0], up[1]) < group.contacts.body.friction * (1.0 - share * up[2]))
    flown = group.fleets.of_row(0)
    height_m = _TABLE_M + _RADIUS_M if on_table else 0.0
    flown.place(0, p_world_m=(0.0, 0.0, height_m + drop_m), q_world_body=q_exp(np.array(tilt)))
    group.contacts.reset(0, 0)
    made.advance(step_hz)
    forces, places, rates = _forces(made, step_hz // 5)
    weight = np.array((0.0, 0.0, flown.around[0, 10]))
    for window in np.split(forces, 2):
        np.testing.assert_allclose(window.mean(axis=0), weight, atol=0.05)
    np.testing.assert_allclose(forces, np.broadcast_to(weight, forces.shape), atol=0.3)
    assert np.ptp(places, axis=0).max() < 1e-5
    assert np.abs(rates).max() < 1e-3
