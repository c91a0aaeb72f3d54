"""Commands as ROS 2 messages.

geometry_msgs/TwistStamped, PoseStamped, and mav_msgs/RateThrust of FlightGoggles.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Final

from rosbags.typesys import get_types_from_msg
from rosbags.typesys.store import Typestore

from vil_bridge.core.errors import CommandFormatError
from vil_bridge.interfaces.setpoints import (
    PositionSetpoint,
    RatesSetpoint,
    Setpoint,
    VelocitySetpoint,
)

_RATE_THRUST: Final = "mav_msgs/msg/RateThrust"
_RATE_THRUST_DEFINITION: Final = (
    "std_msgs/Header header\ngeometry_msgs/Vector3 angular_rates\ngeometry_msgs/Vector3 thrust"
)
_LARGEST_BYTES: Final = 4096
_HEAD: Final = 4
"""CDR's representation, before the message."""
_UNIT: Final = 0.01


def register_commands(store: Typestore) -> None:
    """Let a store know the types that are not ROS's own."""
    if _RATE_THRUST not in store.types:
        store.register(get_types_from_msg(_RATE_THRUST_DEFINITION, _RATE_THRUST))


def velocity_of(data: bytes, world: str) -> Setpoint:
    """Read a geometry_msgs/TwistStamped.

    World axes where its frame is the world's, else the vehicle's heading.

    Raises:
        CommandFormatError: it cannot be read so.
    """
    frame, v = _stamped(data, 6)
    return VelocitySetpoint((v[0], v[1], v[2]), v[5], in_heading=frame != world)


def position_of(data: bytes, world: str) -> Setpoint:
    """Read a geometry_msgs/PoseStamped in the world, of which the heading holds.

    Raises:
        CommandFormatError: it cannot be read so, or is in another frame.
    """
    frame, v = _stamped(data, 7)
    if frame not in ("", world):
        raise CommandFormatError(f"a position must be in the frame {world!r}, got {frame[:80]!r}")
    x, y, z, w = v[3:]
    if not abs(math.hypot(x, y, z, w) - 1.0) < _UNIT:
        raise CommandFormatError("the orientation of a position must have unit length")
    yaw_rad = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    return PositionSetpoint((v[0], v[1], v[2]), yaw_rad)


def rates_of(data: bytes, _world: str) -> Setpoint:
    """Read a mav_msgs/RateThrust, body axes x forward, y left, z up; the thrust is its z.

    Raises:
        CommandFormatError: it cannot be read so.
    """
    _, v = _stamped(data, 6)
    return RatesSetpoint((v[0], v[1], v[2]), v[5])


CommandReader = Callable[[bytes, str], Setpoint]
"""Reads a message, given the name of the world's frame. Raises CommandFormatError."""

COMMANDS: Final[Mapping[str, tuple[str, CommandReader]]] = {
    "cmd_vel": ("geometry_msgs/msg/TwistStamped", velocity_of),
    "cmd_pose": ("geometry_msgs/msg/PoseStamped", position_of),
    "cmd_rates": (_RATE_THRUST, rates_of),
}
"""Message type and reader of each topic of commands to an actor."""


def _stamped(data: bytes, count: int) -> tuple[str, tuple[float, ...]]:
    """Read a std_msgs/Header and the doubles behind it from CDR; returns the frame and the doubles.

    Raises:
        CommandFormatError: the lengths do not fit.
    """
    if not _HEAD <= len(data) <= _LARGEST_BYTES:
        raise CommandFormatError(f"a command of {len(data)} bytes")
    order = "<" if data[1] & 1 else ">"
    body = data[_HEAD:]
    try:
        _, _, length = struct.unpack_from(f"{order}iII", body)
        begin = -(-(12 + length) // 8) * 8  # doubles are aligned to eight bytes of the body
        values = struct.unpack_from(f"{order}{count}d", body, begin)
    except struct.error as exc:
        raise CommandFormatError(f"not a stamped message with {count} numbers: {exc}") from None
    frame = body[12 : 12 + length].rstrip(b"\0").decode(errors="replace")
    return frame, values
