"""Permitted ranges of the numbers that enter a bridge, by kind.

One table for all doors and for the models' states.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.types import FloatArray

_FLOAT32_MAX: Final = 3.4028235e38
"""Programs of AirSim send 3e38 seconds for "as long as it takes"."""
_FLOAT64_MAX: Final = 1.7976931348623157e308


class PhysicalRange(NamedTuple):
    """Range of one kind of number, both ends included; NaN and infinity are never inside.

    Attributes:
        kind: what the number is. unit: as errors show it; empty = none.
    """

    kind: str
    least: float
    most: float
    unit: str = ""

    def __contains__(self, value: object) -> bool:
        """Return True for a number inside."""
        return isinstance(value, int | float) and self.least <= value <= self.most

    def __str__(self) -> str:
        return f"from {self.least:g} to {self.most:g} {self.unit}".rstrip()

    def has_all(self, values: FloatArray) -> bool:
        """Return True where all numbers of an array are inside."""
        return bool(((values >= self.least) & (values <= self.most)).all())

    def check(self, name: str, values: Iterable[float]) -> None:
        """Check numbers. Raises ValueRefused: one is outside; says name, range and value."""
        for value in values:
            if not self.least <= value <= self.most:
                raise ValueRefused(f"{name} must be {self}, not {value:g}")


def _both(kind: str, most: float, unit: str = "") -> PhysicalRange:
    return PhysicalRange(kind, -most, most, unit)


POSITION: Final = _both("position", 1e6, "m")
LENGTH: Final = PhysicalRange("length", 0.0, 1e6, "m")
BOX_SIDE: Final = PhysicalRange("side of a box", 1, 1e6, "m")
LENGTH_CM: Final = PhysicalRange("length in centimetres", 0.0, 1e8, "cm")
SPEED: Final = _both("velocity", 1e3, "m/s")
ACCELERATION: Final = _both("acceleration", 1e6, "m/s^2")
JERK: Final = _both("jerk", 1e9, "m/s^3")
SNAP: Final = _both("snap", 1e9, "m/s^4")
ANGLE: Final = _both("angle", 1e4, "rad")
ANGLE_DEG: Final = _both("angle in degrees", 1e6, "deg")
RATE: Final = _both("angular rate", 100.0, "rad/s")
RATE_DEG: Final = _both("angular rate in degrees", 6e3, "deg/s")
HEADING_DEG: Final = _both("heading or its rate", 1e6, "deg or deg/s")
ANGULAR_ACCELERATION: Final = _both("angular acceleration", 1e6, "rad/s^2")
QUATERNION: Final = _both("part of a quaternion", 1e6)
ROTOR_SPEED: Final = _both("speed of a rotor", 1e5, "rad/s")
FORCE: Final = _both("force", 1e4, "N")
WIND: Final = _both("wind", 200.0, "m/s")
SHARE: Final = _both("share of a whole, such as a throttle, a colour or an amount of rain", 1e3)
STICK: Final = _both("stick of a remote control", 1.0)
STICK_SCALE: Final = _both("effect of a full stick, times 10,000", 1e7, "m or m/s")
PULSE: Final = PhysicalRange("pulse width", 0.0, 1e5, "us")
GAIN: Final = _both("gain of a controller", 1e6)
FACTOR: Final = _both("factor of a lens or a speed", 1e6)
TIMEOUT: Final = _both("duration that may be endless", _FLOAT32_MAX, "s")
STEP: Final = PhysicalRange("step of a paused world", 0.0, 86_400.0, "s")
PERIOD: Final = PhysicalRange("period", 0.0, 1e9, "s")
FRAMES: Final = PhysicalRange("number of frames", 0, 1e8)
TIME_STAMP: Final = PhysicalRange("time stamp", 0, 2**62, "ns")
FIELD_OF_VIEW: Final = PhysicalRange("field of view", 1.0, 179.0, "deg")
DISTORTION: Final = _both("distortion of a lens", 1e3)
SCALE: Final = PhysicalRange("scale of an object", 1e-6, 1e4)
DRAWN_SIZE: Final = _both("size of what is drawn", 1e6)
CELL: Final = PhysicalRange("cell of a grid", 1e-3, 1e6, "m")
LATITUDE: Final = _both("latitude", 90.0, "deg")
LONGITUDE: Final = _both("longitude", 360.0, "deg")
ALTITUDE: Final = _both("altitude", 1e6, "m")
UNUSED: Final = _both("number without an effect", _FLOAT32_MAX)

STATE_POSITION: Final = _both("position of a model's state", 1e7, "m")
STATE_SPEED: Final = _both("velocity of a model's state", 1e5, "m/s")
STATE_RATE: Final = _both("angular rate of a model's state", 1e4, "rad/s")
STATE_OTHER: Final = _both("any other part of a model's state", _FLOAT64_MAX)

STATE_RANGES: Final = {
    "p_world_m": STATE_POSITION,
    "v_world_mps": STATE_SPEED,
    "w_body_radps": STATE_RATE,
}
"""Of the columns of a vehicle model's state by name; those of others are :data:`STATE_OTHER`."""

_COMMANDS: Final = {
    "m": POSITION,
    "m/s": SPEED,
    "m/s^2": ACCELERATION,
    "m/s^3": JERK,
    "m/s^4": SNAP,
    "rad": ANGLE,
    "rad/s": RATE,
    "N": FORCE,
    "us": PULSE,
    "1": SHARE,
}
_ROTORS: Final = "rotors_radps"


def command_range(name: str, unit: str) -> PhysicalRange:
    """Return the range of a command's numbers, by the field's name and unit.

    That of plug-ins' units is wide.
    """
    if name == _ROTORS:
        return ROTOR_SPEED
    return _COMMANDS.get(unit, UNUSED)
