"""Pilots fly simulated vehicles through the autopilot's own port, of which `vil-bridge sitl`
prints the number.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.support.common import free_port
from tests.support.mavlink_pilot import Pilot, fly_ardupilot_guided, fly_px4_offboard
from tests.support.programs import Program
from tests.support.sitl import counters
from tests.support.sitl_flights import SitlFlight
from vil_simulation.autopilots.stand_ins.ardupilot_process import COMMAND_PORT
from vil_simulation.autopilots.stand_ins.px4_process import GCS_PORT, ONBOARD_PORT
from vil_simulation.sitl.options import SitlOptions
from vil_simulation.sitl.world import connections
from vil_simulation.source.ipc import Order

pytestmark = pytest.mark.process

_MAVSDK: Final = """
import os, sys, time
from mavsdk.component_type import ComponentType
from mavsdk.mavsdk import Configuration, Mavsdk
from mavsdk.plugins.action import Action
from mavsdk.plugins.offboard import Offboard, PositionNedYaw
from mavsdk.plugins.param import Param
from mavsdk.plugins.telemetry import Telemetry
sdk = Mavsdk(Configuration.create_with_component_type(ComponentType.GROUND_STATION))
sdk.add_any_connection("udpin://127.0.0.1:" + sys.argv[1])
system = sdk.first_autopilot(120.0)
assert system is not None, "no autopilot"
action = Action(system)
offboard = Offboard(system)
parameters = Param(system)
telemetry = Telemetry(system)
def until(holds, what):
    end_s = time.monotonic() + 240.0
    while not holds():
        assert time.monotonic() < end_s, what
        time.sleep(0.05)
def near(north, east, down):
    p = telemetry.position_velocity_ned().position
    return max(abs(p.north_m - north), abs(p.east_m - east), abs(p.down_m - down)) < 0.15
def done(act):
    try:
        act()
        return True
    except Exception as problem:
        print(problem, flush=True)
        return False
parameters.set_param_float("EKF2_EV_DELAY", 12.5)
assert parameters.get_param_float("EKF2_EV_DELAY") == 12.5
until(lambda: done(action.arm), "armed")
until(lambda: done(action.takeoff), "taken off")
until(lambda: near(0.0, 0.0, -1.5), "at 1.5 m")
offboard.set_position_ned(PositionNedYaw(1.0, -1.0, -2.0, 0.0))
until(lambda: done(offboard.start), "in OFFBOARD")
until(lambda: near(1.0, -1.0, -2.0), "at the set-point")
print("FLOWN", flush=True)
os._exit(0)
"""


def test_the_ports_of_the_programs_are_printed() -> None:
    px4, ardupilot = (connections(SitlOptions(program=kind))[0] for kind in ("px4", "ardupilot"))
    assert f"ground station UDP {GCS_PORT}, programs UDP {ONBOARD_PORT}, system 1" in px4
    assert f"MAVLink TCP {COMMAND_PORT}, " in ardupilot


def test_pymavlink_flies_px4_in_offboard() -> None:
    with closing(socket.socket(type=socket.SOCK_DGRAM)) as link:
        port = free_port(socket.SOCK_DGRAM, 40)
        link.bind(("127.0.0.1", port))
        with SitlFlight("px4", gps=None, pose={}).stepped("--onboard-port", port) as (
            step,
            program,
        ):
            fly_px4_offboard(Pilot(link, step))
            program.send_signal(signal.SIGTERM)
            assert counters(program)["violation"] == ""


def test_pymavlink_flies_ardupilot_in_guided() -> None:
    flight = SitlFlight("ardupilot", pose={})
    with (
        flight.stepped() as (step, program),
        socket.create_connection(("127.0.0.1", flight.pilot_port)) as link,
    ):
        fly_ardupilot_guided(Pilot(link, step))
        program.send_signal(signal.SIGTERM)
        assert counters(program)["violation"] == ""


def test_mavsdk_flies_px4_in_offboard(tmp_path: Path) -> None:
    pytest.importorskip("mavsdk", reason="mavsdk is not installed (extra dev)")
    script = tmp_path / "pilot.py"
    script.write_text(_MAVSDK, encoding="ascii")
    port = free_port(socket.SOCK_DGRAM, 40)
    flight = SitlFlight("px4", gps=None, pose={})
    with Program(sys.executable, script, port) as pilot:
        asked: list[int] = []

        def orders() -> Iterable[Order]:
            if not asked and (code := pilot.poll()) is not None:
                assert flight.program is not None
                asked.append(code)
                flight.program.send_signal(signal.SIGTERM)
            return ()

        found = flight.fly("--onboard-port", port, orders=orders, speed=1.0)
        assert "FLOWN" in pilot.text(), pilot.text()
    assert found["violation"] == ""
