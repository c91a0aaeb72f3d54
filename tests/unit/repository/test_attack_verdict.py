"""The judgement of attacks.

A bridge that loses pictures, or does not see who attacks, does not pass.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.attacks.attack import growth, program, seen
from tests.attacks.harness import _cpu_s
from tests.attacks.run import ATTACKS, load
from tests.attacks.verdict import Round, Verdict, judge_rate, share
from tests.support.programs import Program


def _rounds(*pictures: tuple[int, int]) -> list[Round]:
    return [Round(2.0, 2.0, attack, reference, 1.0, 1.0) for attack, reference in pictures]


def test_pictures_lost_to_an_attacker_are_a_problem() -> None:
    assert judge_rate(_rounds((48, 60), (50, 60)), 0.8) == []
    assert judge_rate(_rounds((2, 60), (50, 60)), 0.8) == [
        "43% of the reference picture rate, less than 80%"
    ]
    assert judge_rate(_rounds((0, 60)), 0.8) == ["0% of the reference picture rate, less than 80%"]


def test_phases_of_unequal_length_are_compared_by_rate() -> None:
    assert share([Round(4.0, 2.0, 60, 60, 1.0, 1.0)]) == 0.5


def test_a_machine_without_pictures_proves_nothing() -> None:
    (problem,) = judge_rate(_rounds((9, 9), (10, 10)), 0.8)
    assert problem.startswith(
        "19 pictures during the attack and 19 next to the harmless process are too few"
    )
    assert judge_rate(_rounds((3, 19)), 0.8)
    assert judge_rate([], 0.8)


@pytest.mark.parametrize("reference", [0, 9, 19])
def test_other_work_during_the_reference_is_not_the_attacks_doing(reference: int) -> None:
    assert judge_rate(_rounds((20, reference)), 0.8) == []


def test_only_counters_that_grew_show_an_attacker() -> None:
    before = {
        "outputs": {"a": {"malformed": 3, "ok": True}},
        "faults": {"http": {}},
        "list": [{"refused": 1}],
    }
    after = {
        "outputs": {"a": {"malformed": 5, "ok": False}},
        "faults": {"http": {"late": 2}},
        "list": [{"refused": 1}],
    }
    assert growth(before, after) == {"outputs.a.malformed": 2, "faults.http.late": 2}
    assert seen(before, after, "malformed") == "outputs.a.malformed +2"
    assert seen(before, after, "refused") == ""


def test_the_words_say_who_failed() -> None:
    assert Verdict("flood", "", _rounds((60, 60)), "x +1", []).words == (
        "flood: held, 1 rounds, 100% of the reference picture rate; status: x +1"
    )
    assert (
        Verdict("flood", "", [], "", ["dead"]).words
        == "flood: FAILED, 0 rounds, no round; status: nothing"
    )


@pytest.mark.process
def test_the_harmless_process_uses_no_more_than_its_share() -> None:
    with Program(*program("tests.attacks.burn", 0.3)) as process:
        process.await_text("^ready\n")
        first_s, begun_s = _cpu_s(process.pid), time.monotonic()
        while not (spent_s := _cpu_s(process.pid) - first_s) and time.monotonic() - begun_s < 20.0:
            time.sleep(0.2)
        time.sleep(0.5)
        spent_s = _cpu_s(process.pid) - first_s
        assert 0.0 < spent_s < 0.3 * (time.monotonic() - begun_s) + 0.1
    assert _cpu_s(os.getpid()) > 0.0


def test_every_attack_is_described() -> None:
    for name in ATTACKS:
        attack = load(name)
        assert attack.summary and 0.0 < attack.least_share <= 1.0
