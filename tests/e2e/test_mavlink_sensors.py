"""The sensors of a simulated vehicle on a real socket, read by pymavlink."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import numpy as np
import pytest
from pymavlink.dialects.v20 import common as reference

from tests.support.events import until
from tests.support.mavlink_out import UdpAutopilot
from tests.support.sensor_flight import SensorFlight
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.sensor_readings import SensorDescription, SensorReadings
from vil_bridge.core.types import ActorKind
from vil_bridge.interfaces.ports import Output
from vil_bridge.outputs.mavlink.config import MavlinkSensorsConfig
from vil_bridge.registry import create
from vil_bridge.runtime.supervisor import ComponentState
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

pytestmark = pytest.mark.wire


def sensors_output(actor: str, peer_port: int) -> Output:
    config = MavlinkSensorsConfig(actors=(actor,), port=0, peer_port=peer_port)
    output = create("outputs", "fc", config)
    assert isinstance(output, Output)
    return output


async def measure(flight: SensorFlight, autopilot: UdpAutopilot, count: int) -> None:
    """One reading of each sensor, and the ``count``-th of a beam; returns when that has arrived."""
    flight.measure()
    beams, t_ns = np.array([[0.2, 30.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 1.0 + count]]), now_ns()
    flight.world.ingest(SensorReadings("sim", "down", "distance", t_ns, t_ns, ("quad",), beams))
    await until(lambda: len(autopilot.of("DISTANCE_SENSOR")) == count)


async def test_every_reading_goes_out_with_its_time_and_each_value_once() -> None:
    flight = SensorFlight()
    with UdpAutopilot() as autopilot:
        output = sensors_output("drone", autopilot.port)
        task = asyncio.create_task(output.run(flight.world))
        try:
            await until(lambda: autopilot.of("HEARTBEAT"))
            for count in range(1, 6):
                await measure(flight, autopilot, count)
            await until(
                lambda: len(autopilot.of("HIL_SENSOR")) == 5 and len(autopilot.of("HIL_GPS")) == 5
            )
            autopilot.send(reference.MAVLink_timesync_message(0, 987654321))
            await until(lambda: autopilot.of("TIMESYNC"))
            assert output.status.state is ComponentState.RUNNING
        finally:
            task.cancel()
            await asyncio.wait((task,))
            output.close()
    inertial = autopilot.of("HIL_SENSOR")
    assert [m.time_usec for m in inertial] == [t_ns // 1000 for t_ns in flight.rows["imu2"]]
    assert all(b.time_usec > a.time_usec for a, b in pairwise(inertial))
    # Its reading comes first; the others' of the same turn go with the next one.
    assert [m.fields_updated for m in inertial] == [0x3F, *[0x3F | 0x1C0 | 0x1A00] * 4]
    assert (inertial[0].zacc, inertial[0].yacc, inertial[0].ygyro) == pytest.approx(
        (-9.81, 0.4, 0.2)
    )
    assert (inertial[1].abs_pressure, inertial[1].zmag) == pytest.approx((998.0, 0.5))
    for message, row in zip(autopilot.of("HIL_GPS"), flight.rows["gps"].values(), strict=True):
        assert message.lat == round(row[0] * 1e7)
        # Along the room's axes, as its place moves.
        assert (message.vn, message.ve, message.vd) == (200, 100, -300)
    assert [m.current_distance for m in autopilot.of("DISTANCE_SENSOR")] == [
        200,
        300,
        400,
        500,
        600,
    ]
    (answer,) = autopilot.of("TIMESYNC")
    assert (answer.ts1, answer.tc1 > 0) == (987654321, True)
    assert output.status.counters["unsent_readings"] == 5  # rotors


async def test_values_go_out_once_and_beams_of_two_sensors_have_ids_of_their_own() -> None:
    sensors = {"imu": SensorDescription("imu"), "baro": SensorDescription("barometer")}
    sensors |= {name: SensorDescription("distance") for name in ("down", "ahead")}
    world = World(
        {"sim": Transform.identity()},
        [Actor("drone", ActorKind.VEHICLE, "sim", "quad", sensors=sensors)],
    )

    def measure(name: str, *row: float) -> None:
        t_ns = now_ns()
        world.ingest(
            SensorReadings("sim", name, sensors[name].kind, t_ns, t_ns, ("quad",), np.array([row]))
        )

    with UdpAutopilot() as autopilot:
        output = sensors_output("drone", autopilot.port)
        task = asyncio.create_task(output.run(world))
        try:
            await until(lambda: autopilot.of("HEARTBEAT"))
            measure("baro", 100.0, 98_000.0, 1013.25)
            for _ in range(3):
                measure("imu", 0.0, 0.0, 0.0, 1.0, *[0.0] * 5, 9.81)
            for name in ("down", "ahead"):
                measure(name, 0.2, 30.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 2.0, 1.0, 0.0, 0.0, 3.0)
            await until(
                lambda: (
                    len(autopilot.of("DISTANCE_SENSOR")) == 4
                    and len(autopilot.of("HIL_SENSOR")) == 3
                )
            )
        finally:
            task.cancel()
            await asyncio.wait((task,))
            output.close()
    assert [m.fields_updated for m in autopilot.of("HIL_SENSOR")] == [0x3F | 0x1A00, 0x3F, 0x3F]
    assert [m.id for m in autopilot.of("DISTANCE_SENSOR")] == [0, 1, 64, 65]


async def test_a_vehicle_without_an_inertial_sensor_is_refused() -> None:
    flight = SensorFlight()
    output = sensors_output("bare", 9)
    with pytest.raises(SinkError, match=r"bare has no inertial sensor\. Add one with type imu"):
        await output.run(flight.world)
    output.close()
