"""The pose output on real sockets and terminals; pymavlink and mavsdk read it."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pymavlink.dialects.v20 import common as reference

from tests.support.common import PATIENCE_S
from tests.support.events import until
from tests.support.mavlink import Autopilot
from tests.support.mavlink_out import (
    RADIUS_M,
    TURN_RADPS,
    Flight,
    UdpAutopilot,
    pose_output,
    telling,
)
from tests.support.programs import Program
from vil_adapters.emulation.pseudo_terminal import PseudoTerminal
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.runtime.supervisor import ComponentState
from vil_simulation.demo.child_processes import free_ports

pytestmark = pytest.mark.wire


def known_ms(messages: list[Any]) -> list[float]:
    """Return, for each message, how long before it the poses began that no gap interrupts."""
    since_us, found = 0, list[float]()
    for before, message in pairwise([messages[0], *messages]):
        if message is before or message.time_usec - before.time_usec > 250_000:
            since_us = message.time_usec
        found.append(1e-3 * (message.time_usec - since_us))
    return found


async def test_each_measurement_is_sent_once_with_its_own_time() -> None:
    flight = Flight()
    with UdpAutopilot() as autopilot:
        async with telling(flight, peer_port=autopilot.port) as output:
            await until(lambda: len(autopilot.of("ODOMETRY")) >= 40)
            await until(lambda: max(known_ms(autopilot.of("ODOMETRY"))) >= 300.0)
            assert output.status.state is ComponentState.RUNNING
        sent = autopilot.of("ODOMETRY")
        for message in sent:
            truth, _ = flight.truth(message.time_usec * 1000)
            x, y, z = truth.p_m
            np.testing.assert_allclose((message.x, message.y, message.z), (x, -y, -z), atol=1e-5)
            assert (message.frame_id, message.child_frame_id, message.estimator_type) == (20, 12, 2)
            assert (message.get_srcSystem(), message.get_srcComponent()) == (1, 197)
            assert message.time_usec * 1000 <= now_ns()
        assert all(b.time_usec > a.time_usec for a, b in pairwise(sent))
        ages_ms = known_ms(sent)
        assert [bool(np.isnan(m.vx)) for m in sent] == [ms < 100.0 for ms in ages_ms], (
            "few poses give no velocity"
        )
        known = sent[int(np.argmax(ages_ms))]
        # It flies along its nose and turns left: about "down" that is negative.
        assert (known.vx, known.vy, known.vz) == pytest.approx(
            (RADIUS_M * TURN_RADPS, 0.0, 0.0), abs=0.05
        )
        assert known.yawspeed == pytest.approx(-TURN_RADPS, abs=0.05)
        assert {m.reset_counter for m in sent} == {0}
        (heartbeat, *_) = autopilot.of("HEARTBEAT")
        assert (heartbeat.type, heartbeat.autopilot, heartbeat.system_status) == (18, 8, 4)


async def test_nothing_old_is_sent_and_a_jump_is_counted() -> None:
    flight = Flight()
    with UdpAutopilot() as autopilot:
        async with telling(flight, peer_port=autopilot.port) as output:
            await until(lambda: len(autopilot.of("ODOMETRY")) >= 5)
            flight.seen = False
            stopped_us = now_ns() // 1000
            await until(lambda: output.status.state is ComponentState.WAITING)
            assert "drone is" in output.status.report().reason
            assert max(m.time_usec for m in autopilot.of("ODOMETRY")) <= stopped_us
            before = len(autopilot.of("ODOMETRY"))
            flight.seen = True
            await until(lambda: len(autopilot.of("ODOMETRY")) >= before + 20)
            again = autopilot.of("ODOMETRY")[before:]
            assert np.isnan(again[0].vx), "a gap ends what was known of the velocity"
            assert any(not np.isnan(message.vx) for message in again)
            assert {m.reset_counter for m in again} == {0}, "the same place is no jump"
            flight.jump()
            await until(lambda: autopilot.of("ODOMETRY")[-1].reset_counter == 1)
            assert output.status.counters["jumps"] == 1
            first = next(m for m in autopilot.of("ODOMETRY") if m.reset_counter == 1)
            assert first.x == pytest.approx(
                flight.truth(first.time_usec * 1000)[0].p_m[0], abs=1e-5
            )


async def test_clock_requests_are_answered_with_the_clock_of_the_poses() -> None:
    flight = Flight()
    with UdpAutopilot() as autopilot:
        async with telling(flight, peer_port=autopilot.port):
            await until(lambda: autopilot.of("ODOMETRY"))
            before_ns, older_us = now_ns(), autopilot.of("ODOMETRY")[-1].time_usec
            autopilot.send(reference.MAVLink_timesync_message(0, 987654321))
            await until(lambda: autopilot.of("TIMESYNC"))
            (answer,) = autopilot.of("TIMESYNC")
            assert answer.ts1 == 987654321
            assert before_ns < answer.tc1 < now_ns()
            await until(lambda: autopilot.of("ODOMETRY")[-1].time_usec * 1000 > answer.tc1)
            assert older_us * 1000 < answer.tc1, "one clock"
            # Answers to others are nobody's business.
            autopilot.send(reference.MAVLink_timesync_message(5, 6))
            autopilot.send(reference.MAVLink_timesync_message(0, 7))
            await until(lambda: len(autopilot.of("TIMESYNC")) == 2)
            assert [m.ts1 for m in autopilot.of("TIMESYNC")] == [987654321, 7]


async def test_the_origin_is_sent_until_it_is_known() -> None:
    flight = Flight()
    origin = {"lat_deg": 47.397742, "lon_deg": -8.545594, "alt_m": 488.123}
    with UdpAutopilot() as autopilot:
        async with telling(flight, peer_port=autopilot.port, origin=origin):
            await until(lambda: autopilot.of("ODOMETRY"))
            assert not autopilot.of("SET_GPS_GLOBAL_ORIGIN"), "nobody is there yet"
            autopilot.heartbeat()
            await until(lambda: autopilot.of("SET_GPS_GLOBAL_ORIGIN"))
            (origin,) = autopilot.of("SET_GPS_GLOBAL_ORIGIN")
            assert (origin.latitude, origin.longitude, origin.altitude) == (
                473977420,
                -85455940,
                488123,
            )
            assert origin.target_system == 1
            autopilot.send(
                reference.MAVLink_gps_global_origin_message(473977420, -85455940, 488123, 0)
            )
            beats = len(autopilot.of("HEARTBEAT"))
            await until(lambda: len(autopilot.of("HEARTBEAT")) >= beats + 2)
            assert len(autopilot.of("SET_GPS_GLOBAL_ORIGIN")) == 1


@pytest.mark.parametrize(
    ("message", "name"),
    [("vision-position", "VISION_POSITION_ESTIMATE"), ("att-pos-mocap", "ATT_POS_MOCAP")],
)
async def test_a_serial_line_may_vanish_and_come_back(
    tmp_path: Path, message: str, name: str
) -> None:
    flight, link = Flight(), tmp_path / "fc"
    async with telling(flight, device=str(link), message=message) as output:
        await until(lambda: output.status.state is ComponentState.WAITING)
        for _ in range(2):
            terminal = PseudoTerminal(link)
            autopilot = Autopilot(terminal.fileno())
            try:
                await until(lambda: len(autopilot.of(name)) >= 5)  # noqa: B023 - awaited at once
                terminal.write(b"\xfd\x09garbage" + bytes(300))
                autopilot.send(reference.MAVLink_timesync_message(0, 5))
                await until(lambda: autopilot.of("TIMESYNC"))  # noqa: B023
                newest = autopilot.of(name)[-1]
                x, y, z = flight.truth(
                    getattr(newest, "usec", getattr(newest, "time_usec", 0)) * 1000
                )[0].p_m
                assert (newest.x, newest.y, newest.z) == pytest.approx((x, -y, -z), abs=1e-5)
            finally:
                asyncio.get_running_loop().remove_reader(terminal.fileno())
                terminal.close()
        assert output.status.counters["garbage_bytes"] > 0


async def test_a_port_that_is_taken_is_a_failure_to_be_retried() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(SinkError, match="cannot listen on UDP port"):
            await asyncio.wait_for(
                pose_output(port=taken.getsockname()[1]).run(Flight().world), 60.0
            )


MAVSDK_LISTENER = """
import json, math, sys, threading
from mavsdk.component_type import ComponentType
from mavsdk.mavsdk import Configuration, Mavsdk
from mavsdk.plugins.mavlink_direct import MavlinkDirect
sdk = Mavsdk(Configuration.create_with_component_type(ComponentType.GROUND_STATION))
sdk.add_any_connection("udpin://127.0.0.1:" + sys.argv[1])
system = sdk.first_autopilot(180.0)
assert system is not None, "no autopilot"
enough, lines = threading.Event(), []
def take(message, _):
    lines.append(message.fields_json)
    if len(lines) >= 20 and math.isfinite(json.loads(lines[-1])["vx"] or math.nan):
        enough.set()
direct = MavlinkDirect(system)
direct.subscribe_message("ODOMETRY", take)
assert enough.wait(180.0), "no odometry"
print("FIELDS " + json.dumps(lines), flush=True)
import os
os._exit(0)
"""


@pytest.mark.process
async def test_mavsdk_decodes_the_numbers_of_our_odometry(tmp_path: Path) -> None:
    """An independent decoder in C++.

    It listens to autopilots only, so the output speaks as component 1.
    """
    pytest.importorskip("mavsdk", reason="mavsdk is not installed (extra dev)")
    (port,) = free_ports(1, socket.SOCK_DGRAM)
    script = tmp_path / "listener.py"
    script.write_text(MAVSDK_LISTENER)
    flight = Flight()
    heart = reference.MAVLink(None, srcSystem=1, srcComponent=1)
    beat = bytes(reference.MAVLink_heartbeat_message(2, 12, 0, 0, 4, 3).pack(heart))
    with (
        Program(sys.executable, script, port) as child,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        async with telling(flight, peer_port=port, component=1), asyncio.timeout(2 * PATIENCE_S):
            while child.poll() is None:
                sock.sendto(beat, ("127.0.0.1", port))
                await asyncio.sleep(0.2)
    text = child.text()
    assert "FIELDS " in text, text[-2000:]
    fields = [json.loads(line) for line in json.loads(text.split("FIELDS ", 1)[1].splitlines()[0])]
    for message in fields:
        x, y, z = flight.truth(message["time_usec"] * 1000)[0].p_m
        assert (message["x"], message["y"], message["z"]) == pytest.approx((x, -y, -z), abs=1e-4)
        assert message["quality"] == 100
    known = [each for each in fields if math.isfinite(each["vx"] or math.nan)][-1]
    assert known["vx"] == pytest.approx(RADIUS_M * TURN_RADPS, abs=0.05)
    assert 1e-10 < known["pose_covariance"][0] < 2.5e-5  # estimated, better than configured
