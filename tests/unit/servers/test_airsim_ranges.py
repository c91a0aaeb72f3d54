"""Ranges of the numbers of AirSim's arguments.

Every one has one, and an error says method, place, range and value.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import pkgutil
import re
import typing
from collections.abc import Iterator
from importlib import import_module
from typing import Any, get_args

import msgspec
import pytest

import vil_simulation.airsim as room
from tests.support.airsim_calls import pose, vector
from tests.support.common import ROOT
from vil_simulation.airsim.geometry_methods import GeometryMethods
from vil_simulation.airsim.image_methods import ImageMethods
from vil_simulation.airsim.methods import ArrayOf, MethodTable, method
from vil_simulation.airsim.msgpack_rpc import RpcError
from vil_simulation.airsim.quantities import (
    DegreesPerSecond,
    Duration,
    FieldOfView,
    Frames,
    Metres,
    range_of,
)
from vil_simulation.airsim.sky_methods import SkyMethods
from vil_simulation.airsim.state_methods import StateMethods
from vil_simulation.airsim.values import (
    DrawnPose,
    GivenKinematics,
    GivenPose,
    Pose,
    Quaternionr,
    RCData,
    Vector3r,
    WindNed,
    YawMode,
)
from vil_simulation.airsim.weather_methods import WeatherMethods
from vil_simulation.vehicles import physical_ranges
from vil_simulation.vehicles.physical_ranges import PhysicalRange

NAN_LEAVES_IT = (GivenPose, GivenKinematics)
"""Their positions and attitudes may hold NaN, so that the type's own check has the range."""
GUIDE = ROOT / "docs" / "guides" / "airsim.md"
CHECKED_INSIDE = {("waitOnLastTask", "timeout_sec")}
"""NaN waits as long as it takes."""


def served() -> Iterator[tuple[str, str, Any]]:
    """Yield method, argument and type of everything that programs may send."""
    for module in pkgutil.iter_modules(room.__path__):
        found = import_module(f"{room.__name__}.{module.name}")
        for _, cls in inspect.getmembers(found, inspect.isclass):
            for _, function in inspect.getmembers(cls, inspect.isfunction):
                if cls.__module__ == found.__name__ and hasattr(function, "rpc_name"):
                    hints = typing.get_type_hints(function, include_extras=True)
                    hints.pop("return", None)
                    yield from ((function.rpc_name, name, hint) for name, hint in hints.items())


def numbers(cls: Any, place: str) -> Iterator[tuple[str, bool]]:
    """Yield the places of the floats of a type, and whether each has a range."""
    if range_of(cls) is not None:
        yield place, True
    elif cls is float:
        yield place, False
    elif any(isinstance(mark, ArrayOf) for mark in getattr(cls, "__metadata__", ())):
        yield from numbers(cls.__metadata__[0].wire, place)
    elif isinstance(cls, type) and issubclass(cls, msgspec.Struct):
        for field in msgspec.structs.fields(cls):
            if not (cls in NAN_LEAVES_IT and field.type in (Vector3r, Quaternionr)):
                yield from numbers(field.type, f"{place}.{field.name}")
    else:
        for part in get_args(cls):
            yield from numbers(part, place)


def test_every_number_of_every_method_has_a_range() -> None:
    found = {
        (name, argument, place): ranged
        for name, argument, cls in served()
        if (name, argument) not in CHECKED_INSIDE
        for place, ranged in numbers(cls, argument)
    }
    assert len(found) > 150
    assert not [place for place, ranged in found.items() if not ranged]


def test_every_range_is_of_one_kind_and_holds_a_number() -> None:
    table = [one for one in vars(physical_ranges).values() if isinstance(one, PhysicalRange)]
    assert len({one.kind for one in table}) == len(table) > 30
    for one in table:
        assert one.least in one and one.most in one and one.least < one.most
        assert math.nan not in one and math.inf not in one and -math.inf not in one


def test_the_guide_has_the_table() -> None:
    table = [one for one in vars(physical_ranges).values() if isinstance(one, PhysicalRange)]
    assert [f"| {one.kind} | {one} |" for one in table] == [
        row
        for row in GUIDE.read_text().splitlines()
        if re.fullmatch(r"\| [^|]+ \| from .* to [^|]* \|", row)
    ]


class Methods:
    @method("fly")
    def fly(
        self,
        z: Metres,
        duration: Duration,
        yaw_mode: YawMode,
        rate: DegreesPerSecond = 0.0,
        frames: Frames = 0,
    ) -> str:
        return "flown"

    @method("place")
    def place(self, pose: GivenPose, state: GivenKinematics) -> list[float]:
        return [pose.position.x_val, state.position.x_val]

    @method("see")
    def see(self, wind: WindNed, poses: list[DrawnPose], fov: FieldOfView, sticks: RCData) -> str:
        return "seen"


class Caller:
    host = "127.0.0.1"


TABLE = MethodTable([Methods()], {})
FLY: list[Any] = [-3.0, 3e38, {"is_rate": False, "yaw_or_rate": 90}, 20.0, 1]
PLACE: list[Any] = [pose(1.0), {**pose(2.0), "angular_velocity": vector(1.0)}]
SEE: list[Any] = [vector(1.0), [pose(1.0)], 90.0, {"timestamp": 5, "pitch": 0.5}]


NO_NUMBERS = [math.nan, math.inf, -math.inf]
ROOMS = (GeometryMethods, ImageMethods, SkyMethods, StateMethods, WeatherMethods)
SERVED = MethodTable([cls.__new__(cls) for cls in ROOMS], {})
"""Methods that AirSim's programs call, without what they act on."""


def call(name: str, arguments: list[Any]) -> object:
    return TABLE.call(Caller(), name, arguments)


def test_what_real_clients_send_is_taken() -> None:
    assert call("fly", FLY) == "flown" and call("see", SEE) == "seen"
    assert call("fly", [3, 1, {}, 0, 0]) == "flown"
    unknown = {"position": vector(math.nan, math.nan, math.nan), "orientation": {"w_val": math.nan}}
    first, second = call("place", [unknown, unknown])  # type: ignore[misc]
    assert math.isnan(first) and math.isnan(second)  # type: ignore[has-type]


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("fly", [math.nan, *FLY[1:]], "argument 1 (z) must be from -1e+06 to 1e+06 m, not nan"),
        ("fly", [-1.5e6, *FLY[1:]], "argument 1 (z) must be from -1e+06 to 1e+06 m, not -1.5e+06"),
        (
            "fly",
            ["inf", *FLY[1:]],
            "argument 1 (z) is wrong: Expected `float` <= 1000000.0, not 'inf'",
        ),
        (
            "fly",
            [0, math.inf, *FLY[2:]],
            "argument 2 (duration) must be from -3.40282e+38 to 3.40282e+38 s, not inf",
        ),
        (
            "fly",
            [0, 1, {"yaw_or_rate": 1e9}],
            "argument 3 (yaw_mode.yaw_or_rate) must be from -1e+06 to 1e+06 deg or "
            "deg/s, not 1e+09",
        ),
        ("fly", [*FLY[:3], -1e4], "argument 4 (rate) must be from -6000 to 6000 deg/s, not -10000"),
        ("fly", [*FLY[:4], -1], "argument 5 (frames) must be from 0 to 1e+08, not -1"),
        (
            "place",
            [pose(math.inf), PLACE[1]],
            "argument 1 (pose) is wrong: position.x_val must be from -1e+06 to 1e+06 m, "
            "or NaN for unchanged",
        ),
        (
            "place",
            [PLACE[0], {"angular_velocity": vector(0.0, 1000.0)}],
            "argument 2 (state.angular_velocity.y_val) must be from -100 to 100 rad/s, not 1000",
        ),
        (
            "place",
            [PLACE[0], {"linear_acceleration": vector(math.nan)}],
            "(state.linear_acceleration.x_val) must be",
        ),
        (
            "see",
            [vector(0.0, 300.0), *SEE[1:]],
            "argument 1 (wind.y_val) must be from -200 to 200 m/s, not 300",
        ),
        (
            "see",
            [SEE[0], [pose(), pose(0.0, 2e6)], *SEE[2:]],
            "argument 2 (poses[1].position.y_val) must be from -1e+06 to 1e+06 m, not 2e+06",
        ),
        ("see", [*SEE[:2], 0.5, SEE[3]], "argument 3 (fov) must be from 1 to 179 deg, not 0.5"),
        ("see", [*SEE[:3], {"yaw": 1.5}], "argument 4 (sticks.yaw) must be from -1 to 1, not 1.5"),
        (
            "see",
            [*SEE[:3], {"yaw": "a" * 99}],
            f"(sticks.yaw) is wrong: Expected `float`, got `str`, not '{'a' * 40}'",
        ),
        (
            "see",
            [*SEE[:3], {"yaw": [[]]}],
            "argument 4 (sticks.yaw) is wrong: Expected `float`, got `array`",
        ),
    ],
)
def test_an_error_says_method_place_range_and_value(
    name: str, arguments: list[Any], text: str
) -> None:
    with pytest.raises(RpcError) as raised:
        call(name, arguments)
    assert text in str(raised.value) and f"function '{name}'" in str(raised.value)


def turned(part: float) -> dict[str, Any]:
    return {
        "position": vector(),
        "orientation": {"w_val": 1.0, "x_val": 0.0, "y_val": part, "z_val": 0.0},
    }


@pytest.mark.parametrize(
    ("name", "arguments", "place", "refused"),
    [
        (
            "simSetCameraFov",
            ["0", ...],
            "fov_degrees",
            [0.0, 0.99, -90.0, 179.1, 180.0, *NO_NUMBERS],
        ),
        ("simSetDistortionParam", ["0", "K1", ...], "value", [-1001.0, 1001.0, *NO_NUMBERS]),
        ("simCreateVoxelGrid", [vector(), ..., 1, 1, 0.5, "a.binvox"], "x", [0, -1, 1 << 40]),
        ("simCreateVoxelGrid", [vector(), 1, ..., 1, 0.5, "a.binvox"], "y", [0, -1, 1 << 40]),
        ("simCreateVoxelGrid", [vector(), 1, 1, ..., 0.5, "a.binvox"], "z", [0, -1, 1 << 40]),
        (
            "simCreateVoxelGrid",
            [vector(), 1, 1, 1, ..., "a.binvox"],
            "res",
            [0.0, -0.5, *NO_NUMBERS],
        ),
        ("simSetTimeOfDay", [True, "", False, ..., 60.0], "celestial_clock_speed", NO_NUMBERS),
        (
            "simSetTimeOfDay",
            [True, "", False, 1.0, ...],
            "update_interval_secs",
            [-1.0, *NO_NUMBERS],
        ),
        ("simSetWeatherParameter", [0, ...], "val", NO_NUMBERS),
    ],
)
def test_methods_refuse_numbers_without_a_meaning(
    name: str, arguments: list[Any], place: str, refused: list[float]
) -> None:
    """Their own objects are missing: a number that gets past the ranges ends in another error."""
    for number in refused:
        with pytest.raises(
            RpcError, match=rf"\({place}\) must be from .* not {re.escape(f'{number:g}')}"
        ):
            SERVED.call(Caller(), name, [number if one is ... else one for one in arguments])


@pytest.mark.parametrize("absurd", [math.inf, -math.inf, 2e9, -2e9])
def test_poses_of_absurd_numbers_are_refused(absurd: float) -> None:
    for given in (pose(absurd), pose(0.0, absurd), pose(0.0, 0.0, absurd), turned(absurd)):
        for name, arguments in (
            ("simSetVehiclePose", [given, True]),
            ("simSetCameraPose", ["0", given]),
        ):
            with pytest.raises(
                RpcError, match=r"\(pose\) is wrong: .*_val must be from -1e\+06 to 1e\+06"
            ):
                SERVED.call(Caller(), name, arguments)


def test_results_have_no_ranges() -> None:
    """Answers of the bridge have no ranges: a vehicle may be where no program may put it."""
    assert Pose(Vector3r(5e6)).position.x_val == 5e6
    assert not any(dataclasses.is_dataclass(cls) for cls in NAN_LEAVES_IT)
