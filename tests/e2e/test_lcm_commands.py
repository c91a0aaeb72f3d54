"""Commands over LCM.

Sent by LCM's own library with the types that lcm-gen makes, flown by a simulated vehicle.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest

from tests.support.bridge_rig import build, running
from tests.support.common import PATIENCE_S
from tests.support.events import until
from vil_bridge.core.errors import CommandFormatError
from vil_bridge.interfaces.vehicle_commands import VehicleState
from vil_bridge.runtime.supervisor import Status

lcm = pytest.importorskip("lcm")

from tests.support.lcm_reader import decoders  # noqa: E402
from vil_bridge.outputs.lcm.commands import position_of, rates_of, velocity_of  # noqa: E402

pytestmark = pytest.mark.process

_CONFIG = """
version: 1
rooms: {hall: {T_world_room: {p_m: [10.0, 20.0, 0.0], ypr_deg: [90.0, 0.0, 0.0]}}}
sources: {sim: {type: simulated, room: hall, step_hz: 240,
    vehicles: {quad: {model: flightgoggles, p_m: [0, 0, 3]}}}}
actors: {drone: {kind: vehicle, source: sim, subject: quad}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
outputs: {lcm: {type: lcm, actors: [drone], commands: true, url: "%s"}}
"""


@pytest.fixture(scope="module")
def types(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The reference encoders."""
    return decoders(tmp_path_factory.mktemp("lcm"))


class Rig:
    """A bridge whose drone takes commands, and LCM to send them."""

    def __init__(self, state: Callable[[], VehicleState], status: Status, sender: Any) -> None:
        self.state, self.status, self._sender = state, status, sender

    def send(self, leaf: str, message: Any) -> None:
        """Publish a message, or bytes."""
        data = message if isinstance(message, bytes) else message.encode()
        self._sender.publish(f"vil/drone/{leaf}", data)

    async def repeat(self, leaf: str, messages: list[Any], until_: Callable[[], bool]) -> None:
        """Send 50 times a second until something is so."""
        async with asyncio.timeout(PATIENCE_S):
            while not until_():
                for message in messages:
                    self.send(leaf, message)
                await asyncio.sleep(0.02)


@asynccontextmanager
async def commanded() -> AsyncIterator[Rig]:
    url = f"udpm://239.255.76.67:{random.randint(20_000, 60_000)}?ttl=0"
    try:
        sender = lcm.LCM(url)
    except RuntimeError:
        pytest.skip("no multicast here")
    async with running(build(_CONFIG % url)) as bridge:
        vehicles = bridge.context.for_sources.vehicles
        output = bridge.context.outputs.outputs["lcm"][0]
        await until(
            lambda: "quad" in vehicles.names() and vehicles.of("quad").state("quad").steps > 0
        )
        await until(lambda: str(output.status.state) == "running")
        yield Rig(lambda: vehicles.of("quad").state("quad"), output.status, sender)


def velocity(
    types: ModuleType, v_mps: tuple[float, float, float], in_heading: bool, pilot: str = "ann"
) -> Any:
    made = types.velocity_command_t()
    made.pilot, made.v_mps, made.yaw_radps, made.in_heading = pilot, v_mps, 0.1, in_heading
    return made


async def test_velocities_positions_and_rates_fly(types: ModuleType) -> None:
    position, rates = types.position_command_t(), types.rates_command_t()
    position.pilot = rates.pilot = "ann"
    position.p_world_m, position.yaw_rad = (9.0, 22.0, 2.5), math.pi / 2
    rates.w_body_radps, rates.thrust = (0.0, 0.0, 0.8), 9.81
    async with commanded() as rig:
        in_world = velocity(types, (0.0, 1.0, 0.0), in_heading=False)

        def flies(mode: str) -> bool:
            return (rig.state().pilot, rig.state().mode) == ("command", mode)

        await rig.repeat(
            "cmd_velocity",
            [in_world],
            lambda: flies("velocity") and rig.state().v_world_mps[0] > 0.8,
        )
        await until(lambda: rig.state().pilot == "timeout")
        await rig.repeat("cmd_position", [position], lambda: rig.state().mode == "position")
        await until(lambda: math.dist(rig.state().p_world_m, (2.0, 1.0, 2.5)) < 0.1)
        await rig.repeat(
            "cmd_rates", [rates], lambda: flies("rates") and rig.state().w_body_radps[2] > 0.6
        )
        assert rig.status.counters["commands_refused"] == 0


async def test_one_pilot_at_a_time_and_nothing_but_commands(types: ModuleType) -> None:
    ahead, back = (
        velocity(types, (v, 0.0, 0.0), in_heading=True, pilot=who)
        for v, who in ((0.5, "ann"), (-5.0, "bob"))
    )

    async with commanded() as rig:

        def refused(text: str) -> bool:
            return text in str(rig.status.facts.get("refused"))

        await rig.repeat("cmd_velocity", [ahead, back], lambda: rig.state().v_world_mps[0] > 0.4)
        assert refused("another pilot flies drone")
        await rig.repeat(
            "cmd_velocity", [b"junk"], lambda: refused("not a message of this channel's type")
        )
        await rig.repeat(
            "cmd_rates", [ahead], lambda: refused("not a message of this channel's type")
        )
        assert str(rig.status.state) == "running"


def test_messages_that_are_cut_short_are_refused(types: ModuleType) -> None:
    data = velocity(types, (1.0, 2.0, 3.0), in_heading=True).encode()
    assert velocity_of(data) == ("ann", ((1.0, 2.0, 3.0), 0.1, True))
    for cut in range(len(data)):
        with pytest.raises(CommandFormatError):
            velocity_of(data[:cut])
    for read in (position_of, rates_of):
        with pytest.raises(CommandFormatError):
            read(data)
    with pytest.raises(CommandFormatError):
        velocity_of(data + b"\0")
    with pytest.raises(CommandFormatError):
        velocity_of(data[:16] + b"\xff" * 4 + data[20:])
    named = velocity(types, (1.0, 2.0, 3.0), in_heading=True)
    named.pilot = "a" * 5000
    with pytest.raises(CommandFormatError, match="not a message of this channel"):
        velocity_of(named.encode())
