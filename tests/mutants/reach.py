"""Measure by coverage which tests reach which line, and store it with the digest of each test
file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from tests.mutants.c_source import callers, is_c
from tests.mutants.copies import Copies, Copy
from tests.mutants.plain import span

__all__ = ["Imports", "Reach", "Reaching", "collect", "digest"]

_FILES_AT_ONCE: Final = 8
_LIMIT_S: Final = 1200
_RC: Final = """[run]
data_file = {data}
context = ${{VIL_MUTANTS_TEST-}}
parallel = true
sigterm = true
source = {source}
disable_warnings =
    no-data-collected
    module-not-imported
    module-not-measured
    module-not-python
    already-imported
"""


class Reaching(NamedTuple):
    """A test that reaches a mutant.

    ``cost`` orders: seconds, more for tests that do not name the module.
    """

    name: str
    seconds: float
    cost: float


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _packed(lines: Iterable[int]) -> str:
    runs = (
        list(run) for _, run in groupby(enumerate(sorted(lines)), lambda pair: pair[1] - pair[0])
    )
    return ",".join(f"{run[0][1]}-{run[-1][1]}" for run in runs)


def _unpacked(text: str) -> Iterable[int]:
    for run in text.split(","):
        first, last = run.split("-")
        yield from range(int(first), int(last) + 1)


def _measure(
    copy: Copy, files: list[str], sources: list[str], until_s: float
) -> dict[str, dict[str, Any]]:
    """Run test files under coverage.

    Return seconds, outcome and reached lines of each test, by file.
    """
    from coverage import CoverageData
    from coverage.exceptions import CoverageException

    limit_s = min(_LIMIT_S, until_s - time.monotonic())
    if limit_s <= 0.0:
        return {}
    with tempfile.TemporaryDirectory(prefix="vm") as scratch:
        folder = Path(scratch)
        roots = sorted({str(copy.folder / PurePosixPath(source).parent) for source in sources})
        (folder / "rc").write_text(_RC.format(data=folder / "data", source=",".join(roots)))
        notes = folder / "notes.json"
        more = {"COVERAGE_PROCESS_START": str(folder / "rc"), "VIL_MUTANTS_NOTES": str(notes)}
        more["PYTHONDONTWRITEBYTECODE"] = ""  # what is compiled now is read by all that follow
        run = copy.pytest(["-p", "tests.mutants.watch"], files, limit_s, more)
        if not notes.exists() and time.monotonic() >= until_s:
            return {}
        if not notes.exists():
            print(f"no result from {' '.join(files)}:\n{run.output[-2000:]}")
            again = files if len(files) > 1 else []
            return {
                k: v for file in again for k, v in _measure(copy, [file], sources, until_s).items()
            }
        results: dict[str, dict[str, Any]] = {file: {} for file in files}
        noted = json.loads(notes.read_text())
        for name, (seconds, outcome) in noted["tests"].items():
            results.setdefault(name.split("::")[0], {})[name] = {
                "s": round(seconds, 3),
                "outcome": outcome,
                "lines": {},
            }
        reached: dict[tuple[str, str], set[int]] = {}
        for part in folder.glob("data.*"):
            data = CoverageData(basename=str(part))
            with contextlib.suppress(CoverageException):  # a process was killed while it wrote
                data.read()
            for path in data.measured_files():
                file = os.path.relpath(path, copy.folder)
                for line, tests in data.contexts_by_lineno(path).items():
                    for name in filter(None, tests):
                        reached.setdefault((name, file), set()).add(line)
        for lender in noted["lending"]:
            tests = list(results[lender.split("::")[0]])
            for file in {file for name, file in reached if name == lender}:
                for name in tests[tests.index(lender) + 1 :]:
                    reached.setdefault((name, file), set()).update(reached[lender, file])
        for (name, file), lines in reached.items():
            if name in results.get(name.split("::")[0], {}):
                results[name.split("::")[0]][name]["lines"][file] = _packed(lines)
        return results


def collect(
    copies: Copies,
    suite: list[str],
    sources: list[str],
    store: Path,
    *,
    at_once: int = _FILES_AT_ONCE,
    until_s: float = math.inf,
) -> dict[str, Any]:
    """Measure the test files that the store does not hold as they are now; return all of it.

    Args:
        at_once: test files of one run, of which all or none are measured.
        until_s: end by the monotonic clock; files that were not measured by then are absent.
    """
    folder = copies.first.folder
    stored: dict[str, Any] = json.loads(store.read_text()) if store.exists() else {}
    digests = {file: digest((folder / file).read_text()) for file in suite}
    stored = {file: entry for file, entry in stored.items() if (folder / file).exists()}
    due = [file for file in suite if stored.get(file, {}).get("digest") != digests[file]]
    chunks = [due[first : first + at_once] for first in range(0, len(due), at_once)]

    def measure(chunk: list[str]) -> dict[str, dict[str, Any]]:
        with copies.lent() as copy:
            return _measure(copy, chunk, sources, until_s)

    with ThreadPoolExecutor(copies.count) as threads:
        for number, results in enumerate(threads.map(measure, chunks), 1):
            for file, tests in results.items():
                stored[file] = {"digest": digests[file], "tests": tests}
            store.write_text(json.dumps(stored))
            print(f"coverage: {number} of {len(chunks)} parts", flush=True)
    return stored


def _module(file: str) -> str:
    return re.sub(r"^(adapters|renderer)/|/__init__\.py$|\.py$", "", file).replace("/", ".")


class Imports:
    """Files by the modules that their text names."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self._calling: dict[str, list[str]] = {}
        self._naming: dict[str, list[str]] = {_module(file): [] for file in texts}
        for file, text in texts.items():
            names = set(re.findall(r"\w+(?:\.\w+)+", text))
            for package, imported in re.findall(r"from ([\w.]+) import (.*)", text):
                names |= {f"{package}.{name}" for name in re.findall(r"\w+", imported)}
            parts = [name.split(".") for name in names]
            for name in {".".join(each[:end]) for each in parts for end in range(2, len(each) + 1)}:
                if name in self._naming:
                    self._naming[name].append(file)

    def of(self, file: str) -> list[str]:
        """Return the files, tests among them, whose text imports a module, or calls functions of
        a file of C.
        """
        if not is_c(file):
            return self._naming[_module(file)]
        if file not in self._calling:
            self._calling[file] = callers(file, self.texts)
        return self._calling[file]

    def modules_of(self, file: str) -> list[str]:
        """Return a module itself; of a file of C, the modules that call its functions."""
        return self.of(file) if is_c(file) else [file]


class Reach:
    """Tests by the lines that they execute.

    Lines that run at import are reached through their module.
    """

    def __init__(self, stored: Mapping[str, Any], imports: Imports) -> None:
        self._texts = imports.texts
        self._imports = imports
        self._seconds: dict[str, float] = {}
        self._lines: dict[str, dict[int, set[str]]] = {}
        self._within: dict[str, set[str]] = {}
        self.failing: list[str] = []
        for entry in stored.values():
            for name, note in entry["tests"].items():
                if note["outcome"] == "passed":
                    self._seconds[name] = note["s"]
                    for file, packed in note["lines"].items():
                        for line in _unpacked(packed):
                            self._lines.setdefault(file, {}).setdefault(line, set()).add(name)
                elif note["outcome"] == "failed":
                    self.failing.append(name)

    def _within_functions(self, file: str) -> set[str]:
        if file not in self._within:
            source = self._texts[file]
            lines = self._lines.get(file, {})
            self._within[file] = {
                name for line in lines if not span(source, line)[1] for name in lines[line]
            }
        return self._within[file]

    def tests(self, file: str, line: int) -> list[Reaching]:
        """Return the tests that reach a line, the cheapest first.

        Of C: functions of the modules that call its file.
        """
        modules = self._imports.modules_of(file)
        naming = [other for module in modules for other in self._imports.of(module)]
        weights: dict[str, float] = {}
        at_import = False
        if is_c(file):
            for module in modules:
                weights.update(dict.fromkeys(self._within_functions(module), 5.0))
        else:
            lines, at_import = span(self._texts[file], line)
            for number in lines:
                weights.update(dict.fromkeys(self._lines.get(file, {}).get(number, ()), 5.0))
        if at_import:
            for other in naming:
                if other in self._lines:
                    weights.update(dict.fromkeys(self._within_functions(other), 25.0))
            weights.update(dict.fromkeys(self._within_functions(file), 5.0))
        for name in self._seconds:
            if name.split("::")[0] in naming and (at_import or name in weights):
                weights[name] = 1.0
        found = [
            Reaching(name, self._seconds[name], weight * (self._seconds[name] + 0.02))
            for name, weight in weights.items()
        ]
        return sorted(found, key=lambda test: (test.cost, test.name))
