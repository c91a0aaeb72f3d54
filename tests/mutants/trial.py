"""Try one mutant: run the tests that reach it, in parts, until one of them fails."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from tests.mutants.copies import Copy, Run
from tests.mutants.language import Mutant
from tests.mutants.reach import Reaching

__all__ = ["Verdict", "parts", "try_mutant"]

BUDGET_S: Final = 60.0
_PARTS_S: Final = (4.0, 16.0, BUDGET_S)
_FILE_S: Final = 0.2
_LIMIT_FACTOR: Final = 5.0
_LIMIT_MORE_S: Final = 20.0
_SURE_S: Final = 0.3
_FAILED: Final = 1  # pytest's exit code


@dataclass(frozen=True)
class Verdict:
    """End of a mutant.

    ``killed`` or ``timeout``, by which test, ``survived``, ``unreached`` or ``unjudged``.
    """

    status: str
    by: str = ""
    tests: int = 0
    left: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def parts(tests: Iterable[Reaching]) -> Iterator[list[Reaching]]:
    """Split tests into parts whose ends are at 4, 16 and 60 s in all.

    What comes after is left out.
    """
    spent, files, part, ends = 0.0, set[str](), list[Reaching](), list(_PARTS_S)
    for test in tests:
        file = test.name.split("::")[0]
        spent += test.seconds + (0 if file in files else _FILE_S)
        files.add(file)
        if spent > BUDGET_S and part:
            break
        part.append(test)
        if spent >= ends[0]:
            yield part
            part = []
            while ends and spent >= ends[0]:
                del ends[0]
            if not ends:
                return
    if part:
        yield part


def _failing(output: str) -> str:
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return named[1] if named else output.strip().splitlines()[-1] if output.strip() else ""


def try_mutant(
    copy: Copy, mutant: Mutant, changed: str, tests: list[Reaching], until_s: float = math.inf
) -> Verdict:
    """Return what the tests, which all pass without the mutant, make of it.

    Args:
        until_s: end by the monotonic clock; a mutant that has no verdict by then is ``unjudged``.
    """
    if not tests:
        return Verdict("unreached")
    begun, ran = time.monotonic(), 0
    for part in parts(tests):
        if time.monotonic() >= until_s:
            break
        ran += len(part)
        with copy.holding(mutant.file, changed):
            run = _pytest(copy, part, until_s)
        verdict = Verdict(
            "timeout" if run.code is None else "killed",
            part[0].name if run.code is None else _failing(run.output),
            *(ran, len(tests) - ran, round(time.monotonic() - begun, 1)),
        )
        holds = run.code != 0 and _holds(copy, part, verdict, until_s, failed=run.code == _FAILED)
        if holds and time.monotonic() < until_s:
            return verdict
    status = "survived" if time.monotonic() < until_s else "unjudged"
    return Verdict(status, "", ran, len(tests) - ran, round(time.monotonic() - begun, 1))


def _pytest(copy: Copy, part: list[Reaching], until_s: float) -> Run:
    limit_s = _LIMIT_MORE_S + _LIMIT_FACTOR * sum(test.seconds for test in part)
    return copy.pytest(
        ["-x"], [test.name for test in part], max(0.0, min(limit_s, until_s - time.monotonic()))
    )


def _holds(
    copy: Copy, part: list[Reaching], verdict: Verdict, until_s: float, *, failed: bool
) -> bool:
    """Run slow tests, and all after another end than a failure, without the mutant.

    What ends so too says nothing.
    """
    doubted = [test for test in part if test.name == verdict.by] if failed else part
    return (failed and sum(test.seconds for test in doubted) < _SURE_S) or _pytest(
        copy, doubted, until_s
    ).code == 0
