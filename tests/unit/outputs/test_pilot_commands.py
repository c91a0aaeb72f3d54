"""One pilot owns a vehicle, sends no more than it can take, and loses it by silence."""

from __future__ import annotations

import pytest

from tests.support.outputs import no_vehicles
from vil_bridge.interfaces.setpoints import Setpoint, VelocitySetpoint
from vil_bridge.outputs.pilot_commands import PilotCommands
from vil_bridge.runtime.supervisor import Status

AHEAD = VelocitySetpoint((1.0, 0.0, 0.0), 0.0)


class Pilots:
    """Commands with a clock of the test, and what came through."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.flown: list[tuple[str, Setpoint]] = []
        self.status = Status("ros")
        self.commands = PilotCommands(
            ("drone", "rover"), self._fly, self.status, lambda: self.now_s
        )

    def _fly(self, actor: str, setpoint: Setpoint) -> None:
        self.flown.append((actor, setpoint))

    def counts(self) -> tuple[int, int]:
        return self.status.counters["commands"], self.status.counters["commands_refused"]


def test_the_first_pilot_owns_a_vehicle_until_silent_for_a_second() -> None:
    pilots = Pilots()
    pilots.commands.command("drone", b"first", AHEAD)
    pilots.commands.command("drone", b"second", AHEAD)
    pilots.commands.command("rover", b"second", AHEAD)
    assert pilots.flown == [("drone", AHEAD), ("rover", AHEAD)]
    assert "another pilot flies drone" in pilots.status.facts["refused"]
    pilots.now_s += 0.9
    pilots.commands.command("drone", b"first", AHEAD)
    pilots.now_s += 0.9
    pilots.commands.command("drone", b"second", AHEAD)
    assert pilots.counts() == (3, 2)
    pilots.now_s += 0.11
    pilots.commands.command("drone", b"second", AHEAD)
    assert pilots.counts() == (4, 2), "it is the second's now"
    pilots.commands.command("drone", b"first", AHEAD)
    assert pilots.counts() == (4, 3)


def test_a_refused_command_gives_nobody_a_vehicle(caplog: pytest.LogCaptureFixture) -> None:
    status = Status("ros")
    commands = PilotCommands(("drone",), no_vehicles, status)
    commands.command("drone", b"a", AHEAD)
    commands.command("drone", b"b", AHEAD)
    assert status.facts["refused"] == "drone is not a simulated vehicle"
    assert status.counters["commands_refused"] == 2
    assert caplog.text.count("command refused") == 1, "only the first is logged"


def test_who_sends_too_many_is_refused_and_others_are_not() -> None:
    pilots = Pilots()
    for _ in range(600):
        pilots.commands.command("drone", b"first", AHEAD)
    passed, refused = pilots.counts()
    assert abs(passed - 500) <= 1 and passed + refused == 600
    assert "more than 1000 commands a second to drone" in pilots.status.facts["refused"]
    pilots.commands.command("rover", b"first", AHEAD)
    pilots.now_s += 0.01
    for _ in range(20):
        pilots.commands.command("drone", b"first", AHEAD)
    assert abs(pilots.counts()[0] - (passed + 1 + 10)) <= 1


def test_other_actors_are_refused() -> None:
    pilots = Pilots()
    pilots.commands.command("tower", b"first", AHEAD)
    assert pilots.flown == []
    assert pilots.status.facts["refused"] == "tower is not among the actors of this output"


def test_a_strangers_flood_takes_none_of_the_owners_commands() -> None:
    pilots = Pilots()
    pilots.commands.command("drone", b"first", AHEAD)
    for _ in range(1000):
        pilots.commands.command("drone", b"second", AHEAD)
    pilots.commands.command("drone", b"first", AHEAD)
    assert pilots.counts() == (2, 1000)
    pilots.now_s += 0.9
    pilots.commands.command("drone", b"second", AHEAD)
    assert pilots.counts() == (2, 1001), "the owner is still the first"
