"""Motors and remote control of a vehicle that an autopilot's program flies."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from vil_simulation.autopilots.links.link import MOTORS
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import ArmCommand, FlyCommand, StatusUpdate
from vil_simulation.source.simulation import Simulation

pytestmark = pytest.mark.pure

OUTPUTS = (0.25, 0.5, 0.75, 1.0)


def simulation() -> Simulation:
    autopilot = {"kind": "ardupilot", "rate_hz": 500}
    vehicle = {
        "model": "flightgoggles",
        "p_m": [0, 0, 0],
        "autopilot": autopilot,
        "command_timeout_ms": 10,
    }
    config = {"type": "simulated", "step_hz": 1000, "vehicles": {"quad": vehicle}}
    return Simulation(SimulatedConfig.model_validate(config))


def speeds(made: Simulation) -> list[float]:
    """Return the speeds that the motors are commanded, as shares of the highest."""
    (group,) = made.groups
    fleet = group.fleets.of(group.factory.motor_mode, 0).fleet
    commanded: list[float] = (fleet.u[0] / group.factory.full_motors).tolist()
    return commanded


def test_motors_follow_the_outputs_of_an_armed_vehicle_only() -> None:
    made = simulation()
    (group,) = made.groups
    outputs = (*OUTPUTS, *[0.9] * (MOTORS - 4))
    group.drive(0, outputs, "ardupilot running", armed=True)
    assert speeds(made) == pytest.approx(OUTPUTS)
    made.order(ArmCommand(0, False))
    assert not any(speeds(made))
    group.drive(0, outputs, "ardupilot running", armed=True)
    assert not any(speeds(made)), "whatever the program says"
    made.order(ArmCommand(0, True))
    group.drive(0, outputs, "ardupilot running", armed=True)
    assert speeds(made) == pytest.approx(OUTPUTS)


def note(made: Simulation) -> StatusUpdate:
    (group,) = made.groups
    return group.notes()[0]


def test_a_vehicle_is_armed_by_its_program() -> None:
    made = simulation()
    (group,) = made.groups
    off = (0.0,) * MOTORS
    idle = (0.15,) * MOTORS
    assert (note(made).armed, note(made).mode, note(made).landed) == (False, "rc", True)
    group.drive(0, idle, "ardupilot running", armed=True)
    assert note(made).armed
    made.order(ArmCommand(0, False))
    assert not note(made).armed, "its motors do not obey"
    made.order(ArmCommand(0, True))
    assert note(made).armed
    before = group.revision
    group.drive(0, off, "ardupilot running", armed=False)
    assert not note(made).armed
    assert group.revision > before, "which is reported"


def test_a_vehicle_has_landed_once_it_stands_with_slow_motors() -> None:
    made = simulation()
    (group,) = made.groups
    made.advance(300)
    assert note(made).landed, "it was put on the floor"
    group.drive(0, (0.9,) * MOTORS, "ardupilot running", armed=True)
    made.advance(500)
    assert not note(made).landed
    group.drive(0, (0.0,) * MOTORS, "ardupilot running", armed=False)
    tops = []
    while group.bodies()[0, 5] > -1.0:
        made.advance(made.steps + 10)
        tops.append(note(made).landed)
    assert not any(tops), "it does not stand at the top of its throw"
    made.advance(made.steps + 5000)
    assert note(made).landed
    group.drive(0, (0.15,) * MOTORS, "ardupilot running", armed=True)
    made.advance(made.steps + 300)
    assert note(made).landed, "motors that idle do not lift it"


def test_remote_control_is_whole_microseconds_until_its_pilot_is_silent() -> None:
    made = simulation()
    (group,) = made.groups
    assert group.program is not None
    made.order(
        FlyCommand(0, "rc", (1500.4, 1499.6, -20.0, 70_000.0, 1900.0, 1000.0, 1000.0, 1000.0))
    )
    assert group.program.rc_us == [(1500, 1500, 0, 65_535, 1900, 1000, 1000, 1000)]
    made.advance(9)
    assert group.program.rc_us[0] is not None
    made.advance(30)  # the next time that commands are applied
    assert group.program.rc_us == [None]


MANY_DESCRIPTORS = """
import os, resource, socket, sys
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.simulation import Simulation

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
probe = socket.create_server(("127.0.0.1", 0))
port = probe.getsockname()[1]
probe.close()
vehicle = {"model": "flightgoggles", "autopilot": {"kind": "px4", "port": port}}
made = Simulation(SimulatedConfig.model_validate({"type": "simulated", "step_hz": 1000,
    "vehicles": {"quad": vehicle}}))
while os.dup(0) < 1100:
    pass
made.programs.open(holds=True)
assert not made.programs.ready(1_000_000)
peer = socket.create_connection(("127.0.0.1", port))
assert peer.fileno() > 1023
while not made.programs.ready(1_000_000_000):
    pass
made.programs.close()
print("ready")
"""


@pytest.mark.process
def test_programs_are_waited_for_on_descriptors_above_1023() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1200:
        pytest.skip("the hard limit of open files is below 1200")
    command = [sys.executable, "-c", MANY_DESCRIPTORS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "ready\n"), done.stderr
