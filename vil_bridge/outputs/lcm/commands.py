"""The types of commands in ``types/*.lcm``, read from bytes; pure functions."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

from vil_bridge.core.errors import CommandFormatError
from vil_bridge.interfaces.setpoints import (
    PositionSetpoint,
    RatesSetpoint,
    Setpoint,
    VelocitySetpoint,
)

_VELOCITY: Final = struct.pack(">Q", 0x586C6383D055B3BB)
_POSITION: Final = struct.pack(">Q", 0xDC5610B6F3097590)
_RATES: Final = struct.pack(">Q", 0xBD8554D9F85754C4)
_LARGEST_BYTES: Final = 4096
_HEAD: Final = struct.Struct(">qI")
"""Time, and the length of the pilot's name with its final zero."""
_FINGERPRINT_BYTES: Final = 8

CommandReader = Callable[[bytes], tuple[str, Setpoint]]
"""Returns the pilot and the set-point of a message.

Raises CommandFormatError: it cannot be read so.
"""


def velocity_of(data: bytes) -> tuple[str, Setpoint]:
    """Read a vil.velocity_command_t. Raises CommandFormatError: it cannot be read so."""
    pilot, v = _fields(data, _VELOCITY, ">4db")
    return pilot, VelocitySetpoint((v[0], v[1], v[2]), v[3], in_heading=bool(v[4]))


def position_of(data: bytes) -> tuple[str, Setpoint]:
    """Read a vil.position_command_t. Raises CommandFormatError: it cannot be read so."""
    pilot, v = _fields(data, _POSITION, ">4d")
    return pilot, PositionSetpoint((v[0], v[1], v[2]), v[3])


def rates_of(data: bytes) -> tuple[str, Setpoint]:
    """Read a vil.rates_command_t. Raises CommandFormatError: it cannot be read so."""
    pilot, v = _fields(data, _RATES, ">4d")
    return pilot, RatesSetpoint((v[0], v[1], v[2]), v[3])


COMMANDS: Final[Mapping[str, CommandReader]] = {
    "cmd_velocity": velocity_of,
    "cmd_position": position_of,
    "cmd_rates": rates_of,
}
"""Reader of each channel of commands to an actor, by its last part."""


def _fields(data: bytes, fingerprint: bytes, form: str) -> tuple[str, tuple[float, ...]]:
    """Read the pilot's name and the numbers behind it.

    Raises:
        CommandFormatError: another type, or the lengths do not fit.
    """
    if len(data) > _LARGEST_BYTES or data[:_FINGERPRINT_BYTES] != fingerprint:
        raise CommandFormatError(
            "not a message of this channel's type; generate it from "
            "vil_bridge/outputs/lcm/types with lcm-gen"
        )
    try:
        _, length = _HEAD.unpack_from(data, _FINGERPRINT_BYTES)
        begin = _FINGERPRINT_BYTES + _HEAD.size
        values = struct.unpack(form, data[begin + length :])
    except struct.error as exc:
        raise CommandFormatError(f"a command cut short, or with a tail: {exc}") from None
    return data[begin : begin + length].rstrip(b"\0").decode(errors="replace"), values
