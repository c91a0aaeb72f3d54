"""Measures of what crowds a line: counts by hand, and the allowance of every room."""

from __future__ import annotations

import pytest

from tests.support.breath import Breath, allowance, breath_of, exceeding, rooms

CROWDED = """
a, b = 1, 2
c = d = 3
(e, f), g = (4, 5), 6
h, i = pair
j = [k for k in [m for m in n]]
o = {p: [q for q in p] for p in r}
s = 1 if t else 2 if u else 3
"""


def test_counts_are_those_by_hand() -> None:
    assert breath_of([CROWDED]) == Breath(lines=8, tuples=2, conditionals=2, nested=2)
    assert breath_of([CROWDED, CROWDED]) == Breath(lines=16, tuples=4, conditionals=4, nested=4)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [(10, (3, 10, 0)), (1000, (3, 10, 0)), (1999, (5, 19, 0)), (2000, (6, 20, 0))],
)
def test_an_allowance_grows_with_the_lines(lines: int, expected: tuple[int, int, int]) -> None:
    assert allowance(lines) == expected


def test_one_more_than_allowed_is_named() -> None:
    assert exceeding({"new": Breath(1000, 3, 10, 0)}) == []
    (tuples, conditionals, nested) = exceeding({"new": Breath(1000, 4, 11, 1)})
    assert tuples == "new has 4 assignments of tuples, 3 are allowed: give each its line"
    assert conditionals.startswith("new has 11 conditional expressions, 10 are allowed")
    assert nested.startswith("new has 1 nested comprehensions, 0 are allowed")


@pytest.mark.process
def test_no_room_exceeds_its_allowance() -> None:
    assert exceeding(rooms()) == []
