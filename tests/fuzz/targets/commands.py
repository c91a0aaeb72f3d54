"""Commands of foreign pilots over ROS 2 and LCM, up to the vehicle's own command."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from tests.fuzz.target import Target
from vil_bridge.core.errors import CommandFormatError, ValueRefused
from vil_bridge.core.geometry import Transform
from vil_bridge.interfaces.setpoints import Setpoint, command_of
from vil_bridge.interfaces.vehicle_commands import CommandField, VehicleState
from vil_bridge.outputs.lcm.commands import COMMANDS as LCM_COMMANDS
from vil_bridge.protocols.ros_commands import COMMANDS as ROS_COMMANDS

__all__ = ["TARGETS"]

_MODES: Final = {
    "velocity": (CommandField("v_world_mps", 3, "m/s"), CommandField("yaw_radps", 1, "rad/s")),
    "position": (CommandField("p_world_m", 3, "m"), CommandField("yaw_rad", 1, "rad")),
    "rates": (CommandField("thrust_n", 1, "N"), CommandField("w_body_radps", 3, "rad/s")),
}
_REST: Final = (0.0, 0.0, 0.0)
_STATE: Final = VehicleState(
    *("quad", "sim", "flightgoggles", 0, 0, "", "autopilot", True),
    *(_REST, _REST, (0.0, 0.0, 0.6, 0.8), _REST),
    modes=_MODES,
)
_ROOM: Final = Transform.of((10.0, 20.0, 0.0), (0.0, 0.0, 0.6, 0.8))


def _fly(setpoint: Setpoint) -> None:
    command_of(_STATE, setpoint, _ROOM)


def _ros(data: bytes) -> None:
    """One byte that picks the type, then the message."""
    _, read = list(ROS_COMMANDS.values())[data[0] % len(ROS_COMMANDS) if data else 0]
    _fly(read(data[1:], "world"))


def _ros_messages() -> Iterator[bytes]:
    for number in range(len(ROS_COMMANDS)):
        for order, flag in (("<", 1), (">", 0)):
            head = struct.pack(f"{order}iII6s", 1, 2, 6, b"world\0") + bytes(2 + 4)
            values = struct.pack(f"{order}7d", 1.0, 2.0, 3.0, 0.0, 0.0, 0.6, 0.8)
            yield bytes((number, 0, flag, 0, 0)) + head + values


def _lcm(data: bytes) -> None:
    """One byte that picks the type, then the message."""
    read = list(LCM_COMMANDS.values())[data[0] % len(LCM_COMMANDS) if data else 0]
    _, setpoint = read(data[1:])
    _fly(setpoint)


def _lcm_messages() -> Iterator[bytes]:
    fingerprints = (0x586C6383D055B3BB, 0xDC5610B6F3097590, 0xBD8554D9F85754C4)
    for number, fingerprint in enumerate(fingerprints):
        tail = b"\1" if number == 0 else b""
        yield (
            bytes((number,))
            + struct.pack(">QqI4s4d", fingerprint, 5, 4, b"ann\0", 1.0, 2.0, 3.0, 0.5)
            + tail
        )


TARGETS: Final = (
    Target("ros-commands", _ros, (CommandFormatError, ValueRefused), _ros_messages, 512),
    Target("lcm-commands", _lcm, (CommandFormatError, ValueRefused), _lcm_messages, 512),
)
