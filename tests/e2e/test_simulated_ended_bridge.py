"""A vehicle whose state is no longer physical.

Its source goes on, names it in log and status, and sees it no more.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from tests.support.events import receiving, until
from vil_bridge.interfaces.vehicle_commands import VehicleCommand
from vil_bridge.runtime.supervisor import ComponentState
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import PlaceOrder
from vil_simulation.source.source import SimulatedSource

pytestmark = pytest.mark.process

LOAD_S = 300.0
STILL = (0.0, 0.0, 0.0)


def two(process: bool, **keys: Any) -> SimulatedSource:
    entry: dict[str, Any] = {"model": "airsim", "autopilot": {"kind": "none"}}
    vehicles = {"one": {**entry, "p_m": [0.0, 0.0, 1.0]}, "two": {**entry, "p_m": [5.0, 0.0, 1.0]}}
    config = {
        "type": "simulated",
        "process": process,
        "step_hz": 320,
        "rate_hz": 80,
        "vehicles": vehicles,
    }
    return SimulatedSource("sim", SimulatedConfig.model_validate(config | keys))


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
async def test_one_vehicle_ends_and_the_source_flies_on(
    process: bool, caplog: pytest.LogCaptureFixture
) -> None:
    simulated = two(process)
    with caplog.at_level(logging.INFO, "vil_simulation"):
        async with receiving(simulated) as received:
            await received.more_frames(5, LOAD_S)
            # No order of a program may ask for this: it stands for whatever a model cannot follow.
            assert simulated._send(
                PlaceOrder(0, (0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0), STILL, (1e3, 1e3, -1e3))
            )
            await until(lambda: "ended" in received.status.facts, LOAD_S)
            assert (
                list(received.status.facts["ended"]) == ["one"]
                and received.status.counters["ended"] == 1
            )
            (frame,) = (await received.more_frames(1, LOAD_S))[-1:]
            assert dict(zip(frame.subjects, frame.tracked.tolist(), strict=True)) == {
                "one": False,
                "two": True,
            }
            assert np.isfinite(frame.p_m).all() and np.isfinite(frame.q_xyzw).all()
            assert received.status.state is ComponentState.RUNNING
            simulated.handler.handle("one", VehicleCommand("reset"))
            await until(lambda: not received.status.facts["ended"], LOAD_S)
            assert (await received.more_frames(2, LOAD_S))[-1].tracked.all()
    lines = [record.getMessage() for record in caplog.records]
    assert any(
        line.startswith("sim: one has ended, since its state is no longer physical (")
        for line in lines
    )
    assert "sim: one flies again after a reset" in lines


async def test_a_motion_capture_room_tracks_a_vehicle_that_has_ended_no_more() -> None:
    simulated = two(process=False, mocap={"latency_s": 0.02})
    async with receiving(simulated) as received:
        assert (await received.more_frames(5, LOAD_S))[-1].tracked.all()
        assert simulated._send(
            PlaceOrder(0, (0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0), STILL, (1e3, 1e3, -1e3))
        )
        await until(lambda: "ended" in received.status.facts, LOAD_S)
        assert (await received.more_frames(1, LOAD_S))[-1].tracked.tolist() == [False, True]
        simulated.handler.handle("one", VehicleCommand("reset"))
        await until(lambda: not received.status.facts["ended"], LOAD_S)
        assert (await received.more_frames(2, LOAD_S))[-1].tracked.all()
