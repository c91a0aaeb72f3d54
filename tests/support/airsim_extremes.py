"""Random calls of every method of AirSim's RPC with extreme values, and what they may do to a
bridge.
"""

from __future__ import annotations

import math
import random
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from tests.support.airsim_calls import Call, calls
from tests.support.airsim_server import RANGING_DRONE, AirsimConnection

VEHICLES: Final[dict[str, Any]] = {
    "Drone1": {**RANGING_DRONE, "X": 3, "Y": 0, "Z": 0},
    "Drone2": {"VehicleType": "SimpleFlight", "X": 6, "Y": 0, "Z": 0},
    "Drone3": {"VehicleType": "SimpleFlight", "X": 9, "Y": 0, "Z": 0},
}
"""Of a server's settings."""
_LARGEST: Final = sys.float_info.max
_EXTREMES: Final = (
    0.0, -0.0, 5e-324, -5e-324, sys.float_info.min, 1e-30, -1e-30, 1e30, -1e30, 3e38, -3e38, 3.5e38,
    _LARGEST, -_LARGEST, math.nan, math.inf, -math.inf,
)  # fmt: skip
_ENDS: Final = (1e-6, 1e-3, 1.0, 100.0, 179.0, 200.0, 1e3, 1e4, 1e6, 1e7, 1e9)
"""Ends of permitted ranges: the largest values that are accepted."""
_WHOLE: Final = (
    0,
    1,
    -1,
    2,
    255,
    256,
    1 << 20,
    (1 << 31) - 1,
    -(1 << 31),
    1 << 32,
    1 << 62,
    (1 << 64) - 1,
    -(1 << 63),
)
_TEXTS: Final = (
    "",
    "0",
    "missing",
    "a" * 60_000,  # a longer one ends the connection
    "(" * 200,
    "\0\n\x1b[31m",
    "../" * 50,
    "nan",
    "1e400",
    ".*",
    "ü" * 999,
)
_CLOCK: Final = ("simPause", "simContinueForTime", "simContinueForFrames")
_MOST_IN_FLIGHT: Final = 120
_SELDOM: Final[Mapping[str, float]] = {
    "simAddVehicle": 0.05,
    "simGetMeshPositionVertexBuffers": 0.05,
    "simCreateVoxelGrid": 0.2,
    "simContinueForFrames": 0.2,
    "simContinueForTime": 0.2,
    "simPause": 0.2,
    "reset": 0.2,
    "startRecording": 0.1,
    "simGetImages": 0.2,
    "simGetImage": 0.2,
    "simGetDetections": 0.2,
    "simPlotStrings": 0.2,
    "simPlotTransformsWithNames": 0.2,
    "setPositionControllerGains": 0.1,
    "setVelocityControllerGains": 0.1,
    "setAngleLevelControllerGains": 0.1,
    "setAngleRateControllerGains": 0.1,
}
_GAINS: Final = {
    "setPositionControllerGains": ([0.25] * 3, [0.0] * 3),
    "setVelocityControllerGains": ([0.2, 0.2, 2.0], [0.0, 0.0, 2.0]),
    "setAngleLevelControllerGains": ([2.5] * 3, [0.0] * 3),
    "setAngleRateControllerGains": ([0.25] * 3, [0.0] * 3),
}
"""Proportional and integral gains that a vehicle begins with.

Others cost a multiple of the time of a step.
"""
"""Methods that cost more than others."""
_INTERNAL: Final = re.compile(
    r"inside the server|cannot convert|math domain|math range|broadcast|out of bounds|not "
    r"finite numbers|Traceback"
    r"|object has no attribute|unsupported operand|invalid value encountered"
)
"""Texts of errors that Python or NumPy wrote, not we."""


@dataclass(slots=True)
class ExtremeCalls:
    """Draws calls: most arguments are right, some are at the ends of their ranges, extreme, or
    of a wrong type.
    """

    random: random.Random
    vehicles: Sequence[str]
    _calls: list[Call] = field(init=False)
    _weights: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self._calls = list(calls())
        self._weights = [
            _SELDOM.get(call.name, 0.1 if call.refused or call.absent else 1.0)
            for call in self._calls
        ]

    def draw(self) -> tuple[str, list[Any]]:
        """Return a method and its arguments."""
        (call,) = self.random.choices(self._calls, self._weights)
        arguments = [
            self._argument(kind, value)
            for kind, value in zip(call.kinds, call.arguments, strict=True)
        ]
        if call.optional and self.random.random() < 0.1:
            arguments = arguments[: len(arguments) - call.optional]
        if self.random.random() < 0.01:
            arguments = arguments[: self.random.randrange(len(arguments) + 1)]
        return call.name, arguments

    def _argument(self, kind: str, value: Any) -> Any:
        if kind == "vehicle":
            return (
                self._text() if self.random.random() < 0.02 else self.random.choice(self.vehicles)
            )
        luck = self.random.random()
        if luck < 0.5:
            return value
        if luck < 0.97:
            return self._twisted(value)
        return self._other()

    def _twisted(self, value: Any) -> Any:
        """Return a value of the same type with some of its parts changed."""
        if isinstance(value, bool):
            return self.random.random() < 0.5
        if isinstance(value, int | float):
            return self._number(value)
        if isinstance(value, str):
            return value if self.random.random() < 0.5 else self._text()
        if isinstance(value, Mapping):
            return {key: self._part(part) for key, part in value.items()}
        return self._list(value)

    def _part(self, value: Any) -> Any:
        return value if self.random.random() < 0.6 else self._twisted(value)

    def _number(self, value: float) -> Any:
        luck = self.random.random()
        if isinstance(value, int) and luck < 0.5:
            return self.random.choice(_WHOLE)
        if luck < 0.4:
            return self.random.choice((-1.0, 1.0)) * self.random.choice(_ENDS)
        if luck < 0.8:
            return self.random.choice((-1.0, 1.0)) * 10.0 ** self.random.uniform(-30.0, 30.0)
        return self.random.choice(_EXTREMES)

    def _list(self, value: Sequence[Any]) -> list[Any]:
        luck = self.random.random()
        if luck < 0.1 or not value:
            return []
        if luck < 0.15:
            return [self.random.choice(value)] * self.random.choice((20, 70, 250, 3000))
        return [self._part(part) for part in value]

    def _text(self) -> str:
        return self.random.choice(_TEXTS)

    def _other(self) -> Any:
        """Return a value of any type, such as lists in lists in lists."""
        nested: Any = []
        for _ in range(self.random.choice((1, 4, 9))):
            nested = [nested] if self.random.random() < 0.5 else {"x_val": nested, "position": 1}
        return self.random.choice(
            (None, True, 7, "far", [], {}, b"\xff\0", [[]], nested, [None] * 1000)
        )


@dataclass(slots=True)
class ExtremeProgram:
    """A program that makes extreme calls and looks whether every vehicle still has a finite pose.

    Attributes:
        calls, errors: by method. problems: what must not happen.
    """

    peer: AirsimConnection
    seed: int
    calls: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    ended: int = 0
    _drawn: ExtremeCalls = field(init=False)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._drawn = ExtremeCalls(self._random, self.peer("listVehicles"))

    def run(self, count: int) -> None:
        """Make that many calls."""
        while count > 0:
            together = min(count, self._random.randint(1, _MOST_IN_FLIGHT))
            self.burst(together)
            count -= together

    def burst(self, count: int) -> None:
        """Make some calls at once, end what takes long, and look at the vehicles."""
        drawn = [self._drawn.draw() for _ in range(count)]
        asked = [self.peer.send(name, *arguments) for name, arguments in drawn]
        vehicles = self._drawn.vehicles
        for name in vehicles:
            self.peer.send("cancelLastTask", name)
        steps = [number for number, (name, _) in zip(asked, drawn, strict=True) if name in _CLOCK]
        if steps:  # one of a day ends
            self.peer.wait(self.peer.send("simPause", True), *steps)
            self.peer.send("simPause", False)
        for call, (error, result) in zip(drawn, self.peer.answers(*asked), strict=True):
            self._judge(*call, error, result)
        self._look(vehicles)
        self._restore([name for name, _ in drawn if name in _GAINS])

    def _restore(self, gains: Sequence[str]) -> None:
        """Give vehicles their gains back, and now and then let all fly again from their starts."""
        for name in gains:
            p, i = _GAINS[name]
            for vehicle in self._drawn.vehicles:
                self.peer.send(name, p, i, [0.0] * 3, vehicle)
        if self._random.random() < 0.2:
            self.peer.answers(self.peer.send("stopRecording"), self.peer.send("reset"))
            self._look(self._drawn.vehicles, after_reset=True)

    def _judge(self, name: str, arguments: list[Any], error: str | None, result: Any) -> None:
        self.calls[name] += 1
        if error is not None:
            self.errors[name] += 1
            self.ended += "no longer physical" in error
            if not error.startswith("rpclib: ") or _INTERNAL.search(error) or len(error) > 2500:
                self._tell(name, arguments, error[:600])
        elif name == "simSpawnObject":
            self.peer.send("simDestroyObject", result)

    def _look(self, vehicles: Sequence[str], *, after_reset: bool = False) -> None:
        asked = [self.peer.send("simGetGroundTruthKinematics", name) for name in vehicles]
        for name, (error, state) in zip(vehicles, self.peer.answers(*asked), strict=True):
            numbers = [] if error is not None else list(_leaves(state))
            if error is not None or not all(math.isfinite(number) for number in numbers):
                when = "after a reset" if after_reset else "after the calls"
                self.problems.append(f"{name} {when}: {error} {state}")

    def _tell(self, name: str, arguments: list[Any], text: str) -> None:
        shown = repr(msgspec.to_builtins(arguments))[:400]
        self.problems.append(f"{name}{shown}: {text}")


def _leaves(node: Any) -> list[float]:
    if isinstance(node, Mapping):
        return [number for part in node.values() for number in _leaves(part)]
    return [float(node)]
