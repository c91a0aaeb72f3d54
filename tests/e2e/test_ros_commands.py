"""Commands over ROS 2.

A foreign session publishes as rmw_zenoh's nodes do, and simulated vehicles fly.
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support import ros_types
from tests.support.bridge_rig import build, running
from tests.support.common import PATIENCE_S
from tests.support.events import until
from vil_bridge.core.errors import CommandFormatError
from vil_bridge.core.geometry import q_from_euler_zyx
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.interfaces.setpoints import PositionSetpoint
from vil_bridge.interfaces.vehicle_commands import VehicleState
from vil_simulation.demo.child_processes import free_ports

zenoh = pytest.importorskip("zenoh")
pytest.importorskip("rosbags")

from tests.support.ros_reader import ATTACHMENT, HASHES, Reader, opened, reader, router  # noqa: E402
from vil_bridge.protocols.ros_commands import position_of, rates_of, velocity_of  # noqa: E402

pytestmark = pytest.mark.wire

_CONFIG = """
version: 1
rooms: {hall: {T_world_room: {p_m: [10.0, 20.0, 0.0], ypr_deg: [90.0, 0.0, 0.0]}}}
sources:
  sim:
    type: simulated
    room: hall
    step_hz: 240
    rate_hz: 100
    vehicles: {quad: {model: flightgoggles, p_m: [0, 0, 3]}}
  other: {type: vrpn, server: 127.0.0.1, subjects: [real], port: %d, room: hall}
actors:
  drone: {kind: vehicle, source: sim, subject: quad}
  real: {kind: vehicle, source: other, subject: real}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
outputs: {ros: {type: ros2, actors: [drone, real], commands: true, connect: ["%s"]}}
"""

RATE_THRUST = "RIHS01_39af0ce207c3bb7c40f16ed9e486d3c2cf94f2f3dac6af367f93aeab872bfa6e"
"""Hash of mav_msgs/RateThrust, by the definition that FlightGoggles uses."""


def stamped(frame: str) -> ros_types.Header:
    return ros_types.Header(ros_types.Time(5, 6), frame)


def twist(frame: str, v: tuple[float, float, float], turn: float = 0.0) -> ros_types.TwistStamped:
    zero = ros_types.Vector3(0.0, 0.0, turn)
    return ros_types.TwistStamped(stamped(frame), ros_types.Twist(ros_types.Vector3(*v), zero))


def pose(frame: str, p: tuple[float, float, float], yaw_rad: float) -> ros_types.PoseStamped:
    q = ros_types.Quaternion(0.0, 0.0, math.sin(yaw_rad / 2), math.cos(yaw_rad / 2))
    return ros_types.PoseStamped(stamped(frame), ros_types.Pose(ros_types.Vector3(*p), q))


def rates(w: tuple[float, float, float], thrust_n: float) -> ros_types.RateThrust:
    return ros_types.RateThrust(
        stamped(""), ros_types.Vector3(*w), ros_types.Vector3(0.0, 0.0, thrust_n)
    )


class Node:
    """A foreign node that publishes commands."""

    def __init__(self, session: Any, gid: bytes) -> None:
        self._session, self._gid, self._sequence = session, gid, 0

    def send(self, leaf: str, message: Any, actor: str = "drone") -> None:
        """Publish one message on the key that rmw_zenoh would use."""
        name = type(message).__name__
        package = "mav_msgs" if name == "RateThrust" else "geometry_msgs"
        message_type = f"{package}/msg/{name}"
        self.put(
            leaf,
            message.serialize(),
            actor,
            f"{package}::msg::dds_::{name}_",
            hash_of(message_type),
        )

    def put(self, leaf: str, data: bytes, actor: str, kind: str, hash_: str) -> None:
        self._sequence += 1
        note = ATTACHMENT.pack(self._sequence, time.time_ns(), len(self._gid), self._gid)
        self._session.put(f"0/vil/{actor}/{leaf}/{kind}/{hash_}", data, attachment=note)


def hash_of(message_type: str) -> str:
    """The hash of a type by the definitions of ROS 2 Jazzy, or of FlightGoggles."""
    package, _, name = message_type.split("/")
    if name == "RateThrust":
        return RATE_THRUST
    return f"RIHS01_{HASHES[f'{package}::msg::dds_::{name}_']}"


class Rig:
    """A bridge whose drone nodes command."""

    def __init__(self, bridge: Bridge, session: Any, read: Reader) -> None:
        self.bridge, self.session, self.read = bridge, session, read
        self.vehicles = bridge.context.for_sources.vehicles
        self.status = bridge.context.outputs.outputs["ros"][0].status

    def state(self) -> VehicleState:
        return self.vehicles.of("quad").state("quad")

    async def repeat(self, send: Callable[[], None], until_: Callable[[], bool]) -> None:
        """Send 50 times a second until something is so."""

        def once() -> bool:
            send()
            return until_()

        while not once():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def commanded() -> AsyncIterator[Rig]:
    # As a node on another machine.
    foreign = {"mode": "peer", "transport__shared_memory__enabled": False}
    with (
        router() as place,
        reader(place) as read,
        opened(**foreign, connect__endpoints=[place]) as session,
    ):
        async with running(
            build(_CONFIG % (free_ports(1, socket.SOCK_STREAM)[0], place))
        ) as bridge:
            rig = Rig(bridge, session, read)
            await until(lambda: "quad" in rig.vehicles.names() and rig.state().steps > 0)
            await until(lambda: any("/MS/" in token for token in read.tokens))
            yield rig


async def test_velocities_fly_and_silence_ends_them() -> None:
    async with commanded() as rig:
        node = Node(rig.session, b"a" * 16)
        async with asyncio.timeout(PATIENCE_S):
            # In the world: its y axis is the room's x axis.
            await rig.repeat(
                lambda: node.send("cmd_vel", twist("world", (0.0, 1.5, 0.0))),
                lambda: rig.state().v_world_mps[0] > 1.3 and rig.state().pilot == "command",
            )
            assert abs(rig.state().v_world_mps[1]) < 0.2
            assert rig.state().mode == "velocity"
            await until(lambda: rig.state().pilot == "timeout")
            # Along the heading, which is the room's x axis: backwards.
            await rig.repeat(
                lambda: node.send("cmd_vel", twist("drone/base_link", (-1.5, 0.0, 0.0))),
                lambda: rig.state().v_world_mps[0] < -1.2,
            )
        assert rig.status.counters["commands"] >= 2
        assert rig.status.counters["commands_refused"] == 0


async def test_a_position_is_flown_to_and_held_without_repetition() -> None:
    async with commanded() as rig:
        node = Node(rig.session, b"a" * 16)
        async with asyncio.timeout(PATIENCE_S):
            await rig.repeat(
                lambda: node.send("cmd_pose", pose("world", (9.0, 22.0, 2.5), math.pi)),
                lambda: rig.state().mode == "position",
            )
            await until(lambda: math.dist(rig.state().p_world_m, (2.0, 1.0, 2.5)) < 0.1)
        assert rig.state().pilot == "command"


async def test_rates_and_thrust_are_flightgoggles() -> None:
    async with commanded() as rig:
        node = Node(rig.session, b"a" * 16)
        async with asyncio.timeout(PATIENCE_S):
            await rig.repeat(
                lambda: node.send("cmd_rates", rates((0.0, 0.0, 0.8), 9.81)),
                lambda: rig.state().w_body_radps[2] > 0.6,
            )
        assert (rig.state().pilot, rig.state().mode) == ("command", "rates")


async def test_one_pilot_at_a_time_and_nothing_but_commands() -> None:
    async with commanded() as rig:
        first, second = Node(rig.session, b"a" * 16), Node(rig.session, b"b" * 16)

        def both() -> None:
            first.send("cmd_vel", twist("world", (0.0, 0.5, 0.0)))
            second.send("cmd_vel", twist("world", (0.0, -5.0, 0.0)))

        def refused(text: str) -> bool:
            return text in str(rig.status.facts.get("refused"))

        async with asyncio.timeout(PATIENCE_S):
            await rig.repeat(both, lambda: rig.state().v_world_mps[0] > 0.4)
            assert refused("another pilot flies drone")
            await rig.repeat(
                lambda: first.send("cmd_vel", twist("world", (0.0, 1.0, 0.0)), "real"),
                lambda: refused("real is not a simulated vehicle"),
            )
            await rig.repeat(
                lambda: first.send("cmd_pose", pose("map", (0.0, 0.0, 1.0), 0.0)),
                lambda: refused("in the frame 'world'"),
            )
            await rig.repeat(
                lambda: first.send("cmd_vel", twist("world", (math.nan, 0.0, 0.0))),
                lambda: refused("finite"),
            )
            kind = "geometry_msgs::msg::dds_::TwistStamped_"
            await rig.repeat(
                lambda: first.put(
                    "cmd_vel",
                    b"\0\1\0\0junk",
                    "drone",
                    kind,
                    hash_of("geometry_msgs/msg/TwistStamped"),
                ),
                lambda: refused("not a stamped message"),
            )
        assert str(rig.status.state) == "running"


async def test_all_messages_of_a_publisher_are_of_one_pilot() -> None:
    async with commanded() as rig:
        node, ahead = Node(rig.session, b"a" * 16), twist("world", (0.0, 0.5, 0.0))
        async with asyncio.timeout(PATIENCE_S):
            await rig.repeat(
                lambda: node.send("cmd_vel", ahead), lambda: rig.status.counters["commands"] >= 20
            )
        assert rig.status.counters["commands_refused"] == 0


async def test_a_huge_message_is_dropped_before_it_is_whole() -> None:
    async with commanded() as rig:
        node, kind = Node(rig.session, b"a" * 16), "geometry_msgs::msg::dds_::TwistStamped_"
        hash_ = hash_of("geometry_msgs/msg/TwistStamped")
        large = 0

        def send_large() -> None:
            nonlocal large
            large += 1
            node.put("cmd_vel", bytes(5000), "drone", kind, hash_)

        async with asyncio.timeout(PATIENCE_S):
            await rig.repeat(
                send_large,
                lambda: "a command of 5000 bytes" in str(rig.status.facts.get("refused")),
            )
            for _ in range(20):
                node.put("cmd_vel", bytes(1 << 20), "drone", kind, hash_)
            ahead = twist("world", (0.0, 0.5, 0.0))
            await rig.repeat(
                lambda: node.send("cmd_vel", ahead), lambda: rig.status.counters["commands"] > 5
            )
        assert rig.status.counters["commands_refused"] <= large


async def test_subscribers_are_announced_as_rmw_zenoh_does() -> None:
    async with commanded() as rig:
        tokens = {token.rsplit("/", 4)[1]: token for token in rig.read.tokens if "/MS/" in token}
        leaves = ("cmd_vel", "cmd_pose", "cmd_rates")
        assert set(tokens) == {
            f"%vil%{actor}%{leaf}" for actor in ("drone", "real") for leaf in leaves
        }
        kind = "geometry_msgs::msg::dds_::TwistStamped_"
        assert tokens["%vil%drone%cmd_vel"].rsplit("/", 3)[1:] == [
            kind,
            f"RIHS01_{HASHES[kind]}",
            "::,10:,:,:,,",
        ]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("frame", ["", "world", "a" * 13])
def test_messages_of_both_byte_orders_and_all_paddings(order: str, frame: str) -> None:
    head = struct.pack(f"{order}iII", 1, 2, len(frame) + 1) + frame.encode() + b"\0"
    head += b"\0" * (-len(head) % 8)
    data = (
        (b"\0\1" if order == "<" else b"\0\0")
        + b"\0\0"
        + head
        + struct.pack(f"{order}6d", 1, 2, 3, 4, 5, 6)
    )
    velocity = velocity_of(data, "world")
    assert velocity == ((1.0, 2.0, 3.0), 6.0, frame != "world")
    assert rates_of(data, "world") == ((1.0, 2.0, 3.0), 6.0)
    for cut in range(len(data)):
        with pytest.raises(CommandFormatError):
            velocity_of(data[:cut], "world")
    with pytest.raises(CommandFormatError, match="unit length"):
        frameless = struct.pack("<iII", 1, 2, 1) + b"\0" * 4 + struct.pack("<7d", *[0.0] * 7)
        position_of(b"\0\1\0\0" + frameless, "world")


def test_a_position_takes_the_heading_of_its_attitude_and_no_other_frame() -> None:
    numbers = (1.0, 2.0, 3.0, *q_from_euler_zyx(0.5, -0.4, 0.9).tolist())
    for frame in ("", "world", "map"):
        head = b"\0\1\0\0" + struct.pack("<iII", 1, 2, len(frame) + 1) + frame.encode() + b"\0"
        data = head + b"\0" * (-(len(head) - 4) % 8) + struct.pack("<7d", *numbers)
        if frame == "map":
            with pytest.raises(CommandFormatError, match="must be in the frame 'world'"):
                position_of(data, "world")
        else:
            found = position_of(data, "world")
            assert isinstance(found, PositionSetpoint) and found.p_world_m == (1.0, 2.0, 3.0)
            assert found.yaw_rad == pytest.approx(0.5, abs=1e-12)
    for length in (0.98, 1.02):
        scaled = (*numbers[:3], *(length * part for part in numbers[3:]))
        with pytest.raises(CommandFormatError, match="unit length"):
            position_of(
                b"\0\1\0\0"
                + struct.pack("<iII", 1, 2, 1)
                + b"\0" * 4
                + struct.pack("<7d", *scaled),
                "world",
            )
