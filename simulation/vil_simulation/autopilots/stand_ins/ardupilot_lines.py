"""Lines by which the physics answers ArduPilot: not JSON, but what its parser finds in them."""

from __future__ import annotations

import re
from functools import lru_cache
from math import hypot
from typing import Final, NamedTuple

from vil_simulation.autopilots.stand_ins.vectors import Quaternion, Vector
from vil_simulation.autopilots.stand_ins.violations import WireViolation, require

_NUMBER: Final = r"(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_NAMES: Final = re.compile(r'"(\w+)"( *):( *)')
_SCALARS: Final = frozenset(
    {"timestamp", "airspeed", "no_time_sync", *(f"rng_{n}" for n in range(1, 7))}
)
_VECTORS: Final = {
    "gyro": 3,
    "accel_body": 3,
    "position": 3,
    "velocity": 3,
    "quaternion": 4,
    "velocity_wind": 3,
}
_PARTS: Final = frozenset(
    {"imu", "windvane", "direction", "speed", "rc", *(f"rc_{n}" for n in range(1, 13))}
)
_KNOWN: Final = _SCALARS | _VECTORS.keys() | _PARTS | {"attitude", "battery", "voltage", "current"}
_NEEDED: Final = ("timestamp", "gyro", "accel_body", "position", "velocity", "quaternion")
_OPTIONAL: Final = ("rng_1", "velocity_wind", "airspeed", "voltage", "current")
_UNIT_TOLERANCE: Final = 1e-3


class PhysicsLine(NamedTuple):
    """State of the vehicle: seconds, body FRD, local NED, attitude (w, x, y, z)."""

    timestamp_s: float
    gyro_radps: Vector
    force_mps2: Vector
    p_ned_m: Vector
    v_ned_mps: Vector
    q_wxyz: Quaternion


@lru_cache(maxsize=64)
def _value(count: int) -> re.Pattern[str]:
    """Return the pattern of what stands behind a key.

    A number, or a vector with blanks after commas only.
    """
    numbers = ", *".join([_NUMBER] * count)
    return re.compile(rf'":\[{numbers}\]' if count > 1 else rf'":{_NUMBER}')


def parse(data: bytes) -> PhysicsLine:
    """Return the state of a line.

    Raises:
        WireViolation: ArduPilot's parser would not find it.
    """
    text = data.decode("ascii", "replace")
    framed = text.startswith("\n{") and text.endswith("}\n") and "\n" not in text[1:-1]
    require(framed, f"the answer {text[:24]!r}... is not one line between two newlines.")
    for name, before, after in _NAMES.findall(text):
        require(name in _KNOWN, f"ArduPilot knows no key {name!r}.")
        require(
            not (before or after),
            f'a blank stands next to the colon of "{name}": ArduPilot does not parse that.',
        )
    found = [_numbers(text, name) for name in _NEEDED]
    for name in (n for n in _OPTIONAL if f'"{n}"' in text):
        _numbers(text, name)
    (timestamp,), gyro, force, position, velocity, q = found
    size = hypot(*q)
    require(abs(size - 1.0) <= _UNIT_TOLERANCE, f"the quaternion has the length {size:.4f}.")
    return PhysicsLine(
        timestamp,
        (gyro[0], gyro[1], gyro[2]),
        (force[0], force[1], force[2]),
        (position[0], position[1], position[2]),
        (velocity[0], velocity[1], velocity[2]),
        (q[0], q[1], q[2], q[3]),
    )


def _numbers(text: str, name: str) -> tuple[float, ...]:
    """Return the numbers behind the first occurrence of a key, where ArduPilot looks."""
    at = text.find(name)
    require(at > 0, f'the answer has no "{name}".')
    end = at + len(name)
    require(
        text[end] == '"',
        f'"{name}" comes after a longer key that begins with it: ArduPilot takes the first.',
    )
    match = _value(_VECTORS.get(name, 1)).match(text, end)
    if match is None:
        raise WireViolation(
            f'"{name}" has no value that ArduPilot parses: {text[end : end + 40]!r}.'
        )
    return tuple(map(float, match.groups()))
