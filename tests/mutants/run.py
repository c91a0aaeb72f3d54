"""Score the tests by mutants of each room.

``python -m tests.mutants.run`` (docs/develop/mutants.md).
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.mutants.changed import EACH, try_changed
from tests.mutants.copies import Copies
from tests.mutants.draw import draw, language_of, read_equivalent
from tests.mutants.language import Mutant
from tests.mutants.reach import Imports, Reach, Reaching, collect, digest
from tests.mutants.report import difference, entry, score, survivors, table
from tests.mutants.rooms import ROOMS, SUITE, files_of, tracked
from tests.mutants.trial import try_mutant
from tests.support.common import ROOT

__all__ = ["main"]


class Verdicts:
    """Verdicts of earlier runs that still hold.

    Nothing of the mutated file or of the tests has changed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, dict[str, Any]] = (
            json.loads(path.read_text()) if path.exists() else {}
        )
        self._lock = threading.Lock()

    def _basis(self, mutant: Mutant, by: str, tests: list[Reaching]) -> str:
        """Return a digest of the killing test's file, or of all tests where none killed."""
        names = [by] if by else [test.name for test in tests]
        files = [ROOT / file for file in sorted({name.split("::")[0] for name in names})]
        return digest(
            (ROOT / mutant.file).read_text(),
            *names,
            *(file.read_text() for file in files if file.is_file()),
        )

    def known(self, mutant: Mutant, tests: list[Reaching]) -> dict[str, Any] | None:
        found = self._known.get(digest(*map(str, mutant.key)))
        if found and found["basis"] == self._basis(mutant, found["verdict"]["by"], tests):
            return dict(found["verdict"])
        return None

    def note(self, mutant: Mutant, tests: list[Reaching], verdict: dict[str, Any]) -> None:
        with self._lock:
            held = {"verdict": verdict, "basis": self._basis(mutant, verdict["by"], tests)}
            self._known[digest(*map(str, mutant.key))] = held
            self._path.write_text(json.dumps(self._known, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=__doc__)
    parser.add_argument("--rooms", default=",".join(ROOMS), help="names, separated by commas")
    parser.add_argument(
        "--each", type=int, help=f"mutants per room (40), or of the changed lines ({EACH})"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--suite", nargs="+", default=list(SUITE), help="folders or files of tests")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "mutants")
    parser.add_argument(
        "--reuse",
        action="store_true",
        help="keep coverage and verdicts of files that have not changed",
    )
    parser.add_argument(
        "--changed",
        metavar="BASE",
        help="mutants of the lines that changed since a commit, not of rooms",
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="time for --changed in all")
    parser.add_argument(
        "--at-least",
        type=float,
        default=0.0,
        help="percent; below it in any room the exit code is 1",
    )
    return parser.parse_args()


def main() -> int:
    """Run with the options of the command line; return the exit code."""
    options = _options()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    if options.changed:
        return try_changed(
            options.changed,
            options.seconds,
            options.each or EACH,
            options.seed,
            options.jobs,
            options.out,
        )
    if not options.reuse:
        for stale in ("reach.json", "verdicts.json"):
            (out / stale).unlink(missing_ok=True)
    each = options.each or 40
    copies = Copies(ROOT, out, options.jobs)
    paths = tracked(ROOT)
    texts = {
        path: (ROOT / path).read_text() for path in paths if path.endswith((".py", ".c", ".h"))
    }
    suite = [
        path
        for path in texts
        if Path(path).name.startswith("test_") and path.startswith(tuple(options.suite))
    ]
    measured = [path for room in ROOMS for path in files_of(room, paths)]
    reach = Reach(collect(copies, suite, measured, out / "reach.json"), Imports(texts))
    for name in reach.failing:
        print(f"fails without a mutant, not used: {name}")

    verdicts, listed = Verdicts(out / "verdicts.json"), read_equivalent()

    def judge(mutant: Mutant) -> dict[str, Any]:
        source = texts[mutant.file]
        changed = language_of(mutant.file).mutated(source, mutant)
        tests = reach.tests(mutant.file, mutant.line)
        verdict = verdicts.known(mutant, tests)
        if verdict is None:
            with copies.lent() as copy:
                verdict = try_mutant(copy, mutant, changed, tests).as_json()
            verdicts.note(mutant, tests, verdict)
            print(
                f"{verdict['status']} {mutant.file}:{mutant.line} {mutant.operator} "
                f"{verdict['seconds']} s",
                flush=True,
            )
        return entry(mutant, verdict, difference(source, changed))

    results: dict[str, list[dict[str, Any]]] = {}
    apart: dict[str, int] = {}
    with ThreadPoolExecutor(options.jobs) as threads:
        for room in options.rooms.split(","):
            sample = draw(
                {path: texts[path] for path in files_of(room, paths)}, options.seed, each, listed
            )
            results[room] = list(threads.map(judge, sample.mutants))
            apart[room] = len(sample.equivalent)
            head = {
                "seed": options.seed,
                "each": each,
                "failing": reach.failing,
                "equivalent": apart,
            }
            (out / "report.json").write_text(json.dumps({**head, "rooms": results}, indent=1))
    print(table(results, apart))
    print(survivors([one for entries in results.values() for one in entries]))
    return int(any(score(entries) < options.at_least for entries in results.values()))


if __name__ == "__main__":
    sys.exit(main())
