"""Every method of AirSim's RPC with valid, wrong and absurd arguments.

Results field by field, errors in words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import cache
from typing import Any, Final

import pytest

from tests.support.airsim_calls import Call, calls, vector
from tests.support.airsim_server import CLIENT, AirsimConnection, serving
from tests.support.airsim_shapes import STRUCTS, problem_of
from tests.support.programs import run

pytestmark = pytest.mark.process

_LONGEST_ERROR: Final = 1500
SETTINGS: Final[Mapping[str, dict[str, Any]]] = {
    "Multirotor": {
        "ClockSpeed": 5,
        "Vehicles": {
            "Drone1": {
                "VehicleType": "SimpleFlight",
                "Sensors": {
                    "Distance": {"SensorType": 5, "Enabled": True, "Pitch": -90},
                    "Lidar": {"SensorType": 6, "Enabled": True, "PointsPerSecond": 2000},
                },
            }
        },
    },
    "Car": {"SimMode": "Car", "ClockSpeed": 5},
}


@pytest.fixture(scope="module")
def server_of(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], AirsimConnection]]:
    """Return the connection to a mode's server, which starts at its first call.

    A world takes most of a processor.

    All calls of the mode use the connection: none of them may end it.
    """
    with ExitStack() as stack:

        @cache
        def connection(mode: str) -> AirsimConnection:
            port = stack.enter_context(serving(SETTINGS[mode], tmp_path_factory.mktemp(mode)))
            return stack.enter_context(closing(AirsimConnection(port)))

        yield connection


def prepare(call: AirsimConnection) -> None:
    """Undo what the calls before did."""
    call("simPause", False)
    try_to(call, "simSetWind", vector())  # cars have none
    try_to(call, "simSetExtForce", vector())
    call("stopRecording")
    call("reset")
    call("enableApiControl", True)
    try_to(call, "armDisarm", True)


def try_to(call: AirsimConnection, method: str, *arguments: Any) -> tuple[str | None, Any]:
    """Call, cancel what takes long, and return error and result."""
    asked = call.send(method, *arguments)
    cancelled = call.send("cancelLastTask")
    return call.answers(asked, cancelled)[0]


def wrong_answer(one: Call, answer: tuple[str | None, Any], text: str | None) -> str:
    """Return what is wrong with an answer, empty = nothing.

    ``text`` is a part of the error that must come.
    """
    error, result = answer
    if error is None:
        return "it is not refused" if text is not None else problem_of(result, one.result)
    fits = (
        error.startswith("rpclib: ")
        and "inside the server" not in error
        and len(error) < _LONGEST_ERROR
    )
    return "" if fits and (text or "") in error else error[:_LONGEST_ERROR]


def drones_first() -> list[Call]:
    """Return all calls, those of each mode together."""
    return sorted(calls(), key=lambda one: one.mode == "Car")


@pytest.mark.parametrize("one", drones_first(), ids=lambda one: one.name)
def test_a_call_answers_whatever_its_arguments_are(
    one: Call, server_of: Callable[[str], AirsimConnection]
) -> None:
    call = server_of(one.mode)
    prepare(call)
    ((error, result),) = call.answers(call.send(one.name, *one.arguments))
    if refusal := one.refused or one.absent:
        assert error is not None and refusal in error
    else:
        assert error is None and not problem_of(result, one.result)
    tried: list[tuple[tuple[Any, ...], str | None]]
    tried = [(arguments, one.refused or text) for arguments, text in one.wrong()]
    tried += [(arguments, one.refused or None) for arguments in one.absurd()]
    problems = {}
    for arguments, text in tried:
        if problem := wrong_answer(one, try_to(call, one.name, *arguments), text):
            problems[f"{arguments!r:.200}"] = problem
    assert not problems
    assert call("ping") is True


CLASSES: Final = """
import airsim, json
def described(cls):
    fields = {n: v for n, v in vars(cls).items() if not n.startswith("_") and not callable(v)
              and not isinstance(v, (classmethod, staticmethod))}
    return {n: type(v).__name__ for n, v in fields.items()}
names = %s
print(json.dumps({name: described(getattr(airsim, name)) for name in names}))
"""


def test_the_client_reads_every_field() -> None:
    """The client's classes have the fields of the results, and a struct wherever a map comes."""
    if not (CLIENT / ".installed").exists():
        pytest.skip("AirSim's client is missing: sh scripts/airsim_client.sh")
    done = run(CLIENT / "bin" / "python", "-c", CLASSES % sorted(STRUCTS), limit_s=120.0)
    assert done.returncode == 0, done.stderr
    classes = json.loads(done.stdout)
    for name, shape in STRUCTS.items():
        for field, part in shape.items():
            if isinstance(part, Mapping):
                assert STRUCTS[classes[name][field]] == part, (name, field)
        # AirSim's own server leaves these out, and its client has no camera_name.
        absent = classes[name].keys() - shape.keys()
        switches = {f"switch{number}" for number in range(1, 9)}
        assert absent <= {"ready", "ready_message", "can_arm", "collision"} | switches, (
            name,
            absent,
        )
