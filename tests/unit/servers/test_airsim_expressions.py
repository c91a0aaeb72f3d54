"""Expressions and wildcards of clients: AirSim's grammar, in linear time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from vil_simulation.airsim.expressions import compiled, matching, wildcards

NAMES = ("Gate0", "Gate1_2", "Wall 1", "gate.3", "é")


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        (".*", NAMES),
        ("Gate.*", NAMES[:2]),
        (r"Gate\d(_\d)?", NAMES[:2]),
        ("[[:alpha:]]+ [^a-z]", NAMES[2:3]),
        (r"(Wall|gate)\W\d+?", NAMES[2:4]),
        ("Gate", ()),
        ("^Gate0$", NAMES[:1]),
        ("(?:Ga){1}te0", NAMES[:1]),
        (".", NAMES[4:]),
    ],
)
async def test_whole_names_match(expression: str, found: Sequence[str]) -> None:
    assert await matching(NAMES, expression) == list(found)


async def test_case_matters_unless_it_is_ignored() -> None:
    assert await matching(NAMES, "gate.*") == ["gate.3"]
    assert await matching(NAMES, "gate.*", ignore_case=True) == ["Gate0", "Gate1_2", "gate.3"]


def test_wildcards_stand_for_others_and_all_else_for_itself() -> None:
    pattern = wildcards("gate.[*?")
    assert pattern.fullmatch("GATE.[x") and pattern.fullmatch("gate.[abc")
    assert not pattern.fullmatch("gate.[") and not pattern.fullmatch("gateX[x")


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("(", "invalid"),
        ("[z-a]", "invalid"),
        ("a" * 300, "at most 256"),
        (r"(a)\1", "Back references"),
        ("(?=a)b", "look-around"),
        ("(((a{1,1000}){1,1000}){1,1000})b", "invalid"),
        (r"\pL{255}", "AirSim lacks"),
        ("\ud800", "invalid"),
    ],
)
def test_what_is_no_expression_of_linear_time_is_refused(expression: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        compiled(expression)


@pytest.mark.parametrize(
    "expression",
    ["(a*)*b", "(a|aa)+b", "(x+x+)+y", "(.*.*.*.*.*.*.*.*.*){20}b", "(a?){100}a{100}b"],
)
def test_what_takes_exponential_time_elsewhere_takes_less_than_a_millisecond(
    expression: str,
) -> None:
    """The least of three is judged: the first match of an expression builds its tables."""
    pattern = compiled(expression)
    names = ["a" * 200 + letter for letter in "xyz"]
    spent_s = []
    for name in names:
        begun_s = time.thread_time()
        assert not pattern.fullmatch(name)
        spent_s.append(time.thread_time() - begun_s)
    assert min(spent_s) < 0.001
