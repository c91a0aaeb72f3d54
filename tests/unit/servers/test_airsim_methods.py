"""The method table: conversion of arguments, defaults, surplus ones, and rpclib's error texts."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from vil_bridge.core.errors import RendererError
from vil_simulation.airsim.methods import MethodTable, NoSuchVehicle, method
from vil_simulation.airsim.msgpack_rpc import RpcError
from vil_simulation.airsim.values import Points, Pose, YawMode


class Methods:
    @method("move")
    async def move(
        self, x: float, pose: Pose, names: list[str], yaw: YawMode, vehicle_name: str = ""
    ) -> list[Any]:
        return [x, pose.position.x_val, names, yaw.yaw_or_rate, vehicle_name]

    @method("fail")
    def fail(self, kind: str) -> None:
        raise {
            "vehicle": NoSuchVehicle("no vehicle 'x'"),
            "value": ValueError("too far."),
            "draw": RendererError("no"),
        }[kind]

    @method("fail later")
    async def fail_later(self, kind: str) -> None:
        self.fail(kind)

    @method("fly")
    async def fly(self, path: Points, times_s: list[float], texts: list[str] = []) -> list[Any]:  # noqa: B006
        return [path.shape, path.sum(axis=0).tolist(), len(times_s), sum(times_s), len(texts)]

    @method("plot", effect=False)
    def plot(self, x: int, y: int) -> None:
        pass


class Caller:
    host = "127.0.0.1"


TABLE = MethodTable([Methods()], {"lens": "no lenses here"})
POSE: dict[str, Any] = {"position": {"x_val": 3, "y_val": 0, "z_val": 0, "surplus": None}}


async def call(name: str, *arguments: Any) -> object:
    result = TABLE.call(Caller(), name, arguments)
    return await result if isinstance(result, Coroutine) else result


async def test_whole_numbers_are_floats_and_absent_fields_have_defaults() -> None:
    assert await call("move", 1, POSE, ["a"], {}) == [1.0, 3.0, ["a"], 0.0, ""]


@pytest.mark.parametrize("count", [0, 1, 256, 257, 3000])
async def test_lists_are_arrays_and_lists_of_any_length(count: int) -> None:
    point = {"x_val": 1, "y_val": 2.5}
    answer = await call("fly", [point] * count, [7] * count, ["a"] * count)
    assert answer == [(count, 3), [float(count), 2.5 * count, 0.0], count, 7.0 * count, count]


async def test_long_lists_are_converted_in_turns_of_the_loop() -> None:
    """Each turn converts some hundred elements: other calls begin between."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    await call("fly", [{}] * 30_000, [7] * 30_000)
    counting.cancel()
    assert turns > 200


async def test_what_is_wrong_in_a_long_list_is_named_with_its_place() -> None:
    path: list[Any] = [{}] * 1000
    path[700] = {"x_val": "far"}
    with pytest.raises(RpcError, match=r"argument 1 \(path\[700\]\.x_val\) is wrong: .*not 'far'"):
        await call("fly", path, [])
    path[700] = {"x_val": 2e6}
    with pytest.raises(
        RpcError, match=r"argument 1 \(path\[700\]\.x_val\) must be from .* m, not 2e\+06"
    ):
        await call("fly", path, [])


async def test_trailing_arguments_may_be_absent_or_more() -> None:
    assert await call("move", 1, POSE, [], {"yaw_or_rate": -3}, "D", False, "annotation") == [
        1.0,
        3.0,
        [],
        -3.0,
        "D",
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("none", (1, 2), "rpclib: server could not find function 'none' with argument count 2."),
        (
            "move",
            (1,),
            "rpclib: Function 'move' was called with an invalid number of arguments. "
            "Expected: 5, got: 1",
        ),
        (
            "plot",
            (1,),
            "rpclib: Function 'plot' was called with an invalid number of arguments. "
            "Expected: 2, got: 1",
        ),
        (
            "fail",
            ("value",),
            "rpclib: function 'fail' (called with 1 arg(s)) threw an exception. "
            "The exception contained this information: too far.",
        ),
        (
            "lens",
            (),
            "rpclib: function 'lens' (called with 0 arg(s)) threw an exception. "
            "The exception contained this information: no lenses here.",
        ),
    ],
)
async def test_errors_have_rpclibs_texts(name: str, arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(RpcError) as raised:
        await call(name, *arguments)
    assert str(raised.value) == text


@pytest.mark.parametrize("name", ["fail", "fail later"])
@pytest.mark.parametrize("kind", ["vehicle", "draw"])
async def test_failures_of_the_bridge_reach_the_caller(name: str, kind: str) -> None:
    with pytest.raises(RpcError, match="threw an exception"):
        await call(name, kind)


def test_a_method_that_does_not_wait_returns_its_result() -> None:
    assert TABLE.call(Caller(), "plot", (1, 2)) is None


@pytest.mark.parametrize(
    "wrong", [("far", POSE, [], {}), (1, 7, [], {}), (1, POSE, "a", {}), (None, POSE, [], {})]
)
async def test_arguments_of_another_type_are_refused(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(RpcError, match="threw an exception"):
        await call("move", *wrong)


async def test_an_accepted_name_answers_and_a_missing_one_is_counted() -> None:
    assert await call("plot", 1, 2) is None
    before = TABLE.unanswered["lens"]
    with pytest.raises(RpcError):
        await call("lens")
    assert (
        TABLE.unanswered["lens"] == before + 1
        and "plot" in TABLE.names
        and "lens" not in TABLE.names
    )
