"""Routes of simulated vehicles over the bus, without a server."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI

from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.web.routes.vehicles import vehicles_router
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.simulation import Simulation


async def test_the_newest_readings_of_a_vehicle_are_served() -> None:
    sensors = {kind: {"type": kind} for kind in ("imu", "barometer", "magnetometer", "controls")}
    vehicle = {"model": "car", "sensors": sensors | {"slow": {"type": "gps", "preset": "airsim"}}}
    config = SimulatedConfig.model_validate({"type": "simulated", "vehicles": {"drone": vehicle}})
    handler = CommandHandler("sim", config, lambda _order: True)
    handler.begin(1_000)
    for batch in Simulation(config).advance(240):
        handler.update(batch, batch.states())
    bus = VehicleCommandBus()
    app = FastAPI()
    app.include_router(vehicles_router(bus))
    with bus.serving("sim", handler.subjects, handler):
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://bridge"
        ) as web:
            answer = (await web.get("/api/v1/vehicles/drone/sensors")).json()
            state = (await web.get("/api/v1/vehicles/drone")).json()
            unknown = await web.get("/api/v1/vehicles/dron/sensors")
    assert answer["gps"] == {}  # it starts after a second
    assert state["sensors"]["slow"] == "gps"
    assert answer["imu"]["imu"]["t_ns"] == 250_001_000 - 2_500_000, "the middle of its period"
    assert answer["imu"]["imu"]["q_world_body"] == pytest.approx([0.0, 0.0, 0.0, 1.0])
    assert answer["barometer"]["barometer"]["pressure_pa"] == pytest.approx(99_860.0, abs=20.0)
    assert answer["controls"]["controls"] == {
        "t_ns": 250_001_000,
        "mode": "speed",
        "values": [0.0, 0.0],
    }
    assert len(answer["magnetometer"]["magnetometer"]["b_body_t"]) == 3
    assert (unknown.status_code, "known: drone" in unknown.json()["detail"]) == (404, True)
