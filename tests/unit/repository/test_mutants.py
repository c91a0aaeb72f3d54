"""The mutation score counts what it should: samples, exclusions, reach and the report."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.mutants.draw import Mutant, draw, read_equivalent
from tests.mutants.plain import places, same, span
from tests.mutants.reach import Reach, Reaching
from tests.mutants.report import score, survivors, table
from tests.mutants.rooms import ROOMS, files_of
from tests.mutants.trial import parts
from tests.support.common import ROOT

SURVIVORS: Final = ROOT / "tests" / "mutants" / "survivors.md"
MODULE = '''"""Text."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from a import B

__all__ = ["C"]

logger = logging.getLogger(__name__)
LIMIT: int | None = 3


@dataclass(frozen=True, slots=True)
class C:
    """A value."""

    x: int | None = 1


class Model(Base, gc=False):
    y: Annotated[int, at_least(1)]


def f(
    a: int | None = 2,
) -> int | None:
    if a > LIMIT:
        logger.info("more by %d", a - LIMIT)
    return (
        a
        + 1
    )


def g(a: int, *, b: int = 1, c: int) -> int:
    return a + b + c


@router.get("/")
def route(n: Annotated[int, at_least(1)]) -> int:
    return n
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT: int | None", "LIMIT: int & None"),
        ("x: int | None", "x: int + None"),
        ("a: int | None", "a: int ** None"),
        ("-> int | None", "-> int / None"),
        ("if TYPE_CHECKING", "if not TYPE_CHECKING"),
        ('by %d", a - LIMIT', 'by %d", a + LIMIT'),
        ('"""A value."""', '"""Another."""'),
        ('["C"]', '["D"]'),
        ("slots=True", "slots=False"),
        ("gc=False", "gc=True"),
        ("a: int, *, b", "a: int, /, b"),
        ("a > LIMIT", "a >> > LIMIT"),
    ],
)
def test_a_change_without_effect_is_none(old: str, new: str) -> None:
    assert MODULE.count(old) == 1
    assert same(MODULE, MODULE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("None = 3", "None = 4"),
        ("None = 1", "None = 2"),
        ("None = 2", "None = 3"),
        ("a > LIMIT", "a >= LIMIT"),
        ("        + 1", "        - 1"),
        ("b: int = 1", "b: int = 2"),
        ("y: Annotated[int, at_least(1)]", "y: Annotated[int, at_least(2)]"),
        ("n: Annotated[int, at_least(1)]", "n: Annotated[int, at_least(2)]"),
        ('@router.get("/")\n', ""),
        ("frozen=True", "frozen=False"),
    ],
)
def test_a_change_with_effect_is_one(old: str, new: str) -> None:
    assert MODULE.count(old) == 1
    assert not same(MODULE, MODULE.replace(old, new))


def line_of(text: str) -> int:
    return MODULE[: MODULE.index(text)].count("\n") + 1


def test_a_line_is_known_by_what_encloses_it_and_runs_with_its_statement() -> None:
    assert places(MODULE)[line_of("x: int")] == "C"
    assert places(MODULE)[line_of("@dataclass")] == "C"
    assert line_of("LIMIT:") not in places(MODULE)
    first = line_of("return (")
    assert span(MODULE, line_of("+ 1")) == (range(first, first + 4), False)
    assert span(MODULE, line_of("if a >")) == (range(line_of("if a >"), line_of("if a >") + 1), False)
    for at_import in ("LIMIT:", "x: int", "a: int", "@router"):
        assert span(MODULE, line_of(at_import))[1], at_import


def find(file: str, source: str) -> dict[int, list[Mutant]]:
    """One mutant for each `+`, and one that changes nothing."""
    return {
        number: [Mutant(file, number, "", line.strip(), operator, number, 0) for operator in ("Sub", "Nothing")]
        for number, line in enumerate(source.splitlines(), 1)
        if "+" in line
    }


def change(source: str, mutant: Mutant) -> str:
    lines = source.splitlines()
    if mutant.operator == "Sub":
        lines[mutant.line - 1] = lines[mutant.line - 1].replace("+", "-")
    return "\n".join(lines)


SOURCES = {f"room/{name}.py": "\n".join(f"{name}{i} = {i} + 1" for i in range(20)) for name in "ab"}


def drawn(sources: dict[str, str], seed: int, each: int = 8) -> list[Mutant]:
    return draw(sources, seed, each, find=find, change=change).mutants


def test_the_sample_depends_on_the_seed_and_on_nothing_that_stands_next_to_it() -> None:
    first = drawn(SOURCES, 1)
    assert len(first) == 8
    assert first == drawn(dict(reversed(SOURCES.items())), 1)
    assert first != drawn(SOURCES, 2)
    assert {mutant.operator for mutant in first} == {"Sub"}, "a mutant that changes nothing is not drawn"
    moved = {file.replace("room", "house"): "import x\n\n" + source for file, source in SOURCES.items()}
    assert [(mutant.text, mutant.operator) for mutant in drawn(moved, 1)] == [
        (mutant.text, mutant.operator) for mutant in first
    ]
    assert len(drawn(SOURCES, 1, each=100)) == 40


def test_listed_mutants_leave_the_sample_and_are_counted_apart() -> None:
    first = drawn(SOURCES, 1)
    sample = draw(SOURCES, 1, 8, [first[2].key], find=find, change=change)
    assert sample.equivalent == [first[2]]
    assert len(sample.mutants) == 8
    assert first[2] not in sample.mutants


def test_each_listed_mutant_names_a_line_that_exists() -> None:
    for (file, place, text, _, _), reason in read_equivalent().items():
        source = (ROOT / file).read_text()
        lines, around = source.splitlines(), places(source)
        numbers = [number for number, line in enumerate(lines, 1) if line.strip() == text]
        assert place in {around.get(number, "") for number in numbers}, (file, text)
        assert len(reason) > 10, (file, text)


def test_every_room_has_files() -> None:
    paths = [str(path.relative_to(ROOT)) for path in [*ROOT.glob("vil_bridge/**/*.py"), *ROOT.glob("adapters/**/*.py")]]
    for room, patterns in ROOMS.items():
        for pattern in patterns:
            assert pattern in paths or "*" in pattern, pattern
        assert files_of(room, paths), room


def reach() -> Reach:
    def note(seconds: float, lines: dict[str, str], outcome: str = "passed") -> dict[str, object]:
        return {"s": seconds, "outcome": outcome, "lines": lines}

    first = line_of("return (")
    stored = {
        "tests/test_c.py": {
            "tests": {
                "tests/test_c.py::slow": note(2.0, {"p/c.py": f"{first}-{first + 3}"}),
                "tests/test_c.py::other": note(0.1, {}),
                "tests/test_c.py::wrong": note(0.1, {"p/c.py": f"{first}-{first}"}, "failed"),
            }
        },
        "tests/test_far.py": {"tests": {"tests/test_far.py::quick": note(0.01, {"p/c.py": f"{first}-{first}"})}},
    }
    return Reach(stored, {"p/c.py": MODULE, "tests/test_c.py": "from p.c import f", "tests/test_far.py": ""})


def test_tests_of_a_line_are_those_that_pass_and_reach_its_statement_the_cheapest_first() -> None:
    made = reach()
    names = [test.name for test in made.tests("p/c.py", line_of("+ 1"))]
    assert names == ["tests/test_far.py::quick", "tests/test_c.py::slow"]
    assert made.tests("p/c.py", line_of("logger.info")) == []
    assert made.failing == ["tests/test_c.py::wrong"]


def test_a_line_that_runs_at_import_is_reached_by_what_uses_or_names_the_module() -> None:
    names = [test.name for test in reach().tests("p/c.py", line_of("LIMIT:"))]
    assert set(names) == {"tests/test_far.py::quick", "tests/test_c.py::slow", "tests/test_c.py::other"}


def test_parts_grow_and_end_at_the_budget() -> None:
    tests = [Reaching(f"f::{number}", 1.0, 1.0) for number in range(100)]
    assert [len(part) for part in parts(tests)] == [4, 12, 43]
    assert [len(part) for part in parts([Reaching("f::long", 90.0, 1.0), *tests])] == [1]
    assert list(parts([])) == []


def test_the_report_counts_and_names_survivors() -> None:
    def made(status: str) -> dict[str, object]:
        key = ["p/c.py", "f", "a + 1", "Add_Sub", 0]
        return {
            "file": "p/c.py",
            "line": 7,
            "key": key,
            "diff": ["-a + 1", "+a - 1"],
            "status": status,
            "tests": 3,
            "left": 1,
        }

    entries = [made(status) for status in ("killed", "killed", "killed", "timeout", "survived", "unreached")]
    assert round(score(entries)) == 67
    assert "| room | 6 | 3 | 1 | 1 | 1 | 67 % | 2 |" in table({"room": entries}, {"room": 2})
    named = survivors(entries)
    assert named.count("p/c.py:7 Add_Sub 0 ") == 2
    assert "+a - 1" in named
    assert survivors(entries[:4]) == ""


def test_former_survivors_name_cases_that_exist() -> None:
    named = re.findall(r"`((?:unit|property|contract|e2e)/[\w/]+\.py)::(\w+)", SURVIVORS.read_text())
    assert len(named) > 10
    assert [(file, case) for file, case in named if f"def {case}(" not in (ROOT / "tests" / file).read_text()] == []
