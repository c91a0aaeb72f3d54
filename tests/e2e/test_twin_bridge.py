"""A twin in a whole bridge.

Its distances in the status and in the metrics, its alarm in the log.
"""

from __future__ import annotations

import logging
import re

import httpx
import pytest

from tests.support.bridge_rig import running
from tests.support.events import until
from vil_bridge.core.errors import ValueRefused
from vil_bridge.daemon.actor_commands import ActorCommands
from vil_bridge.interfaces.setpoints import PositionSetpoint

pytestmark = pytest.mark.process

CONFIG = """
version: 1
rooms: {hall: {}}
sources:
  real: {type: simulated, room: hall, vehicles: {drone: {model: flightgoggles, p_m: [0, 0, 1.5]}}}
  sim: {type: simulated, room: hall, vehicles: {twin: {model: flightgoggles, p_m: [1, 0, 1.5]}}}
actors:
  drone: {kind: vehicle, source: real, subject: drone}
  drone_sim: {kind: vehicle, source: sim, subject: twin}
twins: {pair: {vehicle: drone, twin: drone_sim, window_s: 2, alarm_m: 0.5}}
cameras: {}
require_cameras: false
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


async def test_status_metrics_and_log_have_the_alarm(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with (
            running(CONFIG) as bridge,
            httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web,
        ):
            await until(lambda: bool(bridge.readiness.findings.get("twins")), 100.0)
            status = (await web.get("/api/v1/status")).raise_for_status().json()
            pair = status["twins"]["pair"]
            metrics = (await web.get("/metrics")).raise_for_status().text
    assert (pair["vehicle"], pair["twin"], pair["alarm"], pair["episodes"]) == (
        "drone",
        "drone_sim",
        True,
        1,
    )
    assert pair["position_rms_m"] == pytest.approx(1.0, abs=0.1)
    assert pair["hausdorff_m"] == pytest.approx(1.0, abs=0.1)
    assert pair["delay_s"] is None  # both hover
    assert 'vil_twin_alarm{twin="pair"} 1.0' in metrics
    (alarm,) = [
        why for why in status["degraded_because"] if why.startswith("twin pair is in alarm")
    ]
    assert re.search(r"m rms from drone; alarm_m is 0\.5 m, and it ends below 0\.4 m\. ", alarm)
    assert sum("twin pair: drone_sim is" in record.getMessage() for record in caplog.records) == 1


async def test_a_set_point_for_the_vehicle_flies_the_twin_too() -> None:
    async with running(CONFIG) as bridge:
        vehicles = bridge.context.for_sources.vehicles
        await until(lambda: vehicles.names() == ["drone", "twin"], 100.0)
        await until(
            lambda: all(vehicles.of(name).state(name).steps > 10 for name in vehicles.names()),
            100.0,
        )
        commands = ActorCommands(bridge.context.config, vehicles)
        commands.follow("drone", "drone_sim")
        commands.fly("drone", PositionSetpoint((0.0, 0.0, 2.0), 0.0))
        await until(
            lambda: [vehicles.of(name).state(name).commands for name in vehicles.names()] == [1, 1],
            100.0,
        )
        commands.fly("drone_sim", PositionSetpoint((0.0, 0.0, 2.0), 0.0))
        await until(
            lambda: [vehicles.of(name).state(name).commands for name in vehicles.names()] == [1, 2],
            100.0,
        )
        with pytest.raises(ValueRefused, match="not a simulated vehicle"):
            commands.fly("wand", PositionSetpoint((0.0, 0.0, 2.0), 0.0))
