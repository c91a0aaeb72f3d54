"""The model of calls that the soak of AirSim's server judges answers by."""

from __future__ import annotations

import random

import pytest

from tests.soak.airsim_calls import Call, CallModel, Method
from tests.unit.servers.test_airsim_names import served

OPEN = Method((), bool, open_error="already moving")


def model(kind: str) -> CallModel:
    return CallModel(random.Random(3), kind, ["Drone1"], ["Cube"], "/nowhere")


def test_it_knows_every_served_method() -> None:
    assert set(model("multirotor").methods) == served()


@pytest.mark.parametrize("kind", ["multirotor", "car"])
def test_a_call_succeeds_if_it_is_right_and_for_this_vehicle(kind: str) -> None:
    calls = model(kind)
    for name, method in calls.methods.items():
        assert calls.call(name, wrong=False).succeeds == (method.vehicle in ("", kind))
        assert calls.call(name, wrong=True).succeeds == (not method.arguments)


@pytest.mark.parametrize(
    ("succeeds", "error", "result", "problem"),
    [
        (True, None, True, ""),
        (True, None, 1, "wrong result"),
        (True, "already moving at 3 m/s", None, ""),
        (True, "another", None, "must succeed"),
        (False, "another", None, ""),
        (False, None, True, "must be refused"),
        (False, "function 'x' failed inside the server; see its log", None, "must succeed"),
    ],
)
def test_an_answer_is_judged(
    succeeds: bool, error: str | None, result: object, problem: str
) -> None:
    found = Call("x", (), OPEN, succeeds).problem(error, result)
    assert found.startswith(problem) and bool(found) == bool(problem)
