"""Whom the inertial source asks for the rate, for which message, and when it asks again."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from vil_adapters.mavlink_imu.codec import MESSAGE_OF, ImuKind
from vil_adapters.sessions.mavlink_session import RateRequest
from vil_bridge.protocols.mavlink.messages import (
    AttitudeQuaternion,
    CommandAck,
    LocalPositionNed,
    Odometry,
)

MS = 1_000_000
FC = (7, 1)
US = {"target_system": 1, "target_component": 191}
ALL: tuple[ImuKind, ...] = ("highres", "scaled", "raw")
NUMBERS = {105.0: "highres", 26.0: "scaled", 27.0: "raw"}


def request() -> RateRequest[ImuKind]:
    return RateRequest({kind: (MESSAGE_OF[kind],) for kind in ALL}, 250.0)


def asked(
    asking: RateRequest[ImuKind],
    times_ms: Iterable[int],
    flowing: ImuKind | None,
    rate_hz: float,
    heard: bool = True,
) -> list[tuple[int, str]]:
    """When and for what it asks while this comes."""
    questions = []
    for t_ms in times_ms:
        if heard:
            asking.received(FC, t_ms * MS)
        for command in asking.due(t_ms * MS, flowing, rate_hz):
            assert (command.command, command.param2) == (511, 4000.0)
            assert (command.target_system, command.target_component) == FC
            questions.append((t_ms, NUMBERS[command.param1]))
    return questions


def test_nobody_is_asked_before_somebody_was_heard() -> None:
    asking = request()
    assert not asked(asking, range(0, 10_000, 100), None, 0.0, heard=False)
    assert asked(asking, [10_000], None, 0.0) == [(10_000, "highres")]


def test_enough_is_eighty_percent() -> None:
    asking = request()
    assert asked(asking, range(0, 20_000, 100), "highres", 200.0) == [(0, "highres")]
    assert asked(asking, [20_000], "highres", 199.0) == [(20_000, "highres")]


def test_a_slow_message_is_asked_for_again_and_no_other() -> None:
    questions = asked(request(), range(0, 6_100, 100), "highres", 50.0)
    assert questions == [(t_ms, "highres") for t_ms in (0, 2000, 4000, 6000)]


def test_without_an_answer_the_next_message_has_its_turn() -> None:
    questions = asked(request(), range(0, 6_100, 100), None, 0.0)
    assert questions == [(0, "highres"), (2000, "scaled"), (4000, "raw"), (6000, "highres")]


@pytest.mark.parametrize(("result", "then"), [(0, "highres"), (4, "scaled")])
def test_what_was_agreed_to_is_waited_for_and_what_was_refused_is_not(
    result: int, then: str
) -> None:
    asking = request()
    asked(asking, [0], None, 0.0)
    assert asking.answered(FC, CommandAck(511, result, **US))
    assert asked(asking, [2000], None, 0.0) == [(2000, then)]


def test_a_restarted_autopilot_is_asked_at_once_for_what_it_sent_before() -> None:
    asking = request()
    asked(asking, range(0, 2_100, 100), None, 0.0)
    assert asking.kind == "scaled"
    asking.restart()
    assert asked(asking, [2200, 2300], "scaled", 250.0) == [(2200, "scaled")]


def test_a_silent_autopilot_is_asked_when_it_is_back() -> None:
    asking = request()
    asked(asking, [0], "highres", 250.0)
    assert not asked(asking, range(3_100, 60_000, 100), None, 0.0, heard=False)
    assert asking.peer is None
    assert asked(asking, [60_000], "highres", 250.0) == [(60_000, "highres")]


def test_another_autopilot_is_asked_itself() -> None:
    asking = request()
    asked(asking, [0], "highres", 250.0)
    asking.received((9, 1), 100 * MS)
    (command,) = asking.due(100 * MS, "highres", 250.0)
    assert (command.target_system, command.target_component) == (9, 1)


def test_only_the_answer_to_our_question_counts_and_only_once() -> None:
    asking = request()
    good = CommandAck(511, 0, **US)
    assert not asking.answered(FC, good), "nothing was asked"
    asked(asking, [0], None, 0.0)
    assert not asking.answered((9, 1), good)
    assert not asking.answered(FC, CommandAck(512, 0, **US))
    assert not asking.answered(FC, CommandAck(511, 0, target_system=255, target_component=190))
    assert asking.answered(FC, CommandAck(511, 0)), "version 1 does not say to whom"
    assert not asking.answered(FC, good)


@pytest.mark.parametrize(
    ("results", "then"), [((0, 0), [32.0, 31.0]), ((0,), [331.0]), ((0, 4), [331.0])]
)
def test_a_kind_of_two_messages_is_agreed_to_when_both_are(
    results: tuple[int, ...], then: list[float]
) -> None:
    asking = RateRequest({"both": (LocalPositionNed, AttitudeQuaternion), "one": (Odometry,)}, 50.0)
    asking.received(FC, 0)
    assert [command.param1 for command in asking.due(0, None, 0.0)] == [32.0, 31.0]
    for result in results:
        assert asking.answered(FC, CommandAck(511, result, **US))
    asking.received(FC, 2000 * MS)
    assert [command.param1 for command in asking.due(2000 * MS, None, 0.0)] == then
