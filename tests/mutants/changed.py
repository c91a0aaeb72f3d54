"""Try mutants of the lines that changed since a commit, within some minutes.

docs/develop/mutants.md.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.mutants.copies import Copies
from tests.mutants.draw import draw, language_of, read_equivalent
from tests.mutants.language import Mutant
from tests.mutants.reach import Imports, Reach, collect
from tests.mutants.report import NOT_NOTICED, difference, entry, survivors
from tests.mutants.rooms import ROOMS, SUITE, files_of, tracked
from tests.mutants.trial import try_mutant
from tests.support.common import ROOT

__all__ = ["EACH", "added_lines", "changed_lines", "near_tests", "try_changed"]

EACH: Final = 30
_MEASURING: Final = 2 / 3  # share of the time in which tests are measured


def added_lines(diff: str) -> dict[str, set[int]]:
    """Return the lines that a diff without context adds, by file."""
    found: dict[str, set[int]] = {}
    file = ""
    left = 0
    for line in diff.splitlines():
        if left:
            left -= not line.startswith("\\")  # a note that no newline ends the file
        elif line.startswith("+++ "):
            file = line.removeprefix("+++ ").removeprefix("b/").rstrip("\t")
        elif hunk := re.match(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line):
            removed = int(hunk[1] or 1)
            first = int(hunk[2])
            added = int(hunk[3] or 1)
            left = removed + added
            found.setdefault(file, set()).update(range(first, first + added))
    return found


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
        check=True,
    ).stdout


def changed_lines(root: Path, base: str) -> dict[str, set[int]]:
    """Return the lines of the product that were added since the branch left ``base``,
    uncommitted ones too.
    """
    paths = tracked(root)
    product = {path for room in ROOMS for path in files_of(room, paths)}
    options = (
        "--unified=0",
        "--no-color",
        "--no-ext-diff",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "--merge-base",
    )
    found = added_lines(_git(root, "-c", "core.quotepath=off", "diff", *options, base))
    for path in _git(root, "ls-files", "-z", "--others", "--exclude-standard").split("\0"):
        if path in product:
            found[path] = set(range(1, len((root / path).read_text().splitlines()) + 1))
    return {path: lines for path, lines in sorted(found.items()) if path in product and lines}


def near_tests(file: str, distance: int, imports: Imports, recorded: Mapping[str, Any]) -> set[str]:
    """Return the test files that import a module (1), or what imports it (2).

    Those that a recording names (0).
    """
    modules = set(imports.modules_of(file))
    if distance == 0:
        notes = {test: note["tests"].values() for test, note in recorded.items()}
        return {
            test
            for test, cases in notes.items()
            if any(not modules.isdisjoint(case["lines"]) for case in cases)
        }
    for _ in range(distance):
        modules = {other for module in modules for other in imports.of(module)}
    return {module for module in modules if Path(module).name.startswith("test_")}


class _Measured(NamedTuple):
    """Reach of the tests near the mutants.

    Attributes:
        missing: test files for which the time was over.
        late: files of mutants that such test files are near.
    """

    reach: Reach
    missing: list[str]
    late: set[str]


def _measure(
    copies: Copies, mutants: list[Mutant], imports: Imports, out: Path, until_s: float
) -> _Measured:
    """Measure test files until each mutant is reached: the recorded ones, then by distance."""
    record = out / "reach.json"
    store = out / "changed.json"
    recorded = json.loads(record.read_text()) if record.exists() else {}
    store.unlink(missing_ok=True)
    suite = [path for folder in SUITE for path in imports.texts if path.startswith(folder)]
    sources = sorted({module for mutant in mutants for module in imports.modules_of(mutant.file)})
    wanted: list[str] = []
    near: dict[str, set[str]] = {mutant.file: set() for mutant in mutants}
    reach = Reach({}, imports)
    stored = dict[str, Any]()
    for distance in range(3):
        for file in {
            mutant.file for mutant in mutants if not reach.tests(mutant.file, mutant.line)
        }:
            near[file] |= near_tests(file, distance, imports, recorded)
        found = set().union(*near.values())
        wanted += [test for test in suite if test in found and test not in wanted]
        if time.monotonic() < until_s:
            stored = collect(copies, wanted, sources, store, at_once=1, until_s=until_s)
            reach = Reach(stored, imports)
    missing = [test for test in wanted if test not in stored]
    return _Measured(
        reach, missing, {file for file, tests in near.items() if not tests.isdisjoint(missing)}
    )


def try_changed(base: str, seconds: float, each: int, seed: int, jobs: int, out: Path) -> int:
    """Try mutants of the lines that changed since ``base``.

    Return 1 where one is not noticed, else 0.
    """
    begun_s = time.monotonic()
    until_s = begun_s + seconds
    lines = changed_lines(ROOT, base)
    paths = tracked(ROOT)
    texts = {
        path: (ROOT / path).read_text() for path in paths if path.endswith((".py", ".c", ".h"))
    }
    sample = draw({path: texts[path] for path in lines}, seed, each, read_equivalent(), only=lines)
    count = sum(map(len, lines.values()))
    print(
        f"{len(sample.mutants)} mutants of {count} changed lines in {len(lines)} files "
        f"since {base}",
        flush=True,
    )
    if not sample.mutants:
        return 0
    copies = Copies(ROOT, out, jobs)
    reach, missing, late = _measure(
        copies, sample.mutants, Imports(texts), out, begun_s + _MEASURING * seconds
    )
    for name in reach.failing:
        print(f"fails without a mutant, not used: {name}")
    if missing:
        print(f"not measured in time, not used: {' '.join(missing)}")

    def judge(mutant: Mutant) -> dict[str, Any]:
        changed = language_of(mutant.file).mutated(texts[mutant.file], mutant)
        with copies.lent() as copy:
            verdict = try_mutant(
                copy, mutant, changed, reach.tests(mutant.file, mutant.line), until_s
            )
        if verdict.status in NOT_NOTICED and mutant.file in late:
            verdict = replace(verdict, status="unjudged")
        print(
            f"{verdict.status} {mutant.file}:{mutant.line} {mutant.operator} {verdict.seconds} s",
            flush=True,
        )
        return entry(mutant, verdict.as_json(), difference(texts[mutant.file], changed))

    with ThreadPoolExecutor(jobs) as threads:
        entries = list(threads.map(judge, sample.mutants))
    counts = Counter(each["status"] for each in entries)
    statuses = ("killed", "timeout", "survived", "unreached", "unjudged")
    print(
        ", ".join(f"{status} {counts[status]}" for status in statuses),
        f"({time.monotonic() - begun_s:.0f} s)",
    )
    print(survivors(entries, {*NOT_NOTICED, "unjudged"}))
    return int(any(each["status"] in NOT_NOTICED for each in entries))
