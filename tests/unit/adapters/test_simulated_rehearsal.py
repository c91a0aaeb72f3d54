"""Code that a simulation needs is compiled before it starts.

A world that compiles in flight stands for seconds.
"""

from __future__ import annotations

import sys

import pytest

from tests.support.programs import output

pytestmark = pytest.mark.process

PROGRAM = """
import sys
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.hosts import ready_simulation

def compiled():
    from numba.core.dispatcher import Dispatcher
    ours = [module for name,
        module in list(sys.modules.items()) if name.startswith("vil_simulation.vehicles")]
    found = {id(one): one for module in ours for one in vars(module).values() if isinstance(one,
        Dispatcher)}
    return sum(len(one.signatures) for one in found.values())

sensors = {kind: {"type": kind} for kind in ("imu", "barometer", "magnetometer", "gps")}
vehicle = {"model": "airsim", "p_m": [0, 0, 1], "sensors": sensors, "contact": {"floor_m": 0}}
config = SimulatedConfig.model_validate({"type": "simulated", "vehicles": {"drone": vehicle}})
simulation = ready_simulation(config)
before = compiled()
batches = simulation.advance(4 * config.step_hz)
measured = {values.sensor for batch in batches for values in batch.sensors}
print(before, compiled(), len(measured))
"""


def test_nothing_compiles_once_a_simulation_is_ready() -> None:
    """Sensors measure seldom, and some start late.

    A few steps before the start do not reach them.
    """
    pytest.importorskip("numba")
    before, after, measured = map(
        int, output(sys.executable, "-c", PROGRAM, limit_s=300.0).split()[-3:]
    )
    assert before == after > 10
    assert measured == 4
