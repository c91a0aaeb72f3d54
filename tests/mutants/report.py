"""Count verdicts by room and write them as a table and as a list of survivors."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tests.mutants.language import Mutant

__all__ = ["NOT_NOTICED", "difference", "entry", "score", "survivors", "table"]

NOT_NOTICED = frozenset({"survived", "unreached"})
_COLUMNS = ("tried", "killed", "timeout", "survived", "unreached")


def difference(source: str, changed: str) -> list[str]:
    """Return the changed lines, without context."""
    lines = difflib.unified_diff(source.splitlines(), changed.splitlines(), lineterm="", n=0)
    return [line for line in lines if line[:2] not in {"--", "++", "@@"}]


def entry(mutant: Mutant, verdict: Mapping[str, Any], diff: list[str]) -> dict[str, Any]:
    """Return a mutant and what became of it as the report has it."""
    return {
        "file": mutant.file,
        "line": mutant.line,
        "key": list(mutant.key),
        "diff": diff,
        **verdict,
    }


def _counts(entries: Iterable[Mapping[str, Any]]) -> Counter[str]:
    counts = Counter(entry["status"] for entry in entries)
    counts["tried"] = counts.total()
    return counts


def score(entries: Iterable[Mapping[str, Any]]) -> float:
    """Return the share of noticed mutants in percent.

    One that runs into the time limit is noticed.
    """
    counts = _counts(entries)
    return (
        100 * (counts["killed"] + counts["timeout"]) / counts["tried"] if counts["tried"] else 100.0
    )


def table(rooms: Mapping[str, list[dict[str, Any]]], equivalent: Mapping[str, int]) -> str:
    """Return a row for each room and one for all, in Markdown."""
    rows = ["| room | tried | killed | timed out | survived | unreached | score | equivalent |"]
    rows.append("| --- " + "| ---: " * 7 + "|")
    whole = [entry for entries in rooms.values() for entry in entries]
    for room, entries in [*rooms.items(), ("all", whole)]:
        counts = _counts(entries)
        apart = equivalent.get(room, 0) if room != "all" else sum(equivalent.values())
        cells = [
            room,
            *(str(counts[column]) for column in _COLUMNS),
            f"{score(entries):.0f} %",
            str(apart),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def survivors(entries: Iterable[Mapping[str, Any]], statuses: Collection[str] = NOT_NOTICED) -> str:
    """Return each mutant that no test noticed, or that ended otherwise.

    Place, operator and changed line.
    """
    blocks = []
    for entry in entries:
        if entry["status"] in statuses:
            operator, nth = entry["key"][3:]
            head = f"{entry['file']}:{entry['line']} {operator} {nth} {entry['status']}"
            ran = f" ({entry['tests']} tests ran, {entry['left']} left)" if entry["tests"] else ""
            blocks.append("\n".join([head + ran, *("    " + line for line in entry["diff"])]))
    return "\n".join(blocks)
