"""Measures of what crowds a line, by room of the code.

``python -m tests.support.breath`` prints them, and ends with 1 where a room exceeds its allowance:
3 assignments of tuples (a tuple on both sides) and 10 conditional expressions in a thousand lines,
and no comprehension within another. Rooms of less than a thousand lines count as a thousand. The
linter sees to long lines.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from typing import Final, NamedTuple

from tests.mutants.rooms import ROOMS, files_of, tracked
from tests.support.common import ROOT

__all__ = ["Breath", "allowance", "breath_of", "rooms", "text"]

_TUPLES: Final = 3.0
_CONDITIONALS: Final = 10.0
_LINES: Final = 1000
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Breath(NamedTuple):
    """Counts of some code.

    Attributes:
        lines: all, empty ones too.
        tuples: assignments of tuples, a tuple on both sides.
        conditionals: conditional expressions.
        nested: comprehensions and generators that are within another.
    """

    lines: int
    tuples: int
    conditionals: int
    nested: int


def breath_of(sources: Iterable[str]) -> Breath:
    """Return the counts of the texts of modules, together."""
    lines = 0
    tuples = 0
    conditionals = 0
    nested = 0
    for source in sources:
        lines += source.count("\n")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Assign):
                given = isinstance(node.value, ast.Tuple)
                tuples += given and any(isinstance(target, ast.Tuple) for target in node.targets)
            elif isinstance(node, ast.IfExp):
                conditionals += 1
            elif isinstance(node, _COMPREHENSIONS):
                within = (below for below in ast.walk(node) if below is not node)
                nested += any(isinstance(below, _COMPREHENSIONS) for below in within)
    return Breath(lines, tuples, conditionals, nested)


def rooms() -> dict[str, Breath]:
    """Return the counts of each room with Python code."""
    paths = [path for path in tracked(ROOT) if path.endswith(".py")]
    files = {room: files_of(room, paths) for room in ROOMS}
    files["benchmarks"] = [path for path in paths if path.startswith("benchmarks/")]
    return {
        room: breath_of((ROOT / path).read_text() for path in found)
        for room, found in files.items()
        if found
    }


def allowance(lines: int) -> tuple[int, int, int]:
    """Return how many assignments of tuples, conditional expressions and nested comprehensions a
    room of so many lines may have.
    """
    thousands = max(lines, _LINES) / _LINES
    return int(_TUPLES * thousands), int(_CONDITIONALS * thousands), 0


def text(found: dict[str, Breath]) -> str:
    """Return the table: counts, and what is allowed."""
    rows = [f"{'room':12} {'lines':>7} {'tuples':>13} {'conditionals':>13} {'nested':>9}"]
    for room, counts in found.items():
        shown = zip(counts[1:], allowance(counts.lines), strict=True)
        cells = [f"{count} of {allowed}" for count, allowed in shown]
        rows.append(f"{room:12} {counts.lines:7} {cells[0]:>13} {cells[1]:>13} {cells[2]:>9}")
    return "\n".join(rows)


def exceeding(found: dict[str, Breath]) -> list[str]:
    """Return a sentence for each room that has more than it may."""
    kinds = ("assignments of tuples", "conditional expressions", "nested comprehensions")
    return [
        f"{room} has {count} {kind}, {allowed} are allowed: give each its line"
        for room, counts in found.items()
        for kind, count, allowed in zip(kinds, counts[1:], allowance(counts.lines), strict=True)
        if count > allowed
    ]


def main() -> int:
    """Print the table; return 1 where a room exceeds its allowance."""
    found = rooms()
    problems = exceeding(found)
    sys.stdout.write(text(found) + "\n" + "".join(f"{problem}\n" for problem in problems))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
